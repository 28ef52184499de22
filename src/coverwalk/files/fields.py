"""Fields of a schema that hold one value: a flag, a number, a text, an array, names."""

from abc import ABC, abstractmethod
from functools import cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk.files.limits import LARGEST, Limits, SchemaError, Scope, evaluate, is_name, refuse

INLINE = 32  # numbers: smaller arrays stand in the header itself, since thousands of tiny ones would swell the file
MAX_EMPTY = 4096  # of a dimension that no number of an array bears out

Store = dict[str, NDArray[Any]]  # the arrays of a file by name; reading takes them out


class Field(ABC):
    """What one field of an object may hold, and how it is written as JSON values and arrays."""

    optional = False  # whether an object may lack it

    @abstractmethod
    def write(self, value: Any, where: str, store: Store) -> Any:
        """The JSON values of ``value``; its arrays go to the store."""

    @abstractmethod
    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        """The value of JSON values, or SchemaError; dimensions that it tells go to the scope."""

    def check(self, name: str, value: Any, scope: Scope | None = None) -> None:
        """Raise ValueError for a parameter that holds what a file could not."""
        try:
            store: Store = {}
            self.read(self.write(value, name, store), name, store, {} if scope is None else scope, name)
        except SchemaError as error:
            raise ValueError(str(error).replace(", found ", ", got ")) from None


class _Scalar(Field):
    """One plain value; the scope knows it by the name of its field."""

    def write(self, value: Any, where: str, store: Store) -> Any:
        if callable(value):
            raise SchemaError(
                f"{where} is a {type(value).__module__}.{type(value).__qualname__}; functions cannot be stored"
            )
        return value.item() if isinstance(value, np.generic) else value

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        self.require(node, where, scope)
        scope[name] = node
        return node

    @abstractmethod
    def require(self, value: Any, where: str, scope: Scope) -> None: ...


class Flag(_Scalar):
    """True or False."""

    def require(self, value: Any, where: str, scope: Scope) -> None:
        if type(value) is not bool:
            refuse(where, "true or false", value)


class Whole(_Scalar):
    """A whole number from low to high; a bound may be an expression of dimensions. It is itself a dimension."""

    def __init__(self, low: int | str, high: int | str = 2**62) -> None:
        self.low, self.high = low, high

    def require(self, value: Any, where: str, scope: Scope) -> None:
        low, high = evaluate(self.low, scope), evaluate(self.high, scope)
        if type(value) is not int or not low <= value <= high:
            refuse(where, f"a whole number {f'from {low} to {high}' if high < 2**62 else f'of at least {low}'}", value)


class Real(_Scalar):
    """A finite float within limits (low <= value <= high, above < value < below); ``whole`` takes integers too."""

    def __init__(self, *, inf: bool = False, whole: bool = False, **limits: Any) -> None:
        self.whole, self.inf, self.limits = whole, inf, Limits(inf=inf, **limits)
        self._bounded = bool(limits) or inf

    def require(self, value: Any, where: str, scope: Scope) -> None:
        if type(value) is not float and not (self.whole and type(value) is int and abs(value) < 2**1023):
            refuse(where, "a number" if self.whole else "a float", value)
        if not self.inf and not isfinite(value):
            refuse(where, "a finite number", value)
        if self._bounded:
            self.limits.require(np.array(float(value)), where, scope)
        elif abs(value) > LARGEST:
            refuse(where, f"a number within {LARGEST:g}", value)


class Text(_Scalar):
    """A string, one of the choices where there are any."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def require(self, value: Any, where: str, scope: Scope) -> None:
        if type(value) is not str or (self.choices and value not in self.choices):
            refuse(where, " or ".join(f'"{choice}"' for choice in self.choices) or "a text", value)


@cache
def _dtype(code: Any) -> np.dtype[Any]:
    native: np.dtype[Any] = np.dtype(code).newbyteorder("=")
    return native


class Array(Field):
    """An array of one dtype, whose shape is told in dimensions: numbers, names, or expressions of names.

    A name that is not known yet becomes known by the array. ``columns`` has the limits of columns of the last axis, by
    number; the other keywords are those of `Limits`, for all entries.

    >>> scope = {"p": 3}
    >>> Array(float, "n", "p + 1").read({"shape": [0, 4], "values": []}, "x", {}, scope, "x").shape, scope["n"]
    ((0, 4), 0)
    """

    def __init__(self, dtype: Any, *shape: int | str, columns: dict[int, Limits] | None = None, **limits: Any) -> None:
        self.dtype, self.shape = _dtype(dtype), shape
        self.limits, self.columns = Limits(**limits), columns or {}

    def write(self, value: Any, where: str, store: Store) -> Any:
        if not isinstance(value, np.ndarray):
            refuse(where, f"an array of {self.dtype}", value)
        if value.size > INLINE:
            store[where] = np.ascontiguousarray(value)
            return "@"
        if value.dtype != self.dtype:
            refuse(where, f"an array of {self.dtype}", value)
        values = value.ravel().tolist()
        return values if value.ndim == 1 else {"shape": list(value.shape), "values": values}

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> NDArray[Any]:
        if type(node) is str and node == "@":
            if where not in store:
                raise SchemaError(f"{where}: there is no array of this name in the file")
            array = store.pop(where)
        else:
            array = self._inline(node, where)
        self.require(array, where, scope)
        return array

    def _inline(self, node: Any, where: str) -> NDArray[Any]:
        values, shape = node, None
        if type(node) is dict and node.keys() == {"shape", "values"}:
            values, shape = node["values"], node["shape"]
            if type(shape) is not list or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
                refuse(where, "an array with a shape", shape)
        if type(values) is not list or len(values) > INLINE:
            refuse(where, f"an array of at most {INLINE} numbers, or one behind the header", values)
        kind = {"f": float, "i": int, "u": int, "b": bool}[self.dtype.kind]
        if not all(type(x) is kind for x in values):
            refuse(where, f"an array of {self.dtype}", values)
        try:
            array = np.array(values, self.dtype)
            return array if shape is None else array.reshape(shape)
        except (ValueError, OverflowError) as error:
            raise SchemaError(f"{where}: {error}") from error

    def require(self, array: NDArray[Any], where: str, scope: Scope) -> None:
        """Refuse an array that is not of this dtype, shape and limits."""
        if array.dtype != self.dtype or array.ndim != len(self.shape):
            refuse(where, f"an array of {self.dtype} with {len(self.shape)} axes", array)
        if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():  # kernels would take it for an index
            refuse(where, "true or false", array)
        for length, wanted in zip(array.shape, self.shape):
            if is_name(wanted) and wanted not in scope:
                if array.size == 0 and length > MAX_EMPTY:
                    refuse(where, "an array with numbers in it", array)
                scope[str(wanted)] = length
            elif length != evaluate(wanted, scope):
                shape = ", ".join(map(str, self.shape))
                refuse(where, f"an array of shape ({shape}), with {wanted} = {evaluate(wanted, scope)}", array)
        self.limits.require(array, where, scope)
        for column, limits in self.columns.items():
            limits.require(array[..., column], f"{where}[:, {column}]", scope)


class Names(Field):
    """An array (n,) of objects that are strings: names of columns."""

    def __init__(self, length: int | str) -> None:
        self.length = length

    def write(self, value: Any, where: str, store: Store) -> Any:
        return [str(name) for name in value]

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> NDArray[Any]:
        n = evaluate(self.length, scope)
        if type(node) is not list or len(node) != n or not all(type(text) is str for text in node):
            refuse(where, f"{n} names", node)
        if len(set(node)) < n:
            refuse(where, "names that differ", node)
        return np.array(node, dtype=object)
