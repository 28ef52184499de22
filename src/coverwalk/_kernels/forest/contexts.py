"""The local models of every context of one tree: priors downwards, with the rows' leave-one-out evidence.

A context refines the function of its parent: mu(x) = mu_parent(x) + f(x)'c, for every degree and every ridge a
regression of the residuals its parent left. Rows come sorted by leaf, so that a context holds rows start[k]:end[k].
"""

import math
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import inlined_kernel, kernel
from coverwalk._kernels.forest.kernel_density import N_BINS, density_evidence, weighted_sums
from coverwalk._kernels.forest.polynomial import add_features, n_features
from coverwalk._kernels.forest.regression import (
    LANES,
    WIDE,
    add_joint_gram,
    add_moments,
    in_rows,
    kernel_matrix,
    leave_each_out,
    leave_one_out,
    leave_one_out_weighted,
    mean_keep,
    n_moments,
    solve_coefficients,
    solve_rows,
    subtract_centre,
    unpack_moments,
)

N_SHAPES = 2  # densities of a context: of its leave-one-out residuals, and of y about its mean
SHAPE_ROWS = 12  # a context with fewer rows has none

PROMISING = 4.0  # y is not asked for its density where regression narrows it more than this


class Layout(NamedTuple):
    """The N contexts of a tree, parents first, siblings side by side; left is -1 in a leaf."""

    start: Ints
    end: Ints
    left: Ints
    parent: Ints
    weight: Floats = np.empty(0)  # (n,) of the rows, in their order; empty where all have weight one


class Grid(NamedTuple):
    """The local regressions of a context, and what bounds them."""

    ridges: Floats  # (L,); model m = degree * L + index of the ridge
    degree: int  # the largest
    nu_0: float  # a context's variance starts at its parent's, with the weight of this many rows
    many: float  # rows a feature from which on one ridge is as good as another, and the mean leverage as each row's own
    min_scale: float  # no residual scale falls below: y has no more digits
    n_inputs: int  # those that are zero everywhere too


class Fit(NamedTuple):
    """The local models of N contexts; M regressions and N_SHAPES densities in each."""

    centre: Floats  # (N, d) coefficients of mu, the average over the regressions
    log_score: Floats  # (N, M + N_SHAPES) leave-one-out log densities
    psi: Floats  # (N, M)
    best: Ints  # (N,) the regression of most weight
    s2: Floats  # (N,) residual variance, averaged over the regressions
    place: Ints  # (N, M) where the coefficients of a regression start
    coefficients: Floats  # flat: d of c, or n of alpha
    scale: Floats  # (N, N_SHAPES)
    width: Ints  # (N, N_SHAPES) index of the bandwidth
    mean: Floats  # (N,) of y
    shaped: Ints  # (N,) row of counts, -1 for none
    counts: Ints32  # (., N_SHAPES, N_BINS)
    leverage: Floats  # (N,) the mean, under the best regression


@kernel
def _moments(X: Floats, y: Floats, layout: Layout, degree: int) -> tuple[Ints, Floats]:
    """The `add_moments` of each context with more rows than features, summed from the leaves upwards; which are whose.

    They are packed because there are thousands of them; of a context's own polynomials none has to be taken from rows.
    """
    N, d = len(layout.start), n_features(degree, X.shape[1])
    which = np.full(N, -1, np.int64)
    n_sums = 0
    for k in range(N):
        if layout.end[k] - layout.start[k] > d:
            which[k] = n_sums
            n_sums += 1
    sums = np.zeros((n_sums, n_moments(degree, X.shape[1])))
    for k in range(N - 1, -1, -1):
        above = which[layout.parent[k]] if k > 0 else -1
        into = above if which[k] < 0 else which[k]
        if into >= 0 and (which[k] < 0 or layout.left[k] < 0):
            s, e = layout.start[k], layout.end[k]
            add_moments(X[s:e], y[s:e], layout.weight[s:e], degree, sums[into])
        if above >= 0 and which[k] >= 0:
            for a in range(sums.shape[1]):
                sums[above, a] += sums[which[k], a]
    return which, sums


