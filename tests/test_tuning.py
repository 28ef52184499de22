"""What a forest is made of: kinds of trees in shares, the smooth trend, and the score that chooses them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from coverwalk import ConditionalDensity, load
from coverwalk._kernels.forest.trend import MISSING
from coverwalk.forest import target_choice, tuning
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import Part
from coverwalk.forest.pool import extrapolated, few_experts, pool_weights
from coverwalk.forest.schedule import StreamSettings
from coverwalk.forest.settings import Settings
from coverwalk.forest.small_forests import HALF, Expert, Kind
from coverwalk.forest.stream import ForestStream
from coverwalk.forest.tuning import _enough, choose
from coverwalk.preparation.scaling import ScaledRows, Scaling
from tests.forging import check

MIXED = Settings(
    n_trees=6, scale_factor=0.87, parts=(Part(2, 2, 0.5, False), Part(2, 1, 0.8, False), Part(2, 1, 0.5, True))
)


def rows(n=200, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, p))
    return X, np.sin(3 * X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(n)


def fitted(X, y, settings=MIXED):
    forest = Forest.plan(X, y, settings)
    forest.accumulate(X, y)
    forest.finalize()
    return forest


def numbers(Z):
    return ScaledRows(Z, Z)


def design(trend, Z):
    fourier = np.cos(2 * np.pi * (Z @ trend.turns + trend.phase))
    return np.hstack([np.ones((len(Z), 1)), Z, fourier])


def test_what_a_trend_leaves_of_a_row_is_its_error_when_left_out():
    Z, r = rows(60)
    planned, _ = Trend.plan(numbers(Z), r, seed=1)
    trend, left = planned.fit(numbers(Z), r)
    p, D = trend.turns.shape
    # the prior of a wave's coefficient is wider by its height, 3 sqrt(2 / D)
    penalty = trend.ridge * np.concatenate([np.ones(1 + p), np.full(D, D / 18.0)])
    F = design(trend, Z)
    np.testing.assert_allclose(trend.value(numbers(Z)), F @ trend.coefficients, atol=1e-10)
    for i in range(0, 60, 7):
        G, t = np.delete(F, i, 0), np.delete(r, i)
        c = np.linalg.solve(G.T @ G + np.diag(penalty), G.T @ t)
        assert left[i] == pytest.approx(r[i] - F[i] @ c, abs=1e-8)


def mixed_rows(n):
    """Two numbers and two columns of categories, all with missing values; and y, a sum of what each says alone."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((n, 2)), rng.integers(0, 5, n), rng.integers(0, 12, n)])
    effect = 2.0 * rng.standard_normal((2, 12))
    y = X[:, 0] + effect[0, X[:, 2].astype(int)] + effect[1, X[:, 3].astype(int)] + 0.1 * rng.standard_normal(n)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y, (0, 0, 5, 12)


def test_a_trend_of_categories_is_one_of_indicators():
    X, y, n_categories = mixed_rows(300)
    rows = Scaling.of(X).rows(X, n_categories)
    trend, left = Trend.plan(rows, y, 0, n_categories)[0].fit(rows, y)
    known = [[X[:, a] == category for category in range(n_categories[a])] for a in range(4)]
    has = [each for a in range(4) for each in [*known[a], np.isnan(X[:, a])]]
    Z = np.column_stack([np.nan_to_num(rows.Z[:, :2]), np.zeros((300, 2)), *has])
    F, D = design(trend, Z), len(trend.phase)
    np.testing.assert_allclose(trend.value(rows), F @ trend.coefficients, atol=1e-10)
    penalty = trend.ridge * np.concatenate([np.ones(F.shape[1] - D), np.full(D, D / 18.0)])
    for i in range(0, 300, 37):
        G = np.delete(F, i, 0)
        c = np.linalg.solve(G.T @ G + np.diag(penalty), G.T @ np.delete(y, i))
        assert left[i] == pytest.approx(y[i] - F[i] @ c, abs=1e-8)


