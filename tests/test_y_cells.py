"""Cells of y common to all x: where they are found, that densities integrate to one, and that smooth y has none."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from coverwalk import ConditionalDensity, load
from coverwalk._kernels.forest.y_cells import Prices, Rows, best_edges
from coverwalk.forest.context import Context
from coverwalk.forest.experts.cell_edges import MIN_WIDTH, Cells, _seen_from_places, find_cells
from coverwalk.forest.experts.y_cells import Y_CELLS, YCells, masses
from coverwalk.forest.forest import Forest
from coverwalk.forest.settings import Settings
from coverwalk.forest.summary import summarise
from tests.forging import check

NONE = np.empty(0)
CELLS = Cells(
    left=np.array([-1.0, 0.5, 3.0]),
    right=np.array([0.5, 2.0, 4.0]),
    low=np.array([-1.0, 1.0 - 1e-3, 3.0]),
    high=np.array([0.5, 1.0 + 1e-3, 4.0]),
)


def rounded(n, seed):
    """Whole numbers that depend on x, two of them as frequent as each other, and noise of one step."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X[:, 0] + 0.4 * rng.normal(size=n), [-1.5, 0.0, 1.5])
    return X, y + rng.uniform(-0.5, 0.5, n)


def smooth(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=n)


def fitted(y_cells, seed=0):
    X, y = rounded(300, seed)
    forest = Forest.plan(X, y, Settings(n_trees=3, scale_factor=0.87, y_cells=y_cells))
    forest.accumulate(X, y)
    forest.finalize()
    return forest, X, y


# -- cells ------------------------------------------------------------------------------------------------------------


def worth(rows, prices, edges):
    """As the docstring of find_cells has it, cell by cell."""
    total = 0.0
    for a, b in pairwise(edges):
        n = rows.n_rows[b] - rows.n_rows[a]
        narrow = max((rows.last[b] - rows.first[a]) * (n + 2) / n, prices.least)
        density = [n * np.log(n / (rows.place[b] - rows.place[a])), n * np.log(n / narrow) - prices.support]
        told = (rows.hinted[b] - rows.hinted[a]) ** 2 / max(rows.hints[b] - rows.hints[a], 1e-9) / prices.noise
        total += max(density) + 0.5 * told - prices.cell
    return total


def narrow(cells):
    """Which have a support of their own: atoms of y, and what lies between gaps."""
    return (cells.low > cells.left) | (cells.high < cells.right)


@pytest.mark.parametrize("seed", range(4))
def test_no_other_edges_are_worth_more(seed):
    rng = np.random.default_rng(seed)
    y = np.sort(np.append(rng.choice([0.0, 0.3, 0.9], 9) + rng.choice([0.0, 0.1], 9) * rng.uniform(size=9), [0.0, 1.0]))
    rows, noise = _seen_from_places(y / y.max(), y[::2] / y.max(), rng.normal(size=6) + 3 * (y[::2] > 0.5))
    prices = Prices(1.0, 0.7, 0.01, noise)
    last = len(rows.place) - 1
    inner = range(1, last)
    every = [(0, *some, last) for k in range(last) for some in combinations(inner, k)]
    best = max(every, key=lambda edges: worth(rows, prices, edges))
    edges = np.empty(last + 1, np.int64)
    n_edges = best_edges(Rows(*rows), prices, edges)
    assert edges[:n_edges].tolist() == list(best)
    assert len(best) > 2


def test_edges_that_only_x_can_tell_are_found_by_what_was_predicted():
    X, y = rounded(1500, 0)
    told = find_cells(y, y[:700], X[:700, 0])
    np.testing.assert_allclose(told.right[:-1], [0.5, 1.5, 2.5], atol=0.03)
    assert told.left[0] == pytest.approx(-0.5, abs=0.03)
    assert told.right[-1] == pytest.approx(3.5, abs=0.03)
    assert not narrow(told).any()
    alone = find_cells(y, NONE, NONE)  # two of the numbers are as frequent as each other
    assert np.abs(alone.right - 1.5).min() > 0.2


def test_atoms_have_a_support_about_their_value_and_gaps_are_left_out():
    rng = np.random.default_rng(0)
    y = rng.choice([2.0, 3.0, 4.0], 400)
    atoms = find_cells(y, NONE, NONE)
    assert narrow(atoms).all()
    np.testing.assert_allclose(0.5 * (atoms.low + atoms.high), [2, 3, 4], atol=1e-12)
    np.testing.assert_allclose(atoms.high - atoms.low, MIN_WIDTH * y.std(), rtol=1e-9)
    np.testing.assert_allclose(np.append(atoms.left, 4.5), [1.5, 2.5, 3.5, 4.5])
    y = rng.choice([0.0, 10.0], 400) + rng.uniform(size=400)
    gaps = find_cells(y, NONE, NONE)
    over = (gaps.low < 5.5) & (gaps.high > 5.5)
    held = ((gaps.left[over, None] < y) & (y < gaps.right[over, None])).sum()
    assert held <= 4
    assert gaps.low[0] == pytest.approx(0, abs=0.01)
    assert gaps.high[-1] == pytest.approx(11, abs=0.01)


