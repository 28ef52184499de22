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
from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.shapes import FAR, log_density
from coverwalk._kernels.forest.components import DENSITY_OF_Y, MAX_MODELS, RIDGE, Learned
from coverwalk._kernels.forest.flat import HEAD, mean_in, see
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk._kernels.forest.regression import add_gram
from coverwalk._kernels.linalg.cholesky import back_solve, factorise, forward_solve
from coverwalk._kernels.odds import log_add, log_mixture, log_step

_NO_WEIGHT = np.empty(0)
MIN_NU = 2.0  # rows that a scale is worth however much was forgotten
MIN_SCALE = 1e-4  # of a residual, in units of y's scale
FAR_OUT = 6.0  # scales: a row farther out moves a context as one there does, of which a normal has two in 10^9


@kernel
def set_precision(X: Floats, start: Ints, end: Ints, slot: Ints, inverse: Floats) -> None:
    """Fill inverse (C, m, m): P = (RIDGE I + F'F)^-1 of the rows start[k]:end[k] of X that context k was fitted to."""
    m = inverse.shape[1]
    A, z = np.empty((m, m)), np.empty(m)
    for k in range(len(start)):
        c = slot[k]
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
    """The rank-one step of context c: f = (1, x, ...), e = y less the prediction, s2 the variance at the growth."""
    m = len(k)
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
    rows: tuple[Any, ...],
    tree: tuple[Any, ...],
    learned: Learned,
    shapes: tuple[Any, ...],
    now: int,
    decay: float,
    out: Floats,
) -> None:
    """Predict rows one after the other, and learn each: what `flat.tree_components` writes.

    rows: Z and plain (F, n, p), leaf (n,), the frame, and y (n,), in units and about the trend. tree: as there. shapes:
    their table, where those of the tree begin, and the factor on all scales. now: number of the first row. Fills out
    (n,): the log density that each had just before it was learned.
    """
    Z, plain, leaf, frame, y = rows
    nodes, (root, _), store, degree, column, mean = tree
    table, first_shape, scale_factor = shapes
    n, p = plain.shape[1:]
    m, d = learned.plane.shape[1], n_features(degree, p)
    capacity = max(d, 1 + p)
    x, f, k_f = np.empty(p), np.ones(capacity), np.empty(m)
    log_phi = np.empty(MAX_MODELS)
    for i in range(n):
        see(Z, plain, frame, i, leaf[i] - root, column, mean, x)
        c, below, log_psi = nodes[leaf[i]].categories, 0.0, 0.0
        while c >= 0:
            n_models, slot, first = np.int64(store[c + 2]), np.int64(store[c + 3]), np.int64(store[c + 4])
            if decay > 0.0:
                keep = math.exp((now + i - learned.seen[slot]) * math.log1p(-decay))
                _fade(learned, slot, first, first + n_models, keep)
                learned.seen[slot] = now + i
            end = c + HEAD + 3 * n_models
            mu = mean_in(store, end, p, degree, x, f)
            for a in range(m):
                mu += learned.plane[slot, a] * f[a]
            base, ratio, reference = end + 2 * p + d, learned.psi[slot] / learned.nu[slot], store[c + HEAD + 1]
            here, log_here, log_total = 0.0, -math.inf, -math.inf
            for q in range(n_models):
                r = c + HEAD + 3 * q
                kind, shape = np.int64(store[r + 2]) % 4, first_shape + np.int64(store[r + 2]) // 4
                square, loc = store[r + 1], mu
                if kind >= DENSITY_OF_Y:
                    loc = store[base]
                else:
                    square *= ratio
                scale = scale_factor * math.sqrt(square)
                e = (y[i] - loc) / scale
                log_abs = math.log(abs(y[i] - loc)) - math.log(scale) if abs(e) > FAR else 0.0
                here += store[r]
                log_w = math.log(store[r]) + learned.log_choice[first + q]
                log_phi[q] = log_density(table, shape, e, log_abs) - math.log(scale)
                log_here = log_add(log_here, log_w)
                log_total = log_add(log_total, log_w + log_phi[q])
            log_phi_c = log_total - log_here
            if log_phi_c > -math.inf:
                for q in range(n_models):
                    learned.log_choice[first + q] += max(log_phi[q] - log_phi_c, -700.0)
            if below == 0.0:
                log_psi = log_phi_c
            else:
                log_odds = math.log(here / below) + learned.log_odds[slot]
                learned.log_odds[slot] += log_step(log_psi, log_phi_c)
                log_psi = log_mixture(log_odds, log_psi, log_phi_c)
            below += here
            _step(learned, slot, f, k_f, y[i] - mu, reference)
            c = np.int64(store[c])
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
