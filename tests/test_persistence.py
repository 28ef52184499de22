"""Files: whole or refused, old or new, and never in between."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from sklearn.base import clone

from coverwalk import ConditionalDensity, CoverModel, ModelFileError, load
from coverwalk.covers import ChoiceBoxes, CoverTree, DyadicBoxes, KDTree, ShiftedGrids, SuffixTree
from coverwalk.files import container
from coverwalk.files.saving import encoded
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity
from tests.forging import file_of, forged, mutate, put, rewritten


def real_model(cover, walk="refine", n=80, **options):
    rng = np.random.default_rng(0)
    model = CoverModel(cover, [Polynomial(0), Polynomial(1), TreeDensity(), KernelDensity()], walk=walk, **options)
    model.update_many(rng.random((n, 1)), rng.standard_normal(n))
    return model


@pytest.fixture(scope="module")
def grown():
    return real_model(KDTree(), n=200)


def text_model():
    model, text = CoverModel(SuffixTree(3), Dirichlet("abc"), stop=0.3), "abcabccab" * 4
    for i, symbol in enumerate(text):
        model.update(text[:i], symbol)
    return model


MODELS = {
    "kd-tree": lambda: real_model(KDTree()),
    "kd-tree, coarsening": lambda: real_model(KDTree(alpha=1.5), "coarsen", priors="parent"),
    "boxes": lambda: real_model(DyadicBoxes(0, 1, 4)),
    "choice": lambda: real_model(ChoiceBoxes(0, 1, 3)),
    "shifted grids": lambda: real_model(ShiftedGrids(0, 1, 3)),
    "empty": lambda: real_model(KDTree(), n=0),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_loaded_model_is_the_saved_one_to_the_last_bit_and_learns_on(make, tmp_path):
    model = make()
    model.save(tmp_path / "m.cw")
    loaded = load(tmp_path / "m.cw")
    rng = np.random.default_rng(1)
    X, Y = rng.random((30, 1)), rng.standard_normal(30)
    for _ in range(2):
        assert [model.log_predict(x, y) for x, y in zip(X, Y)] == [loaded.log_predict(x, y) for x, y in zip(X, Y)]
        assert [v[:3] for v in model.posterior(X[0])] == [v[:3] for v in loaded.posterior(X[0])]
        model.update_many(X, Y)
        loaded.update_many(X, Y)


def test_symbols_survive(tmp_path):
    model = text_model()
    model.save(tmp_path / "m.cw")
    assert load(tmp_path / "m.cw").log_predict("ab", "c") == model.log_predict("ab", "c")


def test_learning_after_loading_leaves_the_file_alone(tmp_path):
    path = tmp_path / "m.cw"
    real_model(DyadicBoxes(0, 1, 3)).save(path)
    before = path.read_bytes()
    loaded = load(path)
    loaded.update_many([[0.5]] * 20, [1.0] * 20)
    assert path.read_bytes() == before


def test_files_have_the_rights_of_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    text_model().save(tmp_path / "m.cw")
    assert (tmp_path / "m.cw").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (CoverModel(CoverTree(lambda a, b: abs(a - b)), Polynomial(0)), "cover is a .*CoverTree; files hold KDTree or"),
        (CoverModel(KDTree(), Polynomial(0), stop=lambda k: 0.5), "_stop is a .*function"),
    ],
    ids=["metric", "stop"],
)
def test_what_cannot_be_saved_says_why_and_leaves_the_old_file(model, says, tmp_path):
    path = tmp_path / "m.cw"
    path.write_text("precious")
    with pytest.raises(ValueError, match=says):
        model.save(path)
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["m.cw"]


# Foreign and damaged files


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "m.cw"
    model = real_model(KDTree(), n=200)
    model.save(path)
    return path.read_bytes()


def test_foreign_files(tmp_path, good):
    path = tmp_path / "m.cw"
    for content, says in (
        (b"", "empty"),
        (b"hello, this is no model at all", "not a model file"),
        (good[:-1], "truncated"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=says):
            load(path)
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ModelFileError, match="something else"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.cw")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        load(tmp_path)


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(file_of(*encoded(text_model()), version=str(container.FORMAT + 1)))
    with pytest.raises(ModelFileError, match=rf"format '{container.FORMAT + 1}'.*upgrade"):
        load(path)


def test_a_file_of_an_earlier_version_says_so(tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(file_of("{}", {}, version="1", written_by="0.1.0"))
    with pytest.raises(ModelFileError, match=r"by version 0\.1\.0 of coverwalk in format 1.*fit the model again"):
        load(path)


def test_mutated_files_are_refused(tmp_path, good):
    """Flipped bits, cuts, insertions and overwritten stretches: each is a ModelFileError, none a model."""
    rng = np.random.default_rng(0)
    path = tmp_path / "m.cw"
    for _ in range(300):
        path.write_bytes(mutate(good, rng))
        with pytest.raises(ModelFileError):
            load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"is": "Polynomial"', '"is": "Popen"'),
        ('"is": "KDTree"', '"is": "Stopping"'),
        ('"is": "Refining"', '"is": "KDTree"'),
        ('"is": "CoverModel"', '"is": "Popen"'),
        ('"array": "<f8"', '"array": "O8"'),
        ('"_model": null', '"_model": 0'),
    ],
)
def test_trees_that_no_model_has_are_refused(old, new, tmp_path, grown):
    path = tmp_path / "m.cw"
    path.write_bytes(rewritten(grown, lambda text: text))
    load(path)
    content = rewritten(grown, lambda text: text.replace(old, new))
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load(path)


WRITER = """
import sys, numpy as np
from coverwalk import CoverModel
from coverwalk.covers import DyadicBoxes
from coverwalk.local import Polynomial
models = []
for n in (5, 60):
    model = CoverModel(DyadicBoxes(0, 1, 3), Polynomial(0))
    model.update_many(np.linspace(0, 1, n)[:, None], np.linspace(0, 1, n))
    models.append(model)
