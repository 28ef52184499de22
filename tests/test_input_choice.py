"""Inputs that a forest leaves out: which, and that nothing is left of them."""

import numpy as np
import pytest

from coverwalk import ConditionalDensity, load
from coverwalk._kernels.forest.components import RIDGE
from coverwalk._kernels.forest.polynomial import features, n_features, places_of
from coverwalk._kernels.forest.sums import packing
from coverwalk.forest import input_choice, passes, tuning
from coverwalk.forest.fitting import fit_tree
from coverwalk.forest.forest import Forest
from coverwalk.forest.input_choice import without_unused
from coverwalk.forest.members import Part
from coverwalk.forest.settings import Settings, grid_of
from coverwalk.forest.small_forests import SmallForests
from coverwalk.forest.stream import ForestStream, StreamSettings
from coverwalk.forest.summary import summarise
from coverwalk.forest.sums import ForestSums
from coverwalk.forest.tree import grow_tree
from coverwalk.forest.tuning import choose
from coverwalk.preparation.scaling import Scaling


def speakers(n, seed=0):
    """Who speaks, when, and ten sounds that tell who: y is a line in time for each of 25 speakers."""
    rng, of = np.random.default_rng(seed), np.random.default_rng(99)
    sound, start, slope = of.normal(size=(25, 10)), of.normal(size=25), of.normal(size=25)
    who, when = rng.integers(0, 25, n), rng.uniform(0, 1, n)
    X = np.column_stack([who, when, sound[who] + 0.5 * rng.standard_normal((n, 10))])
    return X, start[who] + slope[who] * when + 0.05 * rng.standard_normal(n)


def mixed(n=300):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((n, 2)), rng.integers(0, 4, n), rng.integers(0, 3, n)])
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + (X[:, 2] == 1) + 0.1 * rng.standard_normal(n)
    return X, y, (0, 0, 4, 3)


def forest_without(X, y, unused, n_categories=()):
    parts = Part(2, 2, 0.5, False), Part(2, 1, 0.5, True)
    forest = Forest.plan(X, y, Settings(n_trees=4, parts=parts, unused=unused, n_categories=n_categories))
    forest.accumulate(X, y)
    forest.finalize()
    return forest


def test_units_without_columns_are_zero():
    X, _, n_categories = mixed()
    rows, all_rows = (units.rows(X, n_categories) for units in (Scaling.of(X).without((1, 3)), Scaling.of(X)))
    assert not rows.Z[:, [1, 3]].any()  # nor NaN, which is not 0
    assert not rows.plain[:, [1, 3]].any()
    np.testing.assert_array_equal(rows.Z[:, [0, 2]], all_rows.Z[:, [0, 2]])
    np.testing.assert_array_equal(rows.plain[:, [0, 2]], all_rows.plain[:, [0, 2]])


def test_trees_are_those_of_the_other_columns():
    """Whatever is in the columns that are left out: grown, fitted, with all that contexts keep."""
    X, y, n_categories = mixed()
    Z, some = Scaling.of(X).without((1, 3)).rows(X, n_categories).Z, [0, 2]
    kinds = tuple(n_categories[a] for a in some)
    trees = grow_tree(Z, y, 5, n_categories=n_categories), grow_tree(Z[:, some], y, 5, n_categories=kinds)
    inner = trees[0].left >= 0
    np.testing.assert_array_equal(trees[0].feature[inner], np.array(some)[trees[1].feature[inner]])
    np.testing.assert_array_equal(trees[0].split, trees[1].split)
    grid = grid_of(Settings(), 2, 4, len(y))
    whole, part = (
        fit_tree(tree, z, y, grid, (0.5,), n) for tree, z, n in zip(trees, (Z, Z[:, some]), (n_categories, kinds))
    )
    np.testing.assert_array_equal(whole.records.weight, part.records.weight)
    np.testing.assert_array_equal(whole.records.centre[:, places_of(np.array(some), 2, 4)], part.records.centre)
    assert np.count_nonzero(whole.records.centre) == np.count_nonzero(part.records.centre) > 0
    np.testing.assert_array_equal(whole.records.low[:, some], part.records.low)
    assert not whole.records.high[:, [1, 3]].any()


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_places_are_those_of_the_features(degree):
    columns = np.array([0, 2, 3])
    x = np.zeros(5)
    x[columns] = 2.0, 3.0, 5.0
    all_features, some = np.empty(n_features(degree, 5)), np.empty(n_features(degree, 3))
    features(x, degree, all_features)
    features(x[columns], degree, some)
    np.testing.assert_array_equal(all_features[places_of(columns, degree, 5)], some)
    assert np.count_nonzero(all_features) == len(some)


