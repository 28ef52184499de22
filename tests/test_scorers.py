"""Scorers and pipelines with scikit-learn's own tools; distributions of several outputs."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coverwalk import ConditionalDensity, Distribution
from coverwalk.evaluation import (
    IntervalScorer,
    PinballScorer,
    crps_scorer,
    interval_scorer,
    metrics,
    nll_scorer,
    pinball_scorer,
)
from coverwalk.pipeline import make_density_pipeline


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 2))
    return X, X[:, 0] + 0.1 * rng.standard_normal(150)


def test_scorers_are_the_metrics_with_their_sign_turned(rows):
    X, y = rows
    model = ConditionalDensity(2, stop=0.5).fit(X[:100], y[:100])
    dist, held = model.predict_dist(X[100:]), y[100:]
    assert nll_scorer(model, X[100:], held) == pytest.approx(model.log_likelihood(X[100:], held))
    assert crps_scorer(model, X[100:], held[:, None]) == pytest.approx(-np.mean(dist.crps(held)))
    low, high = dist.interval(0.5)
    width = high - low + 4 * (np.maximum(low - held, 0) + np.maximum(held - high, 0))
    assert IntervalScorer(0.5)(model, X[100:], held) == pytest.approx(-width.mean())
    assert interval_scorer == IntervalScorer(0.9)
    assert pinball_scorer == PinballScorer(0.5)
    assert pinball_scorer(model, X[100:], held) == pytest.approx(-0.5 * np.abs(dist.median() - held).mean())


def test_searches_and_pipelines(rows):
    X, y = rows
    pipe = make_pipeline(StandardScaler(), ConditionalDensity(2, stop=0.5))
    assert cross_val_score(pipe, X, y, cv=2, scoring=nll_scorer).mean() > 0.3
    grid = {"conditionaldensity__degree": [0, 2]}
    search = GridSearchCV(pipe, grid, scoring=nll_scorer, cv=2).fit(X, y)
    assert search.best_params_ == {"conditionaldensity__degree": 2}
    assert crps_scorer(search, X, y) > -0.1
    with pytest.raises(TypeError, match="does not predict distributions"):
        nll_scorer(LinearRegression().fit(X, y), X, y)


def test_a_pipeline_that_predicts_distributions(rows):
    X, y = rows
    pipe = make_density_pipeline(StandardScaler(), ConditionalDensity(2, stop=0.5)).fit(X, y)
    inner = pipe[-1].predict_dist(pipe[:-1].transform(X))
    np.testing.assert_array_equal(pipe.predict_dist(X).mean(), inner.mean())
    np.testing.assert_allclose(pipe.logpdf(X, y), inner.logpdf(y))
    np.testing.assert_allclose(pipe.prob(X, 0.2, 0.4), inner.cdf(0.4) - inner.cdf(0.2))
    assert not hasattr(make_density_pipeline(StandardScaler(), LinearRegression()), "predict_dist")


def test_several_outputs_have_the_whole_interface(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    Y = pd.DataFrame({"up": y, "down": -y + 0.01 * X[:, 1]})
    model = ConditionalDensity(2, stop=0.5).fit(X, Y)
    dist, Y = model.predict_dist(X[:6]), Y.to_numpy()[:6]
    assert isinstance(dist, Distribution)
    low, high = dist.interval(0.8)
    np.testing.assert_array_equal(low[:, 1], dist.marginal("down").interval(0.8)[0])
    assert dist.ppf([0.1, 0.5, 0.9]).shape == (6, 2, 3)
    assert np.all(low < high)
    np.testing.assert_allclose(dist.crps(Y)[:, 0], dist.marginal(0).crps(Y[:, 0]))
    assert metrics.crps(Y, dist) == pytest.approx(dist.crps(Y).mean())
    assert metrics.log_loss(Y, dist) == pytest.approx(-dist.logpdf(Y).mean())
    assert list(dist.to_frame()) == [
        f"{n}_{s}" for n in ("up", "down") for s in ("mean", "std", "q0.05", "q0.5", "q0.95")
    ]
    assert dist[2].entropy() == pytest.approx(dist.entropy()[2])
    assert "<svg" in dist._repr_html_()
    with pytest.raises(KeyError, match="up, down"):
        dist.marginal("left")
    with pytest.raises(ValueError, match=r"one number for each output; got shape \(6,\)"):
        dist.logpdf(Y[:, 0])
    with pytest.raises(ValueError, match="one by one"):
        metrics.pit(Y, dist)
    with pytest.raises(TypeError, match="y_true comes first"):
        metrics.log_loss(dist, Y)
    far = np.full((6, 2), 1e6)
    np.testing.assert_allclose(dist.cdf(far), 1.0, atol=1e-6)
    np.testing.assert_allclose(dist.sf(-far), 1.0, atol=1e-6)


def test_joint_probabilities_and_the_energy_score_against_many_draws():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 1))
    Y = np.column_stack([X[:, 0] + 0.3 * rng.standard_normal(200), rng.standard_normal(200)])
    dist = ConditionalDensity(2, stop=0.5, degree=1).fit(X, Y).predict_dist(X[:3])
    draws = dist.rvs(20_000, random_state=1)
    point = np.array([[0.5, 0.2]] * 3)
    np.testing.assert_allclose(dist.cdf(point), np.mean(np.all(draws <= point[:, None], axis=2), axis=1), atol=0.05)
    np.testing.assert_allclose(dist.sf(point), np.mean(np.all(draws > point[:, None], axis=2), axis=1), atol=0.05)
    half = draws.reshape(3, 2, 10_000, 2)
    known = np.linalg.norm(draws - point[:, None], axis=2).mean(axis=1)
    known -= 0.5 * np.linalg.norm(half[:, 0] - half[:, 1], axis=2).mean(axis=1)
    np.testing.assert_allclose(dist.energy_score(point, n_draws=400), known, atol=0.05)
    assert metrics.energy_score(point, dist) == pytest.approx(dist.energy_score(point).mean())


def test_a_distribution_of_one_output_as_a_table_and_in_a_notebook(rows):
    X, y = rows
    model = ConditionalDensity(2, stop=0.5).fit(X, y)
    dist = model.predict_dist(X[:30])
    frame = dist.to_frame([0.1])
    assert list(frame) == ["mean", "std", "q0.1"]
    np.testing.assert_array_equal(frame["q0.1"], dist.ppf(0.1))
    assert dist._repr_html_().count("<svg") == 20
    assert "and 10 more rows" in dist._repr_html_()
    np.testing.assert_allclose(dist.prob(0.2, 0.6) + dist.prob(high=0.2) + dist.prob(low=0.6), 1.0)
    np.testing.assert_array_equal(dist.exceedance(0.5), dist.sf(0.5))
    assert dist.prob() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="low must not exceed high"):
        dist.prob(1.0, 0.0)
    assert dist.marginal(0) is dist
    with pytest.raises(ValueError, match=r"shape \(30,\); got shape \(29,\)"):
        dist.crps(y[:29])
