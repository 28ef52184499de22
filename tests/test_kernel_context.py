"""The kernel density over the whole space: against plain NumPy, its distributions, and its share beside the trees."""

import numpy as np
import pytest
from scipy import stats

from coverwalk import ConditionalDensity, load
from coverwalk._kernels.forest.global_kernel import judge_bandwidths
from coverwalk.datasets import MIXTURES
from coverwalk.forest.context import Context
from coverwalk.forest.experts.global_kernel import KernelContext
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import GLOBAL_KERNEL
from coverwalk.forest.settings import Settings
from coverwalk.forest.tuning import choose

BASE = stats.norm(scale=[1.0, 3.0, 9.0])
FAR = 0.05


def base(y):
    return BASE.pdf(np.asarray(y)[..., None]) @ [0.6, 0.3, 0.1]


def rows(n=300, p=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, rng.choice([-1, 1], n) * X[:, 0] + 0.3 * rng.standard_normal(n)


def density(X, y, x, at, hx, hy):
    """The formula of the kernel's docstring, for one x, as it stands."""
    K = np.exp(-0.5 * ((X - x) ** 2).sum(axis=1) / hx**2)
    k = stats.norm.pdf(at[:, None], y, hy)
    m = (k.sum(axis=1) + base(at)) / (len(y) + 1)
    return (k @ K + FAR * m) / (K.sum() + FAR)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("step", [-0.5, -0.2])  # kernels as squares, and not
def test_bandwidths_are_judged_by_rows_left_out(p, step):
    X, y = rows(40, p)
    hx, hy = 0.7 * 2.0 ** (step * np.arange(3)), 0.4 * 2.0 ** (step * np.arange(4))
    score = np.zeros((3, 4))
    judge_bandwidths(X, y, 25, hx, hy, score)
    expected = np.zeros((3, 4))
    for i in range(25):
        others = np.arange(40) != i
        for a in range(3):
            for b in range(4):
                expected[a, b] += np.log(density(X[others], y[others], X[i], y[i : i + 1], hx[a], hy[b])[0])
    np.testing.assert_allclose(score, expected, rtol=1e-9)


@pytest.mark.parametrize("p", [1, 2])
def test_nodes_hold_the_density_and_the_rest_lies_between(p):
    X, y = rows(300, p)
    context = KernelContext.fit(X, y)
    at = np.linspace(-4, 4, 81)
    for corner in ([3] * p, context.size // 2):
        x = context.low + context.step * corner
        node, weight = context.nodes_of(x[None])
        assert weight.max() == pytest.approx(1.0, abs=1e-9)
        s = node[0, np.argmax(weight[0])]
        atoms = slice(context.shapes.start[s], context.shapes.start[s + 1])
        w, c, h = (getattr(context.shapes, name)[atoms] for name in ("atom_weight", "atom_center", "atom_width"))
        ours = stats.norm.pdf(at[:, None], c, h) @ w
        exact = density(X, y, x, at, context.hx, context.hy)
        assert np.abs(ours - exact).max() < 0.03 * exact.max()
        # exactly: a y stands at two places half a bandwidth apart; rows beyond five bandwidths are not heard
        t = (y - y.min()) / (0.5 * context.hy)
        twice = y.min() + 0.5 * context.hy * np.concatenate([np.floor(t), np.floor(t) + 1])
        part = np.concatenate([1 - t % 1, t % 1])
        K = np.tile(np.exp(-0.5 * ((X - x) ** 2).sum(axis=1) / context.hx**2), 2) * part
        k = stats.norm.pdf(at[:, None], twice, context.hy * np.sqrt(1 - 1 / 24))
        binned = (k @ K + FAR * (k @ part + base(at)) / (len(y) + 1)) / (K.sum() + FAR)
        assert np.abs(ours - binned).max() < 3e-4 * binned.max()
    middle = context.low + context.step * (np.full(p, 3) + 0.25)
    node, weight = context.nodes_of(middle[None])
    assert sorted(weight[0]) == pytest.approx(sorted(np.prod(np.meshgrid(*[[0.75, 0.25]] * p), axis=0).ravel()))
    assert len(set(node[0].tolist())) == 2**p


def fitted(X, y, **settings):
    forest = Forest.plan(X, y, Settings(n_trees=3, **settings))
    forest.accumulate(X, y)
    forest.finalize()
    return forest


@pytest.mark.parametrize("p", [1, 2])
def test_laws(p):
    X, y = rows(200, p)
    dist = fitted(X, y, kernel=0.7).predict_dist(np.vstack([X[:4], np.full((1, p), 1e9)]))
    grid = np.concatenate([-np.geomspace(1e4, 12, 2000), np.linspace(-12, 12, 20_001), np.geomspace(12, 1e4, 2000)])
    np.testing.assert_allclose(np.trapezoid(dist.pdf(grid[None, :]), grid, axis=1), 1, atol=5e-5)  # there are steps
    q = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 0.9999])
    np.testing.assert_allclose(dist.cdf(dist.ppf(q)), np.tile(q, (5, 1)), rtol=0, atol=1e-8)
    y_0 = dist.ppf(0.4)
    slope = (dist.cdf(y_0 + 1e-4) - dist.cdf(y_0 - 1e-4)) / 2e-4
    np.testing.assert_allclose(slope, dist.pdf(y_0), rtol=1e-5)
    np.testing.assert_allclose(np.add.reduceat(dist.components.weight, dist.components.offsets[:-1]), 1, rtol=1e-12)
    assert np.all(np.isfinite(dist.std()))


