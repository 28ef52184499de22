"""Values of a grid at which rows pile up: ages in whole years among halves, degrees that were Fahrenheit."""

import numpy as np
import pytest

from coverwalk import ConditionalDensity, load
from coverwalk.forest.experts import y_cells
from coverwalk.forest.experts.cell_edges import MAX_HEAPS, find_heaps, find_repeats
from coverwalk.preparation.rounding import Rounding

TENTHS = Rounding(step=0.1, decimals=1)


def years(n, seed):
    """Ages of which nine in ten are whole, the others with halves and quarters."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, size=(n, 2))
    age = 20 + 40 * x[:, 0] + 8 * rng.standard_normal(n)
    return x, np.where(rng.random(n) < 0.9, np.round(age), np.round(4 * age) / 4)


def degrees(n, seed):
    """Whole degrees Fahrenheit, in Celsius to one digit."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, size=(n, 2))
    return x, np.round((np.round(40 + 50 * x[:, 0] + 5 * rng.standard_normal(n)) - 32) / 1.8, 1)


def model(**options):
    return ConditionalDensity(4, random_state=0, **options)


def without(monkeypatch):
    monkeypatch.setattr(y_cells, "find_heaps", lambda *_: None)
    monkeypatch.setattr(y_cells, "find_repeats", lambda *_: None)
    return model()


@pytest.mark.parametrize("steps", [2, 5, 7, 12, 100])
def test_how_far_heaps_are_apart(steps):
    rng = np.random.default_rng(steps)
    exact = 3.0 + steps * rng.integers(0, 60, 500)
    y = np.where(rng.random(500) < 0.6, exact, 3.0 + rng.integers(0, 60 * steps, 500))
    cells = find_heaps(y, Rounding(step=1.0, origin=0.0, decimals=0))
    np.testing.assert_allclose(np.diff(0.5 * (cells.low + cells.high)), steps)
    assert (0.5 * (cells.low + cells.high))[0] % steps == 3 % steps
    np.testing.assert_allclose(cells.high - cells.low, 1.0)
    np.testing.assert_allclose(cells.right[:-1], cells.left[1:])
    np.testing.assert_allclose(np.diff(cells.left), steps)


def test_of_many_heaps_those_with_most_rows_have_cells():
    y = 10.0 * np.append(np.arange(3 * MAX_HEAPS), np.repeat(np.arange(2 * MAX_HEAPS, 3 * MAX_HEAPS), 3))
    cells = find_heaps(y, Rounding(step=1.0, decimals=0))
    assert len(cells.low) == MAX_HEAPS
    assert cells.low[0] == 20.0 * MAX_HEAPS - 0.5


def test_values_that_come_again_have_cells():
    y = np.array([0.3, 0.3, 0.7, 1.9, 1.9, 1.9, 2.5])
    cells = find_repeats(y, TENTHS)
    np.testing.assert_allclose(0.5 * (cells.low + cells.high), [0.3, 1.9])
    np.testing.assert_allclose(cells.right[0], 1.1)
    assert find_repeats(np.array([0.1, 0.2, 0.3]), TENTHS) is None


def test_limits_of_y_are_no_heaps():
    y = np.repeat(np.arange(0.0, 101.0, 5.0), 4)
    cells = find_heaps(y, Rounding(step=1.0, decimals=0, low=0.0, high=100.0))
    assert cells.low[0] >= 4.5
    assert cells.high[-1] <= 95.5


@pytest.mark.parametrize(("make", "gain"), [(years, 0.7), (degrees, 1.2)])
def test_log_densities_gain(make, gain, monkeypatch):
    (X, y), (test, test_y) = make(600, 0), make(600, 1)
    found = model().fit(X, y)
    assert found.forests_[0].settings.y_cells is not None
    dist, plain = found.predict_dist(test), without(monkeypatch).fit(X, y).predict_dist(test)
    assert dist.logpdf(test_y).mean() > plain.logpdf(test_y).mean() + gain
    assert dist.crps(test_y).mean() < plain.crps(test_y).mean() + 0.02


def test_laws():
    X, y = years(600, 0)
    dist = model().fit(X, y).predict_dist(X[:3])
    values = np.arange(-100.0, 200.0, 0.25)
    mass = dist.pmf(np.tile(values, (3, 1)))
    np.testing.assert_allclose(mass.sum(axis=1), 1.0, atol=1e-4)  # but for the tails
    np.testing.assert_allclose(
        np.cumsum(mass, axis=1), dist.cdf(np.tile(values, (3, 1))) - dist.cdf(-100.125)[:, None], atol=1e-9
    )
    np.testing.assert_allclose(mass @ values / mass.sum(axis=1), dist.mean(), atol=0.05)
    whole = mass[:, values % 1 == 0].sum(axis=1)
    assert np.all((whole > 0.85) & (whole < 0.97))
    drawn = dist.sample(4000, random_state=0)
    assert np.mean(drawn % 1 == 0) == pytest.approx(whole.mean(), abs=0.02)
    score = np.sum((np.cumsum(mass, axis=1) - (values >= 40.0)) ** 2, axis=1) * 0.25
    np.testing.assert_allclose(dist.crps(np.full(3, 40.0)), score, rtol=1e-3)


def test_evenly_rounded_y_has_none():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.round(20 * X[:, 0] + 15 * rng.standard_normal(600))
    assert model().fit(X, y).forests_[0].settings.y_cells is None


def test_a_stream_and_a_file_keep_them(tmp_path):
    X, y = years(600, 0)
    fitted = model().fit(X, y)
    fitted.save(tmp_path / "m.cw")
    loaded = load(tmp_path / "m.cw")
    np.testing.assert_array_equal(loaded.logpdf(X, y), fitted.logpdf(X, y))
    loaded.learn_one(X[0], y[0])
    assert abs(np.mean(loaded.logpdf(*years(300, 2))) - np.mean(fitted.logpdf(*years(300, 2)))) < 0.003
    stream = model()
    stream.partial_fit(X, y)
    assert np.mean(stream.logpdf(*years(300, 2))) > np.mean(fitted.logpdf(*years(300, 2))) - 0.1


def test_cells_must_gain_three_nats_in_each_half(monkeypatch):
    X, y = years(600, 0)
    monkeypatch.setattr(y_cells, "_weights", lambda *_: (np.array([0.1, 0.9, 0.0, 0.0, 0.0, 0.0]), 2.9))
    assert model().fit(X, y).forests_[0].settings.y_cells is None
    monkeypatch.setattr(y_cells, "_weights", lambda *_: (np.array([0.1, 0.9, 0.0, 0.0, 0.0, 0.0]), 6.1))
    assert model().fit(X, y).forests_[0].settings.y_cells is not None
