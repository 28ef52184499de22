"""Grow one tree of contexts that tells classes apart: each split is the best of a few drawn at random."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.split import goes_right, mask_of, missing_goes, order_categories
from coverwalk._kernels.linalg.splitmix import mix, uniform

__all__ = ["count", "depth", "empty_tree", "grow", "settle", "side", "uniform"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rows = tuple[Floats, Integers, Floats]  # X (n, p), class of each row (n,), weight of each row (n,)
# axis (N,), cut (N,), left (N,): -1 in a leaf; the right child is left + 1; levels (N,), masks as in `split`
Tree = tuple[Integers, Floats, Integers, Integers]
Span = tuple[Integers, Integers]  # start (N,), end (N,): the rows of each context in an ordered list of rows
Effort = tuple[int, int, int]  # axes to look at in a context, splits drawn on each, rows that judge them
# splits (m,), rows (m + 1,) and counts (m + 1, C) between them, counts of either side (2, C), a table of i log i; of
# the sample's rows the values on one axis, the classes and the weights
Work = tuple[Floats, Integers, Floats, Floats, Floats, Floats, Integers, Floats]


@kernel
def side(tree: Tree, k: int, x: Floats) -> int:
    """0 if x goes to the left child of context k, 1 if to the right."""
    axis, split, _, categories = tree
    return goes_right(x[axis[k]], split[k], categories[k])


@kernel
def _x_log_x(x: float, table: Floats) -> float:
    """x log x; of small whole numbers, which nearly all counts are, from a table."""
    i = int(min(x, 1e9))
    if i < len(table) and x == i:
        return float(table[i])
    return x * math.log(x) if x > 0.0 else 0.0


@kernel
def _negative_entropy(counts: Floats, table: Floats) -> float:
    """Sum of n_c log n_c, less n log n: minus the rows' total class entropy, in nats."""
    total, score = 0.0, 0.0
    for c in range(len(counts)):
        total += counts[c]
        score += _x_log_x(counts[c], table)
    return score - float(_x_log_x(total, table))


@kernel
def _draw_splits(values: Floats, splits: Floats, state: NDArray[np.uint64]) -> None:
    """Random splits in ascending order, each half way between the values of two rows.

    That is dense where rows are, and lies between clumps of rows as well as in them. With a missing value there is no
    such place: the split is beyond all rows, and divides nothing.
    """
    m = len(values)
    for j in range(len(splits)):
        split = 0.5 * values[int(uniform(state) * m)] + 0.5 * values[int(uniform(state) * m)]
        if math.isnan(split):
            split = math.inf
        i = j
        while i > 0 and splits[i - 1] > split:
            splits[i] = splits[i - 1]
            i -= 1
        splits[i] = split


@kernel
def _count_between(values: Floats, y: Integers, weight: Floats, work: Work, n_splits: int) -> None:
    """Rows and the weight of each class between neighbouring splits; and the weight of each on the right of all."""
    splits, tally, counts, sides = work[0][:n_splits], work[1], work[2], work[3]
    tally[:] = 0
    counts[:] = 0.0
    sides[:] = 0.0
    for q in range(len(values)):
        place = 0
        for j in range(n_splits):  # without a branch, this is faster than a search among so few
            place += values[q] > splits[j]
        tally[place] += 1
        counts[place, y[q]] += weight[q]
        sides[1, y[q]] += weight[q]


@kernel
def _best_categories(
    values: Floats, y: Integers, weight: Floats, n_categories: int, least: int, work: Work, state: NDArray[np.uint64]
) -> tuple[float, int]:
    """The set of levels that leaves the least class entropy: of the prefixes in the order of one class's rate.

    The class is that of a row drawn at random. Returns the score and the mask; missing values go to the better side,
    levels without rows to the larger one.
    """
    sides, table = work[3], work[4]
    C, m = sides.shape[1], len(values)
    tally, counts = np.zeros(n_categories + 1), np.zeros((n_categories + 1, C))
    for q in range(m):
        category = n_categories if math.isnan(values[q]) else int(values[q])
        tally[category] += 1.0
        counts[category, y[q]] += weight[q]
    chosen = y[int(uniform(state) * m)]
    rate, order = np.zeros(n_categories), np.zeros(n_categories, np.int64)
    for category in range(n_categories):
        total = 0.0
        for c in range(C):
            total += counts[category, c]
        rate[category] = counts[category, chosen] / total if total > 0.0 else 0.0
    present = order_categories(rate, tally[:n_categories], order)
    missing, best, mask = tally[n_categories], -math.inf, 0
    for side in range(2 if missing > 0.0 else 1):  # where missing values go: left, right
        below = missing if side == 0 else 0.0
        for c in range(C):
            sides[0, c] = counts[n_categories, c] if side == 0 else 0.0
            sides[1, c] = counts[n_categories, c] - sides[0, c]
            for category in range(n_categories):
                sides[1, c] += counts[category, c]
        for taken in range(1, present + (missing > 0.0)):
            category = order[taken - 1]
            below += tally[category]
            for c in range(C):
                sides[0, c] += counts[category, c]
                sides[1, c] -= counts[category, c]
            if least <= below <= m - least:
                score = _negative_entropy(sides[0], table) + _negative_entropy(sides[1], table)
                if score > best:
                    best, mask = score, mask_of(order, taken, present, 2.0 * below >= m)
                    if missing > 0.0:
                        mask = missing_goes(mask, side == 0)
    return best, mask


