"""Whether the links of a double tree from a file lead where the kernels of `walk` count on."""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = ["lists_are_sound", "trees_are_sound"]

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

_LEFT, _FIRST, _LAST, _TREE, _HELD, _NODES = 0, 5, 6, 7, 9, 10
_DEPTH = 3
_CELL = 4
_EMPTY = -1


@kernel
def trees_are_sound(xi: Ints, yi: Ints, n_rows: int, y_depth: int) -> bool:
    """Whether every y node stands in just one tree, of a context that knows its number of nodes, after its parent."""
    contexts, nodes = xi.shape[0], yi.shape[0]
    owner, depth = np.full(nodes, -1, np.int64), np.zeros(nodes, np.int64)
    count = np.zeros(contexts, np.int64)
    for m in range(contexts):
        root = xi[m, _TREE]
        if root < 0 or root >= nodes or owner[root] >= 0:
            return False
        owner[root] = m
    for node in range(nodes):
        if owner[node] < 0 or depth[node] >= y_depth:
            return False
        count[owner[node]] += 1
        for side in range(2):
            cell = yi[node, _CELL + side]
            if cell >= 0:
                if cell <= node or cell >= nodes or owner[cell] >= 0:
                    return False
                owner[cell], depth[cell] = owner[node], depth[node] + 1
            elif cell < _EMPTY and -2 - np.int64(cell) >= n_rows:
                return False
    wrong = 0
    for m in range(contexts):
        wrong += xi[m, _NODES] != count[m]
    return wrong == 0


@kernel
def lists_are_sound(xi: Ints, yi: Ints, row_next: Ints, codes: Longs, y_depths: Ints) -> bool:
    """Whether every row stands in the list of just one leaf, in order, and in the y tree of that leaf.

    A new context then finds no more cells than its parent has, which is the room that a split asks for.
    """
    n_rows, listed = row_next.shape[0], 0
    for m in range(xi.shape[0]):
        row, last, held = np.int64(xi[m, _FIRST]), np.int64(-1), 0
        while row >= 0:
            if row <= last or row >= n_rows or xi[m, _LEFT] >= 0:
                return False
            if not _stands_in(yi, xi[m, _TREE], codes, row, y_depths[xi[m, _DEPTH]]):
                return False
            last, held = row, held + 1
            row = np.int64(row_next[row])
        if last != xi[m, _LAST] or held != xi[m, _HELD]:
            return False
        listed += held
        if listed > n_rows:
            return False
    return listed == n_rows


@kernel
def _stands_in(yi: Ints, root: int, codes: Longs, row: int, y_depth: int) -> bool:
    """Whether the cells of a row lead to itself, or to the greatest depth."""
    node = np.int64(root)
    for depth in range(y_depth):
        if depth + 1 == y_depth:
            return True
        node = np.int64(yi[node, _CELL + ((codes[row] >> (63 - depth)) & 1)])
        if node < 0:
            return -2 - node == row
    return False
