"""Bounds of y: the map to the whole line, moments by quadrature, and models that put nothing beyond."""

import numpy as np
import pytest
from scipy import stats

from coverwalk import ConditionalDensity, load
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.preparation.bounds import Bounds, natural_bounds
from coverwalk.preparation.rounding import Rounding

BOUNDS = [Bounds(0.0, np.inf, 2.0), Bounds(-np.inf, 5.0, 0.5), Bounds(0.0, 1.0, 0.5), Bounds(-1.0, 3.0, 0.3)]
TARGETS = [Rounding(low=bounds.low, high=bounds.high, bounds=bounds) for bounds in BOUNDS]
SKEWED = [Bounds(-1.0, np.inf, 4.0, 0.5), Bounds(-np.inf, 5.0, 6.0, 1.0)]
TARGETS += [Rounding(bounds=bounds) for bounds in SKEWED]
TARGETS += [
    Rounding(values=np.array([0.0]), width=np.array([0.4]), bounds=SKEWED[0]),
    Rounding(step=0.25, decimals=2, bounds=SKEWED[1]),
    Rounding(values=np.array([0.0]), width=np.array([0.4]), low=0.0),
    Rounding(values=np.array([0.0, 1.0]), width=np.array([0.1, 0.2]), low=0.0, high=1.0),
    Rounding(values=np.array([0.0]), width=np.array([0.1]), low=0.0, high=1.0, bounds=Bounds(-np.inf, 1.1, 0.3)),
    Rounding(values=np.array([1.0]), width=np.array([0.2]), low=-1.0, high=2.8, bounds=Bounds(-1.0, 3.0, 0.3)),
    Rounding(step=0.25, decimals=2, low=0.0, high=2.0, bounds=Bounds(-0.125, 2.125, 0.4)),
    Rounding(step=1.0, decimals=0, low=0.0, bounds=Bounds(-0.5, np.inf, 3.0)),
    Rounding(step=1.0, decimals=0, low=0.0),
]


@pytest.mark.parametrize("bounds", BOUNDS + SKEWED)
def test_the_map_is_its_own_inverse_and_smooth(bounds):
    low, high = (max(bounds.low, -20.0), min(bounds.high, 20.0)) if bounds.b == 0 else (-20.0, 20.0)
    y = np.linspace(low, high, 1001)[1:-1]
    z = bounds.forward(y)
    np.testing.assert_allclose(bounds.backward(z), y, rtol=1e-12, atol=1e-12)
    assert np.all(np.diff(z) > 0)
    h = 1e-6 * np.clip(np.minimum(y - bounds.low, bounds.high - y), bounds.b or -np.inf, 1.0)
    slope = (bounds.forward(y + h) - bounds.forward(y - h)) / (2 * h)
    np.testing.assert_allclose(np.log(slope), bounds.log_slope(y), atol=1e-5)
    for end in (bounds.low, bounds.high):
        assert np.isinf(bounds.forward(end)) or (bounds.b > 0 and np.isfinite(end))


