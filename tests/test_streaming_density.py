"""ConditionalDensity(covers="kd"): the paper's estimator under the public name."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from coverwalk import ConditionalDensity
from coverwalk.datasets import MIXTURES
from coverwalk.streams.double_tree import DoubleTree

X, Y = MIXTURES["gaussmix"].make(600, 0)


def test_it_is_the_double_tree():
    ours, tree = ConditionalDensity(covers="kd", walk="refine", alpha=3.0), DoubleTree(walk="refine", alpha=3.0)
    np.testing.assert_array_equal(ours.prequential(X[:300], Y[:300]), tree.prequential(X[:300], Y[:300]))
    np.testing.assert_array_equal(ours.logpdf(X[300:], Y[300:]), tree.logpdf(X[300:], Y[300:]))


def test_chunks_single_rows_and_fit_are_one():
    whole = ConditionalDensity(covers="kd").fit(X, Y)
    chunks, singles = ConditionalDensity(covers="kd"), ConditionalDensity(covers="kd")
    for start in range(0, 600, 70):
        chunks.partial_fit(X[start : start + 70], Y[start : start + 70])
    said = [singles.learn_one(x[0], y) for x, y in zip(X, Y)]
    for model in (chunks, singles):
        np.testing.assert_array_equal(model.logpdf(X, Y), whole.logpdf(X, Y))
    np.testing.assert_allclose(said, ConditionalDensity(covers="kd").prequential(X, Y), rtol=0, atol=0)
    assert (whole.n_features_in_, singles.n_features_in_, singles.n_outputs_) == (1, 1, 1)
    refitted = chunks.fit(X[:100], Y[:100])
    np.testing.assert_array_equal(refitted.logpdf(X, Y), clone(whole).fit(X[:100], Y[:100]).logpdf(X, Y))


def test_distributions_agree_with_the_log_density():
    model = ConditionalDensity(covers="kd").fit(X, Y)
    dist = model.predict_dist(X[:5])
    # the probability between two points, by the distribution and by quadrature of the model's own density
    grid = np.linspace(-1, 1, 4001)
    for i in range(5):
        density = np.exp(model.logpdf(np.repeat(X[i : i + 1], len(grid), axis=0), grid))
        mass = np.sum(0.5 * (density[1:] + density[:-1])) * (grid[1] - grid[0])
        assert dist[i].cdf(1.0) - dist[i].cdf(-1.0) == pytest.approx(mass, abs=1e-3)
    assert model.predict(X[:5]) == pytest.approx(dist.mean())
    assert model.predict(X[:5], quantiles=[0.1, 0.9]).shape == (5, 2)
    assert model.score(X, Y) > 0.2


def test_what_it_refuses():
    with pytest.raises(NotFittedError):
        ConditionalDensity(covers="kd").logpdf(X, Y)
    with pytest.raises(ValueError, match="one output"):
        ConditionalDensity(covers="kd").fit(X, np.column_stack([Y, Y])).predict_dist(X)


def test_a_refused_batch_leaves_the_model_as_it_was():
    model = ConditionalDensity(covers="kd").fit(X[:100], Y[:100])
    before = model.logpdf(X, Y)
    bad = X[:10].copy()
    bad[7] = np.inf
    with pytest.raises(ValueError, match="row 7"):
        model.partial_fit(bad, Y[:10])
    np.testing.assert_array_equal(model.logpdf(X, Y), before)


def test_streams_pickle():
    model = ConditionalDensity(covers="kd").fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.prequential(X[:50], Y[:50]), model.prequential(X[:50], Y[:50]))
