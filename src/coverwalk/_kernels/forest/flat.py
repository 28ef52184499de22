"""A fitted tree in two flat arrays, nodes and a store, and its components in rows of X.

All that a context needs lies side by side in the store, so that few lines of the cache hold it:

    up, node          where the next context to be read begins, -1 for none; and its node
    models            the number of its records
    slot, record      its row in the arrays of `Learned`, and its first record there
    records           of each its weights under S priors, its squared scale, and kind + 4 times its shape
    low, high         (2 p) the range of its rows
    centre            (d) coefficients of its function
    mean              of y
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import fused_kernel, inlined_kernel, kernel
from coverwalk._kernels.forest.components import DENSITY_OF_Y, MIN_WEIGHT, Learned, Records
from coverwalk._kernels.forest.node import by_leaf
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk._kernels.linalg.prefetch import prefetch

# Weight, in its tree, of a component that is left out. The distribution of outliers has a weight of 1e-8 at 10^7 rows
# and a scale at most 10^4 times that of the component: no density changes by more than 1e-9 of itself.
NEGLIGIBLE = 1e-22
HEAD = 5  # numbers of a context before its records
LINES = 6  # of the cache, that are fetched ahead of a context
# Unsigned, as are indices in inner loops: what might be negative counts from the end, and is checked every time.
_ONE = np.uint64(1)
SORTED_ROWS = 64  # from which rows are taken leaf by leaf: contexts are then read where they were read before


def store_size(records: Records, degree: int) -> int:
    """Numbers in the store of a tree with functions of this degree."""
    (S, R), (C, p) = records.weight.shape, records.low.shape
    return C * (HEAD + 2 * p + int(n_features(degree, p)) + 1) + R * (S + 2)


@kernel
def fill_store(parent: Ints, records: Records, shape: Any, degree: int, first: Ints, store: Floats) -> None:
    """Write the contexts of a tree into the store, and where the first context to be read from each begins, (N,)."""
    S, p = len(records.weight), records.low.shape[1]
    d = n_features(degree, p)
    at, c = 0, 0
    for k in range(len(parent)):
        up = first[parent[k]] if k > 0 else -1
        start, end = records.first[k], records.first[k + 1]
        first[k] = at if start < end else up
        if start == end:
            continue
        store[at], store[at + 1], store[at + 2], store[at + 3], store[at + 4] = up, k, end - start, c, start
        at += HEAD
        for q in range(start, end):
            for s in range(S):
                store[at + s] = max(records.weight[s, q], MIN_WEIGHT)
            store[at + S], store[at + S + 1] = records.s2[q], records.kind[q] + 4 * shape[q]
            at += S + 2
        for a in range(p):
            store[at + a], store[at + p + a] = records.low[c, a], records.high[c, a]
        at += 2 * p
        for a in range(d):
            store[at + a] = records.centre[c, a]
        store[at + d] = records.mean[c]
        at += d + 1
        c += 1


@kernel
def count_components(nodes: Any, first: Ints, store: Floats, S: int, least: float, cut_off: bool) -> None:
    """Make leaves tell what is read where a row ends: nodes whose split is the least weight of a record that counts,
    ``least`` times that of all from there to the root, whose categories are where the first context begins, first (N,),
    whose feature is the number of components, and whose left is -1 less the number of contexts up to the last that has
    some.

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
        total, at, depth, n_contexts, count = 0.0, first[k], 0, 0, 0
        while at >= 0:
            for q in range(np.int64(store[at + 2])):
                total += store[at + HEAD + (S + 2) * q]
            at = np.int64(store[at])
        at = first[k]
        while at >= 0:
            depth += 1
            for q in range(np.int64(store[at + 2])):
                if store[at + HEAD + (S + 2) * q] >= least * total:
                    count += 1
                    n_contexts = depth
            at = np.int64(store[at])
        nodes[k].split, nodes[k].categories = least * total, first[k]
        nodes[k].feature, nodes[k].left = count, -1 - n_contexts


@fused_kernel
def _dot(store: Floats, at: int, d: int, f: Floats) -> float:
    total, first = 0.0, np.uint64(at)
    for k in range(np.uint64(d)):
        total += store[first + k] * f[k]
    return total


@inlined_kernel
def see(Z: Floats, plain: Floats, f: int, i: int, leaf: int, column: Ints, mean: Floats, out: Floats) -> None:
    """What local models see of row i in frame f, into out (p,): a missing value at its leaf's mean."""
    for a in range(np.uint64(len(out))):
        out[a] = plain[np.uint64(f), np.uint64(i), a]
    for m in range(len(column)):
        if Z[f, i, column[m]] != Z[f, i, column[m]]:
            out[column[m]] = mean[leaf, m]


@inlined_kernel
def mean_in(store: Floats, base: int, p: int, degree: int, x: Floats, f: Floats) -> float:
    """The function at x (p,) of a context whose range begins at store[base]; the features of x, clamped to it, are
    written to f, whose first entry is 1.
    """
    low, n_inputs = np.uint64(base), np.uint64(p)
    for a in range(n_inputs):
        f[_ONE + a] = min(max(x[a], store[low + a]), store[low + n_inputs + a])
    if degree == 2:
        k = 1 + p
        for a in range(p):
            for b in range(a + 1):
                f[k + b] = f[1 + a] * f[1 + b]
            k += a + 1
    return _dot(store, base + 2 * p, n_features(degree, p), f)


