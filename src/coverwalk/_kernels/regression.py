"""One Bayesian polynomial regression in one context, and the left-one-out log density of its rows.

Residuals r of n rows, features f(x) of length d, prior c ~ N(0, sigma^2 / ridge), sigma^2 with nu_0 degrees about
psi_0 / nu_0. With more rows than features it is solved for the d coefficients, else for the n weights alpha of the
rows: c = F'alpha.
"""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.linear_algebra import back_solve, factorise, forward_solve
from coverwalk._kernels.polynomial import features, inner_product, n_features, value

__all__ = [
    "add_gram",
    "in_rows",
    "inverse_diagonal",
    "keep_each",
    "kernel_matrix",
    "left_one_out",
    "left_one_out_given",
    "log_gamma_ratio",
    "solve_coefficients",
    "solve_rows",
]

Floats = NDArray[np.float64]

LANES = 8  # rows whose leverages are computed together
LEAST_KEEP = 1e-9  # of 1 - leverage and of what is left of psi without a row: rounding may take them to zero


@kernel
def in_rows(n: int, degree: int, p: int) -> bool:
    """Whether a context of n rows solves for rows and not for coefficients."""
    few: bool = degree > 0 and n <= n_features(degree, p)
    return few


@kernel
def add_gram(X: Floats, degree: int, G: Floats) -> None:
    """Add F'F of the rows X to the upper triangle of G, four rows at a time: G is read a quarter as often."""
    n, d = len(X), n_features(degree, X.shape[1])
    F = np.zeros((4, d))
    for s in range(0, n, 4):
        for q in range(4):
            if s + q < n:
                features(X[s + q], degree, F[q])
            else:
                F[q, :] = 0.0
        for a in range(d):
            t0, t1, t2, t3 = F[0, a], F[1, a], F[2, a], F[3, a]
            row, f0, f1, f2, f3 = G[a, a:d], F[0, a:d], F[1, a:d], F[2, a:d], F[3, a:d]
            for j in range(len(row)):
                row[j] += t0 * f0[j] + t1 * f1[j] + t2 * f2[j] + t3 * f3[j]


@kernel
def kernel_matrix(X: Floats, degree: int, K: Floats) -> None:
    """Write FF' of the rows X into the upper triangle of K."""
    for a in range(len(X)):
        for j in range(a, len(X)):
            K[a, j] = inner_product(X[a], X[j], degree)


@kernel
def _ridged(K: Floats, d: int, ridge: float, A: Floats) -> None:
    """A = the factor of K + ridge I."""
    for a in range(d):
        for j in range(a, d):
            A[a, j] = K[a, j]
        A[a, a] += ridge
    factorise(A, d)


@kernel
def _lengths(U: Floats, d: int, start: int, lanes: Floats) -> None:
    """Squared lengths of U'^-1 z for the LANES columns z (d,) of lanes, zero before ``start``, into its row d.

    The factor is read once for all of them.
    """
    square = lanes[d]
    for q in range(LANES):
        square[q] = 0.0
    for k in range(start, d):
        scale, top = 1.0 / U[k, k], lanes[k]
        for q in range(LANES):
            top[q] *= scale
            square[q] += top[q] * top[q]
        for j in range(k + 1, d):
            u, row = U[k, j], lanes[j]
            for q in range(LANES):
                row[q] -= u * top[q]


@kernel
def inverse_diagonal(U: Floats, d: int, lanes: Floats, out: Floats) -> None:
    """The diagonal of (U'U)^-1."""
    for s in range(0, d, LANES):
        for j in range(s, d):
            for q in range(LANES):
                lanes[j, q] = 1.0 if j == s + q else 0.0
        _lengths(U, d, s, lanes)
        for q in range(min(LANES, d - s)):
            out[s + q] = lanes[d, q]


