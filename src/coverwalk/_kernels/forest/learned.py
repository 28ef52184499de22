"""What the contexts of a fitted tree learn row by row, until the tree is grown again.

A growth leaves a context M with its function mu_M, its scale, its densities and its odds: they are the prior of what
comes. A row (x, y) then moves, in every context on its way,

- a plane about mu_M, by a rank-one step: k = P f, h = f'k, e = y - mu_M(x) - f'theta with f = (1, x),
  theta' = theta + k e / (1 + h), P' = P - k k' / (1 + h), from theta = 0 and P^-1 = RIDGE I + F'F of the growth's rows;
- its scale, in units of the growth's: nu' = nu + 1, psi' = psi + e^2 / (1 + h);
- its odds to stop and the weights of its components, by eq. 2: w' = w phi / psi.

Right after a growth all of it is at rest: theta = 0, psi = nu, and the odds are those of the fit.
"""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.shapes import FAR, Table, log_density
from coverwalk._kernels.forest.components import (
    DENSITY_OF_Y,
    MIN_WEIGHT,
    REGRESSION,
    RIDGE,
    Learned,
    Records,
    inflation_of,
)
from coverwalk._kernels.forest.polynomial import value
from coverwalk._kernels.forest.regression import add_gram
from coverwalk._kernels.linalg.cholesky import back_solve, factorise, forward_solve
from coverwalk._kernels.odds import log_add, log_mixture, log_step

__all__ = ["learn_rows", "pool_rows", "set_precision"]

_NO_WEIGHT = np.empty(0)
MIN_NU = 2.0  # rows that a scale is worth however much was forgotten
MIN_SCALE = 1e-4  # of a residual, in units of y's scale
FAR_OUT = 6.0  # scales: a row farther out moves a context as one there does, of which a normal has two in 10^9


@kernel
def set_precision(X: Floats, start: Ints, end: Ints, records: Records, inverse: Floats) -> None:
    """Fill inverse (C, m, m): P = (RIDGE I + F'F)^-1 of the rows start[k]:end[k] of X that context k was fitted to."""
    m = inverse.shape[1]
    A, z = np.empty((m, m)), np.empty(m)
    for k in range(len(start)):
        c = records.slot[k]
        if c < 0:
            continue
        for a in range(m):
            for b in range(m):
                A[a, b] = 0.0
        if m > 1:
            add_gram(X[start[k] : end[k]], _NO_WEIGHT, 1, A)
        else:
            A[0, 0] = end[k] - start[k]
        for a in range(m):
            A[a, a] += RIDGE
        factorise(A, m)
        for a in range(m):
            for b in range(m):
                z[b] = 0.0
            z[a] = 1.0
            forward_solve(A, m, z, a)
            back_solve(A, m, z)
            for b in range(a + 1):
                inverse[c, a, b] = inverse[c, b, a] = z[b]


@kernel
def _fade(learned: Learned, c: int, first: int, last: int, keep: float) -> None:
    """Let what context c has learned count ``keep`` times as much; its function and its scale stay.

    No direction becomes less certain than the prior: where no rows come, P would grow beyond all bounds.
    """
    m = learned.plane.shape[1]
    grow = 1.0 / keep
    for a in range(m):
        grow = min(grow, 1.0 / (RIDGE * learned.inverse[c, a, a]))
    grow = max(grow, 1.0)
    for a in range(m):
        for b in range(m):
            learned.inverse[c, a, b] *= grow
    nu = MIN_NU + keep * (learned.nu[c] - MIN_NU)
    learned.psi[c] *= nu / learned.nu[c]
    learned.nu[c] = nu
    learned.log_odds[c] *= keep
    for q in range(first, last):
        learned.log_choice[q] *= keep


@kernel
def _step(learned: Learned, c: int, f: Floats, k: Floats, e: float, s2: float) -> None:
    """The rank-one step of context c: f = (1, x), e = y less the prediction, s2 the variance at the growth."""
    m = len(f)
    h = 0.0
    for a in range(m):
        t = 0.0
        for b in range(m):
            t += learned.inverse[c, a, b] * f[b]
        k[a] = t
        h += f[a] * t
    share = 1.0 / (1.0 + max(h, 0.0))
    far = FAR_OUT * math.sqrt(s2 * learned.psi[c] / (learned.nu[c] * share))
    e = min(max(e, -far), far)
    for a in range(m):
        t = share * k[a]
        learned.plane[c, a] += t * e
        for b in range(m):
            learned.inverse[c, a, b] -= t * k[b]
    nu = learned.nu[c] + 1.0
    learned.nu[c] = nu
    # exact rows would let the scale fall below what y's digits tell
    learned.psi[c] = max(learned.psi[c] + share * e * e / s2, nu * MIN_SCALE**2 / s2)