def test_indicators_are_those_that_divide_rows_most_evenly(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.experts.trend.MAX_INDICATORS", 3)
    X, y, n_categories = mixed_rows(300)
    X[0, 2] = np.nan
    X[1:, 2] = np.minimum(X[1:, 2], 2.0)  # of 0, 1 and 2, three fifths of the rows have the last
    rows = Scaling.of(X).rows(X, n_categories)
    assert Trend.plan(rows, y, 0, n_categories)[0].indicators.tolist() == [[2, 0], [2, 1], [2, 2]]
    unseen = rows._replace(Z=np.where(np.arange(4) < 2, rows.Z, 40.0))
    trend, _ = Trend.plan(rows, y, 0, n_categories)[0].fit(rows, y)
    missing = rows._replace(Z=np.where(np.arange(4) < 2, rows.Z, np.nan))
    np.testing.assert_array_equal(trend.value(unseen), trend.value(missing))


def test_kernels_have_the_trend_of_categories():
    X, y, n_categories = mixed_rows(300)
    parts = (Part(1, 0, 0.5, True),)
    forest = fitted(X, y, Settings(n_trees=1, degree=0, parts=parts, min_rows=1000, n_categories=n_categories))
    X[:5, 2:] = [[np.nan, 3.0], [7.0, 3.0], [1.0, np.nan], [1.0, 40.0], [np.nan, np.nan]]
    assert (forest.trend.indicators == [0, MISSING]).all(axis=1).any()
    dist = forest.predict_dist(X)
    loc = dist.components.loc[dist.context == 0].reshape(300, -1)  # of the root, in the units of y
    origin = forest.frame.origin(forest.frame.rows(X)) * forest.output.scale
    assert np.abs(np.ptp(loc - origin[:, None], axis=0)).max() < 1e-9 < np.ptp(origin)
    stream = ForestStream.of(forest, StreamSettings(forest.settings))
    np.testing.assert_allclose(stream.predict_dist(X).mean(), forest.predict_dist(X).mean(), rtol=1e-12)


def test_many_rows_have_the_mean_leverage():
    Z, r = rows(3000, 2)
    trend, left = Trend.plan(numbers(Z[:200]), r[:200], seed=0)[0].fit(numbers(Z), r)
    keep, F, (p, D) = (r - trend.value(numbers(Z))) / left, design(trend, Z), trend.turns.shape
    penalty = trend.ridge * np.concatenate([np.ones(1 + p), np.full(D, D / 18.0)])
    hat = F @ np.linalg.solve(F.T @ F + np.diag(penalty), F.T)
    np.testing.assert_allclose(keep, 1 - np.trace(hat) / len(Z), rtol=1e-6)
    assert 0.9 < keep[0] < 1.0


def test_a_trend_does_not_run_away():
    Z, r = rows(100)
    trend, _ = Trend.plan(numbers(Z), r, seed=0)[0].fit(numbers(Z), r)
    assert trend.value(numbers(np.full((1, 3), 50.0))) == pytest.approx(
        trend.value(numbers(Z.max(axis=0)[None])), abs=1e-12
    )


def test_waves_run_along_the_directions_in_which_y_changes():
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1.7, 1.7, size=(1500, 6))
    r = np.sin(2 * (Z[:, 0] - Z[:, 1])) + 0.05 * rng.standard_normal(1500)
    trend = Trend.plan(numbers(Z), r, seed=0)[0].fit(numbers(Z), r)[0]
    lengths = np.linalg.norm(
        np.vstack([trend.turns[0] - trend.turns[1], trend.turns[0] + trend.turns[1], trend.turns[2:]]), axis=1
    )
    assert np.all(lengths[1:] < 0.15 * lengths[0])
    test = rng.uniform(-1.7, 1.7, size=(500, 6))
    assert np.std(np.sin(2 * (test[:, 0] - test[:, 1])) - trend.value(numbers(test))) < 0.02


def test_slopes_are_those_of_the_values():
    Z, r = rows(80)
    trend, _ = Trend.plan(numbers(Z), r, seed=0)[0].fit(numbers(Z), r)
    inside = 0.5 * Z[:5]
    for a in range(3):
        step = 1e-5 * np.eye(3)[a]
        numeric = (trend.value(numbers(inside + step)) - trend.value(numbers(inside - step))) / 2e-5
        np.testing.assert_allclose(trend.slopes(inside)[:, a], numeric, atol=1e-6)


