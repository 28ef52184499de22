"""What a fitted tree keeps of its contexts, and how it answers: one voice for each local model heard on a row's path."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.contexts import Fit, Grid, Layout
from coverwalk._kernels.linear_algebra import factorise, pack, packed_leverage
from coverwalk._kernels.polynomial import features, inner_product, n_features, value
from coverwalk._kernels.regression import EXACT_LEVERAGE, add_gram, in_rows, kernel_matrix

__all__ = ["Records", "Walk", "count_voices", "keep_records", "speak"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COEFFICIENTS, ROWS, DENSITY_OF_RESIDUALS, DENSITY_OF_Y = 0, 1, 2, 3


class Walk(NamedTuple):
    """Where a row goes, and the posterior of the walk."""

    dim: Ints  # (N,)
    cut: Floats  # (N,)
    left: Ints  # (N,)
    log_stop: Floats  # (N,)
    log_go: Floats  # (N,)


class Records(NamedTuple):
    """The local models worth hearing, R of them, those of context k at first[k]:first[k+1]."""

    first: Ints  # (N + 1,)
    box: Ints  # (N,) row of low and high, -1 for a context without records
    low: Floats  # (C, p) the range of a context's rows: inputs are clamped to it
    high: Floats
    rows_at: Ints  # (N,) first of its rows in rows, where a record is solved in rows
    rows: Floats  # (T, p)
    n_rows: Ints  # (N,)
    centre: Floats  # (2 C, d) of context k's parent at 2 box[k], of its own at 2 box[k] + 1
    model: Ints  # (R,) regressions first, then densities, as in Fit.log_score
    kind: Ints  # (R,)
    log_weight: Floats  # (R,)
    s2: Floats  # (R,) squared scale at leverage 0
    leverage: Floats  # (R,) its mean, or -1 where the factor tells
    coefficient_at: Ints  # (R,)
    coefficients: Floats
    factor_at: Ints  # (R,)
    factors: Floats


@kernel
def _heard(layout: Layout, log_weight: Floats, log_stop: Floats, log_go: Floats, log_least: float) -> NDArray[np.bool_]:
    """Which local models can have at least the least weight in some row; of the root's, always the best."""
    N, M = log_weight.shape
    heard, log_reach = np.zeros((N, M), np.bool_), np.zeros(N)
    for k in range(N):
        if k > 0:
            log_reach[k] = log_reach[layout.parent[k]] + log_go[layout.parent[k]]
        for m in range(M):
            heard[k, m] = log_reach[k] + log_stop[k] + log_weight[k, m] >= log_least
    heard[0, np.argmax(log_weight[0])] = True
    return heard


@kernel
def _blank(X: Floats, layout: Layout, grid: Grid, fit: Fit, heard: NDArray[np.bool_]) -> Records:
    """Room for the records that are heard, their kinds and their places."""
    p, L, M = X.shape[1], len(grid.ridges), fit.psi.shape[1]
    N, d = len(layout.start), fit.centre.shape[1]
    first, box, rows_at, n_rows = np.zeros(N + 1, np.int64), np.full(N, -1, np.int64), np.zeros(N, np.int64), np.zeros(N, np.int64)
    R = int(heard.sum())
    model, kind, coefficient_at, factor_at = np.zeros(R, np.int64), np.zeros(R, np.int64), np.zeros(R, np.int64), np.zeros(R, np.int64)
    leverage = np.full(R, -1.0)
    n_boxes, n_kept, n_coefficients, n_factors, i = 0, 0, 0, 0, 0
    for k in range(N):
        n = layout.end[k] - layout.start[k]
        n_rows[k] = n
        rows_at[k] = n_kept
        wants_rows = False
        for m in range(heard.shape[1]):
            if not heard[k, m]:
                continue
            model[i] = m
            coefficient_at[i], factor_at[i] = n_coefficients, n_factors
            if m >= M:
                kind[i] = DENSITY_OF_RESIDUALS + m - M
            else:
                g = m // L
                size = n_features(g, p)
                if in_rows(n, g, p):
                    kind[i] = ROWS
                    size = n
                    wants_rows = True
                elif n >= EXACT_LEVERAGE * size:
                    leverage[i] = 0.0
                n_coefficients += size
                if leverage[i] < 0.0:
                    n_factors += size * (size + 1) // 2
            i += 1
        first[k + 1] = i
        if i > first[k]:
            box[k] = n_boxes
            n_boxes += 1
        if wants_rows:
            n_kept += n
    return Records(
        first, box, np.zeros((n_boxes, p)), np.zeros((n_boxes, p)), rows_at, np.zeros((n_kept, p)), n_rows, np.zeros((2 * n_boxes, d)),
        model, kind, np.zeros(R), np.zeros(R), leverage, coefficient_at, np.zeros(n_coefficients), factor_at, np.zeros(n_factors),
    )


