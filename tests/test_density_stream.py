"""Density(covers="kd"): laws, streams, refusals."""

import pickle
from functools import partial

import numpy as np
import pytest

from coverwalk import density
from coverwalk.local import Polynomial, TreeDensity
from coverwalk.walk import mix

Density = partial(density.Density, covers="kd")


def points(n=300, q=1, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, q)) < 0.3, -2.0, 1.0) + 0.3 * rng.standard_normal((n, q))


@pytest.mark.parametrize("q", [1, 2, 3])
def test_equal_to_the_local_models(q):
    Y = points(q=q)
    model = Density(settle=0, max_depth=9).fit(Y)
    normal, tree = Polynomial(0, q, nu=q + 2).start(), TreeDensity(q, max_depth=9, law="flat").start()
    for y in Y:
        normal.update(None, y)
        tree.update(None, y)
    _, log_v = mix(np.log([0.5, 0.5]), np.array([normal.log_evidence(), tree.log_evidence()]))
    ask = np.vstack([Y[:20], [[50.0] * q], [[1e200] * q]])
    expected = [mix(log_v, np.array([normal.logpdf(None, y), tree.logpdf(None, y)]))[0] for y in ask]
    assert model.logpdf(ask) == pytest.approx(np.array(expected), abs=1e-9)


def test_order_does_not_matter_once_units_are_given():
    Y = points(q=2)
    forward, backward = Density(settle=0).fit(Y), Density(settle=0).fit(Y[::-1])
    assert forward.logpdf(Y) == pytest.approx(backward.logpdf(Y), abs=1e-9)


def test_streams_like_it_fits():
    Y = points()
    whole, parts = Density(), Density()
    log_density = whole.prequential(Y)
    first = [parts.learn_one(y) for y in Y[:40]]
    parts.partial_fit(Y[40:])
    assert np.array(first) == pytest.approx(log_density[:40], abs=1e-12)
    assert np.array_equal(parts.logpdf(Y), whole.logpdf(Y))
    assert np.array_equal(Density().fit(Y[:, 0]).logpdf(Y[:, 0]), whole.logpdf(Y))
    assert np.array_equal(pickle.loads(pickle.dumps(parts)).logpdf(Y), parts.logpdf(Y))


@pytest.mark.parametrize(
    ("y", "match"), [([1.0, np.nan], "NaN in row 1"), ([[1.0, 2.0]], "2 features"), ([], "minimum")]
)
def test_refusals(y, match):
    model = Density().fit(points())
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=match):
        model.partial_fit(y)
    assert pickle.dumps(model) == before


def test_approaches_the_truth():
    from scipy import stats

    Y, holdout = points(100_000), points(5000, seed=1)[:, 0]
    truth = np.log(0.3 * stats.norm(-2, 0.3).pdf(holdout) + 0.7 * stats.norm(1, 0.3).pdf(holdout))
    assert truth.mean() - Density().fit(Y).score(holdout) < 0.004


def test_the_distribution_object_says_the_same():
    model = Density().fit(points())
    dist = model.predict_dist()
    y = np.r_[np.linspace(-6, 6, 77), 1e5]
    assert dist.logpdf(y) == pytest.approx(model.logpdf(y), abs=1e-9)
    assert dist.cdf(-0.5) == pytest.approx(0.3, abs=0.06)
