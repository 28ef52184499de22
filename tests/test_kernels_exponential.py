"""Exponential, logarithm and tail of inner loops, and mean densities over cells: narrow, wide and far."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from coverwalk._kernels.distributions.density import cell_densities
from coverwalk._kernels.distributions.exponential import HIGHEST, LOWEST, loop_exp, loop_log1p, loop_mills, loop_tail
from coverwalk._kernels.distributions.mixture import Components
from coverwalk.distributions.shapes import Shapes


def test_exponentials_are_numpys():
    x = np.concatenate([np.linspace(LOWEST, 709.0, 20_001), np.linspace(-1, 1, 2001), [0.0, LOWEST]])
    np.testing.assert_allclose([loop_exp(t) for t in x], np.exp(x), rtol=1e-13)
    np.testing.assert_allclose([loop_exp(t) for t in x[np.abs(x) < 1]], np.exp(x[np.abs(x) < 1]), rtol=1e-15)
    assert loop_exp(HIGHEST) == np.inf


def test_logarithms_are_numpys():
    z = np.concatenate([[0.0], 10.0 ** np.linspace(-300, 299, 5001), np.linspace(0, 3, 5001)])
    np.testing.assert_allclose([loop_log1p(t) for t in z], np.log1p(z), rtol=1e-15)


def mean_density(shapes, low, high):
    """Of one component, by the kernel."""
    one = Components(np.array([0, 1]), np.ones(1), np.zeros(1), np.ones(1), np.zeros(1, np.int32))
    out = np.empty((1, 1))
    cell_densities(one, shapes.table, 0, np.array([[low]]), np.array([[high]]), out)
    return out[0, 0]


def test_the_tail_of_inner_loops():
    z = np.concatenate([np.linspace(0.0, 37.0, 20_001), [1e-300]])
    np.testing.assert_allclose([loop_tail(t) for t in z], stats.norm.sf(z), rtol=3e-13)
    np.testing.assert_allclose([loop_tail(t) for t in z[z < 8]], stats.norm.sf(z[z < 8]), rtol=5e-14)
    assert 0.0 < loop_tail(39.0) < 1e-300
    far = np.geomspace(37.0, 1e12, 50)
    np.testing.assert_allclose([loop_mills(t) for t in far], 0.5 * special.erfcx(far / np.sqrt(2.0)), rtol=2e-9)
    # where its numbers come from: the best polynomial of that degree is hardly better
    t = np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    t = t[t < 36 / 44]
    x = 4.0 * (1.0 + t) / (1.0 - t)
    values = (1.0 + x) * 0.5 * special.erfcx(x / np.sqrt(2.0))
    fit = np.polynomial.chebyshev.chebfit(t, values, 18, w=1.0 / values)
    ours = [loop_tail(at) * (1.0 + at) / np.exp(-0.5 * at * at) for at in x[x < 37.0]]
    np.testing.assert_allclose(ours, np.polynomial.chebyshev.chebval(t[x < 37.0], fit), rtol=2e-13)


@pytest.mark.parametrize("width", [1e-3, 0.05, 0.3, 2.0])
@pytest.mark.parametrize("at", [-40.0, -6.0, -0.3, 0.0, 2.5, 9.0, 30.0])
def test_mean_densities_over_cells_are_differences_of_cdfs(width, at):
    center, scale, mass = (
        np.array([-3.0, 0.0, 0.1, 4.0]),
        np.array([0.5, 0.1, 1.0, 0.7]),
        np.array([0.1, 0.3, 0.4, 0.2]),
    )
    low, high = at - 0.5 * width, at + 0.5 * width
    ours = mean_density(Shapes.kernels(mass, center, scale), low, high)
    side = np.where(at > center, -1.0, 1.0)  # from the nearer tail: nothing cancels
    ends = [stats.norm.cdf(side * (end - center) / scale) for end in (low, high)]
    assert ours == pytest.approx(mass @ (side * (ends[1] - ends[0])) / width, rel=2e-9, abs=1e-300)


@pytest.mark.parametrize("width", [0.0, 0.02, 0.17, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("at", [0.0, 0.7, 2.5, 30.0])
@pytest.mark.parametrize("df", [0.4, 1.0, 3.0, 9.0, 200.0, np.inf])
def test_mean_densities_of_student_components(df, at, width):
    dist = stats.norm() if df == np.inf else stats.t(df)
    ours = mean_density(Shapes.student(df), at - 0.5 * width, at + 0.5 * width)
    expected = dist.pdf(at)
    if width > 0.0:  # as a multiple of the density at the middle: quadrature errs relatively to that
        inside = integrate.quad(lambda t: np.exp(dist.logpdf(at + t) - dist.logpdf(at)), -0.5 * width, 0.5 * width)[0]
        expected *= inside / width
    assert ours == pytest.approx(expected, rel=1e-9, abs=1e-300)
