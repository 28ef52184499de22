"""Pool the predictions of many trees and keep them sharp: powers of their linear and log-linear pools.

    log p(c|x) = sum_m T_m log pool_m(c|x) - log sum_c' exp(...),    T_m >= 0

The mean over trees is safe but blunt: trees that err apart are each less sure than all of them may be. How much sharper
the pool may be is a matter of the data, so the powers T are fitted to predictions of rows that no tree had seen: a
convex problem in as many unknowns as there are pools, with a normal prior, solved by Newton's method.
"""

import numpy as np
from numpy.typing import NDArray

from coverwalk.files.schema import Array, List, Schema, Tuple, Whole

__all__ = ["HeldOut", "Pools", "fit_exponents", "log_softmax", "pool_rows"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

POOL_ROWS, POOL_FLOATS = 20_000, 2**23  # rows that fit the powers of the pools: four numbers need no more
POOL_NEW = 0.1  # the powers are fitted again when so many more rows have come


def log_softmax(scores: Floats) -> Floats:
    """Scores (n, C) as log probabilities."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


class Pools:
    """The linear and the log-linear pool of each kind of tree, tree by tree."""

    def __init__(self, n: int, n_classes: int, n_kinds: int) -> None:
        self._sum, self._log_sum = np.zeros((n_kinds, n, n_classes)), np.zeros((n_kinds, n, n_classes))
        self._trees = np.zeros((n_kinds, n))

    def add(self, kind: int, rows: Integers | slice, psi: Floats) -> None:
        """Take in what one tree says of some rows (each named once)."""
        self._sum[kind, rows] += psi
        self._log_sum[kind, rows] += np.log(psi)
        self._trees[kind, rows] += 1.0

    @property
    def known(self) -> NDArray[np.bool_]:
        """The rows of which a tree of every kind has spoken."""
        return np.asarray((self._trees > 0).all(axis=0))

    def log(self) -> Floats:
        """Log pools of the known rows (n, C, 2 * kinds)."""
        known = self.known
        trees = self._trees[:, known, None]
        pools = np.stack([np.log(self._sum[:, known] / trees), self._log_sum[:, known] / trees], axis=1)
        return np.ascontiguousarray(np.moveaxis(pools.reshape(2 * len(pools), *pools.shape[2:]), 0, 2))


class HeldOut:
    """What the pools said of rows they had not seen, and the exponents that these rows want."""

    _schema = Schema(
        prior=Array(float, "n_pools", low=0, high=1e6),
        exponents=Array(float, "n_pools", low=0, high=1e6),
        _parts=List(
            Tuple(
                Array(float, "n", "C", "n_pools", high=1e-6),
                Array(np.int64, "n", index="C"),
                Array(float, "n", low=0),
            )
        ),
        _fitted=Whole(0),
    )

    def __init__(self, n_kinds: int) -> None:
        self.prior = np.tile([1.0 / n_kinds, 0.0], n_kinds)  # the linear pool
        self.exponents = self.prior
        self._parts: list[tuple[Floats, Integers, Floats]] = []  # log pools (n, C, M), classes, weights
        self._fitted = 0

    def add(self, log_pools: Floats, y: Integers, weight: Floats) -> None:
        """Take in some rows; the powers follow when enough have come."""
        if len(y):
            self._parts.append((log_pools, y, weight))
        n = sum(len(y) for _, y, _ in self._parts)
        if n >= (1.0 + POOL_NEW) * self._fitted and n:
            last = slice(-pool_rows(log_pools.shape[1]), None)
            parts = [np.concatenate(part)[last] for part in zip(*self._parts)]
            self._parts, self._fitted = [(parts[0], parts[1], parts[2])], len(parts[1])
            self.exponents = fit_exponents(parts[0], parts[1], parts[2], self.prior)


def pool_rows(n_classes: int) -> int:
    """The most rows that fit powers."""
    return min(POOL_ROWS, max(POOL_FLOATS // (4 * n_classes), 1))


def fit_exponents(log_pools: Floats, y: Integers, weight: Floats, prior: Floats, strength: float = 1.0) -> Floats:
    """The powers T (M,) >= 0 of the most posterior probability, given log pools (n, C, M) and classes y (n,).

    The prior is normal around ``prior`` (M,) with precision ``strength``. A pool may be ignored but not turned round:
    of a few rows, each left out in turn, the others always predict for the other classes.

    >>> rng = np.random.default_rng(0)
    >>> blunt = np.log(rng.dirichlet(np.ones(3), size=5000))[:, :, None]
    >>> sharp = np.exp(log_softmax(2 * blunt[:, :, 0]))  # the truth is the square of the pool
    >>> y = (sharp.cumsum(1) < rng.random((5000, 1))).sum(1)
    >>> fit_exponents(blunt, y, np.ones(5000), np.ones(1)).round(1)
    array([2.])
    """
    T, chosen = prior.copy(), log_pools[np.arange(len(y)), y]

    def loss(T: Floats) -> float:
        fit = log_softmax(log_pools @ T)[np.arange(len(y)), y]
        return float(0.5 * strength * ((T - prior) ** 2).sum() - weight @ fit)

    here = loss(T)
    for _ in range(100):
        gradient, curvature = _derivatives(log_pools, chosen, weight, T)
        gradient += strength * (T - prior)
        free = (T > 0.0) | (gradient < 0.0)  # the others stay at their bound
        step = np.zeros_like(T)
        both = (curvature + strength * np.eye(len(T)))[np.ix_(free, free)]
        step[free] = np.linalg.lstsq(both, gradient[free])[0]  # heavy rows leave nothing of the prior's part
        there, T_there, length = np.inf, T, 1.0
        while there > here and length > 1e-9:
            T_there = np.maximum(T - length * step, 0.0)
            there = loss(T_there)
            length /= 2.0
        moved = np.abs(T_there - T).max()
        if there > here or moved < 1e-10:
            break
        T, here = T_there, there
    return T


def _derivatives(log_pools: Floats, chosen: Floats, weight: Floats, T: Floats) -> tuple[Floats, Floats]:
    """Gradient (M,) and curvature (M, M) of the log loss."""
    p = np.exp(log_softmax(log_pools @ T))
    mean = np.einsum("nc,ncm->nm", p, log_pools)
    weighted = (p * weight[:, None])[:, :, None] * log_pools
    curvature = np.tensordot(weighted, log_pools, axes=((0, 1), (0, 1))) - (mean * weight[:, None]).T @ mean
    return weight @ (mean - chosen), curvature
