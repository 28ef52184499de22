"""Grow one tree of contexts from rows, looking at y: each cut is the best of a few drawn at random."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.cut import goes_right, mask_of, missing_goes, order_levels
from coverwalk._kernels.linear_algebra import back_solve, factorise, forward_solve
from coverwalk._kernels.splitmix import mix, uniform

__all__ = ["arrange", "grow", "route"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RIDGE = 1.0  # of a context's own linear model, and of the line on each side of a candidate cut
PRIOR_ROWS = 2.0  # a side's variance starts at the context's, with this weight


@kernel
def _log_gammas(n: int) -> Floats:
    """log Gamma((PRIOR_ROWS + k) / 2) for k = 0 .. n rows."""
    table = np.empty(n + 1)
    for k in range(n + 1):
        table[k] = math.lgamma(0.5 * (PRIOR_ROWS + k))
    return table


@kernel
def _side_evidence(
    n: float, x: float, r: float, xx: float, xr: float, rr: float, s2: float, log_gammas: Floats
) -> float:
    """Log evidence of a ridge line with its own variance on one side, without the term of the determinant.

    That term would make every cut pay for its two lines; all candidates have them, and small sides would win by it.
    """
    a, c = n + RIDGE, xx + RIDGE
    explained = (c * r * r - 2.0 * x * r * xr + a * xr * xr) / (a * c - x * x)
    psi = PRIOR_ROWS * s2 + max(rr - explained, 0.0)
    return log_gammas[int(n)] - 0.5 * (PRIOR_ROWS + n) * math.log(psi / s2)


@kernel
def _products(left: Floats, rows: Floats, first: int, out: Floats) -> None:
    """out[j] = the inner product of left (m,) and rows[j] (m,), for j from `first` on, four of them at a time."""
    m, last = len(left), len(rows)
    for j in range(first, last, 4):
        r0, r1, r2, r3 = rows[j], rows[min(j + 1, last - 1)], rows[min(j + 2, last - 1)], rows[min(j + 3, last - 1)]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for q in range(m):
            t = left[q]
            s0 += t * r0[q]
            s1 += t * r1[q]
            s2 += t * r2[q]
            s3 += t * r3[q]
        out[j] = s0
        if j + 1 < last:
            out[j + 1] = s1
        if j + 2 < last:
            out[j + 2] = s2
        if j + 3 < last:
            out[j + 3] = s3


@kernel
def _subtract_line(
    X: Floats, r: Floats, perm: NDArray[np.int64], s: int, e: int, n_sample: int, work: tuple[Floats, ...]
) -> None:
    """Take the context's own ridge-linear fit, made on its first rows, off the residuals of all its rows."""
    A, b, columns = work
    p = X.shape[1]
    d = p + 1
    F = columns[:, :n_sample]  # 1, the inputs, and the residuals, each in one run
    for q in range(n_sample):
        i = perm[s + q]
        F[0, q] = 1.0
        for a in range(p):
            F[a + 1, q] = X[i, a]
        F[d, q] = r[i]
    for a in range(d):
        _products(F[a], F, a, A[a])
        b[a] = A[a, d]
        A[a, a] += RIDGE
    factorise(A, d)
    forward_solve(A, d, b, 0)
    back_solve(A, d, b)
    for q in range(s, e):
        i = perm[q]
        t = b[0]
        for a in range(p):
            t += b[a + 1] * X[i, a]
        r[i] -= t


