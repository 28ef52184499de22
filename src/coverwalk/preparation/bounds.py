"""Bounds of y: a map from the interval of y to the whole line, logarithmic near a bound and linear away from it.

    z = log(a / c)   for a = y - low <= c,        z = a / c - 1   beyond,        and the same from above

It has a continuous derivative, and an inverse in closed form. Near a bound distances are seen as ratios; away from it
y is as it was, so that moments stay finite. c says where the one becomes the other; it is chosen on held-out rows.

**Skewed y without bounds** has the same map between a = b and a = c; below b it goes on as a straight line, across low
and beyond: every y keeps a density.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk._kernels.distributions.pieces import EXPONENTIAL, LINEAR
from coverwalk.files.schema import Real, require, stored

Pair = tuple[float | None, float | None]

NATURAL = (0.0,), (1.0, 100.0)  # where y that was given no bounds may have a lower one, and an upper one
EDGE_ROWS = 20  # rows beside a bound that nothing crosses: were there none, chance 2^-20
EDGE_WIDTH = 0.25  # how far from it, in standard deviations of y


@stored(check=lambda state, scope: _check_bounds(state))
@dataclass(frozen=True)
class Bounds:
    """Parameters: the bounds, infinite where open, c, and b, which is 0 where y keeps the bounds.

    Examples
    --------
    >>> bounds = Bounds(0.0, np.inf, 2.0)
    >>> z = bounds.forward([0.0, 1.0, 2.0, 6.0])
    >>> z.round(3).tolist()
    [-inf, -0.693, 0.0, 2.0]
    >>> bounds.backward(z).tolist()
    [0.0, 1.0, 2.0, 6.0]
    >>> Bounds(0.0, np.inf, 2.0, 1.0).forward([-1.0, 0.0, 1.0, 2.0]).round(3).tolist()
    [-2.693, -1.693, -0.693, 0.0]
    """

    low: Annotated[float, Real(inf=True, any_unit=True)]
    high: Annotated[float, Real(inf=True, any_unit=True)]
    c: Annotated[float, Real(above=0, any_unit=True)]
    b: Annotated[float, Real(low=0, any_unit=True)] = 0.0

    @property
    def _top(self) -> float:
        """The z from which on y is near the upper bound."""
        if self.low == -np.inf:
            return 0.0
        return (self.high - self.low) / self.c - 2.0

    def forward(self, y: ArrayLike) -> Floats:
        """From y to z; -inf at and below the lower bound, inf at and above the upper one."""
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.low == -np.inf:
                z = -self._ratio((self.high - y) / self.c)
            else:
                z = self._ratio((y - self.low) / self.c)
                near = (self.high - y) / self.c
                z = np.where(near <= 1.0, self._top - self._ratio(near), z)
        return np.asarray(np.where(np.isnan(y), np.nan, z))

    def _ratio(self, a: Floats) -> Floats:
        """The map of a distance from a bound, in units of c."""
        z = np.where(a <= 1.0, np.log(np.maximum(a, self.b / self.c)), a - 1.0)
        return np.where(a * self.c < self.b, z + a * self.c / self.b - 1.0, z) if self.b else z

    def _distance(self, z: Floats) -> Floats:
        """The distance from a bound, in units of c: the inverse of `_ratio`."""
        a = np.where(z < 0.0, np.exp(np.minimum(z, 0.0)), 1.0 + z)
        turn = self.b / self.c
        return np.where(z < np.log(turn), turn * (1.0 + z - np.log(turn)), a) if self.b else a

    def log_slope(self, y: ArrayLike) -> Floats:
        """log dz/dy within the bounds."""
        y = np.asarray(y, dtype=np.float64)
        near = np.clip(np.minimum(y - self.low, self.high - y), self.b or -np.inf, self.c)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-np.log(near))

    def backward(self, z: ArrayLike) -> Floats:
        """From z to y."""
        z = np.asarray(z, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.low == -np.inf:
                return np.asarray(self.high - self.c * self._distance(-z))
            y = self.low + self.c * self._distance(z)
            return np.asarray(np.where(z > self._top, self.high - self.c * self._distance(self._top - z), y))

    def pieces(self) -> tuple[list[float], list[tuple[int, float, float, float, float]]]:
        """Edges of z, and the form of y between them see `_kernels.distributions.pieces`."""
        turn = np.log(self.b / self.c) if self.b else -np.inf
        if self.low == -np.inf:
            edges, forms = [0.0], [(LINEAR, self.high - self.c, self.c, 0.0, 0.0)]
        else:
            near, away = (EXPONENTIAL, self.low, self.c, 1.0, 0.0), (LINEAR, self.low + self.c, self.c, 0.0, 0.0)
            edges, forms = [0.0], [near, away]
            if self.b:
                edges, forms = [turn, 0.0], [(LINEAR, self.low + self.b, self.b, 0.0, turn), *forms]
            if self.high < np.inf:
                edges.append(self._top)
        if self.high < np.inf:
            forms.append((EXPONENTIAL, self.high, -self.c, -1.0, edges[-1]))
            if self.b:
                edges.append(-turn)
                forms.append((LINEAR, self.high - self.b, self.b, 0.0, -turn))
        return [-np.inf, *edges, np.inf], forms


def _check_bounds(state: Any) -> None:
    closed = state.low > -np.inf or state.high < np.inf
    require("bounds", closed and state.low < state.high and 2.0 * state.c <= state.high - state.low)
    require("turns", state.b < state.c and (state.b == 0 or state.low == -np.inf or state.high == np.inf))


def checked_bounds(bounds: Any) -> tuple[float, float] | None:
    """The parameter ``bounds`` as two numbers, infinite where open; None for no bounds at all."""
    if bounds is None:
        return None
    try:
        low, high = bounds
        ends = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
    except (TypeError, ValueError):
        raise ValueError(
            f'bounds must be a pair (low, high), None in place of an open end, or "auto"; got {bounds!r}'
        ) from None
    if not ends[0] < ends[1] or ends[0] == np.inf or ends[1] == -np.inf:
        raise ValueError(f"bounds must have low < high; got {bounds!r}")
    return ends if ends != (-np.inf, np.inf) else None


def check_within(y: Floats, bounds: tuple[float, float]) -> None:
    """Refuse y that crosses its bounds."""
    outside = (y < bounds[0]) | (y > bounds[1])
    if outside.any():
        raise ValueError(
            f"y crosses its bounds {bounds}: {int(outside.sum())} of {len(y)} rows, {float(y[outside][0]):g} for "
            "one. Widen the bounds, or leave these rows out"
        )


def natural_bounds(y: Floats, atoms: Floats) -> tuple[float, float] | None:
    """Bounds that y (n,) shows by itself: where it piles up at an end, 0 where it begins with a sharp edge,
    and 1 or 100 where it ends with one.

    A sharp edge: nothing beyond, and at least 20 rows within a quarter of a standard deviation; a density that went on
    smoothly beyond would have left none there with a chance of 2^-20.
    """
    start, end = float(y.min()), float(y.max())
    width = EDGE_WIDTH * float(np.std(y / max(abs(start), abs(end), 1e-300))) * max(abs(start), abs(end))
    low, high = -np.inf, np.inf
    for value in (*NATURAL[0], *atoms.tolist()):
        if value == start if value in atoms else value <= start and np.sum(y - value <= width) >= EDGE_ROWS:
            low = max(low, value)
    for value in (*NATURAL[1], *atoms.tolist()):
        if value == end if value in atoms else value >= end and np.sum(value - y <= width) >= EDGE_ROWS:
            high = min(high, value)
    return (low, high) if low < high and (low, high) != (-np.inf, np.inf) else None
