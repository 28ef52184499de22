"""One Bayesian polynomial regression in one context, and the leave-one-out log density of its rows.

Residuals r of n rows, features f(x) of length d, prior c ~ N(0, sigma^2 / ridge), sigma^2 with nu_0 degrees about
psi_0 / nu_0. With more rows than features it is solved for the d coefficients, else for the n weights alpha of the
rows: c = F'alpha.
"""

import math

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk._kernels.linalg.cholesky import back_solve, factorise, forward_solve

LANES = 16  # rows that are worked on together, one a column
WIDE = 64  # the same where there are many rows
_NONE = np.empty(0)
MIN_KEEP = 1e-9  # of 1 - leverage and of what is left of psi without a row: rounding may take them to zero


@kernel
def in_rows(n: int, degree: int, p: int) -> bool:
    """Whether a context of n rows solves for rows and not for coefficients."""
    few: bool = degree > 0 and n <= n_features(degree, p)
    return few


@kernel
def _lane_features(X: Floats, s: int, degree: int, lanes: Floats) -> None:
    """Fill the columns of lanes (d, width) with the features of rows s, s + 1, ... of X; those beyond are the last."""
    n, p = X.shape
    width = lanes.shape[1]
    for q in range(width):
        lanes[0, q] = 1.0
    if degree >= 1:
        for q in range(width):
            i = min(s + q, n - 1)
            for a in range(p):
                lanes[1 + a, q] = X[i, a]
    if degree >= 2:
        at = 1 + p
        for a in range(p):
            for b in range(a + 1):
                for q in range(width):
                    lanes[at + b, q] = lanes[1 + a, q] * lanes[1 + b, q]
            at += a + 1


@fused_kernel
def _add_products(F: Floats, n: int, d: int, G: Floats) -> None:
    """Add FF' of the first n columns of F (d, .) to the upper triangle of G, two of its rows by four columns at a time:
    eight sums that stay in registers.
    """
    for a in range(0, d - 1, 2):
        for q in range(n):
            G[a, a] += F[a, q] * F[a, q]
        for j in range(a + 1, d - 3, 4):
            t0 = t1 = t2 = t3 = u0 = u1 = u2 = u3 = 0.0
            for q in range(n):
                x, y, f0, f1, f2, f3 = F[a, q], F[a + 1, q], F[j, q], F[j + 1, q], F[j + 2, q], F[j + 3, q]
                t0, t1, t2, t3 = t0 + x * f0, t1 + x * f1, t2 + x * f2, t3 + x * f3
                u0, u1, u2, u3 = u0 + y * f0, u1 + y * f1, u2 + y * f2, u3 + y * f3
            G[a, j] += t0
            G[a, j + 1] += t1
            G[a, j + 2] += t2
            G[a, j + 3] += t3
            G[a + 1, j] += u0
            G[a + 1, j + 1] += u1
            G[a + 1, j + 2] += u2
            G[a + 1, j + 3] += u3
        for j in range(d - (d - a - 1) % 4, d):
            t = u = 0.0
            for q in range(n):
                t, u = t + F[a, q] * F[j, q], u + F[a + 1, q] * F[j, q]
            G[a, j] += t
            G[a + 1, j] += u
    if d % 2 == 1:
        for q in range(n):
            G[d - 1, d - 1] += F[d - 1, q] * F[d - 1, q]


@kernel
def add_joint_gram(X: Floats, y: Floats, w: Floats, degree: int, G: Floats) -> None:
    """Add g'Wg of the rows g = (f(x), y) with weights w (n,) or none to the upper triangle of G; without y, F'WF."""
    n, d = len(X), n_features(degree, X.shape[1])
    size = d if len(y) == 0 else d + 1
    F = np.empty((size, 2 * LANES))
    for s in range(0, n, F.shape[1]):
        _lane_features(X, s, degree, F)
        m = min(F.shape[1], n - s)
        if size > d:
            for q in range(m):
                F[d, q] = y[s + q]
        if len(w) > 0:
            for q in range(m):
                root = math.sqrt(w[s + q])
                for a in range(size):
                    F[a, q] *= root
        _add_products(F, m, size, G)


