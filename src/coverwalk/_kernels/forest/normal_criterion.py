"""Splits of y itself, judged by the evidence of a Normal-Wishart on either side; the contexts are fitted on the way.

A child's prior is centred on its parent's mean, its covariance on part of the parent's. A context's normal predicts for
all of R^q, though it was learned from its own rows: what it says beyond its cell is not counted by its evidence, which
is a lower bound then; the mixture of all has no edges where the cells have theirs, and integrates to one.
"""

import math
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints, UInts
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.linalg.cholesky import factorise, log_determinant
from coverwalk._kernels.linalg.splitmix import uniform

HOPELESS = 5.0  # nats that a split may lose, in a context and then in its child, before growth ends there


class NormalPrior(NamedTuple):
    """What a tree of normals believes before it sees a row, and how it is grown."""

    min_rows: int  # on either side of a split
    n_candidates: int  # splits drawn in a context
    n_judged: int  # rows that judge them
    stop: float  # w
    a: float  # prior rows of either side
    ridge: float  # prior rows of a mean
    nu0: float  # prior rows of a covariance
    shrink: float  # of a child's prior covariance, in units of its parent's
    faint: float  # a context less probable than this leaves its say to its parent


class NormalContexts(NamedTuple):
    """The rows of a growth that looks at y (n, q) alone, what it finds of N contexts, and work space."""

    Y: Floats  # (n, q)
    grain: Floats  # (q,) variance of the rounding of a row
    prior: NormalPrior
    centre: Floats  # (N, q) posterior mean
    scatter: Floats  # (N, q, q) of a child's prior
    Psi: Floats  # (N, q, q)
    log_phi: Floats  # (N,)
    hopeless: Bools  # (N,) whether the best split lost too much
    mean: Floats  # (q,) of the context at hand
    work: tuple[Floats, Floats]  # (q, q)
    direction: Floats  # (q,)


def normals_of(Y: Floats, grain: Floats, prior: NormalPrior, n_nodes: int) -> NormalContexts:
    """For rows Y (n, q) of about unit scale, and at most n_nodes contexts."""
    q = Y.shape[1]
    square, work = (n_nodes, q, q), (np.zeros((q, q)), np.zeros((q, q)))
    known = np.zeros((n_nodes, q)), np.zeros(square), np.zeros(square), np.zeros(n_nodes), np.zeros(n_nodes, bool)
    return NormalContexts(Y, grain, prior, *known, np.zeros(q), work, np.zeros(q))


@kernel
def _log_evidence(
    n: float, mean: Floats, scatter: Floats, centre: Floats, prior: Floats, own: NormalPrior, Psi: Floats, U: Floats
) -> float:
    """Log evidence of n rows with this mean and scatter, up to what splits share; fills Psi (q, q), and U its factor.

    The term of the prior's determinant, nu0/2 log|Psi_0|, is left to the caller.
    """
    q = len(mean)
    ridge, nu0 = own.ridge, own.nu0
    weight = ridge * n / (ridge + n)
    for i in range(q):
        for j in range(i, q):
            Psi[i, j] = prior[i, j] + scatter[i, j] + weight * (mean[i] - centre[i]) * (mean[j] - centre[j])
            U[i, j] = Psi[i, j]
    factorise(U, q)
    log_Z = 0.5 * q * (math.log(ridge) - math.log(ridge + n)) - 0.5 * n * q * math.log(math.pi)
    for i in range(q):
        log_Z += math.lgamma(0.5 * (nu0 + n - i)) - math.lgamma(0.5 * (nu0 - i))
    return log_Z - 0.5 * (nu0 + n) * log_determinant(U, q)


@kernel
def _moments(Y: Floats, rows: Ints, s: int, e: int, grain: Floats, mean: Floats, scatter: Floats) -> None:
    """Mean and scatter (upper triangle) of rows[s:e]; a row is spread by the variance grain (q,) of its rounding."""
    q, n = Y.shape[1], e - s
    for i in range(q):
        total = 0.0
        for r in range(s, e):
            total += Y[rows[r], i]
        mean[i] = total / n
    for i in range(q):
        for j in range(i, q):
            total = n * grain[i] if i == j else 0.0
            for r in range(s, e):
                total += (Y[rows[r], i] - mean[i]) * (Y[rows[r], j] - mean[j])
            scatter[i, j] = total


@kernel
def _log_prior(prior: Floats, U: Floats) -> float:
    """Log determinant of a prior scatter; U is work space."""
    q = len(prior)
    for i in range(q):
        for j in range(i, q):
            U[i, j] = prior[i, j]
    factorise(U, q)
    return log_determinant(U, q)