@kernel
def _fill_context(X: Floats, k: int, layout: Layout, fit: Fit, out: Records) -> None:
    """Box, centres and rows of context k."""
    b = out.box[k]
    out.low[b, :] = math.inf
    out.high[b, :] = -math.inf
    for q in range(len(X)):
        for a in range(X.shape[1]):
            out.low[b, a] = min(out.low[b, a], X[q, a])
            out.high[b, a] = max(out.high[b, a], X[q, a])
    if k > 0:
        out.centre[2 * b, :] = fit.centre[layout.parent[k]]
    out.centre[2 * b + 1, :] = fit.centre[k]
    wants_rows = False
    for i in range(out.first[k], out.first[k + 1]):
        wants_rows |= out.kind[i] == ROWS
    if wants_rows:
        out.rows[out.rows_at[k] : out.rows_at[k] + len(X), :] = X


@kernel
def _fill_regression(X: Floats, k: int, i: int, grid: Grid, fit: Fit, work: tuple, out: Records) -> None:  # type: ignore[type-arg]
    """Coefficients and factor (or mean leverage) of regression i of context k."""
    A, f, z = work
    m, n, p = out.model[i], len(X), X.shape[1]
    g, ridge = m // len(grid.ridges), grid.ridges[m % len(grid.ridges)]
    size = n if out.kind[i] == ROWS else n_features(g, p)
    at = out.coefficient_at[i]
    out.coefficients[at : at + size] = fit.coefficients[fit.place[k, m] : fit.place[k, m] + size]
    out.s2[i] = fit.psi[k, m] / (grid.nu_0 + n)
    if out.leverage[i] >= 0.0:
        out.leverage[i] = min(n_features(g, p) / n, 1.0)
        return
    if out.kind[i] == ROWS:
        kernel_matrix(X, g, A)
    else:
        A[:size, :size] = 0.0
        add_gram(X, g, f, A)
    for a in range(size):
        A[a, a] += ridge
    factorise(A, size)
    pack(A, size, out.factors, out.factor_at[i])


@kernel
def keep_records(
    X: Floats, layout: Layout, grid: Grid, fit: Fit, log_weight: Floats, log_stop: Floats, log_go: Floats, least: float
) -> Records:
    """Keep what can be heard with at least this weight; rows X sorted by leaf, as in fit_contexts."""
    out = _blank(X, layout, grid, fit, _heard(layout, log_weight, log_stop, log_go, math.log(least)))
    M, d = fit.psi.shape[1], fit.centre.shape[1]
    work = (np.empty((d, d)), np.empty(d), np.empty(d))
    for k in range(len(layout.start)):
        if out.box[k] < 0:
            continue
        rows = X[layout.start[k] : layout.end[k]]
        _fill_context(rows, k, layout, fit, out)
        for i in range(out.first[k], out.first[k + 1]):
            out.log_weight[i] = log_weight[k, out.model[i]]
            if out.model[i] < M:
                _fill_regression(rows, k, i, grid, fit, work, out)
            else:
                out.s2[i] = fit.scale[k, out.model[i] - M] ** 2
    return out


