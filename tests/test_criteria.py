"""Splits that the grower finds are the best there are, by slow formulas; the walk on its trees is `CoverModel`'s."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from coverwalk import CoverModel
from coverwalk._kernels.forest.evidence import stop_weights, walk_weights
from coverwalk._kernels.forest.feature_urn import CLEAR, draw_feature, empty_urn, put_feature
from coverwalk._kernels.odds import log_mixture, log_step
from coverwalk.base import Cover
from coverwalk.forest import class_tree
from coverwalk.forest.class_tree import ClassGrowth, grown_tree
from coverwalk.forest.tree import grow_tree
from coverwalk.local import Polynomial


def line_evidence(x, r, s2):
    """Of a ridge line in x, with two prior rows of variance s2, without its determinants."""
    F = np.column_stack([np.ones(len(x)), x])
    c = np.linalg.solve(F.T @ F + np.eye(2), F.T @ r)
    psi = 2.0 * s2 + r @ r - c @ (F.T @ r)
    return gammaln(0.5 * (2 + len(r))) - 0.5 * (2 + len(r)) * math.log(psi / s2)


def both_sides(x, r, left, at=0.0):
    return sum(line_evidence(x[side] - at, r[side], np.mean(r**2)) for side in (left, ~left))


@pytest.mark.parametrize("seed", range(4))
def test_a_bound_has_the_most_evidence_of_two_lines(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, 40)
    y = np.where(x > 0.3, 2.0 - 3.0 * x, 0.5 + x) + 0.1 * rng.standard_normal(40)
    tree = grow_tree(x[:, None], y, seed, min_rows=5, n_candidates=3000)
    split = tree.split[0]
    values = np.sort(x)[4:-5]  # nearly surely all of them are among so many candidates
    best = max(both_sides(x, y, x <= value, value) for value in values)
    assert both_sides(x, y, x <= split, split) >= best - 1e-9
    assert min((x <= split).sum(), (x > split).sum()) >= 5


@pytest.mark.parametrize("apart", [(4,), (0,), (1, 3)])
@pytest.mark.parametrize("missing", [False, True])
def test_a_set_of_levels_is_the_best_prefix(apart, missing):
    rng = np.random.default_rng(1)
    level = rng.integers(5, size=120).astype(float)
    y = 2.0 * np.isin(level, apart) + 0.1 * level + 0.3 * rng.standard_normal(120)
    if missing:
        level[:15], y[:15] = np.nan, 2.0 + 0.3 * rng.standard_normal(15)
    tree = grow_tree(level[:, None], y, 0, min_rows=5, n_candidates=4, n_categories=(5,))
    order = np.argsort([y[level == c].mean() for c in range(5)])
    sets = [
        [*order[:k], *with_missing] for k in range(1, 5 + missing) for with_missing in ([], [np.nan])[: 1 + missing]
    ]

    def inside(chosen):
        return np.isin(level, chosen) | (np.isnan(level) & any(np.isnan(chosen)))

    best = max(both_sides(0.0 * y, y, inside(chosen)) for chosen in sets if 5 <= inside(chosen).sum() <= 115)
    k = tree.leaves(level[:, None])
    while (k > 2).any():  # up to the children of the root
        k = np.where(k > 2, tree.parent[k], k)
    assert both_sides(0.0 * y, y, k == 1) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_a_bound_leaves_the_least_entropy(missing, monkeypatch):
    for name, value in {"SPLITS": 4000, "SAMPLE": 1000}.items():
        monkeypatch.setattr(class_tree, name, value)
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 60)
    y = (x > 0.2).astype(np.int64) + (x > 0.7)
    if missing:
        x[:9], y[:9] = np.nan, 2
    tree = grown_tree((x[:, None], y, np.ones(60)), 3, np.arange(60), 0, ClassGrowth(False, min_rows=3))

    def entropy(left):
        counts = [np.bincount(y[side], minlength=3) for side in (left, ~left)]
        return sum(-(n[n > 0] * np.log(n[n > 0] / n.sum())).sum() for n in counts)

    lefts = [(x <= value) | (np.isnan(x) & side) for value in x[~np.isnan(x)] for side in (False, True)]
    best = min(entropy(left) for left in lefts if 3 <= left.sum() <= 57)
    goes_left = np.where(np.isnan(x), tree.categories[0] < 0, x <= tree.split[0])  # the highest bit is the sign
    assert entropy(goes_left) == pytest.approx(best, abs=1e-9)


class _Contexts(Cover):
    nested = True

    def __init__(self, tree):
        self.tree = tree

    def contexts(self, x):
        path = [int(self.tree.leaves(np.atleast_2d(x))[0])]
        while path[0] > 0:
            path.insert(0, int(self.tree.parent[path[0]]))
        return [[k] for k in path]


def test_the_walk_on_a_tree_is_the_cover_model_with_its_own_local_models():
    """Evidence up and weights down, and the odds row by row, of `Polynomial` in every context: all to 1e-9."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 2))
    y = np.where(X[:, 0] > 0, 2.0, X[:, 1]) + 0.2 * rng.standard_normal(60)
    tree, stop = grow_tree(X, y, 0, min_rows=6), 0.3
    cover, N = _Contexts(tree), len(tree)
    assert N > 6
    model = CoverModel(cover, Polynomial(1), stop=stop)
    posterior, log_odds = [Polynomial(1).start() for _ in range(N)], np.full(N, math.log(stop / (1 - stop)))
    said = 0.0
    for x, t in zip(X, y):
        path = [k for (k,) in cover.contexts(x)]
        log_psi = posterior[path[-1]].logpdf(x, t)
        for k in path[-2::-1]:
            log_phi = posterior[k].logpdf(x, t)
            log_psi, log_odds[k] = log_mixture(log_odds[k], log_psi, log_phi), log_odds[k] + log_step(log_psi, log_phi)
        assert log_psi == pytest.approx(model.log_predict(x, t), abs=1e-9)
        said += log_psi
        model.update(x, t)
        for k in path:
            posterior[k].update(x, t)
    log_evidence, log_stop, log_go = np.array([each.log_evidence() for each in posterior]), *np.empty((2, 1, N))
    assert stop_weights(tree.left, log_evidence, stop, log_stop[0], log_go[0]) == pytest.approx(said, abs=1e-9)
    assert model.log_evidence() == pytest.approx(said, abs=1e-9)
    inner = tree.left >= 0
    np.testing.assert_allclose((log_stop - log_go)[0, inner], log_odds[inner], rtol=0, atol=1e-9)
    weight = np.empty((1, N, 1))
    walk_weights(tree.parent, np.zeros((N, 1)), log_stop, log_go, weight)
    for x, t in zip(rng.uniform(-1.5, 1.5, (10, 2)), rng.uniform(-1, 3, 10)):
        path = [k for (k,) in cover.contexts(x)]
        mixture = logsumexp([posterior[k].logpdf(x, t) for k in path], b=weight[0, path, 0])
        assert mixture == pytest.approx(model.log_predict(x, t), abs=1e-9)


