"""Curves of single inputs in the smooth trend: what inputs add up to."""

import dataclasses

import numpy as np
import pytest

from coverwalk import ConditionalDensity, ModelFileError, load
from coverwalk.forest.experts.curves import LENGTHS, Curves
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import Part
from coverwalk.forest.settings import Settings
from coverwalk.forest.stream import ForestStream, StreamSettings
from coverwalk.preparation.scaling import ScaledRows
from tests.forging import forged


def numbers(Z):
    return ScaledRows(Z, Z)


def added(X):
    """What five inputs of some add up to: steps, waves and a kink."""
    return (
        1.5 * np.sign(X[:, 0] - 0.3)
        + np.floor(2 * X[:, 1])
        + np.sin(6 * X[:, 2])
        + np.cos(9 * X[:, 3])
        + np.abs(X[:, 4])
    )


def additive_rows(n, p=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    return X, added(X) + 0.1 * rng.standard_normal(n)


def smooth_forest(X, y):
    forest = Forest.plan(X, y, Settings(n_trees=2, parts=(Part(2, 1, 0.5, True),)))
    forest.accumulate(X, y)
    forest.finalize()
    return forest


def test_features_have_the_prior_that_the_docs_tell():
    Z = np.random.default_rng(0).uniform(-2, 2, (50, 2))
    curves = Curves.planned(Z, 20)
    knots = [np.unique(each) for each in curves.knots]  # a value may be chosen twice
    first = 0
    for j in range(2):
        at = np.zeros((len(knots[j]), 2))
        at[:, j] = knots[j]
        own = curves.features(at)[:, first : first + len(at)]
        far, rank = knots[j][:, None] - knots[j], np.linspace(0, 1, len(at))
        smooth = sum(np.exp(-0.5 * (far / length) ** 2) for length in LENGTHS) / 4
        walk = 1 - np.abs(rank[:, None] - rank)
        np.testing.assert_allclose(own @ own.T, (walk + smooth) / 4, atol=1e-12)  # half of each, of two curves
        first += len(at)


def test_heights_are_those_of_the_features():
    rng = np.random.default_rng(0)
    Z = np.column_stack([rng.normal(size=80), rng.integers(0, 4, 80), np.ones(80)])
    curves = Curves.planned(Z, 30)
    assert curves.column.tolist() == [0, 1]  # a constant has no curve
    assert np.unique(curves.knots[1]).tolist() == [0, 1, 2, 3]
    F = curves.features(Z)
    coefficients = rng.standard_normal(F.shape[1])
    bent = curves.with_coefficients(coefficients)
    steps = [np.unique(knots, return_index=True) for knots in bent.knots]
    lines = sum(
        np.interp(Z[:, a], knots, heights[first]) for a, (knots, first), heights in zip((0, 1), steps, bent.heights)
    )
    np.testing.assert_allclose(F @ coefficients, lines, atol=1e-12)


def test_knots_lie_where_rows_are_and_where_they_are_few():
    values = np.concatenate([np.linspace(0, 1, 999), [100.0]])
    knots = Curves.planned(values[:, None], 30).knots[0]
    assert np.isin(knots, values).all()
    assert knots[0] == 0.0
    assert knots[-1] == 100.0
    assert np.sum(knots <= 1.0) >= 19
    spread = np.sort(np.random.default_rng(0).normal(size=2000))
    knots = Curves.planned(spread[:, None], 60).knots[0]
    assert np.diff(knots).max() < 0.12 * np.ptp(spread)  # at quantiles alone, the last would be .2 and more away
    many = np.random.default_rng(0).normal(size=(50, 300))
    assert len(Curves.planned(many, 64).column) == 0  # too many inputs for a curve of each


def test_the_trend_adds_curves_where_inputs_add_up():
    X, y = additive_rows(1500)
    trend, _ = Trend.plan(numbers(X), y, 0)[0].fit(numbers(X), y)
    assert len(trend.curves.column) == 8
    test = np.random.default_rng(1).uniform(-1, 1, (1000, 8))
    assert np.std(trend.value(numbers(test)) - added(test)) < 0.25  # 1 by cosines alone
    heights = np.ptp(trend.curves.heights, axis=1)
    assert heights[5:].max() < 0.2 < 0.9 < heights[:5].min()


@pytest.mark.parametrize("function", ["ridge", "one input", "noise"])
def test_other_functions_have_no_curves(function):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 1 if function == "one input" else 5))
    y = {
        "ridge": lambda: np.sin(2 * X @ np.ones(5)),
        "one input": lambda: np.sign(X[:, 0]),
        "noise": lambda: rng.standard_normal(800),
    }[function]()
    assert len(Trend.plan(numbers(X), y, 0)[0].curves.column) == 0


