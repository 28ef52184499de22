"""Plain values of any kind: what users give as parameters, labels, symbols and names of contexts."""

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from coverwalk.files.fields import Field, Store
from coverwalk.files.limits import SchemaError, Scope, refuse

DEEPEST = 32  # nesting of lists in lists
_DTYPES = {np.dtype(code).str for code in ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")}
_KINDS = {"list": list, "set": set, "frozenset": frozenset}
_WORD = 2**32


class Plain(Field):
    """None, a flag, number or text, bytes, a number or flat array of numpy, or lists, tuples, sets and tables of them.

    Nothing is computed from such a value on loading; whoever uses it later checks it as a user's.
    """

    def write(self, value: Any, where: str, store: Store) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, np.generic) and value.dtype.str in _DTYPES:
            return {"scalar": value.dtype.str, "of": [self.write(value.item(), where, store)]}
        if isinstance(value, np.ndarray) and value.dtype.str in _DTYPES and value.ndim == 1:
            return {"array": value.dtype.str, "of": [self.write(item, where, store) for item in value.tolist()]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "UO" and value.ndim == 1:
            return {"array": "O", "of": [self.write(item, where, store) for item in value.tolist()]}
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

    def read_hashable(self, node: Any, where: str) -> Hashable:
        """A value that may be the key of a table."""
        value = _read(node, where, 0)
        try:
            hash(value)
        except TypeError:
            refuse(where, "a hashable value", value)
        return value  # type: ignore[no-any-return]


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
    if tag == "float" and inside in ("nan", "inf", "-inf"):
        return float(inside)
    try:
        if tag == "bytes":
            return bytes.fromhex(inside)
        if tag in _KINDS:
            return _KINDS[tag]([_read(item, where, depth + 1) for item in _listed(inside, where)])
        if tag == "dict":
            return {_read(key, where, depth + 1): _read(item, where, depth + 1) for key, item in _listed(inside, where)}
        if rest and type(inside) is str and (inside in _DTYPES or (inside == "O" and tag == "array")):
            return _numpy(tag, inside, [_read(item, where, depth + 1) for item in _listed(rest[0][1], where)], where)
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"{where} is no plain value ({error})") from error
    raise SchemaError(f"{where} must be a plain value, found {tag!r}")


def _listed(node: Any, where: str) -> list[Any]:
    if type(node) is not list:
        refuse(where, "a list", node)
    return node


def _numpy(tag: str, dtype: str, values: list[Any], where: str) -> Any:
    """A scalar or a flat array; numbers in it are numbers, so that numpy makes no more of them than they are."""
    if dtype == "O":
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    if not all(type(value) in (bool, int, float) for value in values) or (tag == "scalar" and len(values) != 1):
        refuse(where, f"numbers of {dtype}", values)
    array = np.array(values, dtype=dtype)
    return array[0] if tag == "scalar" else array


class Random(Field):
    """What scikit-learn takes as ``random_state``: None, a number, or a generator, whose next draw is the same."""

    def write(self, value: Any, where: str, store: Store) -> Any:
        if isinstance(value, np.random.RandomState):
            state: Any = value.get_state(legacy=False)
            if state["bit_generator"] == "MT19937":
                inner = state["state"]
                return {"RandomState": [inner["key"].tolist(), inner["pos"], state["has_gauss"], state["gauss"]]}
        elif isinstance(value, np.random.Generator):
            state = value.bit_generator.state
            if state["bit_generator"] == "PCG64":
                inner = state["state"]
                return {"Generator": [inner["state"], inner["inc"], state["has_uint32"], state["uinteger"]]}
        elif value is None or isinstance(value, int | np.integer):
            return None if value is None else int(value)
        raise SchemaError(f"{where} must be None, a whole number, a RandomState or a Generator of the usual kinds")

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        if node is None or (type(node) is int and 0 <= node < 2**62):
            return node
        if type(node) is dict and node.keys() == {"RandomState"} and type(node["RandomState"]) is list:
            return _mersenne(node["RandomState"], where)
        if type(node) is dict and node.keys() == {"Generator"} and type(node["Generator"]) is list:
            return _pcg64(node["Generator"], where)
        raise SchemaError(f"{where} must be None, a whole number from 0 to 2**62 - 1 or a generator")


def _within(value: Any, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _mersenne(node: list[Any], where: str) -> np.random.RandomState:
    if len(node) != 4 or type(node[0]) is not list or type(node[3]) is not float or not math.isfinite(node[3]):
        refuse(where, "the state of a RandomState", node)
    key, pos, has_gauss, gauss = node
    if len(key) != 624 or not all(_within(word, _WORD) for word in key) or not any(key):
        refuse(where, "the state of a RandomState", node)
    if not (_within(pos, 625) and _within(has_gauss, 2)):
        refuse(where, "the state of a RandomState", node)
    made = np.random.RandomState(0)
    made.set_state(("MT19937", np.array(key, np.uint32), pos, has_gauss, gauss))
    return made


def _pcg64(node: list[Any], where: str) -> np.random.Generator:
    if len(node) != 4 or not all(map(_within, node, (2**128, 2**128, 2, _WORD))) or node[1] % 2 == 0:
        refuse(where, "the state of a Generator", node)
    made = np.random.default_rng(0)
    state, inc, has_uint32, uinteger = node
    inner = {"state": state, "inc": inc}
    made.bit_generator.state = {
        "bit_generator": "PCG64", "state": inner, "has_uint32": has_uint32, "uinteger": uinteger
    }  # fmt: skip
    return made