def test_rounding_to_many_digits_makes_no_atoms():
    rng = np.random.default_rng(0)
    y = np.append(rng.normal(size=2000).round(2), np.full(20, 6.0))
    assert len(np.unique(y)) < 600
    cells = find_cells(y, NONE, NONE)
    assert narrow(cells).sum() == 1
    assert cells.low[-1] < 6 < cells.high[-1]


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e300])
def test_cells_have_the_units_of_y(scale):
    X, y = rounded(800, 1)
    ours, theirs = find_cells(scale * y, scale * y, X[:, 0]), find_cells(y, y, X[:, 0])
    for one, other in zip(ours, theirs):
        np.testing.assert_allclose(one / scale, other, rtol=1e-9)


def test_y_that_no_cell_can_hold_has_none():
    assert find_cells(np.full(50, 3.0), NONE, NONE) is None
    assert find_cells(np.repeat([-1.7e308, 0.0, 1.7e308], 20), NONE, NONE) is None
    assert find_cells(np.repeat(np.arange(100.0), 40), NONE, NONE) is None  # more than are worth their components


# -- the law ----------------------------------------------------------------------------------------------------------


def test_masses_are_those_of_the_forest():
    forest, X, _ = fitted(None)
    dist = forest.predict_dist(X)
    exact = dist.cdf(CELLS.right[None, :]) - dist.cdf(CELLS.left[None, :])
    ours = masses(dist, CELLS.left, CELLS.right)
    assert np.abs(ours - exact).max() < 1e-9
    assert ours.min() >= 0
    assert ours.sum(axis=1).max() <= 1 + 1e-12


def test_laws():
    forest, X, _ = fitted(YCells(0.8, 1.5, CELLS))
    dist = forest.predict_dist(np.vstack([X[:5], 1e6 * X[:1]]))
    edges = np.concatenate([CELLS.low, CELLS.high])
    near = np.concatenate([edges - 1e-9, edges + 1e-9])
    wide = np.concatenate([-np.geomspace(1e4, 9, 2000), np.linspace(-9, 9, 40_001), np.geomspace(9, 1e4, 2000)])
    grid = np.sort(np.concatenate([wide, near]))
    np.testing.assert_allclose(np.trapezoid(dist.pdf(grid[None, :]), grid, axis=1), 1, atol=1e-4)
    q = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 0.9999])
    np.testing.assert_allclose(dist.cdf(dist.ppf(q)), np.tile(q, (6, 1)), rtol=0, atol=1e-8)
    for y in (-0.3, 0.7, 1.0005, 2.5, 3.5, 5.0):
        slope = (dist.cdf(y + 1e-5) - dist.cdf(y - 1e-5)) / 2e-5
        np.testing.assert_allclose(slope, dist.pdf(y), rtol=1e-5)
    np.testing.assert_allclose(np.add.reduceat(dist.components.weight, dist.components.offsets[:-1]), 1, rtol=1e-12)
    jumps = dist.pdf(3.0 + 1e-9) - dist.pdf(3.0 - 1e-9)
    assert np.all(jumps[:5] > 0)
    draws = dist[0].rvs(20_000, random_state=0)
    assert np.abs(np.mean(draws[:, None] <= grid[::500], axis=0) - dist[0].cdf(grid[::500])).max() < 0.02
    assert dist[0].mean() == pytest.approx(draws.mean(), abs=0.03)


def test_the_formula_holds():
    share, power = 0.7, 1.4
    forest, X, _ = fitted(YCells(share, power, CELLS))
    ours = forest.predict_dist(X[:20])
    forest.settings = replace(forest.settings, y_cells=None)
    plain = forest.predict_dist(X[:20])
    mass = masses(plain, CELLS.left, CELLS.right)
    inside = mass.sum(axis=1)
    sharp = mass**power / (mass**power).sum(axis=1, keepdims=True)
    at = np.linspace(-2, 5, 141) + 1e-7
    uniform = ((at >= CELLS.low[:, None]) & (at <= CELLS.high[:, None])) / (CELLS.high - CELLS.low)[:, None]
    expected = (1 - share * inside)[:, None] * plain.pdf(at[None, :]) + (share * inside)[:, None] * (sharp @ uniform)
    np.testing.assert_allclose(ours.pdf(at[None, :]), expected, rtol=1e-10)


def test_its_voices_have_a_name():
    forest, X, _ = fitted(YCells(0.9, 1.0, CELLS))
    dist = forest.predict_dist(X[:4])
    assert (dist.context == Y_CELLS).sum() == 4 * 3
    heaviest = dist[0].contexts()[0]
    assert heaviest.context == Context(-2, 0, 300, 0, {})
    assert heaviest.kind == 3
    shares = summarise(forest).components
    assert shares["cells of y common to all x"] == 0.9
    assert sum(shares.values()) == pytest.approx(1.0)