def test_parts_are_what_they_say():
    X, y = rows()
    forest = fitted(X, y)
    assert [part.smooth for part in MIXED.part_of_trees()].count(True) == 2
    widths = [tree.records.centre.shape[1] for tree in forest.fitted]
    assert widths == [10 if part.degree == 2 else 4 for part in MIXED.part_of_trees()]


def test_order_threads_and_chunks_change_nothing():
    X, y = rows()
    order = np.random.default_rng(3).permutation(len(y))
    expected = fitted(X, y).predict_dist(X[:20]).logpdf(y[:20])
    threaded = Settings(n_trees=6, scale_factor=0.87, parts=MIXED.parts, n_threads=3)
    other = fitted(X[order], y[order], threaded)
    np.testing.assert_array_equal(other.predict_dist(X[:20]).logpdf(y[:20]), expected)
    chunks = [other.predict_dist(X[i : i + 7]).logpdf(y[i : i + 7]) for i in (0, 7)]
    np.testing.assert_array_equal(np.concatenate(chunks), expected[:14])
    two = Forest.plan(X, y, MIXED)
    two.accumulate(X[90:], y[90:])
    two.accumulate(X[:90], y[:90])
    two.finalize()
    np.testing.assert_array_equal(two.predict_dist(X[:20]).logpdf(y[:20]), expected)


def test_some_trees_are_a_pool_of_their_own():
    X, y = rows()
    forest = fitted(X, y)
    dists = [forest.predict_dists(X[:9], slice(half, None, 2))[0] for half in range(2)]
    for dist in dists:
        np.testing.assert_allclose(np.add.reduceat(dist.components.weight, dist.components.offsets[:-1]), 1, rtol=1e-12)
    mean = 0.5 * (dists[0].pdf(y[:9]) + dists[1].pdf(y[:9]))
    np.testing.assert_allclose(mean, forest.predict_dist(X[:9]).pdf(y[:9]), rtol=1e-12)


@pytest.mark.parametrize("n_trees", [6, 24])
def test_the_score_is_that_of_a_pool_of_so_many_trees(n_trees):
    rng = np.random.default_rng(0)
    trees = 1.0 + 0.5 * rng.uniform(-1, 1, size=(n_trees, 200_000))  # densities that each tree gives
    first, second = (np.log(trees[half * HALF : (half + 1) * HALF].mean(axis=0)) for half in range(2))
    estimate = extrapolated(first, second, 1.0 - 2 * HALF / n_trees).mean()
    assert estimate == pytest.approx(np.log(trees.mean(axis=0)).mean(), abs=4e-4)


def test_there_are_as_many_trees_as_lose_little_to_a_forest_without_end(monkeypatch):
    """Trees that err each by themselves, y normal: a pool of K loses c / K, and K is such that this is little."""
    rng = np.random.default_rng(0)
    y, error = rng.standard_normal(20_000), 0.4 * rng.standard_normal((1000, 20_000))
    log_p = -0.5 * (y - error) ** 2
    halves = [[np.logaddexp.reduce(log_p[k * HALF : (k + 1) * HALF])] for k in range(4)]
    one, other = (Expert(Kind(1, False), 0.5, ([], []), (halves[k], halves[k + 1])) for k in (0, 2))
    counted = np.ones(len(y))
    few, many = (np.logaddexp.reduce(log_p[:K]) - np.log(K) for K in (2 * HALF, 1000))
    for enough in (1e-3, 5e-4):
        monkeypatch.setattr("coverwalk.forest.tuning.ENOUGH", enough)
        expected = 2 * HALF * float(np.mean(many - few)) / enough
        assert 50 < expected < 400
        assert _enough([(one, 1.0)], 2 * HALF, counted) == pytest.approx(expected, rel=0.15)
        assert _enough([(one, 0.5), (other, 0.5)], 4 * HALF, counted) == pytest.approx(expected, rel=0.15)


