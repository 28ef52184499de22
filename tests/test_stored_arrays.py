"""Files are small: compressed arrays, and contexts that are made again from rows, to the bit."""

import json
import struct
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from coverwalk import ConditionalDensity, DoubleTree, ModelFileError, load
from coverwalk.files import container
from coverwalk.files.container import held_bytes, unpacked
from coverwalk.files.saving import encoded
from tests.forging import file_of, forged, put

DTYPES = ["f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(DTYPES).flatmap(
        lambda code: arrays_of.arrays(code, arrays_of.array_shapes(max_dims=3, max_side=40), fill=st.just(1))
    )
)
def test_every_array_comes_back(array):
    data = bytes(held_bytes({"a": array})["a"])
    back = unpacked(data, array.dtype, array.shape)
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable
    assert len(data) <= array.nbytes


def test_a_file_inflates_no_more_than_it_may(monkeypatch, tmp_path):
    """A table of zeros would be a bomb: what `save` compresses, `load` reads, and the rest stands as it is."""
    monkeypatch.setattr(container, "FREE", 2**16)
    arrays = {f"a{i}": np.zeros(2**k) for i, k in enumerate([8, 10, 12, 14, 16])}
    held = held_bytes(arrays)
    inside = sum(max(arrays[name].nbytes - container.PER_BYTE * len(data), 0) for name, data in held.items())
    assert 2**15 < inside <= 2**16
    assert len(held["a4"]) == arrays["a4"].nbytes
    model = ConditionalDensity(2, stop=0.5).fit(np.zeros((9000, 2)), np.arange(9000.0) % 3)
    model.save(tmp_path / "m.cw")
    load(tmp_path / "m.cw")


@pytest.fixture(scope="module")
def tree():
    rng = np.random.default_rng(0)
    return DoubleTree().fit(rng.uniform(-1, 1, (90, 2)).round(), rng.standard_normal(90))


def with_entries(content, change):
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    change({name: entry for name, entry in header.items() if name != "__metadata__"})
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def is_packed(entry):
    begin, end = entry["data_offsets"]
    return end - begin < 8 * np.prod(entry["shape"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda entry: entry.update(shape=[2**31, 2**20]), "far more memory"),
        (lambda entry: entry.update(shape=[2**20]), "does not have the size"),
        (lambda entry: entry.update(shape=[2]), "does not have the size"),
        (lambda entry: entry.update(dtype="I16"), "does not have the size"),
        (lambda entry: entry.update(dtype="F16"), "not one that a model has"),
        (lambda entry: entry.update(shape=[-1]), "not one that a model has"),
        (lambda entry: entry.update(packed=True), "not one that a model has"),
        (lambda entry: entry.update(shape=[0]), "empty"),
    ],
)
def test_forged_compression_is_refused(change, says, tree, tmp_path):
    def forge(entries):
        change(next(entry for entry in entries.values() if entry["dtype"] == "F64" and is_packed(entry)))

    path = tmp_path / "m.cw"
    path.write_bytes(with_entries(file_of(*encoded(tree)), forge))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=says):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * path.stat().st_size + 2**24
    finally:
        tracemalloc.stop()


# Contexts


def frame(n):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n), "town": rng.choice(["Bern", "Rome"], n)})
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    return X, np.sign(X["a"]).to_numpy() + (X["town"] == "Rome") + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("weighted", [False, True])
def test_contexts_are_kept_to_the_bit(weighted, tmp_path):
    X, y = frame(400)
    weight = np.random.default_rng(1).uniform(0.5, 2, 400) if weighted else None
    model = ConditionalDensity(4, random_state=0).fit(X, y, sample_weight=weight)
    model.save(tmp_path / "m.cw")
    other = load(tmp_path / "m.cw")
    for ours, theirs in zip(model.forests_[0].fitted, other.forests_[0].fitted):
        for a, b in zip((*ours.records, *ours.learned), (*theirs.records, *theirs.learned)):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
    for ours, theirs in zip(model.forests_[0].trees, other.forests_[0].trees):
        assert np.array_equal(ours.parent, theirs.parent)
    assert np.array_equal(model.logpdf(X, y), other.logpdf(X, y))


def test_no_file_asks_for_long_work(tmp_path):
    """A tree that is one long path leads all rows through each of its contexts."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 12))
    model, path = ConditionalDensity(2, stop=0.5).fit(X, X[:, 0] + rng.standard_normal(3000)), tmp_path / "m.cw"
    header, arrays = encoded(model)
    for k in range(2):
        tree = f"model.forests_[0].trees[{k}]"
        n = len(arrays[f"{tree}.feature"])
        arrays[f"{tree}.split"], arrays[f"{tree}.feature"] = np.full(n, 1e9), np.full(n, -1)
        arrays[f"{tree}.feature"][[0, *range(1, n - 2, 2)]] = 0
    path.write_bytes(file_of(header, arrays))
    started = time.process_time()
    tree = load(path).forests_[0].trees[0]
    assert time.process_time() - started < 5
    assert tree.depth.max() == len(tree) // 2


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    return ConditionalDensity(3).partial_fit(X, np.sign(np.sin(8 * X[:, 0])) * X[:, 1] + 0.1 * rng.standard_normal(400))


def crowded(first):
    """More records in one context than there are kinds, taken from others."""
    n = np.diff(first)
    most = int(np.argmax(n))
    while n[most] < 4:
        n[next(k for k in range(len(n)) if k != most and n[k] > 1)] -= 1
        n[most] += 1
    return np.append(0, np.cumsum(n))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("first", crowded),
        ("low", put(np.nan)),
        ("low", lambda a: a[:-1].copy()),
        ("s2", put(0.0)),
        ("s2", put(-1.0)),
        ("s2", lambda a: a[:-1].copy()),
        ("s2", lambda a: a.astype(np.float32)),
        ("weight", np.zeros_like),
    ],
)
def test_forged_contexts_of_a_stream_are_refused(name, change, stream, tmp_path):
    path = tmp_path / "m.cw"
    whole = next(key for key in encoded(stream)[1] if key.endswith(f"fitted.records.{name}"))
    path.write_bytes(forged(stream, whole, lambda array: array))
    load(path)
    path.write_bytes(forged(stream, whole, change))
    with pytest.raises(ModelFileError, match="is not a valid model"):
        load(path)