@kernel
def _best_levels(
    X: Floats, r: Floats, perm: Ints, a: int, n_levels: int, sample: tuple[int, int, float, float], log_gammas: Floats
) -> tuple[float, int]:
    """The best set of levels of category a: of those that are prefixes in the order of mean residuals.

    sample: its first row, its rows, their residual variance, and the least rows on a side. Returns the log evidence and
    the mask of the set; missing values and levels without rows go to the side of more evidence or, where there are no
    missing ones, of more rows.
    """
    s, m, s2, need = sample
    size, total, square = np.zeros(n_levels + 1), np.zeros(n_levels + 1), np.zeros(n_levels + 1)
    mean, order = np.zeros(n_levels), np.zeros(n_levels, np.int64)
    for q in range(s, s + m):
        i = perm[q]
        level = n_levels if math.isnan(X[i, a]) else int(X[i, a])
        size[level] += 1.0
        total[level] += r[i]
        square[level] += r[i] * r[i]
    n = rest = rest_square = 0.0
    for level in range(n_levels):
        if size[level] > 0.0:
            mean[level] = total[level] / size[level]
        n, rest, rest_square = n + size[level], rest + total[level], rest_square + square[level]
    present = order_levels(mean, size[:n_levels], order)
    missing, best, best_mask = size[n_levels], -math.inf, 0
    below, low, low_square = 0.0, 0.0, 0.0
    for taken in range(1, present + (missing > 0.0)):  # all levels against the missing ones is a cut too
        level = order[taken - 1]
        below, low, low_square = below + size[level], low + total[level], low_square + square[level]
        for side in range(2 if missing > 0.0 else 1):  # where missing values go
            n0, r0, rr0 = below, low, low_square
            n1, r1, rr1 = n - below, rest - low, rest_square - low_square
            if missing > 0.0 and side == 0:
                n0, r0, rr0 = n0 + missing, r0 + total[n_levels], rr0 + square[n_levels]
            elif missing > 0.0:
                n1, r1, rr1 = n1 + missing, r1 + total[n_levels], rr1 + square[n_levels]
            if n0 < need or n1 < need:
                continue
            log_evidence = _side_evidence(n0, 0.0, r0, 0.0, 0.0, rr0, s2, log_gammas)
            log_evidence += _side_evidence(n1, 0.0, r1, 0.0, 0.0, rr1, s2, log_gammas)
            if log_evidence > best:
                best = log_evidence
                best_mask = mask_of(order, taken, present, n0 >= n1)
                if missing > 0.0:
                    best_mask = missing_goes(best_mask, side == 0)
    return best, best_mask


@kernel
def _look_at(
    X: Floats, r: Floats, perm: Ints, a: int, s: int, m: int, column: Floats, own: Floats, looked: Floats
) -> None:
    """The numbers of input a in rows s:s + m and their residuals, each in one run, without the missing ones.

    Fills looked (5,): how many they are, the ends of their range, and of the missing ones the sum of residuals and of
    their squares.
    """
    k, low, high, r_missing, rr_missing = 0, math.inf, -math.inf, 0.0, 0.0
    for q in range(s, s + m):
        i = perm[q]
        t, y = X[i, a], r[i]
        column[k], own[k] = t, y
        low, high = (t if t < low else low), (t if t > high else high)
        if t == t:
            k += 1
        else:
            r_missing += y
            rr_missing += y * y
    looked[0], looked[1], looked[2], looked[3], looked[4] = k, low, high, r_missing, rr_missing