@inlined_kernel
def _regress(
    X: Floats,
    r: Floats,
    w: Floats,
    grid: Grid,
    psi_0: float,
    moments: Floats,
    fit: Fit,
    k: int,
    work: tuple[Floats, ...],
) -> None:
    """Every regression of context k, whose rows are X and r with weights w; fills error and keep (M, rows) of the work
    space. moments: of X and y, or none.
    """
    A, G, z, lanes, b, error, keep, narrow, wide, wide_lanes = work
    n, p, L = len(r), X.shape[1], len(grid.ridges)
    F, F_lanes = (narrow, lanes) if n <= 2 * LANES else (wide, wide_lanes)
    size, _, square = weighted_sums(r, w)
    nu, n_many = grid.nu_0 + size, 1
    for g in range(1, grid.degree + 1):
        n_many = g + 1 if n >= grid.many * n_features(g, grid.n_inputs) else n_many
    if len(moments) > 0:
        unpack_moments(moments, len(b), G, b)
        subtract_centre(G, len(b), fit.centre[k], b, 0.0)
    known, out = (fit.coefficients, fit.place[k]), (error, keep)
    for g in range(grid.degree + 1):
        d = n_features(g, p)
        rows = in_rows(n, g, p)
        first, last = _tried(g, L, n_many)
        if rows:
            kernel_matrix(X, g, G)
        elif len(moments) == 0:
            for a in range(d + 1):
                for j in range(a, d + 1):
                    G[a, j] = 0.0
            add_joint_gram(X, r, w, g, G)
            for a in range(d):
                b[a] = G[a, d]
        for m in range(first, last):
            ridge, c, factor = grid.ridges[m - g * L], fit.coefficients[fit.place[k, m] :], A[m - first]
            if rows:
                rest = solve_rows(G, r, w, ridge, c, m, out, (factor, z, lanes))
            else:
                rest = square - solve_coefficients(G, b, d, ridge, c, factor)
            if g < n_many:
                mean = mean_keep(factor, d, ridge, n, z, lanes)
                for q in range(n):
                    keep[m, q] = mean
            fit.psi[k, m] = max(psi_0 + max(rest, 0.0), nu * grid.min_scale**2)
        if not rows and g >= n_many:
            leave_each_out(X, r, g, (first, last, L), known, A, out, (F, F_lanes), w)
    leave_each_out(X, r, n_many - 1, (L // 2, n_many * L, L), known, A[:0], out, (F, F_lanes), w)
    for g in range(grid.degree + 1):
        first, last = _tried(g, L, n_many)
        for m in range(first, last):
            if len(w) == 0:
                fit.log_score[k, m] = leave_one_out(error, keep, m, n, nu, fit.psi[k, m])
            else:
                fit.log_score[k, m] = leave_one_out_weighted(error, keep, m, w, nu, fit.psi[k, m])


@kernel
def _tried(g: int, L: int, n_many: int) -> tuple[int, int]:
    """The first of the regressions of degree g that are tried, and one past the last; of n_many degrees one is."""
    return (g * L + L // 2, g * L + L // 2 + 1) if g < n_many else (g * L, g * L + L)


@kernel
def _posterior(log_score: Floats, weight: Floats) -> None:
    """Weights of the regressions, proportional to exp(log_score)."""
    best = -math.inf
    for m in range(len(weight)):
        best = max(best, log_score[m])
    total = 0.0
    for m in range(len(weight)):
        weight[m] = math.exp(log_score[m] - best)
        total += weight[m]
    for m in range(len(weight)):
        weight[m] /= total


@inlined_kernel
def _recentre(X: Floats, grid: Grid, weight: Floats, fit: Fit, k: int, alpha: Floats) -> None:
    """Add the average of the regressions of context k to its centre, the parent's so far; alpha is work space."""
    n, p, L = len(X), X.shape[1], len(grid.ridges)
    for g in range(grid.degree + 1):
        rows = in_rows(n, g, p)
        size = n if rows else n_features(g, p)
        for a in range(size):
            alpha[a] = 0.0
        for m in range(g * L, g * L + L):
            if weight[m] >= 1e-13:
                at = fit.place[k, m]
                for a in range(size):
                    alpha[a] += weight[m] * fit.coefficients[at + a]
        if rows:
            for q in range(n):
                add_features(X, q, g, alpha[q], fit.centre, k)
        else:
            for a in range(size):
                fit.centre[k, a] += alpha[a]


@inlined_kernel
def _add_errors(weight: Floats, error: Floats, keep: Floats, r: Floats, loo: Floats) -> None:
    """The residuals r (n,), and those of rows left out: the averages over the regressions, of weight (M,)."""
    for q in range(len(r)):
        r[q] = loo[q] = 0.0
    for m in range(len(weight)):
        if weight[m] > 0.0:
            for q in range(len(r)):
                t = weight[m] * error[m, q]
                r[q] += t
                loo[q] += t / keep[m, q]


@inlined_kernel
def _densities(y: Floats, loo: Floats, w: Floats, grid: Grid, tables: tuple[Floats, Floats], fit: Fit, k: int) -> None:
    """The kernel densities of context k: of leave-one-out residuals, and of y about its mean."""
    n, M = len(y), fit.psi.shape[1]
    rows, total, _ = weighted_sums(y, w)
    fit.mean[k] = total / rows
    for shape in range(N_SHAPES):
        if shape == 1:
            for q in range(n):
                loo[q] = y[q] - fit.mean[k]
            if weighted_sums(loo, w)[2] > rows * (PROMISING * fit.scale[k, 0]) ** 2:
                return
        score, fit.scale[k, shape], fit.width[k, shape] = density_evidence(
            loo, w, grid.min_scale, tables, fit.counts[fit.shaped[k], shape]
        )
        fit.log_score[k, M + shape] = score


def empty_fit(layout: Layout, grid: Grid, p: int) -> Fit:
    """What `fit_contexts` fills."""
    rows, L = layout.end - layout.start, len(grid.ridges)
    N, M = len(rows), (grid.degree + 1) * L
    sizes = np.ones((N, M), np.int64)  # numbers of coefficients
    for m in range(L, M):
        sizes[:, m] = np.minimum(rows, n_features(m // L, p))
    place = (np.cumsum(sizes) - sizes.ravel()).reshape(N, M)
    has_shapes = rows >= SHAPE_ROWS
    shaped = np.where(has_shapes, np.cumsum(has_shapes) - 1, -1)
    return Fit(
        np.zeros((N, n_features(grid.degree, p))),
        np.full((N, M + N_SHAPES), -math.inf),
        np.ones((N, M)),
        np.zeros(N, np.int64),
        np.zeros(N),
        place,
        np.zeros(int(sizes.sum())),
        np.ones((N, N_SHAPES)),
        np.zeros((N, N_SHAPES), np.int64),
        np.zeros(N),
        shaped,
        np.zeros((int(has_shapes.sum()), N_SHAPES, N_BINS), np.int32),
        np.zeros(N),
    )


@kernel
def fit_contexts(X: Floats, y: Floats, layout: Layout, grid: Grid, tables: tuple[Floats, Floats], fit: Fit) -> None:
    """Fit the local models of every context to rows X (n, p), y (n,), sorted by leaf, parents first: fills the
    `empty_fit`.
    """
    n_rows, p = X.shape
    N, M = fit.psi.shape
    widest = 0
    for k in range(N):
        widest = max(widest, layout.end[k] - layout.start[k])
    d = n_features(grid.degree, p)
    which, sums = _moments(X, y, layout, grid.degree)
    none = np.empty(0)
    error, keep, b = np.empty((M, widest)), np.empty((M, widest)), np.empty(d)
    work = (
        np.empty((len(grid.ridges), d, d)),
        np.empty((d + 1, d + 1)),
        np.empty(d),
        np.empty((d + 1, LANES)),
        b,
        error,
        keep,
        np.empty((d, LANES)),
        np.empty((d, WIDE)),
        np.empty((d + 1, WIDE)),
    )
    r, loo, weight, s2 = y.copy(), np.empty(n_rows), np.empty(M), fit.s2
    s2_root, plain = grid.min_scale**2, len(layout.weight) == 0
    rows = float(n_rows) if plain else layout.weight.sum()
    for i in range(n_rows):
        s2_root += y[i] * y[i] * (1.0 if plain else layout.weight[i]) / rows
    for k in range(N):
        s, e = layout.start[k], layout.end[k]
        n = e - s
        above = s2_root if k == 0 else s2[layout.parent[k]]
        if k > 0:
            for a in range(d):
                fit.centre[k, a] = fit.centre[layout.parent[k], a]
        if n == 0:  # a context without rows says what its parent says
            for m in range(M):
                fit.log_score[k, m] = 0.0
                fit.psi[k, m] = grid.nu_0 * above
            s2[k] = above
            continue
        moments = sums[which[k]] if which[k] >= 0 else none
        _regress(X[s:e], r[s:e], layout.weight[s:e], grid, grid.nu_0 * above, moments, fit, k, work)
        _posterior(fit.log_score[k], weight)
        _recentre(X[s:e], grid, weight, fit, k, b)
        best = fit.best[k] = np.argmax(weight)
        total = float(n) if plain else layout.weight[s:e].sum()
        for m in range(M):
            s2[k] += weight[m] * fit.psi[k, m] / (grid.nu_0 + total)
        leverage = 0.0
        for q in range(n):
            leverage += 1.0 - keep[best, q]
        fit.leverage[k] = leverage / total
        _add_errors(weight, error, keep, r[s:e], loo[s:e])
        if fit.shaped[k] >= 0:
            _densities(y[s:e], loo[s:e], layout.weight[s:e], grid, tables, fit, k)
