"""The Normal-Wishart local model: y ~ N(m, S) with a matrix-normal inverse-Wishart prior, kept as a Cholesky factor.

With n rows seen, kappa = lam + n, nu = nu0 + n, and L L' = Psi, the predictive of y is Student's t with nu - q + 1
degrees of freedom. With delta = y - mean and r = L^-1 delta sqrt(kappa / (kappa + 1)),

    log p(y) = log_c[n] - 1/2 log|Psi| - (nu + 1)/2 log(1 + r'r),
    log_c[n] = lgamma((nu + 1)/2) - lgamma((nu - q + 1)/2) - q/2 log(pi (kappa + 1) / kappa),
    log|Psi'| = log|Psi| + log(1 + r'r),       Psi' = Psi + kappa / (kappa + 1) delta delta'.

One logarithm serves both, and the gammas are read from a table over n. Psi itself is never formed: a factor holds
values up to 10^300 whose squares a double cannot.

In row m of the contexts' floats f: log|Psi| at LOG_DET, mean at MEAN, the lower triangle of L by rows after it.
"""

from math import hypot, log, pi, sqrt

import numpy as np
from scipy.special import gammaln

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel

LOG_DET, MEAN = 4, 6


def log_normalisers(n: int, q: int, lam: float, nu0: float) -> Floats:
    """log_c[0 .. n-1] of the module's docstring."""
    seen = np.arange(n, dtype=np.float64)
    kappa, nu = lam + seen, nu0 + seen
    gammas = gammaln((nu + 1) / 2) - gammaln((nu - q + 1) / 2)
    return np.asarray(gammas - q / 2 * np.log(pi * (kappa + 1) / kappa))


@kernel
def _hypot(a: float, b: float) -> float:
    """sqrt(a^2 + b^2): at once where the squares are safe, by the library far out."""
    square = a * a + b * b
    return sqrt(square) if 1e-250 < square < 1e250 else hypot(a, b)


@kernel
def predict_normal(
    f: Floats, m: int, n: int, Z: Floats, t: int, r: Floats, log_c: Floats, lam: float, nu0: float
) -> tuple[float, float]:
    """(log p(z), log(1 + r'r)) of context m before it learns z = Z[t]; r (q,) is scratch."""
    q = Z.shape[1]
    square = 0.0
    base = MEAN + q
    for i in range(q):
        total = Z[t, i] - f[m, MEAN + i]
        for j in range(i):
            total -= f[m, base + j] * r[j]
        r[i] = total / f[m, base + i]
        square += r[i] * r[i]
        base += i + 1
    shrink = (lam + n) / (lam + n + 1.0)
    if square < 1e300:
        growth = log(1.0 + square * shrink)
    else:  # the squares overflow, their logarithm does not
        length = 0.0
        for i in range(q):
            length = hypot(length, r[i])
        growth = 2.0 * log(length) + log(shrink)
    return log_c[n] - 0.5 * f[m, LOG_DET] - 0.5 * (nu0 + n + 1.0) * growth, growth


@kernel
def learn_normal(f: Floats, m: int, n: int, Z: Floats, t: int, r: Floats, growth: float, lam: float) -> None:
    """Learn z, given `growth` of `predict_normal`: mean' = mean + delta / (kappa + 1), L' by a rank-one update."""
    q = Z.shape[1]
    step = 1.0 / (lam + n + 1.0)
    root = sqrt((lam + n) * step)
    f[m, LOG_DET] += growth
    for i in range(q):
        delta = Z[t, i] - f[m, MEAN + i]
        r[i] = delta * root
        f[m, MEAN + i] += delta * step
    base = MEAN + q
    for k in range(q):  # columns in turn; the factor is kept by rows, so [i, k] is at base + i (i + 1) / 2 + k
        diagonal = base + (k * (k + 3)) // 2
        old = f[m, diagonal]
        new = _hypot(old, r[k])
        f[m, diagonal] = new
        if k == q - 1:
            break
        cosine, sine = old / new, r[k] / new  # of a rotation: neither can overflow
        for i in range(k + 1, q):
            at_ik = base + (i * (i + 1)) // 2 + k
            entry = f[m, at_ik]
            f[m, at_ik] = cosine * entry + sine * r[i]
            r[i] = cosine * r[i] - sine * entry
