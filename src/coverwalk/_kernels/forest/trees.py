"""All trees of a forest in one call: rows in the units of each frame, their leaves, their components, and learning.

A frame is what trees were fitted in: units of x and y, and a trend. Trees and frames come as tables of addresses.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.rounded import rounded_moments
from coverwalk._kernels.distributions.shapes import FAR, Table, log_density
from coverwalk._kernels.forest.components import OUTLIERS, Learned, Records, write_components
from coverwalk._kernels.forest.learned import learn_rows, pool_rows
from coverwalk._kernels.forest.node import NODE, by_leaf, goes_right, route
from coverwalk._kernels.forest.scaling import frame_rows, to_units
from coverwalk._kernels.forest.trend import fourier_value
from coverwalk._kernels.linalg.addresses import floats_1, floats_2, floats_3, ints_1, pointer, small_ints_1
from coverwalk._kernels.linalg.prefetch import prefetch

__all__ = ["Trees", "learn_all", "mean_all", "predict_all", "route_all"]


# columns of `Trees.numbers`
FRAME, DEGREE, SMOOTH, LABEL, SHAPE, MIDDLE, UNIT, FACTOR = range(8)
# arrays of a tree in `Trees.where`, after which come those of `Records` and `Learned`
NODES, FILL_COLUMN, FILL_MEAN, SHAPES, RECORDS = range(5)
LEARNED = RECORDS + 20
ABOVE, SLOT = 6, 7
# what is read where an array of `Records` or `Learned` has an entry for each node, context or component
BY_NODE, BY_CONTEXT, BY_COMPONENT, UNREAD = range(4)
_READ = {
    BY_NODE: ["first", "above", "slot"],
    BY_CONTEXT: [
        *("low", "high", "centre", "mean", "degree", "leverage", "rows_at", "factor_at"),
        *("plane", "nu", "psi", "log_odds"),
    ],
    BY_COMPONENT: ["kind", "weight", "s2", "log_choice"],
}
ENTRIES = np.array(
    [next((by for by in _READ if name in _READ[by]), UNREAD) for name in Records._fields + Learned._fields]
)
FEW_ROWS = 4  # up to which trees are read side by side: of more rows, one finds much where the last has read it
# arrays of a frame
CENTRE, SCALE, CATEGORY, TURNS, PHASE, COEFFICIENTS, LOW, HIGH = range(8)


class Trees(NamedTuple):
    """K trees and F frames."""

    where: Ints  # (K + F, A) addresses of arrays, of trees and then of frames
    size: Ints  # (K + F, A, 3) their shapes
    numbers: Floats  # (K, 8)
    weight: Floats  # (K,) of each tree in the mixture


@kernel
def _records(where: Ints, size: Ints, t: int) -> Records:
    return Records(
        ints_1(where, size, t, RECORDS),  # first
        ints_1(where, size, t, RECORDS + 1),  # kind
        floats_2(where, size, t, RECORDS + 2),  # weight
        floats_1(where, size, t, RECORDS + 3),  # s2
        ints_1(where, size, t, RECORDS + 4),  # n_components
        floats_2(where, size, t, RECORDS + 5),  # total
        ints_1(where, size, t, RECORDS + 6),  # above
        ints_1(where, size, t, RECORDS + 7),  # slot
        floats_2(where, size, t, RECORDS + 8),  # low
        floats_2(where, size, t, RECORDS + 9),  # high
        floats_2(where, size, t, RECORDS + 10),  # centre
        floats_1(where, size, t, RECORDS + 11),  # mean
        ints_1(where, size, t, RECORDS + 12),  # degree
        floats_1(where, size, t, RECORDS + 13),  # ridge
        floats_1(where, size, t, RECORDS + 14),  # leverage
        ints_1(where, size, t, RECORDS + 15),  # n_rows
        ints_1(where, size, t, RECORDS + 16),  # rows_at
        floats_2(where, size, t, RECORDS + 17),  # rows
        ints_1(where, size, t, RECORDS + 18),  # factor_at
        floats_1(where, size, t, RECORDS + 19),  # factors
    )


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
def _frame_rows(X: Floats, trees: Trees, f: int, R: Floats, origin: Floats) -> None:
    """Rows X (n, p) as the splits of frame f read them, into R, and its trend there, into origin (n,)."""
    where, size = trees.where, trees.size
    n, p = X.shape
    centre, scale = floats_1(where, size, f, CENTRE), floats_1(where, size, f, SCALE)
    category = ints_1(where, size, f, CATEGORY)
    turns, phase = floats_2(where, size, f, TURNS), floats_1(where, size, f, PHASE)
    coefficients = floats_1(where, size, f, COEFFICIENTS)
    low, high = floats_1(where, size, f, LOW), floats_1(where, size, f, HIGH)
    plain, z, t = np.empty((n, p)), np.empty(p), np.empty(len(phase))
    frame_rows(X, centre, scale, category, R, plain)
    for i in range(n):
        origin[i] = 0.0
        if len(coefficients) > 0:
            for a in range(p):
                z[a] = min(max(plain[i, a], low[a]), high[a])
            origin[i] = fourier_value(z, turns, phase, coefficients, t)


@kernel
def _seen(R: Floats, leaf: Ints, trees: Trees, t: int, f: int, out: Floats) -> None:
    """What local models of tree t see of rows R (n, p): no category; a missing value at its leaf's mean, or at 0."""
    category = ints_1(trees.where, trees.size, f, CATEGORY)
    column, mean = ints_1(trees.where, trees.size, t, FILL_COLUMN), floats_2(trees.where, trees.size, t, FILL_MEAN)
    for i in range(len(R)):
        for a in range(R.shape[1]):
            z = R[i, a]
            if category[a] > 0:
                z = 0.0
            elif z != z:
                z = 0.0
                for j in range(len(column)):
                    if column[j] == a:
                        z = mean[leaf[i], j]
            out[i, a] = z