@kernel
def learn_rows(
    X: Floats,
    leaf: Ints,
    y: Floats,
    degree: int,
    records: Records,
    learned: Learned,
    shape: Ints32,
    first_shape: int,
    table: Table,
    scale_factor: float,
    now: int,
    decay: float,
    out: Floats,
) -> None:
    """Predict rows X (n, p), y (n,), in units and about the trend, one after the other, and learn each.

    Fills out (n,): the log density that each had just before it was learned. now: number of the first of them.
    """
    n, p = X.shape
    m = learned.plane.shape[1]
    x, f, k_f, features = np.empty(p), np.empty(m), np.empty(m), np.empty(records.centre.shape[1])
    f[0] = 1.0
    log_phi = np.empty(np.max(records.first[1:] - records.first[:-1]))
    for i in range(n):
        k = leaf[i] if records.slot[leaf[i]] >= 0 else records.above[leaf[i]]
        below, log_psi = 0.0, 0.0
        while k >= 0:
            c, first, last = records.slot[k], records.first[k], records.first[k + 1]
            if decay > 0.0:
                _fade(learned, c, first, last, math.exp((now + i - learned.seen[c]) * math.log1p(-decay)))
                learned.seen[c] = now + i
            for a in range(p):
                x[a] = min(max(X[i, a], records.low[c, a]), records.high[c, a])
            mu = value(x, degree, records.centre[c]) + learned.plane[c, 0]
            for a in range(m - 1):
                f[1 + a] = x[a]
                mu += learned.plane[c, 1 + a] * x[a]
            ratio, reference = learned.psi[c] / learned.nu[c], records.s2[first]
            here, log_here, log_total = 0.0, -math.inf, -math.inf
            for q in range(first, last):
                square, loc = records.s2[q], mu
                if records.kind[q] >= DENSITY_OF_Y:
                    loc = records.mean[c]
                else:
                    square *= ratio
                if records.kind[q] == REGRESSION:
                    square *= inflation_of(x, c, records, features)
                scale = scale_factor * math.sqrt(square)
                e = (y[i] - loc) / scale
                log_abs = math.log(abs(y[i] - loc)) - math.log(scale) if abs(e) > FAR else 0.0
                w = max(records.weight[0, q], MIN_WEIGHT)
                here += w
                log_w = math.log(w) + learned.log_choice[q]
                log_phi[q - first] = log_density(table, first_shape + shape[q], e, log_abs) - math.log(scale)
                log_here = log_add(log_here, log_w)
                log_total = log_add(log_total, log_w + log_phi[q - first])
            log_phi_c = log_total - log_here
            if log_phi_c > -math.inf:
                for q in range(first, last):
                    learned.log_choice[q] += max(log_phi[q - first] - log_phi_c, -700.0)
            if below == 0.0:
                log_psi = log_phi_c
            else:
                log_odds = math.log(here / below) + learned.log_odds[c]
                learned.log_odds[c] += log_step(log_psi, log_phi_c)
                log_psi = log_mixture(log_odds, log_psi, log_phi_c)
            below += here
            _step(learned, c, f, k_f, y[i] - mu, reference)
            k = records.above[k]
        out[i] = log_psi


@kernel
def pool_rows(
    log_psi: Floats,
    group: Ints,
    size: Floats,
    counts: Floats,
    log_other: Floats,
    other: Floats,
    decay: float,
    out: Floats,
) -> None:
    """Predict n rows by the pool of K trees and learn its weights: log_psi (K, n), group (K,) of each tree.

    The walk draws an expert anew for every row. counts (K,): what each tree has answered for, its weight in the
    mixture; those of a group, of ``size`` trees, grow together by its posterior probability. log_other (n,): log
    density of the distribution of outliers, which has the weight other (n,). Fills out (n,): log densities.
    """
    K, n = log_psi.shape
    density = np.empty(len(size))
    for i in range(n):
        high = log_other[i]
        for t in range(K):
            high = max(high, log_psi[t, i])
        total, all_counts = 0.0, 0.0
        for g in range(len(size)):
            density[g] = 0.0
        for t in range(K):
            d = counts[t] * math.exp(log_psi[t, i] - high)
            density[group[t]] += d
            total += d
            all_counts += counts[t]
        mixed = (1.0 - other[i]) * total / all_counts + other[i] * math.exp(log_other[i] - high)
        out[i] = high + math.log(mixed)
        if total > 0.0:
            for t in range(K):
                g = group[t]
                counts[t] = (1.0 - decay) * counts[t] + density[g] / (total * size[g])
