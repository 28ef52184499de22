"""Files: whole or refused, old or new, and never in between."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from coverwalk import CoverModel, ModelFileError, load
from coverwalk import persistence as files
from coverwalk._encoding import encode
from coverwalk.covers import ChoiceBoxes, CoverTree, DyadicBoxes, KDTree, ShiftedGrids, SuffixTree
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity


def real_model(cover, walk="refine", n=80, **options):
    rng = np.random.default_rng(0)
    model = CoverModel(cover, [Polynomial(0), Polynomial(1), TreeDensity(), KernelDensity()], walk=walk, **options)
    model.update_many(rng.random((n, 1)), rng.standard_normal(n))
    return model


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


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (CoverModel(CoverTree(lambda a, b: abs(a - b)), Polynomial(0)), "metric is a .*function.*cannot be stored"),
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
        (b"hello, this is no model at all", "no model file"),
        (good[:-1], "cut short"),
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


def test_a_newer_format_asks_for_an_upgrade(tmp_path, monkeypatch):
    path = tmp_path / "m.cw"
    monkeypatch.setattr(files, "FORMAT", 2)
    text_model().save(path)
    monkeypatch.setattr(files, "FORMAT", 1)
    with pytest.raises(ModelFileError, match=r"format '2'.*upgrade"):
        load(path)


def test_mutated_files_are_refused(tmp_path, good):
    """Flipped bits, cuts, insertions and overwritten stretches: each is a ModelFileError, none a model."""
    rng = np.random.default_rng(0)
    path = tmp_path / "m.cw"
    for _ in range(300):
        path.write_bytes(mutate(good, rng))
        with pytest.raises(ModelFileError):
            load(path)


def mutate(content, rng):
    """A damaged copy, never equal to the original."""
    damaged = bytearray(content)
    at = int(rng.integers(len(content))) if rng.random() < 0.5 else int(rng.integers(min(2000, len(content))))
    kind = rng.integers(4)
    if kind == 0:
        damaged[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del damaged[at:]
    elif kind == 2:
        damaged[at:at] = rng.bytes(int(rng.integers(1, 20)))
    else:
        damaged[at : at + 8] = rng.bytes(min(8, len(damaged) - at))
    return bytes(damaged) if damaged != content else content[:-1]


def rewritten(model, change):
    """The bytes of a file whose tree was changed by someone who also knew the checksum."""
    tree, arrays = encode(model)
    tree = json.loads(change(json.dumps(tree)))
    metadata = {"format": "coverwalk", "version": "1", "written_by": "x", "model": json.dumps(tree)}
    metadata["digest"] = files._digest(metadata, arrays)
    return files.serialize(arrays, metadata)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"object": "Polynomial"', '"object": "Popen"'),
        ('"object": "KDTree"', '"object": "Stopping"'),
        ('"again"', '"eval"'),
        ('"again": ', '"again": 99'),
        ('"object": "Refining"', '"object": "KDTree"'),
        ('"dtype": "<f8"', '"dtype": "O8"'),
    ],
)
def test_trees_that_no_model_has_are_refused(old, new, tmp_path):
    path = tmp_path / "m.cw"
    model = real_model(KDTree(), n=200)
    path.write_bytes(rewritten(model, lambda text: text))
    load(path)
    content = rewritten(model, lambda text: text.replace(old, new))
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
