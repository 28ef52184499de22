"""Grow one tree of contexts from rows, looking at y: each split is the best of a few drawn at random."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.forest.regression import add_gram, kernel_matrix
from coverwalk._kernels.forest.split import goes_right, mask_of, missing_goes, order_categories
from coverwalk._kernels.linalg.cholesky import back_solve, factorise, forward_solve
from coverwalk._kernels.linalg.splitmix import mix, uniform

__all__ = ["arrange", "empty_nodes", "grow", "route"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Nodes = tuple[Ints, Ints, Ints, Floats, Ints]  # dim, left, parent, cut, levels

_NO_WEIGHT = np.empty(0)
RIDGE = 1.0  # of a context's own linear model, and of the line on each side of a candidate cut
PRIOR_ROWS = 2.0  # a side's variance starts at the context's, with this weight


@kernel
def _side_evidence(
    n: float, x: float, r: float, xx: float, xr: float, rr: float, s2: float, log_gamma: Floats
) -> float:
    """Log evidence of a ridge line with its own variance on one side, without the term of the determinant.

    That term would make every cut pay for its two lines; all candidates have them, and small sides would win by it.
    """
    a, c = n + RIDGE, xx + RIDGE
    explained = (c * r * r - 2.0 * x * r * xr + a * xr * xr) / (a * c - x * x)
    psi = PRIOR_ROWS * s2 + max(rr - explained, 0.0)
    return log_gamma[int(n)] - 0.5 * (PRIOR_ROWS + n) * math.log(psi / s2)


@kernel
def _gammas(n: int) -> Floats:
    """log Gamma((PRIOR_ROWS + k) / 2) for k = 0..n rows on a side."""
    log_gamma = np.empty(n + 1)
    for k in range(n + 1):
        log_gamma[k] = math.lgamma(0.5 * (PRIOR_ROWS + k))
    return log_gamma


@kernel
def _subtract_line(X: Floats, r: Floats, perm: Ints, s: int, e: int, n_sample: int, work: tuple[Floats, ...]) -> None:
    """Take the context's own ridge-linear fit, made on its first rows, off the residuals of all its rows.

    With fewer rows than coefficients it is solved for the rows: c = F'alpha.
    """
    rows, A, b, alpha = work
    p = X.shape[1]
    d = p + 1
    for q in range(n_sample):
        i = perm[s + q]
        alpha[q] = r[i]
        for a in range(p):
            rows[q, a] = X[i, a]
    size = min(n_sample, d)
    if n_sample < d:
        kernel_matrix(rows[:n_sample], 1, A)
    else:
        for a in range(d):
            for j in range(a, d):
                A[a, j] = 0.0
        add_gram(rows[:n_sample], _NO_WEIGHT, 1, A)
        _add_rows(rows, alpha, n_sample, b)
        for a in range(d):
            alpha[a] = b[a]
    for a in range(size):
        A[a, a] += RIDGE
    factorise(A, size)
    forward_solve(A, size, alpha, 0)
    back_solve(A, size, alpha)
    if n_sample < d:
        _add_rows(rows, alpha, n_sample, b)
    else:
        for a in range(d):
            b[a] = alpha[a]
    for q in range(s, e):
        i = perm[q]
        t = b[0]
        for a in range(p):
            t += b[a + 1] * X[i, a]
        r[i] -= t


@fused_kernel
def _add_rows(rows: Floats, weight: Floats, n: int, b: Floats) -> None:
    """b = F'weight, features one and the columns of n rows."""
    for a in range(len(b)):
        b[a] = 0.0
    for q in range(n):
        t = weight[q]
        b[0] += t
        for a in range(rows.shape[1]):
            b[a + 1] += t * rows[q, a]


