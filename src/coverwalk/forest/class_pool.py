"""Pool the predictions of many trees and keep them sharp: one mixture, its weights those of the one pool, to a power.

    log p(c|x) = T log sum_e v_e psi_e(c|x) - log sum_c' exp(...),    T >= 0

psi_e is the mean over the trees of a kind, v is learned by `forest.pool`. Such a mean is safe but blunt: trees that err
apart are each less sure than all of them may be. How much sharper it may be is a matter of the data, so the exponent T
is fitted, as v is, to predictions of rows that no tree had seen: a convex problem with a normal prior about 1.
"""

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk.files.schema import Array, List, Real, Schema, Tuple, Whole
from coverwalk.forest.pool import pool_weights

POOL_ROWS, POOL_FLOATS = 20_000, 2**23  # rows that fit the pool: a few numbers need no more
POOL_NEW = 0.1  # it is fitted again when so many more rows have come
MAX_STEPS, TOLERANCE = 100, 1e-10  # of Newton's method
MAX_EXPONENT = 1e6  # from there on probabilities are 0 and 1


def log_softmax(scores: Floats) -> Floats:
    """Scores (n, C) as log probabilities."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


class Pools:
    """The mean prediction of each kind of tree, tree by tree."""

    def __init__(self, n: int, n_classes: int, n_kinds: int) -> None:
        self._sum, self._trees = np.zeros((n_kinds, n, n_classes)), np.zeros((n_kinds, n))

    def add(self, kind: int, rows: Ints | slice, psi: Floats) -> None:
        """Take in what one tree says of some rows (each named once)."""
        self._sum[kind, rows] += psi
        self._trees[kind, rows] += 1.0

    @property
    def known(self) -> Bools:
        """The rows of which a tree of every kind has spoken."""
        return np.asarray((self._trees > 0).all(axis=0))

    def means(self) -> Floats:
        """Of the known rows (n, C, kinds)."""
        known = self.known
        return np.ascontiguousarray(np.moveaxis(self._sum[:, known] / self._trees[:, known, None], 0, 2))


class HeldOut:
    """What the pools said of rows they had not seen, and the weights and the exponent that these rows want."""

    _schema = Schema(
        weights=Array(float, "n_kinds", low=0, total=1),
        exponent=Real(low=0, high=MAX_EXPONENT),
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
        self.weights, self.exponent = np.full(n_kinds, 1.0 / n_kinds), 1.0
        self._parts: list[tuple[Floats, Ints, Floats]] = []  # means (n, C, kinds), classes, weights
        self._fitted = 0

    def add(self, means: Floats, y: Ints, weight: Floats) -> None:
        """Take in some rows; the pool follows when enough have come."""
        if len(y):
            self._parts.append((means, y, weight))
        n = sum(len(y) for _, y, _ in self._parts)
        if n >= (1.0 + POOL_NEW) * self._fitted and n:
            last = slice(-pool_rows(means.shape[1]), None)
            means, y, weight = (np.concatenate(part)[last] for part in zip(*self._parts))
            self._parts, self._fitted = [(means, y, weight)], len(y)
            self.weights = pool_weights(np.log(means[np.arange(len(y)), y]), counted=weight)
            self.exponent = fit_exponent(np.log(means @ self.weights), y, weight)

    def log_proba(self, means: Floats) -> Floats:
        """Log probabilities (n, C) of the classes, given the means of each kind (n, C, kinds)."""
        return log_softmax(self.exponent * np.log(means @ self.weights))


def pool_rows(n_classes: int) -> int:
    """The most rows that fit the pool."""
    return min(POOL_ROWS, max(POOL_FLOATS // (4 * n_classes), 1))


def fit_exponent(log_p: Floats, y: Ints, weight: Floats) -> float:
    """The exponent T >= 0 of the most posterior probability, given log probabilities (n, C) and classes y (n,).

    The prior is normal about 1, with variance 1. A pool may be ignored but not turned round: of a few rows, each left
    out in turn, the others always predict for the other classes.

    >>> rng = np.random.default_rng(0)
    >>> blunt = np.log(rng.dirichlet(np.ones(3), size=5000))
    >>> sharp = np.exp(log_softmax(2 * blunt))  # the truth is the square of what was said
    >>> y = (sharp.cumsum(1) < rng.random((5000, 1))).sum(1)
    >>> round(fit_exponent(blunt, y, np.ones(5000)), 1)
    2.0
    """
    chosen, low, high, T = log_p[np.arange(len(y)), y], 0.0, np.inf, 1.0
    for _ in range(MAX_STEPS):
        p = np.exp(log_softmax(T * log_p))
        mean = (p * log_p).sum(axis=1)
        slope = weight @ (mean - chosen) + T - 1.0
        curvature = weight @ ((p * log_p**2).sum(axis=1) - mean**2) + 1.0
        low, high = (low, T) if slope > 0.0 else (T, high)  # the loss is convex: the best is on this side
        step = T - slope / curvature
        if not low < step < high:  # Newton would leave the bracket: halve it
            step = 0.5 * (low + high) if high < np.inf else 2.0 * low
        step = min(step, MAX_EXPONENT)
        if abs(step - T) <= TOLERANCE * (1.0 + T):
            return float(step)
        T = step
    return float(T)
