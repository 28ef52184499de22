"""Rounded y: what is found, how often by mistake, and that a distribution with atoms tells the truth about them."""

import numpy as np
import pytest
from scipy import integrate, stats

from coverwalk import ConditionalDensity, load
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.evaluation.metrics import calibration_error, crps, pit
from coverwalk.forest.forest import Forest
from coverwalk.forest.settings import Settings
from coverwalk.preparation.find_rounding import find_rounding
from coverwalk.preparation.rounding import Rounding
from coverwalk.preparation.row_codes import row_codes, uniform_of

CONTINUOUS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "heavy": lambda rng, n: rng.standard_t(1, size=n),
    "skewed": lambda rng, n: rng.lognormal(sigma=2, size=n),
    "near zero": lambda rng, n: rng.gamma(0.05, size=n),
    "two modes": lambda rng, n: rng.normal(size=n) * 1e-3 + rng.choice([0, 1e6], n),
    "single precision": lambda rng, n: rng.normal(size=n).astype(np.float32).astype(float),
}


# -- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("n", [20, 300, 3000])
def test_continuous_y_raises_no_alarm_even_where_rows_were_drawn_with_replacement(name, n):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = CONTINUOUS[name](rng, n)
        assert find_rounding(y) is None
        assert find_rounding(rng.choice(y, n)) is None
        assert find_rounding(np.repeat(y, 5)) is None


@pytest.mark.parametrize(
    ("step", "make"),
    [
        (1.0, lambda rng: rng.poisson(3.0, 300).astype(float)),
        (0.1, lambda rng: rng.normal(20, 5, 300).round(1)),
        (0.25, lambda rng: np.round(rng.normal(size=300) * 4) / 4),
        (100.0, lambda rng: 100 * rng.poisson(30.0, 300).astype(float)),
        (1 / 3, lambda rng: np.round(rng.normal(size=300) * 3) / 3),
        (1.0 / 7.3, lambda rng: (rng.poisson(5.0, 300) - 5.1) / 7.3),
        (1.0, lambda rng: rng.choice([0.0, 1.0], 300)),
        (1e-300, lambda rng: 1e-300 * rng.poisson(3.0, 300)),
        (0.5, lambda rng: np.append(rng.poisson(3.0, 300) / 2, [0.123, 7.77])),  # nearly all
    ],
)
def test_grids_are_found(step, make):
    found = find_rounding(make(np.random.default_rng(0)))
    assert found.step == pytest.approx(step, rel=1e-9)


def test_values_that_repeat_on_their_own_are_found_and_no_others():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.1, 0.0, rng.lognormal(size=600))
    y[:15] = 50.0
    found = find_rounding(y)
    assert found.step == 0
    assert found.values.tolist() == [0.0, 50.0]
    assert find_rounding(np.append(rng.normal(size=600), np.repeat(1.0, 4))) is None
    assert str(found) == "continuous, with atoms at 0, 50"
    counts = np.log1p(rng.poisson(2.0, 600))  # a grid of no equal steps
    assert set(np.log1p(np.arange(5.0))) <= set(find_rounding(counts).values)


def test_decimals_too_fine_to_matter_are_none():
    assert find_rounding(np.random.default_rng(0).normal(size=3000).round(5)) is None


def test_one_value_alone():
    assert find_rounding(np.full(50, 3.0)).values.tolist() == [3.0]


# -- the map ----------------------------------------------------------------------------------------------------------

MAPS = [
    Rounding(step=0.1, decimals=1),
    Rounding(step=1 / 3, origin=0.2),
    Rounding(values=np.array([0.0]), width=np.array([0.3])),
    Rounding(values=np.array([-1.0, 0.0, 0.4]), width=np.array([0.2, 0.1, 0.3])),
]


@pytest.mark.parametrize("rounding", MAPS, ids=str)
def test_every_latent_y_leads_back_to_its_value(rounding):
    rng = np.random.default_rng(0)
    y = np.concatenate([rounding.value(rng.normal(size=500)), rounding.values])
    t = rounding.latent(rng.normal(size=(len(y), 2)), y)
    np.testing.assert_allclose(rounding.value(t), y, rtol=0, atol=1e-12)
    low, high = rounding.cells(y)
    assert np.all((low <= t) & (t <= high))
    atom = rounding.is_atom(y)
    np.testing.assert_array_equal(rounding.value(t)[atom], y[atom])
    np.testing.assert_allclose(rounding.below(y), high)
    order = np.argsort(t)
    assert np.all(np.diff(y[order]) >= -1e-12)


