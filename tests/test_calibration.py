"""Conformal calibration: coverage whatever the model, one consistent distribution, and a way through a file."""

import numpy as np
import pytest
from scipy import integrate

from coverwalk import CalibratedDistribution, ConditionalDensity
from coverwalk.distributions.calibrated import recalibration
from coverwalk.distributions.mixture import PredictiveDistribution, Shapes
from coverwalk.files import save
from coverwalk.preparation.rounding import Rounding


def normals(n, scale=1.0):
    return PredictiveDistribution(
        range(n + 1), np.ones(n), np.zeros(n), np.full(n, scale), np.zeros(n), Shapes.student(np.inf)
    )


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("m", [19, 60])
def test_intervals_cover_whatever_the_model_says(scale, m):
    """Over calibration sets and new rows: at least the confidence, and at most 1/(m+1) or so more."""
    rng, confidence, inside = np.random.default_rng(0), 0.8, []
    for _ in range(400):
        u = np.sort(normals(m, scale).cdf(rng.standard_normal(m)))
        low, high = CalibratedDistribution(normals(20, scale), u).interval(confidence)
        y = rng.standard_normal(20)
        inside.append((low <= y) & (y <= high))
    known = (m + 1 - 2 * np.floor((m + 1) * 0.1)) / (m + 1)  # exact, for exchangeable rows without ties
    assert known >= confidence
    assert np.mean(inside) == pytest.approx(known, abs=0.015)


def test_too_few_rows_give_infinite_ends():
    dist = CalibratedDistribution(normals(2), np.array([0.2, 0.4, 0.9]))
    low, high = dist.interval(0.9)
    assert np.all(low == -np.inf)
    assert np.all(high == np.inf)
    assert np.all(np.isfinite(dist.interval(0.5)))


def test_it_is_one_distribution():
    u = np.sort(np.random.default_rng(0).beta(2, 1, 200))
    dist = CalibratedDistribution(normals(3, 2.0), u)[0]
    q = np.array([0.01, 0.2, 0.5, 0.77, 0.99])
    y = dist.ppf(q)
    np.testing.assert_allclose(dist.cdf(y), q, atol=1e-9)
    np.testing.assert_allclose(dist.sf(y), 1 - q, atol=1e-9)
    knots = dist.base.ppf(recalibration(u)[0])[1:-1]
    total, _ = integrate.quad(dist.pdf, -30, 30, points=knots, limit=400)
    assert total == pytest.approx(1.0, abs=1e-7)
    mean, _ = integrate.quad(lambda v: v * dist.pdf(v), -30, 30, points=knots, limit=400)
    assert dist.mean() == pytest.approx(mean, abs=1e-3)
    draws = dist.rvs(4000, random_state=0)
    assert np.mean(draws <= y[3]) == pytest.approx(0.77, abs=0.03)


def test_the_masses_of_atoms_are_the_jumps_of_the_cdf():
    u = np.sort(np.random.default_rng(0).beta(2, 1, 200))
    grid, zero = Rounding(0.5), Rounding(values=np.array([0.0]), width=np.array([0.5]))
    dist = CalibratedDistribution(normals(3, 2.0).rounded(grid), u)
    y = grid.between(-20.0, 20.0)
    mass = dist.pmf(y[None, :])
    assert mass.shape == (3, len(y))
    np.testing.assert_allclose(np.cumsum(mass, axis=1), dist.cdf(y[None, :]), atol=1e-12)
    assert mass[0].sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(0.5 * dist.pdf(y[None, :]), mass, rtol=1e-6, atol=1e-12)
    one = CalibratedDistribution(normals(1, 2.0).rounded(zero), u)[0]
    assert one.pmf(0.3) == 0.0
    assert one.pmf(0.0) == pytest.approx(one.cdf(0.0) - one.cdf(-1e-12), abs=1e-9)
    assert one.pdf(0.0) == pytest.approx(one.pmf(0.0))


