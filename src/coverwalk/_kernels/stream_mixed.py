"""Missing values and categories on a stream: on which side of a cut a row lies, and what local models see of it.

Every kernel of a stream takes a `MixedState`, or None where all that ever came were numbers: it is then compiled
without a trace of what is here.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.cut import goes_right

__all__ = ["MixedState", "has_gap", "in_cuts", "learn_means", "side_of", "what_is_seen"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class MixedState(NamedTuple):
    """Beside the contexts of a `StreamState`, one row for each."""

    masks: Ints  # (slots * room,) of the cuts: see `cut`
    means: Floats  # (slots * room, 2 p) of leaves: the mean of each input, then how many values it is of
    categories: NDArray[np.bool_]  # (p,)


@kernel
def has_gap(X: Floats, row: int) -> bool:
    """Whether a value of a row is missing."""
    gap = False
    for a in range(X.shape[1]):
        gap = gap or X[row, a] != X[row, a]
    return gap


@kernel
def side_of(mixed: MixedState | None, x: float, cut: float, i: int) -> int:
    """0 if x goes to the left child of context i, 1 if it goes to the right one."""
    if mixed is None:
        return 0 if x <= cut else 1
    return goes_right(x, cut, mixed.masks[i])


@kernel
def in_cuts(mixed: MixedState, X: Floats, row: int, z: Floats) -> None:
    """Of a row in units z (p,), what cuts read: levels by their numbers, and NaN for what is missing."""
    for a in range(len(z)):
        if mixed.categories[a] or X[row, a] != X[row, a]:
            z[a] = X[row, a]


@kernel
def what_is_seen(mixed: MixedState, z: Floats, leaf: int, out: Floats) -> None:
    """Of a row as cuts read it, what local models see: a missing value at its leaf's mean; no category."""
    for a in range(len(z)):
        seen = z[a] if z[a] == z[a] else mixed.means[leaf, a]
        out[a] = 0.0 if mixed.categories[a] else seen


@kernel
def learn_means(mixed: MixedState, z: Floats, leaf: int, forget: float) -> None:
    """Move a leaf's means by a row as cuts read it; the last 1 / forget values count."""
    p = len(z)
    for a in range(p):
        if z[a] == z[a] and not mixed.categories[a]:
            count = mixed.means[leaf, p + a] + 1.0
            if forget > 0.0:
                count = min(count, 1.0 / forget)
            mixed.means[leaf, p + a] = count
            mixed.means[leaf, a] += (z[a] - mixed.means[leaf, a]) / count
