"""Whether the cells of an optional Polya tree from a file are a tree that the kernels of `dyadic_walk` can walk."""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.dyadic_cells import AXIS, BITS, CHILD, HALVINGS

__all__ = ["cells_are_sound"]

Ints = NDArray[np.int64]


@kernel
def cells_are_sound(first: Ints, move: Ints, q: int) -> bool:
    """Whether each cell but the first is half of one before it, and every move knows how often its axis was halved."""
    N = len(first) - 1
    seen, cuts = np.zeros(N, np.bool_), np.zeros((N, q), np.int64)
    seen[0] = True
    for k in range(N):
        if not seen[k] or first[k] > first[k + 1]:
            return False
        for m in range(first[k], first[k + 1]):
            axis = move[m, AXIS]
            if axis < 0 or axis >= q or move[m, HALVINGS] != cuts[k, axis] or cuts[k, axis] >= BITS - 1:
                return False
            for side in range(2):
                child = move[m, CHILD + side]
                if child < -1 or child >= N or (child >= 0 and (child <= k or seen[child])):
                    return False
                if child >= 0:
                    seen[child] = True
                    for a in range(q):
                        cuts[child, a] = cuts[k, a]
                    cuts[child, axis] += 1
    return True
