"""All trees of a fitted forest in four flat arrays, and their components in rows of X by one walk over them.

The answers of `components.write_components` tree by tree, without negligible components. What a context needs lies
side by side in ``store``: the range of its rows (2 p), its function's coefficients (d), the mean of y, its ridge or
mean leverage, then its rows where the leverage is told by them, and the factor with inverted diagonals.
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.forest.components import DENSITY_OF_Y, REGRESSION, Records
from coverwalk._kernels.forest.node import route
from coverwalk._kernels.forest.polynomial import features, inner_product, n_features
from coverwalk._kernels.linalg.prefetch import prefetch

__all__ = [
    "CONTEXT",
    "END",
    "OUTLIERS",
    "RECORD",
    "count_components",
    "fill_store",
    "flat_components",
    "route_rows",
    "scale_rows",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Weight, in its tree, of a component that is left out. The distribution of outliers has a weight of 1e-8 at 10^7 rows
# and a scale at most 10^4 times that of the component: no density changes by more than 1e-9 of itself.
NEGLIGIBLE = 1e-22
OUTLIERS = -1  # label of the component that is in no tree
LINES = 4  # of the cache that a context takes at least, and that are fetched ahead
SORTED_ROWS = 64  # from which rows are taken leaf by leaf: contexts are then read where they were read before

END = np.dtype(  # what is read where it ends
    [
        ("total", np.float64),  # weight of the records from here to the root
        ("context", np.int32),  # the first to be read, -1 for none
        ("n_contexts", np.int32),  # to be read
        ("count", np.int32),  # of components
    ],
    align=True,
)
CONTEXT = np.dtype(
    [
        ("at", np.int64),  # in the store
        ("up", np.int32),  # the next one to be read, -1 for none
        ("first", np.int32),  # records first:last
        ("last", np.int32),
        ("label", np.int32),
        ("degree", np.int32),  # of its function
        ("best", np.int32),  # degree of which the factor is
        ("n_rows", np.int32),  # in the store; 0 where the factor is of features, -1 for a mean leverage
    ],
    align=True,
)
RECORD = np.dtype(
    [("weight", np.float64), ("s2", np.float64), ("kind", np.int32), ("shape", np.int32)],
    align=True,
)


@kernel
def fill_store(records: Records, degree: int, at: Ints, store: Floats) -> None:
    """Write the contexts of one tree into the store, from at (C,) on."""
    p, d = records.low.shape[1], n_features(degree, records.low.shape[1])
    for c in range(len(at)):
        j = at[c]
        for a in range(p):
            store[j + a], store[j + p + a] = records.low[c, a], records.high[c, a]
        j += 2 * p
        for a in range(d):
            store[j + a] = records.centre[c, a]
        j += d
        store[j], store[j + 1] = records.mean[c], records.ridge[c]
        j += 2
        if records.leverage[c] >= 0.0:
            store[j - 1] = records.leverage[c]
            continue
        size = n_features(records.degree[c], p)
        if records.rows_at[c] >= 0:
            size = records.n_rows[c]
            for i in range(size):
                for a in range(p):
                    store[j] = records.rows[records.rows_at[c] + i, a]
                    j += 1
        at_factor = records.factor_at[c]
        for k in range(size):
            store[j] = 1.0 / records.factors[at_factor]
            for i in range(1, size - k):
                store[j + i] = records.factors[at_factor + i]
            at_factor += size - k
            j += size - k


@kernel
def count_components(nodes: Any, ends: Any, contexts: Any, records: Any, cut_off: bool) -> None:
    """Count the components of each node, and the contexts up to the last that has some.

    With cut_off, nodes below which no context has records become leaves.
    """
    below = np.zeros(len(nodes), np.bool_)
    for k in range(len(nodes) - 1, -1, -1):
        left = nodes[k].left
        if left >= 0:
            for child in range(left, left + 2):
                c = ends[child].context
                below[k] |= below[child] or (c >= 0 and contexts[c].label == child)
            if cut_off and not below[k]:
                nodes[k].left = -1
        if nodes[k].left >= 0:
            continue
        least = NEGLIGIBLE * ends[k].total
        c, depth, n_contexts, count = ends[k].context, 0, 0, 0
        while c >= 0:
            depth += 1
            for q in range(contexts[c].first, contexts[c].last):
                if records[q].weight >= least:
                    count += 1
                    n_contexts = depth
            c = contexts[c].up
        ends[k].n_contexts, ends[k].count = n_contexts, count


@kernel
def scale_rows(X: Floats, centre: Floats, scale: Floats, category: Floats, Z: Floats, plain: Floats) -> bool:
    """As `Scaling.forward` into Z (n, p), and without missing values and categories into plain; category (p,): 1 or 0.

    Returns whether all numbers lie in the linear part of the map: where not, NumPy must do it, since a logarithm must
    come out the same bits as when the tree was grown.
    """
    n, p = X.shape
    for i in range(n):
        for a in range(p):
            z = (0.5 * X[i, a] - 0.5 * centre[a]) / (0.5 * scale[a])
            if category[a] > 0.0:
                Z[i, a], plain[i, a] = X[i, a], 0.0
                continue
            if abs(z) > 4.0:
                return False
            Z[i, a] = z
            plain[i, a] = z if z == z else 0.0
    return True


@kernel
def route_rows(Z: Floats, nodes: Any, ends: Any, root: Ints, fixed: int, leaf: Ints, offsets: Ints) -> None:
    """Fill leaf (T, n), and offsets (n + 1,) of the rows' components, of which ``fixed`` are in no tree."""
    n = len(Z)
    offsets[:] = fixed
    offsets[0] = 0
    for t in range(len(leaf)):
        route(Z, nodes, root[t], leaf[t])
        for i in range(n):
            offsets[i + 1] += ends[leaf[t, i]].count
    for i in range(n):
        offsets[i + 1] += offsets[i]


