"""How much log loss the splits on each feature save, weighed by how often the walk goes past them."""

from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.contexts import N_SHAPES
from coverwalk._kernels.forest.evidence import local_evidence, stop_weights
from coverwalk.forest.class_forest import ClassForest
from coverwalk.forest.fitting import fitted_contexts
from coverwalk.forest.forest import Forest
from coverwalk.forest.threads import in_threads


def regression_gains(forest: Forest) -> Floats:
    """Nats saved by each input (p,), over the rows that the forest keeps: by the root's line and by splits.

    The root's line saves what it loses without the input. A split of M saves log phi of both children less log phi of
    M, leave-one-out evidences. Summed over the contexts that the walk goes past, this is what the walk saves over the
    root's local model; the mean of all trees.
    """
    X, y, _ = forest.learned_rows()
    rows, r = forest.frame.rows(X), forest.targets(X, y)
    left = forest.trend.fit(rows, r)[1] if forest.trend else r
    parts, n_categories = forest.settings.part_of_trees(), forest.settings.n_categories

    def one(k: int) -> Floats:
        tree, part = forest.trees[k], parts[k]
        _, layout, fit, _ = fitted_contexts(
            tree, rows.Z, left if part.smooth else r, forest.grid_of(part.degree), n_categories
        )
        N = len(fit.s2)
        log_phi, log_stop, log_go = (np.empty(N) for _ in range(3))
        local_evidence(fit.log_score, fit.psi.shape[1], np.empty((N, 1 + N_SHAPES)), log_phi)
        stop_weights(layout.left, log_phi, part.stop, log_stop, log_go)
        return _by_feature(tree.feature, layout.left, log_phi, log_go, X.shape[1])

    gains = in_threads(one, range(len(forest.trees)), forest.settings.n_threads)
    return np.asarray(np.mean(gains, axis=0)) + _line_gains(rows.plain, r)


def _line_gains(X: Floats, y: Floats) -> Floats:
    """Nats that a line with normal noise loses without each column of X (n, p), a missing value being the mean."""
    F = np.column_stack([np.ones(len(y)), np.where(np.isnan(X), np.nanmean(X, axis=0, keepdims=True), X)])
    inverse = np.linalg.pinv(F.T @ F, hermitian=True)
    slope = inverse @ (F.T @ y)
    rest = float(np.sum((y - F @ slope) ** 2)) + len(y) * np.finfo(float).tiny
    own = np.diag(inverse)
    lost = np.divide(slope**2, own, out=np.zeros(len(own)), where=own > 0)  # squared error more without the column
    return np.asarray(0.5 * len(y) * np.log1p(lost / rest))[1:]


def class_gains(forest: ClassForest, n_features: int) -> Floats:
    """Nats saved by the splits on each input (p,), over the rows that weighed the trees; the mean of all trees.

    The posterior odds of the walk tell the evidence: Z_M = w0 phi_M / w_M, where w0 is the prior of w_M.
    """
    total, n_trees = np.zeros(n_features), 0
    for growth, trees in forest.kinds:
        for tree in trees:
            left = tree.tree.left
            log_w, log_1mw = -np.logaddexp(0.0, [-tree.walk[1], tree.walk[1]])
            inner = left >= 0
            prior = np.log(growth.stop)
            refined = np.where(inner, prior - log_w, 0.0)  # log Z_M - log phi_M
            with np.errstate(invalid="ignore"):
                saved = np.where(inner, refined + log_1mw - np.log1p(-growth.stop), 0.0)  # log of both Z, - log phi_M
            children = np.flatnonzero(inner)
            saved[children] -= refined[left[children]] + refined[left[children] + 1]
            total += _summed(tree.tree.feature, left, saved, np.where(inner, log_1mw, -np.inf), n_features)
            n_trees += 1
    return total / n_trees


def _by_feature(axis: Ints, left: Ints, log_phi: Floats, log_go: Floats, p: int) -> Floats:
    inner = np.flatnonzero(left >= 0)
    saved = np.zeros(len(left))
    saved[inner] = log_phi[left[inner]] + log_phi[left[inner] + 1] - log_phi[inner]
    return _summed(axis, left, saved, log_go, p)


def _summed(axis: Ints, left: Ints, saved: Floats, log_go: Floats, p: int) -> Floats:
    """What is saved in each context, times the probability that the walk goes past it, summed by feature."""
    past = np.exp(log_go)
    for k in np.flatnonzero(left >= 0).tolist():  # parents come first
        past[left[k] : left[k] + 2] *= past[k]
    inner = left >= 0
    return np.bincount(axis[inner], weights=(past * saved)[inner], minlength=p)[:p].astype(np.float64)


def normalised(gains: Any) -> Floats:
    """Importances that sum to one; a feature whose splits cost more than they save has none."""
    positive = np.maximum(np.asarray(gains, dtype=np.float64), 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full(len(positive), 1.0 / len(positive))