def test_inputs_that_tell_through_others_are_left_out():
    X, y = speakers(1000)
    test, y_test = speakers(1000, 1)
    model = ConditionalDensity(random_state=0).fit(X, y)
    unused = model.forests_[0].settings.unused
    assert not {0, 1} & set(unused)
    assert len(unused) >= 8
    assert model.log_likelihood(test, y_test) > 1.35  # 1.08 with all inputs
    assert not model.feature_importances_[list(unused)].any()
    assert summarise(model.forests_[0]).unused == tuple(f"x{a}" for a in unused)
    strange = test.copy()
    strange[:, list(unused)] = 1e300
    np.testing.assert_array_equal(model.predict(strange), model.predict(test))


def test_inputs_that_all_tell_are_kept():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 5))
    y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3] + np.abs(X[:, 4]) + 0.1 * rng.standard_normal(800)
    assert choose(X, y, Settings(n_trees=24)).unused == ()
    assert choose(*speakers(1000), Settings(n_trees=3)).unused == ()  # few trees are meant to be fast
    assert choose(*speakers(500), Settings(n_trees=24, unused=(0, 1))).unused != (0, 1)  # it begins with all


def test_what_was_left_out_before_is_tried_first(monkeypatch):
    X, y = speakers(500)
    sounds = tuple(range(2, 12))
    monkeypatch.setattr(input_choice, "_with_fewer", lambda *_: None)
    assert choose(X, y, Settings(n_trees=24)).unused == ()
    assert choose(X, y, Settings(n_trees=24, unused=sounds)).unused == sounds
    monkeypatch.undo()
    known, before = [], tuning.without_unused
    monkeypatch.setattr(tuning, "without_unused", lambda *given: known.append(given[3]) or before(*given))
    stream = ConditionalDensity(random_state=0).fit(X, y)
    X, y = speakers(700, 2)
    stream.partial_fit(X, y)
    assert known[0] == ()
    assert len(known[-1]) >= 8


@pytest.mark.parametrize(("errors", "left_out"), [(1.9, 0), (2.1, 1)])
def test_held_out_rows_must_surely_gain(errors, left_out, monkeypatch):
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    small = SmallForests(X, X[:, 0], [slice(0, 50), slice(50, 100)], Settings(n_trees=6), None)
    gained = 0.1 * errors + np.tile([1.0, -1.0], 50)  # the standard error is 0.1

    def held_out(small, n_folds):
        return (len(small.settings.unused) * gained)[: 50 * n_folds]

    monkeypatch.setattr(input_choice, "_held_out", held_out)
    monkeypatch.setattr(input_choice, "_best", lambda small, _, n_folds: held_out(small, n_folds))
    monkeypatch.setattr(input_choice, "_missed", lambda small, used: np.arange(len(used), 0.0, -1.0) ** 9)
    assert len(without_unused(small, [], np.ones(100)).settings.unused) == left_out