@kernel
def _route_few(R: Floats, trees: Trees, leaf: Ints) -> None:
    """As `route`, into leaf (K, n), for a few rows: down all trees side by side, one node at a time."""
    going = True
    leaf[:] = 0
    while going:
        going = False
        for t in range(len(leaf)):
            nodes = carray(pointer(trees.where[t, NODES]), (trees.size[t, NODES, 0],), NODE)
            f = int(trees.numbers[t, FRAME])
            for i in range(leaf.shape[1]):
                k = leaf[t, i]
                left = nodes[k].left
                if left >= 0:
                    leaf[t, i] = left + goes_right(R[f, i, nodes[k].feature], nodes[k].split, nodes[k].categories)
                    going = True


@kernel
def route_all(X: Floats, trees: Trees, R: Floats, origin: Floats, leaf: Ints, offsets: Ints, fixed: int) -> None:
    """Rows X (n, p) in all frames, R (F, n, p) and origin (F, n); their leaves in all trees, leaf (K, n).

    Fills offsets (n + 1,) of the rows' components, of which ``fixed`` are in no tree.
    """
    where, size = trees.where, trees.size
    K, root = len(trees.numbers), np.zeros(1, np.int64)
    offsets[:] = fixed
    offsets[0] = 0
    for f in range(len(R)):
        _frame_rows(X, trees, K + f, R[f], origin[f])
    if len(X) <= FEW_ROWS:
        _route_few(R, trees, leaf)
    for t in range(K):
        if len(X) > FEW_ROWS:
            nodes = carray(pointer(where[t, NODES]), (size[t, NODES, 0],), NODE)
            route(R[int(trees.numbers[t, FRAME])], nodes, root, leaf[t : t + 1])
        n_components = ints_1(where, size, t, RECORDS + 4)
        for i in range(len(X)):
            offsets[i + 1] += n_components[leaf[t, i]]
    for i in range(len(X)):
        offsets[i + 1] += offsets[i]


@kernel
def _fetch(trees: Trees, leaf: Ints) -> None:
    """Ask for what the contexts above the leaves (K, n) need: it lies in many places, and then comes all at once."""
    where, size = trees.where, trees.size
    for t in range(len(leaf)):
        above, slot = ints_1(where, size, t, RECORDS + ABOVE), ints_1(where, size, t, RECORDS + SLOT)
        first = ints_1(where, size, t, RECORDS)
        for k in leaf[t]:
            if slot[k] < 0:
                k = above[k]
            while k >= 0:
                for a in range(len(ENTRIES)):
                    if ENTRIES[a] != UNREAD:
                        entry = k if ENTRIES[a] == BY_NODE else slot[k] if ENTRIES[a] == BY_CONTEXT else first[k]
                        width = size[t, RECORDS + a, 1] if ENTRIES[a] == BY_CONTEXT else 0
                        prefetch(floats_1(where, size, t, RECORDS + a), np.uint64(entry * max(width, 1)))
                k = above[k]


