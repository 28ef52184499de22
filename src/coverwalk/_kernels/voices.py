"""What a fitted tree keeps of its contexts, and how it answers: one voice for each local model heard on a row's path."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.contexts import Fit, Grid, Layout
from coverwalk._kernels.linear_algebra import factorise, pack, packed_leverage
from coverwalk._kernels.polynomial import features, inner_product, n_features, value
from coverwalk._kernels.regression import add_gram, in_rows, kernel_matrix

__all__ = ["Records", "Walk", "count_voices", "keep_records", "speak"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REGRESSION, DENSITY_OF_RESIDUALS, DENSITY_OF_Y = 0, 1, 2


class Walk(NamedTuple):
    """Where a row goes, and the posterior of the walk."""

    dim: Ints  # (N,)
    cut: Floats  # (N,)
    left: Ints  # (N,)
    log_stop: Floats  # (N,)
    log_go: Floats  # (N,)


class Records(NamedTuple):
    """The voices worth hearing, R of them, those of context k at first[k]:first[k+1]; and C contexts that have any.

    A context's regressions speak as one: at its centre mu(x), the average of their functions, with their average variance, and with
    the leverage of the best of them.
    """

    first: Ints  # (N + 1,)
    kind: Ints  # (R,)
    log_weight: Floats  # (R,)
    s2: Floats  # (R,) squared scale, of a regression at leverage 0
    seat: Ints  # (N,) row of what follows, -1 for a context without records
    low: Floats  # (C, p) the range of a context's rows: inputs are clamped to it
    high: Floats
    centre: Floats  # (C, d)
    mean: Floats  # (C,) of y
    degree: Ints  # (C,) of the best regression
    ridge: Floats  # (C,)
    leverage: Floats  # (C,) its mean, or -1 where the factor tells
    n_rows: Ints  # (C,)
    rows_at: Ints  # (C,) first of its rows, where the regression is solved in rows, else -1
    rows: Floats  # (T, p)
    factor_at: Ints  # (C,)
    factors: Floats


@kernel
def _heard(layout: Layout, log_weight: Floats, log_stop: Floats, log_go: Floats, log_least: float) -> NDArray[np.bool_]:
    """Which voices can have at least the least weight in some row, under some prior; the root's regression always."""
    N, M = log_weight.shape
    heard, log_reach = np.zeros((N, M), np.bool_), np.zeros(N)
    for s in range(len(log_stop)):
        for k in range(N):
            if k > 0:
                log_reach[k] = log_reach[layout.parent[k]] + log_go[s, layout.parent[k]]
            for m in range(M):
                heard[k, m] |= log_reach[k] + log_stop[s, k] + log_weight[k, m] >= log_least
    heard[0, REGRESSION] = True
    return heard


@kernel
def _blank(p: int, layout: Layout, grid: Grid, best: Ints, heard: NDArray[np.bool_], d: int) -> Records:
    """Room for what is heard, and where it lies."""
    N, L, R = len(layout.start), len(grid.ridges), int(heard.sum())
    first, seat = np.zeros(N + 1, np.int64), np.full(N, -1, np.int64)
    n_seats = 0
    for k in range(N):
        for m in range(heard.shape[1]):
            first[k + 1] += heard[k, m]
        if first[k + 1] > 0:
            seat[k] = n_seats
            n_seats += 1
        first[k + 1] += first[k]
    degree, n_rows, factor_at = np.zeros(n_seats, np.int64), np.zeros(n_seats, np.int64), np.zeros(n_seats, np.int64)
    rows_at, ridge, leverage = np.full(n_seats, -1, np.int64), np.zeros(n_seats), np.zeros(n_seats)
    n_kept, n_factors = 0, 0
    for k in range(N):
        c = seat[k]
        if c < 0:
            continue
        n, g = layout.end[k] - layout.start[k], best[k] // L
        degree[c], ridge[c], n_rows[c], factor_at[c] = g, grid.ridges[best[k] % L], n, n_factors
        size = n_features(g, p)
        if in_rows(n, g, p):
            rows_at[c] = n_kept
            n_kept += n
            size = n
        elif n >= grid.many * size:
            leverage[c] = size / (n + ridge[c])
            continue
        leverage[c] = -1.0
        n_factors += size * (size + 1) // 2
    return Records(
        first,
        np.zeros(R, np.int64),
        np.zeros(R),
        np.zeros(R),
        seat,
        np.full((n_seats, p), math.inf),
        np.full((n_seats, p), -math.inf),
        np.zeros((n_seats, d)),
        np.zeros(n_seats),
        degree,
        ridge,
        leverage,
        n_rows,
        rows_at,
        np.zeros((n_kept, p)),
        factor_at,
        np.zeros(n_factors),
    )


