"""Every public method says what it takes and what it returns, in numpy style."""

import importlib
import inspect
import re

import pytest

MODULES = [
    "",
    ".evaluation",
    ".covers",
    ".local",
    ".pipeline",
    ".datasets",
    ".base",
    ".adapters.river",
    ".adapters.skpro",
]


def public_callables():
    """Functions and methods that users call, once each; what other libraries define is theirs."""
    found = {}
    for name in MODULES:
        try:
            module = importlib.import_module("coverwalk" + name)
        except ImportError:  # an adapter whose library is not installed
            continue
        for public in module.__all__:
            thing = getattr(module, public)
            members = [thing] if inspect.isfunction(thing) else []
            if inspect.isclass(thing):
                members = [getattr(thing, n) for n in dir(thing) if not n.startswith("_")]
            for member in members:
                function = inspect.unwrap(getattr(member, "__func__", member))
                if inspect.isfunction(function) and function.__module__.startswith("coverwalk"):
                    found.setdefault(f"{function.__module__}.{function.__qualname__}", member)
    return found


CALLABLES = public_callables()


def section(doc, name):
    match = re.search(rf"^{name}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", doc, re.MULTILINE | re.DOTALL)
    return match[1] if match else None


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_parameters_and_returns(name):
    member = CALLABLES[name]
    doc, signature = inspect.getdoc(member), inspect.signature(member)
    assert doc, f"{name} has no docstring"
    parameters = [p for p in signature.parameters if p not in ("self", "cls")]
    if parameters:
        told = section(doc, "Parameters")
        assert told, f"{name} does not say what its parameters are"
        names = {
            n.strip(" *") for line in re.findall(r"^\S.*$", told, re.MULTILINE) for n in line.split(" : ")[0].split(",")
        }
        assert names >= {p for p in parameters if p != "options"}, f"{name} tells of {names}, and takes {parameters}"
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        assert section(doc, "Returns") or section(doc, "Yields"), f"{name} does not say what it returns"


def public_classes():
    for name in MODULES:
        try:
            module = importlib.import_module("coverwalk" + name)
        except ImportError:
            continue
        yield from (getattr(module, public) for public in module.__all__ if inspect.isclass(getattr(module, public)))


@pytest.mark.parametrize("thing", sorted(set(public_classes()), key=lambda c: c.__qualname__), ids=lambda c: c.__name__)
def test_classes_name_the_parameters_that_they_take(thing):
    told = section(inspect.getdoc(thing) or "", "Parameters")
    if told is None:
        return
    heads = [line.split(" : ")[0] for line in re.findall(r"^\S.*$", told, re.MULTILINE)]
    names = [name.strip(" *") for head in heads for name in head.split(",")]
    taken = list(inspect.signature(thing).parameters)
    if thing.__init__.__module__.startswith("coverwalk"):
        assert names == taken
    else:
        assert set(names) <= set(taken)


def test_there_are_many():
    assert len(CALLABLES) > 150
