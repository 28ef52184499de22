"""The estimator's contract: scikit-learn's own checks, frames of every kind, one or several outputs, hostile inputs."""

import io
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from coverwalk import ConditionalDensity, JointDistribution

# where y is rounded, as it is there, a weight of 2 is not two observations
ROUNDED = {"check_sample_weight_equivalence_on_dense_data": "equal rows of a rounded y are observations of their own"}


@parametrize_with_checks([ConditionalDensity(n_estimators=4)], expected_failed_checks=lambda estimator: ROUNDED)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(250, 3))
    return X, X[:, 0] + np.abs(X[:, 1]) + 0.2 * rng.standard_normal(250)


@pytest.fixture(scope="module")
def model(data):
    return ConditionalDensity(n_estimators=4).fit(*data)


def test_answers_agree(model, data):
    X, y = data
    dist = model.predict_dist(X)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, dist.mean())
    np.testing.assert_array_equal(std, dist.std())
    np.testing.assert_array_equal(model.predict(X), mean)
    np.testing.assert_array_equal(model.predict(X[:5], quantiles=[0.1, 0.9]), dist[:5].ppf([0.1, 0.9]))
    np.testing.assert_array_equal(model.logpdf(X, y), dist.logpdf(y))
    assert model.log_likelihood(X, y) == pytest.approx(dist.logpdf(y).mean())
    assert model.score(X, y) > 0.8


def test_frames_give_the_same_and_keep_their_names(data):
    X, y = data
    names = ["age", "length", "mass"]
    arrays = dict(zip(names, X.T))
    frames = [pd.DataFrame(arrays), pl.DataFrame(arrays), pa.table(arrays)]
    expected = ConditionalDensity(n_estimators=2, stop=0.5).fit(X, y).logpdf(X, y)
    for frame in frames:
        model = ConditionalDensity(n_estimators=2, stop=0.5).fit(frame, y)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.logpdf(frame, y), expected)
    boxes = [component.context.box for component in model.predict_dist(frames[0])[0].contexts(50) if component.context]
    assert set().union(*boxes) <= set(names)
    assert any(boxes)


def test_several_outputs_by_the_chain_rule(data):
    X, y = data
    Y = np.column_stack([y, y**2 + X[:, 2]])
    model = ConditionalDensity(n_estimators=3).fit(X, Y)
    dist = model.predict_dist(X[:40])
    assert isinstance(dist, JointDistribution)
    np.testing.assert_allclose(dist.logpdf(Y[:40]), model.logpdf(X[:40], Y[:40]), rtol=1e-12)
    first = ConditionalDensity(n_estimators=3).fit(X, y).logpdf(X[:40], y[:40])
    second = ConditionalDensity(n_estimators=3).fit(np.column_stack([X, y]), Y[:, 1])
    both = first + second.logpdf(np.column_stack([X, y])[:40], Y[:40, 1])
    np.testing.assert_allclose(model.logpdf(X[:40], Y[:40]), both, rtol=1e-12)
    assert model.predict(X[:4]).shape == (4, 2)
    assert model.predict(X[:4], quantiles=[0.1, 0.5, 0.9]).shape == (4, 2, 3)


def test_pipeline_grid_search_clone_and_pickle(data, model):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), ConditionalDensity(n_estimators=2))
    assert pipeline.fit(X, y).score(X, y) > 0.8
    search = GridSearchCV(ConditionalDensity(n_estimators=2, stop=0.9), {"degree": [0, 1]}, cv=2).fit(X, y)
    assert search.best_params_["degree"] == 1
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.logpdf(X, y), model.logpdf(X, y))


