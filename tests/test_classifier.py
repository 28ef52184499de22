import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import multivariate_t
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from coverwalk import ContextClassifier, CoverModel
from coverwalk._kernels.forest.class_walk import LEARN, LEAVE_OUT, PREDICT, STRANGE, WEIGH
from coverwalk._kernels.forest.discriminant import add_moments, discriminants, log_scores
from coverwalk.base import Cover
from coverwalk.forest import class_rows
from coverwalk.forest import class_tree as class_tree_module
from coverwalk.forest.class_pool import MAX_EXPONENT, HeldOut, fit_exponents, log_softmax
from coverwalk.forest.class_rows import ClassRows, DuplicateRows
from coverwalk.forest.class_tree import (
    NU0,
    RIDGE,
    TEMPERATURES,
    ClassGrowth,
    ClassTree,
    grow_class_tree,
    grown_tree,
    with_evidence,
)
from coverwalk.forest.pool import pool_weights
from coverwalk.local.dirichlet import Dirichlet, DirichletPosterior

COUNTS, GAUSS = ClassGrowth(discriminants=False), ClassGrowth(discriminants=True)


@pytest.fixture
def many_discriminants(monkeypatch):
    monkeypatch.setattr(class_tree_module, "ROWS_SHARED", 1.0)
    monkeypatch.setattr(class_tree_module, "ROWS_OWN", 0.5)