@kernel
def predict_all(
    trees: Trees,
    R: Floats,
    origin: Floats,
    leaf: Ints,
    outliers: tuple[float, float, float],
    at: Ints,
    out: tuple[Any, ...],
) -> None:
    """Write the components of each row from at[i] on, and move at past them; see `components.write_components`.

    outliers: weight, centre and unit of the distribution of outliers, shape 0, which is the first.
    """
    where, size, numbers = trees.where, trees.size, trees.numbers
    n, p = R.shape[1], R.shape[2]
    for i in range(n):
        for s in range(len(out[0])):
            out[0][s, at[i]] = outliers[0]
        out[1][at[i]], out[2][at[i]], out[3][at[i]], out[4][at[i]] = outliers[1], outliers[2], 0, OUTLIERS
        at[i] += 1
    if n <= FEW_ROWS:
        _fetch(trees, leaf)
    seen, order, nowhere = np.empty((n, p)), np.empty(n, np.int64), np.zeros(n)
    for t in range(len(numbers)):
        f = int(numbers[t, FRAME])
        _seen(R[f], leaf[t], trees, t, len(numbers) + f, seen)
        if n > 1:
            by_leaf(leaf[t], 0, size[t, NODES, 0], order)
        else:
            order[0] = 0
        unit = numbers[t, UNIT]
        component = (
            trees.weight[t],
            small_ints_1(where, size, t, SHAPES),
            int(numbers[t, SHAPE]),
            int(numbers[t, LABEL]),
            origin[f] if numbers[t, SMOOTH] > 0.0 else nowhere,
            (numbers[t, MIDDLE], unit, unit * numbers[t, FACTOR]),
        )
        records, learned = _records(where, size, t), _learned(where, size, t)
        write_components(seen, leaf[t], order, int(numbers[t, DEGREE]), records, learned, at, component, out)


@kernel
def mean_all(
    X: Floats,
    trees: Trees,
    work: tuple[Floats, Floats, Ints, Ints],
    table: Table,
    outliers: tuple[float, float, float],
    grid: tuple[float, float],
    out: Floats,
) -> None:
    """Fill out (n,): the means of y in rows X (n, p), rounded to origin + k step: the grid, with step 0 where not.

    outliers: see `predict_all`.
    """
    R, origin, leaf, offsets = work
    route_all(X, trees, R, origin, leaf, offsets, 1)
    m = offsets[-1]
    weight, loc, scale = np.empty((1, m)), np.empty(m), np.empty(m)
    shape, label = np.empty(m, np.int32), np.empty(m, np.int64)
    predict_all(trees, R, origin, leaf, outliers, offsets[:-1].copy(), (weight, loc, scale, shape, label))
    for i in range(len(X)):
        mean = 0.0
        for j in range(offsets[i], offsets[i + 1]):
            mean += weight[0, j] * (loc[j] + scale[j] * table.mean[shape[j]])
        if grid[1] > 0.0 and not math.isnan(mean):
            zero = grid[0] + np.floor((mean - grid[0]) / grid[1] + 0.5) * grid[1]
            mean = 0.0
            for j in range(offsets[i], offsets[i + 1]):
                near, _ = rounded_moments(table, shape[j], (loc[j] - zero) / grid[1], scale[j] / grid[1])
                mean += weight[0, j] * near
            mean = zero + grid[1] * mean
        out[i] = mean


@kernel
def learn_all(
    X: Floats,
    y: Floats,
    trees: Trees,
    work: tuple[Floats, Floats, Ints, Ints],
    table: Table,
    pool: tuple[Ints, Floats, Floats],
    outliers: tuple[float, float, float],
    n_rows: Ints,
    decay: float,
    out: Floats,
) -> None:
    """Predict rows X (n, p), y (n,) in order and learn each, in all trees and in the pool: one call learns all or none.

    pool: group, size and counts as in `pool_rows`; outliers: weight in rows, centre and unit of the distribution of
    outliers, shape 0; n_rows (1,): rows learned so far, moved on. Fills out (n,): log densities before each row.
    """
    where, size, numbers = trees.where, trees.size, trees.numbers
    R, origin, leaf, offsets = work
    n, K = len(y), len(numbers)
    route_all(X, trees, R, origin, leaf, offsets, 0)
    seen, target, log_psi = np.empty(X.shape), np.empty(n), np.empty((K, n))
    for t in range(K):
        f, unit = int(numbers[t, FRAME]), numbers[t, UNIT]
        _seen(R[f], leaf[t], trees, t, K + f, seen)
        for i in range(n):
            target[i] = to_units(y[i], numbers[t, MIDDLE], unit, False)
            if numbers[t, SMOOTH] > 0.0:
                target[i] -= origin[f, i]
        learn_rows(
            seen,
            leaf[t],
            target,
            int(numbers[t, DEGREE]),
            _records(where, size, t),
            _learned(where, size, t),
            small_ints_1(where, size, t, SHAPES),
            int(numbers[t, SHAPE]),
            table,
            numbers[t, FACTOR],
            n_rows[0],
            decay,
            log_psi[t],
        )
        for i in range(n):
            log_psi[t, i] -= math.log(unit)
    log_other, other = np.empty(n), np.empty(n)
    for i in range(n):
        e = to_units(y[i], outliers[1], outliers[2], False)
        log_abs = math.log(abs(e)) if abs(e) > FAR else 0.0
        log_other[i] = log_density(table, 0, e, log_abs) - math.log(outliers[2])
        other[i] = outliers[0] / (n_rows[0] + i + 1.0)
    pool_rows(log_psi, pool[0], pool[1], pool[2], log_other, other, decay, out)
    n_rows[0] += n