def mixture(target, seed=0):
    rng = np.random.default_rng(seed)
    kernels = Shapes.kernels([0.3, 0.7], [-1.0, 0.5], [0.4, 0.3])
    cells = Shapes.cells([0.5, 0.5], [-1.0, 0.0], [1.0, 2.0])
    shapes = Shapes.join([Shapes.student([4.0, 30.0, np.inf]), kernels, cells])
    weight = rng.dirichlet(np.ones(5), 4).ravel()
    scale = np.exp(rng.uniform(-1.5, 0.3, 20))
    dist = PredictiveDistribution(range(0, 21, 5), weight, rng.normal(size=20), scale, np.tile(range(5), 4), shapes)
    return dist.rounded(target), dist


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_nothing_lies_beyond_and_all_agrees(target):
    dist, _ = mixture(target)
    limits = target
    for end, inside in ((limits.low, 1.0), (limits.high, -1.0)):
        if np.isfinite(end):
            assert np.all(dist.cdf(end - inside) == (0.0 if inside > 0 else 1.0))
            assert np.all(dist.logpdf(end - inside) == -np.inf)
            assert np.all(dist.pmf(end - inside) == 0.0)
    draws = dist.rvs(4000, random_state=0)
    assert np.all((draws >= limits.low) & (draws <= limits.high))
    q = np.array([0.001, 0.2, 0.5, 0.8, 0.999])
    at = dist.ppf(q)
    assert np.all((at >= limits.low) & (at <= limits.high))
    assert np.all(dist.cdf(at) >= q - 1e-9)
    for y in np.quantile(draws, [0.1, 0.5, 0.9]):
        np.testing.assert_allclose(np.mean(draws <= y, axis=1), dist.cdf(y), atol=0.04)
    assert np.all(np.abs(draws.mean(axis=1) - dist.mean()) < 5 * dist.std() / np.sqrt(4000))
    total = dist.atoms()[1].sum(axis=1)
    if target.step:
        np.testing.assert_allclose(total, 1.0, atol=1e-5)
        return
    ends = dist.ppf([1e-4, 1 - 1e-4])
    marks = np.concatenate([ends[:, 0].min() + np.geomspace(1e-9, 1.0, 2000), np.linspace(*ends.T, 4000).ravel()])
    marks = np.unique(np.concatenate([marks, target.values + 1e-9, target.values - 1e-9]))
    marks = marks[(marks > limits.low) & (marks < limits.high) & ~np.isin(marks, target.values)]
    for i in range(2):
        area = np.trapezoid(dist[i].pdf(marks), marks)
        inside = dist[i].cdf(marks[-1]) - dist[i].cdf(marks[0])
        between = target.values[(target.values > marks[0]) & (target.values < marks[-1])]
        assert area == pytest.approx(inside - dist[i].pmf(between).sum(), abs=2e-3)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_moments_are_integrals(target):
    dist, latent = mixture(target)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    for i in range(3):
        components = latent[i].components
        edges = np.concatenate([components.loc + components.scale * s for s in (-1, 0, 2)])
        jumps = np.concatenate(target._cells(dist.atoms(1 - 1e-12)[0]))
        turns = [0.0]
        if target.bounds:
            jumps = target.bounds.forward(jumps)
            turns = target.bounds.pieces()[0][1:-1]
        far = np.geomspace(60, 1e5, 400)
        marks = np.sort(
            np.concatenate([-far, np.linspace(-60, 60, 3000), far, edges, turns, jumps[np.isfinite(jumps)]])
        )
        low, high = marks[:-1, None], marks[1:, None]
        t = 0.5 * (low + high) + 0.5 * (high - low) * nodes
        mass = 0.5 * (high - low) * weights * latent[i].pdf(t)
        mean = np.sum(mass * target.value(t))
        assert mass.sum() == pytest.approx(1.0, abs=1e-10)
        # on a grid `value` gives a millionth of a step to the cell below
        assert dist[i].mean() == pytest.approx(mean, abs=1e-6 * target.step or 1e-9)
        assert dist[i].var() == pytest.approx(np.sum(mass * (target.value(t) - mean) ** 2), rel=1e-4)


GRIDS = [
    (Rounding(step=0.25, decimals=2, low=0.0, high=2.0), 1e-8),
    (Rounding(step=0.25, decimals=2, low=0.0, high=2.0, bounds=Bounds(-0.125, 2.125, 0.4)), 1e-8),
    (Rounding(step=1.0, decimals=0, low=0.0, bounds=Bounds(-0.5, np.inf, 3.0)), 1e-8),
    (Rounding(step=1.0, decimals=0, low=0.0), 1e-8),
    # so many cells that they are not told apart, in which histograms have their edges
    (Rounding(step=0.002, decimals=3, low=-1.0, high=3.0, bounds=Bounds(-1.001, 3.001, 0.8)), 2e-6),
]


