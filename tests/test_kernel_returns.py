"""A kernel that Python calls returns nothing or a number: while an array or a tuple is made into a Python object, the
handler of Ctrl-C may run and raise, and the process crashes or reports a SystemError. Results go into given arrays.
"""

import ast
import importlib
from pathlib import Path

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher

import coverwalk
from coverwalk import ConditionalDensity, ContextClassifier, Density, DoubleTree

SOURCE = Path(coverwalk.__file__).parent
DECORATORS = {"kernel", "fused_kernel", "inlined_kernel"}
NUMBERS = {"None", "int", "float", "bool"}


def is_kernel(node):
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(name, ast.Name) and name.id in DECORATORS for name in node.decorator_list
    )


def module_name(path):
    return ".".join(("coverwalk", *path.relative_to(SOURCE).with_suffix("").parts))


def called_from_python():
    """Module and name of every kernel that a function which is not a kernel mentions, in any module of the package."""
    trees = {module_name(path): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    kernels = {(module, node.name) for module, tree in trees.items() for node in tree.body if is_kernel(node)}
    called = set()
    for module, tree in trees.items():
        known = {name: (home, name) for home, name in kernels if home == module}
        modules = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                base = node.module if not node.level else ".".join([*module.split(".")[: -node.level], node.module])
                for name in node.names:
                    known[name.asname or name.name] = (base, name.name)
                    modules[name.asname or name.name] = f"{base}.{name.name}"
        python = [node for node in tree.body if not is_kernel(node)]
        for node in (inner for outer in python for inner in ast.walk(outer)):
            if isinstance(node, ast.Name):
                called.add(known.get(node.id))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called.add((modules.get(node.value.id), node.attr))
    return trees, sorted(called & kernels)


TREES, CALLED = called_from_python()


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


def test_the_kernels_that_python_calls_are_found():
    assert len(CALLED) > 60
    assert ("coverwalk._kernels.forest.contexts", "fit_contexts") in CALLED  # by name
    assert ("coverwalk._kernels.double_tree.walk", "learn") in CALLED  # by module
    assert ("coverwalk.paper.double_kernel", "_log_density") in CALLED  # beside its caller
    assert ("coverwalk._kernels.forest.contexts", "_grams") not in CALLED  # by kernels alone


def test_they_are_declared_to_return_nothing_or_a_number():
    wrong = []
    for module, name in CALLED:
        (function,) = (node for node in TREES[module].body if is_kernel(node) and node.name == name)
        returned = ast.unparse(function.returns) if function.returns else "nothing declared"
        if returned not in NUMBERS:
            wrong.append(f"{module}.{name} -> {returned}")
    assert not wrong


def test_they_are_compiled_to_return_nothing_or_a_number():
    learn_a_little()
    compiled, wrong = 0, []
    for module, name in CALLED:
        dispatcher = getattr(importlib.import_module(module), name)
        assert isinstance(dispatcher, Dispatcher)
        for overload in dispatcher.overloads.values():
            compiled += 1
            returned = overload.signature.return_type
            if not (returned == types.none or isinstance(returned, (types.Number, types.Boolean))):
                wrong.append(f"{module}.{name} -> {returned}")
    assert not wrong
    assert compiled > 40
