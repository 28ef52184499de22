"""The records of a fitted tree, made from its fit."""

import numpy as np

from coverwalk._arrays import Bools, Floats
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.components import MAX_PLANE, REGRESSION, Learned, Records
from coverwalk._kernels.forest.contexts import Fit, Grid, Layout

DIGITS = 36  # binary ones, that records keep
RANGE = 2.0**-8  # ends of ranges are multiples of it, in units of x: others would be half of a file


def kept_records(
    layout: Layout, grid: Grid, fit: Fit, weight: Floats, nonzero: Bools, ranges: tuple[Floats, Floats]
) -> Records:
    """The records of the local models with weight (N, M), with these weights (S, N, M); ranges: low, high (N, p) of the
    rows of contexts.

    Numbers keep `DIGITS` bits, functions as many below the scale of their context: what lies beyond is noise, and would
    be a quarter of a file. Ranges reach outwards to multiples of `RANGE`.
    """
    n_nonzero = nonzero.sum(axis=1)
    k = np.flatnonzero(n_nonzero)
    context, kind = np.nonzero(nonzero)
    of_regression = fit.s2[context] * (1.0 + fit.leverage[context])
    s2 = np.where(kind == REGRESSION, of_regression, fit.scale[context, kind - 1] ** 2)
    first = np.concatenate([[0], np.cumsum(n_nonzero)])
    scale = np.sqrt(np.minimum.reduceat(s2, first[k]))
    return Records(
        first=first,
        kind=np.ascontiguousarray(kind),
        weight=_rounded(weight[:, nonzero]),
        s2=_rounded(s2),
        low=RANGE * np.floor(ranges[0][k] / RANGE),
        high=RANGE * np.ceil(ranges[1][k] / RANGE),
        centre=_rounded(fit.centre[k], scale[:, None]),
        mean=fit.mean[k],
        degree=fit.best[k] // len(grid.ridges),
        n_rows=(layout.end - layout.start)[k],
    )


def _rounded(values: Floats, scale: Floats | None = None) -> Floats:
    """Values to `DIGITS` bits below the scale, or of their own.

    >>> _rounded(np.array([1 / 3])) - 1 / 3, _rounded(np.array([1e6 / 3]), np.array([1e-6])) == 1e6 / 3
    (array([2.42...e-12]), array([ True]))
    """
    exponent = np.frexp(values if scale is None else scale)[1] - DIGITS
    return np.ascontiguousarray(np.ldexp(np.rint(np.ldexp(values, -exponent)), exponent))


@kernel
def context_ranges(X: Floats, layout: Layout, low: Floats, high: Floats) -> None:
    """Narrow low and high (N, p), infinite before, to the range of each context's rows X, sorted by leaf; to that of
    its parent where it has none.
    """
    N, p = low.shape
    for k in range(N - 1, -1, -1):
        left = layout.left[k]
        if left < 0:
            for q in range(layout.start[k], layout.end[k]):
                for a in range(p):
                    low[k, a], high[k, a] = min(low[k, a], X[q, a]), max(high[k, a], X[q, a])
            continue
        for a in range(p):
            low[k, a], high[k, a] = min(low[left, a], low[left + 1, a]), max(high[left, a], high[left + 1, a])
    for k in range(1, N):
        if layout.start[k] == layout.end[k]:
            for a in range(p):
                low[k, a], high[k, a] = low[layout.parent[k], a], high[layout.parent[k], a]


def at_rest(records: Records) -> Learned:
    """Nothing learned yet."""
    C, p = records.low.shape
    m = p + 1 if p < MAX_PLANE else 1
    nu: Floats = records.n_rows.astype(np.float64) + 2.0
    choice, seen = np.zeros(len(records.kind)), np.zeros(C, np.int64)
    return Learned(np.zeros((C, m)), np.zeros((0, m, m)), nu, nu.copy(), np.zeros(C), choice, seen)
