"""Objects in files: the schema of a class, and the field that holds an object of it."""

from collections.abc import Callable, Mapping
from inspect import get_annotations
from types import SimpleNamespace
from typing import Any, TypeVar

from coverwalk.files.fields import Field, Store
from coverwalk.files.limits import SchemaError, Scope, evaluate, is_name, refuse

Check = Callable[[Any, Scope], None]
T = TypeVar("T")


class Schema(Field):
    """The fields of a class, in the order in which they are read; or of a dictionary in it, with its dimensions."""

    def __init__(self, *, check: Check | None = None, **fields: Field) -> None:
        self.fields, self._check = fields, check

    def check_parameters(self, state: Mapping[str, Any], *names: str) -> None:
        """Raise ValueError for the first of these fields, by default all, that holds what a file could not."""
        scope: Scope = {}
        for name in names or self.fields:
            self.fields[name].check(name, state[name], scope)

    def write(self, value: dict[str, Any], where: str, store: Store) -> dict[str, Any]:
        if type(value) is not dict:
            refuse(where, "a dict", value)
        if unknown := sorted(value.keys() - self.fields.keys()):
            raise SchemaError(f"{where} has {', '.join(unknown)}, for which files have no place: delete it first")
        return {name: self.fields[name].write(item, f"{where}.{name}", store) for name, item in value.items()}

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str = "") -> dict[str, Any]:
        if type(node) is not dict:
            refuse(where, "an object", node)
        if unknown := sorted(node.keys() - self.fields.keys()):
            raise SchemaError(f"{where} has fields that its class does not have: {unknown}")
        state: dict[str, Any] = {}
        for key, field in self.fields.items():
            if key in node:
                state[key] = field.read(node[key], f"{where}.{key}", store, scope, key)
            elif not field.optional:
                raise SchemaError(f"{where} lacks {key}")
        if self._check:
            self._check(SimpleNamespace(**state), scope)
        return state


def stored(
    *, check: Check | None = None, read_first: tuple[str, ...] = (), **fields: Field
) -> Callable[[type[T]], type[T]]:
    """Declare the schema of a NamedTuple or dataclass, from annotations ``Annotated[type, field]`` or by keywords.

    read_first: fields that are read before the others, since they tell dimensions.
    """

    def declare(cls: type[T]) -> type[T]:
        hints = {name: getattr(hint, "__metadata__", ()) for name, hint in get_annotations(cls).items()}
        told = {name: found[0] for name, found in hints.items() if found and isinstance(found[0], Field)}
        if "__init__" in vars(cls):  # users see types in its signature
            cls.__init__.__annotations__.update({name: get_annotations(cls)[name].__origin__ for name in told})
        cls._schema = Schema(check=check, **{name: told[name] for name in (*read_first, *told)}, **fields)  # type: ignore[attr-defined]
        return cls

    return declare


class Object(Field):
    """An object of one of some classes that have a schema; keywords are dimensions that it gets from ours.

    A keyword whose value is a name that is not known yet becomes known by the part.
    """

    def __init__(self, *classes: type, **dimensions: int | str) -> None:
        self.classes, self.dimensions = {cls.__name__: cls for cls in classes}, dimensions

    def write(self, value: Any, where: str, store: Store) -> Any:
        name = type(value).__name__
        if self.classes.get(name) is not type(value):
            hint = "functions cannot be stored" if callable(value) else f"files hold {' or '.join(self.classes)} there"
            raise SchemaError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}; {hint}")
        fields = schema_of(type(value)).write(state_of(value), where, store)
        return fields if len(self.classes) == 1 else {"is": name, **fields}

    def read(self, node: Any, where: str, store: Store, scope: Scope, name: str) -> Any:
        cls = next(iter(self.classes.values()))
        if len(self.classes) > 1:
            if type(node) is not dict or type(node.get("is")) is not str or node["is"] not in self.classes:
                refuse(where, f"one of {', '.join(self.classes)}", node.get("is") if type(node) is dict else node)
            cls = self.classes[node["is"]]
            node = {key: value for key, value in node.items() if key != "is"}
        told = {ours for ours in self.dimensions.values() if is_name(ours) and ours not in scope}
        inner: Scope = {theirs: evaluate(ours, scope) for theirs, ours in self.dimensions.items() if ours not in told}
        inner["kind"] = cls.__name__
        made = build(cls, schema_of(cls).read(node, where, store, inner))
        for theirs, ours in self.dimensions.items():
            if ours in told and theirs in inner:
                scope[str(ours)] = inner[theirs]
        scope[name] = SimpleNamespace(**inner)
        return made


def state_of(value: Any) -> dict[str, Any]:
    """The fields of an object: those of a NamedTuple, or what is pickled."""
    state = value._asdict() if hasattr(value, "_asdict") else value.__getstate__()
    return dict(state or {})


def schema_of(cls: type) -> Schema:
    """The schema that is declared in a class itself."""
    schema = vars(cls)["_schema"]
    assert isinstance(schema, Schema)
    return schema


def build(cls: Any, state: dict[str, Any]) -> Any:
    """An object of its checked fields; no constructor runs."""
    if issubclass(cls, tuple):
        return cls._make(state[name] for name in cls._fields)
    made = object.__new__(cls)
    if hasattr(cls, "__setstate__"):
        made.__setstate__(state)
    else:
        made.__dict__.update(state)
    return made
