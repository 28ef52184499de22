"""Files from strangers: what was once seen to crash, to hang or to swallow memory is refused, or does no harm."""

import fcntl
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from coverwalk import (
    ConditionalDensity,
    ContextClassifier,
    CoverModel,
    Density,
    DoubleTree,
    ModelFileError,
    SequenceClassifier,
    SequenceModel,
    load,
)
from coverwalk._kernels.sequences import suffix_store
from coverwalk.covers import ChoiceBoxes, DyadicBoxes, KDTree, SuffixTree
from coverwalk.files import container
from coverwalk.files.saving import encoded
from coverwalk.files.schema import Array, Real, SchemaError
from coverwalk.forest import stored_class_tree
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity
from tests.forging import file_of, forged, put, retold, rewritten

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-1, 1, (90, 2)), RNG.standard_normal(90)


@pytest.fixture(scope="module")
def stream():
    return ConditionalDensity(4).partial_fit(X, Y + 9 * np.abs(X[:, 0]))  # for noise alone no context has a plane


@pytest.fixture(scope="module")
def tree():
    return DoubleTree().fit(X, Y)


@pytest.fixture(scope="module")
def text():
    return SequenceModel("abc", depth=6).fit("abcabccab" * 6)


def refused(content, path, says="is not a valid model"):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=says):
        load(path)


@pytest.mark.parametrize("name", ["_check_loaded", "logpdf", "__setstate__", "__class__", "_schema", "note"])
def test_a_file_sets_nothing_that_is_not_declared(name, tree, tmp_path):
    path = tmp_path / "m.cw"
    refused(retold(tree, lambda model: model.update({name: None})), path, says=f"does not have: .*{name}")
    refused(retold(tree, lambda model: model["_engine"].update({name: None})), path, says=f"does not have: .*{name}")


def test_a_file_lacks_nothing(tree, tmp_path):
    refused(retold(tree, lambda model: model["_engine"].pop("settle")), tmp_path / "m.cw", says="lacks settle")


def test_no_key_comes_twice(tree, tmp_path):
    again = rewritten(tree, lambda text: text.replace('"alpha": 2.0', '"alpha": 2.0, "alpha": 3.0', 1))
    refused(again, tmp_path / "m.cw", says="a key comes twice")


def test_no_array_is_left_over_or_used_twice(tree, tmp_path):
    header, arrays = encoded(tree)
    refused(file_of(header, {**arrays, "model.more": np.zeros(40)}), tmp_path / "m.cw", says=r"no part.*model\.more")
    arrays.pop("model._engine.Z")
    refused(file_of(header, arrays), tmp_path / "m.cw", says="no array of this name")


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree["settings"].__setitem__(suffix_store.MEMORY, np.nan),
        lambda tree: tree["settings"].__setitem__(suffix_store.MODE, 1.5),
        lambda tree: tree["settings"].pop(),
        lambda tree: tree["path"].pop(),
        lambda tree: tree.update(tied={"shape": [4, 4, 1, 1], "values": [0.0] * 16}),
        lambda tree: tree["size"].__setitem__(4, 2**31),
    ],
)
def test_a_sequence_model_has_the_arrays_that_its_settings_ask_for(change, text, tmp_path):
    refused(retold(text, lambda model: change(model["_engine"]["store"])), tmp_path / "m.cw")


def test_no_context_is_deeper_than_kernels_have_room_for(text, tmp_path):
    def deeper(model):
        tree = model["_engine"]["store"]
        for name in ("path", "path_entry"):
            tree[name] = tree[name] + [-1] * 24

    load_of = tmp_path / "m.cw"
    load_of.write_bytes(retold(text, deeper))
    load(load_of)  # 30 is allowed
    header, arrays = encoded(text)
    for name in ("path", "path_entry"):
        arrays[f"model._engine.store.{name}"] = np.concatenate([getattr(text._engine.store, name), np.full(294, -1)])
        header["fields"]["_engine"]["store"][name] = "@"
    refused(file_of(header, arrays), load_of, says="depth")


@pytest.mark.parametrize("child", [2**63 - 1, 2**63 - 2, 2**31, -(2**63), -2, 0])
def test_no_link_overflows(child, stream, tmp_path):
    fitted = ConditionalDensity(2, stop=0.5).fit(X, Y)
    refused(forged(fitted, "model.forests_[0].fitted[0].records.first", put(child, at=1)), tmp_path / "m.cw")
    names = [name for name in encoded(stream)[1] if name.endswith("links")]
    for name in names:
        refused(forged(stream, name, put(child)), tmp_path / "m.cw")