def blobs(n=300, p=3, C=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(C, size=n)
    X = rng.normal(size=(n, p)) * (1 + 0.3 * y[:, None]) + 2.0 * np.eye(C, p)[y]
    return X, y, np.ones(n)


def class_tree(growth, seed=0, n=300, C=3):
    rows = blobs(n, C=C, seed=seed)
    inside, outside = np.arange(0, n, 2), np.arange(1, n, 2)
    return rows, *grow_class_tree(rows, C, inside, outside, seed, growth)


def predicted(tree, X, growth):
    return tree.visit((X, np.zeros(len(X), np.int64), np.zeros(len(X))), np.arange(len(X)), growth, PREDICT)


@parametrize_with_checks([ContextClassifier(n_estimators=12, n_discriminant_trees=4, random_state=0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# The kernels against slow references


class _TreeCover(Cover):
    """The contexts of one tree of arrays, as a cover of the general tier."""

    nested = True

    def __init__(self, tree):
        self.tree = tree

    def contexts(self, x):
        axis, split, left = self.tree.feature, self.tree.split, self.tree.left
        path = [0]
        while left[path[-1]] >= 0:
            k = path[-1]
            path.append(int(left[k]) + int(x[axis[k]] > split[k]))
        return [[k] for k in path]


class _LivePosterior(DirichletPosterior):
    """Counts based on what the parent predicts now, not on what it did when the context was made."""

    def __init__(self, parent, alphabet, alpha):
        super().__init__(dict.fromkeys(alphabet, alpha / len(alphabet)))
        self.parent, self.alpha = parent, alpha

    def probabilities(self):
        C = len(self.prior)
        base = self.parent.probabilities() if self.parent else dict.fromkeys(self.prior, 1 / C)
        total = self.alpha + self.counts.total()
        return {y: (self.counts[y] + self.alpha * ((1 - STRANGE) * base[y] + STRANGE / C)) / total for y in self.prior}

    def logpdf(self, x, y):
        return float(np.log(self.probabilities()[y]))


class _LiveDirichlet(Dirichlet):
    def start(self, parent=None):
        return _LivePosterior(parent, self.alphabet, 1.0)


def test_walk_equals_cover_model_on_the_same_tree():
    (X, y, weight), tree, _, _ = class_tree(COUNTS)
    N, C = tree.flat.counts.shape
    log_v, log_odds = np.full((N, 5), -np.inf), np.full(N, np.inf)
    log_v[:, 0] = 0.0
    inner = tree.tree.left >= 0
    log_odds[inner] = np.log(0.1 / 0.9)
    flat = tree.flat._replace(counts=np.zeros((N, C)), log_v=log_v, log_odds=log_odds)
    fresh = ClassTree(tree.tree, flat, tree.levels)
    order = np.arange(120)
    psi = fresh.visit((X, y, weight), order, COUNTS, LEARN)
    slow = CoverModel(_TreeCover(tree.tree), _LiveDirichlet(range(C)), stop=0.1, priors="parent")
    said = []
    for i in order:
        said.append([np.exp(slow.log_predict(X[i], c)) for c in range(C)])
        slow.update(X[i], int(y[i]))
    np.testing.assert_allclose(psi, said, rtol=1e-9)
    assert psi.max() > 0.9  # it did learn


def whole_factor(U):
    """A factor with its own diagonal: kernels keep the inverse of it."""
    return np.triu(U, 1) + np.diag(1 / np.diag(U))


def slow_local(tree, growth, k, x, base):
    """phi_j of context k, straight from the formulas; the factors are checked on their own below."""
    _, _, counts, shared, own, shared_factors, own_factors, (columns,), *_ = tree.flat
    C, total = counts.shape[1], counts[k].sum()
    said = [(counts[k] + growth.alpha * ((1 - STRANGE) * base + STRANGE / C)) / (total + growth.alpha)]
    for place, (U, centre, head, gain, power) in ((shared[k], shared_factors), (own[k], own_factors)):
        for temperature in TEMPERATURES:
            if place < 0:
                said.append(np.full(C, np.nan))
                continue
            z = [np.linalg.solve(whole_factor(U[place, c % U.shape[1]]).T, x[columns]) for c in range(C)]
            square = np.array([((z[c] - centre[place, c]) ** 2).sum() for c in range(C)])
            score = temperature * (head[place] - power[place] * np.log1p(gain[place] * square))
            p = np.exp(score - score.max())
            strange = 1 / (total + 1)
            said.append((1 - strange) * p / p.sum() + strange * said[0])
    return np.array(said)


def slow_psi(tree, growth, x, k=0, base=None):
    C = tree.flat.counts.shape[1]
    phi = slow_local(tree, growth, k, x, np.full(C, 1 / C) if base is None else base)
    v = np.exp(tree.walk[0][k])
    mixed = v[v > 0] @ phi[v > 0]
    axis, split, left = tree.tree.feature, tree.tree.split, tree.tree.left
    if left[k] < 0:
        return mixed
    below = slow_psi(tree, growth, x, left[k] + (x[axis[k]] > split[k]), mixed)
    return expit(tree.walk[1][k]) * mixed + expit(-tree.walk[1][k]) * below


@pytest.mark.usefixtures("many_discriminants")
@pytest.mark.parametrize("growth", [COUNTS, ClassGrowth(discriminants=False, alpha=3.0), GAUSS])
def test_predictions_equal_the_recursion(growth):
    (X, _, _), tree, _, _ = class_tree(growth)
    if growth.discriminants:
        assert (tree.flat.shared >= 0).any()
        assert (tree.flat.own >= 0).any()
    psi = predicted(tree, X, growth)
    np.testing.assert_allclose(psi, [slow_psi(tree, growth, x) for x in X], rtol=1e-9)
    np.testing.assert_allclose(psi.sum(axis=1), 1.0, rtol=1e-12)


def slow_learn(tree, growth, x, y, m, k=0, base=None):
    """psi of a row, after which the tree of one path has learned it."""
    C = tree.flat.counts.shape[1]
    phi = slow_local(tree, growth, k, x, np.full(C, 1 / C) if base is None else base)
    log_v, log_odds = tree.walk
    v, axis, split, left = np.exp(log_v[k]), tree.tree.feature, tree.tree.split, tree.tree.left
    mixed = v[v > 0] @ phi[v > 0]
    psi = mixed
    if left[k] >= 0:
        below = slow_learn(tree, growth, x, y, m, left[k] + (x[axis[k]] > split[k]), mixed)
        w = expit(log_odds[k])
        psi = w * mixed + (1 - w) * below
        log_odds[k] = np.log(w * mixed[y] ** m) - np.log((1 - w) * below[y] ** m)
    new = np.where(v > 0, v * np.nan_to_num(phi[:, y]) ** m, 0.0)
    with np.errstate(divide="ignore"):
        log_v[k] = np.log(new / new.sum())
    tree.flat.counts[k, y] += m
    return psi


@pytest.mark.usefixtures("many_discriminants")
@pytest.mark.parametrize("growth", [COUNTS, GAUSS])
def test_learning_equals_the_recursion(growth):
    (X, y, _), tree, _, _ = class_tree(growth)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    slow = pickle.loads(pickle.dumps(tree))
    order = np.arange(0, 300, 3)
    psi = tree.visit((X, y, weight), order, growth, LEARN)
    np.testing.assert_allclose(psi, [slow_learn(slow, growth, X[i], y[i], weight[i]) for i in order], rtol=1e-9)
    np.testing.assert_allclose(tree.flat.counts, slow.flat.counts, rtol=1e-9)
    for fast, by_hand in zip(tree.walk, slow.walk):
        np.testing.assert_allclose(np.exp(fast), np.exp(by_hand), rtol=1e-9, atol=1e-12)


def slow_evidence(tree, growth, x, y, evidence, k=0, base=None):
    """Add log phi of a row's class to the evidence of each context on its way."""
    C = tree.flat.counts.shape[1]
    phi = slow_local(tree, growth, k, x, np.full(C, 1 / C) if base is None else base)
    v = np.exp(tree.walk[0][k])
    evidence[k, v > 0] += np.log(phi[v > 0, y])
    if tree.tree.left[k] >= 0:
        child = tree.tree.left[k] + (x[tree.tree.feature[k]] > tree.tree.split[k])
        slow_evidence(tree, growth, x, y, evidence, child, v[v > 0] @ phi[v > 0])


@pytest.mark.usefixtures("many_discriminants")
@pytest.mark.parametrize("growth", [COUNTS, GAUSS])
def test_rows_that_were_counted_weigh_the_walk_without_themselves(growth):
    (X, y, weight), tree, _, _ = class_tree(growth)
    before, order = pickle.dumps(tree), np.arange(5, 300, 7)
    ours, expected = np.zeros((2, *tree.walk[0].shape))
    tree.visit((X, y, weight), order, growth, WEIGH, ours)
    psi = tree.visit((X, y, weight), order, growth, LEAVE_OUT)
    assert pickle.dumps(tree) == before
    for row, i in enumerate(order):
        without = pickle.loads(before)
        for k in _above(tree.tree, tree.tree.leaves(X[i : i + 1])[0]):
            without.flat.counts[k, y[i]] -= weight[i]
        slow_evidence(without, growth, X[i], y[i], expected)
        np.testing.assert_allclose(psi[row], slow_psi(without, growth, X[i]), rtol=1e-9)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)

    weighed = with_evidence(tree, ours)
    w, v = expit(tree.walk[1]), np.exp(tree.walk[0])

    def log_z(k):  # of the rows of a context
        phi = np.log(v[k] @ np.exp(ours[k]))
        left = tree.tree.left[k]
        if left < 0:
            return phi
        below = log_z(left) + log_z(left + 1)
        both = np.logaddexp(np.log(w[k]) + phi, np.log1p(-w[k]) + below)
        assert weighed.walk[1][k] == pytest.approx(np.log(w[k]) + phi - np.log1p(-w[k]) - below, rel=1e-6)
        return both

    assert log_z(0) < 0.0
    if growth.discriminants:
        new = v[0] * np.exp(ours[0])
        np.testing.assert_allclose(np.exp(weighed.walk[0][0]), new / new.sum(), atol=1e-3)  # faint ones are dropped


@pytest.mark.parametrize("own", [False, True])
def test_discriminants_are_student_t(own):
    X, y, weight = blobs(90, p=4)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 90)
    C, p, nu0, ridge = 3, 4, 2.5, 0.7
    root, none = np.zeros(1, np.int64), np.full(1, -1)
    total = np.zeros((1, C)), np.zeros((1, C, p)), np.zeros((1, C if own else 1, p, p))
    add_moments((X, y, weight), np.zeros(90, np.int64), none, root, np.arange(p), total)
    prior = np.eye(p) * 0.4
    sigma = prior[None].copy() if own else np.zeros((1, p, p))
    head, gain, power = np.zeros((3, 1, C))
    factors = np.zeros_like(total[2]), np.zeros_like(total[1]), head, gain, power
    discriminants(total, none, sigma, nu0, ridge, factors)
    work = np.empty((4, max(C, p)))
    work[0, :p] = X[7]
    log_scores(factors, 0, p, work)
    out = work[2, :C]
    mean = np.average(X, axis=0, weights=weight)
    expected, shared = [], np.zeros((p, p))
    n = np.array([weight[y == c].sum() for c in range(C)])
    mu = [(weight[y == c] @ X[y == c] + mean) / (n[c] + 1) for c in range(C)]
    scatter = [
        (weight[y == c, None] * (X[y == c] - mu[c])).T @ (X[y == c] - mu[c]) + np.outer(mu[c] - mean, mu[c] - mean)
        for c in range(C)
    ]
    for c in range(C):
        shared = nu0 * prior + scatter[c] + ridge * np.eye(p) if own else sum(scatter) + ridge * np.eye(p)
        degrees = nu0 + p + (n[c] if own else n.sum()) - p + 1
        t = multivariate_t(mu[c], shared * (n[c] + 2) / (n[c] + 1) / degrees, df=degrees)
        expected.append(np.log((n[c] + 1 / C) / (n.sum() + 1)) + t.logpdf(X[7]) + 0.5 * p * np.log(np.pi))
    np.testing.assert_allclose(out, expected, rtol=1e-9)
    if not own:
        np.testing.assert_allclose(np.triu(sigma[0]), np.triu(shared / (nu0 + n.sum())), rtol=1e-9)


def contexts_of(tree, X):
    """The rows of each context."""
    inside = [set() for _ in range(len(tree))]
    for i, k in enumerate(tree.leaves(X)):
        for context in _above(tree, k):
            inside[context].add(i)
    return [sorted(rows) for rows in inside]


def test_moments_are_added_up_in_the_deepest_context_that_needs_them():
    rows = blobs(200)
    tree = grown_tree(rows, 3, np.arange(200), 5, ClassGrowth(False, min_rows=10))
    inside = contexts_of(tree, rows[0])
    needs = np.array([len(here) >= 40 for here in inside])
    place = np.where(needs, np.cumsum(needs) - 1, -1)
    G = place.max() + 1
    assert 2 < G < len(tree)
    total = np.zeros((G, 3)), np.zeros((G, 3, 2)), np.zeros((G, 3, 2, 2))
    columns = np.array([0, 2])
    add_moments(rows, tree.leaves(rows[0]), tree.parent, place, columns, total)
    for k in np.flatnonzero(needs):
        below = [i for child in np.flatnonzero((tree.parent == k) & needs) for i in inside[child]]
        here = np.setdiff1d(inside[k], below)
        for c in range(3):
            x = rows[0][here][rows[1][here] == c][:, columns]
            np.testing.assert_allclose(total[0][place[k], c], len(x))
            np.testing.assert_allclose(total[1][place[k], c], x.sum(0), atol=1e-9)
            np.testing.assert_allclose(np.triu(total[2][place[k], c]), np.triu(x.T @ x), atol=1e-9)


def entropy(y, C):
    n = np.bincount(y, minlength=C)
    return -(n[n > 0] * np.log(n[n > 0] / n.sum())).sum()


def test_cuts_are_the_best_of_many_and_contexts_are_partitions(monkeypatch):
    for name, value in {"SPLITS": 200, "SAMPLE": 1000}.items():
        monkeypatch.setattr(class_tree_module, name, value)
    rng = np.random.default_rng(0)
    X = rng.random((400, 2))
    y = (X[:, 1] > 0.37).astype(np.int64) + (X[:, 0] > 0.8)
    rows, perm = (X, y, np.ones(400)), np.arange(400)
    tree = grown_tree(rows, 3, perm, 1, ClassGrowth(False, min_rows=3))
    axis, split, left, parent = tree.feature, tree.split, tree.left, tree.parent
    # With 200 cuts on each axis tried, the root's is near the best there is.
    best = min(
        entropy(y[X[:, a] <= t], 3) + entropy(y[X[:, a] > t], 3) for a in range(2) for t in np.sort(X[:, a])[3:-3]
    )
    chosen = X[:, axis[0]] <= split[0]
    assert entropy(y[chosen], 3) + entropy(y[~chosen], 3) < best + 5.0
    assert sorted(perm) == list(range(400))
    inside = contexts_of(tree, X)
    for k, here in enumerate(inside):
        assert len(here) >= 3
        if left[k] >= 0:
            goes = X[here, axis[k]] <= split[k]
            for child, part in ((left[k], goes), (left[k] + 1, ~goes)):
                assert inside[child] == np.array(here)[part].tolist()
                assert parent[child] == k
        elif len(here) >= 6:
            assert len(set(y[here])) == 1
    grown, _, _ = grow_class_tree(rows, 3, np.arange(300), np.arange(300, 400), 1, COUNTS)
    for k, here in enumerate(contexts_of(grown.tree, X)):
        assert (grown.flat.counts[k] == np.bincount(y[here], minlength=3)).all()  # every row, once


def test_rows_left_out_are_predicted_unseen():
    rows = blobs(200)
    inside, outside = np.arange(150), np.arange(150, 200)
    _, order, psi = grow_class_tree(rows, 3, inside, outside, 4, GAUSS)
    last = order[-1]
    y = rows[1].copy()
    y[last] = (y[last] + 1) % 3
    _, _, changed = grow_class_tree((rows[0], y, rows[2]), 3, inside, outside, 4, GAUSS)
    np.testing.assert_array_equal(psi, changed)  # the last row's own label moves no prediction, not even its own
    y[order[0]] = (y[order[0]] + 1) % 3
    _, _, changed = grow_class_tree((rows[0], y, rows[2]), 3, inside, outside, 4, GAUSS)
    np.testing.assert_array_equal(psi[0], changed[0])
    assert not np.array_equal(psi[1:], changed[1:])


@pytest.mark.usefixtures("many_discriminants")
def test_faint_discriminants_hardly_change_a_prediction(monkeypatch):
    (X, _, _), tree, _, _ = class_tree(GAUSS, n=600)
    monkeypatch.setattr(class_tree_module, "FAINT", 1e-300)
    _, whole, _, _ = class_tree(GAUSS, n=600)
    kept, before = (len(one.flat.shared_factors[0]) + len(one.flat.own_factors[0]) for one in (tree, whole))
    assert kept < before
    np.testing.assert_allclose(predicted(tree, X, GAUSS), predicted(whole, X, GAUSS), atol=1e-3)


@pytest.mark.usefixtures("many_discriminants")
def test_discriminants_are_those_of_all_rows_and_of_the_contexts_above(monkeypatch):
    monkeypatch.setattr(class_tree_module, "FAINT", 0.3)  # so that some above others have none
    (X, y, weight), tree, _, _ = class_tree(GAUSS, n=1500)
    shared, own = tree.flat.shared, tree.flat.own
    above = [sorted(_above(tree.tree, k))[::-1] for k in np.flatnonzero((shared >= 0) & (own >= 0))]
    path = next(path for path in above if ((shared[path] < 0) & (own[path] < 0)).any())
    deepest = path[0]
    leaf, sigma, p = tree.tree.leaves(X), np.zeros((3, 3)), 3
    inside = {k: np.array([k in _above(tree.tree, m) for m in leaf]) for k in path}
    for k in path[::-1]:
        rows, labels, m = X[inside[k]], y[inside[k]], weight[inside[k]]
        mean = m @ rows / m.sum()
        scatter = []
        for c in range(3):
            Z, w = rows[labels == c], m[labels == c]
            mu = (w @ Z + mean) / (w.sum() + 1.0)
            scatter.append((Z.T * w) @ Z + np.outer(mean, mean) - (w.sum() + 1.0) * np.outer(mu, mu))
        S = sum(scatter) + NU0 * p * sigma + RIDGE * np.eye(p)
        sigma = S / (NU0 * p + m.sum())
    U = _factor(tree.flat.shared_factors[0][shared[deepest], 0])
    np.testing.assert_allclose(U.T @ U, S, rtol=1e-9)
    U = _factor(tree.flat.own_factors[0][own[deepest], 1])
    np.testing.assert_allclose(U.T @ U, scatter[1] + NU0 * p * sigma + RIDGE * np.eye(p), rtol=1e-9)


def _factor(kept):
    """U of S = U'U: its diagonal is kept inverted."""
    return np.triu(kept, 1) + np.diag(1.0 / np.diag(kept))


def _above(tree, k):
    path = {k}
    while k > 0:
        k = tree.parent[k]
        path.add(k)
    return path


def test_the_context_of_all_rows_has_discriminants_however_few_they_are():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=60)
    X = rng.normal(size=(60, 30)) + 0.7 * np.eye(3)[y][:, rng.integers(3, size=30)]
    model = ContextClassifier(random_state=0).fit(X[:40], y[:40])
    locals_ = {component.local for component in model.contexts(X[:1], top=10**6)[0] if not component.box}
    assert {"shared covariance, temperature 1", "own covariance, temperature 1"} <= locals_
    assert model.weights_[1] > 0.5


# Pooling


@pytest.mark.parametrize("powers", [(0.4, 0.0), (1.7, 0.6), (6.0, 2.0), (-1.0, 0.5)])  # the last had better turn round
def test_the_exponents_are_the_optimum(powers):
    rng = np.random.default_rng(0)
    log_pools = np.log(rng.dirichlet(np.ones(4), size=(500, 2))).swapaxes(1, 2)
    y = np.array([rng.choice(4, p=np.exp(row)) for row in log_softmax(log_pools @ powers)])
    weight = rng.uniform(0.5, 2.0, 500)

    def loss(T):
        return 0.5 * ((T - [1.0, 0.0]) ** 2).sum() - weight @ log_softmax(log_pools @ T)[np.arange(500), y]

    T = fit_exponents(log_pools, y, weight)
    slow = minimize(loss, [1.0, 1.0], bounds=[(0, 50)] * 2, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    np.testing.assert_allclose(T, slow.x, atol=1e-4)
    assert loss(T) <= slow.fun + 1e-9
    jitter = 1.0 + 1e-15 * rng.standard_normal(log_pools.shape)
    np.testing.assert_allclose(fit_exponents(log_pools * jitter, y, weight), T, rtol=1e-12)


def test_experts_that_err_apart_are_multiplied():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=3000)
    means = np.empty((3000, 4, 2))
    for kind in range(2):  # each knows one of the two bits of y
        bit = (np.arange(4) >> kind & 1)[None, :] == (y >> kind & 1)[:, None]
        means[:, :, kind] = np.where(bit, 0.45, 0.05)
    held_out = HeldOut(2)
    held_out.add(means, y, np.ones(3000))
    assert -held_out.log_proba(means)[np.arange(3000), y].mean() < 0.01  # any mixture of them has log 2 and more
    np.testing.assert_allclose(held_out.shares(), [0.5, 0.5], atol=0.01)


def test_a_class_pool_has_the_weights_of_the_one_pool():
    rng = np.random.default_rng(1)
    means = rng.dirichlet(np.ones(3), size=(400, 2)).transpose(0, 2, 1)
    y, weight = rng.integers(3, size=400), rng.uniform(0.5, 2.0, 400)
    held_out = HeldOut(2)
    held_out.add(means, y, weight)
    np.testing.assert_array_equal(held_out.weights, pool_weights(np.log(means[np.arange(400), y]), counted=weight))
    first, *others = held_out.exponents
    expected = (means @ held_out.weights) ** first * (means**others).prod(axis=2)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(held_out.log_proba(means)), expected, rtol=1e-12)