@kernel
def _path_weights(store: Floats, c: Any, learned: Learned, at: Any, out: Floats) -> None:
    """Weights of the components from the context at store[c] upwards, into out from ``at`` on; they sum to one.

    The growth's weights are those of the whole way. In a context that had u of them, and B below it, the odds to stop
    are u / B exp(log_odds).
    """
    j, below = at, 0.0
    while c >= 0:
        n_models, slot, q = np.int64(store[c + 2]), np.int64(store[c + 3]), np.int64(store[c + 4])
        here, total = 0.0, 0.0
        for m in range(n_models):
            w = store[c + HEAD + 3 * m]
            here += w
            out[j + m] = w * math.exp(learned.log_choice[q + m])
            total += out[j + m]
        stop = 1.0
        if below > 0.0:
            odds = here / below * math.exp(min(learned.log_odds[slot], 600.0))
            stop = odds / (1.0 + odds)
            for i in range(at, j):
                out[i] *= 1.0 - stop
        for m in range(n_models):
            out[j + m] *= stop / total
        below += here
        j += n_models
        c = np.int64(store[c])


@inlined_kernel
def tree_components(
    rows: tuple[Any, ...],
    tree: tuple[Any, ...],
    learned: Learned,
    learns: bool,
    component: tuple[Any, ...],
    work: tuple[Floats, Floats, Ints],
    at: Ints,
    out: tuple[Any, ...],
) -> None:
    """Write the components of each row from at (n,) on, and move at past them.

    rows: Z and plain (F, n, p), the trend (F, n), leaf (K, n), the numbers of the tree and of its frame, and whether
    locations count from the trend. tree: nodes of all trees and the first and last of its own, store, degree of its
    functions, the columns (m,) that had missing values and their means (N, m) in each node. learns: whether it has
    learned rows since it was fitted; then there is one prior. component: weight of the tree, where its shapes begin,
    and the centre, the unit and the unit of scales of what is written. out: weight (S, .), loc, scale, shape, label.
    """
    Z, plain, origin, leaf, t, f, smooth = rows
    nodes, (root, last), store, degree, column, mean = tree
    share, first_shape, (middle, unit, spread) = component
    seen, g, order = work
    out_weight, out_loc, out_scale, out_shape, out_label = out
    plane, nu, psi = learned.plane, learned.nu, learned.psi
    n, p = plain.shape[1:]
    S, d, m = len(out_weight), n_features(degree, p), learned.plane.shape[1]
    if n >= SORTED_ROWS:
        by_leaf(leaf[t], root, last, order)
    for q in range(n):
        i = order[q] if n >= SORTED_ROWS else q
        if n >= SORTED_ROWS and q + 2 < n:  # what the next rows will read
            prefetch(nodes, np.uint64(leaf[t, order[q + 2]]))
            ahead = max(nodes[leaf[t, order[q + 1]]].categories, 0)
            for line in range(LINES):
                prefetch(store, np.uint64(ahead + 8 * line))
        k, zero = leaf[t, i], origin[f, i] if smooth else 0.0
        see(Z, plain, f, i, k - root, column, mean, seen)
        least, c, start = nodes[k].split, nodes[k].categories, at[i]
        j = start
        if learns:
            _path_weights(store, c, learned, j, out_weight[0])
        for left in range(-1 - nodes[k].left, 0, -1):
            head = np.uint64(c)
            up, n_models = np.int64(store[head]), np.int64(store[head + np.uint64(2)])
            if left > 1:
                for line in range(LINES):
                    prefetch(store, np.uint64(up + 8 * line))
            end = c + HEAD + (S + 2) * n_models
            loc, ratio = mean_in(store, end, p, degree, seen, g), 1.0
            if learns:
                slot = np.int64(store[c + 3])
                ratio = psi[slot] / nu[slot]
                for a in range(m):
                    loc += plane[slot, a] * g[a]
            base = end + 2 * p + d
            for q_model in range(n_models):
                r, place = np.uint64(c + HEAD + (S + 2) * q_model), np.uint64(j)
                if store[r] < least:
                    continue
                code, square = np.int64(store[r + np.uint64(S + 1)]), store[r + np.uint64(S)]
                kind = code % 4
                square *= ratio if kind < DENSITY_OF_Y else 1.0
                if not learns:
                    for s in range(S):
                        out_weight[s, place] = store[r + np.uint64(s)]
                out_loc[place] = middle + unit * (zero + (store[np.uint64(base)] if kind >= DENSITY_OF_Y else loc))
                out_scale[place] = spread * math.sqrt(square)
                out_shape[place] = first_shape + code // 4
                out_label[place] = root + np.int64(store[head + _ONE])
                j += 1
            c = up
        for s in range(S):
            total = 0.0
            for h in range(np.uint64(start), np.uint64(j)):
                total += out_weight[s, h]
            factor = share / total
            for h in range(np.uint64(start), np.uint64(j)):
                out_weight[s, h] *= factor
        at[i] = j
