"""The local regressions of every context of one tree from sums alone: rows are added to leaves, and may be forgotten.

A leaf holds the sum of g g' over its rows, where g = (f(x), y): n, F'F, F'y and y'y in one, with each product once. A
context's rows lie within its parent's, where no clamp acts, so the parent's function is a polynomial c_P there and
F'r = F'y - F'F c_P needs no row.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.contexts import Fit, Grid, Layout, _posterior, empty_fit
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk._kernels.forest.regression import (
    LANES,
    add_joint_gram,
    log_gamma_ratio,
    mean_keep,
    solve_coefficients,
    subtract_centre,
    unpack_moments,
)

ALIKE = 8.0  # rows a term from which on one ridge is as good as another
KURTOSIS = 3.0  # of the leave-one-out residuals in the second-order term of their evidence: that of the normal


class Regressions(NamedTuple):
    """The regressions of N contexts, as `fit_contexts` has them, and what their residuals need."""

    fit: Fit  # without densities, and without the coefficients of each regression
    spread: Floats  # (N,) standard deviation of y
    gain: Floats  # (N,) a row's leave-one-out residual is gain y - f(x)'loo
    loo: Floats  # (N, d)
    loo_scale: Floats  # (N,) its root mean square


class Packing(NamedTuple):
    """The m distinct products in the triangle of g g': x_a x_b times x_c is x_a times x_b x_c. n is first, y'y last."""

    row: Ints  # (m,) where one of each is
    column: Ints
    place: Ints  # which is that of each place of the packed upper triangle


@cache
def packing(degree: int, p: int) -> Packing:
    """Of polynomials of p inputs.

    >>> [len(packing(degree, 9).row) for degree in range(3)], len(packing(2, 9).place)
    ([3, 66, 771], 1596)
    """
    p, (a, b) = p if degree else 0, np.tril_indices(p if degree == 2 else 0)
    one = np.eye(p + 1, dtype=np.int8)[:, ::-1]  # of y first
    powers = np.vstack([0 * one[:1], one[:p], one[a] + one[b], one[p:]])  # of the inputs and y, in each of g
    row, column = np.triu_indices(len(powers))
    _, first, place = np.unique(powers[row] + powers[column], axis=0, return_index=True, return_inverse=True)
    return Packing(row[first], column[first], place.ravel())


@kernel
def add_leaves(
    X: Floats,
    y: Floats,
    layout: Layout,
    place: Ints,
    degree: int,
    packed: Packing,
    moments: Floats,
    low: Floats,
    high: Floats,
) -> None:
    """Add rows, sorted by leaf as ``layout`` says, to the moments and ranges of the leaves; place (N,) of each leaf."""
    D = n_features(degree, X.shape[1]) + 1
    G = np.empty((D, D))
    for k in range(len(layout.left)):
        s, e, l = layout.start[k], layout.end[k], place[k]
        if layout.left[k] >= 0 or s == e:
            continue
        G[:] = 0.0
        add_joint_gram(X[s:e], y[s:e], layout.weight[s:e], degree, G)
        for m in range(len(packed.row)):
            moments[l, m] += G[packed.row[m], packed.column[m]]
        for q in range(s, e):
            for a in range(X.shape[1]):
                low[l, a] = min(low[l, a], X[q, a])
                high[l, a] = max(high[l, a], X[q, a])


@kernel
def summed_evidence(n: float, square: float, keep: float, nu: float, psi: float) -> float:
    """`regression.leave_one_out` from e'e alone, the leverage of each row being the mean.

    With g_i = e_i^2 / keep, sum_i log(1 - g_i/psi) is -t - KURTOSIS t^2 / (2 n) - O(1/n^2), t = e'e / (keep psi): the
    second term is 3/4 of a nat in every context, however many rows it has.
    """
    t = square / (keep * psi)
    log_left = -t - KURTOSIS * t * t / (2.0 * n)
    log_t = log_gamma_ratio(nu) - 0.5 * math.log(math.pi * psi)
    return n * log_t + 0.5 * n * math.log(keep) + 0.5 * (nu - 1.0) * log_left


@kernel
def _regress(
    n: float, square: float, grid: Grid, psi_0: float, p: int, fit: Fit, k: int, work: tuple[Floats, ...]
) -> None:
    """The regressions of context k, of every degree that has rows enough; G, b and r'r = square.

    Fills c (M, d) and keep (M,) of the work space.
    """
    G, b, A, z, c, keep, lanes = work
    L = len(grid.ridges)
    nu = grid.nu_0 + n
    for g in range(grid.degree + 1):
        d = n_features(g, p)
        if g > 0 and n < grid.many * d:
            continue
        alike = g == 0 or n >= ALIKE * d
        for m in range(g * L + L // 2, g * L + L // 2 + 1) if alike else range(g * L, g * L + L):
            ridge = grid.ridges[m - g * L]
            rest = square - solve_coefficients(G, b, d, ridge, c[m], A)
            keep[m] = mean_keep(A, d, ridge, int(n), z, lanes)
            length = 0.0
            for a in range(d):
                length += c[m, a] * c[m, a]
            fit.psi[k, m] = max(psi_0 + max(rest, 0.0), nu * grid.min_scale**2)
            fit.log_score[k, m] = summed_evidence(n, max(rest - ridge * length, 0.0), keep[m], nu, fit.psi[k, m])


@kernel
def _average(
    n: float, square: float, d: int, weight: Floats, out: Regressions, k: int, work: tuple[Floats, ...]
) -> None:
    """Average the regressions of context k into its centre, which came from the parent, and into its residuals."""
    G, b, _, z, c, keep, _ = work
    centre, loo = out.fit.centre[k], out.loo[k]
    gain = 0.0
    for m in range(len(weight)):
        if weight[m] > 0.0:
            gain += weight[m] / keep[m]
    z[:] = 0.0  # what the leave-one-out residuals take off gain r
    for m in range(len(weight)):
        if weight[m] > 0.0:
            for a in range(d):
                z[a] += weight[m] / keep[m] * c[m, a]
    error = gain * gain * square
    for a in range(d):
        t = 0.5 * G[a, a] * z[a]
        for j in range(a + 1, d):
            t += G[a, j] * z[j]
        error += 2.0 * z[a] * (t - gain * b[a])
        loo[a] = gain * centre[a] + z[a]
    for m in range(len(weight)):
        if weight[m] > 0.0:
            for a in range(d):
                centre[a] += weight[m] * c[m, a]
    out.gain[k] = gain
    out.loo_scale[k] = math.sqrt(max(error, 0.0) / n)


def empty_regressions(N: int, grid: Grid, p: int) -> Regressions:
    """What `regress_moments` fills for N contexts."""
    none, d = np.zeros(N, np.int64), n_features(grid.degree, p)
    fit = empty_fit(Layout(none, none, none, none), grid, p)
    return Regressions(fit, np.zeros(N), np.zeros(N), np.zeros((N, d)), np.zeros(N))


@kernel
def regress_moments(total: Floats, place: Ints, parent: Ints, grid: Grid, p: int, out: Regressions) -> None:
    """Fit the regressions of every context to moments (N, m); parents first, each centred on its parent's function.

    place: of each in the triangle (`Packing`). Fills the `empty_regressions`.
    """
    fit, N, M, d = out.fit, len(parent), (grid.degree + 1) * len(grid.ridges), n_features(grid.degree, p)
    G, b, c, weight = np.zeros((d, d)), np.zeros(d), np.zeros((M, d)), np.empty(M)
    keep, triangle = np.ones(M), np.empty(len(place))
    work = (G, b, np.zeros((d, d)), np.zeros(d), c, keep, np.empty((d + 1, LANES)))
    for k in range(N):
        for a in range(len(place)):
            triangle[a] = total[k, place[a]]
        yy = unpack_moments(triangle, d, G, b)
        n = G[0, 0]
        if k > 0:
            fit.centre[k, :] = fit.centre[parent[k]]
        above = fit.s2[parent[k]] if k > 0 else grid.min_scale**2 + yy / max(n, 1.0)
        if n == 0.0:  # a context without rows says what its parent says
            fit.log_score[k, :] = 0.0
            fit.psi[k, :] = grid.nu_0 * above
            fit.s2[k] = above
            continue
        fit.mean[k] = b[0] / n
        out.spread[k] = math.sqrt(max(yy / n - fit.mean[k] ** 2, 0.0))
        c[:] = 0.0
        square = subtract_centre(G, d, fit.centre[k], b, yy)
        _regress(n, square, grid, grid.nu_0 * above, p, fit, k, work)
        _posterior(fit.log_score[k], weight)
        _average(n, square, d, weight, out, k, work)
        best = fit.best[k] = np.argmax(weight)
        fit.leverage[k] = 1.0 - keep[best]
        for m in range(M):
            if weight[m] > 0.0:
                fit.s2[k] += weight[m] * fit.psi[k, m] / (grid.nu_0 + n)
