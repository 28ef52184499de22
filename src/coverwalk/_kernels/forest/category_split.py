"""The best split of a column of categories: one of the prefixes in some order of its categories, whatever judges it."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.node import MISSING
from coverwalk._kernels.forest.side_scores import line_evidence, negative_entropy


@kernel
def order_categories(mean: Floats, size: Floats, order: Ints) -> int:
    """Sort the categories that have rows by their mean, into order; how many they are."""
    n = 0
    for category in range(len(size)):
        if size[category] > 0.0:
            i = n
            while i > 0 and mean[order[i - 1]] > mean[category]:
                order[i] = order[i - 1]
                i -= 1
            order[i] = category
            n += 1
    return n


@kernel
def mask_of(order: Ints, n_left: int, n_present: int, larger_left: bool) -> np.int64:
    """The mask that sends the first n_left categories of an order left, and those without rows to the larger side."""
    mask = np.int64(0)
    if larger_left:
        mask = np.int64(-1)
        for i in range(n_present):
            mask &= ~(np.int64(1) << order[i])
    for i in range(n_left):
        mask |= np.int64(1) << order[i]
    return mask


@kernel
def missing_goes(mask: np.int64, left: bool) -> np.int64:
    """The mask with missing x sent left or right."""
    bit = np.int64(1) << np.int64(MISSING)
    return mask | bit if left else mask & ~bit


@kernel
def best_prefix(
    size: Floats, sums: Floats, rate: Floats, need: float, line: tuple[float, Floats] | None, entropies: Floats | None
) -> tuple[float, int]:
    """The prefix of most score, of the categories in the order of their rate: its score, and the mask of the set.

    size (n + 1,) and sums (n + 1, m): rows of each of n categories and of missing values, and what scores are made of:
    of a line the sums of r and rr, else the weight of each class. line: variance of r and a table, or None: then a side
    is judged by its classes. Missing values go to the better side; categories without rows to the larger one.
    """
    n_categories, m = len(rate), sums.shape[1]
    order, low, high, total = np.zeros(n_categories, np.int64), np.zeros(m), np.zeros(m), np.zeros(m)
    present = order_categories(rate, size[:n_categories], order)
    missing, n, below, best, best_mask = size[n_categories], 0.0, 0.0, -math.inf, 0
    for category in range(n_categories + 1):
        n += size[category]
        for j in range(m):
            total[j] += sums[category, j]
    for taken in range(1, present + (missing > 0.0)):  # all categories against the missing ones is a split too
        below += size[order[taken - 1]]
        for j in range(m):
            low[j] += sums[order[taken - 1], j]
        for side in range(2 if missing > 0.0 else 1):  # where missing values go: left, right
            with_missing = side == 0 and missing > 0.0
            n0 = below + missing if with_missing else below
            if n0 < need or n - n0 < need:
                continue
            for j in range(m):
                high[j] = total[j] - low[j]
            if with_missing:
                for j in range(m):
                    low[j] += sums[n_categories, j]
                    high[j] -= sums[n_categories, j]
            score = -math.inf
            if line is not None:
                score = line_evidence(n0, 0.0, low[0], 0.0, 0.0, low[1], line[0], line[1])
                score += line_evidence(n - n0, 0.0, high[0], 0.0, 0.0, high[1], line[0], line[1])
            if entropies is not None:
                score = negative_entropy(low, entropies) + negative_entropy(high, entropies)
            if with_missing:
                for j in range(m):
                    low[j] -= sums[n_categories, j]
            if score > best:
                best, best_mask = score, mask_of(order, taken, present, 2.0 * n0 >= n)
                if missing > 0.0:
                    best_mask = missing_goes(best_mask, side == 0)
    return best, best_mask