@kernel
def fit_normal(perm: Ints, s: int, e: int, k: int, parent: int, normals: NormalContexts) -> None:
    """The normal of context k, whose rows are perm[s:e], with a prior from its parent (-1: none)."""
    own, q, n = normals.prior, normals.Y.shape[1], e - s
    centre, prior, U = normals.centre[k], normals.scatter[k], normals.work[0]
    for i in range(q):
        centre[i] = 0.0 if parent < 0 else normals.centre[parent, i]
        for j in range(i, q):
            prior[i, j] = (own.nu0 if i == j else 0.0) if parent < 0 else normals.scatter[parent, i, j]
    scatter = normals.work[1]
    _moments(normals.Y, perm, s, e, normals.grain, normals.mean, scatter)
    normals.log_phi[k] = 0.5 * own.nu0 * _log_prior(prior, U)
    normals.log_phi[k] += _log_evidence(n, normals.mean, scatter, centre, prior, own, normals.Psi[k], U)
    for i in range(q):  # from here on the posterior's
        centre[i] = (own.ridge * centre[i] + n * normals.mean[i]) / (own.ridge + n)
        for j in range(i, q):
            prior[i, j] = own.shrink * own.nu0 / (own.nu0 + n) * normals.Psi[k, i, j]


@kernel
def _draw_direction(direction: Floats, Psi: Floats, state: UInts) -> None:
    """An axis half of the time, else a random direction in units of the context's own spread."""
    q = len(direction)
    along = int(uniform(state) * q) if uniform(state) < 0.5 else -1
    for i in range(q):
        if along >= 0:
            direction[i] = 1.0 if i == along else 0.0
        else:
            direction[i] = (uniform(state) + uniform(state) + uniform(state) - 1.5) / math.sqrt(Psi[i, i])


@kernel
def _along(direction: Floats, y: Floats) -> float:
    total = 0.0
    for i in range(len(direction)):
        total += direction[i] * y[i]
    return total


@kernel
def _best_direction(
    rows: Ints, run: tuple[int, int, float], n: int, k: int, normals: NormalContexts, state: UInts
) -> tuple[float, float]:
    """The best split of context k, of n rows: its place along ``normals.direction``, NaN where there is none; and the
    evidence of its two sides on the scale of `_log_evidence`.
    """
    s, m, need = run
    Y, grain, growth, best = normals.Y, normals.grain, normals.prior, normals.direction
    mean, Psi, centre, prior = normals.mean, normals.Psi[k], normals.centre[k], normals.scatter[k]
    q = Y.shape[1]
    direction, along = np.empty(q), np.empty(m)
    count, means, scatters = np.zeros(2), np.zeros((2, q)), np.zeros((2, q, q))
    work, U = np.zeros((q, q)), np.zeros((q, q))
    most, place, up = -math.inf, math.nan, n / m
    for _ in range(growth.n_candidates):
        _draw_direction(direction, Psi, state)
        for r in range(m):
            along[r] = _along(direction, Y[rows[s + r]])
        split = 0.5 * along[int(uniform(state) * m)] + 0.5 * along[int(uniform(state) * m)]
        for side in range(2):
            count[side] = 0.0
            for i in range(q):
                means[side, i] = 0.0
                for j in range(i, q):
                    scatters[side, i, j] = 0.0
        for r in range(m):
            side = 0 if along[r] <= split else 1
            count[side] += 1.0
            for i in range(q):
                e_i = Y[rows[s + r], i] - mean[i]
                means[side, i] += e_i
                for j in range(i, q):
                    scatters[side, i, j] += e_i * (Y[rows[s + r], j] - mean[j])
        if min(count[0], count[1]) < need:
            continue
        total = 0.0
        for side in range(2):
            c = count[side]
            for i in range(q):
                means[side, i] /= c
            for i in range(q):
                for j in range(i, q):
                    own = scatters[side, i, j] - c * means[side, i] * means[side, j]
                    scatters[side, i, j] = up * max(own, 0.0) + up * c * grain[i] if i == j else up * own
            for i in range(q):
                means[side, i] += mean[i]
            total += _log_evidence(up * c, means[side], scatters[side], centre, prior, growth, work, U)
            total += math.lgamma(up * c + growth.a)
        if total > most:
            most, place = total, split
            for i in range(q):
                best[i] = direction[i]
    shares = math.lgamma(2.0 * growth.a) - 2.0 * math.lgamma(growth.a) - math.lgamma(n + 2.0 * growth.a)
    return place, most + shares + growth.nu0 * _log_prior(prior, U)


@kernel
def normal_split(
    along: Floats, perm: Ints, span: tuple[int, int], run: tuple[int, int, float], k: int, parent: int,
    normals: NormalContexts, state: UInts
) -> tuple[int, float]:  # fmt: skip
    """The split, of a few random ones across any direction, whose two sides have most evidence: 0 and its place, or -1.

    Writes how far the context's rows lie along its direction to along (n, 1): the feature that is split. See
    `line_criterion.line_split` for the rest.
    """
    s, e = span
    place, log_split = _best_direction(perm, run, e - s, k, normals, state)
    normals.hopeless[k] = log_split < normals.log_phi[k] - HOPELESS
    if math.isnan(place) or (normals.hopeless[k] and parent >= 0 and normals.hopeless[parent]):
        return -1, place
    for r in range(s, e):
        along[perm[r], 0] = _along(normals.direction, normals.Y[perm[r]])
    return 0, place