# The estimator


def small(**options):
    return ContextClassifier(**{"n_estimators": 12, "n_discriminant_trees": 4, "random_state": 0, **options})


@pytest.mark.parametrize(
    ("load", "most"),
    [(load_wine, 0.12), (load_breast_cancer, 0.16), (load_digits, 0.12)],
    ids=["wine", "cancer", "digits"],
)
def test_sharp_and_calibrated(load, most):
    X, y = load(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=0)
    p = ContextClassifier(random_state=0).fit(train_X, train_y).predict_proba(test_X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert log_loss(test_y, p) < most
    assert abs(p.max(axis=1).mean() - (p.argmax(axis=1) == test_y).mean()) < 0.04


def test_same_result_for_any_order_of_rows_and_number_of_threads():
    X, y = load_wine(return_X_y=True)
    p = small().fit(X, y).predict_proba(X)
    shuffled = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_array_equal(p, small().fit(X[shuffled], y[shuffled]).predict_proba(X))
    np.testing.assert_array_equal(p, small(n_jobs=3).fit(X, y).predict_proba(X))
    assert not np.array_equal(p, small(random_state=1).fit(X, y).predict_proba(X))


def test_weight_is_repetition():
    X, y = load_wine(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    p = small().fit(X, y, sample_weight=weight).predict_proba(X)
    repeated = np.repeat(np.arange(len(y)), weight)
    np.testing.assert_array_equal(p, small().fit(X[repeated], y[repeated]).predict_proba(X))
    with pytest.raises(ValueError, match="at least one non-zero"):
        small().fit(X, y, sample_weight=np.zeros(len(y)))


def test_equal_rows_are_bundled_and_dealt_to_folds(monkeypatch):
    monkeypatch.setattr(class_rows, "MANY_ROWS", 4)
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 3.0], [2.0, 3.0], [5.0, 5.0]])
    duplicates = DuplicateRows.of(ClassRows(X, np.array([0, 0, 0, 1, 1]), np.array([1.0, 1.0, 1.0, 0.3, 6.5])), 4)
    parts = {}
    for x, y, weight, bundle in zip(*duplicates):
        parts.setdefault((x[0], int(y)), []).append(weight)
        assert bundle == sorted(set(duplicates.bundle)).index(bundle)
    assert parts[0.0, 0] == [1.0, 1.0]
    assert parts[2.0, 0] == [1.0]
    assert parts[2.0, 1] == [0.3]
    assert parts[5.0, 1] == [2.0, 2.0, 1.5, 1.0]
    folds = list(duplicates.folds(8, 4, np.random.default_rng(0)))
    for block in (folds[:4], folds[4:]):
        assert sorted(np.concatenate(block)) == list(range(len(duplicates.y)))
    for fold in folds:
        assert len(set(duplicates.bundle[fold])) == len(fold)


