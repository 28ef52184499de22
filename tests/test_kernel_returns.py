"""A kernel that Python calls returns nothing or a number: while an array or a tuple is made into a Python object, the
handler of Ctrl-C may run and raise, and the process crashes or reports a SystemError. Results go into given arrays.
"""

import ast
import importlib
import types as python_types
from pathlib import Path

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher

import coverwalk
from coverwalk import ConditionalDensity, ContextClassifier, Density, DoubleTree, SequenceModel

SOURCE = Path(coverwalk.__file__).parent
NUMBERS = {"None", "int", "float", "bool"}


def module_name(path):
    return ".".join(("coverwalk", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def all_modules():
    """Every module of the package, imported, with its syntax tree; but what is run by being imported."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__main__.py":
            yield importlib.import_module(module_name(path)), ast.parse(path.read_text())


def is_kernel(module, node):
    return isinstance(node, ast.FunctionDef) and isinstance(vars(module).get(node.name), Dispatcher)


def imported(module, tree):
    """What the names of a module mean: its own, and those of imports within functions."""
    names = dict(vars(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
            base = importlib.import_module("." * node.level + (node.module or ""), package)
            if base.__name__.startswith("coverwalk"):
                for alias in node.names:
                    if not hasattr(base, alias.name):
                        importlib.import_module(f"{base.__name__}.{alias.name}")
                    names[alias.asname or alias.name] = getattr(base, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("coverwalk"):
                    whole = importlib.import_module(alias.name)
                    names[alias.asname or "coverwalk"] = whole if alias.asname else coverwalk
    return names


def meaning(node, names):
    """The object that a name, or an attribute of a module, stands for."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        holder = meaning(node.value, names)
        return getattr(holder, node.attr, None) if isinstance(holder, python_types.ModuleType) else None
    return None


def mentioned(module, tree):
    """The kernels that a module mentions outside of kernels, under whatever name."""
    names = imported(module, tree)
    python = (inner for outer in tree.body if not is_kernel(module, outer) for inner in ast.walk(outer))
    return [kernel for node in python if isinstance(kernel := meaning(node, names), Dispatcher)]


def full_name(kernel):
    return kernel.py_func.__module__, kernel.py_func.__name__


TREES = {module.__name__: (module, tree) for module, tree in all_modules()}
THINGS = [thing for module, _ in TREES.values() for thing in vars(module).values()]
KERNELS = {full_name(thing) for thing in THINGS if isinstance(thing, Dispatcher)}
CALLED = sorted({full_name(kernel) for module, tree in TREES.values() for kernel in mentioned(module, tree)})


def learn_a_little():
    """Fits that compile most kernels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=120)
    ConditionalDensity(n_estimators=2, stop=0.5).fit(X, y).predict_dist(X).ppf(0.5)
    ConditionalDensity(n_estimators=2).partial_fit(X, y).predict(X)
    ContextClassifier(2, 1, random_state=0).fit(X, y > 0).predict_proba(X)
    Density(2).fit(X).logpdf(X)
    DoubleTree().fit(X, y).predict_dist(X).mean()
    SequenceModel("ab").fit("abab" * 20).predict_proba("ab")


def test_the_kernels_that_python_calls_are_found():
    assert 60 < len(CALLED) < len(KERNELS)
    assert ("coverwalk._kernels.forest.contexts", "fit_contexts") in CALLED  # by name
    assert ("coverwalk._kernels.double_tree.walk", "learn") in CALLED  # by module
    assert ("coverwalk._kernels.sequences.suffix_tree", "relink") in CALLED  # beside its caller
    assert ("coverwalk._kernels.forest.contexts", "_grams") not in CALLED  # by kernels alone


def test_a_kernel_is_found_under_any_name():
    source = """
import coverwalk._kernels.double_tree.walk as other
def f():
    from coverwalk._kernels import forest as folder
    from coverwalk._kernels.forest.learned import learn_rows as another
    return other.learn, folder.contexts.fit_contexts, another
"""
    module = python_types.ModuleType("coverwalk.new")
    names = [name for _, name in map(full_name, mentioned(module, ast.parse(source)))]
    assert sorted(names) == ["fit_contexts", "learn", "learn_rows"]


def test_they_are_declared_to_return_nothing_or_a_number():
    wrong = []
    for module, name in CALLED:
        functions = [node for node in ast.walk(TREES[module][1]) if isinstance(node, ast.FunctionDef)]
        (function,) = (node for node in functions if node.name == name)
        returned = ast.unparse(function.returns) if function.returns else "nothing declared"
        if returned not in NUMBERS:
            wrong.append(f"{module}.{name} -> {returned}")
    assert not wrong


def test_they_are_compiled_to_return_nothing_or_a_number():
    learn_a_little()
    compiled, wrong = 0, []
    for module, name in CALLED:
        for overload in vars(TREES[module][0])[name].overloads.values():
            compiled += 1
            returned = overload.signature.return_type
            if not (returned == types.none or isinstance(returned, (types.Number, types.Boolean))):
                wrong.append(f"{module}.{name} -> {returned}")
    assert not wrong
    assert compiled > 50