@kernel
def _best_bound(
    values: Floats, y: Integers, weight: Floats, n_splits: int, least: int, work: Work, state: NDArray[np.uint64]
) -> tuple[float, float, int]:
    """The bound that leaves the least class entropy, of a few random ones: its score, the bound, and the mask."""
    splits, tally, counts, sides, table = work[0][:n_splits], work[1], work[2], work[3], work[4]
    m, C, missing = len(values), counts.shape[1], 0
    _draw_splits(values, splits, state)
    _count_between(values, y, weight, work, n_splits)
    for q in range(m):
        missing += values[q] != values[q]
    best, best_split, mask = -math.inf, 0.0, 0
    below = 0
    for j in range(n_splits):
        below += tally[j]  # with the missing values: they are above no cut
        for c in range(C):
            sides[0, c] += counts[j, c]
            sides[1, c] -= counts[j, c]
        repeated = j + 1 < n_splits and splits[j] == splits[j + 1]
        if least <= below <= m - least and not repeated and splits[j] < math.inf:
            score = _negative_entropy(sides[0], table) + _negative_entropy(sides[1], table)
            if score > best:
                best, best_split = score, splits[j]
                mask = missing_goes(np.int64(0), missing > 0 or 2 * below >= m)
    if missing > 0:  # the same bounds, with the missing values above them
        for c in range(C):
            sides[0, c] = 0.0
            sides[1, c] = 0.0
        for q in range(m):
            sides[1, y[q]] += weight[q]
            if values[q] != values[q]:
                counts[0, y[q]] -= weight[q]
        below = -missing
        for j in range(n_splits):
            below += tally[j]
            for c in range(C):
                sides[0, c] += counts[j, c]
                sides[1, c] -= counts[j, c]
            if least <= below <= m - least and splits[j] < math.inf:
                score = _negative_entropy(sides[0], table) + _negative_entropy(sides[1], table)
                if score > best:
                    best, best_split, mask = score, splits[j], 0
    return best, best_split, mask


@kernel
def _best_split(
    rows: Rows,
    perm: Integers,
    s: int,
    n: int,
    min_rows: int,
    effort: Effort,
    n_categories: Integers,
    work: Work,
    state: NDArray[np.uint64],
) -> tuple[int, float, int]:
    """The cut that leaves the least class entropy, of some on each of a few random axes: axis (-1: none), cut, mask."""
    X = rows[0]
    axes, n_splits, sample = effort
    m = min(n, sample)
    n_splits = min(n_splits, m)  # few rows have few places between them
    values, y, weight = work[5][:m], work[6][:m], work[7][:m]
    least = min_rows if m == n else 1
    s += int(uniform(state) * (n - m + 1))  # the rows are in random order: a run of them is a sample
    for q in range(m):
        y[q], weight[q] = rows[1][perm[s + q]], rows[2][perm[s + q]]
    best, best_axis, best_split, best_mask = -math.inf, -1, 0.0, 0
    tried = 0
    for _ in range(4 * axes):  # a constant column divides nothing: draw again, within reason
        a = int(uniform(state) * len(n_categories))
        low, high, missing = math.inf, -math.inf, False
        for q in range(m):
            values[q] = X[perm[s + q], a]
            low, high = min(low, values[q]), max(high, values[q])
            missing = missing or values[q] != values[q]
        if not low < high and not missing:
            continue
        if n_categories[a] > 0:
            score, mask = _best_categories(values, y, weight, n_categories[a], least, work, state)
            split = math.nan
        else:
            score, split, mask = _best_bound(values, y, weight, n_splits, least, work, state)
        if score > best:
            best, best_axis, best_split, best_mask = score, a, split, mask
        tried += 1
        if tried == axes:
            break
    return best_axis, best_split, best_mask