@kernel
def _best_cut(
    X: Floats,
    r: Floats,
    perm: NDArray[np.int64],
    s: int,
    n: int,
    n_sample: int,
    min_rows: int,
    n_candidates: int,
    n_levels: Ints,
    state: NDArray[np.uint64],
    work: tuple[Floats, Floats, Floats, Floats],
) -> tuple[int, float, int]:
    """The candidate of most evidence on a sample of the context's rows: its dimension (-1 for none), cut and mask."""
    p = X.shape[1]
    columns, own, looked, log_gammas = work
    # A run of rows from a random place: rows are in random order already, and every tree sees another run.
    offset = int(uniform(state) * (n - n_sample + 1))
    s += offset
    s2 = 1e-300
    for q in range(s, s + n_sample):
        s2 += r[perm[q]] ** 2 / n_sample
    for a in range(p):
        looked[a, 0] = -1.0
    need = float(min_rows) if n_sample == n else max(2.0, min_rows * n_sample / n)
    best, best_dim, best_cut, best_mask = -math.inf, -1, 0.0, 0
    for _ in range(n_candidates):
        a = int(uniform(state) * p)
        u, v = uniform(state), uniform(state)
        if n_levels[a] > 0:
            log_evidence, mask = _best_levels(X, r, perm, a, n_levels[a], (s, n_sample, s2, need), log_gammas)
            if log_evidence > best:
                best, best_dim, best_cut, best_mask = log_evidence, a, math.nan, mask
            continue
        if looked[a, 0] < 0.0:
            _look_at(X, r, perm, a, s, n_sample, columns[a], own[a], looked[a])
        k = int(looked[a, 0])
        low, high, missing, r_missing, rr_missing = (
            looked[a, 1],
            looked[a, 2],
            n_sample - looked[a, 0],
            looked[a, 3],
            looked[a, 4],
        )
        cut = X[perm[s + int(v * n_sample)], a] if u < 0.5 else low + (high - low) * v
        n_left = 0
        for q in range(k):
            n_left += columns[a, q] <= cut
        n0, n1 = float(n_left), float(k - n_left)
        if n0 + missing < need or n1 + missing < need or cut != cut:
            continue
        x0, r0, xx0, xr0, rr0 = 0.0, 0.0, 0.0, 0.0, 0.0
        x1, r1, xx1, xr1, rr1 = 0.0, 0.0, 0.0, 0.0, 0.0
        for q in range(k):  # without a branch: either side is as likely, and a wrong guess takes longer than both
            x, y = columns[a, q] - cut, own[a, q]
            left = 1.0 * (x <= 0.0)
            x_left, y_left = (x if x < 0.0 else 0.0), left * y
            x_right, y_right = x - x_left, y - y_left
            x0 += x_left
            x1 += x_right
            r0 += y_left
            r1 += y_right
            xx0 += x_left * x_left
            xx1 += x_right * x_right
            xr0 += x_left * y
            xr1 += x_right * y
            rr0 += y_left * y
            rr1 += y_right * y
        for side in range(1 if missing == 0.0 else 2):  # missing values lie on the cut, on the left side or the right
            if missing > 0.0 and side == 0:
                n0, r0, rr0 = n0 + missing, r0 + r_missing, rr0 + rr_missing
            elif missing > 0.0:
                n0, r0, rr0 = n0 - missing, r0 - r_missing, rr0 - rr_missing
                n1, r1, rr1 = n1 + missing, r1 + r_missing, rr1 + rr_missing
            if n0 < need or n1 < need:
                continue
            log_evidence = _side_evidence(n0, x0, r0, xx0, xr0, rr0, s2, log_gammas)
            log_evidence += _side_evidence(n1, x1, r1, xx1, xr1, rr1, s2, log_gammas)
            if log_evidence > best:
                best, best_dim, best_cut = log_evidence, a, cut
                best_mask = missing_goes(np.int64(0), side == 0 if missing > 0.0 else n0 >= n1)
    return best_dim, best_cut, best_mask


@kernel
def _plain(X: Floats, n_levels: Ints) -> Floats:
    """X for a linear model: missing values at their column's centre, categories left out; X itself if it can be."""
    n, p = X.shape
    numbers = True
    for a in range(p):
        numbers = numbers and n_levels[a] == 0
    for i in range(n):
        for a in range(p):
            numbers = numbers and X[i, a] == X[i, a]
    if numbers:
        return X
    plain = np.zeros((n, p))
    for i in range(n):
        for a in range(p):
            if n_levels[a] == 0 and X[i, a] == X[i, a]:
                plain[i, a] = X[i, a]
    return plain


