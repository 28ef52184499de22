"""All trees of a forest in one call: rows in the units of each frame, their leaves, their components, and learning.

A frame is what trees were fitted in: units of x and y, and a trend. Trees and frames come as tables of addresses.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.rounded import rounded_moments
from coverwalk._kernels.distributions.shapes import FAR, Table, log_density
from coverwalk._kernels.forest.components import OUTLIERS, Learned
from coverwalk._kernels.forest.flat import LINES, SORTED_ROWS, tree_components
from coverwalk._kernels.forest.learned import learn_rows, pool_rows
from coverwalk._kernels.forest.node import route
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk._kernels.forest.scaling import frame_rows, to_units
from coverwalk._kernels.forest.trend import MISSING, curves_value, fourier_value
from coverwalk._kernels.linalg.addresses import floats_1, floats_2, floats_3, ints_1, ints_2
from coverwalk._kernels.linalg.prefetch import prefetch

# columns of `Trees.numbers`
DEGREE, SMOOTH, SHAPE, MIDDLE, UNIT, FACTOR = range(6)
# arrays of a tree in `Trees.where`, after which come those of `Learned`
STORE, FILL_COLUMN, FILL_MEAN, LEARNED = range(4)
# arrays of a frame
CENTRE, SCALE, CATEGORY, TURNS, PHASE, COEFFICIENTS, LOW, HIGH, INDICATORS, COLUMN, KNOTS, HEIGHTS = range(12)


class Trees(NamedTuple):
    """K trees and F frames."""

    nodes: Any  # (N,) of all trees, see `flat.count_components`
    root: Ints  # (K + 1,) where those of each begin
    frame: Ints  # (K,)
    where: Ints  # (K + F, A) addresses of arrays, of trees and then of frames
    size: Ints  # (K + F, A, 3) their shapes
    numbers: Floats  # (K, 6)


class Work(NamedTuple):
    """What rows of X are in F frames and K trees."""

    Z: Floats  # (F, n, p) as splits read them
    plain: Floats  # (F, n, p) without missing values and categories
    origin: Floats  # (F, n) the trend
    leaf: Ints  # (K, n)
    offsets: Ints  # (n + 1,) of the rows' components


@kernel
def _learned(where: Ints, size: Ints, t: int) -> Learned:
    return Learned(
        floats_2(where, size, t, LEARNED + 0),  # plane
        floats_3(where, size, t, LEARNED + 1),  # inverse
        floats_1(where, size, t, LEARNED + 2),  # nu
        floats_1(where, size, t, LEARNED + 3),  # psi
        floats_1(where, size, t, LEARNED + 4),  # log_odds
        floats_1(where, size, t, LEARNED + 5),  # log_choice
        ints_1(where, size, t, LEARNED + 6),  # seen
    )


@kernel
def _frame_rows(X: Floats, trees: Trees, f: int, Z: Floats, plain: Floats, origin: Floats) -> None:
    """Rows X (n, p) in the units of frame f, into Z and plain, and its trend there, into origin (n,)."""
    where, size = trees.where, trees.size
    n, p = X.shape
    centre, scale = floats_1(where, size, f, CENTRE), floats_1(where, size, f, SCALE)
    category = ints_1(where, size, f, CATEGORY)
    turns, phase = floats_2(where, size, f, TURNS), floats_1(where, size, f, PHASE)
    coefficients = floats_1(where, size, f, COEFFICIENTS)
    low, high = floats_1(where, size, f, LOW), floats_1(where, size, f, HIGH)
    indicators = ints_2(where, size, f, INDICATORS)
    column, knots = ints_1(where, size, f, COLUMN), floats_2(where, size, f, KNOTS)
    heights = floats_2(where, size, f, HEIGHTS)
    z, t = np.empty(len(low)), np.empty(len(phase))
    frame_rows(X, centre, scale, category, Z, plain)
    for i in range(n):
        origin[i] = 0.0
        if len(coefficients) > 0:
            for a in range(p):
                z[a] = min(max(plain[i, a], low[a]), high[a])
            for j in range(len(indicators)):
                value, wanted = Z[i, indicators[j, 0]], indicators[j, 1]
                z[p + j] = math.isnan(value) if wanted == MISSING else value == wanted
            origin[i] = fourier_value(z, turns, phase, coefficients, t) + curves_value(z, column, knots, heights)


@kernel
def route_all(X: Floats, trees: Trees, work: Work, fixed: int) -> None:
    """Rows X (n, p) in all frames, their leaves in all trees, and offsets of their components, of which ``fixed`` are
    in no tree.
    """
    leaf, offsets, nodes = work.leaf, work.offsets, trees.nodes
    offsets[:] = fixed
    offsets[0] = 0
    for f in range(len(work.Z)):
        _frame_rows(X, trees, len(leaf) + f, work.Z[f], work.plain[f], work.origin[f])
    route(work.Z, trees.frame, nodes, trees.root, leaf)
    for t in range(len(leaf)):
        for i in range(len(X)):
            offsets[i + 1] += nodes[leaf[t, i]].feature
    for i in range(len(X)):
        offsets[i + 1] += offsets[i]


@kernel
def _fetch(trees: Trees, leaf: Ints, learns: bool) -> None:
    """Ask for what all trees will read in rows with these leaves (K, n), level by level: waiting for one context of a
    way would take as long as for those of all trees.
    """
    where, size, nodes = trees.where, trees.size, trees.nodes
    K, n = leaf.shape
    context = np.empty((K, n), np.int64)
    for t in range(K):
        store = floats_1(where, size, t, STORE)
        for i in range(n):
            context[t, i] = nodes[leaf[t, i]].categories
            for line in range(LINES):
                prefetch(store, np.uint64(max(context[t, i], 0) + 8 * line))
    going = True
    while going:
        going = False
        for t in range(K):
            store = floats_1(where, size, t, STORE)
            for i in range(n):
                c = context[t, i]
                if c < 0:
                    continue
                going = True
                if learns:
                    slot, record = np.uint64(store[c + 3]), np.uint64(store[c + 4])
                    plane = floats_2(where, size, t, LEARNED)
                    prefetch(plane, slot * np.uint64(plane.shape[1]))
                    for a in range(2, 5):  # nu, psi, log_odds
                        prefetch(floats_1(where, size, t, LEARNED + a), slot)
                    prefetch(floats_1(where, size, t, LEARNED + 5), record)  # log_choice
                context[t, i] = np.int64(store[c])
                for line in range(LINES):
                    prefetch(store, np.uint64(max(context[t, i], 0) + 8 * line))


@kernel
def predict_all(
    trees: Trees,
    work: Work,
    weight: Floats,
    share: float,
    learns: bool,
    outliers: tuple[float, float, float],
    at: Ints,
    out: tuple[Any, ...],
) -> None:
    """Write the components of each row from at[i] on, the outliers' first, and move at past them; see
    `flat.tree_components`.

    weight (K,): of the trees, in any unit: all together have ``share`` in the mixture; outliers: weight, centre and
    unit of their distribution, shape 0, which is the first.
    """
    where, size, numbers, nodes, leaf = trees.where, trees.size, trees.numbers, trees.nodes, work.leaf
    n, p = work.plain.shape[1:]
    for i in range(n):
        for s in range(len(out[0])):
            out[0][s, at[i]] = outliers[0]
        out[1][at[i]], out[2][at[i]], out[3][at[i]], out[4][at[i]] = outliers[1], outliers[2], 0, OUTLIERS
        at[i] += 1
    capacity = n_features(max(int(np.max(numbers[:, DEGREE])), 1), p)
    own = np.empty(p), np.ones(capacity), np.empty(n, np.int64)
    if n < SORTED_ROWS:  # nothing is read twice
        _fetch(trees, leaf, learns)
    learned, factor = _learned(where, size, 0), share / np.sum(weight)
    for t in range(len(numbers)):
        unit = numbers[t, UNIT]
        if learns:
            learned = _learned(where, size, t)
        rows = work.Z, work.plain, work.origin, leaf, t, trees.frame[t], numbers[t, SMOOTH] > 0.0
        fill = ints_1(where, size, t, FILL_COLUMN), floats_2(where, size, t, FILL_MEAN)
        span = trees.root[t], trees.root[t + 1]
        tree = nodes, span, floats_1(where, size, t, STORE), int(numbers[t, DEGREE]), fill[0], fill[1]
        units = numbers[t, MIDDLE], unit, unit * numbers[t, FACTOR]
        component = weight[t] * factor, int(numbers[t, SHAPE]), units
        tree_components(rows, tree, learned, learns, component, own, at, out)


@kernel
def _room(trees: Trees, n: int, p: int) -> Work:
    """For n rows of p inputs."""
    K = len(trees.numbers)
    F = len(trees.where) - K
    rows = np.empty((F, n, p)), np.empty((F, n, p)), np.empty((F, n))
    return Work(rows[0], rows[1], rows[2], np.empty((K, n), np.int64), np.empty(n + 1, np.int64))


@kernel
def mean_all(
    X: Floats,
    trees: Trees,
    weight: Floats,
    table: Table,
    outliers: tuple[float, float, float],
    grid: tuple[float, float],
    out: Floats,
) -> None:
    """Fill out (n,): the means of y in rows X (n, p), rounded to origin + k step: the grid, with step 0 where not.

    weight (K,) of the trees, outliers: see `predict_all`.
    """
    work = _room(trees, X.shape[0], X.shape[1])
    route_all(X, trees, work, 1)
    offsets = work.offsets
    m = offsets[-1]
    each, loc, scale = np.empty((1, m)), np.empty(m), np.empty(m)
    shape, label = np.empty(m, np.int32), np.empty(m, np.int64)
    answer = (each, loc, scale, shape, label)
    predict_all(trees, work, weight, 1.0 - outliers[0], True, outliers, offsets[:-1].copy(), answer)
    for i in range(len(X)):
        mean = 0.0
        for j in range(offsets[i], offsets[i + 1]):
            mean += each[0, j] * (loc[j] + scale[j] * table.mean[shape[j]])
        if grid[1] > 0.0 and not math.isnan(mean):
            zero = grid[0] + np.floor((mean - grid[0]) / grid[1] + 0.5) * grid[1]
            mean = 0.0
            for j in range(offsets[i], offsets[i + 1]):
                near, _ = rounded_moments(table, shape[j], (loc[j] - zero) / grid[1], scale[j] / grid[1])
                mean += each[0, j] * near
            mean = zero + grid[1] * mean
        out[i] = mean


@kernel
def learn_all(
    X: Floats,
    y: Floats,
    trees: Trees,
    table: Table,
    pool: tuple[Ints, Floats, Floats],
    outliers: tuple[float, float, float, float],
    n_rows: Ints,
    decay: float,
    out: Floats,
) -> None:
    """Predict rows X (n, p), y (n,) in order and learn each, in all trees and in the pool: one call learns all or none.

    pool: group, size and counts as in `pool_rows`; outliers: weight, weight in rows besides, centre and unit of their
    distribution, shape 0; n_rows (1,): rows learned so far, moved on. Fills out (n,): log densities before each row.
    """
    where, size, numbers = trees.where, trees.size, trees.numbers
    n, K = len(y), len(numbers)
    work = _room(trees, X.shape[0], X.shape[1])
    route_all(X, trees, work, 0)
    target, log_psi = np.empty(n), np.empty((K, n))
    for t in range(K):
        f, unit = trees.frame[t], numbers[t, UNIT]
        for i in range(n):
            target[i] = to_units(y[i], numbers[t, MIDDLE], unit, False)
            if numbers[t, SMOOTH] > 0.0:
                target[i] -= work.origin[f, i]
        rows = work.Z, work.plain, work.leaf[t], f, target
        fill = ints_1(where, size, t, FILL_COLUMN), floats_2(where, size, t, FILL_MEAN)
        span = trees.root[t], trees.root[t + 1]
        tree = trees.nodes, span, floats_1(where, size, t, STORE), int(numbers[t, DEGREE]), fill[0], fill[1]
        shapes = table, int(numbers[t, SHAPE]), numbers[t, FACTOR]
        learn_rows(rows, tree, _learned(where, size, t), shapes, n_rows[0], decay, log_psi[t])
        for i in range(n):
            log_psi[t, i] -= math.log(unit)
    log_other, other = np.empty(n), np.empty(n)
    for i in range(n):
        e = to_units(y[i], outliers[2], outliers[3], False)
        log_abs = math.log(abs(e)) if abs(e) > FAR else 0.0
        log_other[i] = log_density(table, 0, e, log_abs) - math.log(outliers[3])
        other[i] = outliers[0] + (1.0 - outliers[0]) * outliers[1] / (n_rows[0] + i + 1.0)
    pool_rows(log_psi, pool[0], pool[1], pool[2], log_other, other, decay, out)
    n_rows[0] += n
