"""The local models of every context of one tree: priors downwards, left-one-out evidence, evidence upwards.

A context refines the function of its parent, mu_M(x) = mu_parent(x) + f(x)'c: for each degree and each ridge a Bayesian regression of
the parent's residuals with prior c ~ N(0, sigma^2/ridge). With fewer rows than features it is solved in the rows' own space.
"""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.linear_algebra import back_solve, factorise, forward_solve, leverage
from coverwalk._kernels.polynomial import add_features, features, inner_product, n_features, value

__all__ = ["fit_contexts", "gram_of", "stop_weights"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRIOR_ROWS = 2.0  # nu_0: a context's variance starts at its parent's, with this weight
EXACT_LEVERAGE = 8  # rows a feature up to which each row's own leverage is computed; beyond it, their mean


@kernel
def gram_of(X: Floats, perm: Ints, s: int, e: int, degree: int, f: Floats, A: Floats) -> None:
    """Add F'F of rows perm[s:e] to the upper triangle of A."""
    d = n_features(degree, X.shape[1])
    for q in range(s, e):
        features(X[perm[q]], degree, f)
        for a in range(d):
            t = f[a]
            for j in range(a, d):
                A[a, j] += t * f[j]


@kernel
def _log_score(log_keep: float, log_shrink: float, n: int, nu: float, psi: float) -> float:
    """Sum of left-one-out log densities: each is Student's t with nu - 1 degrees.

    With g = e^2 / (1 - h), e the residual and h the leverage of a row, leaving the row out turns psi into psi - g and the residual into
    e / (1 - h); the density of row i is then a function of log(1 - h) and log(1 - g / psi) alone, summed in the arguments.
    """
    log_t = math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu - 1.0)) - 0.5 * math.log(math.pi * psi)
    return n * log_t + 0.5 * log_keep + 0.5 * (nu - 1.0) * log_shrink


@kernel
def _dual(X: Floats, perm: Ints, s: int, n: int, degree: int, ridge: float, r: Floats, out: tuple, work: tuple) -> float:  # type: ignore[type-arg]
    """Regression in the rows' own space, n <= features; fills alpha, residuals and leverages, returns r'(I - H)r."""
    alpha, error, keep = out
    A, K, z, f = work
    for a in range(n):
        for j in range(a, n):
            A[a, j] = K[a, j]
        A[a, a] += ridge
        alpha[a] = r[perm[s + a]]
    factorise(A, n)
    square = forward_solve(A, n, alpha, 0)
    back_solve(A, n, alpha)
    for a in range(n):
        for j in range(a, n):
            z[j] = 0.0
        z[a] = 1.0
        keep[a] = min(ridge * forward_solve(A, n, z, a), 1.0)
        error[a] = ridge * alpha[a]
    return ridge * square


@kernel
def _primal(X: Floats, perm: Ints, s: int, n: int, degree: int, ridge: float, r: Floats, out: tuple, work: tuple) -> float:  # type: ignore[type-arg]
    """Regression on the features from their Gram matrix; fills the coefficients, residuals and leverages."""
    c, error, keep = out
    A, G, z, f = work
    d = n_features(degree, X.shape[1])
    for a in range(d):
        for j in range(a, d):
            A[a, j] = G[a, j]
        A[a, a] += ridge
        c[a] = 0.0
    factorise(A, d)
    total = 0.0
    for q in range(n):
        i = perm[s + q]
        total += r[i] * r[i]
        add_features(X[i], degree, r[i], c)
    total -= forward_solve(A, d, c, 0)
    back_solve(A, d, c)
    exact = n <= EXACT_LEVERAGE * d
    mean = 1.0
    if not exact:
        trace = 0.0
        for a in range(d):
            for j in range(a, d):
                z[j] = 0.0
            z[a] = 1.0
            trace += forward_solve(A, d, z, a)
        mean = 1.0 - (d - ridge * trace) / n
    for q in range(n):
        i = perm[s + q]
        error[q] = r[i] - value(X[i], degree, c)
        if exact:
            features(X[i], degree, f)
            keep[q] = max(1.0 - leverage(A, d, f, z), 1e-9)
        else:
            keep[q] = mean
    return total


@kernel
def _sums(error: Floats, keep: Floats, n: int, psi: float) -> tuple[float, float]:
    """Sums of log(1 - h) and of log(1 - g / psi), by products of some rows at a time."""
    log_keep, log_shrink, a, b = 0.0, 0.0, 1.0, 1.0
    for q in range(n):
        a *= keep[q]
        b *= max(1.0 - error[q] * error[q] / (keep[q] * psi), 1e-9)
        if a < 1e-200 or b < 1e-200 or q == n - 1:
            log_keep += math.log(a)
            log_shrink += math.log(b)
            a, b = 1.0, 1.0
    return log_keep, log_shrink