def test_few_distinct_rows_with_noise_give_their_shares():
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(2000, 2)).astype(float)
    share = np.array([[0.9, 0.2], [0.3, 0.7]])[X[:, 0].astype(int), X[:, 1].astype(int)]
    model = small().fit(X, rng.random(2000) < share)
    p = model.predict_proba([[0, 0], [0, 1], [1, 0], [1, 1]])[:, 1]
    np.testing.assert_allclose(p, [0.9, 0.2, 0.3, 0.7], atol=0.05)


def test_frames_and_string_labels():
    X, y = load_wine(return_X_y=True, as_frame=True)
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    expected = small().fit(X.to_numpy(), names).predict_proba(X.to_numpy())
    for frame, labels in ((X, pd.Series(names)), (pl.from_pandas(X), pl.Series(names))):
        model = small().fit(frame, labels)
        assert model.classes_.tolist() == ["barbera", "barolo", "grignolino"]
        np.testing.assert_array_equal(model.predict_proba(frame), expected)
        assert (model.predict(frame) == names).mean() > 0.95
        assert model.feature_names_in_.tolist() == list(X.columns)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((1, 2)),
        np.zeros((6, 3)),
        np.repeat([[1.0, 2.0], [3.0, 4.0]], 20, axis=0),
        np.linspace(-1, 1, 40)[:, None] * [1e300, 1e-300, 5e-324],
        np.random.default_rng(0).normal(size=(200, 120)),
    ],
    ids=["one row", "constant", "duplicates", "scales", "wide"],
)
def test_odd_rows(X):
    y = np.arange(len(X)) * 2 // len(X)
    model = small().fit(X, y)
    p = model.predict_proba(np.vstack([X, -X, X * 0, X * 1e5 if np.abs(X).max() < 1e300 else X]))
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    if len(X) == 40:
        assert (model.predict(X) == y).mean() > 0.9