@kernel
def _seat_context(X: Floats, c: int, work: Floats, out: Records) -> None:
    """Range, rows and factor of the context in seat c, whose rows are X."""
    A = work
    for q in range(len(X)):
        for a in range(X.shape[1]):
            out.low[c, a] = min(out.low[c, a], X[q, a])
            out.high[c, a] = max(out.high[c, a], X[q, a])
    if out.leverage[c] >= 0.0:
        return
    g = out.degree[c]
    size = n_features(g, X.shape[1])
    if out.rows_at[c] >= 0:
        size = len(X)
        out.rows[out.rows_at[c] : out.rows_at[c] + size, :] = X
        kernel_matrix(X, g, A)
    else:
        A[:size, :size] = 0.0
        add_gram(X, g, A)
    for a in range(size):
        A[a, a] += out.ridge[c]
    factorise(A, size)
    pack(A, size, out.factors, out.factor_at[c])


@kernel
def keep_records(
    X: Floats, layout: Layout, grid: Grid, fit: Fit, log_weight: Floats, log_stop: Floats, log_go: Floats, least: float
) -> Records:
    """Keep what can be heard with at least this weight; rows X sorted by leaf, as in fit_contexts.

    log_stop, log_go (S, N): the posteriors of the walk under S priors.
    """
    heard = _heard(layout, log_weight, log_stop, log_go, math.log(least))
    d = fit.centre.shape[1]
    out = _blank(X.shape[1], layout, grid, fit.best, heard, d)
    work = np.empty((d, d))
    for k in range(len(layout.start)):
        c = out.seat[k]
        if c < 0:
            continue
        _seat_context(X[layout.start[k] : layout.end[k]], c, work, out)
        out.centre[c, :] = fit.centre[k]
        out.mean[c] = fit.mean[k]
        q = out.first[k]
        for m in range(heard.shape[1]):
            if heard[k, m]:
                out.kind[q] = m
                out.log_weight[q] = log_weight[k, m]
                out.s2[q] = fit.s2[k] if m == REGRESSION else fit.scale[k, m - 1] ** 2
                q += 1
    return out


@kernel
def count_voices(X: Floats, walk: Walk, records: Records, least: float, count: Ints, total: Floats) -> None:
    """Add to count (n,) the voices each row hears with at least this weight; total (n,) is set to their weight."""
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
def _leverage(x: Floats, c: int, records: Records, f: Floats) -> float:
    """f(x)' (F'F + ridge I)^-1 f(x) of the context in seat c, x already clamped."""
    if records.leverage[c] >= 0.0:
        return records.leverage[c]
    g = records.degree[c]
    if records.rows_at[c] < 0:
        features(x, g, f)
        return packed_leverage(records.factors, records.factor_at[c], n_features(g, len(x)), f)
    n = records.n_rows[c]
    for j in range(n):
        f[j] = inner_product(records.rows[records.rows_at[c] + j], x, g)
    explained = packed_leverage(records.factors, records.factor_at[c], n, f)
    return max(inner_product(x, x, g) - explained, 0.0) / records.ridge[c]


@kernel
def speak(
    X: Floats, walk: Walk, degree: int, records: Records, least: float, at: Ints, factor: Floats, shape: NDArray[np.int32], label: int, out: tuple
) -> None:  # type: ignore[type-arg]
    """Write the voices of each row from at[i] on, their weights multiplied by factor[i]; at is moved past them.

    shape (R,) is that of each record, label that of context 0; out: weight, loc, scale, shape, label (m,).
    """
    out_weight, out_loc, out_scale, out_shape, out_context = out
    log_least = math.log(least)
    p = X.shape[1]
    x, f = np.empty(p), np.empty(records.centre.shape[1])
    for i in range(len(X)):
        k, log_reach = 0, 0.0
        while k >= 0:
            c = records.seat[k]
            ready = False
            loc = 0.0
            for q in range(records.first[k], records.first[k + 1]):
                log_w = log_reach + walk.log_stop[k] + records.log_weight[q]
                if not (log_w >= log_least or k == 0):
                    continue
                if not ready:
                    for a in range(p):
                        x[a] = min(max(X[i, a], records.low[c, a]), records.high[c, a])
                    loc = value(x, degree, records.centre[c])
                    ready = True
                s2 = records.s2[q]
                if records.kind[q] == REGRESSION:
                    s2 *= 1.0 + _leverage(x, c, records, f)
                j = at[i]
                out_weight[j] = math.exp(log_w) * factor[i]
                out_loc[j] = records.mean[c] if records.kind[q] == DENSITY_OF_Y else loc
                out_scale[j] = math.sqrt(s2)
                out_shape[j] = shape[q]
                out_context[j] = label + k
                at[i] += 1
            log_reach += walk.log_go[k]
            if walk.left[k] < 0 or log_reach < log_least:
                break
            k = walk.left[k] + (0 if X[i, walk.dim[k]] <= walk.cut[k] else 1)