def test_its_voices_have_their_share_and_a_name():
    X, y = rows(200)
    forest = fitted(X, y, kernel=0.7)
    dist = forest.predict_dist(X[:3])
    outlier = dist.components.weight[dist.context == -1][0]
    assert dist.components.weight[dist.context == GLOBAL_KERNEL].sum() / 3 == pytest.approx(
        0.7 * (1 - outlier), rel=1e-12
    )
    assert forest.describe(GLOBAL_KERNEL) == Context(-1, 0, 200, 0, {})


def test_order_and_chunks_change_nothing():
    X, y = rows(200)
    order = np.random.default_rng(1).permutation(200)
    a = fitted(X, y, kernel=0.5).predict_dist(X[:20]).logpdf(y[:20])
    assert np.array_equal(a, fitted(X[order], y[order], kernel=0.5).predict_dist(X[:20]).logpdf(y[:20]))
    one = Forest.plan(X, y, Settings(n_trees=3, kernel=0.5))
    one.accumulate(X[70:], y[70:])
    one.accumulate(X[:70], y[:70])
    one.finalize()
    assert np.array_equal(a, one.predict_dist(X[:20]).logpdf(y[:20]))


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: (np.zeros_like(X), y),
        lambda X, y: (X, np.full(len(y), 3.0)),
        lambda X, y: (X, np.round(y)),
        lambda X, y: (X[:2], y[:2]),
        lambda X, y: (1e300 * X, 1e300 * y),
        lambda X, y: (1e-300 * X, 1e-300 * y),
        lambda X, y: (np.sign(X) * np.exp(np.abs(10 * X)), y),
        lambda X, y: (X, np.exp(10 * y)),
    ],
    ids=["one x", "constant y", "integer y", "two rows", "huge", "tiny", "heavy x", "heavy y"],
)
@pytest.mark.parametrize("p", [1, 2])
def test_hostile_rows(p, make):
    X, y = make(*rows(80, p))
    dist = fitted(X, y, kernel=0.9).predict_dist(np.vstack([X, -2 * X[:1]]))
    assert np.all(np.isfinite(dist.logpdf(np.append(y, y[0]))))
    assert np.all(np.isfinite(dist.mean()))


def test_the_share_belongs_to_the_data():
    X, y = MIXTURES["ring"].make(150, 1)
    assert choose(X, y, Settings(stop=0.9)).kernel > 0.3
    rng = np.random.default_rng(0)
    smooth = 3 * X[:, 0] ** 2 + 0.01 * rng.standard_normal(150)
    assert choose(X, smooth, Settings(stop=0.9)).kernel < 0.2
    assert choose(np.hstack([X] * 3), y, Settings()).kernel == 0.0
    assert choose(X[:10], y[:10], Settings()).kernel == 0.0


def test_a_file_holds_it(tmp_path):
    X, y = MIXTURES["ring"].make(150, 1)
    model = ConditionalDensity(n_estimators=2).fit(X, y)
    assert model.forests_[0].global_kernel is not None
    model.save(tmp_path / "m.cover")
    assert np.array_equal(load(tmp_path / "m.cover").logpdf(X, y), model.logpdf(X, y))
