"""Limits of numbers, told in dimensions: bounds, finiteness, indices, offsets, links of trees, sums."""

from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Scope = dict[str, Any]  # dimensions by name, and those of parts by the name of their field
ROUNDING = 1e-6  # of sums
LARGEST = 1e30  # of numbers in units of the model, which are of order one: products of ten are finite
SMALLEST = 1e-100  # of positive ones: squares of residuals that rounding left, for instance, are less than 1e-30
_FUNCTIONS = {"__builtins__": {}, "int": int, "len": len, "min": min, "max": max}  # of expressions


class SchemaError(ValueError):
    """A value that a schema does not allow."""


def refuse(where: str, expected: str, found: Any) -> NoReturn:
    """Raise SchemaError: what was expected, and what came."""
    found = found.item() if isinstance(found, np.ndarray) and found.ndim == 0 else found
    if isinstance(found, np.ndarray):
        shown = f"{found.dtype} of shape {found.shape}"
    else:
        shown = repr(found)[:80] if isinstance(found, str | int | float | bool | None) else type(found).__name__
    raise SchemaError(f"{where} must be {expected}, found {shown}")


def require(what: str, condition: Any) -> None:
    """Raise SchemaError unless the condition, or every entry of it, is true."""
    if condition is not True and not np.all(condition):  # numpy takes its time for a bool
        raise SchemaError(f"{what} of the model does not fit the rest of it")


@cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<schema>", "eval")


def is_name(expression: int | str) -> bool:
    """Whether a dimension is told by its name alone."""
    return isinstance(expression, str) and expression.isidentifier()


def evaluate(expression: Any, scope: Scope) -> Any:
    """The value of an expression; schemas write them, never files. Dimensions are Python's ints: nothing overflows."""
    if not isinstance(expression, str):
        return expression
    try:
        return eval(_compiled(expression), _FUNCTIONS, scope)
    except (NameError, AttributeError, LookupError, TypeError) as error:
        raise SchemaError(f"{expression} cannot be told ({error})") from error


@dataclass(frozen=True)
class Limits:
    """What must hold of all entries of an array, or of a column. Bounds may be expressions of dimensions.

    Parameters
    ----------
    low, high, above, below : number or expression
        low <= entry <= high, above < entry < below. By default, finite entries lie within 1e30, and
        those above 0 are at least 1e-100: learning goes on from them without overflow.
    any_unit : bool
        Entries are in units of the user, or follow from such: they have any size.
    nan, inf : bool
        Whether NaN and infinities are allowed, within the bounds.
    index : expression
        Entries are 0 to below this; with ``none``, or -1.
    offsets : expression
        Entries rise from 0 to this.
    children : bool
        Entry k is -1 or the first of two siblings k1, k1 + 1 after k; all but the first context have one parent.
    integral : bool
        Floats that are whole numbers.
    total, log_total : float
        Entries, or their exponentials, sum to this along the last axis.
    """

    low: Any = None
    high: Any = None
    above: Any = None
    below: Any = None
    any_unit: bool = False
    nan: bool = False
    inf: bool = False
    index: Any = None
    none: bool = False
    offsets: Any = None
    children: bool = False
    integral: bool = False
    total: float | None = None
    log_total: float | None = None

    def require(self, values: NDArray[Any], where: str, scope: Scope) -> None:
        """Raise SchemaError where they do not hold; numbers may overflow here, and are refused."""
        if values.dtype.kind == "f":
            if not self.nan and np.isnan(values).any():
                refuse(where, "numbers, not NaN", values)
            if not self.inf and np.isinf(values).any():
                refuse(where, "finite", values)
            if not self.any_unit:
                self._require_size(values, where)
        self._require_bounds(values, where, scope)
        if self.offsets is not None:
            end = evaluate(self.offsets, scope)
            rising = (
                len(values) > 0 and values[0] == 0 and values[-1] == end and bool((values[1:] >= values[:-1]).all())
            )
            if not rising:
                refuse(where, f"offsets that rise from 0 to {end}", values)
        if self.children:
            _require_tree(values, where)
        if self.integral and not (values == np.floor(values))[~np.isnan(values)].all():
            refuse(where, "whole numbers", values)
        for total, of in ((self.total, values), (self.log_total, np.exp(values) if self.log_total else None)):
            if total is not None and of is not None and not (np.abs(of.sum(axis=-1) - total) < ROUNDING).all():
                refuse(where, f"weights that sum to {total}", values)

    def _require_size(self, values: NDArray[Any], where: str) -> None:
        """Refuse finite numbers of sizes that none of order one has, where no bound says which are allowed."""
        finite = values[np.isfinite(values)] if self.nan or self.inf else values
        if self.high is None and self.below is None and finite.max(initial=0.0) > LARGEST:
            refuse(where, f"<= {LARGEST:g}", values)
        if self.low is None and self.above is None and finite.min(initial=0.0) < -LARGEST:
            refuse(where, f">= {-LARGEST:g}", values)
        if self.low is None and self.above == 0 and finite.min(initial=1.0) < SMALLEST:
            refuse(where, f">= {SMALLEST:g}", values)

    def _require_bounds(self, values: NDArray[Any], where: str, scope: Scope) -> None:
        low, high, above, below = (evaluate(b, scope) for b in (self.low, self.high, self.above, self.below))
        if self.index is not None:
            low, below = (-1 if self.none else 0), evaluate(self.index, scope)
        tests = ((low, np.less), (high, np.greater), (above, np.less_equal), (below, np.greater_equal))
        if any(bound is not None and wrong(values, bound).any() for bound, wrong in tests):
            if low is not None and high is not None:
                refuse(where, f"from {low} to {high}", values)
            signs = ((">=", low), ("<=", high), (">", above), ("<", below))
            refuse(where, " and ".join(f"{sign} {bound}" for sign, bound in signs if bound is not None), values)


def _require_tree(left: NDArray[Any], where: str) -> None:
    """Parents stand before their children, so that every descent ends. No sum is formed before it is bounded."""
    n = len(left)
    inner = np.flatnonzero(left != -1)
    child = left[inner].astype(np.int64)
    sound = n >= 1 and bool(((child > inner) & (child <= n - 2)).all())
    if not sound or not np.array_equal(np.sort(np.concatenate([child, child + 1])), np.arange(1, n)):
        refuse(where, "a tree: pairs of children after their parent", left)