def test_threads_and_seeds(data, model):
    X, y = data
    np.testing.assert_array_equal(
        ConditionalDensity(n_estimators=4, n_jobs=3).fit(X, y).logpdf(X, y), model.logpdf(X, y)
    )
    other = ConditionalDensity(n_estimators=4, random_state=1).fit(X, y)
    assert not np.array_equal(other.logpdf(X, y), model.logpdf(X, y))


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: (X[:1], y[:1]),
        lambda X, y: (X[:2], y[:2]),
        lambda X, y: (np.repeat(X[:1], 30, axis=0), y[:30]),
        lambda X, y: (X, np.full(len(y), 3.0)),
        lambda X, y: (X, np.round(y)),
        lambda X, y: (1e300 * X, 1e300 * y),
        lambda X, y: (1e-300 * X, 1e-300 * y),
        lambda X, y: (X * [1, 0, 1e-12], y),
        lambda X, y: (np.random.default_rng(1).normal(size=(40, 60)), y[:40]),
        lambda X, y: (np.random.default_rng(1).normal(size=(len(y), 60)), y),
        lambda X, y: (np.repeat(X[:20], 12, axis=0), np.repeat(y[:20], 12)),
        lambda X, y: (np.random.default_rng(1).standard_cauchy(size=X.shape) ** 5, y),
        lambda X, y: (X, np.random.default_rng(1).standard_cauchy(size=len(y)) ** 3),
        lambda X, y: (X * [1e300, 1e-300, 1.0], y),
    ],
    ids=[
        "one row",
        "two rows",
        "one x",
        "constant y",
        "integer y",
        "huge",
        "tiny",
        "constant column",
        "p > n",
        "p = 60",
        "duplicates",
        "heavy x",
        "heavy y",
        "mixed scales",
    ],
)
def test_hostile_but_valid_rows(data, make):
    X, y = make(*data)
    model = ConditionalDensity(n_estimators=2).fit(X, y)
    dist = model.predict_dist(X)
    assert np.all(np.isfinite(dist.logpdf(y)))
    assert np.all(np.isfinite(dist.mean()))
    if np.abs(y).max() < 1e150:  # a variance beyond is infinite
        assert np.all(np.isfinite(dist.std()))


def test_scales_do_not_matter(data):
    X, y = data
    near = ConditionalDensity(n_estimators=2).fit(X, y).logpdf(X, y)
    far = ConditionalDensity(n_estimators=2).fit(2.0**900 * X, 2.0**900 * y).logpdf(2.0**900 * X, 2.0**900 * y)
    # the rows' order is another, and with it the trees
    assert abs(np.mean(far) + 900 * np.log(2) - np.mean(near)) < 0.3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a whole number from 1 to 10000, got 0"),
        ({"degree": 3}, "degree must be"),
        ({"stop": 1.0}, 'stop must be "auto", or > 0 and < 1, got 1.0'),
        ({"stop": "often"}, '"auto"'),
        ({"ridges": ()}, "at least one"),
        ({"ridges": (0.0,)}, "positive"),
        ({"ridges": (1e31,)}, "to 1e30"),  # no file could hold it
        ({"min_samples_leaf": 0.5}, "min_samples_leaf must be"),
    ],
)
def test_bad_parameters_are_named(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        ConditionalDensity(**parameters).fit(*data)


def test_bad_questions_are_refused(model, data):
    X, y = data
    with pytest.raises(ValueError, match="shape"):
        model.logpdf(X, y[:-1])
    with pytest.raises(ValueError, match="finite"):
        model.logpdf(X[:1], [np.nan])
    with pytest.raises(ValueError, match="not both"):
        model.predict(X, return_std=True, quantiles=[0.5])
    with pytest.raises(ValueError, match="NaN"):
        ConditionalDensity().fit(X, np.where(y > 0, y, np.nan))


def test_a_failed_fit_leaves_the_model(model, data):
    X, y = data
    before = model.logpdf(X, y)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:-1])
    np.testing.assert_array_equal(model.logpdf(X, y), before)