def test_some_rows_alone_and_no_rows():
    forest, X, y = fitted(YCells(0.9, 1.2, CELLS))
    whole = forest.predict_dist(X[:30]).logpdf(y[:30])
    np.testing.assert_array_equal(
        np.concatenate([forest.predict_dist(X[i : i + 7]).logpdf(y[i : i + 7]) for i in (0, 7)]), whole[:14]
    )
    assert len(forest.predict_dist(X[:0])) == 0


# -- what is chosen ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return ConditionalDensity(n_estimators=8).fit(*rounded(700, 0))


def without_steps(model, X, y):
    forest = model.forests_[0]
    kept, forest.settings = forest.settings, replace(forest.settings, y_cells=None)
    plain = model.log_likelihood(X, y)
    forest.settings = kept
    return plain


def test_rounded_y_with_noise_has_steps_and_gains(model):
    y_cells = model.forests_[0].settings.y_cells
    assert y_cells.weight > 0.6
    np.testing.assert_allclose(y_cells.cells.right[:-1], [0.5, 1.5, 2.5], atol=0.05)
    X, y = rounded(2000, 1)
    assert model.log_likelihood(X, y) > without_steps(model, X, y) + 0.09
    low, high = model.predict_dist(X).interval(0.9)
    assert 0.87 < np.mean((low <= y) & (y <= high)) < 0.93


@pytest.mark.parametrize("make", [smooth, lambda n, seed: (smooth(n, seed)[0], np.exp(smooth(n, seed)[1]))])
def test_smooth_y_has_none_and_nothing_is_added(make):
    X, y = make(500, 0)
    model = ConditionalDensity(n_estimators=4).fit(X, y)
    assert model.forests_[0].settings.y_cells is None
    dist = model.predict_dist(X[:5])
    assert np.all(dist.context > Y_CELLS)
    assert len(dist.shapes) == 1 + sum(len(tree.shapes) for tree in model.forests_[0].fitted)


def test_order_and_threads_change_nothing(model):
    X, y = rounded(700, 0)
    order = np.random.default_rng(1).permutation(len(y))
    other = ConditionalDensity(n_estimators=8, n_jobs=2).fit(X[order], y[order])
    np.testing.assert_array_equal(other.logpdf(X, y), model.logpdf(X, y))


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_scales_have_them_too(scale):
    X, y = rounded(500, 0)
    model = ConditionalDensity(n_estimators=2).fit(X, scale * y)
    y_cells = model.forests_[0].settings.y_cells
    np.testing.assert_allclose(y_cells.cells.right[:-1] / scale, [0.5, 1.5, 2.5], atol=0.1)
    assert np.all(np.isfinite(model.logpdf(X, scale * y)))
    assert np.all(np.isfinite(model.predict(X)))


def test_several_outputs_have_steps_each():
    X, y = rounded(700, 0)
    Y = np.column_stack([X[:, 1] + 0.3 * np.random.default_rng(9).normal(size=700), y])
    model = ConditionalDensity(n_estimators=3).fit(X, Y)
    assert model.forests_[0].settings.y_cells is None
    assert model.forests_[1].settings.y_cells is not None
    dist = model.predict_dist(X[:20])
    np.testing.assert_allclose(dist.logpdf(Y[:20]), model.logpdf(X[:20], Y[:20]), rtol=1e-12)


def test_chunks_have_them_too():
    X, y = rounded(3000, 0)
    model = ConditionalDensity(4).fit_chunks([(X[:1500], y[:1500]), (X[1500:], y[1500:])], sample_rows=1000)
    assert model.forests_[0].settings.y_cells is not None
    new = rounded(1000, 1)
    assert model.log_likelihood(*new) > without_steps(model, *new) + 0.01


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_file_holds_them(model, tmp_path):
    X, y = rounded(100, 2)
    model.save(tmp_path / "m.cw")
    assert np.array_equal(load(tmp_path / "m.cw").logpdf(X, y), model.logpdf(X, y))


@pytest.mark.parametrize(
    "forge",
    [
        lambda s: s._replace(weight=1.5),
        lambda s: s._replace(weight=float("nan")),
        lambda s: s._replace(exponent=1000.0),
        lambda s: s._replace(cells=s.cells._replace(high=s.cells.low)),
        lambda s: s._replace(cells=s.cells._replace(low=s.cells.low - 100)),
        lambda s: s._replace(cells=s.cells._replace(left=s.cells.left[::-1].copy())),
        lambda s: s._replace(cells=s.cells._replace(right=s.cells.right[:1])),
        lambda s: s._replace(cells=s.cells._replace(low=s.cells.low * np.nan)),
        lambda s: s._replace(cells=Cells(*(ends[:0] for ends in s.cells))),
    ],
)
def test_forged_steps_are_refused(forge):
    forest, _, _ = fitted(YCells(0.9, 1.2, CELLS))
    check(forest)
    forest.settings = replace(forest.settings, y_cells=forge(forest.settings.y_cells))
    with pytest.raises(ValueError, match=r"steps|cells|shapes|low|right"):
        check(forest)