@kernel
def _best_categories(
    X: Floats,
    r: Floats,
    perm: Ints,
    a: int,
    n_categories: int,
    sample: tuple[int, int, float, float],
    log_gamma: Floats,
) -> tuple[float, int]:
    """The best set of levels of category a: of those that are prefixes in the order of mean residuals.

    sample: its first row, its rows, their residual variance, and the least rows on a side. Returns the log evidence and
    the mask of the set; missing values and levels without rows go to the side of more evidence or, where there are no
    missing ones, of more rows.
    """
    s, m, s2, need = sample
    size, total, square = np.zeros(n_categories + 1), np.zeros(n_categories + 1), np.zeros(n_categories + 1)
    mean, order = np.zeros(n_categories), np.zeros(n_categories, np.int64)
    for q in range(s, s + m):
        i = perm[q]
        category = n_categories if math.isnan(X[i, a]) else int(X[i, a])
        size[category] += 1.0
        total[category] += r[i]
        square[category] += r[i] * r[i]
    n = rest = rest_square = 0.0
    for category in range(n_categories):
        if size[category] > 0.0:
            mean[category] = total[category] / size[category]
        n, rest, rest_square = n + size[category], rest + total[category], rest_square + square[category]
    present = order_categories(mean, size[:n_categories], order)
    missing, best, best_mask = size[n_categories], -math.inf, 0
    below, low, low_square = 0.0, 0.0, 0.0
    for taken in range(1, present + (missing > 0.0)):  # all levels against the missing ones is a split too
        category = order[taken - 1]
        below, low, low_square = below + size[category], low + total[category], low_square + square[category]
        for side in range(2 if missing > 0.0 else 1):  # where missing values go
            n0, r0, rr0 = below, low, low_square
            n1, r1, rr1 = n - below, rest - low, rest_square - low_square
            if missing > 0.0 and side == 0:
                n0, r0, rr0 = n0 + missing, r0 + total[n_categories], rr0 + square[n_categories]
            elif missing > 0.0:
                n1, r1, rr1 = n1 + missing, r1 + total[n_categories], rr1 + square[n_categories]
            if n0 < need or n1 < need:
                continue
            log_evidence = _side_evidence(n0, 0.0, r0, 0.0, 0.0, rr0, s2, log_gamma)
            log_evidence += _side_evidence(n1, 0.0, r1, 0.0, 0.0, rr1, s2, log_gamma)
            if log_evidence > best:
                best = log_evidence
                best_mask = mask_of(order, taken, present, n0 >= n1)
                if missing > 0.0:
                    best_mask = missing_goes(best_mask, side == 0)
    return best, best_mask


@fused_kernel
def _take_column(
    X: Floats, r: Floats, perm: Ints, s: int, n: int, a: int, column: tuple[Floats, Floats, Floats]
) -> None:
    """Column a of rows perm[s : s + n], those that have a value side by side, and what there is to know of it.

    column: values (p, n), residuals (p, n), and (p, 10) how many, the sums of x, r, xx, xr and rr, the least and the
    largest x, and the sums of r and rr of the other rows.
    """
    values, residuals, known = column
    m, x1, r1, xx, xr, rr, r_missing, rr_missing = 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    low, high = math.inf, -math.inf
    for q in range(s, s + n):
        x, y = X[perm[q], a], r[perm[q]]
        if math.isnan(x):
            r_missing += y
            rr_missing += y * y
            continue
        values[a, m], residuals[a, m] = x, y
        low, high = min(low, x), max(high, x)
        x1 += x
        r1 += y
        xx += x * x
        xr += x * y
        rr += y * y
        m += 1
    known[a, 0], known[a, 1], known[a, 2], known[a, 3], known[a, 4], known[a, 5] = m, x1, r1, xx, xr, rr
    known[a, 6], known[a, 7], known[a, 8], known[a, 9] = low, high, r_missing, rr_missing


@fused_kernel
def _below(
    values: Floats, residuals: Floats, a: int, n: int, split: float
) -> tuple[float, float, float, float, float, float]:
    """Rows of column a at or below a split, and their sums of x, r, xx, xr, rr, x counted from the split.

    Without branches, so that it vectorises: which side a row is on cannot be guessed.
    """
    n0, x0, r0, xx0, xr0, rr0 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for q in range(n):
        left = 1.0 if values[a, q] <= split else 0.0
        x, y = left * (values[a, q] - split), left * residuals[a, q]
        n0 += left
        x0 += x
        r0 += y
        xx0 += x * x
        xr0 += x * y
        rr0 += y * y
    return n0, x0, r0, xx0, xr0, rr0


