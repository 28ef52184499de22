"""Pool the predictions of many trees and keep them sharp: the mixture of the one pool, and its experts, to powers.

    log p(c|x) = T_0 log sum_e v_e psi_e(c|x) + sum_e T_e log psi_e(c|x) - log sum_c' exp(...),    T >= 0

psi_e is the mean over the trees of a kind, v is learned by `forest.pool`. Such a mean is safe but blunt: trees that err
apart are each less sure than all of them may be. And two kinds that err apart know more together than their mixture
does: a class that either rules out is ruled out by their product. How much so is a matter of the data, so the exponents
T are fitted, as v is, to predictions of rows that no tree had seen: a convex problem with a normal prior about the
mixture as it is.
"""

import math

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk.files.schema import Array, List, Schema, Tuple, Whole
from coverwalk.forest.pool import pool_weights

POOL_ROWS, POOL_FLOATS = 20_000, 2**23  # rows that fit the pool: a few numbers need no more
POOL_NEW = 0.1  # it is fitted again when so many more rows have come
MAX_STEPS, MIN_STEP, TOLERANCE = 100, 1e-9, 1e-10  # of Newton's method
SMALL = 1e-5  # what so small a step gains is lost in rounding
MAX_EXPONENT = 1e6  # from there on probabilities are 0 and 1