def test_equal_rows_lie_apart_and_the_order_of_rows_does_not_matter():
    X, y = np.repeat([[1.0], [2.0]], 50, axis=0), np.repeat([3.0, 4.0], 50)
    settings = Settings(n_trees=2, rounding=Rounding(step=1.0, decimals=0))
    forests = []
    for order in (np.arange(100), np.random.default_rng(0).permutation(100)):
        forest = Forest.plan(X[order], y[order], settings)
        forest.accumulate(X[order], y[order])
        forest.finalize()
        forests.append(forest)
    np.testing.assert_array_equal(forests[0].predict_dist(X).logpdf(y), forests[1].predict_dist(X).logpdf(y))
    u = uniform_of(row_codes(X, y), np.tile(np.arange(50), 2))
    assert np.abs(np.sort(u[:50]) - (np.arange(50) + 0.5) / 50).max() < 0.05


# -- the distribution -------------------------------------------------------------------------------------------------


def mixture(rounding, seed=0, light=False, narrow=-4):
    """Six rows of all kinds of components, narrow and wide, under a rounding."""
    rng = np.random.default_rng(seed)
    kernels = Shapes.kernels([0.3, 0.7], [-1.0, 0.5], [0.2, 0.05])
    cells = Shapes.cells([0.5, 0.5], [-1.0, 0.0], [1.0, 2.0])
    shapes = Shapes.join([Shapes.student([30.0 if light else 3.0, 20.0, np.inf]), kernels, cells])
    weight = rng.dirichlet(np.ones(5), 6).ravel()
    scale = np.exp(rng.uniform(narrow, 1, 30))
    dist = PredictiveDistribution(range(0, 31, 5), weight, rng.normal(size=30), scale, np.tile(range(5), 6), shapes)
    return dist.rounded(rounding), dist


@pytest.mark.parametrize("rounding", MAPS, ids=str)
def test_cdf_is_right_continuous_and_all_agree_with_it(rounding):
    dist, _ = mixture(rounding)
    values = dist.atoms()[0] if not rounding.step else rounding.between(-3.0, 3.0)
    jump = dist.cdf(values[None, :]) - dist.cdf(values[None, :] - 2e-6)
    np.testing.assert_allclose(jump, dist.pmf(values[None, :]), atol=1e-4)
    np.testing.assert_allclose(dist.cdf(values[None, :] + 1e-9), dist.cdf(values[None, :]), atol=1e-7)
    np.testing.assert_allclose(dist.cdf(values[None, :]) + dist.sf(values[None, :]), 1.0, rtol=1e-12)
    q = np.array([0.001, 0.2, 0.5, 0.77, 0.999])
    at = dist.ppf(q)
    assert np.all(dist.cdf(at) >= q - 1e-9)
    assert np.all(dist.cdf(at - 2e-6) <= q + 1e-4)
    np.testing.assert_allclose(dist.ppf(dist.cdf(values[None, :])[0])[0], values, rtol=0, atol=1e-7)
    draws = dist.rvs(20_000, random_state=0)
    for y in values[::7]:
        np.testing.assert_allclose(np.mean(draws == y, axis=1), dist.pmf(y), atol=0.015)
        np.testing.assert_allclose(np.mean(draws <= y, axis=1), dist.cdf(y), atol=0.015)
    low, high = dist.interval(0.8)
    assert np.all(dist.cdf(high) - dist.cdf(low) + dist.pmf(low) >= 0.8 - 2e-6)
    part = dist[2:4]
    np.testing.assert_array_equal(part.pmf(values[0]), dist.pmf(values[0])[2:4])
    np.testing.assert_array_equal(dist[1].atoms()[1].shape, dist[1].atoms()[0].shape)


@pytest.mark.parametrize("step", [0.02, 0.1, 1.0, 5.0])
def test_moments_on_a_grid_are_sums_over_its_values(step):
    rounding = Rounding(step=step, origin=0.13)
    dist, _ = mixture(rounding, light=True)
    values = rounding.between(-60.0, 60.0)
    mass = dist.pmf(values[None, :])
    np.testing.assert_allclose(mass.sum(axis=1), 1.0, atol=1e-8)
    mean = mass @ values
    np.testing.assert_allclose(dist.mean(), mean, atol=1e-7)
    np.testing.assert_allclose(dist.var(), (mass * (values - mean[:, None]) ** 2).sum(axis=1), rtol=1e-6)


def test_heavy_tails_are_summed_to_their_end():
    shapes = Shapes.student([3.0])
    for scale in (0.01, 0.5, 2.4):
        dist = PredictiveDistribution([0, 1], [1.0], [0.3], [scale], [0], shapes).rounded(Rounding(step=1.0))
        k = np.arange(200_000.0)
        t = stats.t(3.0, 0.3, scale)
        mean = np.sum(t.sf(k + 0.5) - t.cdf(-k - 0.5))
        square = np.sum((2 * k + 1) * (t.sf(k + 0.5) + t.cdf(-k - 0.5))) + 2 * t.sf(2e5) * 2e5 * 2e5 * 1.5 * 2
        assert dist.mean()[0] == pytest.approx(mean, abs=1e-9)
        assert dist.var()[0] == pytest.approx(square - mean**2, rel=1e-4)


