"""Scores against closed forms, and calibration where it is known to hold and to fail."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.evaluation import metrics


def rows(n, loc, scale, df=np.inf):
    return PredictiveDistribution(
        np.arange(n + 1),
        np.ones(n),
        np.broadcast_to(loc, n),
        np.broadcast_to(scale, n),
        np.zeros(n),
        Shapes.student(df),
    )


def normal_crps(y, loc, scale):
    z = (y - loc) / scale
    return scale * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))


def test_crps_of_normals_and_of_a_heavy_tail():
    rng = np.random.default_rng(0)
    y, loc, scale = rng.normal(size=200), rng.normal(size=200), rng.uniform(0.1, 3, 200)
    assert_allclose(metrics.crps(y, rows(200, loc, scale)), normal_crps(y, loc, scale).mean(), rtol=1e-3)
    # a t with 2 degrees at its centre: the integral of F^2 below and (1-F)^2 above
    grid = np.linspace(-2000, 0, 2_000_001)
    known = 2 * np.trapezoid(stats.t(2).cdf(grid) ** 2, grid)
    assert_allclose(metrics.crps([0.0], rows(1, 0.0, 1.0, df=2.0)), known, rtol=2e-3)


def test_proper_scores_prefer_the_truth():
    y = np.random.default_rng(1).normal(1.0, 2.0, 2000)
    truth = rows(2000, 1.0, 2.0)
    for wrong in (rows(2000, 1.3, 2.0), rows(2000, 1.0, 1.6), rows(2000, 1.0, 2.5)):
        assert metrics.log_loss(y, truth) < metrics.log_loss(y, wrong)
        assert metrics.crps(y, truth) < metrics.crps(y, wrong)
    assert_allclose(metrics.log_loss(y, truth), -stats.norm(1, 2).logpdf(y).mean(), rtol=1e-12)


def test_calibration():
    y = np.random.default_rng(2).normal(0.0, 1.0, 4000)
    right, too_sure = rows(4000, 0.0, 1.0), rows(4000, 0.0, 0.5)
    assert abs(metrics.coverage(y, right, 0.9) - 0.9) < 0.015
    assert_allclose(metrics.coverage(y, too_sure, 0.9), 2 * stats.norm.cdf(0.5 * stats.norm.ppf(0.95)) - 1, atol=0.025)
    assert metrics.calibration_error(y, right) < 0.012
    assert metrics.calibration_error(y, too_sure) > 0.08
    heights, edges = metrics.pit_histogram(y, right, bins=10)
    assert_allclose(heights, 1.0, atol=0.2)
    assert_allclose(heights @ np.diff(edges), 1.0)
    levels = np.array([0.2, 0.5, 0.9])
    assert_allclose(metrics.reliability(y, right, levels), levels, atol=0.025)
    assert_allclose(metrics.reliability(y, right, levels), [metrics.coverage(y, right, c) for c in levels], atol=1e-3)


@pytest.mark.parametrize("y", [[0.0], [0.0, np.nan], [0.0, np.inf], [[0.0, 1.0]], []])
def test_scores_refuse_what_they_cannot_score(y):
    with pytest.raises(ValueError, match=r"y"):
        metrics.log_loss(y, rows(2, 0.0, 1.0))
