"""A small discriminant analysis in each large context: class-conditional Gaussians, their parameters integrated out.

Class c of a context has a mean mu_c that rests on kappa_c rows, and a scatter S with nu degrees of freedom, its own or
shared by all classes; its predictive is Student's t (docs/classes.md, eqs. 3 to 5).
"""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import inlined_kernel, kernel
from coverwalk._kernels.distributions.student import log1p
from coverwalk._kernels.linalg.cholesky import factorise, forward_solve, log_determinant

Rows = tuple[Floats, Ints, Floats]  # X (n, p), class of each row (n,), weight of each row (n,)

FARTHEST = 1e300  # squared distance
KAPPA = 1.0  # prior rows of a class mean, at the mean of the context
# weight (G, C), sums (G, C, p), squares (G, 1, p, p) shared or (G, C, p, p) own; upper triangles
Moments = tuple[Floats, Floats, Floats]
# U (G, m, p, p) with S = U'U, as `factorise` leaves it, m = 1 shared or C own; centre (G, C, p) = U'^-1 mu_c;
# head, gain, power (G, C)
Factors = tuple[Floats, ...]


@kernel
def add_moments(rows: Rows, leaf: Ints, parent: Ints, place: Ints, columns: Ints, total: Moments) -> None:
    """Add rows, each to the moments of the deepest context on the way to its leaf (n,) that has a place (N,) in them.

    A context without moments has the place -1; the root (parent -1) has some, or no context has.
    """
    X, y, weight = rows
    n, sums, squares = total
    C, p = sums.shape[1], len(columns)
    x = np.empty(p)
    for i in range(len(leaf)):
        k = leaf[i]
        while k >= 0 and place[k] < 0:
            k = parent[k]
        if k < 0:
            return
        g, c = place[k], y[i]
        m = c if squares.shape[1] == C else 0
        n[g, c] += weight[i]
        for a in range(p):
            x[a] = X[i, columns[a]] if X[i, columns[a]] == X[i, columns[a]] else 0.0  # missing: the mean
        for a in range(p):
            t = weight[i] * x[a]
            sums[g, c, a] += t
            for b in range(a, p):
                squares[g, m, a, b] += t * x[b]


@kernel
def _means(total: Moments, g: int, mean: Floats, mu: Floats) -> float:
    """The mean of context g (p,) and its class means (C, p), shrunk towards it; returns the weight of its rows."""
    n, sums, _ = total
    C, p = mu.shape
    weight = 0.0
    mean[:] = 0.0
    for c in range(C):
        weight += n[g, c]
        for a in range(p):
            mean[a] += sums[g, c, a]
    for a in range(p):
        mean[a] /= weight
        for c in range(C):
            mu[c, a] = (sums[g, c, a] + KAPPA * mean[a]) / (n[g, c] + KAPPA)
    return weight


@kernel
def discriminants(total: Moments, parent: Ints, sigma: Floats, nu0: float, ridge: float, factors: Factors) -> None:
    """Write the predictive of every class in every context with moments to factors, which are zero.

    Shared covariances: parent (G,) is the place of each context's parent (-1: none), towards whose covariance its
    own is shrunk with the weight of nu0 rows; the root's towards zero, plus a ridge. sigma (G, p, p) is written.
    Own covariances (squares of every class): sigma holds the shared ones of the same contexts, and is read.
    """
    n, sums, squares = total
    G, C, p = sums.shape
    M = squares.shape[1]
    own = M == C and C > 1
    U, centre, head, gain, power = factors
    mean, mu = np.empty(p), np.empty((C, p))
    for g in range(G):
        weight = _means(total, g, mean, mu)
        for m in range(M):
            S = U[g, m]
            first, last = (m, m + 1) if own else (0, C)
            prior = g if own else parent[g]
            for a in range(p):
                for b in range(a, p):
                    t = squares[g, m, a, b]
                    for c in range(first, last):
                        t += KAPPA * mean[a] * mean[b] - (n[g, c] + KAPPA) * mu[c, a] * mu[c, b]
                    S[a, b] = t + (nu0 * sigma[prior, a, b] if prior >= 0 else 0.0)
                S[a, a] += ridge
            seen = nu0 + (n[g, m] if own else weight)
            if not own:
                for a in range(p):
                    for b in range(a, p):
                        sigma[g, a, b] = S[a, b] / seen
            factorise(S, p)
            log_det = log_determinant(S, p)
            nu = seen + p
            for c in range(first, last):
                kappa = n[g, c] + KAPPA
                for a in range(p):
                    centre[g, c, a] = mu[c, a]
                forward_solve(S, p, centre[g, c], 0)
                gain[g, c] = kappa / (kappa + 1.0)
                power[g, c] = 0.5 * (nu + 1.0)
                head[g, c] = (
                    math.log((n[g, c] + 1.0 / C) / (weight + 1.0))
                    + 0.5 * p * math.log(gain[g, c])
                    + math.lgamma(0.5 * (nu + 1.0))
                    - math.lgamma(0.5 * (nu + 1.0 - p))
                    - 0.5 * log_det
                )


@inlined_kernel
def log_scores(factors: Factors, g: int, p: int, z: Floats) -> None:
    """Log of share times density of each class at z[0, :p], up to a constant, into z[2, :C]; z is work space.

    head_c - (nu_c + 1)/2 log(1 + kappa_c/(kappa_c + 1) |U'^-1 (x - mu_c)|^2)

    Without slices, each of which would be counted as referenced: that takes longer than what is computed here.
    """
    U, centre, head, gain, power = factors
    for c in range(head.shape[1]):
        if c < U.shape[1]:  # a shared factor whitens x once
            for a in range(p):
                z[1, a] = z[0, a]
            for k in range(p):
                t = z[1, k] * U[g, c, k, k]
                z[1, k] = t
                for j in range(k + 1, p):
                    z[1, j] -= t * U[g, c, k, j]
        square = 0.0
        for a in range(p):
            square += (z[1, a] - centre[g, c, a]) ** 2
        if not square < FARTHEST:  # overflow, or NaN after one
            square = FARTHEST
        z[2, c] = head[g, c] - power[g, c] * log1p(gain[g, c] * square)