def test_one_class():
    model = small().fit(np.random.default_rng(0).normal(size=(10, 2)), ["a"] * 10)
    assert model.predict_proba([[0.0, 0.0]]).tolist() == [[1.0]]
    assert model.predict_log_proba([[0.0, 0.0]]).tolist() == [[0.0]]


def test_many_and_rare_classes():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.repeat(np.arange(60), 8), [60]])  # the last class has one row
    X = np.column_stack([y, rng.normal(size=len(y))]) + 0.05 * rng.normal(size=(len(y), 2))
    model = small().fit(X, y)
    assert model.predict_proba(X).shape == (481, 61)
    assert (model.predict(X) == y).mean() > 0.9
    rare = np.where(rng.random(1000) < 0.01, 1, 0)
    p = small().fit(rng.normal(size=(1000, 3)), rare).predict_proba(rng.normal(size=(500, 3)))
    assert 0.003 < p[:, 1].mean() < 0.03  # nothing to learn but the share


def test_noise_is_not_learned():
    rng = np.random.default_rng(0)
    model = small().fit(rng.normal(size=(400, 5)), rng.integers(2, size=400))
    loss = log_loss(rng.integers(2, size=1000), model.predict_proba(rng.normal(size=(1000, 5))))
    assert loss < np.log(2) + 0.03