@pytest.mark.parametrize(("target", "tolerance"), GRIDS, ids=str)
def test_moments_on_a_bounded_grid_are_sums_over_its_values_in_every_row(target, tolerance):
    dist, _ = mixture(target)
    values = target.between(target.low, min(target.high, 2e5))
    for i in range(4):
        mass = dist[i].pmf(values)
        mean = mass @ values
        var = mass @ (values - mean) ** 2
        assert dist.mean()[i] == pytest.approx(mean, abs=tolerance * np.sqrt(var))
        assert dist.var()[i] == pytest.approx(var, rel=tolerance)


def test_limits_between_the_values_of_a_grid_are_those_of_the_values():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 1))
    y = np.clip(np.round(4 * X[:, 0] + rng.normal(size=200)), 1, 5)
    dist = ConditionalDensity(4, bounds=(0.3, 5.8)).fit(X, y).predict_dist(X[:20])
    values = np.arange(1.0, 6.0)
    np.testing.assert_allclose(dist.pmf(values[None, :]).sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(dist.mean(), dist.pmf(values[None, :]) @ values, atol=1e-6)


def skewed(n, seed, scale_factor=0.5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.exp(X[:, 0] + scale_factor * rng.normal(size=n))


def test_a_positive_y_is_fitted_as_well_as_its_logarithm():
    (X, y), (X_new, new) = skewed(800, 0), skewed(3000, 1)
    model = ConditionalDensity(n_estimators=6, bounds=(0, None)).fit(X, y)
    by_hand = ConditionalDensity(n_estimators=6).fit(X, np.log(y))
    loss = -np.mean(by_hand.logpdf(X_new, np.log(new)) - np.log(new))
    assert -model.log_likelihood(X_new, new) < loss + 0.01
    dist = model.predict_dist(X_new[:200])
    assert np.all(dist.cdf(0.0) == 0.0)
    assert np.all(np.isfinite(dist.mean()))
    error = model.predict(X_new) - np.exp(X_new[:, 0] + 0.125)
    assert np.sqrt(np.mean(error**2)) < 0.2


def test_proportions_with_atoms_at_both_ends(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2))
    y = np.clip(0.5 + 0.4 * X[:, 0] + 0.2 * rng.normal(size=700), 0.0, 1.0)
    model = ConditionalDensity(n_estimators=4, bounds=(0, 1)).fit(X, y)
    dist = model.predict_dist(X)
    assert model.forests_[0].settings.rounding.values.tolist() == [0.0, 1.0]
    assert np.mean(dist.pmf(0.0)) == pytest.approx(np.mean(y == 0), abs=0.02)
    assert np.mean(dist.pmf(1.0)) == pytest.approx(np.mean(y == 1), abs=0.02)
    draws = dist.rvs(random_state=0)
    assert draws.min() == 0.0
    assert draws.max() == 1.0
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").logpdf(X, y), model.logpdf(X, y))


def test_counts_have_none_below_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    dist = ConditionalDensity(n_estimators=4, bounds=(0, None)).fit(X, y).predict_dist(X)
    assert np.all(dist.cdf(-1.0) == 0.0)
    assert np.mean(dist.pmf(0.0)) == pytest.approx(np.mean(y == 0), abs=0.03)


def test_what_auto_finds():
    rng = np.random.default_rng(0)
    none = np.empty(0)
    assert natural_bounds(rng.lognormal(size=500), none) == (0.0, np.inf)
    assert natural_bounds(rng.beta(1, 2, size=500), none)[0] == 0.0
    assert natural_bounds(rng.uniform(size=500), none) == (0.0, 1.0)
    assert natural_bounds(rng.normal(size=500), none) is None
    assert natural_bounds(10 + rng.normal(size=500), none) is None
    assert natural_bounds(np.minimum(rng.normal(40, 9, 500), 50.0), np.array([50.0])) == (-np.inf, 50.0)
    X, y = skewed(500, 0)
    model = ConditionalDensity(n_estimators=4, bounds="auto").fit(X, y)
    assert str(model.forests_[0].settings.rounding) == "at least 0"


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1.5, None), "crosses its bounds"),
        ((3, 1), "low < high"),
        (7, "pair"),
        ("all", "auto"),
        ((0, 0), "low < high"),
        ([(0, None)] * 2, "each of the 1"),
    ],
)
def test_wrong_bounds_are_refused(bounds, message):
    X, y = skewed(50, 0)
    with pytest.raises(ValueError, match=message):
        ConditionalDensity(n_estimators=2, bounds=bounds).fit(X, y)


