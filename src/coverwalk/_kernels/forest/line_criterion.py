"""Splits judged by the evidence of a line on either side: of residuals that the context's own line leaves."""

import math
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, UInts
from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.forest.category_split import best_prefix, missing_goes
from coverwalk._kernels.forest.feature_urn import Urn, draw_feature, empty_urn, put_feature
from coverwalk._kernels.forest.regression import add_gram, kernel_matrix
from coverwalk._kernels.forest.side_scores import RIDGE, line_evidence, line_table
from coverwalk._kernels.linalg.cholesky import back_solve, factorise, forward_solve
from coverwalk._kernels.linalg.splitmix import uniform

PER_FEATURE = 2  # candidates for each, where features are many

_NO_WEIGHT = np.empty(0)


class Lines(NamedTuple):
    """The rows of a growth that looks at a number, and work space."""

    r: Floats  # (n,) what the lines of the contexts so far have left of y
    plain: Floats  # (n, p) the rows without missing values and categories
    n_candidates: int  # splits drawn in a context
    work: tuple[Floats, Floats, Floats, Floats]
    column: tuple[Floats, Floats, Floats]  # see `_take_column`
    log_gamma: Floats
    urn: Urn


def lines_of(y: Floats, plain: Floats, n_candidates: int, sample: int) -> Lines:
    """For rows with these y (n,), judged by at most ``sample`` of them."""
    n, p = plain.shape
    most = min(n, sample)
    work = np.empty((most, p)), np.empty((p + 1, p + 1)), np.empty(p + 1), np.empty(max(most, p + 1))
    column = np.empty((p, most)), np.empty((p, most)), np.empty((p, 10))
    return Lines(y.copy(), plain, max(n_candidates, PER_FEATURE * p), work, column, line_table(most), empty_urn(n))


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
    X: Floats, r: Floats, perm: Ints, a: int, n: int, first: int, m: int, need: float, line: tuple[float, Floats]
) -> tuple[float, int]:
    """The best set of the n categories of column a, in the order of mean residuals."""
    size, sums, mean = np.zeros(n + 1), np.zeros((n + 1, 2)), np.zeros(n)
    for q in range(first, first + m):
        i = perm[q]
        category = n if math.isnan(X[i, a]) else int(X[i, a])
        size[category] += 1.0
        sums[category, 0] += r[i]
        sums[category, 1] += r[i] * r[i]
    for category in range(n):
        if size[category] > 0.0:
            mean[category] = sums[category, 0] / size[category]
    return best_prefix(size, sums, mean, need, line, None)


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
def line_split(
    X: Floats, perm: Ints, span: tuple[int, int], run: tuple[int, int, float], n_categories: Ints, lines: Lines,
    root: bool, state: UInts
) -> tuple[int, float, int]:  # fmt: skip
    """The candidate of most evidence on a run of the context's rows: its feature (-1 for none), split and mask.

    span: the context's rows perm[s:e]; run: the first of those that judge, how many, and how many a side needs.
    """
    p = X.shape[1]
    s, e = span
    first, m, need = run
    r, log_gamma, n_candidates = lines.r, lines.log_gamma, lines.n_candidates
    if not root:
        _subtract_line(lines.plain, r, perm, s, e, m, lines.work)
    values, residuals, known = lines.column
    s2, r_run = 1e-300, 0.0
    for q in range(first, first + m):
        s2 += r[perm[q]] ** 2 / m
        r_run += r[perm[q]]
    for a in range(p):
        known[a, 0] = -1.0  # not taken yet
    best, undivided, feature, best_split, best_mask = -math.inf, 0.0, -1, 0.0, 0
    for _ in range(n_candidates):
        a = draw_feature(lines.urn, p, state)
        u, v = uniform(state), uniform(state)
        if n_categories[a] > 0:
            log_evidence, mask = _best_categories(X, r, perm, a, n_categories[a], first, m, need, (s2, log_gamma))
            if log_evidence > best:
                best, feature, best_split, best_mask = log_evidence, a, math.nan, mask
                undivided = line_evidence(float(m), 0.0, r_run, 0.0, 0.0, m * s2, s2, log_gamma)
            continue
        if known[a, 0] < 0.0:
            _take_column(X, r, perm, first, m, a, lines.column)
        n_known = int(known[a, 0])
        missing, r_missing, rr_missing = float(m - n_known), known[a, 8], known[a, 9]
        low, high = known[a, 6], known[a, 7]
        split = X[perm[first + int(v * m)], a] if u < 0.5 else low + (high - low) * v
        if math.isnan(split):
            continue
        n0, x0, r0, xx0, xr0, rr0 = _below(values, residuals, a, n_known, split)
        n1, x1, r1 = n_known - n0, known[a, 1] - n_known * split - x0, known[a, 2] - r0
        xx1 = known[a, 3] - split * (2.0 * known[a, 1] - n_known * split) - xx0
        xr1, rr1 = known[a, 4] - split * known[a, 2] - xr0, known[a, 5] - rr0
        for side in range(1 if missing == 0.0 else 2):  # missing values lie on the split, on the left side or the right
            if missing > 0.0 and side == 0:
                n0, r0, rr0 = n0 + missing, r0 + r_missing, rr0 + rr_missing
            elif missing > 0.0:
                n0, r0, rr0 = n0 - missing, r0 - r_missing, rr0 - rr_missing
                n1, r1, rr1 = n1 + missing, r1 + r_missing, rr1 + rr_missing
            if n0 < need or n1 < need:
                continue
            log_evidence = line_evidence(n0, x0, r0, xx0, xr0, rr0, s2, log_gamma)
            log_evidence += line_evidence(n1, x1, r1, max(xx1, 0.0), xr1, max(rr1, 0.0), s2, log_gamma)
            if log_evidence > best:
                best, feature, best_split = log_evidence, a, split
                best_mask = missing_goes(np.int64(0), side == 0 if missing > 0.0 else n0 >= n1)
                xx, rr = max(xx0 + xx1, 0.0), max(rr0 + rr1, 0.0)
                undivided = line_evidence(n0 + n1, x0 + x1, r0 + r1, xx, xr0 + xr1, rr, s2, log_gamma)
    put_feature(lines.urn, feature, best - undivided)
    return feature, best_split, best_mask