def test_streams_and_files_leave_them_out(tmp_path):
    X, y, n_categories = mixed()
    forest = forest_without(X, y, (1, 3), n_categories)
    strange = X.copy()
    strange[:, 1], strange[:, 3] = -1e9, np.nan
    dist = forest.predict_dist(X)
    np.testing.assert_array_equal(forest.predict_dist(strange).logpdf(y), dist.logpdf(y))
    streams = [ForestStream.of(forest, StreamSettings(forest.settings)) for _ in range(2)]
    np.testing.assert_allclose(streams[0].predict_dist(X).logpdf(y), dist.logpdf(y), rtol=1e-10)
    for stream, rows in zip(streams, (X, strange)):
        stream.learn(rows[:9], y[:9] + 0.3)  # before any tree grows again
    np.testing.assert_array_equal(streams[0].predict_dist(X).logpdf(y), streams[1].predict_dist(X).logpdf(y))
    model = ConditionalDensity(random_state=0, n_estimators=4).fit(X[:, :2], y)
    model.forests_ = [forest_without(X[:, :2], y, (1,))]
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.forests_[0].settings.unused == (1,)
    np.testing.assert_array_equal(again.logpdf(X[:, :2], y), model.logpdf(X[:, :2], y))


def test_a_stream_leaves_out_what_fit_does():
    X, y = speakers(1200)
    test, y_test = speakers(1000, 1)
    fit = ConditionalDensity(random_state=0).fit(X, y)
    stream = ConditionalDensity(random_state=0).partial_fit(X[:400], y[:400])
    for s in range(400, 1200, 100):
        stream.partial_fit(X[s : s + 100], y[s : s + 100])
    assert stream.log_likelihood(test, y_test) > fit.log_likelihood(test, y_test) - 0.1
    chunks = ConditionalDensity(random_state=0).fit_chunks(
        [(X[s : s + 300], y[s : s + 300]) for s in range(0, 1200, 300)], sample_rows=2000
    )
    assert chunks.forests_[0].settings.unused == fit.forests_[0].settings.unused
    assert len(chunks.forests_[0].settings.unused) >= 8


@pytest.mark.parametrize(("n", "seed"), [(300, 3), (800, 5)])
def test_inputs_of_a_smooth_function_are_kept_though_planes_would_do_without(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 8))
    y = np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + np.cos(2 * X[:, 4]) * X[:, 5] + 0.3 * X[:, 6]
    y += 0.05 * rng.standard_normal(n)
    assert choose(X, y, Settings(n_trees=4)).unused == ()


def test_sums_have_no_room_for_what_is_left_out(monkeypatch):
    X, y = speakers(3000)
    test, y_test = speakers(1000, 1)
    settings = Settings(n_trees=2, unused=(3, 5, 7, 9, 11), n_categories=(0, 0, 4, *[0] * 9))
    X[:, 2] = np.clip(np.round(X[:, 2]) + 1, 0, 3)
    sums = ForestSums.plan(X[:1000], y[:1000], settings)
    assert sums.zeros(0).moments.shape[1] == len(packing(2, 6).row)  # 12 columns, but for a category and five
    sums.accumulate(X, y)
    shapes = sums.finish()
    shapes.accumulate(X, y)
    forest = shapes.finish()
    exact = Forest.plan(X[:1000], y[:1000], settings)
    exact.accumulate(X, y)
    exact.finalize()
    assert abs(forest.predict_dist(X).logpdf(y).mean() - exact.predict_dist(X).logpdf(y).mean()) < 0.15
    root, places = forest.fitted[0], [0, 1, 2, 5, 7, 9, 11]  # 1 and six columns
    precision = np.linalg.inv(root.learned.inverse[root.records.slot[0]])[np.ix_(places, places)]
    F = np.column_stack([np.ones(3000), forest.frame.rows(X).plain])[:, places]
    np.testing.assert_allclose(precision, F.T @ F + RIDGE * np.eye(7), rtol=1e-9, atol=1e-6)
    monkeypatch.setattr(passes, "ROWS_KEPT", 1000)
    X, y = speakers(3000)
    chunks = [(X[s : s + 500], y[s : s + 500]) for s in range(0, 3000, 500)]
    model = ConditionalDensity(random_state=0).fit_chunks(chunks, sample_rows=1000)
    assert model.forests_[0].n_summed == 3000
    assert model.log_likelihood(test, y_test) > 1.4
