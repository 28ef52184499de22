"""DoubleTree as a regressor: predictions, weights, categories, missing values."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from coverwalk import ConditionalDensity, Density, DoubleTree
from coverwalk.datasets import MIXTURES

X, Y = MIXTURES["gaussmix"].make(600, 0)


def test_chunks_single_rows_and_fit_are_one():
    whole = DoubleTree().fit(X, Y)
    chunks, singles = DoubleTree(), DoubleTree()
    for start in range(0, 600, 70):
        chunks.partial_fit(X[start : start + 70], Y[start : start + 70])
    said = [singles.learn_one(x[0], y) for x, y in zip(X, Y)]
    for model in (chunks, singles):
        np.testing.assert_array_equal(model.logpdf(X, Y), whole.logpdf(X, Y))
    np.testing.assert_allclose(said, DoubleTree().prequential(X, Y), rtol=0, atol=0)
    assert (whole.n_features_in_, singles.n_features_in_, singles.n_outputs_) == (1, 1, 1)
    refitted = chunks.fit(X[:100], Y[:100])
    np.testing.assert_array_equal(refitted.logpdf(X, Y), clone(whole).fit(X[:100], Y[:100]).logpdf(X, Y))


def test_distributions_agree_with_the_log_density():
    model = DoubleTree().fit(X, Y)
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


@pytest.mark.parametrize("max_depth", [40, 52, 64])
def test_cells_that_doubles_do_not_tell_apart(max_depth):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(40, 1)).repeat(4, axis=0), rng.standard_normal(40).repeat(4)  # equal y: as deep as it goes
    dist = DoubleTree(priors="fixed", max_depth=max_depth).fit(X, y).predict_dist(X[::4])
    coarse = DoubleTree(priors="fixed", max_depth=40).fit(X, y).predict_dist(X[::4])
    np.testing.assert_allclose(dist.mean(), coarse.mean(), atol=1e-3)
    np.testing.assert_allclose(dist.cdf(dist.ppf(0.3)), 0.3, atol=1e-9)


def test_what_it_refuses():
    with pytest.raises(NotFittedError):
        DoubleTree().logpdf(X, Y)
    several = DoubleTree().fit(X, np.column_stack([Y, Y]))
    for predict in (several.predict, several.predict_dist):
        with pytest.raises(ValueError, match="predicts one output, this one has 2"):
            predict(X)
    with pytest.raises(ValueError, match="return_std or quantiles"):
        DoubleTree().fit(X, Y).predict(X, return_std=True, quantiles=[0.5])


@pytest.mark.parametrize("parameter", ["covers", "walk", "alpha"])
def test_the_forests_have_no_such_parameters(parameter):
    for estimator in (ConditionalDensity, Density):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{parameter}'"):
            estimator(**{parameter: "kd"})


def test_weights_are_counts():
    weight = np.random.default_rng(0).integers(0, 3, size=len(Y))
    kept = np.repeat(np.arange(len(Y)), weight)
    weighted, repeated = DoubleTree().fit(X, Y, sample_weight=weight), DoubleTree().fit(X[kept], Y[kept])
    np.testing.assert_array_equal(weighted.logpdf(X, Y), repeated.logpdf(X, Y))
    assert weighted.n_rows_ == weight.sum()
    assert not np.array_equal(weighted.logpdf(X, Y), DoubleTree().fit(X, Y).logpdf(X, Y))
    ones = DoubleTree().fit(None, Y, sample_weight=np.ones(len(Y)))
    np.testing.assert_array_equal(ones.logpdf(None, Y), DoubleTree().fit(None, Y).logpdf(None, Y))


@pytest.mark.parametrize("value", [3.7, -2e-9, 0.0, 5e200])
def test_a_constant_output_is_predicted_as_it_is(value):
    model = DoubleTree().fit(X, np.full(len(Y), value))
    mean, (low, high) = model.predict(X[:5]), model.predict_dist(X[:5]).interval(0.9)
    size = abs(value) or 1.0
    assert mean == pytest.approx(np.full(5, value), abs=1e-3 * size)
    assert np.all((low <= value) & (value <= high))


def test_means_deviations_and_shapes():
    model, column = DoubleTree().fit(X, Y), DoubleTree().fit(X, Y[:, None])
    mean, std = model.predict(X[:4], return_std=True)
    dist = model.predict_dist(X[:4])
    np.testing.assert_array_equal(mean, dist.mean())
    np.testing.assert_array_equal(std, dist.std())
    assert column.predict(X[:4]).shape == (4, 1)
    assert model.log_likelihood(X, Y) == pytest.approx(model.logpdf(X, Y).mean())


def test_calibrates_and_forgets_it_when_it_learns():
    model = DoubleTree().fit(X[:300], Y[:300]).calibrate(X[300:], Y[300:])
    low, high = model.predict_dist(X[300:]).interval(0.9)
    assert np.mean((low <= Y[300:]) & (Y[300:] <= high)) >= 0.9
    model.partial_fit(X[:1], Y[:1])
    assert not hasattr(model, "calibration_")


def test_names_are_kept():
    frame, target = pd.DataFrame({"a": X[:, 0]}), pd.Series(Y, name="height")
    model = DoubleTree().fit(frame, target)
    assert model.feature_names_in_.tolist() == ["a"]
    assert model.target_names_ == ["height"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "b"}))
    assert not hasattr(model.fit(X, Y), "target_names_")


def test_a_refused_batch_leaves_the_model_as_it_was():
    model = DoubleTree().fit(X[:100], Y[:100])
    before = model.logpdf(X, Y)
    bad = X[:10].copy()
    bad[7] = np.inf
    with pytest.raises(ValueError, match="row 7"):
        model.partial_fit(bad, Y[:10])
    np.testing.assert_array_equal(model.logpdf(X, Y), before)


def test_streams_pickle():
    model = DoubleTree().fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.prequential(X[:50], Y[:50]), model.prequential(X[:50], Y[:50]))