def test_beside_curves_cosines_tell_what_inputs_do_together():
    X, y = additive_rows(2000)
    y += 2.0 * X[:, 5] * X[:, 6]
    trend, _ = Trend.plan(numbers(X), y, 0)[0].fit(numbers(X), y)
    lengths = np.linalg.norm(trend.turns, axis=1)
    assert lengths[[5, 6]].min() > 2.0 * np.delete(lengths, [5, 6]).max()  # 1.2 times in the metric without curves


def test_what_curves_leave_of_a_row_is_its_error_when_left_out():
    X, y = additive_rows(300, p=5)
    trend, left = Trend.plan(numbers(X), y, 0)[0].fit(numbers(X), y)
    assert len(trend.curves.column) == 5
    fourier = np.cos(2 * np.pi * (X @ trend.turns + trend.phase))
    D = fourier.shape[1]
    F = np.hstack([np.ones((300, 1)), X, fourier, 3.0 * trend.curves.features(X)])
    penalty = np.full(F.shape[1], trend.ridge)
    penalty[6 : 6 + D] *= D / 18.0
    c = np.linalg.solve(F.T @ F + np.diag(penalty), F.T @ y)
    np.testing.assert_allclose(trend.value(numbers(X)), F @ c, atol=1e-8)
    for i in range(0, 300, 37):
        G = np.delete(F, i, 0)
        c = np.linalg.solve(G.T @ G + np.diag(penalty), G.T @ np.delete(y, i))
        assert left[i] == pytest.approx(y[i] - F[i] @ c, abs=1e-7)
    weight = np.ones(300)
    weight[7] = 3.0
    copied = numbers(np.vstack([X, X[[7, 7]]]))
    one = trend.fit(numbers(X), y, weight)[0].value(numbers(X))
    np.testing.assert_allclose(one, trend.fit(copied, np.append(y, y[[7, 7]]))[0].value(numbers(X)), atol=1e-8)


def test_kernels_streams_and_files_have_the_curves(tmp_path):
    X, y = additive_rows(600)
    forest = smooth_forest(X, y)
    curves = forest.trend.curves
    assert len(curves.column) == 8
    far = np.vstack([X[:50], 4 * X[:50]])
    Z = np.clip(forest.frame.rows(far).Z, forest.trend.low, forest.trend.high)
    ends = [np.unique(knots, return_index=True) for knots in curves.knots]
    lines = sum(np.interp(Z[:, a], knots, curves.heights[a][first]) for a, (knots, first) in enumerate(ends))
    flat = dataclasses.replace(curves, heights=np.zeros_like(curves.heights))
    without = dataclasses.replace(forest.trend, curves=flat)
    origin, rows = forest.frame.origin(forest.frame.rows(far)), forest.frame.rows(far)
    np.testing.assert_allclose(origin - without.value(rows), lines, atol=1e-10)
    dist = forest.predict_dist(far)
    forest.trend, forest._table = without, None
    moved = dist.mean() - forest.predict_dist(far).mean()
    share = moved / (lines * forest.output.scale[0])  # every tree starts from it, outliers do not
    np.testing.assert_allclose(share, share[0], rtol=1e-7)
    assert 0.999 < share[0] < 1.0
    forest.trend, forest._table = dataclasses.replace(without, curves=curves), None
    stream = ForestStream.of(forest, StreamSettings(forest.settings))
    np.testing.assert_allclose(stream.predict_dist(far).mean(), dist.mean(), rtol=1e-10)
    model = ConditionalDensity(n_estimators=2).fit(X, y)
    model.forests_ = [forest]
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.logpdf(X, y), model.logpdf(X, y))
    for change in (lambda knots: knots[:, ::-1], np.zeros_like):
        (tmp_path / "forged").write_bytes(forged(model, "model.forests_[0].trend.curves.knots", change))
        with pytest.raises(ModelFileError, match="knots"):
            load(tmp_path / "forged")


def test_sums_of_inputs_are_predicted_as_sums():
    X, y = additive_rows(1000)
    test, y_test = additive_rows(1000, seed=1)
    assert ConditionalDensity(random_state=0).fit(X, y).log_likelihood(test, y_test) > 0.1  # -.8 without curves
