"""The synthetic distributions against themselves, and the finder of benchmark data."""

import numpy as np
import pytest
from scipy import integrate

from coverwalk.datasets import MIXTURES, data_folder, load_faithful


@pytest.mark.parametrize("name", MIXTURES)
def test_true_densities_integrate_to_one(name):
    dist = MIXTURES[name]
    span = (-4, 4) if name == "ring" else (-12, 12)
    for x in (-0.8, 0.3, 1.7):
        grid = np.linspace(*span, 8001)
        density = np.exp(dist.log_density(np.full((len(grid), 1), x), grid))
        assert integrate.trapezoid(density, grid) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("name", MIXTURES)
def test_draws_agree_with_the_density(name):
    """P(0 < y < 1 | x near x0), counted and integrated."""
    dist = MIXTURES[name]
    x, y = dist.make(400_000, 1)
    near = np.abs(x[:, 0] - 0.3) < 0.02
    grid = np.linspace(0, 1, 2001)
    expected = integrate.trapezoid(np.exp(dist.log_density(np.full((2001, 1), 0.3), grid)), grid)
    counted = ((y > 0) & (y < 1))[near].mean()
    assert counted == pytest.approx(expected, abs=4 * np.sqrt(0.25 / near.sum()) + 0.01)


def test_seeds():
    a, b, c = (MIXTURES["ring"].make(10, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a[1], b[1])
    assert not np.array_equal(a[1], c[1])


def test_old_faithful_is_shipped():
    x, y = load_faithful()
    assert (x.min(), x.max(), y.min(), y.max()) == (1.6, 5.1, 43, 96)


def test_missing_data_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.delenv("COVERWALK_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="COVERWALK_DATA"):
        data_folder()
    with pytest.raises(FileNotFoundError, match="no uci/boston"):
        data_folder(tmp_path, needs="uci/boston/data.csv")
    (tmp_path / "seq").mkdir()
    monkeypatch.setenv("COVERWALK_DATA", str(tmp_path))
    assert data_folder(needs="seq") == tmp_path