@kernel
def keep_each(X: Floats, degree: int, U: Floats, f: Floats, lanes: Floats, keep: Floats) -> None:
    """keep = 1 - f'(U'U)^-1 f of every row of X."""
    n, d = len(X), n_features(degree, X.shape[1])
    for s in range(0, n, LANES):
        for q in range(LANES):  # the last row stands in for those beyond it
            features(X[min(s + q, n - 1)], degree, f)
            for a in range(d):
                lanes[a, q] = f[a]
        _lengths(U, d, 0, lanes)
        for q in range(min(LANES, n - s)):
            keep[s + q] = max(1.0 - lanes[d, q], LEAST_KEEP)


@kernel
def solve_rows(
    K: Floats, r: Floats, ridge: float, alpha: Floats, error: Floats, keep: Floats, work: tuple[Floats, ...]
) -> float:
    """Solve for alpha; fill error = (I - H) r and keep = 1 - diag H; returns r'(I - H) r."""
    A, z, _, lanes = work
    n = len(r)
    _ridged(K, n, ridge, A)
    for a in range(n):
        alpha[a] = r[a]
    square: float = forward_solve(A, n, alpha, 0)
    back_solve(A, n, alpha)
    inverse_diagonal(A, n, lanes, z)
    for a in range(n):
        error[a] = ridge * alpha[a]
        keep[a] = min(ridge * z[a], 1.0)
    return ridge * square


@kernel
def solve_coefficients(
    G: Floats,
    b: Floats,
    X: Floats,
    r: Floats,
    degree: int,
    ridge: float,
    exact: bool,
    c: Floats,
    error: Floats,
    keep: Floats,
    work: tuple[Floats, ...],
) -> float:
    """Solve for c, b = F'r; fill error = (I - H) r and keep = 1 - diag H (or its mean); returns r'(I - H) r."""
    A, z, f, lanes = work
    n, d = len(r), n_features(degree, X.shape[1])
    _ridged(G, d, ridge, A)
    square = 0.0
    for q in range(n):
        square += r[q] * r[q]
    for a in range(d):
        c[a] = b[a]
    explained: float = forward_solve(A, d, c, 0)
    back_solve(A, d, c)
    mean = 1.0
    if not exact:
        inverse_diagonal(A, d, lanes, z)
        for a in range(d):
            mean -= (1.0 - ridge * z[a]) / n
    for q in range(n):
        error[q] = r[q] - value(X[q], degree, c)
        keep[q] = mean
    if exact:
        keep_each(X, degree, A, f, lanes, keep)
    return square - explained


@kernel
def left_one_out(error: Floats, keep: Floats, nu: float, psi: float) -> float:
    """Sum over rows of the log density of each given the others.

    With g = error^2 / keep, leaving a row out turns psi into psi - g and its residual into error / keep; its density
    is Student's t with nu - 1 degrees and comes down to keep and 1 - g / psi. Their logs are summed as logs of
    products of some rows.
    """
    score: float = left_one_out_given(error, keep, nu, psi, log_gamma_ratio(nu))
    return score


@kernel
def log_gamma_ratio(nu: float) -> float:
    """log Gamma(nu/2) / Gamma((nu - 1)/2): the same for all regressions of a context."""
    return math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu - 1.0))


@kernel
def left_one_out_given(error: Floats, keep: Floats, nu: float, psi: float, log_ratio: float) -> float:
    """As `left_one_out`, where `log_gamma_ratio` is known."""
    n = len(error)
    log_keep, log_left, a, b = 0.0, 0.0, 1.0, 1.0
    for q in range(n):
        a *= keep[q]
        b *= max(1.0 - error[q] * error[q] / (keep[q] * psi), LEAST_KEEP)
        if a < 1e-200 or b < 1e-200 or q == n - 1:
            log_keep += math.log(a)
            log_left += math.log(b)
            a, b = 1.0, 1.0
    log_t = log_ratio - 0.5 * math.log(math.pi * psi)
    return n * log_t + 0.5 * log_keep + 0.5 * (nu - 1.0) * log_left
