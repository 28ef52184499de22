"""Fields that are made of others: what may be missing, lists, tuples, tables, sets, generators."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from coverwalk.files.fields import Array, Field, Real, Store, Whole
from coverwalk.files.limits import SchemaError, Scope, evaluate, refuse
from coverwalk.files.plain import Plain


def Absent(field: Field) -> Field:
    """What the field holds, or nothing at all: an object may lack it."""
    field.optional = True
    return field


class Maybe(Field):
    """None, or what the field holds; the scope knows the name of a None, too."""

    def __init__(self, field: Field) -> None:
        self.field = field

    def write(self, value: Any, where: str, store: Store) -> Any:
        return None if value is None else self.field.write(value, where, store)

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        if node is None:
            scope[name] = None
            return None
        return self.field.read(node, where, store, scope, name)


class Either(Field):
    """A number, flag or text that one of some fields allows."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    def write(self, value: Any, where: str, store: Store) -> Any:
        return Real().write(value, where, store)

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        wanted, found = [], ""
        for field in self.fields:
            try:
                return field.read(node, where, store, scope, name)
            except SchemaError as error:
                expected, _, found = str(error).removeprefix(f"{where} must be ").rpartition(", found ")
                wanted.append(expected)
        raise SchemaError(f"{where} must be {', or '.join(wanted)}, found {found}")


class List(Field):
    """A list, or a tuple, of one kind of item; the scope knows its parts, and each item knows its place ``i``."""

    def __init__(
        self, item: Field, length: int | str | None = None, *, low: int = 0, high: int = 2**62, kind: Any = list
    ) -> None:
        self.item, self.length, self.low, self.high, self.kind = item, length, low, high, kind

    def write(self, value: Any, where: str, store: Store) -> Any:
        if type(value) is not self.kind:
            refuse(where, f"a {self.kind.__name__}", value)
        return [self.item.write(item, f"{where}[{i}]", store) for i, item in enumerate(value)]

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        if type(node) is not list or not self.low <= len(node) <= self.high:
            refuse(where, f"a list of {self.low} or more items", node)
        if self.length is not None and len(node) != evaluate(self.length, scope):
            refuse(where, f"a list of {self.length} = {evaluate(self.length, scope)} items", node)
        outer, items, known = scope.get("i"), [], []
        for i, item in enumerate(node):
            scope["i"] = i
            items.append(self.item.read(item, f"{where}[{i}]", store, scope, "item"))
            known.append(scope.pop("item", None))
        scope["i"], scope[name] = outer, known
        return self.kind(items)


class Tuple(Field):
    """A tuple of so many fields, with dimensions of its own; items know earlier ones as _0, _1, ..."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    def write(self, value: Any, where: str, store: Store) -> Any:
        if type(value) is not tuple or len(value) != len(self.fields):
            refuse(where, f"a tuple of {len(self.fields)}", value)
        return [field.write(item, f"{where}[{i}]", store) for i, (field, item) in enumerate(zip(self.fields, value))]

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        if type(node) is not list or len(node) != len(self.fields):
            refuse(where, f"a tuple of {len(self.fields)}", node)
        inner = dict(scope)
        made = tuple(
            field.read(item, f"{where}[{i}]", store, inner, f"_{i}")
            for i, (field, item) in enumerate(zip(self.fields, node))
        )
        scope[name] = SimpleNamespace(**inner)
        return made


class Table(Field):
    """A dictionary, or a Counter; its keys are hashable plain values."""

    def __init__(self, value: Field, kind: Any = dict) -> None:
        self.value, self.kind, self.key = value, kind, Plain()

    def write(self, value: Any, where: str, store: Store) -> Any:
        if type(value) is not self.kind:
            refuse(where, f"a {self.kind.__name__}", value)
        return [
            [self.key.write(key, where, store), self.value.write(item, f"{where}[{i}]", store)]
            for i, (key, item) in enumerate(value.items())
        ]

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        if type(node) is not list or not all(type(pair) is list and len(pair) == 2 for pair in node):
            refuse(where, "a table", node)
        made = self.kind()
        for i, pair in enumerate(node):
            key = self.key.read(pair[0], where, store, scope, "key")
            try:
                again = key in made
            except TypeError:
                refuse(where, "keys that can be hashed", key)
            if again:
                refuse(where, "a table that has each key once", key)
            made[key] = self.value.read(pair[1], f"{where}[{i}]", store, scope, "item")
        scope.pop("item", None)
        return made


class Link(Field):
    """An object that belongs to whoever holds this one, and is set again by its ``__setstate__``: not in the file."""

    def write(self, value: Any, where: str, store: Store) -> Any:
        return None

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        if node is not None:
            refuse(where, "nothing", node)


class Set(Plain):
    """A set of hashable plain values."""

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        value = super().read(node, where, store, scope, name)
        if type(value) is not set:
            refuse(where, "a set", value)
        return value


class Random(Field):
    """What scikit-learn takes as ``random_state``: None, a number, or a generator, whose next draw is the same."""

    SEED = Maybe(Whole(0, 2**62 - 1))
    MERSENNE = Tuple(Array(np.uint32, 624), Whole(0, 624), Whole(0, 1), Real())  # key, place in it, half a pair
    PCG64 = Tuple(Whole(0, 2**128 - 1), Whole(0, 2**128 - 1), Whole(0, 1), Whole(0, 2**32 - 1))

    def write(self, value: Any, where: str, store: Store) -> Any:
        if value is None or isinstance(value, int | np.integer):
            return None if value is None else int(value)
        state: Any = {"bit_generator": ""}
        if isinstance(value, np.random.RandomState):
            state = value.get_state(legacy=False)
        elif isinstance(value, np.random.Generator):
            state = value.bit_generator.state
        if state["bit_generator"] == "MT19937" and "gauss" in state:
            words = (*state["state"].values(), state["has_gauss"], state["gauss"])
            return {"RandomState": self.MERSENNE.write(words, where, store)}
        if state["bit_generator"] == "PCG64" and isinstance(value, np.random.Generator):
            words = (*state["state"].values(), state["has_uint32"], state["uinteger"])
            return {"Generator": self.PCG64.write(words, where, store)}
        raise SchemaError(f"{where} must be None, a whole number, a RandomState or a Generator of the usual kinds")

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        if type(node) is dict and node.keys() == {"RandomState"}:
            key, *rest = self.MERSENNE.read(node["RandomState"], where, store, scope, name)
            if not key.any():
                refuse(where, "the state of a RandomState", key)
            made = np.random.RandomState(0)
            made.set_state(("MT19937", key, *rest))
            return made
        if type(node) is dict and node.keys() == {"Generator"}:
            state, inc, has_uint32, uinteger = self.PCG64.read(node["Generator"], where, store, scope, name)
            if inc % 2 == 0:
                refuse(where, "the state of a Generator", inc)
            generator = np.random.default_rng(0)
            inner = {"bit_generator": "PCG64", "state": {"state": state, "inc": inc}}
            generator.bit_generator.state = {**inner, "has_uint32": has_uint32, "uinteger": uinteger}
            return generator
        return self.SEED.read(node, where, store, scope, name)
