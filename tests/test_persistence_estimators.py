"""Files of classifiers, streams and densities: the same to the last bit, and nothing forged reaches a kernel."""

import json
import struct
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest

from coverwalk import (
    ContextClassifier,
    CoverModel,
    Density,
    DoubleTree,
    ModelFileError,
    SequenceModel,
    load,
)
from coverwalk.covers import ChoiceBoxes, DyadicBoxes, KDTree, ShiftedGrids, SuffixTree
from coverwalk.double_tree import engine
from coverwalk.files.saving import encoded
from coverwalk.forest import stored_class_tree
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity
from tests.forging import forged, mutate, put, retold, rewritten

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (700, 2))
Y = np.stack([np.sign(X[:, 0]) + 0.1 * RNG.standard_normal(700), X[:, 1] ** 2], axis=1)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y[:, 0] + X[:, 1], [-0.5, 0.5])]
NAMED = pd.DataFrame(X, columns=["a", "b"])


def reloaded(model, path):
    model.save(path)
    return load(path)


# Streams

STREAMS = {
    "as it is": {},
    "refining": {"walk": "refine"},
    "fixed priors": {"priors": "fixed", "settle": 64},
}


@pytest.mark.parametrize("options", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("n", [0, 1, 3, 300])
def test_a_stream_comes_back_to_the_last_bit_and_goes_on(options, n, tmp_path):
    for outputs in (Y[:, 0], Y):
        model = DoubleTree(**options)
        if n:
            model.partial_fit(X[:n], outputs[:n])
        again = reloaded(model, tmp_path / "m.cw")
        for _ in range(2):  # the second time through what was learned after loading
            assert np.array_equal(model.prequential(X[n:], outputs[n:]), again.prequential(X[n:], outputs[n:]))
            assert np.array_equal(model.logpdf(X, outputs), again.logpdf(X, outputs))
        assert again.get_params() == model.get_params()
        assert (again.n_rows_, again.n_contexts_) == (model.n_rows_, model.n_contexts_)


def test_a_conditional_stream_keeps_its_columns(tmp_path):
    model = DoubleTree(alpha=1.5).fit(NAMED[:200], Y[:200, 0])
    again = reloaded(model, tmp_path / "m.cw")
    assert again.feature_names_in_.tolist() == ["a", "b"]
    assert np.array_equal(again.predict_dist(NAMED[:9]).cdf(0.3), model.predict_dist(NAMED[:9]).cdf(0.3))
    assert [model.learn_one(x, y) for x, y in zip(X, Y[:, 0])] == [again.learn_one(x, y) for x, y in zip(X, Y[:, 0])]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(NAMED.rename(columns={"a": "z"}))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_a_density_of_any_size(scale, tmp_path):
    points = scale * np.random.default_rng(0).standard_cauchy(300) / 1e5
    model = DoubleTree().fit(None, points)
    again = reloaded(model, tmp_path / "m.cw")
    assert np.array_equal(again.prequential(None, points), model.prequential(None, points))
    forest = Density(n_estimators=2).fit(points)
    again = reloaded(forest, tmp_path / "m.cw")
    assert np.array_equal(again.logpdf(points), forest.logpdf(points))
    assert np.array_equal(again.sample(9, random_state=0), forest.sample(9, random_state=0))
    assert reloaded(Density(halve=0.3), tmp_path / "m.cw").halve == 0.3


@pytest.fixture(scope="module")
def density():
    return Density(n_estimators=2).fit(pd.DataFrame(Y[:300], columns=["a", "b"]))


def test_a_density_comes_back_to_the_last_bit(density, tmp_path):
    again = reloaded(density, tmp_path / "m.cw")
    frame = pd.DataFrame(Y, columns=["a", "b"])
    assert np.array_equal(again.score_samples(frame), density.score_samples(frame))
    assert np.array_equal(again.sample(20, random_state=1), density.sample(20, random_state=1))
    assert again.conditional({"a": 0.5}).cdf(0.1) == density.conditional({"a": 0.5}).cdf(0.1)


CELLS, NORMALS = "model.forest_.cells[0]", "model.forest_.normals"
FORGED_DENSITIES = {
    "moves beyond the end": (f"{CELLS}.first", put(10**6, at=1)),
    "an axis that is not there": (f"{CELLS}.move", put(2)),
    "a cell that is its own half": (f"{CELLS}.move", put(0, at=2)),
    "a cell beyond the end": (f"{CELLS}.move", put(10**6, at=3)),
    "an axis halved too often": (f"{CELLS}.move", put(60, at=1)),
    "a negative height": (f"{CELLS}.height", put(-1.0)),
    "too much mass": (f"{CELLS}.height", put(3.0)),
    "a pivot of zero": (f"{NORMALS}.factor", put(0.0)),
    "weights above one": (f"{NORMALS}.weight", put(1.0)),
    "no degrees of freedom": (f"{NORMALS}.df", put(0.0)),
    "means of another width": (f"{NORMALS}.mean", lambda a: a[:, :1].copy()),
}


@pytest.mark.parametrize(("name", "change"), FORGED_DENSITIES.values(), ids=FORGED_DENSITIES)
def test_forged_densities_are_refused(name, change, density, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(forged(density, name, lambda array: array))
    load(path)
    path.write_bytes(forged(density, name, change))
    with pytest.raises(ModelFileError, match="is not a valid model"):
        load(path)


def test_learning_after_loading_leaves_the_file_of_a_stream_alone(tmp_path):
    path = tmp_path / "m.cw"
    again = reloaded(DoubleTree().fit(X[:100], Y[:100]), path)
    before = path.read_bytes()
    again.partial_fit(X, Y)
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def stream():
    return DoubleTree().fit(X[:200], Y[:200, 0])


FORGED_STREAMS = {
    "an infinite row": ("X", put(np.inf)),
    "single precision": ("X", lambda a: a.astype(np.float32)),
    "rows of another width": ("X", lambda a: a[:, :1].copy()),
    "fewer outputs than rows": ("Z", lambda a: a[:-1].copy()),
    "fewer rows than outputs": ("X", lambda a: a[:-1].copy()),
    "an output that is no number": ("Z", put(np.nan)),
    "an output beyond all units": ("Z", put(1.1e300)),
    "more outputs": ("Z", lambda a: np.hstack([a, a])),
    "fewer outputs as they came": ("_early_y", lambda a: a[:-1].copy()),
    "an output that came as no number": ("_early_y", put(np.nan)),
}


@pytest.mark.parametrize(("name", "change"), FORGED_STREAMS.values(), ids=FORGED_STREAMS)
def test_forged_streams_are_refused(name, change, stream, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(forged(stream, f"model._engine.{name}", lambda array: array))
    load(path)
    path.write_bytes(forged(stream, f"model._engine.{name}", change))
    with pytest.raises(ModelFileError, match="is not a valid model"):
        load(path)


@pytest.mark.parametrize(("field", "value"), [("alpha", 1.0), ("alpha", 1e9), ("y_depth", 0), ("y_depth", 65)])
def test_streams_with_impossible_settings_are_refused(field, value, stream, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(retold(stream, lambda fields: fields["_engine"]["settings"].update({field: value})))
    with pytest.raises(ModelFileError, match="is not a valid model"):
        load(path)


@pytest.mark.parametrize("options", STREAMS.values(), ids=STREAMS)
def test_what_a_stream_has_learned_is_made_again_from_its_rows(options, tmp_path):
    """To the last bit, also where a value is missing for the first time after the units are settled."""
    model, gaps = DoubleTree(**options, alpha=1.5), np.where(X > 0.9, np.nan, X)
    for inputs, outputs in ((X[:100], Y[:100]), (gaps[100:], Y[100:])):
        model.partial_fit(inputs, outputs)
        state, *others = (each._engine.state for each in (model, reloaded(model, tmp_path / "m.cw"), deepcopy(model)))
        contexts, nodes, rows, _ = state.counts
        sizes = {"xf": contexts, "xi": contexts, "yf": nodes, "log_c": rows, "waiting": 0}
        for name in set(state._fields) - {"yi"}:
            n = rows if name.startswith("row_") else sizes.get(name)
            mine, *theirs = (getattr(each, name)[:n].tobytes() for each in (state, *others))
            assert theirs == [mine, mine], name


def test_rows_that_ask_for_far_more_memory_than_they_have_are_refused(stream, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "MAX_BYTES", 2**14)
    monkeypatch.setattr(engine, "PER_BYTE", 2)
    with pytest.raises(ValueError, match="memory"):
        stream.save(tmp_path / "m.cw")


# Classifiers


@pytest.fixture(scope="module")
def classifier():
    noisy = np.where(RNG.random(300) < 0.3, RNG.choice(LABELS, 300), LABELS[:300])  # deep trees, in arrays of their own
    return ContextClassifier(3, 2, random_state=0).fit(NAMED[:300], noisy)


@pytest.mark.parametrize("labels", [LABELS, LABELS.astype(object), np.unique(LABELS, return_inverse=True)[1]])
def test_a_classifier_comes_back_to_the_last_bit_and_goes_on(labels, tmp_path):
    model = ContextClassifier(3, 2, random_state=np.random.RandomState(4)).fit(NAMED[:150], labels[:150])
    model.partial_fit(NAMED[150:170], labels[150:170])
    again = reloaded(model, tmp_path / "m.cw")
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.feature_names_in_.tolist() == ["a", "b"]
    for rows in (slice(170, 200), slice(200, 600), slice(600, 650)):  # learned; grown anew; learned
        assert np.array_equal(model.predict_log_proba(NAMED), again.predict_log_proba(NAMED))
        assert model.contexts(NAMED[:3]) == again.contexts(NAMED[:3])
        for each in (model, again):
            each.partial_fit(NAMED[rows], labels[rows])
    for each in (model, again):  # the generator goes on too
        each.fit(NAMED[:100], labels[:100])
    assert np.array_equal(model.predict_proba(NAMED), again.predict_proba(NAMED))


@pytest.mark.parametrize("more", [0, 40])  # rows that were learned after the growth
def test_a_file_of_a_classifier_holds_no_discriminants_that_its_rows_tell(more, tmp_path, monkeypatch):
    model = ContextClassifier(1, 6, random_state=0).fit(X[:400], LABELS[:400], sample_weight=np.arange(400) % 3)
    model.partial_fit(X[:more], LABELS[:more]) if more else None
    trees = model._forest.kinds[1][1]
    assert sum(len(factors[0]) for tree in trees for factors in tree.flat[5:7]) > 10
    sizes = []

    def in_file(per_byte, free):
        monkeypatch.setattr(stored_class_tree, "PER_BYTE", per_byte)
        monkeypatch.setattr(stored_class_tree, "MAX_BYTES", free)
        return sum(tree.factors is not None for tree in model.__getstate__()["_forest"].kinds[1][1])

    size = 8 * sum(part.size for tree in trees for factors in tree.flat[5:7] for part in factors)
    some = next(free for free in range(size // 2, 2 * size, 64) if in_file(0, free) < 6)  # the smallest are made again
    told = in_file(0, some)
    assert told > 0
    for per_byte, free, n in ((4, 2**27, 0), (0, some, told), (0, 0, 6)):  # all are made again; some; none
        assert in_file(per_byte, free) == n
        again = reloaded(model, tmp_path / "m.cw")
        sizes.append((tmp_path / "m.cw").stat().st_size)
        for one, two in zip(trees, again._forest.kinds[1][1]):
            assert one.levels == two.levels
            for a, b in zip([*one.flat[5], *one.flat[6], *one.walk], [*two.flat[5], *two.flat[6], *two.walk]):
                assert np.array_equal(a, b)
        assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert sizes[0] < sizes[1] < sizes[2]
    monkeypatch.undo()
    light = rewritten(model, lambda text: text)
    monkeypatch.setattr(stored_class_tree, "MAX_WORK", 10.0)
    (tmp_path / "m.cw").write_bytes(light)
    with pytest.raises(ModelFileError, match="factors"):  # more than may be made
        load(tmp_path / "m.cw")


def test_a_classifier_that_kept_no_rows(tmp_path):
    model = ContextClassifier(2, 1, random_state=0)
    model.fit_chunks([(X[:300], LABELS[:300]), (X[300:600], LABELS[300:600])], sample_rows=200)
    again = reloaded(model, tmp_path / "m.cw")
    for each in (model, again):
        each.partial_fit(X[600:], LABELS[600:])
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))


def test_the_header_names_classes_and_columns(classifier, tmp_path):
    classifier.save(tmp_path / "m.cw")
    content = (tmp_path / "m.cw").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])["__metadata__"]["model"]
    assert all(f'"{word}"' in header for word in ("low", "middle", "high", "a", "b"))


TREE_0 = "model._forest.kinds[0][1][0]"
DISCRIMINANT = "model._forest.kinds[1][1][0]"
FORGED_CLASSIFIERS = {
    "an axis that is not there": (f"{TREE_0}.tree.feature", put(7)),
    "fewer children than the tree has": (f"{TREE_0}.tree.feature", put(-1)),
    "children before their parents": (f"{TREE_0}.tree.feature", lambda a: a[::-1].copy()),
    "a cut at no number": (f"{TREE_0}.tree.split", put(np.nan)),
    "fewer than no rows": (f"{TREE_0}.counts", put(-1.0)),
    "counts of other classes": (f"{TREE_0}.counts", lambda a: a[:, :2].copy()),
    "a discriminant that is not there": (f"{DISCRIMINANT}.shared", lambda a: a & False),
    "a discriminant where there was none": (f"{TREE_0}.shared", put(True)),
    "discriminants of no context": (f"{DISCRIMINANT}.own", lambda a: a[:-1].copy()),
    "weights above one": (f"{DISCRIMINANT}.log_v", put(0.5)),
    "a weight for what is not there": (f"{DISCRIMINANT}.log_v", put(-1.0, at=-1)),
    "a context that never stops": (f"{TREE_0}.log_odds", put(-np.inf)),
    "a context that always stops": (f"{TREE_0}.log_odds", put(np.inf)),
    "odds of a leaf": (f"{TREE_0}.log_odds", lambda a: np.append(a, 0.5)),
    "rows that have no discriminant": ("model._rows[0].X", lambda a: a * 1e100),
    "classes that are not there": ("model._rows[0].y", put(3)),
    "rows of another width": ("model._rows[0].X", lambda a: a[:, :1].copy()),
    "negative weights": ("model._rows[0].weight", put(-1.0)),
    "pools above one": ("model._forest.held_out_rows._parts[0][0]", put(2.0)),
    "classes of pools that are not there": ("model._forest.held_out_rows._parts[0][1]", put(-1)),
}


@pytest.mark.parametrize(("name", "change"), FORGED_CLASSIFIERS.values(), ids=FORGED_CLASSIFIERS)
def test_forged_classifiers_are_refused(name, change, classifier, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(forged(classifier, name, lambda array: array))
    load(path)
    path.write_bytes(forged(classifier, name, change))
    with pytest.raises(ModelFileError, match="is not a valid model"):
        load(path)


@pytest.fixture(scope="module")
def letters():
    return SequenceModel(alphabet="abc").fit("abcabcaab")


HEADERS = {
    "a symbol that comes twice": ("letters", '"symbols": ["a", "b", "c"]', '"symbols": ["a", "b", "b"]'),
    "a symbol too few": ("letters", '"symbols": ["a", "b", "c"]', '"symbols": ["a", "b"]'),
    "a symbol that is a list": ("letters", '"symbols": ["a", "b", "c"]', '"symbols": ["a", "b", {"list": []}]'),
    "borders that are none": ("letters", '"borders": true', '"borders": null'),
    "a count that is none": ("letters", '"n_symbols_seen_": 9', '"n_symbols_seen_": "x"'),
    "classes out of order": ("classifier", '["high", "low", "middle"]', '["low", "high", "middle"]'),
    "classes that are too few": ("classifier", '["high", "low", "middle"]', '["high", "low"]'),
    "columns that are too few": ("classifier", '["a", "b"]', '["a"]'),
    "another number of inputs": ("classifier", '"n_features_in_": 2', '"n_features_in_": 3'),
    "a parameter out of range": ("classifier", '"stop": 0.1', '"stop": 1.5'),
    "a walk that is none": ("stream", '"walk": "coarsen"', '"walk": "sideways"'),
    "missing values of half of the inputs": ("stream", '"missing": false', '"missing": true'),
    "units with logarithms": ("stream", '"squash": false', '"squash": true'),
    "more outputs": ("stream", '"n_outputs_": 1', '"n_outputs_": 2'),
    "a name that belongs to a method": ("stream", '"n_outputs_": 1', '"n_outputs_": 1, "logpdf": null'),
}


@pytest.mark.parametrize(("which", "old", "new"), HEADERS.values(), ids=HEADERS)
def test_headers_that_no_model_has_are_refused(which, old, new, request, tmp_path):
    model, path = request.getfixturevalue(which), tmp_path / "m.cw"
    path.write_bytes(rewritten(model, lambda text: text))
    load(path)
    assert old in json.dumps(encoded(model)[0])
    path.write_bytes(rewritten(model, lambda text: text.replace(old, new)))
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("which", ["classifier", "stream"])
def test_mutated_files_are_refused(which, request, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "m.cw"
    request.getfixturevalue(which).save(path)
    content = path.read_bytes()
    for _ in range(150):
        path.write_bytes(mutate(content, rng))
        with pytest.raises(ModelFileError):
            load(path)


# CoverModel: what loads can be asked and goes on learning


def cover_models():
    reals = [Polynomial(1), TreeDensity(), KernelDensity()]
    for cover in (KDTree(), DyadicBoxes(-1, 1, 2), ChoiceBoxes(-1, 1, 2), ShiftedGrids(-1, 1, 2)):
        model = CoverModel(cover, reals, priors="parent")
        model.update_many(X[:15, :1], Y[:15, 0])
        yield model, X[20, :1], 0.3
    letters = CoverModel(SuffixTree(2), Dirichlet("ab"), walk="coarsen")
    letters.update_many(["", "a", "ab", "aba"], "abab")
    yield letters, "ba", "a"


def test_forged_cover_models_are_refused_or_work(tmp_path):
    """One number of the header replaced by a hostile one: refused at once, or a model that answers and learns."""
    rng, path = np.random.default_rng(0), tmp_path / "m.cw"
    hostile = ["-1", "0", "7", "null", '"x"', "[]", "{}", "1e300", "9223372036854775807", "true", "NaN"]
    refused = 0
    for model, x, y in cover_models():
        tree, _ = encoded(model)
        pieces = json.dumps(tree, separators=(",", ":")).split(":")
        for at in rng.integers(1, len(pieces), 60):
            value, comma, rest = pieces[at].partition(",")
            forgery = rng.choice(hostile) + value[len(value.rstrip("}]")) :] + comma + rest
            text = ":".join([*pieces[:at], forgery, *pieces[at + 1 :]])
            try:
                path.write_bytes(rewritten(model, lambda _, text=text: text))
                loaded = load(path)
            except (ModelFileError, json.JSONDecodeError):
                refused += 1
                continue
            with np.errstate(all="ignore"):
                loaded.log_predict(x, y)
                loaded.update(x, y)
    assert refused > 100