@pytest.mark.parametrize("rounding", MAPS[2:], ids=str)
def test_moments_with_single_atoms_are_integrals(rounding):
    dist, latent = mixture(rounding, light=True, narrow=-1)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    for i in range(3):
        components = latent[i].components
        edges = np.concatenate([components.loc + components.scale * s for s in (-1, 0, 2)])
        marks = np.concatenate([np.linspace(-40, 40, 4000), edges, *rounding.cells(rounding.values)])
        low, high = np.sort(marks)[:-1, None], np.sort(marks)[1:, None]
        t = 0.5 * (low + high) + 0.5 * (high - low) * nodes
        mass = 0.5 * (high - low) * weights * latent[i].pdf(t)
        mean = np.sum(mass * rounding.value(t))
        assert mass.sum() == pytest.approx(1.0, abs=1e-10)
        assert dist[i].mean() == pytest.approx(mean, abs=1e-9)
        assert dist[i].var() == pytest.approx(np.sum(mass * (rounding.value(t) - mean) ** 2), rel=1e-9)


def test_log_density_is_the_mass_over_the_step_and_the_same_all_over_the_cell():
    rounding = Rounding(step=0.5, decimals=1)
    dist, latent = mixture(rounding)
    for y in (-1.5, 0.0, 2.0):
        mass = latent.cdf(y + 0.25) - latent.cdf(y - 0.25)
        np.testing.assert_allclose(np.exp(dist.logpdf(y)), mass / 0.5, rtol=1e-7, atol=1e-12)
        np.testing.assert_array_equal(dist.logpdf(y + 0.2), dist.logpdf(y))
    fine = np.linspace(-3.0, 3.0, 50)  # several points in a cell
    np.testing.assert_array_equal(dist.logpdf(fine[None, :]), np.column_stack([dist.logpdf(y) for y in fine]))
    assert np.all(np.isfinite(dist.logpdf(1e9)))
    assert np.all(dist.logpdf(np.inf) == -np.inf)
    assert np.all(np.isnan(dist.logpdf(np.nan)))


@pytest.mark.parametrize("width", [1e-5, 1e-3, 0.02, 0.031, 0.5])
def test_masses_of_narrow_cells_are_exact(width):
    for shapes, cdf in [(Shapes.student([3.0]), stats.t(3.0)), (Shapes.student([np.inf]), stats.norm())]:
        dist = PredictiveDistribution([0, 1], [1.0], [0.0], [1.0], [0], shapes).rounded(Rounding(step=width))
        for y in (0.0, 0.7, -2.0, 5.0):
            k = round(y / width)
            low, high = (k - 0.5) * width, (k + 0.5) * width
            exact = integrate.quad(cdf.pdf, low, high, epsabs=0)[0] / width
            assert np.exp(dist.logpdf(k * width))[0] == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("width", [0.0, 1e-4, 0.0039, 0.0041, 0.05, 0.3])  # 0.02 of the narrowest kernel are 0.004
def test_masses_under_kernels_are_exact_in_cells_of_all_widths(width):
    several = np.array([0.3, 0.25, 0.25, 0.2]), np.array([-1.0, 0.0, 0.1, 2.0]), np.array([0.5, 0.2, 1.0, 0.3])
    one = np.ones(1), np.zeros(1), np.full(1, 0.2)
    for weight, center, sd in (several, one):
        dist = PredictiveDistribution([0, 1], [1.0], [0.0], [1.0], [0], Shapes.kernels(weight, center, sd))
        if width:
            dist = dist.rounded(Rounding(step=width))
        for y in (0.0, 0.7, 1.0, 1.4, -2.0, 5.0):  # near kernels, and so far that some or all are passed over at first
            y = round(y / width) * width if width else y
            place, node_weight = np.polynomial.legendre.leggauss(20)
            x = y + 0.5 * width * place[:, None]
            exact = node_weight @ (stats.norm.pdf(x, center, sd) @ weight) / 2
            np.testing.assert_allclose(np.exp(dist.logpdf(y)), exact, rtol=2e-10)


def test_entropy_is_that_of_the_masses():
    rounding = Rounding(step=0.5, decimals=1)
    dist, _ = mixture(rounding, light=True)
    mass = dist.pmf(rounding.between(-60.0, 60.0)[None, :])
    expected = -np.sum(np.where(mass > 0, mass * np.log(np.maximum(mass, 1e-300) / 0.5), 0.0), axis=1)
    np.testing.assert_allclose(dist.entropy(), expected, atol=1e-6)