def test_labels_take_no_more_memory_than_the_file(tmp_path):
    model, path = ContextClassifier(1, 0, random_state=0).fit(X, np.arange(90) % 3 > 1), tmp_path / "m.cw"
    labels = {"array": "U", "of": [*(f"{i:03}" for i in range(300)), "x" * 400_000]}  # 480 MB in an array
    path.write_bytes(retold(model, lambda fields: fields.update(classes_=labels)))
    load_with_little(path)


def test_a_header_takes_no_more_memory_than_the_file(tree, tmp_path, monkeypatch):
    path = tmp_path / "m.cw"
    path.write_bytes(retold(tree, lambda model: model.update(n_outputs_=[[]] * 2**20)))
    monkeypatch.setattr(container, "_FREE", 2**20)
    load_with_little(path)


def load_with_little(path):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * path.stat().st_size + 2**20
    finally:
        tracemalloc.stop()


def test_an_unseen_model_asks_for_no_more_than_a_second(tmp_path):
    boxes = CoverModel(ChoiceBoxes([0.0] * 4, [1.0] * 4, 2), Polynomial(0))
    refused(retold(boxes, lambda model: model["cover"].update(depth=40)), tmp_path / "m.cw", says="depth")
    letters = CoverModel(SuffixTree(2), Dirichlet("ab"))
    refused(retold(letters, lambda model: model["cover"].update(depth=10**6)), tmp_path / "m.cw", says="depth")


def test_a_forest_without_sums_cannot_say_that_it_has_some(tmp_path):
    fitted = ConditionalDensity(2, stop=0.5).fit(X, Y)  # it has no precisions, to which a stream of sums would write
    refused(retold(fitted, lambda model: model["forests_"][0].update(n_summed=1000)), tmp_path / "m.cw", says="inverse")


def test_a_sequence_classifier_reads_with_the_alphabet_that_it_learned(tmp_path):
    path = tmp_path / "m.cw"
    model = SequenceClassifier().fit(["abab", "ccab"], ["u", "v"])
    path.write_bytes(retold(model, lambda fields: fields["models_"][1].update(alphabet=2.0)))
    np.testing.assert_array_equal(load(path).predict_proba(["abz"]), model.predict_proba(["abz"]))


def test_a_symbol_that_a_context_has_twice_is_refused(tmp_path):
    """Only one of the two entries would be found."""
    model = SequenceModel("abc", depth=6).fit("abcabccbaacb" * 4)

    def twice(links):
        links[4, [0, 3]] = links[3, [0, 3]]  # symbol and context
        return links

    refused(forged(model, "model._engine.store.entry_link", twice), tmp_path / "m.cw", says="entries")


def test_a_flag_is_true_or_false():
    field = Array(bool, "n")
    field.read("@", "x", {"x": np.array([True, False])}, {}, "x")
    with pytest.raises(SchemaError, match="true or false"):
        field.read("@", "x", {"x": np.array([1, 200], np.uint8).view(bool)}, {}, "x")


def test_heavy_rows_are_not_multiplied_beyond_measure(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_class_tree, "MAX_WORK", 0.0)  # so that discriminants do not come from these rows
    path = tmp_path / "m.cw"
    model = ContextClassifier(1, 1, random_state=0).fit(X, np.arange(90) % 3 > 1)
    header, arrays = encoded(model)
    header["fields"].update(held_out=2**31, _rows_grown=1)  # so that the next row makes it grow again
    arrays["model._rows[0].weight"] = np.full(90, 1e300)
    refused(file_of(header, arrays), path, says="weight must be from 0 to 1000000000")
    arrays["model._rows[0].weight"] = np.full(90, 1e9)
    path.write_bytes(file_of(header, arrays))
    loaded = load(path)
    tracemalloc.start()
    try:
        loaded.partial_fit(X[:1], [True])
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


# What loads can learn and be saved


