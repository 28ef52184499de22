"""Which side of a cut an x is on: the one place that knows.

A cut of a number is a bound: x <= cut goes left. A cut of a category, known by cut = NaN, is a set of levels: x is the
number of a level, and bit x of the mask ``levels`` says that it goes left. A missing x (NaN) goes where the highest bit
says, in either kind of cut.
"""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = ["MISSING", "MOST_LEVELS", "OWN_LEVELS", "UNSEEN", "goes_right", "mask_of", "missing_goes", "order_levels"]

MOST_LEVELS = 62  # levels of a category: bits 0 to 61 of a mask
OWN_LEVELS = 61  # of them with a bit of their own; one is left for all others
UNSEEN = 62  # the number of a level that was not there at fit
MISSING = 63  # the bit of x = NaN


@kernel
def goes_right(x: float, cut: float, levels: int) -> int:
    """0 if x goes left, 1 if it goes right."""
    if x <= cut:
        return 0
    if x > cut:
        return 1
    bit = MISSING if x != x else int(x)  # NaN is the one number that is not itself
    return 1 - ((levels >> bit) & 1)


@kernel
def order_levels(mean: NDArray[np.float64], size: NDArray[np.float64], order: NDArray[np.int64]) -> int:
    """Sort the levels that have rows by their mean, into order; how many they are."""
    n = 0
    for level in range(len(size)):
        if size[level] > 0.0:
            i = n
            while i > 0 and mean[order[i - 1]] > mean[level]:
                order[i] = order[i - 1]
                i -= 1
            order[i] = level
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
