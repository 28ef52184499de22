"""The cache of compiled kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import coverwalk
from coverwalk import ConditionalDensity, ContextClassifier, Density, DoubleTree, SequenceModel
from coverwalk._kernels import _compile
from coverwalk._kernels._compile import _sources
from coverwalk._kernels.distributions.crps import mixture_crps
from coverwalk._kernels.forest.scaling import frame_rows, scale_rows
from coverwalk._kernels.forest.trees import learn_all, route_all
from coverwalk.cli import main
from coverwalk.warmup import compile_ahead


def test_a_source_is_another_where_one_that_it_imports_has_changed(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.py").write_text("from coverwalk._kernels.b import (\n    f,\n)\n")
    (tmp_path / "b.py").write_text("from .c import g\n")
    (tmp_path / "c.py").write_text("one\n")
    (tmp_path / "d.py").write_text("from coverwalk._kernels import e as at, c\n")
    (tmp_path / "e.py").write_text("alone\n")
    (tmp_path / "deep" / "f.py").write_text("from coverwalk._kernels.b import f\n")

    def changed(before):
        return [Path(path).stem for path, digest in _sources(tmp_path).items() if before[path] != digest]

    before = _sources(tmp_path)
    assert changed(before) == []
    (tmp_path / "e.py").write_text("changed\n")
    assert changed(before) == ["d", "e"]
    (tmp_path / "c.py").write_text("two\n")
    assert sorted(changed(before)) == list("abcdef")


DRAW = """
import numpy as np
from coverwalk._kernels.forest.feature_urn import draw_feature, empty_urn
print(draw_feature(empty_urn(1), 2**40, np.array([1], np.uint64)))
"""


def test_a_kernel_is_compiled_again_where_one_that_it_calls_has_changed(tmp_path):
    """Wherever the cache is: an upgrade changes some files, and not all."""
    shutil.copytree(Path(coverwalk.__file__).parent, tmp_path / "coverwalk", ignore=shutil.ignore_patterns("*.nb*"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def draw():
        command = [sys.executable, "-c", DRAW]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)

    first = draw()
    assert "compiling" in first.stderr
    assert draw().stderr == ""
    called = tmp_path / "coverwalk" / "_kernels" / "linalg" / "splitmix.py"
    called.write_text(called.read_text().replace("0x9E3779B97F4A7C15", "0x9E3779B97F4A7C17"))
    second = draw()
    assert "compiling" in second.stderr
    assert second.stdout != first.stdout
    assert draw().stdout == second.stdout


def test_where_no_cache_can_be_written_kernels_are_compiled_in_memory_and_it_is_said():
    program = """
from numba.core import caching
caching.CacheImpl._locator_classes = []  # as in a container whose folders are all read-only
from coverwalk._kernels.forest.polynomial import n_features
print(n_features(2, 3), n_features(1, 3))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["10", "4"]
    assert done.stderr.count("\n") == 1
    assert "compiling in memory, at every start" in done.stderr


def test_other_troubles_with_the_cache_are_not_hidden(monkeypatch):
    def broken(function):
        raise RuntimeError("something else")

    monkeypatch.setattr(_compile, "FunctionCache", broken)
    with pytest.raises(RuntimeError, match="something else"):
        _ = _compile._CacheWhenNeeded(len).cache_path


def test_loading_a_kernel_does_not_import_what_compiling_needs():
    """A tenth of a second of every first call."""
    program = """
import sys
from coverwalk._kernels.forest.polynomial import n_features
print(n_features(2, 3), "numba.np.linalg" in sys.modules)
"""
    for _ in range(2):  # the first may have to compile it
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["10", "False"]


WARM = """
import sys
from numba.core import event
compiled = []
class Count(event.Listener):
    def on_start(self, e): compiled.append(e.data["dispatcher"].py_func.__qualname__)
    def on_end(self, e): pass
event.register("numba:compile", Count())
from coverwalk.warmup.tasks import run_task
run_task("density")
print(len(compiled))
"""


def test_what_was_compiled_ahead_is_not_compiled_again():
    """`warmup` runs the task in a process, with a line when it is done; what it does not cache is compiled again."""
    command = [sys.executable, "-m", "coverwalk", "warmup", "--only", "density"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("1 of 1: density, ")
    assert done.stdout.startswith("coverwalk: all kernels are compiled, in ")
    again = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=True)
    assert again.stdout.split() == ["0"], again.stderr


def test_a_task_that_fails_is_told():
    with pytest.raises(RuntimeError, match=r"'nothing' could not be compiled:\n(.|\n)*KeyError"):
        list(compile_ahead(["nothing"], 1))


def test_there_is_no_other_part():
    assert main(["warmup", "--only", "nothing"]) == 1


RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = X[:, 0] + 0.3 * RNG.standard_normal(60)


def use(model, X, y):
    model.fit(X, y)
    model.partial_fit(X[:5], y[:5])
    return model.predict(X[:5])


def sequence(**parameters):
    model = SequenceModel("abc", depth=4, **parameters).fit("abcab" * 8)
    return model.predict_proba("ab")


def forest(**parameters):
    return use(ConditionalDensity(2, **parameters), X, Y)


def compiled():
    """How often each kernel was compiled, for one kind of arguments after another."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("coverwalk.")]
    kernels = {id(item): item for module in modules for item in vars(module).values() if isinstance(item, Dispatcher)}
    return {f"{item.py_func.__module__}.{item.py_func.__name__}": len(item.overloads) for item in kernels.values()}


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (lambda **p: use(ContextClassifier(2, 2, random_state=0, **p), X, Y > 0), {"alpha": 2.0}),
        (lambda **p: use(DoubleTree(**p), X, Y), {"alpha": 2.0, "a": 1.0, "ridge": 1.0, "nu": 4.0, "scatter": 1.0}),
        (lambda **p: Density(2, **p).fit(X).logpdf(X), {"a": 1.0}),
        (sequence, {"estimator": "dirichlet", "alpha": 1.0, "switching": 0.0}),
        (lambda **p: forest(stop=0.5, ridges=(p["ridge"],), forget=p["forget"]), {"ridge": 1.0, "forget": 0.0}),
    ],
    ids=["classes", "double tree", "density", "sequence", "forest"],
)
def test_whole_numbers_as_parameters_compile_nothing_again(make, parameters):
    given = make(**parameters)
    before = compiled()
    whole = {name: int(value) if isinstance(value, float) else value for name, value in parameters.items()}
    np.testing.assert_array_equal(make(**whole), given)
    assert {name: n for name, n in compiled().items() if n != before.get(name)} == {}


def test_rows_in_any_layout_are_read_by_the_same_kernels():
    def use(X, y):
        model = ConditionalDensity(2, random_state=0).fit(X, y)
        model.forests_[0].predict_dist(X).crps(y)
        for _ in range(2):
            model.predict(X)
            model.logpdf(X, y)
            model.partial_fit(X, y)
        return [len(kernel.signatures) for kernel in (route_all, learn_all, frame_rows, scale_rows, mixture_crps)]

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    frozen = X.copy()
    frozen.flags.writeable = False
    signatures = use(X, y)
    for given in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1], frozen):
        assert use(given, y) == signatures
    frozen = y.copy()
    frozen.flags.writeable = False
    for given in (np.repeat(y, 2)[::2], frozen):
        assert use(X, given) == signatures