@kernel
def _divide(X: Floats, perm: Integers, s: int, e: int, tree: Tree, k: int, spare: Integers) -> int:
    """Put the rows of context k that go left before those that go right, in order; where the right ones start."""
    n_left, n_right = 0, 0
    for q in range(s, e):
        i = perm[q]
        if side(tree, k, X[i]) == 0:
            perm[s + n_left] = i
            n_left += 1
        else:
            spare[n_right] = i
            n_right += 1
    for q in range(n_right):
        perm[s + n_left + q] = spare[q]
    return s + n_left


@kernel
def _several_classes(y: Integers, perm: Integers, s: int, e: int) -> bool:
    q = s + 1
    while q < e and y[perm[q]] == y[perm[s]]:
        q += 1
    return q < e


def empty_tree(n: int, min_rows: int) -> tuple[Tree, Integers, Span]:
    """Capacity for any tree that `grow` can make of n rows: the tree, parent, and start and end."""
    capacity = max(2 * (n // min_rows) - 1, 1)
    axis, left, parent = (np.full(capacity, -1) for _ in range(3))
    categories, start, end = (np.zeros(capacity, np.int64) for _ in range(3))
    return (axis, np.zeros(capacity), left, categories), parent, (start, end)


@kernel
def grow(
    rows: Rows,
    n_classes: int,
    perm: Integers,
    seed: np.uint64,
    min_rows: int,
    effort: Effort,
    n_categories: Integers,
    grown: tuple[Tree, Integers, Span],
) -> int:
    """Grow a tree on the rows named in ``perm``, which is put in the order of the contexts.

    n_levels (p,): how many levels a column has; 0 for numbers. Columns of X behind these are not cut.

    Fills the first N contexts of the `empty_tree` with the tree, parent, start and end, and returns N: context k holds
    rows perm[start[k]:end[k]]. Parents come before children, siblings side by side. A context of one class is a leaf:
    nothing is left to tell apart.
    """
    X, y, _ = rows
    n = len(perm)
    tree, parent, (start, end) = grown
    axis, split, left, categories = tree
    spare = np.empty(n, np.int64)
    table = np.zeros(effort[2] + 1)
    for i in range(2, len(table)):
        table[i] = i * math.log(i)
    sides, m = np.empty((2, n_classes)), effort[2]
    sampled = (np.empty(m), np.empty(m, np.int64), np.empty(m))
    between = (np.empty(effort[1]), np.empty(effort[1] + 1, np.int64), np.empty((effort[1] + 1, n_classes)))
    work = (*between, sides, table, *sampled)
    state = np.zeros(1, np.uint64)
    state[0] = mix(seed)
    end[0], n_nodes = n, 1
    k = 0
    while k < n_nodes:
        s, e = start[k], end[k]
        if e - s >= 2 * min_rows and _several_classes(y, perm, s, e):
            a, c, mask = _best_split(rows, perm, s, e - s, min_rows, effort, n_categories, work, state)
            if a >= 0:
                axis[k], split[k], categories[k] = a, c, mask
                middle = _divide(X, perm, s, e, tree, k, spare)
                if min(middle - s, e - middle) >= min_rows:
                    left[k] = n_nodes
                    for child in range(n_nodes, n_nodes + 2):
                        parent[child] = k
                        start[child] = s if child == n_nodes else middle
                        end[child] = middle if child == n_nodes else e
                    n_nodes += 2
        k += 1
    return n_nodes


@kernel
def settle(X: Floats, perm: Integers, tree: Tree, span: Span) -> None:
    """Put further rows, named in ``perm``, in the order of the contexts of a tree; writes start and end as `grow`."""
    left = tree[2]
    start, end = span
    spare = np.empty(len(perm), np.int64)
    start[0], end[0] = 0, len(perm)
    for k in range(len(left)):
        if left[k] >= 0:
            middle = _divide(X, perm, start[k], end[k], tree, k, spare)
            start[left[k]], end[left[k]] = start[k], middle
            start[left[k] + 1], end[left[k] + 1] = middle, end[k]


@kernel
def count(rows: Rows, perm: Integers, parent: Integers, left: Integers, span: Span, counts: Floats) -> None:
    """Write the weight of each class in each context to counts (N, C), zeros before: in the leaves, then upwards."""
    _, y, weight = rows
    start, end = span
    for k in range(len(left) - 1, -1, -1):
        if left[k] < 0:
            for q in range(start[k], end[k]):
                counts[k, y[perm[q]]] += weight[perm[q]]
        if parent[k] >= 0:
            for c in range(counts.shape[1]):
                counts[parent[k], c] += counts[k, c]


@kernel
def depth(left: Integers) -> int:
    """Contexts on the longest path."""
    below = np.ones(len(left), np.int64)
    for k in range(len(left) - 1, -1, -1):
        if left[k] >= 0:
            below[k] = 1 + max(below[left[k]], below[left[k] + 1])
    return int(below[0])
