"""Categories and missing values on streams: chunks, levels that come later, files, and what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest

from coverwalk import ConditionalDensity, ContextClassifier, load
from coverwalk.preparation.categories import OTHERS
from coverwalk.preparation.columns import MixedInputs
from tests.forging import check
from tests.test_mixed_inputs import table

FRAME, Y = table(1200)
ROWS = FRAME.to_numpy(dtype=object)


def small(**parameters):
    return ConditionalDensity(**{"n_estimators": 3, **parameters})


@pytest.fixture(scope="module")
def global_kernel():
    model = small()
    return model.prequential(FRAME, Y), model


def test_chunks_single_rows_and_one_call_are_one(global_kernel):
    said, model = global_kernel
    chunks, singles = small(), small(categorical_features=[1])
    parts = [chunks.prequential(FRAME[s : s + 83], Y[s : s + 83]) for s in range(0, len(Y), 83)]
    np.testing.assert_array_equal(np.concatenate(parts), said)
    np.testing.assert_array_equal([singles.learn_one(x, y) for x, y in zip(ROWS, Y)], said)
    np.testing.assert_array_equal(singles.logpdf(ROWS, Y), model.logpdf(FRAME, Y))
    np.testing.assert_array_equal(singles.predict(ROWS[:1]), model.predict(FRAME[:1]))
    assert chunks._mixed.categories == model._mixed.categories == singles._mixed.categories


def test_levels_and_gaps_are_used(global_kernel):
    said, _ = global_kernel
    without = small().prequential(FRAME[["east", "north"]], Y)
    drawn = np.random.default_rng(0).uniform(-1, 1, (len(FRAME), 2))
    filled = FRAME.fillna(pd.DataFrame(drawn, columns=["east", "north"]))
    assert said[600:].mean() > without[600:].mean() + 0.5
    assert said[600:].mean() > small().prequential(filled, Y)[600:].mean() + 0.2


def test_the_distribution_says_what_was_said(global_kernel):
    said, _ = global_kernel
    model = small().partial_fit(FRAME[:1000], Y[:1000])
    dist = model.predict_dist(FRAME[1000:1001])
    assert dist.logpdf(Y[1000:1001])[0] == pytest.approx(said[1000], abs=1e-5)
    boxes = [component.context.box for component in dist[0].contexts() if component.context is not None]
    sets = [box["city"] for box in boxes if "city" in box]
    assert sets
    assert all(FRAME.city[1000] in categories for categories in sets)


def test_every_context_counts_the_rows_that_its_splits_send_there(global_kernel):
    _, model = global_kernel
    stream = model.stream_.streams[0]
    for member in stream.members:
        leaf = member.tree.leaves(member.frame.rows(stream.X[: stream.n_rows]).Z)
        records, learned = member.fitted.records, member.fitted.learned
        size = np.bincount(leaf, minlength=len(records.slot))
        for k in range(len(size) - 1, 0, -1):
            size[member.tree.parent[k]] += size[k]
        kept = records.slot >= 0
        np.testing.assert_array_equal(learned.nu[records.slot[kept]] - 2, size[kept])


@pytest.mark.parametrize("first", [0, 130, 700])
def test_gaps_may_come_at_any_time(first):
    late = FRAME[["east", "north"]].fillna(0.5)
    late[first:] = FRAME[["east", "north"]][first:]
    one, other = small(), small()
    said = one.prequential(late, Y)
    chunks = [other.prequential(late[s : s + 57], Y[s : s + 57]) for s in range(0, len(Y), 57)]
    np.testing.assert_array_equal(np.concatenate(chunks), said)
    before = small().prequential(late[:first], Y[:first]) if first else np.empty(0)
    np.testing.assert_array_equal(said[:first], before)


def test_a_stream_of_numbers_stays_one_when_it_is_asked_about_a_gap():
    X = FRAME[["east", "north"]].fillna(0.5).to_numpy()
    model = small().partial_fit(X[:300], Y[:300])
    before = pickle.dumps(model)
    gap = np.array([[np.nan, 0.3]])
    dist = model.predict_dist(gap)
    np.testing.assert_allclose(dist.logpdf(Y[:1]), model.logpdf(gap, Y[:1]), atol=1e-5)
    assert np.isfinite(model.predict(np.vstack([X[:3], gap]))).all()
    assert pickle.dumps(model) == before


def test_going_on_after_a_fit():
    fitted = small().fit(FRAME[:600], Y[:600])
    categories = fitted._mixed.categories[1]
    later = FRAME[600:].copy()
    later.loc[later.index[::7], "city"] = "new"
    said = fitted.prequential(later, Y[600:])
    assert said.mean() > small().prequential(later, Y[600:]).mean()
    assert fitted._mixed.categories[1] == [*categories, "new"]
    again = small().fit(FRAME[:600], Y[:600])
    chunks = [again.prequential(later[s : s + 71], Y[600 + s : 671 + s]) for s in range(0, 600, 71)]
    np.testing.assert_array_equal(np.concatenate(chunks), said)


def test_several_outputs():
    two = np.column_stack([Y, 2 * Y + FRAME.north.fillna(0)])
    model = small()
    said = model.prequential(FRAME[:400], two[:400])
    again = small()
    chunks = [again.prequential(FRAME[s : s + 90], two[s : s + 90]) for s in range(0, 400, 90)]
    assert len(said) == 400
    np.testing.assert_array_equal(np.concatenate(chunks)[:400], said)
    assert model.predict(FRAME[:2]).shape == (2, 2)


def test_levels_that_come_later_have_numbers_until_there_are_no_more():
    column = [f"l{i}" for i in range(100)]
    frame = pd.DataFrame({"a": column * 3})
    y = np.arange(300.0) % 7
    one = small(n_estimators=2)
    said = one.prequential(frame, y)
    table = one._mixed.categories[0]
    assert table == [OTHERS, *column[:61]]
    codes = one._mixed.encode(pd.DataFrame({"a": ["l0", "l60", "l61", "never", None]}))[:, 0]
    assert codes[:4].tolist() == [1.0, 61.0, 0.0, 0.0]
    assert np.isnan(codes[4])
    other = small(n_estimators=2)
    np.testing.assert_array_equal(
        np.concatenate([other.prequential(frame[s : s + 9], y[s : s + 9]) for s in range(0, 300, 9)]), said
    )
    full = MixedInputs([[f"x{i}" for i in range(61)]]).grown(pd.DataFrame({"a": ["x3", "y", "z"]}))
    assert full.categories[0][-1] == OTHERS
    assert len(full.categories[0]) == 62
    assert full.grown(pd.DataFrame({"a": ["w"]})) is full


def test_files(global_kernel, tmp_path):
    _, model = global_kernel
    model.save(tmp_path / "m.cw")
    again = load(tmp_path / "m.cw")
    np.testing.assert_array_equal(again.logpdf(FRAME, Y), model.logpdf(FRAME, Y))
    more = small().partial_fit(FRAME[:130], Y[:130])  # a growth is under way
    more.save(tmp_path / "n.cw")
    np.testing.assert_array_equal(
        load(tmp_path / "n.cw").prequential(FRAME[130:], Y[130:]), more.prequential(FRAME[130:], Y[130:])
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("categorical", np.zeros(3, bool)),
        ("counts", np.zeros(3)),
        ("first_row", 10**9),
        ("categories", [[], [3], []]),
    ],
)
def test_files_whose_parts_do_not_fit_are_refused(global_kernel, name, wrong):
    stream = pickle.loads(pickle.dumps(global_kernel[1])).stream_.streams[0]
    check(stream, p=3)
    setattr(stream, name, wrong)
    with pytest.raises(ValueError, match=r"fit|must be|cannot reshape"):
        check(stream, p=3)


def test_a_refused_table_changes_nothing():
    model = small().partial_fit(FRAME[:300], Y[:300])
    before = pickle.dumps(model)
    new = FRAME[:3].assign(city="new")
    with pytest.raises(ValueError, match="infinity in row 1, column 0"):
        model.partial_fit(new.assign(east=[0.0, np.inf, 0.0]), Y[:3])
    with pytest.raises(ValueError, match="contains NaN in row 1"):
        model.partial_fit(new, [0.0, np.nan, 0.0])
    with pytest.raises(ValueError, match="same number"):
        model.partial_fit(new, Y[:2])
    with pytest.raises(ValueError, match="categorical_features"):
        model.partial_fit(new.assign(east="text"), Y[:3])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(new.rename(columns={"east": "west"}), Y[:3])
    with pytest.raises(ValueError, match="3 values"):
        model.learn_one(["new", 1.0], 0.0)
    with pytest.raises(ValueError, match="must be finite"):
        model.learn_one([0.0, "new", np.inf], 0.0)
    with pytest.raises(ValueError, match="has text"):
        model.learn_one(["text", "new", 0.0], 0.0)
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="has text"):
        small().learn_one(["text", 0.0], 0.0)


def test_max_rows_and_forgetting():
    kept = small(max_rows=200).partial_fit(FRAME, Y)
    assert len(kept.stream_.streams[0].y) == 0
    assert np.isfinite(kept.logpdf(FRAME, Y)).all()
    said = small(forget=0.005).prequential(FRAME, Y)
    assert np.isfinite(said).all()


def test_a_classifier_takes_new_levels_when_it_grows(tmp_path):
    labels = np.where(Y > 1.5, "high", "low")
    model = ContextClassifier(4, 2, random_state=0).fit(FRAME[:200], labels[:200])
    later = FRAME[200:].assign(city=[f"late{i % 40}" for i in range(1000)])
    model.partial_fit(later[:50], labels[200:250])  # learned in the trees that are there
    model.save(tmp_path / "c.cw")
    np.testing.assert_array_equal(load(tmp_path / "c.cw").predict_proba(FRAME), model.predict_proba(FRAME))
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit(later[50:60].assign(city="bad"), labels[250:260], sample_weight=[1.0])
    assert pickle.dumps(model) == before
    model.partial_fit(later[50:], labels[250:])  # grown anew
    assert len(model._mixed.categories[1]) == 62
    assert all(growth.n_categories == model._mixed.n_categories for growth, _ in model._forest.kinds)
    assert np.isfinite(model.predict_log_proba(later)).all()


def test_levels_of_numpy_are_plain_values(tmp_path):
    model = small(categorical_features=[0])
    for x, y in zip(np.array(["a", "b", "a", "c"]), Y):
        model.learn_one([x, 0.0], y)
    assert [type(category) for category in model._mixed.categories[0]] == [str] * 4
    model.save(tmp_path / "m.cw")
    np.testing.assert_array_equal(
        load(tmp_path / "m.cw").predict(np.array([["c", 0.0]], dtype=object)),
        model.predict(np.array([["c", 0.0]], dtype=object)),
    )
