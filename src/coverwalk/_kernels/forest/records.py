"""The records of a fitted tree: made from its fit, and made whole again from what a file holds."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.components import MAX_PLANE, REGRESSION, Learned, Records
from coverwalk._kernels.forest.contexts import Fit, Grid, Layout
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk._kernels.forest.regression import add_gram, kernel_matrix
from coverwalk._kernels.linalg.cholesky import factorise, pack

DIGITS = 36  # binary ones, that records keep


def kept_records(layout: Layout, grid: Grid, fit: Fit, weight: Floats, nonzero: Bools, p: int) -> Records:
    """The records of the local models with weight (N, M), with these weights (S, N, M); rows are still to come.

    Numbers keep `DIGITS` bits, functions as many below the scale of their context: what lies beyond is noise, and would
    be a quarter of a file.
    """
    n_nonzero, L = nonzero.sum(axis=1), len(grid.ridges)
    k = np.flatnonzero(n_nonzero)
    n, degree = (layout.end - layout.start)[k], fit.best[k] // L
    context, kind = np.nonzero(nonzero)
    s2 = np.where(kind == REGRESSION, fit.s2[context], fit.scale[context, kind - 1] ** 2)
    first = np.concatenate([[0], np.cumsum(n_nonzero)])
    scale = np.sqrt(np.minimum.reduceat(s2, first[k]))
    return whole_records(
        layout.parent,
        p,
        first=first,
        kind=np.ascontiguousarray(kind),
        weight=_rounded(weight[:, nonzero]),
        s2=_rounded(s2),
        centre=_rounded(fit.centre[k], scale[:, None]),
        mean=fit.mean[k],
        degree=degree,
        ridge=grid.ridges[fit.best[k] % L],
        averaged=(n > 0) & ~_in_rows(n, degree, p) & (n >= grid.many * _n_terms(p)[degree]),
        n_rows=n,
    )


def _rounded(values: Floats, scale: Floats | None = None) -> Floats:
    """Values to `DIGITS` bits below the scale, or of their own.

    >>> _rounded(np.array([1 / 3])) - 1 / 3, _rounded(np.array([1e6 / 3]), np.array([1e-6])) == 1e6 / 3
    (array([2.42...e-12]), array([ True]))
    """
    exponent = np.frexp(values if scale is None else scale)[1] - DIGITS
    return np.ascontiguousarray(np.ldexp(np.rint(np.ldexp(values, -exponent)), exponent))


def whole_records(
    parent: Ints, p: int, averaged: Bools, spans: tuple[Floats, ...] = (), **known: NDArray[Any]
) -> Records:
    """All arrays of records, given those that nothing else tells.

    averaged (C,): whether its mean leverage stands for all of a context's; spans: low, high, rows and factors, which
    `fill_spans` is to write otherwise.
    """
    first, weight, n, degree = (known[name] for name in ("first", "weight", "n_rows", "degree"))
    N, S, C = len(parent), len(weight), len(n)
    slot = np.full(N, -1)
    slot[np.diff(first) > 0] = np.arange(C)
    total, above = np.zeros((S, N)), np.full(N, -1)
    _sum_paths(parent, first, slot, weight, total, above)
    n_kept, order = span_sizes(n, degree, averaged, p)
    n_factors = order * (order + 1) // 2
    if not spans:
        spans = (
            np.full((C, p), math.inf),
            np.full((C, p), -math.inf),
            np.zeros((n_kept.sum(), p)),
            np.zeros(n_factors.sum()),
        )
    low, high, rows, factors = spans
    return Records(
        **known,
        total=total,
        above=above,
        slot=slot,
        low=low,
        high=high,
        leverage=np.where(averaged, _n_terms(p)[degree] / (n + known["ridge"]), np.where(n > 0, -1.0, 0.0)),
        rows_at=np.where(n_kept > 0, np.cumsum(n_kept) - n_kept, -1),
        rows=rows,
        factor_at=np.cumsum(n_factors) - n_factors,
        factors=factors,
    )


def span_sizes(n: Ints, degree: Ints, averaged: Bools, p: int) -> tuple[Ints, Ints]:
    """How many rows each context keeps, and the order of its factor; 0 where none is needed."""
    has = (n > 0) & ~averaged
    n_kept = np.where(has & _in_rows(n, degree, p), n, 0)
    return n_kept, np.where(has, np.where(n_kept > 0, n_kept, _n_terms(p)[degree]), 0)


def _n_terms(p: int) -> Ints:
    """Of polynomials of degree 0, 1, 2."""
    return np.array([n_features(degree, p) for degree in range(3)])


def _in_rows(n: Ints, degree: Ints, p: int) -> Bools:
    """Whether a prediction costs less from the n rows of a context than from its features."""
    size = _n_terms(p)[degree]
    few = np.minimum(n, size)
    return (n > 0) & (degree > 0) & (n <= size) & (few * (few + 6 * p) < size * size)


@kernel
def _sum_paths(parent: Ints, first: Ints, slot: Ints, weight: Floats, total: Floats, above: Ints) -> None:
    """Write what the records from the root down to each context sum up to."""
    for k in range(len(parent)):
        if k > 0:
            up = parent[k]
            for s in range(len(weight)):
                total[s, k] = total[s, up]
            above[k] = up if slot[up] >= 0 else above[up]
        for q in range(first[k], first[k + 1]):
            for s in range(len(weight)):
                total[s, k] += weight[s, q]


@kernel
def _slot_context(X: Floats, w: Floats, c: int, work: Floats, out: Records) -> None:
    """Range, rows and factor of the context in slot c, whose rows are X with weights w, or none."""
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
        for q in range(size):
            for a in range(X.shape[1]):
                out.rows[out.rows_at[c] + q, a] = X[q, a]
        kernel_matrix(X, g, A)
    else:
        for a in range(size):
            for j in range(size):
                A[a, j] = 0.0
        add_gram(X, w, g, A)
    for a in range(size):
        A[a, a] += out.ridge[c] if len(w) == 0 or out.rows_at[c] < 0 else out.ridge[c] / w[a]
    factorise(A, size)
    pack(A, size, out.factors, out.factor_at[c])


@kernel
def find_homes(layout: Layout, home: Ints) -> None:
    """Write which context's rows tell the range of each: its own, or where it has none the nearest one's above."""
    for k in range(len(home)):
        home[k] = k if layout.start[k] < layout.end[k] or k == 0 else home[layout.parent[k]]


@kernel
def fill_spans(X: Floats, layout: Layout, out: Records) -> None:
    """Write ranges, rows and factors of all contexts that have records; rows X sorted by leaf, as in fit_contexts."""
    d = out.centre.shape[1]
    work, home = np.empty((d, d)), np.empty(len(layout.start), np.int64)
    find_homes(layout, home)
    for k in range(len(home)):
        if out.slot[k] >= 0:
            s, e = layout.start[home[k]], layout.end[home[k]]
            _slot_context(X[s:e], layout.weight[s:e], out.slot[k], work, out)


def at_rest(records: Records) -> Learned:
    """Nothing learned yet."""
    C, p = records.low.shape
    m = p + 1 if p < MAX_PLANE else 1
    nu: Floats = records.n_rows.astype(np.float64) + 2.0
    choice, seen = np.zeros(len(records.kind)), np.zeros(C, np.int64)
    return Learned(np.zeros((C, m)), np.zeros((0, m, m)), nu, nu.copy(), np.zeros(C), choice, seen)