# Streams


def test_stream_learns_and_grows():
    X, y = make_classification(1500, 6, n_informative=4, n_classes=3, random_state=0)
    model, losses = small(), []
    model.partial_fit(X[:20], y[:20], classes=[0, 1, 2])
    for start in range(20, 1500, 40):
        batch = slice(start, start + 40)
        losses.append(log_loss(y[batch], model.predict_proba(X[batch]), labels=[0, 1, 2]))
        model.partial_fit(X[batch], y[batch])
    assert np.mean(losses[-10:]) < 0.75 * np.mean(losses[:5])
    assert np.mean(losses[-10:]) < 0.6


def test_first_batch_is_a_fit_and_doubling_grows_anew():
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    p = small().fit(X[:80], y[:80]).predict_proba(X)
    model = small().partial_fit(X[:80], y[:80])
    np.testing.assert_array_equal(p, model.predict_proba(X))
    model.partial_fit(X[80:120], y[80:120])
    between = model.predict_proba(X)
    assert not np.array_equal(between, p)
    one_by_one = small().fit(X[:80], y[:80])
    for i in range(80, 120):
        one_by_one.partial_fit(X[i : i + 1], y[i : i + 1])
    counts = [tree.flat.counts for _, trees in model._forest.kinds for tree in trees]
    for tree_counts, (_, trees) in zip(counts, [(0, [t]) for _, ts in one_by_one._forest.kinds for t in ts]):
        np.testing.assert_allclose(tree_counts, trees[0].flat.counts)
    model.partial_fit(X[120:170], y[120:170])
    np.testing.assert_array_equal(model.predict_proba(X), small().fit(X[:170], y[:170]).predict_proba(X))