def test_more_trees_are_taken_only_where_their_number_is_not_given(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.tuning._enough", lambda *_: 31)
    X, y = rows(100)
    assert len(ConditionalDensity().fit(X, y).forests_[0].trees) == 31
    assert len(ConditionalDensity(n_estimators=5).fit(X, y).forests_[0].trees) == 5
    assert len(ConditionalDensity().fit_chunks([(X, y)]).forests_[0].trees) == 31
    monkeypatch.setattr("coverwalk.forest.tuning.TREE_ROWS", 2900)
    assert len(ConditionalDensity().fit(X, y).forests_[0].trees) == 29
    monkeypatch.setattr("coverwalk.forest.tuning.TREE_ROWS", 2000)
    assert len(ConditionalDensity().fit(X, y).forests_[0].trees) == 24
    monkeypatch.undo()
    monkeypatch.setattr("coverwalk.forest.tuning._enough", lambda *_: 1000)
    assert len(ConditionalDensity().fit(X, y).forests_[0].trees) == 48


@pytest.mark.parametrize(("n", "n_trees", "some", "quarters"), [(120, 6, 120, 4), (120, 3, 60, 2), (600, 6, 300, 2)])
def test_few_rows_are_all_held_out_in_turn(n, n_trees, some, quarters, monkeypatch):
    X, y = rows(n)
    folds, grown, grow, plan = [], [], tuning.SmallForests.__init__, Forest.plan

    def seen(self, X, y, held_out, *rest):
        folds[:] = held_out
        grow(self, X, y, held_out, *rest)

    monkeypatch.setattr(tuning.SmallForests, "__init__", seen)
    tuning.choose(X, y, Settings(n_trees=n_trees))
    held_out = np.concatenate([np.arange(n)[fold] for fold in folds])
    assert len(held_out) == len(np.unique(held_out)) == some

    monkeypatch.setattr(Forest, "plan", lambda X, *rest: grown.append(len(X)) or plan(X, *rest))
    scores = target_choice._scores(X, y, Settings(n_trees=n_trees))
    assert grown == [n - n // 4] * quarters
    assert len(scores) == sum(n - m for m in grown)


def test_weights_of_a_pool_are_where_no_expert_gains_on_the_others():
    """The optimum of a concave function: experts with a weight have a mean ratio to the mixture of one, others less."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(5000) < 0.7, rng.normal(0, 1, 5000), rng.normal(3, 0.5, 5000))
    centres, scales = np.array([0.0, 3.0, -4.0]), np.array([1.0, 0.5, 1.0])
    log_density = -0.5 * ((y[:, None] - centres) / scales) ** 2 - np.log(scales) - 0.5 * np.log(2 * np.pi)
    weights = pool_weights(log_density, np.full(3, 1e-6))
    np.testing.assert_allclose(weights, [0.7, 0.3, 0.0], atol=0.03)
    ratio = np.mean(np.exp(log_density) / (np.exp(log_density) @ weights)[:, None], axis=0)
    np.testing.assert_allclose(ratio[:2], 1, atol=2e-3)
    assert ratio[2] < 1


def noisy(log_density, noise, rng):
    """What two halves of an expert's trees say: the truth, with errors that more trees would average out."""
    return [np.log(np.exp(log_density) * (1.0 + noise * rng.uniform(-1, 1, log_density.shape))) for _ in range(2)]


@pytest.mark.parametrize(("n", "near", "far"), [(300, 0.01, 1.0), (6, 1e-5, 1e-4)])
def test_weights_of_halves_maximise_the_mixture_as_it_will_be_with_all_trees(n, near, far):
    rng = np.random.default_rng(5)
    right = 2.0 * np.eye(3)[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])]  # about each row one expert is
    halves = [right + [0.2, 1.5, 1.5] * rng.standard_normal((n, 3)) for _ in range(2)]
    counted, gain = rng.uniform(0.5, 1.5, n), 0.8

    def objective(v):
        first, second = (np.log(np.exp(half) @ v) for half in halves)
        return counted @ extrapolated(first, second, gain) + np.log(v).sum() / 3  # a prior of one row, evenly

    best = -minimize(lambda z: -objective(softmax(z)), np.zeros(3), tol=1e-12).fun
    assert objective(pool_weights(halves[0], counted=counted, other=halves[1], gain=gain)) > best - near
    assert objective(pool_weights(halves[0], counted=counted, other=halves[1])) < best - far  # or little would be said


