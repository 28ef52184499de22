"""All trees of a fitted forest in two flat arrays, nodes and a store, and their components in rows of X by one walk.

The answers of `components.write_components` tree by tree, without negligible components. All that a context needs lies
side by side in the store, so that few lines of the cache hold it:

    up, label         where the next context to be read begins, -1 for none; and its node
    models, n_rows    best degree + 4 times the number of its records; rows in the store, 0 for a factor of features,
                      -1 for a mean leverage
    records           of each its weight, its squared scale, and kind + 4 times its shape
    low, high         (2 p) the range of its rows
    centre            (d) coefficients of its function
    mean, ridge       of y; ridge, or mean leverage
    rows, factor      its rows where the leverage is told by them, and the inverse of the factor, row by row
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.forest.components import DENSITY_OF_Y, OUTLIERS, REGRESSION, Records
from coverwalk._kernels.forest.node import by_leaf, route
from coverwalk._kernels.forest.polynomial import inner_product, n_features
from coverwalk._kernels.linalg.prefetch import prefetch

__all__ = ["HEAD", "count_components", "fill_store", "flat_components", "route_rows"]


# Weight, in its tree, of a component that is left out. The distribution of outliers has a weight of 1e-8 at 10^7 rows
# and a scale at most 10^4 times that of the component: no density changes by more than 1e-9 of itself.
NEGLIGIBLE = 1e-22
HEAD, RECORD = 4, 3  # numbers of a context before its records, and of a record
LINES = 5  # of the cache, that are fetched ahead of a context
SORTED_ROWS = 64  # from which rows are taken leaf by leaf: contexts are then read where they were read before


@kernel
def fill_store(records: Records, shape: Any, degree: int, heads: tuple[Ints, Ints, Ints], store: Floats) -> None:
    """Write the contexts of one tree into the store; heads: of each (C,) where it begins, where the next one to be read
    does, and its label.
    """
    at, up, label = heads
    p, d = records.low.shape[1], n_features(degree, records.low.shape[1])
    for k in range(len(records.slot)):
        c = records.slot[k]
        if c < 0:
            continue
        j = at[c]
        averaged, in_rows = records.leverage[c] >= 0.0, records.rows_at[c] >= 0
        store[j], store[j + 1] = up[c], label[c]
        store[j + 2] = records.degree[c] + 4 * (records.first[k + 1] - records.first[k])
        store[j + 3] = -1 if averaged else records.n_rows[c] if in_rows else 0
        j += HEAD
        for q in range(records.first[k], records.first[k + 1]):
            store[j], store[j + 1], store[j + 2] = records.weight[0, q], records.s2[q], records.kind[q] + 4 * shape[q]
            j += RECORD
        for a in range(p):
            store[j + a], store[j + p + a] = records.low[c, a], records.high[c, a]
        j += 2 * p
        for a in range(d):
            store[j + a] = records.centre[c, a]
        j += d
        store[j], store[j + 1] = records.mean[c], records.leverage[c] if averaged else records.ridge[c]
        j += 2
        if averaged:
            continue
        size = n_features(records.degree[c], p)
        if in_rows:
            size = records.n_rows[c]
            for i in range(size):
                for a in range(p):
                    store[j] = records.rows[records.rows_at[c] + i, a]
                    j += 1
        _invert(records.factors, records.factor_at[c], size, store, j)


@fused_kernel
def _invert(factors: Floats, first: int, d: int, store: Floats, at: int) -> None:
    """Write the rows of V, V' being the inverse of the packed upper factor factors[first:], from store[at] on."""
    row = at
    for k in range(d):
        for j in range(k + 1):
            store[row + j] = 0.0
        above, place = at, first + k
        for i in range(k):
            factor = factors[place]
            for j in range(i + 1):
                store[row + j] -= factor * store[above + j]
            above += i + 1
            place += d - 1 - i
        inverse = 1.0 / factors[place]
        for j in range(k):
            store[row + j] *= inverse
        store[row + k] = inverse
        row += k + 1