@kernel
def fit_contexts(
    X: Floats, y: Floats, tree: tuple, ridges: Floats, degree: int, s2_root: float
) -> tuple[Floats, Floats, Floats, Floats, Ints, Floats, Floats]:  # type: ignore[type-arg]
    """Fit every local regression of every context, parents first.

    Model m = (degree g, ridge l) has index g * len(ridges) + l. Returns centre (N, d): the function mu of each context; log_score (N, m): left-one-out
    log density of its rows; psi (N, m); coefficients (flat) with their place (N, m): c, or alpha where a context has no more rows than features;
    loo (n, depth)...
    """
    perm, start, end, dim, left, parent, cut = tree
    N, p, L = len(start), X.shape[1], len(ridges)
    D = n_features(degree, p)
    M = (degree + 1) * L
    place = np.zeros((N, M), np.int64)
    room = 0
    widest = 0
    for k in range(N):
        n = end[k] - start[k]
        widest = max(widest, n)
        for g in range(degree + 1):
            for l in range(L):
                place[k, g * L + l] = room
                room += min(n, n_features(g, p))
    coefficients = np.zeros(room)
    has_gram = np.full(N, -1, np.int64)
    n_gram = 0
    for k in range(N):
        if end[k] - start[k] > D and degree >= 2:
            has_gram[k] = n_gram
            n_gram += 1
    gram = np.zeros((n_gram, D, D))
    f, z = np.empty(D), np.empty(D)
    for k in range(N - 1, -1, -1):
        if has_gram[k] >= 0:
            G = gram[has_gram[k]]
            if left[k] < 0:
                gram_of(X, perm, start[k], end[k], degree, f, G)
            else:
                for child in range(left[k], left[k] + 2):
                    if has_gram[child] >= 0:
                        other = gram[has_gram[child]]
                        for a in range(D):
                            for j in range(a, D):
                                G[a, j] += other[a, j]
                    else:
                        gram_of(X, perm, start[child], end[child], degree, f, G)
    centre = np.zeros((N, D))
    log_score = np.full((N, M), -math.inf)
    psi = np.ones((N, M))
    s2 = np.zeros(N)
    loo = np.zeros((N, 2))
    A, small = np.empty((D, D)), np.empty((D, D))
    error, keep = np.empty((M, widest)), np.empty((M, widest))
    total = np.empty(D)
    r = y.copy()
    weight = np.empty(M)
    for k in range(N):
        s, n = start[k], end[k] - start[k]
        above = s2_root if k == 0 else s2[parent[k]]
        nu = PRIOR_ROWS + n
        if k > 0:
            for a in range(D):
                centre[k, a] = centre[parent[k], a]
        if n == 0:
            for m in range(M):
                log_score[k, m] = 0.0
                psi[k, m] = PRIOR_ROWS * above
            s2[k] = above
            continue
        best = -math.inf
        for g in range(degree + 1):
            d = n_features(g, p)
            dual = n <= d and g > 0
            if dual:
                K = small
                for a in range(n):
                    for j in range(a, n):
                        K[a, j] = inner_product(X[perm[s + a]], X[perm[s + j]], g)
            elif has_gram[k] >= 0:
                K = gram[has_gram[k]]
            else:
                K = small
                for a in range(d):
                    for j in range(a, d):
                        K[a, j] = 0.0
                gram_of(X, perm, s, s + n, g, f, K)
            for l in range(L):
                m = g * L + l
                at = place[k, m]
                out = (coefficients[at : at + min(n, d)], error[m], keep[m])
                if dual:
                    rest = _dual(X, perm, s, n, g, ridges[l], r, out, (A, K, z, f))
                else:
                    rest = _primal(X, perm, s, n, g, ridges[l], r, out, (A, K, z, f))
                psi[k, m] = PRIOR_ROWS * above + max(rest, 0.0)
                log_keep, log_shrink = _sums(error[m], keep[m], n, psi[k, m])
                log_score[k, m] = _log_score(log_keep, log_shrink, n, nu, psi[k, m])
                best = max(best, log_score[k, m])
        mass = 0.0
        for m in range(M):
            weight[m] = math.exp(log_score[k, m] - best)
            mass += weight[m]
        for m in range(M):
            weight[m] /= mass
            s2[k] += weight[m] * psi[k, m] / nu
        for g in range(degree + 1):
            d = n_features(g, p)
            dual = n <= d and g > 0
            for l in range(L):
                m = g * L + l
                if weight[m] < 1e-9:
                    continue
                at = place[k, m]
                if dual:
                    for q in range(n):
                        add_features(X[perm[s + q]], g, weight[m] * coefficients[at + q], centre[k])
                else:
                    for a in range(d):
                        centre[k, a] += weight[m] * coefficients[at + a]
        for q in range(n):
            t = 0.0
            for m in range(M):
                t += weight[m] * error[m, q]
            r[perm[s + q]] = t
    return centre, log_score, psi, s2, place, coefficients, loo


@kernel
def stop_weights(left: Ints, log_local: Floats, log_w: float, log_1mw: float) -> tuple[Floats, Floats]:
    """Evidence upwards, Z_M = w phi_M + (1 - w) Z_left Z_right: the posterior log probabilities to stop and to go on."""
    N = len(left)
    log_stop, log_go, log_z = np.zeros(N), np.full(N, -math.inf), np.empty(N)
    for k in range(N - 1, -1, -1):
        if left[k] < 0:
            log_z[k] = log_local[k]
            continue
        stop, go = log_w + log_local[k], log_1mw + log_z[left[k]] + log_z[left[k] + 1]
        high = max(stop, go)
        log_z[k] = high + math.log(math.exp(stop - high) + math.exp(go - high))
        log_stop[k], log_go[k] = stop - log_z[k], go - log_z[k]
    return log_stop, log_go
