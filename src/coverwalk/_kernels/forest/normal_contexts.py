"""A tree of contexts of y, each with a Normal-Wishart: grown by splits of most evidence, weighed by the refining walk.

    Z = w Z_normal + (1 - w) B(n_left + a, n_right + a) / B(a, a) Z_left Z_right

A child's prior is centred on its parent's mean, its covariance on part of the parent's. A context's normal predicts for
all of R^q, though it was learned from its own rows: what it says beyond its cell is not counted by its evidence, which
is a lower bound then; the mixture of all has no edges where the cells have theirs, and integrates to one.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.student import log1p
from coverwalk._kernels.linalg.cholesky import factorise, log_determinant
from coverwalk._kernels.linalg.splitmix import mix, uniform

__all__ = ["Growth", "add_normals", "empty_components", "normal_contexts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Components = tuple[Floats, Floats, Floats, Floats]  # probability, degrees of freedom, mean, packed factor

HOPELESS = 5.0  # nats that a split may lose, in a context and then in its child, before growth ends there
LEAST = 1e-60  # densities below this are nothing beside the tails of the cells


class Growth(NamedTuple):
    """How a tree of normals is grown."""

    min_rows: int  # on either side of a split
    n_candidates: int  # splits drawn in a context
    n_judged: int  # rows that judge them
    stop: float  # w
    a: float  # prior rows of either side
    ridge: float  # prior rows of a mean
    nu0: float  # prior rows of a covariance
    shrink: float  # of a child's prior covariance, in units of its parent's
    faint: float  # a context less probable than this leaves its say to its parent


@kernel
def _log_evidence(
    n: float, mean: Floats, scatter: Floats, centre: Floats, prior: Floats, growth: Growth, Psi: Floats, U: Floats
) -> float:
    """Log evidence of n rows with this mean and scatter, up to what splits share; fills Psi (q, q), and U its factor.

    The term of the prior's determinant, nu0/2 log|Psi_0|, is left to the caller.
    """
    q = len(mean)
    ridge, nu0 = growth.ridge, growth.nu0
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
def _draw_direction(direction: Floats, Psi: Floats, state: NDArray[np.uint64]) -> None:
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
def _best_split(
    Y: Floats, rows: Ints, s: int, e: int, here: tuple[Floats, Floats, Floats, Floats], grain: Floats, growth: Growth,
    state: NDArray[np.uint64], best: Floats,
) -> tuple[float, float]:  # fmt: skip
    """The cut, of a few random ones, whose two sides have most evidence: its direction into best (q,); its place, and
    that evidence on the scale of `_log_evidence`.

    here: the context's mean, Psi, and the centre and prior of its children. NaN where there is no cut.
    """
    mean, Psi, centre, prior = here
    q, n = Y.shape[1], e - s
    m = min(n, growth.n_judged)
    s += int(uniform(state) * (n - m + 1))  # rows are in random order: a run of them is a sample
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
        if min(count[0], count[1]) * up < growth.min_rows:
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
def _log_prior(prior: Floats, U: Floats) -> float:
    """Log determinant of a prior scatter; U is work space."""
    q = len(prior)
    for i in range(q):
        for j in range(i, q):
            U[i, j] = prior[i, j]
    factorise(U, q)
    return log_determinant(U, q)


@kernel
def _divide(Y: Floats, rows: Ints, s: int, e: int, direction: Floats, split: float, spare: Ints) -> int:
    """Put the rows below the split first, each side in order; where the others begin."""
    middle, above = s, 0
    for r in range(s, e):
        i = rows[r]
        if _along(direction, Y[i]) <= split:
            rows[middle] = i
            middle += 1
        else:
            spare[above] = i
            above += 1
    for r in range(above):
        rows[middle + r] = spare[r]
    return middle


@kernel
def _walk(left: Ints, size: Ints, log_phi: Floats, growth: Growth) -> tuple[float, Floats]:
    """Log Z of the root, and the probability (N,) that the walk stops in each context; faint ones give theirs up."""
    N, a = len(left), growth.a
    log_Z, log_stop = log_phi.copy(), np.zeros(N)
    for k in range(N - 1, -1, -1):
        if left[k] >= 0:
            one, two = left[k], left[k] + 1
            shares = math.lgamma(size[one] + a) + math.lgamma(size[two] + a) - math.lgamma(size[k] + 2.0 * a)
            shares += math.lgamma(2.0 * a) - 2.0 * math.lgamma(a)
            stop, go = math.log(growth.stop) + log_phi[k], math.log1p(-growth.stop) + shares + log_Z[one] + log_Z[two]
            top = max(stop, go)
            log_Z[k] = top + math.log(math.exp(stop - top) + math.exp(go - top))
            log_stop[k] = stop - log_Z[k]
    mass, reach, parent = np.zeros(N), np.zeros(N), np.full(N, -1, np.int64)
    reach[0] = 1.0
    for k in range(N):
        mass[k] = reach[k] * math.exp(log_stop[k])
        if left[k] >= 0:
            for child in range(left[k], left[k] + 2):
                reach[child] = (reach[k] - mass[k]) * (size[child] + a) / (size[k] + 2.0 * a)
                parent[child] = k
    for k in range(N - 1, 0, -1):
        if mass[k] < growth.faint:
            mass[parent[k]] += mass[k]
            mass[k] = 0.0
    return log_Z[0], mass


def empty_components(n: int, q: int, growth: Growth) -> Components:
    """Capacity for any tree that `normal_contexts` can make of n rows with q columns."""
    capacity = 2 * (n // growth.min_rows) + 1
    return np.zeros(capacity), np.empty(capacity), np.empty((capacity, q)), np.empty((capacity, q * (q + 1) // 2))


@kernel
def normal_contexts(Y: Floats, seed: int, grain: Floats, growth: Growth, components: Components) -> float:
    """Grow and weigh a tree on rows Y (n, q), of about unit scale and in random order; returns the log evidence.

    Writes the V contexts of positive probability to the first of the `empty_components`: their probabilities (V,),
    0 behind them, degrees of freedom (V,), means (V, q) and packed factors (V, q(q+1)/2) of their scale matrices:
    multivariate Student t distributions.
    """
    n, q = Y.shape
    capacity = 2 * (n // growth.min_rows) + 1
    begin, end, size = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    left, log_phi, hopeless = np.full(capacity, -1, np.int64), np.zeros(capacity), np.zeros(capacity, np.bool_)
    centre, prior, Psi = np.zeros((capacity, q)), np.zeros((capacity, q, q)), np.zeros((capacity, q, q))
    rows, spare = np.arange(n), np.empty(n, np.int64)
    state = np.zeros(1, np.uint64)
    state[0] = mix(np.uint64(seed))
    mean, scatter, U, best = np.zeros(q), np.zeros((q, q)), np.zeros((q, q)), np.zeros(q)
    ridge, nu0 = growth.ridge, growth.nu0
    for i in range(q):
        prior[0, i, i] = nu0
    end[0], n_nodes, k = n, 1, 0
    while k < n_nodes:
        s, e = begin[k], end[k]
        size[k] = e - s
        _moments(Y, rows, s, e, grain, mean, scatter)
        log_phi[k] = 0.5 * nu0 * _log_prior(prior[k], U)
        log_phi[k] += _log_evidence(size[k], mean, scatter, centre[k], prior[k], growth, Psi[k], U)
        for i in range(q):  # from here on the posterior's
            centre[k, i] = (ridge * centre[k, i] + size[k] * mean[i]) / (ridge + size[k])
            for j in range(i, q):
                prior[k, i, j] = growth.shrink * nu0 / (nu0 + size[k]) * Psi[k, i, j]
        if size[k] >= 2 * growth.min_rows:
            here = (mean, Psi[k], centre[k], prior[k])
            split, log_cut = _best_split(Y, rows, s, e, here, grain, growth, state, best)
            lost = log_cut < log_phi[k] - HOPELESS
            middle = s if math.isnan(split) or (lost and hopeless[k]) else _divide(Y, rows, s, e, best, split, spare)
            if min(middle - s, e - middle) >= growth.min_rows:
                left[k] = n_nodes
                for side in range(2):
                    child = n_nodes + side
                    hopeless[child] = lost
                    begin[child], end[child] = (s, middle) if side == 0 else (middle, e)
                    for i in range(q):
                        centre[child, i] = centre[k, i]
                        for j in range(i, q):
                            prior[child, i, j] = prior[k, i, j]
                n_nodes += 2
        k += 1
    log_Z, mass = _walk(left[:n_nodes], size[:n_nodes], log_phi[:n_nodes], growth)
    said, df, loc, factor = components
    v = 0
    for k in range(n_nodes):
        if mass[k] > 0.0:
            said[v], df[v] = mass[k], nu0 + size[k] - q + 1.0
            spread = (1.0 + 1.0 / (ridge + size[k])) / df[v]
            at = 0
            for i in range(q):
                loc[v, i] = centre[k, i]
                for j in range(i, q):
                    U[i, j] = spread * Psi[k, i, j]
            factorise(U, q)
            for i in range(q):
                for j in range(i, q):
                    factor[v, at] = U[i, j]
                    at += 1
            v += 1
    return log_Z


@kernel
def add_normals(Z: Floats, log_norm: Floats, df: Floats, loc: Floats, factor: Floats, out: Floats) -> None:
    """Add to out (n,) the densities at Z (n, q) of multivariate Student t's, log_norm (V,) their logs at loc.

    Most distributions are far from a point: they are passed over as soon as that is known.
    """
    n, q = Z.shape
    V = len(factor)
    z, far, inverse = np.empty(q), np.empty(V), factor.copy()
    for v in range(V):
        far[v] = df[v] * math.expm1(2.0 * (log_norm[v] - math.log(LEAST)) / (df[v] + q))
        at = 0
        for i in range(q):
            inverse[v, at] = 1.0 / factor[v, at]
            at += q - i
    for r in range(n):
        total = 0.0
        for v in range(V):
            for i in range(q):
                z[i] = Z[r, i] - loc[v, i]
            square, at = 0.0, 0
            for i in range(q):
                t = z[i] * inverse[v, at]
                square += t * t
                if square > far[v]:
                    break
                for j in range(i + 1, q):
                    z[j] -= t * factor[v, at + j - i]
                at += q - i
            if square <= far[v]:
                total += math.exp(log_norm[v] - 0.5 * (df[v] + q) * log1p(square / df[v]))
        out[r] += total
