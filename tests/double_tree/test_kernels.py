"""The kernels of the double pseudo-tree equal the slow tier."""

import numpy as np
import pytest

from coverwalk import CoverModel, DoubleTree
from coverwalk.covers import KDTree
from coverwalk.local import Polynomial, TreeDensity

from .slow_double_tree import SlowDoubleTree


def rows(n, p, q, seed=0):
    """Two branches, one of them rounded (ties in x and atoms in y), and a few values far out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).round(1)
    X[::7] = X[0]
    Y = np.where(rng.random((n, 1)) < 0.5, X[:, :1], -1.0) + 0.3 * rng.standard_normal((n, q))
    Y[::5] = Y[::5].round(1)
    Y[::97] *= 30
    return X, Y


def far_out(q):
    return np.array([[-7.0] * q, [0.0] * q, [40.0] * q, [1e6] * q, [-1e200] * q])


@pytest.mark.parametrize("walk", ["coarsen", "refine"])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 1), (1, 2), (3, 3), (2, 3)])
def test_equal_to_the_cover_model(walk, p, q):
    X, Y = rows(400, p, q)
    fast = DoubleTree(walk=walk, priors="fixed", settle=0, max_depth=10, nu=q + 2)
    local = [Polynomial(0, q, nu=q + 2), TreeDensity(q, max_depth=10, dist="flat")]
    slow = CoverModel(KDTree(), local, walk=walk)
    ask = X[: len(far_out(q))]
    for t, (x, y) in enumerate(zip(X, Y)):
        expected = slow.log_predict(x, y)
        slow.update(x, y)
        assert fast.learn_one(x, y) == pytest.approx(expected, abs=1e-9), f"row {t}"
    expected = [slow.log_predict(x, y) for x, y in zip(ask, far_out(q))]
    assert fast.logpdf(ask, far_out(q)) == pytest.approx(np.array(expected), abs=1e-9)
    assert fast.n_contexts_ == len(slow)


@pytest.mark.parametrize("walk", ["coarsen", "refine"])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 3)])
def test_equal_to_the_cover_model_after_thousands_of_rows(walk, p, q):
    X, Y = rows(2000, p, q, seed=1)
    fast = DoubleTree(walk=walk, priors="fixed", settle=0, max_depth=6, nu=q + 2).fit(X, Y)
    slow = CoverModel(KDTree(), [Polynomial(0, q, nu=q + 2), TreeDensity(q, max_depth=6, dist="flat")], walk=walk)
    slow.update_many(X, Y)
    expected = [slow.log_predict(x, y) for x, y in zip(X[:200], Y[:200])]
    assert fast.logpdf(X[:200], Y[:200]) == pytest.approx(np.array(expected), abs=1e-9)


def test_refining_with_fixed_priors_is_the_evidence_of_the_present_tree():
    """Order-free on one tree: the last of many rows predicted by a ratio of evidences."""
    X, Y = rows(300, 1, 1, seed=2)
    slow = CoverModel(KDTree(), [Polynomial(0, nu=3), TreeDensity(max_depth=9, dist="flat")], walk="refine")
    slow.update_many(X, Y)
    before = slow.log_evidence()
    fast = DoubleTree(walk="refine", priors="fixed", settle=0, max_depth=9).fit(X, Y)
    slow.cover.freeze()
    slow.update(X[0], Y[0])
    assert fast.logpdf(X[:1], Y[:1])[0] == pytest.approx(slow.log_evidence() - before, abs=1e-9)


@pytest.mark.parametrize("walk", ["coarsen", "refine"])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 1), (1, 2), (3, 3)])
def test_priors_that_flow_equal_the_plain_python(walk, p, q):
    X, Y = rows(300, p, q, seed=3)
    prior = {"alpha": 1.7, "a": 0.7, "nu0": q + 1.5, "lam": 0.8, "psi0": 1.3}
    fast = DoubleTree(
        walk=walk, settle=0, max_depth=12, alpha=1.7, a=0.7, nu=q + 1.5, ridge=0.8, scatter=1.3, priors="parent"
    )
    slow = SlowDoubleTree(p, q, refine=walk == "refine", y_depth=12, **prior)
    for t, (x, y) in enumerate(zip(X, Y)):
        assert fast.learn_one(x, y) == pytest.approx(slow.observe(x, y, learn=True), abs=1e-9), f"row {t}"
    ask = far_out(q)[:4]
    expected = [slow.observe(x, y, learn=False) for x, y in zip(X, ask)]
    assert fast.logpdf(X[:4], ask) == pytest.approx(np.array(expected), abs=1e-9)


def test_odds_beyond_a_double_come_back():
    """2000 rows on one side, then hundreds of thousands even: the odds pass 10^400 and return."""
    from coverwalk._kernels.odds import log_odds, odds_from_log, updated

    g, steps, log_g = 1.0, 0, 0.0
    rng = np.random.default_rng(0)
    for sign in (1, -1):
        for log_ratio in sign * np.abs(rng.normal(0, 3, size=3000)):
            g, steps = updated(g, steps, np.exp(log_ratio))
            log_g += log_ratio
            assert log_odds(g, steps) == pytest.approx(log_g, abs=1e-8)
            assert log_odds(*odds_from_log(log_g)) == pytest.approx(log_g, abs=1e-8)
