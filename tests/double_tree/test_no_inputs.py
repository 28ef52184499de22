"""DoubleTree without inputs: a stream for the density of y alone."""

import pickle

import numpy as np
import pytest

from coverwalk import DoubleTree, load
from coverwalk.local import Polynomial, TreeDensity
from coverwalk.walk import mix


def points(n=300, q=1, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, q)) < 0.3, -2.0, 1.0) + 0.3 * rng.standard_normal((n, q))


@pytest.mark.parametrize("q", [1, 2, 3])
def test_equal_to_the_local_models(q):
    Y = points(q=q)
    model = DoubleTree(settle=0, max_depth=9).fit(None, Y)
    normal, tree = Polynomial(0, q, nu=q + 2).start(), TreeDensity(q, max_depth=9, dist="flat").start()
    for y in Y:
        normal.update(None, y)
        tree.update(None, y)
    _, log_v = mix(np.log([0.5, 0.5]), np.array([normal.log_evidence(), tree.log_evidence()]))
    ask = np.vstack([Y[:20], [[50.0] * q], [[1e200] * q]])
    expected = [mix(log_v, np.array([normal.logpdf(None, y), tree.logpdf(None, y)]))[0] for y in ask]
    assert model.logpdf(None, ask) == pytest.approx(np.array(expected), abs=1e-9)


def test_order_does_not_matter_once_units_are_given():
    Y = points(q=2)
    forward, backward = DoubleTree(settle=0).fit(None, Y), DoubleTree(settle=0).fit(None, Y[::-1])
    assert forward.logpdf(None, Y) == pytest.approx(backward.logpdf(None, Y), abs=1e-9)


def test_streams_like_it_fits():
    Y = points()
    whole, parts = DoubleTree(), DoubleTree()
    log_density = whole.prequential(None, Y)
    first = [parts.learn_one(None, y) for y in Y[:40]]
    parts.partial_fit(None, Y[40:])
    assert np.array(first) == pytest.approx(log_density[:40], abs=1e-12)
    assert np.array_equal(parts.logpdf(None, Y), whole.logpdf(None, Y))
    assert np.array_equal(DoubleTree().fit(None, Y[:, 0]).logpdf(None, Y[:, 0]), whole.logpdf(None, Y))
    assert np.array_equal(pickle.loads(pickle.dumps(parts)).logpdf(None, Y), parts.logpdf(None, Y))


@pytest.mark.parametrize(
    ("y", "match"),
    [([1.0, np.nan], "NaN in row 1"), ([[1.0, 2.0]], "1 columns as in the rows before, got 2"), ([], "minimum")],
)
def test_refusals(y, match):
    model = DoubleTree().fit(None, points())
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=match):
        model.partial_fit(None, y)
    assert pickle.dumps(model) == before


def test_approaches_the_truth():
    from scipy import stats

    Y, holdout = points(100_000), points(5000, seed=1)[:, 0]
    truth = np.log(0.3 * stats.norm(-2, 0.3).pdf(holdout) + 0.7 * stats.norm(1, 0.3).pdf(holdout))
    assert truth.mean() - DoubleTree().fit(None, Y).log_likelihood(None, holdout) < 0.004


def test_the_distribution_object_says_the_same():
    model = DoubleTree().fit(None, points())
    dist = model.predict_dist(None)[0]
    y = np.r_[np.linspace(-6, 6, 77), 1e5]
    assert dist.logpdf(y) == pytest.approx(model.logpdf(None, y), abs=1e-9)
    assert dist.cdf(-0.5) == pytest.approx(0.3, abs=0.06)


def test_inputs_and_none_do_not_mix(tmp_path):
    Y = points(50)[:, 0]
    alone, given = DoubleTree().fit(None, Y), DoubleTree().fit(Y[:, None], Y)
    assert (alone.n_features_in_, alone.n_contexts_, given.n_features_in_) == (0, 1, 1)
    with pytest.raises(ValueError, match="expecting 0 features"):
        alone.partial_fit(Y[:, None], Y)
    with pytest.raises(ValueError, match="Expected 2D array"):
        given.partial_fit(None, Y)
    alone.save(tmp_path / "m.cover")
    assert np.array_equal(load(tmp_path / "m.cover").prequential(None, Y), alone.prequential(None, Y))
    refitted = alone.fit(Y[:, None], Y)
    assert np.array_equal(refitted.logpdf(Y[:, None], Y), given.logpdf(Y[:, None], Y))