@fused_kernel
def _solve(store: Floats, at: int, d: int, z: Floats) -> float:
    """z' (U'U)^-1 z for a packed factor with inverted diagonal; z is overwritten."""
    square = 0.0
    for k in range(d):
        t = z[k] * store[at]
        square += t * t
        at -= k
        for j in range(k + 1, d):
            z[j] -= t * store[at + j]
        at += d
    return square


@fused_kernel
def _value(x: Floats, degree: int, store: Floats, at: int) -> float:
    """The polynomial whose coefficients are store[at:], at x."""
    p = len(x)
    total = store[at]
    if degree >= 1:
        for a in range(p):
            total += store[at + 1 + a] * x[a]
    if degree >= 2:
        at += 1 + p
        for a in range(p):
            inner = 0.0
            for b in range(a + 1):
                inner += store[at + b] * x[b]
            total += inner * x[a]
            at += a + 1
    return total


@kernel
def _leverage(store: Floats, at: int, n: int, degree: int, x: Floats, f: Floats) -> float:
    """How much farther than a context's rows x lies: f(x)' (F'F + ridge I)^-1 f(x)."""
    p = len(x)
    if n < 0:
        return store[at - 1]
    if n == 0:
        features(x, degree, f)
        return _solve(store, at, n_features(degree, p), f)
    for j in range(n):
        f[j] = inner_product(store[at + j * p : at + j * p + p], x, degree)
    return max(inner_product(x, x, degree) - _solve(store, at + n * p, n, f), 0.0) / store[at - 1]


@kernel
def _sort_by(leaf: Ints, first: int, last: int, order: Ints) -> None:
    """Fill order (n,): rows by leaf, where these are nodes first:last."""
    start = np.zeros(last - first + 1, np.int64)
    for k in leaf:
        start[k - first + 1] += 1
    for k in range(1, len(start)):
        start[k] += start[k - 1]
    for i in range(len(leaf)):
        order[start[leaf[i] - first]] = i
        start[leaf[i] - first] += 1


@kernel
def flat_components(
    rows: tuple[Any, ...], forest: tuple[Any, ...], units: tuple[float, ...], at: Ints, out: tuple[Any, ...]
) -> None:
    """Write the components of each row from at (n,) on, the outliers' first, and move at past them.

    rows: Z and plain (n, p), leaf (T, n) and the trend (n,). forest: ends, contexts, records, store, root (T + 1,),
    smooth (T,), whether locations count from the trend, the columns (m,) that had missing values, their means (N, m) in
    each node, and the largest number of features or rows of a context. units: centre and unit of y, unit of scales,
    weights of the outliers and of a tree. out: weight, loc, scale, shape, label.
    """
    Z, plain, leaf, trend = rows
    ends, contexts, records, store, root, smooth, column, mean, capacity = forest
    middle, unit, spread, outlier, share = units
    out_weight, out_loc, out_scale, out_shape, out_label = out
    n, p = plain.shape
    seen, x, f, order = np.empty(p), np.empty(p), np.empty(capacity), np.arange(n)
    for i in range(n):
        out_weight[at[i]], out_loc[at[i]], out_scale[at[i]] = outlier, middle, unit
        out_shape[at[i]], out_label[at[i]] = 0, OUTLIERS
        at[i] += 1
    for t in range(len(leaf)):
        if n >= SORTED_ROWS:
            _sort_by(leaf[t], root[t], root[t + 1], order)
        for q in range(n):
            i = order[q]
            if q + 3 < n:  # what the next rows will read
                prefetch(ends, np.uint64(leaf[t, order[q + 3]]))
                prefetch(contexts, np.uint64(max(ends[leaf[t, order[q + 2]]].context, 0)))
                ahead = contexts[max(ends[leaf[t, order[q + 1]]].context, 0)].at
                for line in range(LINES):
                    prefetch(store, np.uint64(ahead + 8 * line))
            k = leaf[t, i]
            for a in range(p):
                seen[a] = plain[i, a]
            for m in range(len(column)):
                if Z[i, column[m]] != Z[i, column[m]]:
                    seen[column[m]] = mean[k, m]
            origin = trend[i] if smooth[t] else 0.0
            total = ends[k].total
            least = NEGLIGIBLE * total
            c, j = ends[k].context, at[i]
            for _ in range(ends[k].n_contexts):
                base = contexts[c].at
                for a in range(p):
                    x[a] = min(max(seen[a], store[base + a]), store[base + p + a])
                base += 2 * p
                loc = _value(x, contexts[c].degree, store, base)
                base += n_features(contexts[c].degree, p)
                for r in range(contexts[c].first, contexts[c].last):
                    if records[r].weight < least:
                        continue
                    inflation = 1.0
                    if records[r].kind == REGRESSION:
                        inflation += _leverage(store, base + 2, contexts[c].n_rows, contexts[c].best, x, f)
                    out_weight[j] = records[r].weight / total * share
                    out_loc[j] = middle + unit * (origin + (store[base] if records[r].kind >= DENSITY_OF_Y else loc))
                    out_scale[j] = spread * math.sqrt(records[r].s2 * inflation)
                    out_shape[j] = records[r].shape
                    out_label[j] = contexts[c].label
                    j += 1
                c = contexts[c].up
            at[i] = j
