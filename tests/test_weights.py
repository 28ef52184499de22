"""Weights of rows: relative, real numbers in the sums, and copies of a row are one."""

import math

import numpy as np
import pytest
from scipy import stats

from coverwalk import ConditionalDensity
from coverwalk._kernels.forest.contexts import Grid, Layout, empty_fit, fit_contexts
from coverwalk._kernels.forest.kernel_density import kernel_tables
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.forest import Forest
from coverwalk.forest.settings import Settings
from coverwalk.preparation.scaling import ScaledRows
from coverwalk.preparation.weights import distinct_rows


def rows(n, seed=0, p=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    return X, X[:, 0] + 0.3 * rng.normal(size=n), rng.uniform(0.2, 3.0, n)


def features(X, degree):
    columns = [np.ones(len(X)), *X.T]
    if degree == 2:
        columns += [X[:, a] * X[:, b] for a in range(X.shape[1]) for b in range(a + 1)]
    return np.column_stack(columns[: 1 if degree == 0 else None])


def context(X, y, weight, grid):
    one = np.array([-1])
    layout = Layout(np.array([0]), np.array([len(y)]), one, one, weight)
    fit = empty_fit(layout, grid, X.shape[1])
    fit_contexts(X, y, layout, grid, kernel_tables(), fit)
    return fit


def held_out(X, y, weight, ridge, degree, nu_0, psi_0):
    """Every row predicted by a regression of the others, its log density counted as often as it weighs."""
    total = 0.0
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        F, r, w = features(X[rest], degree), y[rest], weight[rest]
        A = F.T @ (w[:, None] * F) + ridge * np.eye(F.shape[1])
        c = np.linalg.solve(A, F.T @ (w * r))
        psi = psi_0 + np.sum(w * r * r) - c @ A @ c
        nu, f = nu_0 + w.sum(), features(X[i : i + 1], degree)[0]
        scale = math.sqrt(psi * (1 + f @ np.linalg.solve(A, f)) / nu)
        total += weight[i] * stats.t(nu, f @ c, scale).logpdf(y[i])
    return total


@pytest.mark.parametrize("n", [5, 9, 30])  # solved for rows, and for coefficients
@pytest.mark.parametrize("degree", [1, 2])
def test_evidence_is_that_of_rows_left_out_with_all_their_weight(n, degree):
    X, y, weight = rows(n)
    grid = Grid(np.array([0.1, 0.7, 2.0]), degree, 2.0, 1e9, 1e-9, X.shape[1])
    fit = context(X, y, weight, grid)
    psi_0 = grid.nu_0 * (grid.min_scale**2 + np.average(y * y, weights=weight))
    for m, ridge in enumerate(grid.ridges):
        expected = held_out(X, y, weight, ridge, degree, grid.nu_0, psi_0)
        assert fit.log_score[0, 3 * degree + m] == pytest.approx(expected, rel=1e-8)


def test_weights_of_one_are_no_weights():
    X, y, _ = rows(40)
    for many in (1.0, 1e9):
        grid = Grid(np.array([0.1, 0.7, 2.0]), 2, 2.0, many, 1e-9, X.shape[1])
        plain, weighted = context(X, y, np.empty(0), grid), context(X, y, np.ones(40), grid)
        for one, other in zip(plain, weighted):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_trend_with_weights_leaves_the_errors_of_rows_left_out():
    X, y, weight = rows(60)
    planned, _ = Trend.plan(ScaledRows(X, X), y, seed=1)
    trend, left = planned.fit(ScaledRows(X, X), y, weight)
    i = 7
    rest = np.arange(60) != i
    without, _ = planned.fit(ScaledRows(X[rest], X[rest]), y[rest], weight[rest])
    without = type(without)(**{**without.__dict__, "low": trend.low, "high": trend.high})
    assert left[i] == pytest.approx(y[i] - without.value(ScaledRows(X, X))[i], abs=1e-7)


def loss(model, seed=9):
    X, y, _ = rows(1500, seed)
    return -model.log_likelihood(X, y)


def test_the_scale_of_weights_does_not_matter():
    X, y, weight = rows(300)
    models = [ConditionalDensity(n_estimators=3).fit(X, y, c * weight) for c in (1.0, 1e-3, 1e5)]
    for other in models[1:]:
        np.testing.assert_allclose(other.logpdf(X, y), models[0].logpdf(X, y), rtol=1e-6)
    plain = ConditionalDensity(n_estimators=3).fit(X, y)
    same = ConditionalDensity(n_estimators=3).fit(X, y, np.full(300, 0.01))
    np.testing.assert_array_equal(plain.logpdf(X, y), same.logpdf(X, y))


def test_copies_are_one_row_of_their_weight():
    X, y, _ = rows(250)
    plain = ConditionalDensity(n_estimators=3).fit(X, y)
    repeated = ConditionalDensity(n_estimators=3).fit(np.tile(X, (5, 1)), np.tile(y, 5))
    np.testing.assert_array_equal(plain.logpdf(X, y), repeated.logpdf(X, y))
    counts = np.random.default_rng(0).integers(0, 4, 250)
    weighted = ConditionalDensity(n_estimators=3).fit(X, y, counts)
    copied = ConditionalDensity(n_estimators=3).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.logpdf(X, y), copied.logpdf(X, y), rtol=1e-9)


def test_rounded_rows_that_are_equal_are_observations_of_their_own():
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 3, (500, 1)).astype(float), rng.poisson(2.0, (500, 1)).astype(float)
    kept, weight = distinct_rows(X, Y, None, True)
    assert len(kept) == 500
    assert weight is None
    X = rng.normal(size=(60, 1))
    kept, weight = distinct_rows(np.tile(X, (5, 1)), np.tile(Y[:60], (5, 1)), None, True)
    assert len(kept) == 60
    assert weight is None


def test_weights_say_which_rows_matter():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1200, 1))
    first = np.arange(1200) % 2 == 0
    y = np.where(first, 0.0, 1.0) + 0.3 * rng.normal(size=1200)
    model = ConditionalDensity(n_estimators=4).fit(X, y, np.where(first, 3.0, 1.0))
    assert np.mean(model.predict(X)) == pytest.approx(0.25, abs=0.03)
    below = model.predict_dist(X[:100]).cdf(0.5)
    far = stats.norm.cdf(0.5 / 0.3)
    assert np.mean(below) == pytest.approx(0.75 * far + 0.25 * (1 - far), abs=0.03)


def test_uneven_weights_lose_little():
    X, y, _ = rows(600)
    weight = np.random.default_rng(1).uniform(0.5, 1.5, 600)
    plain, weighted = ConditionalDensity(n_estimators=4).fit(X, y), ConditionalDensity(n_estimators=4).fit(X, y, weight)
    assert loss(weighted) < loss(plain) + 0.02


def test_no_weight_at_all_is_refused():
    X, y, _ = rows(30)
    with pytest.raises(ValueError, match="non-zero"):
        ConditionalDensity(n_estimators=2).fit(X, y, np.zeros(30))


def test_forests_with_and_without_weights_do_not_mix():
    X, y, weight = rows(60)
    forest = Forest.plan(X, y, Settings(n_trees=2))
    forest.accumulate(X, y, weight)
    with pytest.raises(ValueError, match="either all rows"):
        forest.accumulate(X, y)
