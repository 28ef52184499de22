"""Density: densities that integrate to one, agree with their samples and slices, and do not mind the order of rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from coverwalk import Density, JointDistribution, PredictiveDistribution


def points(n=400, q=1, seed=0):
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((n, 1)) < 0.3, -2.0, 1.0) + 0.3 * rng.standard_normal((n, q))
    Y[: n // 10] *= 5.0
    return Y


@parametrize_with_checks([Density(n_estimators=2)])
def test_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def plane():
    return Density(n_estimators=3).fit(points(q=2))


def all_of_r(n):
    """Places that run through all of R, finest where the points are, and the weights of a midpoint rule."""
    t = (np.arange(n) + 0.5) * 2 / n - 1
    return 1.5 * t / (1 - t**2), 1.5 * (1 + t**2) / (1 - t**2) ** 2 * 2 / n


def test_integrates_to_one_on_the_line():
    model = Density(n_estimators=2).fit(points(100))
    y, weight = all_of_r(100_000)
    mass = np.exp(model.logpdf(y)) * weight
    assert mass.sum() == pytest.approx(1.0, abs=1e-3)
    assert np.cumsum(mass)[:-1:1000] == pytest.approx(model.cdf(0.5 * (y[:-1] + y[1:])[::1000]), abs=1e-3)


def test_integrates_to_one_in_the_plane(plane):
    y, weight = all_of_r(400)
    grid = np.stack(np.meshgrid(y, y, indexing="ij"), axis=-1).reshape(-1, 2)
    assert np.exp(plane.logpdf(grid)) @ np.outer(weight, weight).ravel() == pytest.approx(1.0, abs=5e-3)


def test_samples_agree_with_the_cdf_and_with_slices(plane):
    model = Density(n_estimators=4).fit(points())
    assert kstest(model.sample(5000, random_state=0)[:, 0], model.cdf).pvalue > 0.01
    drawn = plane.sample(5000, random_state=1)
    first = plane.predict_dist().marginal(0)
    assert kstest(drawn[:, 0], first.cdf).pvalue > 0.01
    near = drawn[np.abs(drawn[:, 0] - 1.0) < 0.03, 1]
    assert kstest(near, plane.conditional({0: 1.0}).cdf).pvalue > 0.01


def test_quantiles_invert_the_cdf():
    model = Density(n_estimators=3).fit(points())
    q = np.array([1e-6, 0.01, 0.3, 0.5, 0.99])
    assert model.cdf(model.ppf(q)) == pytest.approx(q, rel=1e-6)


def test_the_distribution_object_says_the_same():
    model = Density(n_estimators=3).fit(points())
    dist = model.predict_dist()
    y = np.r_[np.linspace(-12, 12, 333), 1e5, -1e12, 1e200]
    assert isinstance(dist, PredictiveDistribution)
    assert dist.logpdf(y) == pytest.approx(model.logpdf(y), abs=1e-9)


@pytest.mark.parametrize("q", [2, 3])
def test_slices_chain_to_the_density(q):
    Y = points(q=q)
    model = Density(n_estimators=2).fit(pd.DataFrame(Y, columns=list("abc"[:q])))
    joint = model.predict_dist()
    assert isinstance(joint, JointDistribution)
    for y in (Y[0], Y[-1], np.full(q, 40.0)):
        ask = pd.DataFrame(y[None, :], columns=list("abc"[:q]))
        assert joint.logpdf(y) == pytest.approx(model.logpdf(ask)[0], abs=1e-8)
        if q == 2:  # p(b | a) p(a)
            chained = model.conditional({"a": y[0]}).logpdf(y[1]) + joint.marginal(0).logpdf(y[0])
            assert chained == pytest.approx(model.logpdf(ask)[0], abs=1e-8)
        else:  # p(a, c | b) = p(a | b) p(c | a, b)
            rest = model.conditional({"b": y[1]})
            chained = rest.marginal(0).logpdf(y[0]) + model.conditional({"a": y[0], "b": y[1]}).logpdf(y[2])
            assert rest.logpdf(y[[0, 2]]) == pytest.approx(chained, abs=1e-8)


def test_given_columns_by_name_or_number():
    frame = pd.DataFrame(points(q=2), columns=["height", "weight"])
    model = Density(n_estimators=2).fit(frame)
    assert model.conditional({"height": 1.0}).mean() == model.conditional({0: 1.0}).mean()
    with pytest.raises(ValueError, match=r"no column 'age'; the columns are \['height', 'weight'\]"):
        model.conditional({"age": 1.0})
    with pytest.raises(ValueError, match="all 2 columns"):
        model.conditional({"height": 1.0, "weight": 1.0})
    with pytest.raises(ValueError, match="finite"):
        model.conditional({"height": np.nan})
    with pytest.raises(ValueError, match="one column"):
        model.cdf(0.0)


@pytest.mark.parametrize("q", [1, 2])
def test_the_order_of_rows_and_the_threads_do_not_matter(q):
    Y = points(q=q)
    shuffled = np.random.default_rng(1).permutation(Y)
    model = Density(n_estimators=6).fit(Y)
    np.testing.assert_array_equal(model.logpdf(Y), Density(n_estimators=6, n_jobs=2).fit(shuffled).logpdf(Y))
    np.testing.assert_array_equal(model.logpdf(Y), pickle.loads(pickle.dumps(model)).logpdf(Y))
    assert not np.array_equal(model.logpdf(Y), Density(n_estimators=6, random_state=1).fit(Y).logpdf(Y))


def test_atoms_have_their_share_within_a_step():
    rng = np.random.default_rng(0)
    counts = rng.poisson(3.0, 3000).astype(float)
    model = Density(n_estimators=8).fit(counts)
    inside = model.cdf(np.arange(8) + 0.5) - model.cdf(np.arange(8) - 0.5)
    assert inside == pytest.approx(np.bincount(counts.astype(int))[:8] / 3000, abs=0.05)
    assert np.exp(model.logpdf([2.0, 3.0, 4.0])).max() < 0.6  # nothing is known within a step of 1
    mixed = np.where(rng.random(2000) < 0.4, 0.0, rng.standard_normal(2000))
    sharp = Density(n_estimators=4, resolution=1e-3).fit(mixed)
    assert sharp.cdf(2e-3) - sharp.cdf(-2e-3) > 0.35
    assert np.exp(sharp.logpdf([0.0])[0]) < 0.45 / 1e-3
    assert np.exp(sharp.logpdf(np.linspace(0.8, 1.2, 50))).mean() == pytest.approx(0.6 * 0.242, rel=0.2)


@pytest.mark.parametrize("scale", [2.0**-990, 2.0**-300, 2.0**300, 2.0**990])
def test_units_do_not_matter(scale):
    Y = points(200)[:, 0] / 10.0
    plain, scaled = Density(n_estimators=3).fit(Y), Density(n_estimators=3).fit(Y * scale)
    assert scaled.logpdf(Y * scale) + np.log(scale) == pytest.approx(plain.logpdf(Y), abs=1e-6)


@pytest.mark.parametrize(
    "Y", [[[3.0, 1.0]], [[0.0, 2.0]] * 5, [[1.0, 2.0], [1e300, -1e300]], np.eye(2), np.full((50, 2), 1e-320)]
)
def test_few_equal_and_extreme_rows(Y):
    model = Density(n_estimators=2).fit(Y)
    assert np.isfinite(model.logpdf([[0.0, 0.0], [1e308, -1e308], [1.0, 2.0]])).all()
    assert np.isfinite(model.logpdf(Y)).all()
    assert np.isfinite(model.sample(10, random_state=0)).all()


def test_approaches_the_truth():
    rng = np.random.default_rng(0)
    Y = np.where(rng.random(20_000) < 0.3, -2.0, 1.0) + 0.3 * rng.standard_normal(20_000)
    density = [0.3, 0.7] @ np.exp(-0.5 * ((Y[:4000] - [[-2.0], [1.0]]) / 0.3) ** 2) / (0.3 * np.sqrt(2 * np.pi))
    assert np.log(density).mean() - Density(n_estimators=4).fit(Y[4000:]).score(Y[:4000]) < 0.004


@pytest.mark.parametrize(
    ("options", "X", "match"),
    [
        ({"n_estimators": 0}, [[1.0], [2.0]], "n_estimators"),
        ({"a": 0.0}, [[1.0], [2.0]], "a must be from 1e-100 to 1e[+]?100, got 0.0"),
        ({"halve": 1.0}, [[1.0], [2.0]], "halve"),
        ({"resolution": -1.0}, [[1.0], [2.0]], "resolution"),
        ({}, [[1.0], [np.nan]], "NaN in row 1, column 0"),
        ({}, [], "minimum"),
    ],
)
def test_refusals(options, X, match):
    with pytest.raises(ValueError, match=match):
        Density(**options).fit(X)


def test_only_streams_go_on():
    model = Density(n_estimators=2).fit(points())
    assert not hasattr(model, "partial_fit")
    with pytest.raises(NotFittedError):
        Density().sample()
    with pytest.raises(ValueError, match="2D array"):
        model.fit(points()[:, 0], points()[:, 0])
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)