def log_softmax(scores: Floats) -> Floats:
    """Scores (n, C) as log probabilities."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def held_out_means(total: Floats, n_trees: Floats) -> tuple[Bools, list[Floats]]:
    """The rows (n,) that a tree of every kind has predicted, and means of these predictions (m, C, kinds).

    From sums (2, kinds, n, C) over two halves of the trees, and how many trees are in each (2, kinds, n): the means of
    all trees, and of each half; where one half has predicted nothing, of all in its place.
    """
    both, known = np.asarray((n_trees > 0).all(axis=0)), np.asarray((n_trees.sum(axis=0) > 0).all(axis=0))
    every = total.sum(axis=0), n_trees.sum(axis=0)
    halves = [(np.where(both[:, :, None], of, every[0]), np.where(both, n, every[1])) for of, n in zip(total, n_trees)]
    means = [np.moveaxis(of[:, known] / n[:, known, None], 0, 2) for of, n in (every, *halves)]
    return known, [np.ascontiguousarray(mean) for mean in means]


class HeldOut:
    """Predictions of held-out rows by each kind of tree, and the weights and the exponents fitted to them."""

    _schema = Schema(
        weights=Array(float, "n_kinds", low=0, total=1),
        exponents=Array(float, "1 + n_kinds", low=0, high=MAX_EXPONENT),
        _parts=List(
            Tuple(
                Array(float, "n", "C", "n_kinds", low=0, high=1 + 1e-6),
                Array(np.int64, "n", index="C"),
                Array(float, "n", low=0),
            )
        ),
        _fitted=Whole(0),
    )

    def __init__(self, n_kinds: int) -> None:
        self.weights, self.exponents = np.full(n_kinds, 1.0 / n_kinds), _mixture_alone(n_kinds)
        self._parts: list[tuple[Floats, Ints, Floats]] = []  # means (n, C, kinds), classes, weights
        self._fitted = 0

    def copy(self) -> "HeldOut":
        """One that learns on its own."""
        other = HeldOut(len(self.weights))
        other.__dict__.update(self.__dict__, _parts=list(self._parts))
        return other

    def add(self, means: Floats, y: Ints, weight: Floats) -> None:
        """Take in some rows. The pool follows when enough have come, at numbers of rows that do not depend on how many
        come at a time.
        """
        if not len(y):
            return
        self._parts.append((means, y, weight))
        n, most = sum(len(y) for _, y, _ in self._parts), pool_rows(means.shape[1])
        end, fitted = (self._fitted, self._fitted) if self._fitted else (n, min(n, most))  # all of the first rows
        while (later := end + max(math.ceil(POOL_NEW * fitted), 1)) <= n:
            end, fitted = later, min(later - end + fitted, most)
        if end > self._fitted:
            means, y, weight = (np.concatenate(part) for part in zip(*self._parts))
            since, rows = (means[end:], y[end:], weight[end:]), slice(end - fitted, end)
            means, y, weight = means[rows], y[rows], weight[rows]
            self._parts, self._fitted = [(means, y, weight), since], fitted
            self.weights = pool_weights(np.log(means[np.arange(len(y)), y]), counted=weight)
            self.exponents = fit_exponents(self._log_pools(means), y, weight)

    def log_proba(self, means: Floats) -> Floats:
        """Log probabilities (n, C) of the classes, given the means of each kind (n, C, kinds)."""
        return log_softmax(self._log_pools(means) @ self.exponents)

    def shares(self) -> Floats:
        """Of each kind (n_kinds,) in the exponents, where that of the mixture is divided as its weights are."""
        total = self.exponents.sum()
        if not total > 0.0:
            return self.weights
        return np.asarray((self.exponents[0] * self.weights + self.exponents[1:]) / total)

    def _log_pools(self, means: Floats) -> Floats:
        """Of the mixture and of each kind (n, C, 1 + kinds)."""
        return np.asarray(np.log(np.concatenate([(means @ self.weights)[:, :, None], means], axis=2)))


def pool_rows(n_classes: int) -> int:
    """The most rows that fit the pool."""
    return min(POOL_ROWS, max(POOL_FLOATS // (4 * n_classes), 1))


def fit_exponents(log_pools: Floats, y: Ints, weight: Floats) -> Floats:
    """The exponents T (M,) >= 0 of the most posterior probability, given log pools (n, C, M) and classes y (n,).

    The prior is normal with variance 1, about 1 for the first pool and 0 for the others. A pool may be ignored but not
    turned round: of a few rows, each left out in turn, the others always predict for the other classes.

    >>> rng = np.random.default_rng(0)
    >>> blunt = np.log(rng.dirichlet(np.ones(3), size=(5000, 2))).swapaxes(1, 2)
    >>> sharp = np.exp(log_softmax(blunt @ [2.0, 1.0]))  # the truth is this product of the predictions
    >>> y = (sharp.cumsum(1) < rng.random((5000, 1))).sum(1)
    >>> fit_exponents(blunt, y, np.ones(5000)).round(1)
    array([2., 1.])
    """
    M, rows = log_pools.shape[2], np.arange(len(y))
    prior, chosen = _mixture_alone(M - 1), log_pools[rows, y]

    def loss(T: Floats) -> float:
        return float(0.5 * ((T - prior) ** 2).sum() - weight @ log_softmax(log_pools @ T)[rows, y])

    T, here = prior, loss(prior)
    for _ in range(MAX_STEPS):
        p = np.exp(log_softmax(log_pools @ T))
        mean = np.einsum("nc,ncm->nm", p, log_pools)
        slope = weight @ (mean - chosen) + T - prior
        about = log_pools - mean[:, None, :]
        curvature = np.tensordot((p * weight[:, None])[:, :, None] * about, about, axes=((0, 1), (0, 1)))
        curvature += (1.0 + TOLERANCE * np.trace(curvature)) * np.eye(M)  # the prior's one is lost beside heavy rows
        free = (T > 0.0) | (slope < 0.0)  # the others stay at their bound
        step = np.zeros(M)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        there, moved, length, small = np.inf, T, 1.0, np.abs(step).max() <= SMALL * (1.0 + T.max())
        while not there < here and length > (0.5 if small else MIN_STEP):
            moved = np.clip(T - length * step, 0.0, MAX_EXPONENT)
            there, length = loss(moved), length / 2.0
        change = np.abs(moved - T).max() / (1.0 + T.max())
        if not (small or there < here):
            break
        T, here = moved, there
        if change <= TOLERANCE:
            break
    return T


def _mixture_alone(n_kinds: int) -> Floats:
    """Exponents (1 + n_kinds,) of the mixture as it is."""
    exponents = np.zeros(1 + n_kinds)
    exponents[0] = 1.0
    return exponents