@kernel
def _best_split(
    X: Floats,
    r: Floats,
    perm: NDArray[np.int64],
    s: int,
    n: int,
    n_sample: int,
    min_rows: int,
    n_candidates: int,
    n_categories: Ints,
    state: NDArray[np.uint64],
    column: tuple[Floats, Floats, Floats],
    log_gamma: Floats,
) -> tuple[int, float, int]:
    """The candidate of most evidence on a sample of the context's rows: its dimension (-1 for none), cut and mask."""
    p = X.shape[1]
    values, residuals, known = column
    # A run of rows from a random place: rows are in random order already, and every tree sees another run.
    offset = int(uniform(state) * (n - n_sample + 1))
    s += offset
    s2 = 1e-300
    for q in range(s, s + n_sample):
        s2 += r[perm[q]] ** 2 / n_sample
    for a in range(p):
        known[a, 0] = -1.0  # not taken yet
    need = float(min_rows) if n_sample == n else max(2.0, min_rows * n_sample / n)
    best, best_dim, best_split, best_mask = -math.inf, -1, 0.0, 0
    for _ in range(n_candidates):
        a = int(uniform(state) * p)
        u, v = uniform(state), uniform(state)
        if n_categories[a] > 0:
            log_evidence, mask = _best_categories(X, r, perm, a, n_categories[a], (s, n_sample, s2, need), log_gamma)
            if log_evidence > best:
                best, best_dim, best_split, best_mask = log_evidence, a, math.nan, mask
            continue
        if known[a, 0] < 0.0:
            _take_column(X, r, perm, s, n_sample, a, column)
        m = int(known[a, 0])
        missing, r_missing, rr_missing = float(n_sample - m), known[a, 8], known[a, 9]
        low, high = known[a, 6], known[a, 7]
        split = X[perm[s + int(v * n_sample)], a] if u < 0.5 else low + (high - low) * v
        if math.isnan(split):
            continue
        n0, x0, r0, xx0, xr0, rr0 = _below(values, residuals, a, m, split)
        n1, x1, r1 = m - n0, known[a, 1] - m * split - x0, known[a, 2] - r0
        xx1 = known[a, 3] - split * (2.0 * known[a, 1] - m * split) - xx0
        xr1, rr1 = known[a, 4] - split * known[a, 2] - xr0, known[a, 5] - rr0
        for side in range(1 if missing == 0.0 else 2):  # missing values lie on the split, on the left side or the right
            if missing > 0.0 and side == 0:
                n0, r0, rr0 = n0 + missing, r0 + r_missing, rr0 + rr_missing
            elif missing > 0.0:
                n0, r0, rr0 = n0 - missing, r0 - r_missing, rr0 - rr_missing
                n1, r1, rr1 = n1 + missing, r1 + r_missing, rr1 + rr_missing
            if n0 < need or n1 < need:
                continue
            log_evidence = _side_evidence(n0, x0, r0, xx0, xr0, rr0, s2, log_gamma)
            log_evidence += _side_evidence(n1, x1, r1, max(xx1, 0.0), xr1, max(rr1, 0.0), s2, log_gamma)
            if log_evidence > best:
                best, best_dim, best_split = log_evidence, a, split
                best_mask = missing_goes(np.int64(0), side == 0 if missing > 0.0 else n0 >= n1)
    return best_dim, best_split, best_mask


@kernel
def _plain(X: Floats, n_categories: Ints) -> Floats:
    """X for a linear model: missing values at their column's centre, categories left out; X itself if it can be."""
    n, p = X.shape
    numbers = True
    for a in range(p):
        numbers = numbers and n_categories[a] == 0
    for i in range(n):
        for a in range(p):
            numbers = numbers and X[i, a] == X[i, a]
    if numbers:
        return X
    plain = np.zeros((n, p))
    for i in range(n):
        for a in range(p):
            if n_categories[a] == 0 and X[i, a] == X[i, a]:
                plain[i, a] = X[i, a]
    return plain