def test_classes_appear_or_are_declared():
    X, y = load_wine(return_X_y=True)
    names = np.array(["m", "z", "a"])[y]
    model = small().partial_fit(X[:100], names[:100])
    assert model.classes_.tolist() == ["m", "z"]
    model.partial_fit(X[100:], names[100:])
    assert model.classes_.tolist() == ["a", "m", "z"]
    assert (model.predict(X) == names).mean() > 0.95
    declared = small().partial_fit(X[:100], names[:100], classes=["z", "m", "q"])
    assert declared.predict_proba(X[:5]).shape == (5, 3)
    assert (declared.predict_proba(X[:5])[:, 1] > 0).all()
    before = declared.predict_proba(X)
    with pytest.raises(ValueError, match=r"not declared: \['a'\]"):
        declared.partial_fit(X[100:], names[100:])
    with pytest.raises(ValueError, match="differs from the classes"):
        declared.partial_fit(X[:2], names[:2], classes=["m"])
    with pytest.raises(ValueError, match="all numbers or all strings"):
        declared.partial_fit(X[:2], y[:2])
    with pytest.raises(ValueError, match="infinity"):
        declared.partial_fit(np.full((1, 13), np.inf), ["m"])
    np.testing.assert_array_equal(declared.predict_proba(X), before)


def test_powers_follow_the_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    model = small().fit(X, y)
    before = model.exponents_.sum()
    model.partial_fit(rng.normal(size=(200, 3)), rng.integers(2, size=200))  # now x says nothing
    assert model.exponents_.sum() < before


# What speaks


def test_contexts_hold_x_and_explain_the_trees():
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = small().fit(X, y)
    every = model.contexts(X.iloc[:4], top=10**6)
    for i, found in enumerate(every):
        assert sum(component.weight for component in found) == pytest.approx(1.0)
        assert [v.weight for v in found] == sorted((v.weight for v in found), reverse=True)
        for component in found:
            for name, (low, high) in component.box.items():
                assert low < X.iloc[i][name] <= high
            inside = np.ones(len(X), bool)
            for name, (low, high) in component.box.items():
                inside &= (X[name] > low) & (X[name] <= high)
            assert {c: n for c, n in component.counts.items() if n} == y[inside].value_counts().to_dict()
            assert sum(component.probabilities.values()) == pytest.approx(1.0)
    assert {v.local for v in every[0]} > {"counts", "own covariance, temperature 1"}
    assert len(model.contexts(X.iloc[:1])[0]) == 5
    # The components of one tree, mixed by their weights, are what the tree says.
    forest, z = model._forest, model._forest.inputs.forward(X.to_numpy()[:1])
    growth, trees = forest.kinds[1]
    mine = [v for v in every[0] if v.tree == 12 + 2]
    weights = np.array([v.weight for v in mine]) / sum(v.weight for v in mine)
    mixed = weights @ [list(v.probabilities.values()) for v in mine]
    np.testing.assert_allclose(mixed, predicted(trees[2], z, growth)[0], rtol=1e-9)