# -- fitted -----------------------------------------------------------------------------------------------------------


def counts(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, rng.poisson(np.exp(1.0 + 0.5 * X[:, 0])).astype(float)


def rain(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    dry = rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 1]))
    return X, np.where(dry, 0.0, np.exp(0.5 * X[:, 0] + 0.5 * rng.normal(size=n)))


@pytest.fixture(scope="module", params=[counts, rain])
def fitted(request):
    return request.param, ConditionalDensity(n_estimators=6).fit(*request.param(700, 0))


def test_what_is_predicted_is_true(fitted, tmp_path):
    make, model = fitted
    X, y = make(3000, 1)
    dist = model.predict_dist(X)
    for at in (0.0, 1.0, 2.0):
        assert np.mean(dist.cdf(at)) == pytest.approx(np.mean(y <= at), abs=0.03)
    assert np.mean(dist.pmf(0.0)) == pytest.approx(np.mean(y == 0), abs=0.03)
    draws = dist.rvs(random_state=0)
    assert np.mean(draws == 0) == pytest.approx(np.mean(y == 0), abs=0.03)
    if make is counts:
        np.testing.assert_array_equal(draws, np.round(draws))
    assert calibration_error(y, dist) < 0.03
    assert np.all((pit(y, dist) >= 0) & (pit(y, dist) <= 1))
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").logpdf(X[:50], y[:50]), model.logpdf(X[:50], y[:50]))


def test_counts_are_predicted_almost_as_well_as_by_the_truth():
    model = ConditionalDensity(n_estimators=8).fit(*counts(900, 0))
    X, y = counts(3000, 1)
    truth = stats.poisson(np.exp(1.0 + 0.5 * X[:, 0])).logpmf(y)
    assert np.mean(truth - model.logpdf(X, y)) < 0.06
    error = np.sqrt(np.mean((model.predict(X) - np.exp(1.0 + 0.5 * X[:, 0])) ** 2))
    assert error < 0.35


def test_several_outputs_are_rounded_each():
    X, y = counts(500, 0)
    Y = np.column_stack([X[:, 1] + 0.3 * np.random.default_rng(9).normal(size=500), y])
    model = ConditionalDensity(n_estimators=3).fit(X, Y)
    assert model.forests_[0].settings.rounding is None
    assert model.forests_[1].settings.rounding.step == 1
    dist = model.predict_dist(X[:20])
    np.testing.assert_allclose(dist.logpdf(Y[:20]), model.logpdf(X[:20], Y[:20]), rtol=1e-12)
    draws = dist.rvs(5, random_state=0)[..., 1]
    np.testing.assert_array_equal(draws, np.round(draws))
    assert dist.marginal(1).rounding.step == 1


def test_chunks_are_rounded_too():
    X, y = counts(3000, 0)
    model = ConditionalDensity(4).fit_chunks([(X[:1500], y[:1500]), (X[1500:], y[1500:])], sample_rows=1000)
    X, y = counts(2000, 1)
    assert model.forests_[0].settings.rounding.step == 1
    truth = stats.poisson(np.exp(1.0 + 0.5 * X[:, 0])).logpmf(y)
    assert np.mean(truth - model.logpdf(X, y)) < 0.12


def test_crps_of_counts_is_exact():
    shapes = Shapes.student([np.inf])
    dist = PredictiveDistribution([0, 1], [1.0], [2.2], [0.8], [0], shapes).rounded(Rounding(step=1.0, decimals=0))
    k = np.arange(-20.0, 30.0)
    expected = np.sum((dist.cdf(k[None, :])[0] - (k >= 3)) ** 2)
    assert crps([3.0], dist) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("value", [3.0, 0.0, -1e-9, 5e12])
def test_one_distinct_y_is_an_atom(value):
    X = np.random.default_rng(0).normal(size=(60, 2))
    dist = ConditionalDensity(n_estimators=4).fit(X, np.full(60, value)).predict_dist(X[:3])
    assert np.all(dist.pmf(value) > 0.99)
    np.testing.assert_allclose(dist.mean(), value, atol=1e-4 * (abs(value) or 1.0))
    np.testing.assert_array_equal(dist.interval(0.9), np.full((2, 3), value))


def test_whole_numbers_that_floats_do_not_hold_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
        ConditionalDensity(n_estimators=2).fit(X, np.arange(30) + 2**60 + 1)
    with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
        ConditionalDensity(n_estimators=2).fit(X, [10**30 + i for i in range(30)])
    with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
        ConditionalDensity(n_estimators=2).partial_fit(X, np.arange(30) + 2**60 + 1)
    ConditionalDensity(n_estimators=2, stop=0.5).fit(X, np.arange(30) * 2**54)