@kernel
def count_voices(X: Floats, walk: Walk, records: Records, least: float, count: Ints, total: Floats) -> None:
    """Add to count (n,) the records each row hears with at least this weight; total (n,) is set to their weight."""
    log_least = math.log(least)
    for i in range(len(X)):
        total[i] = 0.0
        k, log_reach = 0, 0.0
        while k >= 0:
            for q in range(records.first[k], records.first[k + 1]):
                log_w = log_reach + walk.log_stop[k] + records.log_weight[q]
                if log_w >= log_least or k == 0:
                    count[i] += 1
                    total[i] += math.exp(log_w)
            log_reach += walk.log_go[k]
            if walk.left[k] < 0 or log_reach < log_least:
                break
            k = walk.left[k] + (0 if X[i, walk.dim[k]] <= walk.cut[k] else 1)


@kernel
def _regression_voice(x: Floats, k: int, q: int, grid: Grid, records: Records, f: Floats) -> tuple[float, float]:
    """Location and squared scale of regression q of context k at x, already clamped."""
    p, m = len(x), records.model[q]
    g, ridge = m // len(grid.ridges), grid.ridges[m % len(grid.ridges)]
    loc = value(x, grid.degree, records.centre[2 * records.box[k]])
    at = records.coefficient_at[q]
    if records.kind[q] == ROWS:
        n, rows_at = records.n_rows[k], records.rows_at[k]
        for j in range(n):
            f[j] = inner_product(records.rows[rows_at + j], x, g)
            loc += f[j] * records.coefficients[at + j]
        h = (inner_product(x, x, g) - packed_leverage(records.factors, records.factor_at[q], n, f)) / ridge
        return loc, records.s2[q] * (1.0 + max(h, 0.0))
    loc += value(x, g, records.coefficients[at:])
    h = records.leverage[q]
    if h < 0.0:
        features(x, g, f)
        h = packed_leverage(records.factors, records.factor_at[q], n_features(g, p), f)
    return loc, records.s2[q] * (1.0 + h)


@kernel
def speak(
    X: Floats, walk: Walk, grid: Grid, records: Records, mean: Floats, least: float, at: Ints, factor: Floats, out: tuple
) -> None:  # type: ignore[type-arg]
    """Write the voices of each row from at[i] on, their weights multiplied by factor[i]; at is moved past them.

    out: weight, loc, scale (m,) and record, context (m,), the indices of who speaks; mean (N,) is that of y in each context.
    """
    weight, loc, scale, record, context = out
    log_least = math.log(least)
    p = X.shape[1]
    x, f = np.empty(p), np.empty(max(records.centre.shape[1], 1))
    for i in range(len(X)):
        k, log_reach = 0, 0.0
        while k >= 0:
            b = records.box[k]
            clamped = False
            for q in range(records.first[k], records.first[k + 1]):
                log_w = log_reach + walk.log_stop[k] + records.log_weight[q]
                if not (log_w >= log_least or k == 0):
                    continue
                if not clamped:
                    for a in range(p):
                        x[a] = min(max(X[i, a], records.low[b, a]), records.high[b, a])
                    clamped = True
                j = at[i]
                if records.kind[q] == DENSITY_OF_Y:
                    loc[j], s2 = mean[k], records.s2[q]
                elif records.kind[q] == DENSITY_OF_RESIDUALS:
                    loc[j], s2 = value(x, grid.degree, records.centre[2 * b + 1]), records.s2[q]
                else:
                    loc[j], s2 = _regression_voice(x, k, q, grid, records, f)
                weight[j] = math.exp(log_w) * factor[i]
                scale[j] = math.sqrt(s2)
                record[j] = q
                context[j] = k
                at[i] += 1
            log_reach += walk.log_go[k]
            if walk.left[k] < 0 or log_reach < log_least:
                break
            k = walk.left[k] + (0 if X[i, walk.dim[k]] <= walk.cut[k] else 1)