def test_a_y_in_the_cell_of_a_limit_has_its_density():
    """Counts from 0 on: 0.3 is in the cell of 0, as 1.3 is in that of 1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    dist = ConditionalDensity(2, bounds=(0, None), random_state=0).fit(X, rng.poisson(2.0, 300)).predict_dist(X[:3])
    assert dist.rounding.step == 1
    np.testing.assert_allclose(dist.logpdf(np.array([[0.3, 1.3]])), dist.logpdf(np.array([[0.0, 1.0]])), rtol=1e-12)
    assert np.all(dist.logpdf(-0.3) == -np.inf)


def test_skewed_y_is_seen_on_a_logarithmic_scale_and_keeps_a_density_everywhere():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 3))
    y = np.exp(X[:, 0] + np.sin(3 * X[:, 1]) + 0.2 * rng.normal(size=900)) + 3.0
    half = slice(0, 600)
    model = ConditionalDensity(8).fit(X[half], y[half])
    rounding = model.forests_[0].settings.rounding
    assert rounding is not None
    assert rounding.bounds is not None
    assert rounding.bounds.b > 0
    assert "logarithmic scale from" in str(rounding)
    by_hand = ConditionalDensity(8).fit(X[half], np.log(y[half] - rounding.bounds.low))
    loss = -np.mean(
        by_hand.logpdf(X[600:], np.log(y[600:] - rounding.bounds.low)) - np.log(y[600:] - rounding.bounds.low)
    )
    assert -model.log_likelihood(X[600:], y[600:]) < loss + 0.05
    dist = model.predict_dist(X[:3])
    assert np.all(np.isfinite(dist.logpdf(-100.0)))
    assert np.all(np.isfinite(dist.logpdf(1e4)))
    left = ConditionalDensity(8).fit(X[half], -y[half])
    np.testing.assert_allclose(left.logpdf(X[600:], -y[600:]).mean(), model.log_likelihood(X[600:], y[600:]), atol=0.1)


def test_many_zeros_leave_the_scale_to_the_others():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (900, 2))
    y = np.where(rng.random(900) < 0.8, 0.0, np.exp(2 * X[:, 0] + 0.3 * rng.normal(size=900)))
    model = ConditionalDensity(4).fit(X, y)
    assert model.predict_dist(X).cdf(0.0).mean() == pytest.approx(0.8, abs=0.04)


def test_y_that_is_not_skewed_stays_as_it_is():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (400, 2))
    assert ConditionalDensity(4).fit(X, X[:, 0] + 0.3 * rng.normal(size=400)).forests_[0].settings.rounding is None


@pytest.mark.parametrize("bounds", [(-1e5, None), (None, 1e5), (-1e8, 1e8), (-1e9, None)])
def test_bounds_far_away_change_nothing(bounds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=120)
    model = ConditionalDensity(n_estimators=3, random_state=0)
    free = model.fit(X, y).predict_dist(X[:9])
    dist = model.set_params(bounds=bounds).fit(X, y).predict_dist(X[:9])
    np.testing.assert_allclose(dist.mean(), free.mean(), atol=1e-6)
    np.testing.assert_allclose(dist.var(), free.var(), rtol=1e-5)
    np.testing.assert_allclose(dist.logpdf(y[:9]), free.logpdf(y[:9]), atol=1e-5)


def test_a_stream_keeps_its_bounds_and_refuses_y_beyond():
    X, y = skewed(300, 3)
    for n in (1, 5, 300):
        model = ConditionalDensity(4, bounds=(0, None)).partial_fit(X[:n], y[:n])
        assert np.all(model.predict_dist(X[:20]).cdf(0.0) == 0.0)
    for begun in (model, ConditionalDensity(4, bounds=(0, None)).fit(X, y)):
        before = begun.logpdf(X, y)
        with pytest.raises(ValueError, match="crosses its bounds"):
            begun.partial_fit(X[:2], [1.0, -1.0])
        with pytest.raises(ValueError, match="crosses its bounds"):
            begun.learn_one(X[0], -1.0)
        np.testing.assert_array_equal(begun.logpdf(X, y), before)
    with pytest.raises(ValueError, match="crosses its bounds"):
        ConditionalDensity(4, bounds=(0, None)).partial_fit(X[:1], [-1.0])


def test_a_logarithmic_scale_is_saved_with_the_model(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 3))
    y = np.exp(X[:, 0] + np.sin(3 * X[:, 1]) + 0.2 * rng.normal(size=600)) + 3.0
    model = ConditionalDensity(4).fit(X, y)
    assert model.forests_[0].settings.rounding.bounds.b > 0  # else this tests nothing
    model.save(tmp_path / "skewed.cover")
    np.testing.assert_array_equal(load(tmp_path / "skewed.cover").logpdf(X, y), model.logpdf(X, y))


def test_bounds_of_any_size_are_saved_with_the_model(tmp_path):
    X, y = skewed(60, 0)
    model = ConditionalDensity(2, stop=0.5, bounds=(0.0, 1e250)).fit(X, y * 1e240)
    model.save(tmp_path / "far.cover")
    np.testing.assert_array_equal(load(tmp_path / "far.cover").logpdf(X, y * 1e240), model.logpdf(X, y * 1e240))


@pytest.mark.parametrize("scale", [0.2, 1.1, 3.0])
def test_means_of_wide_kernels_on_a_logarithmic_scale_are_integrals(scale):
    # e^Z of a wide normal has its mass many deviations out, where the map has become linear
    center, width = np.concatenate([[0.0, 0.5], np.linspace(-2.0, 2.0, 30)]), np.repeat([9.0, 0.3], [2, 30])
    mass = np.concatenate([[0.1, 0.1], np.full(30, 0.8 / 30)])
    bounds = Bounds(2.0, np.inf, 1e4, 5.0)
    loc = np.array([-5.2, 0.5, -9.0])
    dist = PredictiveDistribution(
        np.arange(4), np.ones(3), loc, np.full(3, scale), [0] * 3, Shapes.kernels(mass, center, width)
    )
    node, weight = np.polynomial.legendre.leggauss(40)
    expected = np.zeros((2, 3))
    turn = np.log(bounds.b / bounds.c)
    for i in range(3):
        for m, c, w in zip(mass, loc[i] + scale * center, scale * width):
            ends = np.unique(
                np.clip(np.concatenate([c + w * np.arange(-12.0, 13.0), [turn, 0.0]]), c - 12 * w, c + 12 * w)
            )
            half, middle = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
            z = middle + half * node
            density = half * weight * stats.norm.pdf(z, c, w)
            y = bounds.backward(z)
            expected[:, i] += m * np.array([np.sum(density * y), np.sum(density * y * y)])
    ours = dist.rounded(Rounding(bounds=bounds))
    np.testing.assert_allclose(ours.mean(), expected[0], rtol=1e-9)
    np.testing.assert_allclose(ours.var(), expected[1] - expected[0] ** 2, rtol=1e-8)