def test_an_observation_that_nothing_has_a_density_for_changes_no_odds():
    assert log_step(-math.inf, -math.inf) == 0.0
    assert log_step(-math.inf, -5.0) == 700.0
    assert log_step(-5.0, -math.inf) == -700.0
    assert log_mixture(0.3, -math.inf, -math.inf) == -math.inf


# -- which features are tried -----------------------------------------------------------------------------------------


def test_features_are_drawn_as_often_as_they_were_split_and_ten_times_at_random():
    urn, state, p = empty_urn(4), np.array([7], np.uint64), 4
    before = np.bincount([draw_feature(urn, p, state) for _ in range(4000)], minlength=p)
    np.testing.assert_allclose(before / 4000, 1 / 4, atol=0.02)
    for feature, gain in ((2, 2 * CLEAR), (2, 2 * CLEAR), (0, 2 * CLEAR), (1, 0.9 * CLEAR), (-1, 2 * CLEAR)):
        put_feature(urn, feature, gain)  # the last two do not count
    after = np.bincount([draw_feature(urn, p, state) for _ in range(4000)], minlength=p)
    np.testing.assert_allclose(after / 4000, (np.array([1, 0, 2, 0]) + 10 / 4) / (3 + 10), atol=0.02)


@pytest.mark.parametrize("n_categories", [(), (8,) * 100])
def test_every_feature_has_its_turn(n_categories):
    """One of a hundred matters, and twenty candidates would miss it four times in five."""
    rng = np.random.default_rng(3)
    X = rng.integers(8, size=(1000, 100)).astype(float)
    y = np.where(X[:, 42] > 3, 1.0, 0.0) + 0.3 * rng.standard_normal(1000)
    trees = [grow_tree(X, y, seed, min_rows=200, n_categories=n_categories) for seed in range(20)]
    assert np.mean([tree.feature[0] == 42 for tree in trees]) > 0.6


@pytest.mark.parametrize("informed", [True, False])
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_tree_splits_what_it_has_split(kind, informed):
    """One of forty features changes y many times, or none does: then none is preferred."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(3000, 40))
    y = (np.floor(16 * X[:, 7]).astype(int) % 2 if informed else rng.integers(2, size=3000)).astype(np.int64)
    if kind == "numbers":
        r = y + 0.3 * rng.standard_normal(3000)
        trees = [grow_tree(X, r, seed, min_rows=20) for seed in range(8)]
    else:
        growth = ClassGrowth(discriminants=False, min_rows=20)
        trees = [grown_tree((X, y, np.ones(3000)), 2, np.arange(3000), seed, growth) for seed in range(8)]
    splits = np.bincount(np.concatenate([tree.feature[tree.feature >= 0] for tree in trees]), minlength=40)
    weight = splits / splits.sum()
    assert weight[7] > 0.35 if informed else weight.max() < 0.1
