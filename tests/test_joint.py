"""Chains of conditionals against a Gaussian vector, whose every answer is known."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from coverwalk import ConditionalDensity
from coverwalk.distributions.joint import JointDistribution
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes

SLOPES = np.array([0.5, -1.0, 2.0, 0.0, 1.5])  # of y_1 on y_0, in each row
DEVIATIONS = np.array([1.0, 0.5, 2.0])


def conditional(j, rows, before):
    """y_0 ~ N(row, 1), y_1 ~ N(slope y_0, 1/4), y_2 ~ N(y_1 - y_0, 4)."""
    k = len(rows)
    loc = [lambda: rows.astype(float), lambda: SLOPES[rows] * before[:, 0], lambda: before[:, 1] - before[:, 0]][j]()
    return PredictiveDistribution(np.arange(k + 1), np.ones(k), loc, np.full(k, DEVIATIONS[j]), np.zeros(k), NORMAL)


NORMAL = Shapes.student(np.inf)


def true_law(i):
    """y = A e + b with e ~ N(0, diag(deviations^2))."""
    B = np.array([[0, 0, 0], [SLOPES[i], 0, 0], [-1, 1, 0]])
    A = np.linalg.inv(np.eye(3) - B)
    return stats.multivariate_normal(A @ [i, 0, 0], A @ np.diag(DEVIATIONS**2) @ A.T)


@pytest.fixture
def joint():
    return JointDistribution(conditional, 5, 3, n_draws=512, seed=1)


def test_logpdf_is_the_chain_rule(joint):
    Y = np.random.default_rng(0).normal(size=(5, 3))
    assert_allclose(joint.logpdf(Y), [true_law(i).logpdf(Y[i]) for i in range(5)], rtol=1e-12)
    assert_allclose(joint[3].pdf(Y[3]), true_law(3).pdf(Y[3]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"shape \(5, 3\)"):
        joint.logpdf(Y[:, :2])


def test_draws_have_the_covariance(joint):
    draws = joint.rvs(20_000, random_state=2)
    assert draws.shape == (5, 20_000, 3)
    for i in range(5):
        dist = true_law(i)
        assert_allclose(np.cov(draws[i].T), dist.cov, atol=0.05 * np.trace(dist.cov))
        assert_allclose(draws[i].mean(0), dist.mean, atol=0.05 * np.sqrt(np.trace(dist.cov)))
    assert joint.rvs(random_state=0).shape == (5, 3)
    assert joint[0].rvs(random_state=0).shape == (3,)


def test_moments_within_their_standard_errors(joint):
    mean, error = joint.mean(return_error=True)
    truth = np.array([true_law(i).mean for i in range(5)])
    assert_array_equal(mean[:, 0], np.arange(5.0))  # exact, and says so
    assert_array_equal(error[:, 0], 0.0)
    assert np.all(np.abs(mean - truth) <= 4 * error + 1e-12)
    assert np.all(error[:3, 1:] > 0)
    variance = np.array([np.diag(true_law(i).cov) for i in range(5)])
    assert_allclose(joint.var(), variance, rtol=0.12)
    assert_allclose(joint.std() ** 2, joint.var())


def test_one_output_of_several(joint):
    for j in range(3):
        one = joint.marginal(j)
        assert isinstance(one, PredictiveDistribution)
        for i in range(5):
            dist = true_law(i)
            marginal = stats.norm(dist.mean[j], np.sqrt(dist.cov[j, j]))
            q = np.array([0.05, 0.5, 0.95])
            assert_allclose(one[i].cdf(marginal.ppf(q)), q, atol=1e-12 if j == 0 else 0.03)
    assert_allclose(joint.marginal(2).mean(), joint.mean()[:, 2], rtol=1e-12, atol=1e-12)
    assert_allclose(joint.marginal(-1).var(), joint.var()[:, 2], rtol=1e-10)
    with pytest.raises(IndexError):
        joint.marginal(3)


@pytest.mark.parametrize("key", [slice(1, 4), [4, 0, 0], np.array([True, False, True, False, True]), 3])
def test_slicing_commutes(joint, key):
    part, fresh = joint[key], JointDistribution(conditional, 5, 3, n_draws=512, seed=1)[key]
    Y = np.random.default_rng(0).normal(size=(5, 3))
    assert_array_equal(part.logpdf(Y[key]), joint.logpdf(Y)[key])
    assert_array_equal(part.mean(), joint.mean()[key])
    assert_array_equal(fresh.var(), joint.var()[key])  # whether or not the draws were made before the slice
    assert_array_equal(joint[key].var(), joint.var()[key])
    assert_array_equal(joint[key, 1].cdf(0.3), joint.marginal(1).cdf(0.3)[key])


def test_blocks_of_rows_change_nothing(joint, monkeypatch):
    whole = joint.mean(), joint.var(), joint.rvs(7, random_state=3)
    monkeypatch.setattr("coverwalk.distributions.joint._BLOCK", 1024)
    asked = []

    def counting(j, rows, before):
        asked.append(len(rows))
        return conditional(j, rows, before)

    again = JointDistribution(counting, 5, 3, n_draws=512, seed=1)
    assert_array_equal(again.mean(), whole[0])
    assert max(asked) == 1024
    assert_array_equal(again.var(), whole[1])
    assert_array_equal(again.rvs(7, random_state=3), whole[2])


def test_rows_and_bad_input(joint):
    assert len(joint) == 5
    assert joint.shape == (5, 3)
    assert len(list(joint)) == 5
    assert repr(joint[1]) == "JointDistribution(one row, 3 outputs)"
    with pytest.raises(IndexError, match="two axes"):
        joint[0, 1, 2]
    with pytest.raises(IndexError, match="one row"):
        joint[0][0]
    with pytest.raises(ValueError, match="n_draws"):
        JointDistribution(conditional, 5, 3, n_draws=1)


def test_outputs_keep_their_names_on_a_stream():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 1))
    y = pd.DataFrame({"low": X[:, 0], "high": X[:, 0] + rng.uniform(size=60)})
    model = ConditionalDensity(2, stop=0.5).fit(X, y)
    model.learn_one(X[0], y.iloc[0].to_numpy())
    assert model.predict_dist(X[:2]).names == ["low", "high"]