def test_weights_are_counts(data):
    X, y = data
    rng = np.random.default_rng(5)
    weight = rng.integers(0, 4, len(y))
    kept = np.repeat(np.arange(len(y)), weight)
    weighted = ConditionalDensity(n_estimators=3).fit(X, y, sample_weight=weight)
    repeated = ConditionalDensity(n_estimators=3).fit(X[kept], y[kept])
    plain = ConditionalDensity(n_estimators=3).fit(X, y)
    np.testing.assert_allclose(weighted.logpdf(X, y), repeated.logpdf(X, y), rtol=0, atol=1e-10)
    assert not np.allclose(weighted.logpdf(X, y), plain.logpdf(X, y))
    ones = ConditionalDensity(n_estimators=3).fit(X, y, sample_weight=np.ones(len(y)))
    np.testing.assert_array_equal(ones.logpdf(X, y), plain.logpdf(X, y))


def test_weights_of_several_outputs_and_any_order(data):
    X, y = data
    Y = np.column_stack([y, y + X[:, 2]])
    rng = np.random.default_rng(6)
    weight, order = rng.exponential(size=len(y)), rng.permutation(len(y))
    one = ConditionalDensity(n_estimators=2).fit(X, Y, sample_weight=weight)
    other = ConditionalDensity(n_estimators=2).fit(X[order], Y[order], sample_weight=weight[order])
    np.testing.assert_array_equal(one.logpdf(X, Y), other.logpdf(X, Y))
    assert len(one.forests_[0].y) == len(y)


@pytest.mark.parametrize(("weight", "message"), [(-1.0, "egative"), (0.0, "non-zero"), (np.nan, "NaN")])
def test_bad_weights_are_refused(data, weight, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        ConditionalDensity(n_estimators=2).fit(X, y, sample_weight=np.full(len(y), weight))


def test_verbose_tells_the_steps(capsys):
    X = np.linspace(0, 1, 40)[:, None]
    ConditionalDensity(2, stop=0.5, verbose=1).fit(X, X[:, 0])
    said = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1].rsplit(" in ", 1)[0] for line in said] == ["2 trees grown", "contexts fitted"]
    ConditionalDensity(2, stop=0.5).fit(X, X[:, 0])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("verbose", "n_jobs"), [(1, 1), (1, 2), (0, 1)])
def test_a_terminal_sees_the_trees_grow(monkeypatch, verbose, n_jobs):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    X = np.linspace(0, 1, 40)[:, None]
    ConditionalDensity(3, stop=0.5, verbose=verbose, n_jobs=n_jobs).fit(X, X[:, 0])
    assert ("growing trees: " in terminal.getvalue()) == bool(verbose)
    assert ("fitting contexts: " in terminal.getvalue()) == bool(verbose)


def test_mistakes_of_a_newcomer_are_explained():
    X, y = np.zeros((5, 1)), np.array([1.0, 2.0, np.nan, 4.0, np.nan])
    with pytest.raises(ValueError, match="y contains NaN, first in row 2"):
        ConditionalDensity(2).fit(X, y)
    with pytest.raises(ValueError, match="pass a DataFrame"):
        ConditionalDensity(2).fit(np.array([["a"], ["b"]]), [1.0, 2.0])
    with pytest.raises(ValueError, match="got the text 'red': for classes use ContextClassifier"):
        ConditionalDensity(2).fit(X, ["1", "red", "1", "2", "3"])
    with pytest.raises(ValueError, match="for classes use ContextClassifier"):
        ConditionalDensity(2).partial_fit(X, np.array(["red"] * 5, dtype=object))
    with pytest.raises(IndexError, match="there is no output 2; the outputs are 0 to 1"):
        ConditionalDensity(2, stop=0.5).fit(X, np.ones((5, 2))).predict_dist(X).marginal(2)
    with pytest.raises(ValueError, match="divide by 100"):
        ConditionalDensity(2, stop=0.5).fit(np.arange(9.0)[:, None], np.arange(9.0)).predict_dist([[1.0]]).interval(90)