@kernel
def count_components(nodes: Any, total: Floats, first: Ints, store: Floats, cut_off: bool) -> None:
    """Make leaves tell what is read where a row ends: nodes whose split is the weight of the records from there to
    the root, total (N,), whose categories are where the first context begins, first (N,), whose feature is the number
    of components, and whose left is -1 less the number of contexts up to the last that has some.

    With cut_off, nodes below which no context has records become leaves.
    """
    below = np.zeros(len(nodes), np.bool_)
    for k in range(len(nodes) - 1, -1, -1):
        left = nodes[k].left
        if left >= 0:
            for child in range(left, left + 2):
                below[k] |= below[child] or (first[child] >= 0 and store[first[child] + 1] == child)
            if below[k] or not cut_off:
                continue
        at, depth, n_contexts, count = first[k], 0, 0, 0
        while at >= 0:
            depth += 1
            for q in range(np.int64(store[at + 2]) // 4):
                if store[at + HEAD + RECORD * q] >= NEGLIGIBLE * total[k]:
                    count += 1
                    n_contexts = depth
            at = np.int64(store[at])
        nodes[k].split, nodes[k].categories = total[k], first[k]
        nodes[k].feature, nodes[k].left = count, -1 - n_contexts


@kernel
def route_rows(Z: Floats, nodes: Any, root: Ints, fixed: int, leaf: Ints, offsets: Ints) -> None:
    """Fill leaf (T, n), and offsets (n + 1,) of the rows' components, of which ``fixed`` are in no tree."""
    n = len(Z)
    offsets[:] = fixed
    offsets[0] = 0
    route(Z, nodes, root, leaf)
    for t in range(len(leaf)):
        for i in range(n):
            offsets[i + 1] += nodes[leaf[t, i]].feature
    for i in range(n):
        offsets[i + 1] += offsets[i]


@fused_kernel
def _square(store: Floats, at: int, d: int, z: Floats) -> float:
    """The squared length of V z, the rows of a lower triangular V being store[at:]."""
    square = 0.0
    for k in range(d):
        t = 0.0
        for j in range(k + 1):
            t += store[at + j] * z[j]
        square += t * t
        at += k + 1
    return square


@fused_kernel
def _dot(store: Floats, at: int, d: int, f: Floats) -> float:
    total = 0.0
    for k in range(d):
        total += store[at + k] * f[k]
    return total


@kernel
def _distance(store: Floats, at: int, n: int, degree: int, p: int, f: Floats, z: Floats) -> float:
    """How much farther than a context's n rows x lies: f(x)' (F'F + ridge I)^-1 f(x), by the rows."""
    for j in range(n):
        z[j] = inner_product(store, at + j * p, f, 1, p, degree)
    own = inner_product(f, 1, f, 1, p, degree)
    return max(own - _square(store, at + n * p, n, z), 0.0) / store[at - 1]


@kernel
def flat_components(
    rows: tuple[Any, ...], forest: tuple[Any, ...], units: tuple[float, ...], at: Ints, out: tuple[Any, ...]
) -> None:
    """Write the components of each row from at (n,) on, the outliers' first, and move at past them.

    rows: Z and plain (n, p), leaf (T, n) and the trend (n,). forest: nodes, store, root (T + 1,), degree (T,) of the
    functions, smooth (T,), whether locations count from the trend, the columns (m,) that had missing values, their
    means (N, m) in each node, and the largest number of features or rows of a context. units: centre and unit of y,
    unit of scales, weights of the outliers and of a tree. out: weight, loc, scale, shape, label.
    """
    Z, plain, leaf, trend = rows
    nodes, store, root, degrees, smooth, column, mean, capacity = forest
    middle, unit, spread, outlier, share = units
    out_weight, out_loc, out_scale, out_shape, out_label = out
    n, p = plain.shape
    seen, f, z, order = np.empty(p), np.ones(capacity), np.empty(capacity), np.arange(n)
    for i in range(n):
        out_weight[at[i]], out_loc[at[i]], out_scale[at[i]] = outlier, middle, unit
        out_shape[at[i]], out_label[at[i]] = 0, OUTLIERS
        at[i] += 1
    if n < SORTED_ROWS:  # nothing is read twice: what all trees will read
        for t in range(len(leaf)):
            for i in range(n):
                for line in range(LINES):
                    prefetch(store, np.uint64(max(nodes[leaf[t, i]].categories, 0) + 8 * line))
    for t in range(len(leaf)):
        degree, d = degrees[t], n_features(degrees[t], p)
        if n >= SORTED_ROWS:
            by_leaf(leaf[t], root[t], root[t + 1], order)
        for q in range(n):
            i = order[q]
            if n >= SORTED_ROWS and q + 2 < n:  # what the next rows will read
                prefetch(nodes, np.uint64(leaf[t, order[q + 2]]))
                ahead = max(nodes[leaf[t, order[q + 1]]].categories, 0)
                for line in range(LINES):
                    prefetch(store, np.uint64(ahead + 8 * line))
            k = leaf[t, i]
            for a in range(p):
                seen[a] = plain[i, a]
            for m in range(len(column)):
                if Z[i, column[m]] != Z[i, column[m]]:
                    seen[column[m]] = mean[k, m]
            origin = trend[i] if smooth[t] else 0.0
            total, c, j = nodes[k].split, nodes[k].categories, at[i]
            for left in range(-1 - nodes[k].left, 0, -1):
                up, models = np.int64(store[c]), np.int64(store[c + 2])
                if left > 1:
                    for line in range(LINES):
                        prefetch(store, np.uint64(up + 8 * line))
                base = c + HEAD + RECORD * (models // 4)
                for a in range(p):
                    f[1 + a] = min(max(seen[a], store[base + a]), store[base + p + a])
                base += 2 * p
                if degree == 2:
                    k_ = 1 + p
                    for a in range(p):
                        for b in range(a + 1):
                            f[k_ + b] = f[1 + a] * f[1 + b]
                        k_ += a + 1
                loc = _dot(store, base, d, f)
                base += d
                for r in range(c + HEAD, c + HEAD + RECORD * (models // 4), RECORD):
                    if store[r] < NEGLIGIBLE * total:
                        continue
                    kind, inflation = np.int64(store[r + 2]) % 4, 1.0
                    if kind == REGRESSION:
                        n_rows, own = np.int64(store[c + 3]), models % 4
                        if n_rows < 0:
                            inflation += store[base + 1]
                        elif n_rows > 0:
                            inflation += _distance(store, base + 2, n_rows, own, p, f, z)
                        else:
                            inflation += _square(store, base + 2, n_features(own, p), f)
                    out_weight[j] = store[r] / total * share
                    out_loc[j] = middle + unit * (origin + (store[base] if kind >= DENSITY_OF_Y else loc))
                    out_scale[j] = spread * math.sqrt(store[r + 1] * inflation)
                    out_shape[j] = np.int64(store[r + 2]) // 4
                    out_label[j] = np.int64(store[c + 1])
                    j += 1
                c = up
            at[i] = j
