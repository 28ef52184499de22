"""The exponential of inner loops, and the mean density of normals over cells that are narrow, wide and far."""

import numpy as np
import pytest
from scipy import stats

from coverwalk._kernels.distributions.exponential import HIGHEST, LOWEST, loop_exp
from coverwalk._kernels.distributions.rounded import _kernels_mean_density


def test_exponentials_are_numpys():
    x = np.concatenate([np.linspace(LOWEST, 709.0, 20_001), np.linspace(-1, 1, 2001), [0.0, LOWEST]])
    np.testing.assert_allclose([loop_exp(t) for t in x], np.exp(x), rtol=1e-13)
    np.testing.assert_allclose([loop_exp(t) for t in x[np.abs(x) < 1]], np.exp(x[np.abs(x) < 1]), rtol=1e-15)
    assert loop_exp(HIGHEST) == np.inf


@pytest.mark.parametrize("width", [1e-3, 0.05, 0.3, 2.0])
@pytest.mark.parametrize("at", [-40.0, -6.0, -0.3, 0.0, 2.5, 9.0, 30.0])
def test_mean_densities_over_cells_are_differences_of_cdfs(width, at):
    center, scale, mass = (
        np.array([-3.0, 0.0, 0.1, 4.0]),
        np.array([0.5, 0.1, 1.0, 0.7]),
        np.array([0.1, 0.3, 0.4, 0.2]),
    )
    low, high = at - 0.5 * width, at + 0.5 * width
    ours = _kernels_mean_density(mass, center, scale, 0, 4, low, high)
    side = np.where(at > center, -1.0, 1.0)  # from the nearer tail: nothing cancels
    ends = [stats.norm.cdf(side * (end - center) / scale) for end in (low, high)]
    assert ours == pytest.approx(mass @ (side * (ends[1] - ends[0])) / width, rel=2e-9, abs=1e-300)