def test_it_improves_an_overconfident_model():
    rng = np.random.default_rng(0)
    y, new = rng.standard_normal((2, 1000))
    base = normals(1000, 0.4)
    dist = CalibratedDistribution(base, np.sort(base.cdf(y)))
    assert -dist.logpdf(new).mean() < -base.logpdf(new).mean() - 1.0
    assert -dist.logpdf(new).mean() < 0.5 * np.log(2 * np.pi * np.e) + 0.5  # few knots in the tails


@pytest.mark.parametrize("u", [[0.0, 0.0, 0.5], [0.5] * 9, [1.0, 1.0], [0.0, 1.0], []])
def test_ties_and_ends_make_a_map_all_the_same(u):
    x, level = recalibration(np.array(u, dtype=np.float64))
    assert x[0] == 0 == level[0]
    assert x[-1] == 1 == level[-1]
    assert np.all(np.diff(x) > 0)
    assert np.all(np.diff(level) >= 0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(400, 2))
    return X, X[:, 0] + 0.1 * rng.standard_normal(400)


def test_a_model_is_calibrated_saved_and_loaded(rows, tmp_path):
    X, y = rows
    model = ConditionalDensity(3, stop=0.5).fit(X[:200], y[:200])
    before = model.predict_dist(X[300:]).interval(0.9)
    assert model.calibrate(X[200:300], y[200:300]) is model
    dist = model.predict_dist(X[300:])
    assert isinstance(dist, CalibratedDistribution)
    assert not np.array_equal(dist.interval(0.9), before)
    np.testing.assert_array_equal(model.predict(X[300:], quantiles=[0.1]), dist.ppf([0.1]))
    np.testing.assert_allclose(model.logpdf(X[300:], y[300:]), dist.logpdf(y[300:]))
    np.testing.assert_allclose(model.prob(X[300:], 0.2, 0.4), dist.cdf(0.4) - dist.cdf(0.2))
    np.testing.assert_allclose(model.exceedance(X[300:], 0.7), dist.sf(0.7))
    model.save(tmp_path / "m.cover")
    again = ConditionalDensity.load(tmp_path / "m.cover")
    np.testing.assert_array_equal(again.predict_dist(X[300:]).interval(0.9), dist.interval(0.9))
    again.fit(X[:100], y[:100])
    assert not isinstance(again.predict_dist(X), CalibratedDistribution)
    model.partial_fit(X[:5], y[:5])
    assert not isinstance(model.predict_dist(X), CalibratedDistribution)


def test_a_forged_calibration_is_refused(rows, tmp_path):
    X, y = rows
    model = ConditionalDensity(2, stop=0.5).fit(X[:100], y[:100]).calibrate(X[200:220], y[200:220])
    good = model.calibration_
    for bad in (good[::-1].copy(), good[:, 0], good + 2, np.hstack([good, good])):
        model.calibration_ = bad
        with pytest.raises(ValueError, match="calibration"):  # what cannot be loaded is not saved
            save(model, tmp_path / "bad.cover")
        assert not (tmp_path / "bad.cover").exists()


def test_several_outputs_are_calibrated_one_by_one(rows):
    X, y = rows
    Y = np.column_stack([y, -y])
    model = ConditionalDensity(2, stop=0.5).fit(X[:100], Y[:100]).calibrate(X[100:200], Y[100:200])
    dist = model.predict_dist(X[200:230])
    low = dist.interval(0.8)[0]
    assert low.shape == (30, 2)
    part = dist.marginal(1)
    assert isinstance(part, CalibratedDistribution)
    np.testing.assert_array_equal(part.interval(0.8)[0], low[:, 1])
    np.testing.assert_array_equal(part.u, model.calibration_[:, 1])
    with pytest.raises(ValueError, match="2 finite"):
        model.calibrate(X, y)


def test_too_few_rows_are_pointed_out():
    X = np.random.default_rng(0).uniform(size=(60, 1))
    model = ConditionalDensity(2, stop=0.5).fit(X, X[:, 0])
    with pytest.warns(UserWarning, match="hold out more rows"):
        model.calibrate(X[:18], X[:18, 0])
