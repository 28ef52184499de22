"""Splits judged by the class entropy that they leave: of a few drawn on each of some random features."""

import math
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, UInts
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.category_split import best_prefix, missing_goes
from coverwalk._kernels.forest.feature_urn import Urn, draw_feature, empty_urn, put_feature
from coverwalk._kernels.forest.side_scores import negative_entropy, x_log_x_table
from coverwalk._kernels.linalg.splitmix import uniform


class Classes(NamedTuple):
    """The rows of a growth that tells classes apart, and work space."""

    y: Ints  # (n,) class of each row
    weight: Floats  # (n,)
    n_features: int  # to look at in a context
    splits: Floats  # (m,) drawn on each of them
    tally: Ints  # (m + 1,) rows between them
    counts: Floats  # (m + 1, C) weight of each class between them
    sides: Floats  # (2, C)
    table: Floats  # of i log i
    sampled: tuple[Floats, Ints, Floats]  # values, classes and weights of the rows that judge
    urn: Urn


def classes_of(y: Ints, weight: Floats, n_classes: int, n_features: int, n_splits: int, sample: int) -> Classes:
    """For rows of these classes and weights (n,), judged by at most ``sample`` of them."""
    between = np.empty(n_splits), np.empty(n_splits + 1, np.int64), np.empty((n_splits + 1, n_classes))
    sampled, sides = (np.empty(sample), np.empty(sample, np.int64), np.empty(sample)), np.empty((2, n_classes))
    return Classes(y, weight, n_features, *between, sides, x_log_x_table(sample), sampled, empty_urn(len(y)))


@kernel
def _draw_splits(values: Floats, splits: Floats, state: UInts) -> None:
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
def _count_between(
    values: Floats, y: Ints, weight: Floats, splits: Floats, tally: Ints, counts: Floats, sides: Floats
) -> None:
    """Rows and the weight of each class between neighbouring splits; and the weight of each on the right of all."""
    tally[:] = 0
    counts[:] = 0.0
    sides[:] = 0.0
    for q in range(len(values)):
        place = 0
        for j in range(len(splits)):  # without a branch, this is faster than a search among so few
            place += values[q] > splits[j]
        tally[place] += 1
        counts[place, y[q]] += weight[q]
        sides[1, y[q]] += weight[q]


@kernel
def _best_categories(
    values: Floats, y: Ints, weight: Floats, n: int, n_classes: int, need: float, table: Floats, state: UInts
) -> tuple[float, int]:
    """The best set of n categories, in the order of one class's rate: that of a row drawn at random."""
    m, C = len(values), n_classes
    size, counts, rate = np.zeros(n + 1), np.zeros((n + 1, C)), np.zeros(n)
    for q in range(m):
        category = n if math.isnan(values[q]) else int(values[q])
        size[category] += 1.0
        counts[category, y[q]] += weight[q]
    chosen = y[int(uniform(state) * m)]
    for category in range(n):
        total = 0.0
        for c in range(C):
            total += counts[category, c]
        rate[category] = counts[category, chosen] / total if total > 0.0 else 0.0
    return best_prefix(size, counts, rate, need, None, table)


@kernel
def _best_bound(
    values: Floats,
    y: Ints,
    weight: Floats,
    least: float,
    work: tuple[Floats, Ints, Floats, Floats, Floats],
    state: UInts,
) -> tuple[float, float, int]:
    """The bound that leaves the least class entropy, of a few random ones: its score, the bound, and the mask."""
    splits, tally, counts, sides, table = work
    m, C, missing = len(values), counts.shape[1], 0
    n_splits = min(len(splits), m)  # few rows have few places between them
    splits = splits[:n_splits]
    _draw_splits(values, splits, state)
    _count_between(values, y, weight, splits, tally, counts, sides)
    for q in range(m):
        missing += values[q] != values[q]
    best, best_split, mask = -math.inf, 0.0, 0
    for missing_above in range(2 if missing > 0 else 1):  # missing values are above no split; then, above all of them
        below = 0
        if missing_above:
            below = -missing
            for q in range(m):
                if values[q] != values[q]:
                    counts[0, y[q]] -= weight[q]
        for c in range(C):
            sides[1, c] += sides[0, c]
            sides[0, c] = 0.0
        for j in range(n_splits):
            below += tally[j]
            for c in range(C):
                sides[0, c] += counts[j, c]
                sides[1, c] -= counts[j, c]
            repeated = j + 1 < n_splits and splits[j] == splits[j + 1]
            if least <= below <= m - least and not repeated and splits[j] < math.inf:
                score = negative_entropy(sides[0], table) + negative_entropy(sides[1], table)
                if score > best:
                    best, best_split = score, splits[j]
                    mask = missing_goes(np.int64(0), missing > 0 or 2 * below >= m) if missing_above == 0 else 0
    return best, best_split, mask


@kernel
def _several_classes(y: Ints, perm: Ints, s: int, e: int) -> bool:
    q = s + 1
    while q < e and y[perm[q]] == y[perm[s]]:
        q += 1
    return q < e


@kernel
def class_split(
    X: Floats, perm: Ints, span: tuple[int, int], run: tuple[int, int, float], n_categories: Ints,
    classes: Classes, state: UInts
) -> tuple[int, float, int]:  # fmt: skip
    """The split that leaves the least class entropy, of some on each of a few random features: its feature (-1 for
    none), split and mask. See `line_criterion.line_split`; a context of one class has nothing left to tell apart.
    """
    first, m, need = run
    best, best_feature, best_split, best_mask = -math.inf, -1, 0.0, 0
    if not _several_classes(classes.y, perm, span[0], span[1]):
        return best_feature, best_split, best_mask
    values, y, weight = classes.sampled[0][:m], classes.sampled[1][:m], classes.sampled[2][:m]
    for q in range(m):
        y[q], weight[q] = classes.y[perm[first + q]], classes.weight[perm[first + q]]
    work = (classes.splits, classes.tally, classes.counts, classes.sides, classes.table)
    tried = 0
    for _ in range(4 * classes.n_features):  # a constant column divides nothing: draw again, within reason
        a = draw_feature(classes.urn, len(n_categories), state)
        low, high, missing = math.inf, -math.inf, False
        for q in range(m):
            values[q] = X[perm[first + q], a]
            low, high = min(low, values[q]), max(high, values[q])
            missing = missing or values[q] != values[q]
        if not low < high and not missing:
            continue
        if n_categories[a] > 0:
            score, mask = _best_categories(values, y, weight, n_categories[a], work[2].shape[1], need, work[4], state)
            split = math.nan
        else:
            score, split, mask = _best_bound(values, y, weight, need, work, state)
        if score > best:
            best, best_feature, best_split, best_mask = score, a, split, mask
        tried += 1
        if tried == classes.n_features:
            break
    whole = classes.sides[0]
    whole[:] = 0.0
    for q in range(m):
        whole[y[q]] += weight[q]
    put_feature(classes.urn, best_feature, best - negative_entropy(whole, classes.table))
    return best_feature, best_split, best_mask