@kernel
def add_gram(X: Floats, w: Floats, degree: int, G: Floats) -> None:
    """Add F'WF of the rows X with weights w (n,) to the upper triangle of G; without weights F'F."""
    add_joint_gram(X, _NONE, w, degree, G)


@kernel
def n_moments(degree: int, p: int) -> int:
    """Numbers in the packed triangle of a context."""
    D = n_features(degree, p) + 1
    return D * (D + 1) // 2


@kernel
def add_moments(X: Floats, y: Floats, w: Floats, degree: int, S: Floats) -> None:
    """Add F'WF, F'Wy and y'Wy of the rows X, y with weights w (n,) or none to S: the packed upper triangle of g'Wg."""
    D = n_features(degree, X.shape[1]) + 1
    G, at = np.zeros((D, D)), 0
    add_joint_gram(X, y, w, degree, G)
    for a in range(D):
        for j in range(a, D):
            S[at] += G[a, j]
            at += 1


@kernel
def unpack_moments(S: Floats, d: int, G: Floats, b: Floats) -> float:
    """The triangle of F'F into G, F'y into b; returns y'y."""
    at = 0
    for a in range(d):
        for j in range(a, d):
            G[a, j] = S[at]
            at += 1
        b[a] = S[at]
        at += 1
    return S[at]


@kernel
def subtract_centre(G: Floats, d: int, centre: Floats, b: Floats, yy: float) -> float:
    """F'y and y'y become F'r and r'r, r = y - F centre; returns the latter."""
    for a in range(d):
        yy -= 2.0 * centre[a] * b[a]
    for a in range(d):
        t = G[a, a] * centre[a]
        for j in range(a + 1, d):
            t += G[a, j] * centre[j]
            b[j] -= G[a, j] * centre[a]
        b[a] -= t
        yy += centre[a] * (2.0 * t - G[a, a] * centre[a])
    return max(yy, 0.0)


@kernel
def _product(t: float, s: float, degree: int) -> float:
    """f(x)'f(z) from the sum t of x_a z_a and the sum s of their squares: the sum over b <= a of x_a x_b z_a z_b is
    half of t^2 + s.
    """
    return 1.0 + t + (0.5 * (t * t + s) if degree == 2 else 0.0)


@fused_kernel
def kernel_matrix(X: Floats, degree: int, K: Floats) -> None:
    """Write FF' of the rows X into the upper triangle of K, four products at a time; degree 1 or 2."""
    n, p = X.shape
    for i in range(n):
        for j in range(i, n - 3, 4):
            t0 = t1 = t2 = t3 = s0 = s1 = s2 = s3 = 0.0
            if degree == 1:
                for a in range(p):
                    x = X[i, a]
                    t0, t1 = t0 + x * X[j, a], t1 + x * X[j + 1, a]
                    t2, t3 = t2 + x * X[j + 2, a], t3 + x * X[j + 3, a]
            else:
                for a in range(p):
                    x = X[i, a]
                    u0, u1, u2, u3 = x * X[j, a], x * X[j + 1, a], x * X[j + 2, a], x * X[j + 3, a]
                    t0, t1, t2, t3 = t0 + u0, t1 + u1, t2 + u2, t3 + u3
                    s0, s1, s2, s3 = s0 + u0 * u0, s1 + u1 * u1, s2 + u2 * u2, s3 + u3 * u3
            K[i, j], K[i, j + 1] = _product(t0, s0, degree), _product(t1, s1, degree)
            K[i, j + 2], K[i, j + 3] = _product(t2, s2, degree), _product(t3, s3, degree)
        for j in range(n - (n - i) % 4, n):
            t0 = s0 = 0.0
            for a in range(p):
                u0 = X[i, a] * X[j, a]
                t0, s0 = t0 + u0, s0 + u0 * u0
            K[i, j] = _product(t0, s0, degree)


@kernel
def _ridged(K: Floats, d: int, ridge: float, w: Floats, A: Floats) -> None:
    """A = the factor of K + ridge I, or of K + ridge W^-1."""
    for a in range(d):
        for j in range(a, d):
            A[a, j] = K[a, j]
        A[a, a] += ridge if len(w) == 0 else ridge / w[a]
    factorise(A, d)