@pytest.mark.parametrize("number", [1.1e30, -1.1e30, 1e300])
def test_numbers_in_units_of_the_model_are_of_order_one(number):
    for field in (Array(float, "n"), Array(float, "n", nan=True), Array(float, "n", inf=True), Real()):
        with pytest.raises(SchemaError, match="1e"):
            field.read([number] if isinstance(field, Array) else number, "x", {}, {}, "x")
    assert Array(float, "n", any_unit=True).read([number], "x", {}, {}, "x") == number
    assert Array(float, "n", low=-1e300, high=1e300).read([number], "x", {}, {}, "x") == number
    assert Array(float, "n", inf=True).read([np.inf, 1e29], "x", {}, {}, "x")[0] == np.inf


def test_positive_numbers_are_not_next_to_zero():
    with pytest.raises(SchemaError, match="1e-100"):
        Array(float, "n", above=0).read([1e-101], "x", {}, {}, "x")
    Array(float, "n", above=0).read([1e-99], "x", {}, {}, "x")
    Array(float, "n", above=0, any_unit=True).read([1e-300], "x", {}, {}, "x")


@pytest.mark.parametrize("column", [0, 1, 2])
def test_counts_of_a_context_are_the_sums_of_its_symbols(column, text, tmp_path):
    def change(values):
        values[1, column] += 1.0
        return values

    refused(forged(text, "model._engine.store.node_value", change), tmp_path / "m.cw", says="counts")


def test_parameters_of_a_sequence_model_are_those_that_fit_takes(text, tmp_path):
    refused(retold(text, lambda model: model.update(covers={"list": ["sufix"]})), tmp_path / "m.cw", says="covers")
    with pytest.raises(ValueError, match="covers must be"):
        SequenceModel(covers=["sufix"]).save(tmp_path / "m.cw")
    assert not list(tmp_path.glob("*.writing"))


def test_a_discriminant_without_scatter_predicts_probabilities(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_class_tree, "MAX_WORK", 0.0)  # so that discriminants are in files
    model = ContextClassifier(2, 1, random_state=0).fit(np.tile(X, (3, 1)), np.arange(270) % 3)
    names = [name for name in encoded(model)[1] if name.endswith("factors[0][0]")]
    assert names
    path = tmp_path / "m.cw"
    for value in (5e-324, 1e-99, 1e29):
        path.write_bytes(forged(model, names[0], lambda U, value=value: np.full_like(U, value)))
        loaded = load(path)
        loaded.partial_fit(X[:1], [0])
        assert np.isfinite(loaded.predict_proba(X)).all()
        loaded.save(path)


def test_scales_that_no_distribution_has_are_neither_written_nor_read(stream, tree, tmp_path):
    """Of the units of a double tree, of contexts, and of the scatter of local polynomials."""
    tree, stream, cover = deepcopy(tree), deepcopy(stream), CoverModel(KDTree(), Polynomial(0))
    for x in np.linspace(-1, 1, 30):
        cover.update([x], x)
    tree._engine.units = replace(tree._engine.units, scale=np.array([1.7e308]))
    for member in stream.stream_.streams[0].members:
        member.fitted.records.s2[:] = 5e-324
    next(iter(cover._beliefs.values())).posteriors[0].Psi = np.array([[5e-324]])
    for model, says in ((tree, "scales"), (stream, "s2"), (cover, "Psi")):
        with pytest.raises(ValueError, match=says):
            model.save(tmp_path / "m.cover")


