"""Plain values of any kind: what users give as parameters, labels, symbols and names of contexts."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk.files.fields import Field, Store
from coverwalk.files.limits import SchemaError, Scope, refuse

DEEPEST = 32  # nesting of lists in lists
LONGEST = 2**20  # bytes that the strings of an array may be padded to, beyond eight times what they have
_DTYPES = {np.dtype(code).str for code in ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")}
_ARRAYS = {*_DTYPES, "U", "O"}  # texts of one array, and objects
_TYPES = {"b": bool, "f": float, "i": int, "u": int, "U": str}
_KINDS = {"list": list, "set": set, "frozenset": frozenset}


class Plain(Field):
    """None, a flag, number or text, bytes, a number or flat array of numpy, or lists, tuples, sets and tables of them.

    Nothing is computed from such a value on loading; whoever uses it later checks it as a user's.
    """

    def write(self, value: Any, where: str, store: Store) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, np.generic) and value.dtype.str in _DTYPES:
            return {"scalar": value.dtype.str, "of": [self.write(value.item(), where, store)]}
        if isinstance(value, np.ndarray) and value.ndim == 1:
            dtype = value.dtype.kind if value.dtype.kind in "UO" else value.dtype.str
            if dtype in _ARRAYS:
                return {"array": dtype, "of": [self.write(item, where, store) for item in value.tolist()]}
        if type(value) is dict:
            return {"dict": [[self.write(k, where, store), self.write(v, where, store)] for k, v in value.items()]}
        if type(value) is tuple:  # names of contexts are tuples, thousands of them
            return [self.write(item, where, store) for item in value]
        if type(value) in _KINDS.values():
            items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            return {type(value).__name__: [self.write(item, where, store) for item in items]}
        hint = "functions cannot be stored" if callable(value) else "only plain values can be stored there"
        raise SchemaError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}; {hint}")

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        return _read(node, where, 0)


def _read(node: Any, where: str, depth: int) -> Any:
    if node is None or type(node) in (bool, int, float, str):
        return node
    if type(node) is list and depth <= DEEPEST:
        return tuple([_read(item, where, depth + 1) for item in node])
    if depth > DEEPEST or type(node) is not dict or not 1 <= len(node) <= 2:
        refuse(where, "a plain value", node)
    (tag, inside), *rest = node.items()
    if rest and not (tag in ("scalar", "array") and rest[0][0] == "of"):
        refuse(where, "a plain value", node)
    try:
        if tag == "bytes":
            return bytes.fromhex(inside)
        if tag in _KINDS:
            return _KINDS[tag]([_read(item, where, depth + 1) for item in _listed(inside, where)])
        if tag == "dict":
            return {_read(key, where, depth + 1): _read(item, where, depth + 1) for key, item in _listed(inside, where)}
        if rest and type(inside) is str and inside in (_ARRAYS if tag == "array" else _DTYPES):
            return _numpy(tag, inside, [_read(item, where, depth + 1) for item in _listed(rest[0][1], where)], where)
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"{where} is no plain value ({error})") from error
    raise SchemaError(f"{where} must be a plain value, found {tag!r}")


def _listed(node: Any, where: str) -> list[Any]:
    if type(node) is not list:
        refuse(where, "a list", node)
    return node


def _numpy(tag: str, dtype: str, values: list[Any], where: str) -> Any:
    """A scalar or a flat array; its items are of its type, so that numpy makes no more of them than they are."""
    if dtype == "O":
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    kind = _TYPES[np.dtype(dtype).kind]
    if not all(type(value) is kind for value in values) or (tag == "scalar" and len(values) != 1):
        refuse(where, f"items of {dtype}", values)
    if dtype == "U":
        lengths = [len(text) for text in values]
        if 4 * max(lengths, default=0) * len(values) > 32 * sum(lengths) + LONGEST:  # numpy pads all to the longest
            refuse(where, "texts of similar lengths", values)
    array = np.array(values, dtype=dtype)
    return array[0] if tag == "scalar" else array


class Labels(Plain):
    """An array (n,) of labels in order, each once: numbers of some dtype, or strings."""

    def __init__(self, length: str) -> None:
        self.length = length

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> NDArray[Any]:
        array = super().read(node, where, store, scope, name)
        if not isinstance(array, np.ndarray):
            refuse(where, "labels", array)
        labels = array.tolist()
        one_kind = array.dtype != object or all(type(label) is str for label in labels)
        if not one_kind or not all(a < b for a, b in pairwise(labels)):
            refuse(where, "labels of one kind, sorted, each once", array)
        scope[self.length] = len(labels)
        return array