@fused_kernel
def _lengths(U: Floats, d: int, start: int, lanes: Floats) -> None:
    """Squared lengths of U'^-1 z for the columns z (d,) of lanes, zero before ``start``, into its row d.

    The factor is read once for all of them, and four of its rows at a time.
    """
    width = lanes.shape[1]
    for q in range(width):
        lanes[d, q] = 0.0
    for s in range(start, d, 4):
        e = min(s + 4, d)
        for k in range(s, e):
            scale = U[k, k]
            for q in range(width):
                lanes[k, q] *= scale
                lanes[d, q] += lanes[k, q] * lanes[k, q]
            for j in range(k + 1, e):
                u = U[k, j]
                for q in range(width):
                    lanes[j, q] -= u * lanes[k, q]
        for j in range(e, d - 1, 2):  # there are such rows after whole fours only
            t0, t1, t2, t3 = U[s, j], U[s + 1, j], U[s + 2, j], U[s + 3, j]
            u0, u1, u2, u3 = U[s, j + 1], U[s + 1, j + 1], U[s + 2, j + 1], U[s + 3, j + 1]
            for q in range(width):
                x0, x1, x2, x3 = lanes[s, q], lanes[s + 1, q], lanes[s + 2, q], lanes[s + 3, q]
                lanes[j, q] -= t0 * x0 + t1 * x1 + t2 * x2 + t3 * x3
                lanes[j + 1, q] -= u0 * x0 + u1 * x1 + u2 * x2 + u3 * x3
        if e < d and (d - e) % 2 == 1:
            t0, t1, t2, t3 = U[s, d - 1], U[s + 1, d - 1], U[s + 2, d - 1], U[s + 3, d - 1]
            for q in range(width):
                x0, x1, x2, x3 = lanes[s, q], lanes[s + 1, q], lanes[s + 2, q], lanes[s + 3, q]
                lanes[d - 1, q] -= t0 * x0 + t1 * x1 + t2 * x2 + t3 * x3


@kernel
def inverse_diagonal(U: Floats, d: int, lanes: Floats, out: Floats) -> None:
    """The diagonal of (U'U)^-1."""
    for s in range(0, d, LANES):
        for k in range(s, d):
            for q in range(lanes.shape[1]):
                lanes[k, q] = 1.0 if k == s + q else 0.0
        _lengths(U, d, s, lanes)
        for q in range(min(LANES, d - s)):
            out[s + q] = lanes[d, q]


@kernel
def solve_rows(
    K: Floats,
    r: Floats,
    w: Floats,
    ridge: float,
    alpha: Floats,
    m: int,
    out: tuple[Floats, Floats],
    work: tuple[Floats, ...],
) -> float:
    """Solve for alpha; fill row m of out with error = (I - H) r and keep = 1 - diag H; returns r'W(I - H) r.
    Weights w (n,), or none.

    With weights W, c = F'alpha where (FF' + ridge W^-1) alpha = r: a row of weight w has a ridge of its own.
    """
    (error, keep), (A, z, lanes) = out, work
    n = len(r)
    _ridged(K, n, ridge, w, A)
    for a in range(n):
        alpha[a] = r[a]
    square: float = forward_solve(A, n, alpha, 0)
    back_solve(A, n, alpha)
    inverse_diagonal(A, n, lanes, z)
    for a in range(n):
        own = ridge if len(w) == 0 else ridge / w[a]
        error[m, a] = own * alpha[a]
        keep[m, a] = min(own * z[a], 1.0)
    return ridge * square


@kernel
def solve_coefficients(G: Floats, b: Floats, d: int, ridge: float, c: Floats, A: Floats) -> float:
    """Solve for c, b = F'r; leaves the factor in A and returns r'H r."""
    _ridged(G, d, ridge, _NONE, A)
    for a in range(d):
        c[a] = b[a]
    explained: float = forward_solve(A, d, c, 0)
    back_solve(A, d, c)
    return explained