def empty_nodes(n: int, min_rows: int) -> Nodes:
    """Capacity for any tree that `grow` can make of n rows."""
    capacity = max(2 * (n // max(min_rows, 1)) + 1, 1)
    feature, left, parent = (np.full(capacity, -1) for _ in range(3))
    return feature, left, parent, np.zeros(capacity), np.zeros(capacity, np.int64)


@kernel
def grow(
    X: Floats,
    residual: Floats,
    n_categories: Ints,
    seed: int,
    min_rows: int,
    n_candidates: int,
    sample: int,
    nodes: Nodes,
) -> int:
    """Grow a tree on rows X (n, p), in random order, and residuals (n,); parents come before children, siblings side
    by side. Column a has numbers, or the numbers of n_levels[a] > 0 levels; NaN is missing.

    Fills the first N of the `empty_nodes` with dim, left, parent, cut and levels, and returns N: left[k] = -1 in a
    leaf, else the children are left[k] and left[k] + 1, and `goes_right` says which is whose.
    """
    n, p = X.shape
    feature, left, parent, split, categories = nodes
    capacity = len(feature)
    start, end = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    name = np.zeros(capacity, np.uint64)  # a context's own random stream: it depends on the path alone
    perm, spare, r, plain = np.arange(n), np.empty(n, np.int64), residual.copy(), _plain(X, n_categories)
    state, most = np.zeros(1, np.uint64), min(n, sample)
    work = (np.empty((most, p)), np.empty((p + 1, p + 1)), np.empty(p + 1), np.empty(max(most, p + 1)))
    column, log_gamma = (np.empty((p, most)), np.empty((p, most)), np.empty((p, 10))), _gammas(most)
    end[0], name[0], n_nodes = n, mix(np.uint64(seed)), 1
    k = 0
    while k < n_nodes:
        s, e = start[k], end[k]
        m = e - s
        if m >= 2 * min_rows and p > 0:
            state[0] = name[k]
            n_sample = min(m, sample)
            if k > 0:
                _subtract_line(plain, r, perm, s, e, n_sample, work)
            a, c, mask = _best_split(
                X, r, perm, s, m, n_sample, min_rows, n_candidates, n_categories, state, column, log_gamma
            )
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
                    feature[k], split[k], categories[k], left[k] = a, c, mask, n_nodes
                    for side in range(2):
                        child = n_nodes + side
                        parent[child] = k
                        name[child] = mix(name[k] + np.uint64(side + 1))
                        start[child] = s if side == 0 else s + n_left
                        end[child] = s + n_left if side == 0 else e
                    n_nodes += 2
        k += 1
    return n_nodes


@kernel
def route(X: Floats, feature: Ints, left: Ints, split: Floats, categories: Ints, leaf: Ints) -> None:
    """Write the leaf of every row of X (n, p) to leaf (n,)."""
    for i in range(len(X)):
        k = 0
        while left[k] >= 0:
            k = left[k] + goes_right(X[i, feature[k]], split[k], categories[k])
        leaf[i] = k


@kernel
def arrange(leaf: Ints, left: Ints, perm: Ints, start: Ints, end: Ints) -> None:
    """Sort rows by leaf so that every context holds one run of them, rows of a leaf keeping their order.

    Writes perm (n,), start (N,) and end (N,): context k holds rows perm[start[k]:end[k]].
    """
    N = len(left)
    size = np.zeros(N, np.int64)
    start[0] = 0
    for k in leaf:
        size[k] += 1
    for k in range(N - 1, -1, -1):
        if left[k] >= 0:
            size[k] = size[left[k]] + size[left[k] + 1]
    for k in range(N):
        if left[k] >= 0:
            start[left[k]] = start[k]
            start[left[k] + 1] = start[k] + size[left[k]]
    for k in range(N):
        end[k] = start[k] + size[k]
    at = start.copy()
    for i in range(len(leaf)):
        perm[at[leaf[i]]] = i
        at[leaf[i]] += 1