@pytest.mark.parametrize(("name", "value"), [("nu", 1e10), ("ridge", 1e101), ("a", 1e-101), ("scatter", np.inf)])
def test_what_a_file_may_not_have_no_user_may_set(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        DoubleTree(**{name: value}).fit(X, Y)


def test_degrees_of_freedom_are_those_of_rows(stream, tmp_path):
    def change(model):
        model["stream_"]["streams"][0]["members"][0]["fitted"]["shapes"]["df"][0] = 5e-324

    refused(retold(stream, change), tmp_path / "m.cw", says="df")


def test_a_forest_has_the_trees_that_its_settings_say(tmp_path):
    model = ConditionalDensity(2).fit_chunks([(X, Y)], sample_rows=60)
    change = lambda model: model["forests_"][0]["settings"].update(n_trees=1)  # noqa: E731
    refused(retold(model, change), tmp_path / "m.cw", says="trees")


def test_a_cover_model_that_saw_whole_numbers_is_saved(tmp_path):
    model = CoverModel(KDTree(), KernelDensity())
    model.update_many([[1], [2], [3]], [1, 2, 3])
    model.save(tmp_path / "m.cw")
    assert load(tmp_path / "m.cw").log_predict([2], 2) == model.log_predict([2], 2)


def test_local_models_of_one_file_predict_the_same_y(tmp_path):
    model = CoverModel(DyadicBoxes(0, 1, depth=2), [Polynomial(0), TreeDensity()])
    model.update_many([0.1, 0.6, 0.8], [1.0, 2.0, 1.5])
    refused(retold(model, lambda fields: fields["local"][1].update(q=2)), tmp_path / "m.cw", says="outputs")


@pytest.mark.parametrize("model", [ConditionalDensity(), ContextClassifier(), Density()])
def test_no_number_of_jobs_is_zero(model, tmp_path):
    refused(retold(model, lambda fields: fields.update(n_jobs=0)), tmp_path / "m.cw", says="n_jobs")


def test_planes_have_a_positive_precision(stream, tmp_path):
    name = next(name for name in encoded(stream)[1] if name.endswith("learned.inverse"))
    for value, at in ((4.0, 0), (-0.5, 0), (0.2, 1)):  # beyond the ridge; negative; not symmetric
        refused(forged(stream, name, put(value, at=at)), tmp_path / "m.cw", says="inverse")


def test_names_of_columns_differ(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = DoubleTree().fit(frame, Y)
    change = lambda model: model.update(feature_names_in_=["a", "a"])  # noqa: E731
    refused(retold(model, change), tmp_path / "m.cw", says="names that differ")


def test_an_entropy_of_less_than_nothing_reads_no_table():
    from coverwalk._kernels.forest.side_scores import negative_entropy, x_log_x_table

    assert np.isfinite(negative_entropy(np.array([-(2.0**44), 2.0**50]), x_log_x_table(16)))
    assert negative_entropy(np.array([2.0, -1.0]), x_log_x_table(4)) == pytest.approx(2 * np.log(2))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of scikit-learn's sum
@pytest.mark.parametrize("y", [[None] * 90, np.full(90, 1.7e308) * np.sign(Y)])
def test_outputs_that_are_no_usable_numbers_are_refused(y):
    with pytest.raises(ValueError, match="nothing was learned"):
        ConditionalDensity(2, stop=0.5).fit(X, y)


def test_weights_of_any_size_are_fitted_or_refused(tmp_path):
    weight = np.where(np.arange(90) < 45, 1e300, 1e-300)
    model = ConditionalDensity(2, stop=0.5).fit(X, Y, sample_weight=weight)
    same = ConditionalDensity(2, stop=0.5).fit(X[:45], Y[:45])
    assert np.array_equal(model.predict(X), same.predict(X))
    model.save(tmp_path / "m.cw")
    with pytest.raises(ValueError, match="at most 1e"):
        ContextClassifier(2).fit(X, Y > 0, sample_weight=weight)
    heavy = ContextClassifier(2, random_state=0).fit(X, Y > 0, sample_weight=np.where(Y > 1, 1e9, 1e-15))
    heavy.partial_fit(X[:2], Y[:2] > 0)
    assert np.isfinite(heavy.predict_proba(X)).all()
    heavy.save(tmp_path / "m.cw")


def test_samples_of_a_wider_alphabet_than_bytes_are_lists():
    assert isinstance(SequenceModel(1000).fit(b"abcabc").sample(200, seed=0), list)
    assert isinstance(SequenceModel(256).fit(b"abcabc").sample(20, seed=0), bytes)


@pytest.mark.parametrize("unit", [1e-320, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("cls", [ConditionalDensity, DoubleTree, ContextClassifier])
def test_models_of_data_in_any_unit_are_saved_and_go_on(unit, cls, tmp_path):
    """The other side: the user's units may be as large or small as he likes."""
    path = tmp_path / "m.cw"
    model = cls() if cls is DoubleTree else cls(2)
    y = np.arange(90) % 2 if cls is ContextClassifier else unit * Y
    model.fit(unit * X, y).save(path)
    loaded = load(path)
    loaded.partial_fit(unit * X[:2], y[:2])
    loaded.save(path)
    if cls is not ContextClassifier:
        loaded.partial_fit(X[:1], [1e300]).save(path)  # a y far off


# Sizes and places of arrays


def with_entry(content, change):
    """The bytes of a file, the entry of one of whose arrays was changed."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    change(header[next(name for name in header if name != "__metadata__")])
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry.update(shape=[2**62, 2**62]),
        lambda entry: entry.update(shape=[-1]),
        lambda entry: entry.update(shape=[2**70]),
        lambda entry: entry.update(shape="x"),
        lambda entry: entry.update(shape=[1] * 100),
        lambda entry: entry.update(dtype="F16"),
        lambda entry: entry.update(data_offsets=[0]),
        lambda entry: entry.update(data_offsets=[8, 2**62]),
        lambda entry: entry.update(data_offsets=[2**62, 0]),
        lambda entry: entry.update(shape=[0], data_offsets=[0, 0]),
        lambda entry: entry.clear(),
    ],
)
def test_forged_sizes(change, tree, tmp_path):
    content = rewritten(tree, lambda text: text)
    path = tmp_path / "m.cw"
    path.write_bytes(with_entry(content, lambda entry: None))
    load(path)
    refused(with_entry(content, change), path, says="m.cw")


@pytest.mark.parametrize("shape", [[2**62], [-1, 5], [1.5], "x", [2**39, 0], None])
def test_forged_shapes_of_small_arrays(shape, tree, tmp_path):
    forgery = {"shape": shape, "values": []}
    refused(retold(tree, lambda model: model["_engine"].update(x_scale=forgery)), tmp_path / "m.cw")


# The file itself


CUT_OFF = """
import os, sys, numpy as np
from coverwalk import load
model = load(sys.argv[1])
os.truncate(sys.argv[1], 100)
print(model.logpdf(np.zeros((1, 2)), [0.0]))
"""


def test_a_file_may_be_cut_off_after_it_was_loaded(tree, tmp_path):
    tree.save(tmp_path / "m.cw")
    run = subprocess.run([sys.executable, "-c", CUT_OFF, tmp_path / "m.cw"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_keeps_its_permissions(mode, tree, tmp_path):
    path = tmp_path / "m.cw"
    tree.save(path)
    path.chmod(mode)
    tree.save(path)
    assert path.stat().st_mode & 0o777 == mode


def test_a_link_stays_a_link(tree, tmp_path):
    (tmp_path / "store").mkdir()
    link = tmp_path / "m.cw"
    link.symlink_to(tmp_path / "store" / "m-1.cw")  # not there yet
    for _ in range(2):
        tree.save(link)
        assert link.is_symlink()
        load(tmp_path / "store" / "m-1.cw")
    assert sorted(os.listdir(tmp_path)) == ["m.cw", "store"]


def test_what_a_killed_process_left_is_removed(tree, tmp_path):
    left, held, new, other = (tmp_path / f".{name}.writing" for name in names_beside())
    for path in (left, held, new, other):
        path.write_text("half")
    hour_ago = time.time() - 3600
    for path in (left, held, other):
        os.utime(path, (hour_ago, hour_ago))
    with held.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # somebody is still writing
        tree.save(tmp_path / "m.cw")
    assert {path for path in (left, held, new, other) if path.exists()} == {held, new, other}


def names_beside():
    return [f"m.cw.{'a' * 16}", f"m.cw.{'b' * 16}", f"m.cw.{'c' * 16}", f"n.cw.{'d' * 16}"]


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    model, path = DoubleTree().fit(X, Y), tmp_path / "m.cw"
    model.save(path)
    before = path.read_bytes()
    model.note = "mine"
    with pytest.raises(ValueError, match="cannot be saved: model has note"):
        model.save(path)
    del model.note
    model._engine.state.row_z[0] = np.nan
    with pytest.raises(ValueError, match=r"cannot be saved: model\._engine\.Z must be"):
        model.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.cw"]


def test_rows_of_a_cover_model_are_vectors(tmp_path):
    """A number passes for a vector of one where rows come in, but a split looks into what is kept."""
    model = CoverModel(KDTree(), Polynomial(0))
    for x in np.linspace(-1, 1, 30):
        model.update([x], x)
    path = tmp_path / "m.cover"
    model.save(path)
    load(path)
    rows = next(belief.rows for belief in model._beliefs.values() if belief.rows)
    rows[0] = rows[0]._replace(x=float(rows[0].x[0]))
    with pytest.raises(ValueError, match="rows"):
        model.save(path)