@kernel
def grow(
    X: Floats, residual: Floats, n_levels: Ints, seed: int, min_rows: int, n_candidates: int, sample: int
) -> tuple[Ints, Ints, Ints, Floats, Ints]:
    """Grow a tree on rows X (n, p), in random order, and residuals (n,); parents come before children, siblings side
    by side. Column a has numbers, or the numbers of n_levels[a] > 0 levels; NaN is missing.

    Returns dim, left, parent, cut and levels (N,): left[k] = -1 in a leaf, else the children are left[k] and
    left[k] + 1, and `goes_right` says which is whose.
    """
    n, p = X.shape
    room = max(2 * (n // max(min_rows, 1)) + 1, 1)
    start, end = np.zeros(room, np.int64), np.zeros(room, np.int64)
    dim, left, parent = np.full(room, -1, np.int64), np.full(room, -1, np.int64), np.full(room, -1, np.int64)
    cut, levels = np.zeros(room), np.zeros(room, np.int64)
    name = np.zeros(room, np.uint64)  # a context's own random stream: it depends on the path alone
    perm, spare, r, plain = np.arange(n), np.empty(n, np.int64), residual.copy(), _plain(X, n_levels)
    columns = np.empty((p + 2, min(n, sample)))
    line_work = (np.empty((p + 1, p + 2)), np.empty(p + 1), columns)
    cut_work = (columns, np.empty((p, min(n, sample))), np.empty((p, 5)), _log_gammas(min(n, sample)))
    state = np.zeros(1, np.uint64)
    end[0], name[0], n_nodes = n, mix(np.uint64(seed)), 1
    k = 0
    while k < n_nodes:
        s, e = start[k], end[k]
        m = e - s
        if m >= 2 * min_rows and p > 0:
            state[0] = name[k]
            n_sample = min(m, sample)
            if k > 0:
                _subtract_line(plain, r, perm, s, e, n_sample, line_work)
            a, c, mask = _best_cut(X, r, perm, s, m, n_sample, min_rows, n_candidates, n_levels, state, cut_work)
            if a >= 0:
                n_left, n_right = 0, 0
                for q in range(s, e):
                    i = perm[q]
                    if goes_right(X[i, a], c, mask) == 0:
                        perm[s + n_left] = i
                        n_left += 1
                    else:
                        spare[n_right] = i
                        n_right += 1
                for q in range(n_right):
                    perm[s + n_left + q] = spare[q]
                if n_left >= min_rows and n_right >= min_rows:
                    dim[k], cut[k], levels[k], left[k] = a, c, mask, n_nodes
                    for side in range(2):
                        child = n_nodes + side
                        parent[child] = k
                        name[child] = mix(name[k] + np.uint64(side + 1))
                        start[child] = s if side == 0 else s + n_left
                        end[child] = s + n_left if side == 0 else e
                    n_nodes += 2
        k += 1
    shape = dim[:n_nodes].copy(), left[:n_nodes].copy(), parent[:n_nodes].copy()
    return *shape, cut[:n_nodes].copy(), levels[:n_nodes].copy()


@kernel
def route(X: Floats, dim: Ints, left: Ints, cut: Floats, levels: Ints) -> Ints:
    """The leaf of every row of X."""
    leaf = np.empty(len(X), np.int64)
    for i in range(len(X)):
        k = 0
        while left[k] >= 0:
            k = left[k] + goes_right(X[i, dim[k]], cut[k], levels[k])
        leaf[i] = k
    return leaf


@kernel
def arrange(leaf: NDArray[np.int64], left: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Sort rows by leaf so that every context holds one run of them, rows of a leaf keeping their order.

    Returns perm (n,), start (N,) and end (N,): context k holds rows perm[start[k]:end[k]].
    """
    N = len(left)
    size, start = np.zeros(N, np.int64), np.zeros(N, np.int64)
    for k in leaf:
        size[k] += 1
    for k in range(N - 1, -1, -1):
        if left[k] >= 0:
            size[k] = size[left[k]] + size[left[k] + 1]
    for k in range(N):
        if left[k] >= 0:
            start[left[k]] = start[k]
            start[left[k] + 1] = start[k] + size[left[k]]
    perm, at = np.empty(len(leaf), np.int64), start.copy()
    for i in range(len(leaf)):
        perm[at[leaf[i]]] = i
        at[leaf[i]] += 1
    return perm, start, start + size