@kernel
def mean_keep(A: Floats, d: int, ridge: float, n: int, z: Floats, lanes: Floats) -> float:
    """The mean of 1 - diag H over n rows, from the factor."""
    mean = 1.0
    inverse_diagonal(A, d, lanes, z)
    for a in range(d):
        mean -= (1.0 - ridge * z[a]) / n
    return mean


@fused_kernel
def leave_each_out(
    X: Floats,
    r: Floats,
    degree: int,
    models: tuple[int, int, int],
    coefficients: tuple[Floats, Floats],
    factors: Floats,
    out: tuple[Floats, Floats],
    work: tuple[Floats, Floats],
    w: Floats,
) -> None:
    """Fill error = (I - H) r and, where there are factors (models, d, d), keep = 1 - diag H of some models.

    models: the first, and one past the last, rows of out = error, keep, and how many there are of a degree: of one
    degree all or, without factors, one of each up to ``degree``. coefficients: all of them, and where those of a
    model start; w: weights (n,) of the rows, or none.
    """
    (first, last, alike), (flat, place), (error, keep), (F, lanes) = models, coefficients, out, work
    n, width = len(r), F.shape[1]
    for s in range(0, n, width):
        _lane_features(X, s, degree, F)
        e = min(s + width, n)
        for m in range(first, last, alike if len(factors) == 0 else 1):
            d = n_features(m // alike, X.shape[1])
            for q in range(width):
                lanes[d, q] = 0.0
            for a in range(d):
                t = flat[place[m] + a]
                for q in range(width):
                    lanes[d, q] += t * F[a, q]
            for i in range(s, e):
                error[m, i] = r[i] - lanes[d, i - s]
            if len(factors) == 0:
                continue
            for a in range(d):
                for q in range(width):
                    lanes[a, q] = F[a, q]
            _lengths(factors[m - first], d, 0, lanes)
            for i in range(s, e):
                own = 1.0 if len(w) == 0 else w[i]
                keep[m, i] = max(1.0 - own * lanes[d, i - s], MIN_KEEP)


@kernel
def leave_one_out(error: Floats, keep: Floats, m: int, n: int, nu: float, psi: float) -> float:
    """Sum over n rows of the log density of each given the others, under regression m of error and keep (M, rows).

    With g = error^2 / keep, leaving a row out turns psi into psi - g and its residual into error / keep; its density
    is Student's t with nu - 1 degrees and comes down to keep and 1 - g / psi. Their logs are summed as logs of
    products of some rows.
    """
    log_keep, log_left, a, b = 0.0, 0.0, 1.0, 1.0
    for q in range(n):
        a *= keep[m, q]
        b *= max(1.0 - error[m, q] * error[m, q] / (keep[m, q] * psi), MIN_KEEP)
        if a < 1e-200 or b < 1e-200 or q == n - 1:
            log_keep += math.log(a)
            log_left += math.log(b)
            a, b = 1.0, 1.0
    log_t = log_gamma_ratio(nu) - 0.5 * math.log(math.pi * psi)
    return n * log_t + 0.5 * log_keep + 0.5 * (nu - 1.0) * log_left


@kernel
def leave_one_out_weighted(error: Floats, keep: Floats, m: int, w: Floats, nu: float, psi: float) -> float:
    """`leave_one_out` of rows with weights w (n,): each is left out with all its weight, and counts for so much.

    Without a row nu is less by w and psi by w error^2 / keep; its leverage among the others is (1 - keep) / (w keep).
    """
    score = 0.0
    for q in range(len(w)):
        df = nu - w[q]
        rest = max(psi - w[q] * error[m, q] * error[m, q] / keep[m, q], MIN_KEEP * psi)
        spread = rest * (1.0 + (1.0 - keep[m, q]) / (w[q] * keep[m, q]))
        far = error[m, q] / keep[m, q]
        log_t = log_gamma_ratio(df + 1.0) - 0.5 * math.log(math.pi * spread)
        score += w[q] * (log_t - 0.5 * (df + 1.0) * math.log(1.0 + far * far / spread))
    return score


@kernel
def log_gamma_ratio(nu: float) -> float:
    """log Gamma(nu/2) / Gamma((nu - 1)/2): the same for all regressions of a context."""
    return math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu - 1.0))
