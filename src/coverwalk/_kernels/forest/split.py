"""Which side of a split an x is on: the one place that knows.

A split of a number is a threshold: x <= split goes left. A split of a category, known by split = NaN, is a set: x is
the number of a category, and bit x of the mask ``categories`` says that it goes left. A missing x (NaN) goes where the
highest bit says, in either kind of split.
"""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = [
    "MAX_CATEGORIES",
    "MISSING",
    "OWN_CATEGORIES",
    "UNSEEN",
    "goes_right",
    "mask_of",
    "missing_goes",
    "order_categories",
]

MAX_CATEGORIES = 62  # categories of a column: bits 0 to 61 of a mask
OWN_CATEGORIES = 61  # of them with a bit of their own; one is left for all others
UNSEEN = 62  # the number of a level that was not there at fit
MISSING = 63  # the bit of x = NaN


@kernel
def goes_right(x: float, split: float, categories: int) -> int:
    """0 if x goes left, 1 if it goes right."""
    if x <= split:
        return 0
    if x > split:
        return 1
    bit = MISSING if x != x else int(x)  # NaN is the one number that is not itself
    return 1 - ((categories >> bit) & 1)


@kernel
def order_categories(mean: NDArray[np.float64], size: NDArray[np.float64], order: NDArray[np.int64]) -> int:
    """Sort the levels that have rows by their mean, into order; how many they are."""
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
def mask_of(order: NDArray[np.int64], n_left: int, n_present: int, larger_left: bool) -> np.int64:
    """The mask that sends the first n_left levels of an order left, and levels without rows to the larger side."""
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