def test_experts_that_only_average_each_others_noise_are_dropped():
    """Four experts that are the same but for the noise of few trees: the pool of many trees has nothing to mix."""
    rng = np.random.default_rng(0)
    first, second = noisy(np.tile(-0.5 * rng.standard_normal((2000, 1)) ** 2, (1, 4)), 0.8, rng)
    plain, extrapolating = (pool_weights(first, other=second, gain=gain) for gain in (0.0, 1.0))
    assert plain.max() < 0.3  # mixed evenly, each averages the others
    assert np.ptp(extrapolating) > np.ptp(plain)
    assert np.sum(few_experts(first, second, np.ones(2000), 1.0) > 0) == 1


def test_experts_that_are_needed_stay():
    rng = np.random.default_rng(0)
    right = rng.random(2000) < 0.3
    log_density = np.log(np.where(right[:, None], [0.9, 0.1, 0.1], [0.1, 0.9, 0.8]))
    weights = few_experts(*noisy(log_density, 0.5, rng), np.ones(2000), 0.75)
    assert weights[2] == 0
    np.testing.assert_allclose(
        weights[:2], [0.25, 0.75], atol=0.03
    )  # where .3 log(.1 + .8 v) + .7 log(.9 - .8 v) is highest
    one = few_experts(*noisy(log_density[:8], 0.5, rng), np.ones(8), 0.75)  # too few rows to tell
    assert one.sum() == pytest.approx(1)


def test_a_smooth_function_asks_for_the_trend_and_steps_do_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 5))
    noise = 0.02 * rng.standard_normal(600)
    smooth = choose(X, np.sin(2 * X[:, 0] + X[:, 1]) * np.cos(X[:, 2] + X[:, 3] - X[:, 4]) + noise, Settings())
    steps = choose(X, np.floor(3 * X[:, 0]) + noise, Settings())
    assert sum(part.n_trees for part in smooth.parts if part.smooth) >= 8
    assert sum(part.n_trees for part in steps.parts if part.smooth) == 0
    for settings in (smooth, steps):
        assert sum(part.n_trees for part in settings.parts) == settings.n_trees


def test_files_keep_parts_and_trend_and_refuse_unsound_ones(tmp_path):
    X, y = rows()
    model = ConditionalDensity(n_estimators=6).fit(X, y)
    model.forests_ = [fitted(X, y)]
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.forests_[0].settings == MIXED
    np.testing.assert_array_equal(again.logpdf(X, y), model.logpdf(X, y))
    forest = model.forests_[0]
    check(forest)
    forest.settings = Settings(n_trees=6, parts=(Part(6, 1, 0.5, True),))
    with pytest.raises(ValueError, match=r"degree|n_trees"):
        check(forest)
    forest.settings = Settings(n_trees=6, parts=(*MIXED.parts[:2], Part(2, 1, 1.0, True)))
    with pytest.raises(ValueError, match="parts"):
        check(forest)
    forest.settings, forest.trend = MIXED, None
    with pytest.raises(ValueError, match="trend"):
        check(forest)


def test_a_trend_has_the_same_values_in_parts_of_the_rows(monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, (400, 3))
    r = np.sin(3 * Z[:, 0]) + 0.1 * rng.standard_normal(400)
    fitted, _ = Trend.plan(numbers(Z), r, seed=0)[0].fit(numbers(Z), r)
    far = np.concatenate([Z, 5 * Z])  # beyond the range of the rows it is constant
    whole = fitted.value(numbers(far))
    np.testing.assert_array_equal(whole[400:], fitted.value(numbers(np.clip(5 * Z, Z.min(axis=0), Z.max(axis=0)))))
    monkeypatch.setattr("coverwalk.forest.experts.trend.CLAMPED_ROWS", 7)
    np.testing.assert_array_equal(fitted.value(numbers(far)), whole)