def test_pickle_predicts_the_same_and_asking_changes_nothing():
    X, y = load_wine(return_X_y=True)
    model = small().fit(X, y)
    before = pickle.dumps(model)
    p = model.predict_proba(X)
    model.contexts(X[:1])
    assert pickle.dumps(model) == before
    again = pickle.loads(before)
    np.testing.assert_array_equal(again.predict_proba(X), p)
    again.partial_fit(X[:5], y[:5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_estimators": -1}, "n_estimators must be"),
        ({"n_estimators": 0, "n_discriminant_trees": 0}, "there must be a tree"),
        ({"held_out": 1}, "held_out must be"),
        ({"stop": 1.0}, "stop must be > 0 and < 1, got 1.0"),
        ({"alpha": 0.0}, "alpha must be from 1e-100 to 1e[+]?100, got 0.0"),
        ({"n_jobs": 0}, "n_jobs must be None"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        small(**options).fit([[0.0], [1.0]], [0, 1])


def test_the_exponent_has_a_largest_value():
    nearly_equal = np.tile([0.0, -1e-7], (10, 1))[:, :, None]
    assert fit_exponents(nearly_equal, np.zeros(10, np.int64), np.full(10, 1e16)).tolist() == [MAX_EXPONENT]


def test_single_rows_as_arrays_take_a_short_way_to_the_same_place():
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    y = (X[:, 0] > 0.5).astype(int)
    short, long = (ContextClassifier(2, 1, random_state=0).fit(X[:45], y[:45]) for _ in range(2))
    for i in range(45, 80):
        short.partial_fit(X[i : i + 1], y[i : i + 1])
        long.partial_fit(X[i : i + 1].tolist(), y[i : i + 1].tolist())
    assert short.n_rows_ == 80
    assert len(short._rows) <= 7
    np.testing.assert_array_equal(np.concatenate([part.X for part in short._rows]), X)
    np.testing.assert_array_equal(short.predict_proba(X), long.predict_proba(X.tolist()))
    for bad, said in ((np.array([[np.inf, 0.0]]), "infinity"), (np.zeros((1, 3)), "3 features"), (X[:0], "0 sample")):
        with pytest.raises(ValueError, match=said):
            short.predict_proba(bad)
        with pytest.raises(ValueError, match=said):
            short.partial_fit(bad, np.ones(len(bad), int))
    with pytest.raises(ValueError, match="inconsistent"):
        short.partial_fit(X[:2], np.ones(3, int))
    assert short.n_rows_ == 80


def test_trees_grow_again_in_turn_however_rows_come():
    X, y = make_classification(800, 6, n_informative=4, n_classes=3, random_state=0)
    fitted = small().fit(X[:200], y[:200])
    many, few = (pickle.loads(pickle.dumps(fitted)) for _ in range(2))
    many.partial_fit(X[200:399], y[200:399])
    for start, end in ((200, 201), (201, 300), (300, 399)):
        few.partial_fit(X[start:end], y[start:end])
    np.testing.assert_array_equal(many.predict_proba(X), few.predict_proba(X))
    for (_, before), (_, after) in zip(fitted._forest.kinds, many._forest.kinds):
        for old, new in zip(before, after):
            assert new.alone  # every tree had its turn
            assert not old.tree.same(new.tree)
            assert new.flat.counts[0].sum() == 399
    again = pickle.loads(pickle.dumps(many))
    for model in (many, again):
        model.partial_fit(X[399:], y[399:])  # doubled: all trees at once
    np.testing.assert_array_equal(many.predict_proba(X), again.predict_proba(X))
    np.testing.assert_array_equal(many.predict_proba(X), small().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("other", [{"n_estimators": 9}, {"n_discriminant_trees": 0}, {"alpha": 5.0}])
def test_other_parameters_wait_until_all_trees_grow_again(other):
    X, y = make_classification(400, 4, random_state=0)
    few = {"n_estimators": 4, "n_discriminant_trees": 2}
    plain, changed = (small(**few).fit(X[:100], y[:100]) for _ in range(2))
    changed.set_params(**other)
    for model in (plain, changed):
        model.partial_fit(X[100:190], y[100:190])
    np.testing.assert_array_equal(plain.predict_proba(X), changed.predict_proba(X))
    changed.partial_fit(X[190:], y[190:])
    np.testing.assert_array_equal(changed.predict_proba(X), small(**few | other).fit(X, y).predict_proba(X))


def test_a_stream_keeps_half_of_what_a_fit_to_all_rows_gains():
    X, y = load_digits(return_X_y=True)
    few = {"n_estimators": 8, "n_discriminant_trees": 3}
    losses = np.zeros(3)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:600], order[1200:]
        half, stream, whole = (small(**few).fit(X[train[:n]], y[train[:n]]) for n in (300, 300, 600))
        stream.partial_fit(X[train[300:599]], y[train[300:599]])  # just before all trees grow again
        losses += [log_loss(y[test], model.predict_proba(X[test])) for model in (half, stream, whole)]
    assert losses[1] < 0.5 * (losses[0] + losses[2])
