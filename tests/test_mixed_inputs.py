"""Categories and missing values in x, in both forests: which side they go, what is seen of them, how well it does."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from coverwalk import ConditionalDensity, ContextClassifier, Density, DoubleTree, load
from coverwalk._kernels.forest.category_split import mask_of, missing_goes, order_categories
from coverwalk._kernels.forest.node import MISSING, UNSEEN, goes_right
from coverwalk.forest.tree import grow_tree
from coverwalk.preparation.categories import OTHERS
from coverwalk.preparation.columns import MixedInputs


def table(n, seed=0):
    """Thirty cities in three groups with a distribution each; a fifth of the numbers missing, and telling by that."""
    rng = np.random.default_rng(seed)
    city, x = rng.integers(30, size=n), rng.uniform(-1, 1, (n, 2))
    missing = rng.random((n, 2)) < 0.2
    y = np.choose(city % 3, [3 * x[:, 0], -3 * x[:, 0], np.full(n, 4.0)]) + np.where(missing[:, 1], 2.0, 0.0)
    frame = pd.DataFrame(np.where(missing, np.nan, x), columns=["east", "north"])
    frame.insert(1, "city", np.array([f"c{c}" for c in range(30)], dtype=object)[city])
    return frame, y + 0.2 * rng.standard_normal(n)


def imputed(frame):
    return pd.get_dummies(frame.fillna(frame.mean(numeric_only=True)), columns=["city"], dtype=float)


FRAME, Y = table(900)
TRAIN, TEST = slice(0, 600), slice(600, 900)


@pytest.fixture(scope="module")
def model():
    return ConditionalDensity(n_estimators=8).fit(FRAME[TRAIN], Y[TRAIN])


def test_which_side():
    categories = np.int64(0b0101)
    assert [goes_right(x, math.nan, categories) for x in (0.0, 1.0, 2.0, 3.0)] == [0, 1, 0, 1]
    assert [goes_right(x, 0.5, np.int64(0)) for x in (0.5, 0.6, -math.inf, math.nan)] == [0, 1, 0, 1]
    assert goes_right(math.nan, 0.5, missing_goes(np.int64(0), True)) == 0
    assert goes_right(math.nan, math.nan, missing_goes(categories, True)) == 0
    assert missing_goes(missing_goes(categories, True), False) == categories
    assert int(missing_goes(np.int64(0), True)) == -(2**MISSING)


def test_levels_in_the_order_of_their_means_and_absent_ones_with_the_larger_side():
    order = np.zeros(4, np.int64)
    n = order_categories(np.array([0.3, 0.0, -1.0, 0.1]), np.array([2.0, 0.0, 1.0, 5.0]), order)
    assert order[:n].tolist() == [2, 3, 0]
    assert int(mask_of(order, 1, n, False)) == 0b0100
    larger = int(mask_of(order, 1, n, True))
    assert [larger >> i & 1 for i in (0, 1, 2, 3, UNSEEN)] == [0, 1, 1, 0, 1]


def test_the_best_set_of_levels_is_found_among_all():
    rng = np.random.default_rng(0)
    category = rng.integers(6, size=300).astype(float)
    y = np.isin(category, [1, 4]) + 0.01 * rng.standard_normal(300)
    tree = grow_tree(category[:, None], y, 0, min_rows=20, n_categories=(6,))
    left = {i for i in range(6) if tree.categories[0] >> i & 1}
    assert left in ({1, 4}, {0, 2, 3, 5})
    assert np.isnan(tree.split[0])
    leaf = tree.leaves(np.array([[1.0], [4.0], [0.0], [5.0], [UNSEEN]]))
    sides = {int(k) for k in leaf}
    assert tree.box(1) == {}
    assert tree.category_sets(1)[0] & 0b111111 == int(tree.categories[0]) & 0b111111
    assert len(sides) >= 2


def test_missing_values_go_where_they_belong():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 400)
    y = (x > 0).astype(float) + 0.01 * rng.standard_normal(400)
    x[rng.random(400) < 0.25] = np.nan
    for value in (0.0, 1.0):
        y[np.isnan(x)] = value
        tree = grow_tree(x[:, None], y, 0, min_rows=60)
        below, above, gap = (goes_right(at, tree.split[0], tree.categories[0]) for at in (-0.5, 0.5, np.nan))
        assert (below, above) == (0, 1)
        assert gap == int(value)
    whole = np.sort(rng.uniform(-1, 1, 100))
    tree = grow_tree(whole[:, None], (whole > 0.6).astype(float), 0, min_rows=10)
    below = (whole <= tree.split[0]).sum()
    assert goes_right(np.nan, tree.split[0], tree.categories[0]) == (
        below < 50
    )  # none were missing: to the larger side


def test_numbers_are_grown_as_ever(model):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), rng.standard_normal(200)
    plain = ConditionalDensity(n_estimators=3).fit(X, y)
    told = ConditionalDensity(n_estimators=3, categorical_features=None).fit(X, y)
    np.testing.assert_array_equal(plain.logpdf(X, y), told.logpdf(X, y))


def test_beats_one_hot_codes_and_filled_in_means(model):
    coded = imputed(FRAME)
    other = ConditionalDensity(n_estimators=8).fit(coded[TRAIN], Y[TRAIN])
    ours, theirs = model.log_likelihood(FRAME[TEST], Y[TEST]), other.log_likelihood(coded[TEST], Y[TEST])
    assert ours > theirs + 0.1


def test_beats_boosting_with_one_normal(model):
    from sklearn.ensemble import HistGradientBoostingRegressor

    frame = FRAME.astype({"city": "category"})
    peer = HistGradientBoostingRegressor(categorical_features="from_dtype").fit(frame[TRAIN], Y[TRAIN])
    error = Y[TEST] - peer.predict(frame[TEST])
    assert model.log_likelihood(FRAME[TEST], Y[TEST]) > -0.5 * np.log(2 * np.pi * np.e * error.var()) + 0.3


def test_classes_too():
    from sklearn.metrics import log_loss

    labels = np.where(Y > 1.5, "high", "low")
    ours = ContextClassifier(20, 0, random_state=0).fit(FRAME[TRAIN], labels[TRAIN])
    coded = imputed(FRAME)
    other = ContextClassifier(20, 0, random_state=0).fit(coded[TRAIN], labels[TRAIN])
    loss = log_loss(labels[TEST], ours.predict_proba(FRAME[TEST]))
    assert loss < log_loss(labels[TEST], other.predict_proba(coded[TEST])) - 0.02
    boxes = [component.box for component in ours.contexts(FRAME[:1], top=50)[0]]
    sets = [box["city"] for box in boxes if "city" in box]
    assert sets
    assert all(FRAME.city[0] in categories for categories in sets)
    ours.partial_fit(FRAME[TEST], labels[TEST])
    assert ours.predict(FRAME[:5]).shape == (5,)


def test_contexts_name_the_levels(model):
    dist = model.predict_dist(FRAME[:1])[0]
    boxes = [component.context.box for component in dist.contexts() if component.context is not None]
    sets = [box["city"] for box in boxes if "city" in box]
    assert sets
    assert all(FRAME.city[0] in categories and set(categories) <= set(FRAME.city) for categories in sets)
    assert all(len(box["east"]) == 2 for box in boxes if "east" in box)


def test_frames_of_all_makes_say_the_same(model):
    expected = model.logpdf(FRAME[TEST], Y[TEST])
    for frame in (pl.from_pandas(FRAME), FRAME.astype({"city": "category"}), FRAME.astype({"city": "string"})):
        other = ConditionalDensity(n_estimators=8).fit(frame[:600], Y[:600])
        np.testing.assert_array_equal(other.logpdf(frame[600:], Y[600:]), expected)
    array = FRAME.to_numpy(dtype=object)
    by_number = ConditionalDensity(n_estimators=8, categorical_features=[1]).fit(array[:600], Y[:600])
    np.testing.assert_array_equal(by_number.logpdf(array[600:], Y[600:]), expected)
    by_name = ConditionalDensity(n_estimators=8, categorical_features=["city"]).fit(FRAME[:600], Y[:600])
    np.testing.assert_array_equal(by_name.logpdf(FRAME[600:], Y[600:]), expected)
    by_mask = ConditionalDensity(n_estimators=8, categorical_features=[False, True, False]).fit(array[:600], Y[:600])
    np.testing.assert_array_equal(by_mask.logpdf(array[600:], Y[600:]), expected)


def test_order_does_not_matter(model):
    order = np.random.default_rng(0).permutation(600)
    again = ConditionalDensity(n_estimators=8).fit(FRAME.iloc[order], Y[order])
    np.testing.assert_array_equal(again.logpdf(FRAME[TEST], Y[TEST]), model.logpdf(FRAME[TEST], Y[TEST]))


def test_files(model, tmp_path):
    model.save(tmp_path / "m.cw")
    again = load(tmp_path / "m.cw")
    np.testing.assert_array_equal(again.logpdf(FRAME[TEST], Y[TEST]), model.logpdf(FRAME[TEST], Y[TEST]))
    classes = ContextClassifier(3, 3, random_state=0).fit(FRAME[TRAIN], Y[TRAIN] > 1)
    classes.save(tmp_path / "c.cw")
    np.testing.assert_array_equal(load(tmp_path / "c.cw").predict_proba(FRAME), classes.predict_proba(FRAME))


def test_unseen_levels_and_gaps_that_never_came(model):
    strange = FRAME[:3].assign(city="nowhere")
    assert np.isfinite(model.predict(strange)).all()
    assert np.isfinite(model.predict(FRAME[:3].assign(city=None, east=np.nan, north=np.nan))).all()
    plain = ConditionalDensity(n_estimators=3).fit(FRAME[["east"]].fillna(0.0), Y)
    assert np.isfinite(plain.logpdf(pd.DataFrame({"east": [np.nan]}), [0.0])).all()
    empty = FRAME[:50].assign(east=np.nan)
    assert np.isfinite(ConditionalDensity(n_estimators=2).fit(empty, Y[:50]).predict(FRAME[:5])).all()


def test_many_levels_share_one():
    column = np.array([f"l{i:03d}" for i in range(100)] + ["l000"] * 5 + ["l001"] * 3, dtype=object)
    mixed = MixedInputs.of(pd.DataFrame({"a": column}), "from_dtype")
    assert len(mixed.categories[0]) == 62
    assert mixed.categories[0][-1] == OTHERS
    codes = mixed.encode(pd.DataFrame({"a": ["l000", "l001", "never", None]}))[:, 0]
    assert codes[:3].tolist() == [0.0, 1.0, 61.0]
    assert np.isnan(codes[3])


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("text", "from_dtype"),
        (["town"], "names 'town'"),
        ([7], "column 7"),
        ([True], "mask of 1"),
        ([[0]], "flat list"),
    ],
)
def test_refusals(given, match):
    with pytest.raises(ValueError, match=match):
        ConditionalDensity(categorical_features=given).fit(FRAME, Y)


def test_text_that_is_no_category_is_refused():
    with pytest.raises(ValueError, match="convert"):
        ConditionalDensity(categorical_features=None).fit(FRAME, Y)
    with pytest.raises(ValueError, match="categorical_features"):
        ConditionalDensity(n_estimators=2, categorical_features=["east"]).fit(FRAME, Y)


def test_discriminants_see_indicators_of_levels():
    from sklearn.metrics import log_loss

    rng = np.random.default_rng(0)
    kind, x = rng.integers(5, size=1200), rng.standard_normal((1200, 2))
    y = rng.random(1200) < 1 / (1 + np.exp(-2 * (x @ [1.0, -1.0] + kind - 2.0)))
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(kind=[f"k{k}" for k in kind])
    frame.loc[::10, "kind"] = None
    model = ContextClassifier(0, 8, random_state=0).fit(frame[:600], y[:600])
    inputs = model._forest.inputs
    assert inputs.indicators.tolist() == [[2, category] for category in range(5)]
    Z = inputs.forward(model._mixed.encode(frame[:600]))
    assert Z.shape == (600, 8)
    np.testing.assert_allclose(np.nanmean(Z[:, 3:], axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.nanvar(Z[:, 3:], axis=0), 1.0, atol=1e-9)
    trees = [tree for _, trees in model._forest.kinds for tree in trees]
    assert all((tree.tree.feature < 3).all() for tree in trees)  # splits are between sets of levels
    blind = ContextClassifier(0, 8, random_state=0).fit(frame[["a", "b"]][:600], y[:600])
    loss = log_loss(y[600:], model.predict_proba(frame[600:]))
    assert loss < log_loss(y[600:], blind.predict_proba(frame[["a", "b"]][600:])) - 0.1


def two_of_one_name(make):
    frame = pd.DataFrame(np.random.default_rng(0).random((40, 2)), columns=["a", "a"])
    return frame if make == "pandas" else pa.Table.from_arrays([pa.array(frame.iloc[:, j]) for j in (0, 1)], ["a", "a"])


@pytest.mark.parametrize("make", ["pandas", "arrow"])
@pytest.mark.parametrize(
    "estimator",
    [ConditionalDensity(2), ContextClassifier(2, 0), DoubleTree(), Density(2)],
    ids=lambda e: type(e).__name__,
)
def test_two_columns_of_one_name_are_refused(estimator, make):
    y, good = np.arange(40) % 3, pd.DataFrame(np.random.default_rng(0).random((40, 2)), columns=["a", "b"])
    bad, said = two_of_one_name(make), r"two columns with the name 'a': rename"
    with pytest.raises(ValueError, match=said):
        clone(estimator).fit(bad, y)
    fitted = clone(estimator).fit(good, y)
    with pytest.raises(ValueError, match=said):
        fitted.logpdf(bad) if isinstance(estimator, Density) else fitted.predict(bad)
    for name in ("partial_fit", "fit_chunks"):
        if hasattr(estimator, name):
            call = getattr(clone(estimator), name)
            with pytest.raises(ValueError, match=said):
                call(bad, y) if name == "partial_fit" else call([(bad, y)])


HOURS = np.arange(40) % 5


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (HOURS > 2, "ContextClassifier"),
        ((HOURS > 2).tolist(), "ContextClassifier"),
        (pd.Series(HOURS > 2, dtype="boolean"), "ContextClassifier"),
        (pl.Series(HOURS > 2), "ContextClassifier"),
        (pd.Series(pd.to_timedelta(HOURS, unit="h")), "lengths of time"),
        (pl.Series(HOURS).cast(pl.Duration("us")), "lengths of time"),
        (pd.DataFrame({"u": 1.0 * HOURS, "v": pd.to_timedelta(HOURS, unit="h")}), "lengths of time"),
        (HOURS.astype("datetime64[D]"), "dates"),
        (pd.Series(HOURS.astype("datetime64[s]")).dt.tz_localize("UTC"), "dates"),
    ],
)
def test_truths_and_times_are_no_numbers(y, said):
    X = np.random.default_rng(0).random((40, 1))
    for learn in (
        lambda: ConditionalDensity(2).fit(X, y),
        lambda: ConditionalDensity(2).partial_fit(X, y),
        lambda: ConditionalDensity(2).fit_chunks([(X, y)]),
        lambda: DoubleTree().fit(X, y),
    ):
        with pytest.raises(ValueError, match=f"y must be numbers, got .*{said}"):
            learn()
