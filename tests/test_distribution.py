"""Predictive distributions against SciPy, against quadrature, and against themselves."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.preparation.bounds import Bounds
from coverwalk.preparation.rounding import Rounding

DFS = [0.5, 1.0, 2.0, 2.1, 5.5, 30.0, 41.0, 300.0, 2999.0, 3001.0, 1e5, 1e8, np.inf]
POINTS = np.array([-80.0, -9.0, -2.2, -1.7, -0.6, -1e-3, 0.0, 0.4, 1.0, 1.75, 3.3, 7.0, 60.0])
EDGES = np.array([0.0, 0.125, 0.25, 0.5, 0.5625, 0.625, 0.75, 1.0])
MASS = np.array([0.05, 0.2, 0.1, 0.3, 0.0, 0.25, 0.1])


def alone(shapes, loc=0.0, scale=1.0):
    """One row for each shape, each of one component."""
    n = len(shapes)
    return PredictiveDistribution(
        np.arange(n + 1), np.ones(n), np.full(n, loc), np.full(n, scale), np.arange(n), shapes
    )


def every_kind():
    kernels = Shapes.kernels([0.3, 0.5, 0.2], [-1.0, 2.0, 2.1], [0.5, 0.1, 1.5])
    t2 = Shapes.t2_cells(MASS, EDGES[:-1], np.diff(EDGES))
    cells = Shapes.cells([0.4, 0.0, 0.6], [-1.0, 0.0, 1.0], [1.0, 0.5, 2.0])
    return Shapes.join([Shapes.student([2.5, np.inf]), kernels, t2, cells])


def random_dist(seed, n=4, most=9):
    """Rows of mixtures of every kind, their scales over three decades."""
    rng = np.random.default_rng(seed)
    shapes = every_kind()
    counts = rng.integers(1, most, n)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    m = offsets[-1]
    weight = np.concatenate([rng.dirichlet(np.ones(k)) for k in counts])
    loc, scale = 5 * rng.standard_normal(m), 10 ** rng.uniform(-2, 1, m)
    return PredictiveDistribution(
        offsets, weight, loc, scale, rng.integers(0, len(shapes), m), shapes, context=np.arange(m)
    )


# -- each kind against its own law -------------------------------------------------------------------------------------


def test_student_agrees_with_scipy():
    dist = alone(Shapes.student(DFS), loc=0.5, scale=2.0)
    for k, df in enumerate(DFS):
        marginal = stats.norm(0.5, 2.0) if df == np.inf else stats.t(df, 0.5, 2.0)
        y = 0.5 + 2.0 * POINTS[1:-1] if df > 1e3 else 0.5 + 2.0 * POINTS
        assert_allclose(dist[k].logpdf(y), marginal.logpdf(y), rtol=1e-10, err_msg=f"df={df}")
        assert_allclose(dist[k].pdf(y), marginal.pdf(y), rtol=1e-9)
        assert_allclose(dist[k].cdf(y), marginal.cdf(y), rtol=2e-11, err_msg=f"df={df}")
        assert_allclose(dist[k].sf(y), marginal.sf(y), rtol=2e-11, err_msg=f"df={df}")


def test_kernels_agree_with_sums_of_normals():
    weight, center, width = np.array([0.3, 0.5, 0.2]), np.array([-1.0, 2.0, 2.1]), np.array([0.5, 0.1, 1.5])
    dist = alone(Shapes.kernels(weight, center, width), loc=1.0, scale=3.0)[0]
    y = np.linspace(-20, 30, 41)
    e = (y[:, None] - 1.0) / 3.0
    marginal = stats.norm(center, width)
    assert_allclose(dist.logpdf(y), np.log((weight * marginal.pdf(e)).sum(1) / 3.0), rtol=1e-12)
    assert_allclose(dist.cdf(y), marginal.cdf(e) @ weight, rtol=1e-12)
    assert_allclose(dist.sf(y), marginal.sf(e) @ weight, rtol=1e-12)
    assert_allclose(dist.mean(), 1.0 + 3.0 * weight @ center, rtol=1e-14)
    assert_allclose(dist.var(), 9.0 * (weight @ (width**2 + center**2) - (weight @ center) ** 2), rtol=1e-13)


def test_cells_in_u_are_a_histogram_of_the_t2_cdf():
    dist = alone(Shapes.t2_cells(MASS, EDGES[:-1], np.diff(EDGES)))[0]
    marginal = stats.t(2)
    e = marginal.ppf(np.array([1e-6, 0.1, 0.2, 0.3, 0.51, 0.6, 0.7, 0.8, 0.999999]))
    u = marginal.cdf(e)
    height = (MASS / np.diff(EDGES))[np.searchsorted(EDGES, u) - 1]
    with np.errstate(divide="ignore"):
        assert_allclose(dist.logpdf(e), np.log(height) + marginal.logpdf(e), rtol=1e-9)
    assert_allclose(dist.cdf(e), np.interp(u, EDGES, np.concatenate([[0], np.cumsum(MASS)])), rtol=1e-9)
    assert_allclose(dist.sf(1e8), 0.1 / 0.25 * marginal.sf(1e8), rtol=1e-9)  # far beyond where u rounds to 1
    assert_allclose(dist.cdf(-1e8), 0.05 / 0.125 * marginal.cdf(-1e8), rtol=1e-9)
    assert dist.var() == np.inf


def test_moments_of_cells_in_u_by_quadrature():
    inner = Shapes.t2_cells([0.25, 0.75], [0.125, 0.3], [0.1, 0.5])
    whole = Shapes.t2_cells([0.25, 0.75], [0.0, 0.3], [0.3, 0.7])
    all_of_it = Shapes.t2_cells([1.0], [0.0], [1.0])
    marginal = stats.t(2)

    def moment(shapes, power):
        cells = zip(shapes.atom_weight, shapes.atom_center, shapes.atom_width)
        return sum(
            w / h * integrate.quad(lambda u: marginal.ppf(u) ** power, a, a + h, limit=200)[0] for w, a, h in cells
        )

    assert_allclose(inner.mean, moment(inner, 1), rtol=1e-9)
    assert_allclose(inner.var, moment(inner, 2) - moment(inner, 1) ** 2, rtol=1e-9)
    assert_allclose(whole.mean, moment(whole, 1), rtol=1e-6)
    assert whole.var == np.inf
    assert all_of_it.mean == 0


def test_plain_cells_are_uniforms():
    dist = alone(Shapes.cells([0.4, 0.6], [-1.0, 1.0], [1.0, 2.0]))[0]
    y = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 3.1])
    assert_allclose(dist.pdf(y), [0, 0.4, 0.4, 0, 0.3, 0.3, 0.3, 0])
    assert_allclose(dist.cdf(y), [0, 0, 0.2, 0.4, 0.4, 0.7, 1, 1], atol=1e-15)
    assert_allclose(dist.sf(y), [1, 1, 0.8, 0.6, 0.6, 0.3, 0, 0], atol=1e-15)
    assert_allclose(dist.mean(), 1.0)
    assert_allclose(dist.var(), 0.4 * (1 / 12 + 1.5**2) + 0.6 * (4 / 12 + 1.0**2))


def test_moments_that_do_not_exist_say_so():
    dist = alone(Shapes.student([1.0, 2.0, 3.0, np.inf]), scale=2.0)
    assert_array_equal(dist.mean(), [np.nan, 0, 0, 0])
    assert_array_equal(dist.var(), [np.nan, np.inf, 12, 4])
    silent = PredictiveDistribution([0, 2], [0.0, 1.0], [0, 1], [1, 1], [0, 3], Shapes.student([1.0, 2.0, 3.0, np.inf]))
    assert silent.mean() == 1  # a component without weight has no say
    assert silent.var() == 1


@pytest.mark.parametrize("k", range(5))
def test_entropy_of_known_laws(k):
    marginals = Shapes.join(
        [
            Shapes.student([1.0, 5.0, np.inf]),
            Shapes.cells([0.4, 0.6], [-1, 1], [1, 2]),
            Shapes.t2_cells([1.0], [0], [1]),
        ]
    )
    uniform = -(0.4 * np.log(0.4) + 0.6 * np.log(0.3))
    known = [stats.t(1).entropy(), stats.t(5).entropy(), stats.norm.entropy(), uniform, stats.t(2).entropy()]
    for scale in (1e-300, 1.0, 1e200):
        assert_allclose(alone(marginals, 3.0 * scale, scale)[k].entropy(), known[k] + np.log(scale), atol=1e-7)


def test_entropy_finds_a_needle():
    needle = PredictiveDistribution([0, 2], [0.999, 0.001], [0, 0.3], [1, 1e-9], [0, 0], Shapes.student(np.inf))
    apart = 0.999 * (stats.norm.entropy() - np.log(0.999)) + 0.001 * (stats.norm(0, 1e-9).entropy() - np.log(0.001))
    assert_allclose(needle.entropy(), apart, atol=1e-7)


# -- properties of mixtures --------------------------------------------------------------------------------------------


def row_edges(dist):
    """Points between which the density of a row is smooth: the edges of its cells, and quantiles."""
    _, _, loc, scale, shape = dist.components
    edges = [dist.ppf(np.concatenate([10.0 ** np.arange(-10, 0), np.arange(2, 9) / 10, 1 - 10.0 ** np.arange(-9, 0)]))]
    for m in range(loc.size):
        atoms = slice(*dist.shapes.start[shape[m] : shape[m] + 2])
        left, width = dist.shapes.atom_center[atoms], dist.shapes.atom_width[atoms]
        far = 2.0 ** np.arange(3, 14)
        around = loc[m] + scale[m] * np.concatenate([-far, np.linspace(-6, 6, 13), far])
        if dist.shapes.kind[shape[m]] == 1:
            around = loc[m] + scale[m] * (left[:, None] + width[:, None] * np.linspace(-9, 9, 13)).ravel()
        elif dist.shapes.kind[shape[m]] == 2:
            around = loc[m] + scale[m] * stats.t(2).ppf(
                np.concatenate([left, left + width, 0.5 ** np.arange(4, 30), 1 - 0.5 ** np.arange(4, 30)])
            )
        elif dist.shapes.kind[shape[m]] == 3:
            around = loc[m] + scale[m] * np.concatenate([left, left + width])
        edges.append(around)
    edges = np.unique(np.concatenate(edges))
    return edges[np.isfinite(edges)]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_cdf_is_the_integral_of_pdf(seed):
    dist = random_dist(seed, n=1)[0]
    edges = row_edges(dist)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    pieces = half * (dist.pdf(middle[:, None] + half[:, None] * nodes) @ weights)
    assert_allclose(np.diff(dist.cdf(edges)), pieces, atol=1e-8)
    assert_allclose(pieces.sum(), 1.0, atol=1e-8)
    assert_allclose(dist.cdf(edges) + dist.sf(edges), 1.0, atol=1e-12)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_ppf_inverts_cdf_and_never_crosses(seed):
    dist = random_dist(seed)
    q = np.sort(np.random.default_rng(seed).uniform(size=20))
    q = np.concatenate([[1e-100, 1e-12, 1e-5], q, q[:3] + 1e-15, [1 - 1e-6, 1 - 1e-13]])
    y = dist.ppf(q)
    assert y.shape == (4, q.size)
    steepest = np.maximum(dist.pdf(y - 1e-12), dist.pdf(y + 1e-12))
    rounded = (
        4 * steepest * np.spacing(np.abs(y) + np.abs(dist.components.loc).max())
    )  # what the rounding of y - loc does
    assert np.all(np.abs(dist.cdf(y) - q) <= 2e-9 + rounded)
    tail = np.minimum(q, 1 - q)
    reached = np.where(q > 0.5, dist.sf(y), dist.cdf(y))
    assert np.all(np.abs(reached - tail) <= 2e-6 * tail + rounded)
    assert np.all((np.abs(reached - tail) <= 1e-9 * tail + rounded)[:, tail < 1e-3])  # exact cdfs, no tables
    assert np.all(np.diff(y[:, np.argsort(q)], axis=1) >= 0)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(["slice", "mask", "list", "step", "negative", "int"]))
def test_slicing_commutes_with_everything(seed, how):
    dist = random_dist(seed, n=6)
    keys = {
        "slice": slice(2, 5),
        "mask": np.arange(6) % 2 == 0,
        "list": [4, 0, 0, 3],
        "step": slice(None, None, -2),
        "negative": slice(-3, None),
        "int": 4,
    }
    key = keys[how]
    part = dist[key]
    y = np.random.default_rng(seed).standard_normal((6, 3))
    for name in ("logpdf", "pdf", "cdf", "sf"):
        assert_array_equal(getattr(part, name)(y[key]), getattr(dist, name)(y)[key])
    for name in ("mean", "var", "std", "median"):
        assert_array_equal(getattr(part, name)(), getattr(dist, name)()[key])
    assert_array_equal(part.ppf([0.1, 0.9]), dist.ppf([0.1, 0.9])[key])
    assert_array_equal(part.interval(0.8)[1], dist.interval(0.8)[1][key])
    assert [v.context for v in dist[4].contexts()] == [v.context for v in dist.contexts()[4]]


def test_slices_of_entropy_and_of_nothing():
    dist = random_dist(3, n=3, most=3)
    assert_array_equal(dist[1:].entropy(), dist.entropy()[1:])
    empty = dist[:0]
    assert len(empty) == 0
    assert empty.logpdf(np.empty(0)).shape == (0,)
    assert empty.ppf([0.1, 0.2]).shape == (0, 2)
    assert empty.rvs(3).shape == (0, 3)
    assert len(list(dist)) == 3
    with pytest.raises(IndexError):
        dist[3]
    with pytest.raises(IndexError, match="one axis"):
        dist[None]
    with pytest.raises(TypeError, match="no length"):
        len(dist[0])


def test_pickle_and_repr():
    dist = random_dist(5)
    copy = pickle.loads(pickle.dumps(dist))
    assert_array_equal(copy.logpdf(0.3), dist.logpdf(0.3))
    assert repr(dist).startswith("PredictiveDistribution(4 rows")


# -- shapes of answers -------------------------------------------------------------------------------------------------


def test_broadcasting_puts_rows_first():
    dist = random_dist(1)
    grid = np.linspace(-3, 3, 7)
    table = dist.logpdf(grid[None, :])
    assert table.shape == (4, 7)
    for i in range(4):
        for j in range(7):
            assert table[i, j] == dist[i].logpdf(grid[j])
    assert_array_equal(dist.logpdf(np.arange(4.0)), [dist[i].logpdf(float(i)) for i in range(4)])
    assert_array_equal(dist.logpdf(2.0), dist.logpdf(np.full(4, 2.0)))
    assert dist.cdf(np.zeros((4, 2, 3))).shape == (4, 2, 3)
    assert dist[0].cdf(np.zeros((2, 3))).shape == (2, 3)
    assert np.ndim(dist[0].cdf(0.0)) == 0
    with pytest.raises(ValueError, match=r"grid\[None, :\]"):
        dist.logpdf(grid)


def test_ppf_shapes_ends_and_nonsense():
    dist = random_dist(2)
    assert dist.ppf(0.5).shape == (4,)
    assert dist.ppf([0.5]).shape == (4, 1)
    assert dist.ppf(np.full((2, 3), 0.3)).shape == (4, 2, 3)
    assert_array_equal(dist.ppf([0, 1]), np.tile([-np.inf, np.inf], (4, 1)))
    for wrong in ([5, 95], -0.1, [0.5, 1.1]):
        with pytest.raises(ValueError, match=r"probabilities are in \[0, 1\]"):
            dist.ppf(wrong)
    with pytest.raises(ValueError, match=r"divide by 100"):
        dist.interval(90)
    assert_array_equal(dist.ppf([0.9, np.nan, 0.1])[:, ::2], dist.ppf([0.9, 0.1]))
    assert_array_equal(dist.log_prob(0.0), dist.logpdf(0.0))
    assert_array_equal(dist.icdf(0.2), dist.quantile(0.2))
    with pytest.raises(ValueError, match="confidence"):
        dist.interval(1.5)


# -- the edges of floats -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_any_scale(scale):
    shapes = every_kind()
    unit, dist = alone(shapes, 0.25), alone(shapes, 0.25 * scale, scale)
    e = np.array([-3.0, -0.6, 0.3, 2.2])
    assert_allclose(dist.logpdf(e[None] * scale), unit.logpdf(e[None]) - np.log(scale), rtol=1e-12)
    assert_allclose(dist.cdf(e[None] * scale), unit.cdf(e[None]), rtol=1e-12)
    q = [0.01, 0.3, 0.5, 0.99]
    assert_allclose(dist.ppf(q) / scale, unit.ppf(q), rtol=1e-8, atol=1e-9)


def test_absurd_y():
    dist = alone(
        Shapes.join([Shapes.student([1e-1, 2.0, 1e4]), Shapes.t2_cells(MASS, EDGES[:-1], np.diff(EDGES))]), 1.0, 1e-300
    )
    for y in (1e300, -1e300, 1.7e308, -1.7e308):
        values = dist.logpdf(y)
        assert np.all(np.isfinite(values)), values
        assert np.all(values < -150)
    t2 = 600 * np.log(10) * -3 + 300 * np.log(10)  # density 1/e^3 / scale at e = 1e600
    assert_allclose(dist.logpdf(1e300)[1], t2, rtol=1e-12)
    assert_allclose(dist.logpdf(1e300)[3], t2 + np.log(0.1 / 0.25), rtol=1e-12)  # the last cell's height in u
    everything = random_dist(8)
    far = everything.logpdf(np.array([[-1e300, 1e300, np.inf, -np.inf]]))
    assert not np.any(np.isnan(far))
    assert np.all(np.isnan(everything.logpdf(np.nan)))
    assert np.all(np.isnan(everything.cdf(np.nan)))
    assert_array_equal(everything.cdf(np.inf), 1.0)
    assert_array_equal(everything.sf(np.inf), 0.0)


def test_quantiles_of_modes_far_apart():
    normal = Shapes.student(np.inf)
    dist = PredictiveDistribution(
        [0, 3], [0.2, 0.3, 0.5], [-1e200, 0.0, 1e200], [1e-5, 1e-200, 1e190], [0, 0, 0], normal
    )[0]
    q = np.array([0.1, 0.2 - 1e-12, 0.35, 0.49, 0.6, 0.9999])
    y = dist.ppf(q)
    assert np.all(np.diff(y) >= 0)
    assert y[0] == -1e200
    assert_allclose(y[2], 0.0, atol=1e-199)
    assert_allclose(dist.cdf(y[2:]), q[2:], atol=1e-8)
    gap = PredictiveDistribution([0, 2], [0.5, 0.5], [-100.0, 100.0], [1.0, 1.0], [0, 0], normal)[0]
    assert_allclose(gap.cdf(gap.ppf(0.5)), 0.5, atol=1e-15)
    assert_allclose(gap.ppf([0.25, 0.75]), [-100, 100], atol=1e-9)


# -- samples -----------------------------------------------------------------------------------------------------------


def test_draws_follow_the_cdf():
    dist = random_dist(11)
    draws = dist.rvs(4000, random_state=7)
    for i in range(4):
        assert stats.kstest(draws[i], dist[i].cdf).pvalue > 0.01
    # the draws of one row do not follow another
    assert stats.kstest(draws[0], dist[1].cdf).pvalue < 1e-6
    assert_array_equal(draws, dist.rvs(4000, random_state=7))
    assert dist.rvs(random_state=0).shape == (4,)
    assert dist.rvs((2, 3), random_state=np.random.default_rng(0)).shape == (4, 2, 3)
    assert np.ndim(dist[0].rvs(random_state=np.random.RandomState(0))) == 0
    assert dist[0].sample(5).shape == (5,)


def test_draws_of_each_kind_follow_their_cdf():
    dist = alone(every_kind(), 2.0, 3.0)
    draws = dist.rvs(3000, random_state=3)
    for i in range(len(dist)):
        assert stats.kstest(draws[i], dist[i].cdf).pvalue > 0.01


def test_scipy_law_of_one_row():
    row = random_dist(4)[2]
    marginal = row.to_scipy()
    y, q = np.linspace(-5, 5, 7), np.array([0.0, 0.1, 0.5, 1.0])
    for name in ("logpdf", "pdf", "cdf", "sf"):
        assert_allclose(getattr(marginal, name)(y), getattr(row, name)(y), rtol=1e-14)
    assert_array_equal(marginal.ppf(q), row.ppf(q))
    assert_allclose(marginal.isf(0.2), row.ppf(0.8))
    assert marginal.entropy() == row.entropy()
    assert marginal.mean() == row.mean()
    assert marginal.rvs(10, random_state=1).shape == (10,)
    normal = alone(Shapes.student(np.inf), 1.0, 2.0)
    assert_allclose(normal.to_scipy().std(), 2.0)
    with pytest.raises(ValueError, match="one row"):
        random_dist(4).to_scipy()


def test_pool_mixes_neighbours():
    dist = random_dist(6)
    pooled = dist.pool(2)
    assert_allclose(pooled.pdf(0.4), dist.pdf(0.4).reshape(2, 2).mean(1), rtol=1e-13)
    assert_allclose(pooled.cdf(0.4), dist.cdf(0.4).reshape(2, 2).mean(1), rtol=1e-13)
    with pytest.raises(ValueError, match="divide"):
        dist.pool(3)


# -- what is refused ---------------------------------------------------------------------------------------------------


GOOD = {"offsets": [0, 2], "weight": [0.5, 0.5], "loc": [0.0, 0.0], "scale": [1.0, 1.0], "shape": [0, 0]}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("offsets", [0, 1], "end with the number of components"),
        ("offsets", [0, 2, 2], "at least one component"),
        ("offsets", [[0, 2]], "one dimension"),
        ("weight", [0.5, 0.4], "row 0 sum to"),
        ("weight", [1.5, -0.5], "negative"),
        ("weight", [np.nan, 1.0], "negative or NaN"),
        ("loc", [0.0, np.inf], "finite"),
        ("loc", [0.0], "one entry for each"),
        ("scale", [1.0, 0.0], "positive"),
        ("scale", [1.0, np.nan], "positive"),
        ("shape", [0, 1], "table of 1 shapes"),
        ("context", [1], "one entry for each"),
    ],
)
def test_bad_voices(name, value, message):
    with pytest.raises(ValueError, match=message):
        PredictiveDistribution(**{**GOOD, name: value}, shapes=Shapes.student(3.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shapes.student([0.0]), "positive"),
        (lambda: Shapes.student([np.nan]), "positive"),
        (lambda: Shapes.kernels([0.5, 0.4], [0, 1], [1, 1]), "sum to one"),
        (lambda: Shapes.kernels([1.0], [0], [0]), "positive finite widths"),
        (lambda: Shapes.cells([0.5, 0.5], [0, 0.5], [1, 1]), "overlap"),
        (lambda: Shapes.t2_cells([1.0], [0.5], [0.6]), r"\[0, 1\]"),
        (lambda: Shapes.cells([], [], []), "at least one"),
        (lambda: Shapes([7], [1.0], [0, 0], [], [], []), "0, 1, 2 or 3"),
        (lambda: Shapes([0], [1.0], [0, 1], [], [], []), "number of atoms"),
        (lambda: Shapes([0], [1.0, 2.0], [0, 0], [], [], []), "entries"),
        (lambda: Shapes([1], [1.0], [0, 1], [1.0], [0.0], []), "one length"),
    ],
)
def test_bad_shapes(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# -- scores -----------------------------------------------------------------------------------------------------------


def crps_rows(seed, n=12, df=(1.5, 4.0, 30.0), narrowest=0.02):
    """Rows of Student components, normals and kernels, narrow and wide; and the cdf of each by SciPy alone."""
    rng = np.random.default_rng(seed)
    mass, center, width = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.2, 1.4]), np.array([0.3, 0.5, 0.25])
    shapes = Shapes.join([Shapes.student([*df, np.inf]), Shapes.kernels(mass, center, width)])
    m = 6 * n
    weight, shape = rng.dirichlet(np.ones(6), n), rng.integers(0, len(shapes), m).reshape(n, 6)
    loc, scale = rng.normal(0, 2, (n, 6)), np.exp(rng.uniform(np.log(narrowest), 1, (n, 6)))
    dist = PredictiveDistribution(
        np.arange(0, m + 1, 6), weight.ravel(), loc.ravel(), scale.ravel(), shape.ravel(), shapes
    )

    def cdf(i, y):
        total = np.zeros_like(y)
        for w, a, s, k in zip(weight[i], loc[i], scale[i], shape[i]):
            e = (y - a) / s
            own = stats.t(df[k]).cdf(e) if k < len(df) else stats.norm.cdf(e)
            total += w * (own if k <= len(df) else stats.norm.cdf((e[:, None] - center) / width) @ mass)
        return total

    spread = np.sum(weight * (scale + np.abs(loc - np.sum(weight * loc, axis=1)[:, None])), axis=1)
    return dist, cdf, spread, rng.normal(0, 3, n)


def slow_crps(cdf, i, y, spread):
    """The integral of (F - 1[x >= y])^2 by Gauss and Legendre in many pieces, out to where its tails add nothing."""
    out = np.concatenate([np.linspace(0, 30, 3000), np.geomspace(30, 1e9, 4000)[1:]]) * spread
    edges = np.sort(np.concatenate([-out[1:], out, [y]]))
    place, weight = np.polynomial.legendre.leggauss(6)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    x = middle[:, None] + half[:, None] * place
    above = cdf(i, x.ravel()).reshape(x.shape) - (x > y)
    return np.sum(above**2 * half[:, None] * weight)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_crps_is_the_integral(seed):
    dist, cdf, spread, y = crps_rows(seed)
    y[0], y[1] = 400.0, -60.0  # far out
    expected = np.array([slow_crps(cdf, i, y[i], spread[i]) for i in range(len(y))])
    assert np.max(np.abs(dist.crps(y) - expected) / spread) < 1e-6
    assert dist[2].crps(y[2]) == pytest.approx(expected[2], abs=1e-6 * spread[2])


@pytest.mark.parametrize(("step", "narrowest"), [(1.0, 0.02), (0.01, 0.02), (0.04, 0.05), (0.25, 0.5)])
def test_the_crps_of_rounded_y_is_the_sum_over_the_grid(step, narrowest):
    """Of a few values, of many under wide components, and of many under narrow ones."""
    dist, cdf, spread, y = crps_rows(3, df=(4.0, 8.0, 30.0), narrowest=narrowest)
    y[0] = 45.0
    y = np.round((y - 0.1) / step) * step + 0.1
    grid = np.arange(-round(400 / step), round(400 / step) + 1) * step + 0.1
    found = dist.rounded(Rounding(step=step, origin=0.1)).crps(y)
    for i in range(len(y)):
        exact = step * np.sum((cdf(i, grid + 0.5 * step) - (grid > y[i] - 0.5 * step)) ** 2)
        assert found[i] == pytest.approx(exact, abs=1e-6 * spread[i])


def test_the_crps_of_a_grid_under_a_narrow_and_a_wide_normal():
    """Where the second term of the series counts."""
    step, scale = 0.3, np.array([1.0, 40.0])
    dist = PredictiveDistribution([0, 2], [0.9, 0.1], [0.0, 0.0], scale, [0, 0], Shapes.student(np.inf))
    grid = np.arange(-2000, 2001) * step
    F = stats.norm.cdf((grid[:, None] + 0.5 * step) / scale) @ [0.9, 0.1]
    exact = step * np.sum((F - (grid > -0.5 * step)) ** 2)
    assert dist.rounded(Rounding(step=step)).crps([0.0])[0] == pytest.approx(exact, abs=3e-7)


ROUNDINGS = {
    "atoms": Rounding(values=np.array([0.0, 1.0]), width=np.array([0.5, 0.3])),
    "atoms at limits": Rounding(values=np.array([-1.0, 0.0, 3.0]), width=np.array([0.5, 0.2, 0.5]), low=-1.0, high=3.0),
    "low": Rounding(bounds=Bounds(-3.0, np.inf, 2.0), low=-3.0),
    "high": Rounding(bounds=Bounds(-np.inf, 3.0, 2.0), high=3.0),
    "low and high": Rounding(bounds=Bounds(-10.0, 10.0, 4.0), low=-10.0, high=10.0),
    "skewed": Rounding(bounds=Bounds(-4.0, np.inf, 5.0, 0.5)),
    "skewed to the left, an atom": Rounding(
        values=np.array([0.0]), width=np.array([0.5]), bounds=Bounds(-np.inf, 5.0, 8.0, 0.5)
    ),
    "a grid": Rounding(step=0.5, low=-2.0, high=6.0),
    "a grid, mapped": Rounding(step=0.25, low=-2.0, bounds=Bounds(-2.125, np.inf, 3.0)),
}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_the_crps_of_y_with_bounds_or_atoms_is_the_integral(name):
    rounding = ROUNDINGS[name]
    latent, _, spread, y = crps_rows(2, n=4, df=(4.0, 8.0, 30.0), narrowest=0.1)
    dist, y = latent.rounded(rounding), rounding.value(y)
    beyond = [limit + side for limit, side in ((rounding.low, -0.5), (rounding.high, 0.5)) if np.isfinite(limit)]
    y[: len(beyond)] = beyond
    far = np.concatenate([np.linspace(0.0, 30.0, 300), np.geomspace(30.0, 2000.0, 100)[1:]])
    for i in range(len(y)):
        edges = rounding.value(np.concatenate([-far, far]) * spread[i])
        if rounding.step:
            edges = rounding.between(edges.min(), edges.max())
        edges = np.unique(np.concatenate([edges, rounding.values, [y[i]]]))
        place, weight = np.polynomial.legendre.leggauss(10 if not rounding.step else 1)
        x = 0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * place
        above = dist[i].cdf(x.ravel()).reshape(x.shape) - (x > y[i])
        expected = np.sum(above**2 * 0.5 * np.diff(edges)[:, None] * weight)
        slope = rounding.bounds.c if rounding.bounds else 1.0
        assert dist.crps(y)[i] == pytest.approx(expected, abs=1e-6 * slope * spread[i])


def test_rows_with_cells_have_an_exact_crps_and_those_without_a_mean_one_from_quantiles():
    heavy = PredictiveDistribution([0, 1], [1.0], [0.0], [1.0], [0], Shapes.student([0.9]))
    assert heavy.crps([0.5]) == pytest.approx(UnivariateDistribution.crps(heavy, [0.5]))
    cells = PredictiveDistribution([0, 1], [1.0], [0.0], [1.0], [0], Shapes.cells([0.4, 0.6], [-1.0, 1.0], [1.0, 2.0]))
    both = PredictiveDistribution(
        [0, 1, 2],
        [1.0, 1.0],
        [0.0, 0.0],
        [1.0, 1.0],
        [0, 1],
        Shapes.join([cells.shapes, Shapes.student([np.inf])]),
    )
    exact = 0.16 / 3 + 0.16 * 0.3 + 0.36 * 0.7 + 0.24  # from -1 to 0, to 0.3, to 1, to 3
    assert both.crps([0.3, 0.3])[0] == pytest.approx(exact, abs=1e-12)
    assert both.crps([0.0, 0.0])[1] == pytest.approx((np.sqrt(2) - 1) / np.sqrt(np.pi), abs=1e-8)
    assert np.isnan(both.crps([np.nan, 0.0])).tolist() == [True, False]
