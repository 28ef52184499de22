"""Reasons: importances point at what matters, dependence at mean and spread, explanations add up."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from coverwalk import ConditionalDensity, ContextClassifier
from coverwalk.forest.importance import normalised, regression_gains


@pytest.fixture(scope="module")
def rows():
    """The first input moves the mean by a step, the second the spread, the third nothing."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(500, 3))
    y = 2.0 * (X[:, 0] > 0) + np.where(X[:, 1] > 0, 0.5, 0.05) * rng.standard_normal(500)
    return X, y


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    return ConditionalDensity(6).fit(pd.DataFrame(X[:350], columns=["step", "noise", "idle"]), y[:350])


def frame(X):
    return pd.DataFrame(X, columns=["step", "noise", "idle"])


def test_feature_importances_find_both_what_moves_the_mean_and_the_spread(model):
    told = model.feature_importances_
    assert told.sum() == pytest.approx(1.0)
    assert np.all(told >= 0)
    assert min(told[0], told[1]) > 5 * told[2]


def test_gains_add_up_to_what_the_walk_saves(rows):
    """On a stump of a tree the gain is the evidence of both leaves less that of the root, times going there."""
    X, y = rows
    forest = ConditionalDensity(3, degree=0, stop=0.5).fit(X[:, :1], y).forests_[0]
    gain = regression_gains(forest)
    assert gain.shape == (1,)
    assert gain[0] > 0.5 * len(y) * 0.5 * np.log(y.var() / 0.13)  # about the entropy that the step explains
    np.testing.assert_allclose(normalised([-1.0, 1.0, 3.0]), [0.0, 0.25, 0.75])


@pytest.mark.parametrize("make", [frame, lambda X: pl.DataFrame(frame(X))], ids=["pandas", "Polars"])
def test_permutation_importance_on_held_out_rows(make, model, rows):
    X, y = rows
    told = model.importance(make(X[350:]), y[350:], n_repeats=3)
    assert told.importances.shape == (3, 3)
    assert told.importances_mean[0] > 1
    assert told.importances_mean[1] > 0.2
    assert abs(told.importances_mean[2]) < 0.1
    assert str(told).splitlines()[1].startswith("step")


def test_partial_dependence_of_mean_and_spread(model, rows):
    X = frame(rows[0][350:])
    step = model.partial_dependence(X, "step", grid=[-0.5, 0.5], max_rows=50)
    assert step.mean[1] - step.mean[0] == pytest.approx(2.0, abs=0.3)
    noise = model.partial_dependence(X, 1, grid=8, max_rows=50)
    assert noise.grid.shape == (8,)
    assert noise.std[-1] > 3 * noise.std[0]
    assert abs(noise.mean[-1] - noise.mean[0]) < 0.3
    assert np.all(noise.low < noise.high)


@pytest.mark.parametrize("feature", ["stop", 3])
def test_an_unknown_feature_is_named(feature, model, rows):
    with pytest.raises(ValueError, match=r"the features are step, noise, idle"):
        model.partial_dependence(frame(rows[0]), feature)


def test_categories_can_be_varied():
    X = pd.DataFrame({"town": ["Bern", "Rome"] * 60, "a": np.linspace(0, 1, 120)})
    y = (X["town"] == "Rome") * 3.0 + 0.1 * np.sin(50 * X["a"])
    model = ConditionalDensity(3, stop=0.5).fit(X, y)
    told = model.partial_dependence(X, "town")
    assert told.grid.tolist() == ["Bern", "Rome"]
    assert told.mean[1] - told.mean[0] == pytest.approx(3.0, abs=0.3)
    assert any("town is Rome" in reason.where for reason in model.explain(X[1:2]).reasons)


def test_an_explanation_adds_up_to_the_distribution(model):
    x = [0.5, -0.5, 0.0]
    told = model.explain(frame(np.array([x])), top=4)
    dist = model.predict_dist(frame(np.array([x])))[0]
    assert sum(reason.weight for reason in told.reasons) == pytest.approx(1.0)
    assert sum(reason.weight * reason.mean for reason in told.reasons) == pytest.approx(float(dist.mean()))
    second = sum(reason.weight * (reason.std**2 + reason.mean**2) for reason in told.reasons)
    assert second == pytest.approx(float(dist.var() + dist.mean() ** 2))
    assert len(told.reasons) <= 5
    assert "step above" in str(told)
    assert told.mean == pytest.approx(float(dist.mean()))
    for rows in (frame(np.zeros((2, 3))), np.zeros((2, 3))):
        with pytest.raises(ValueError, match="one row"):
            model.explain(rows)


@pytest.mark.parametrize("rounded", [False, True], ids=["continuous", "rounded"])
def test_an_explanation_is_in_the_units_of_y_within_bounds(rounded):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 1))
    y = np.exp(3 * X[:, 0] + 0.3 * rng.standard_normal(200))
    model = ConditionalDensity(3, stop=0.5, bounds=(0, None)).fit(X, y.round() if rounded else y)
    told = model.explain([0.5])
    assert sum(reason.weight * reason.mean for reason in told.reasons) == pytest.approx(told.mean)
    assert told.range[0] > 0
    inside = model.predict_dist([[0.5]])[0]
    for component in inside.contexts():
        assert 0 < component.loc < y.max()
    heaviest = inside.contexts(top=1)[0]
    assert heaviest.loc == pytest.approx(inside.ppf(0.5), rel=0.3)
    assert heaviest.scale == pytest.approx(np.diff(inside.ppf([0.16, 0.84]))[0] / 2, rel=0.4)


def test_a_single_value_does_not_dwarf_the_sketch(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.target_choice.MIN_ATOMS", 10**9)  # the same contexts predict zero and others
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    y = np.where(rng.random(300) < 0.5, 0.0, rng.gamma(2.0, 3.0, 300))
    model = ConditionalDensity(3, stop=0.5, bounds=(0, None)).fit(X, y)
    sketch = model.explain([0.5]).reasons[0].sketch
    assert sketch[0] == "█"
    assert max(sketch[1:10]) >= "▆"
    low, median = np.nanmin([c.loc for c in model.predict_dist([[0.5]])[0].contexts()]), np.median(y)
    assert 0 <= low <= median + 3


def test_a_sketch_shows_two_branches():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    y = rng.choice([-1.0, 1.0], 300) + 0.1 * rng.standard_normal(300)
    told = ConditionalDensity(3, stop=0.5).fit(X, y).explain([0.5])
    assert all(len(reason.sketch) == 24 for reason in told.reasons)
    ends, middle = told.reasons[0].sketch[:4] + told.reasons[0].sketch[-4:], told.reasons[0].sketch[9:15]
    assert "█" in ends
    assert set(middle) <= set(" ▁")


def test_a_stream_says_what_it_can(rows):
    X, y = rows
    model = ConditionalDensity(2).partial_fit(X[:200], y[:200])
    with pytest.raises(AttributeError, match="importance"):
        _ = model.feature_importances_
    assert model.importance(X[200:260], y[200:260], n_repeats=1).importances_mean[0] > 0.3
    assert sum(reason.weight for reason in model.explain(X[0]).reasons) == pytest.approx(1.0)


def test_a_classifier_knows_its_features_too(rows):
    X, _ = rows
    label = np.where(X[:, 2] > 0.2, "a", "b")
    model = ContextClassifier(6, 0, random_state=0).fit(X[:300], label[:300])
    assert model.feature_importances_.argmax() == 2
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    told = model.importance(X[300:], label[300:])
    assert told.importances_mean.argmax() == 2
    assert told.importances_mean[2] > 0.3
