"""Tabulated cdfs against SciPy, and the count of what a search evaluates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from coverwalk import PredictiveDistribution
from coverwalk._kernels.distributions.row_cdf import (
    FAR_PIECES,
    FIRST_FAR,
    N_PIECES,
    PER_UNIT,
    REACH,
    add_ramps,
    student_pieces,
)
from coverwalk._kernels.distributions.student import student_log_norm
from coverwalk.distributions.shapes import Shapes


@pytest.mark.parametrize("df", [1.0, 1.2, 1.7, 3.0, 10.5, 200.0, 1e5, np.inf])
def test_tabulated_cdf(df):
    pieces = np.empty((1, N_PIECES, 6))
    student_pieces(np.array([df]), student_log_norm(np.array([df])), pieces)
    e = np.linspace(0, 8, 4999)[:-1]
    k = (e * PER_UNIT).astype(int)
    value = np.polynomial.polynomial.polyval((e * PER_UNIT - k)[None], pieces[0, k].T[:, :], tensor=False)[0]
    assert_allclose(value, stats.t(df).cdf(e), atol=1e-10, rtol=0)
    assert pieces[0, REACH * PER_UNIT].tolist() == [1, 0, 0, 0, 0, 0]
    u = np.linspace(FIRST_FAR / FAR_PIECES, 1, 4999)[:-1]
    k = (u * FAR_PIECES + 1e-12).astype(int)
    value = np.polynomial.polynomial.polyval(
        (u * FAR_PIECES - k)[None], pieces[0, REACH * PER_UNIT + k].T, tensor=False
    )
    assert_allclose(value[0], stats.t(df).cdf(REACH / u), atol=1e-10, rtol=0)


def test_quantiles_of_gaps_needles_and_jumps():
    """Rows for which interpolation is bad: flat between two modes, a needle, a cell so narrow that it is an atom."""
    shapes = Shapes.join([Shapes.student([np.inf, 3.0]), Shapes.cells([1.0], [0.0], [1.0])])
    rows = [
        [(0.5, -1e6, 1.0, 0), (0.5, 1e6, 1.0, 0)],
        [(0.999, 0.0, 1.0, 1), (0.001, 0.7, 1e-9, 0)],
        [(0.4, 0.0, 1.0, 0), (0.6, 2.0, 1e-12, 2)],
        [(0.3, 0.0, 1.0, 2), (0.7, 5.0, 1.0, 2)],
    ]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    weight, loc, scale, shape = np.array([component for row in rows for component in row]).T
    dist = PredictiveDistribution(offsets, weight, loc, scale, shape.astype(int), shapes)
    q = np.array([0.002, 0.1, 0.29, 0.31, 0.4999, 0.5001, 0.7, 0.758, 0.9, 0.998])
    y = dist.ppf(q)
    assert_allclose(dist.cdf(y)[[0, 1, 3]], np.tile(q, (3, 1)), atol=2e-9, rtol=0)
    inside = (q > 0.4 * stats.norm.cdf(2)) & (q < 0.4 * stats.norm.cdf(2) + 0.6)
    assert_allclose(y[2, inside], 2.0, atol=2e-12, rtol=0)
    assert np.all(np.diff(y, axis=1) >= 0)


def test_ramps_are_added_as_differences():
    rng = np.random.default_rng(0)
    left, width = rng.uniform(-2, 2, 30), rng.choice([1e-3, 0.1, 1.5], 30)
    ramp = np.column_stack([rng.dirichlet(np.ones(30)), left, 1.0 / width])
    y = np.sort(np.concatenate([rng.uniform(-3, 4, 200), left[:5], left[5:10] + width[5:10]]))
    F = np.zeros(len(y) + 1)
    add_ramps(ramp, 30, y, F)
    direct = np.clip((y[:, None] - left) / width, 0, 1) @ ramp[:, 0]
    np.testing.assert_allclose(np.cumsum(F)[:-1], direct, atol=1e-12)
    assert np.cumsum(F)[-1] == pytest.approx(1.0)