print("ready", flush=True)
i = 0
while True:
    models[i % 2].save(sys.argv[1])
    i += 1
"""


def test_a_process_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    path = tmp_path / "m.cw"
    rng = np.random.default_rng(0)
    sizes = set()
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.02 + 0.05 * rng.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if path.exists():
            sizes.add(len(load(path)))
    assert sizes
    assert sizes <= {len(real) for real in (load_sizes(5), load_sizes(60))}


def load_sizes(n):
    model = CoverModel(DyadicBoxes(0, 1, 3), Polynomial(0))
    model.update_many(np.linspace(0, 1, n)[:, None], np.linspace(0, 1, n))
    return model


# Forests: what a forger who knows the checksum may write, kernels must never see


@pytest.fixture(scope="module")
def forest():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (300, 3)), columns=["a", "b", "c"])
    Y = np.stack([np.sign(X["a"]) + 0.1 * rng.standard_normal(300), X["b"] + rng.standard_normal(300)], axis=1)
    return ConditionalDensity(n_estimators=3, stop=0.5).fit(X, Y), X, Y


def test_a_forest_comes_back_to_the_last_bit(forest, tmp_path):
    model, X, Y = forest
    model.save(tmp_path / "m.cw")
    loaded = load(tmp_path / "m.cw")
    assert np.array_equal(model.logpdf(X, Y), loaded.logpdf(X, Y))
    for ours, theirs in zip(model.forests_, loaded.forests_):
        rows = np.hstack([X.to_numpy(), Y])[:, : ours.X.shape[1]]
        dists = ours.predict_dist(rows), theirs.predict_dist(rows)
        assert all(np.array_equal(a, b) for a, b in zip(dists[0].components, dists[1].components))
        assert dists[0].contexts() == dists[1].contexts()
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    assert loaded.get_params() == model.get_params()
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X.rename(columns={"a": "z"}))
    clone(loaded).fit(X, Y[:, 0])


def test_a_forest_whose_root_has_no_weight_left(tmp_path):
    X = np.linspace(-1, 1, 1500)[:, None]
    y = np.sign(np.sin(20 * X[:, 0])) + 1e-3 * np.cos(1000 * X[:, 0])
    model = ConditionalDensity(n_estimators=2, stop=0.5).fit(X, y)
    assert any(fitted.records.weight[0, : fitted.records.first[1]].sum() == 0 for fitted in model.forests_[0].fitted)
    model.save(tmp_path / "m.cw")
    assert np.array_equal(load(tmp_path / "m.cw").logpdf(X, y), model.logpdf(X, y))


def test_a_forest_may_be_saved_before_it_is_fitted(tmp_path):
    ConditionalDensity(n_estimators=3).save(tmp_path / "m.cw")
    assert load(tmp_path / "m.cw").n_estimators == 3


def test_mutated_forests_are_refused(forest, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "m.cw"
    forest[0].save(path)
    content = path.read_bytes()
    for _ in range(200):
        path.write_bytes(mutate(content, rng))
        with pytest.raises(ModelFileError):
            load(path)


FITTED = "model.forests_[0].fitted[0]"
TREE = "model.forests_[0].trees[0]"
FORGERIES = {
    "a cut of an input that is not there": (f"{TREE}.feature", put(7)),
    "fewer children than the tree has": (f"{TREE}.feature", put(-1)),
    "children before their parents": (f"{TREE}.feature", lambda a: a[::-1].copy()),
    "records beyond the end": (f"{FITTED}.records.first", put(10**9, at=1)),
    "records that run backwards": (f"{FITTED}.records.first", put(-5, at=1)),
    "a kind of component that is not there": (f"{FITTED}.records.kind", put(3)),
    "a weight above one": (f"{FITTED}.records.weight", put(1.1)),
    "a negative variance": (f"{FITTED}.records.s2", put(-1.0)),
    "no number for a variance": (f"{FITTED}.records.s2", put(np.nan)),
    "a centre of another width": (f"{FITTED}.records.centre", lambda a: a[:, :-1].copy()),
    "an infinite coefficient": (f"{FITTED}.records.centre", put(np.inf)),
    "a cubic": (f"{FITTED}.records.degree", put(3)),
    "a negative number of rows": (f"{FITTED}.records.n_rows", put(-1)),
    "a range without an end": (f"{FITTED}.records.low", put(-np.inf)),
    "a root without records": (f"{FITTED}.records.first", put(0, at=1)),
    "single precision": (f"{FITTED}.records.mean", lambda a: a.astype(np.float32)),
    "a shape that is not there": (f"{FITTED}.shape", put(10**6)),
    "rows of another width": ("model.forests_[0].X", lambda a: a[:, :2].copy()),
    "atoms that do not sum to one": (f"{FITTED}.shapes.atom_weight", put(0.9)),
}


@pytest.mark.parametrize(("name", "change"), FORGERIES.values(), ids=FORGERIES)
def test_forged_forests_are_refused(name, change, forest, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(forged(forest[0], name, lambda array: array))
    load(path)
    path.write_bytes(forged(forest[0], name, change))
    with pytest.raises(ModelFileError, match="is not a valid model"):
        load(path)


def test_forged_forests_never_bring_a_kernel_down(forest, tmp_path):
    """Any number of any array replaced by a hostile one: refused, or a model that still answers or says why not."""
    model, X, Y = forest
    _, arrays = encoded(model)
    rng, path, n_refused = np.random.default_rng(0), tmp_path / "m.cw", 0
    for name in rng.choice(sorted(arrays), 150):
        whole = arrays[name].dtype.kind == "i"
        hostile = [-1, 2**31 - 1, -(2**31), 0, 7] if whole else [-1.0, 0.0, 1e300, np.nan, np.inf]
        path.write_bytes(forged(model, name, put(rng.choice(hostile), at=rng.integers(arrays[name].size))))
        try:
            loaded = load(path)
        except ModelFileError:
            n_refused += 1
            continue
        with contextlib.suppress(ValueError), np.errstate(all="ignore"):
            loaded.logpdf(X, Y)
    assert n_refused > 30


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"degree": 2', '"degree": 3'),
        ('"degree": 2', '"degree": "two"'),
        ('"n_outputs_": 2', '"n_outputs_": 3'),
        ('"n_outputs_": 2', '"n_outputs_": 2.0'),
        ('"n_features_in_": 3', '"n_features_in_": 2'),
        ('"n_trees": 3', '"n_trees": null'),
        ('"n_threads": 1', '"n_threads": 0'),
        ('["a", "b", "c"]', '["a", "b"]'),
        ('["a", "b", "c"]', '["a", "b", 3]'),
        ('"squash": true', '"squash": 1'),
    ],
)
def test_forests_whose_parts_do_not_fit_are_refused(old, new, forest, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(rewritten(forest[0], lambda text: text))
    load(path)
    assert old in json.dumps(encoded(forest[0])[0])
    path.write_bytes(rewritten(forest[0], lambda text: text.replace(old, new)))
    with pytest.raises(ModelFileError):
        load(path)
