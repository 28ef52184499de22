"""The record of a node, declared once, and which side of its split an x is on: the one place that knows.

A split of a number is a threshold: x <= split goes left. A split of a category, known by split = NaN, is a set: x is
the number of a category, and bit x of the mask ``categories`` says that it goes left. A missing x (NaN) goes where the
highest bit says, in either kind of split.
"""

from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel

MAX_CATEGORIES = 62  # categories of a column: bits 0 to 61 of a mask
OWN_CATEGORIES = 61  # of them with a bit of their own; one is left for all others
UNSEEN = 62  # the number of a category that was not there at fit
MISSING = 63  # the bit of x = NaN
TOGETHER = 64  # rows that go down a tree side by side

NODE = np.dtype(  # contexts of a tree, parents first, siblings side by side; context 0 is the whole space
    [
        ("split", np.float64),  # NaN between categories
        ("categories", np.int64),  # a mask
        ("left", np.int32),  # the child where x[feature] <= split; the other one follows it; -1 in a leaf
        ("feature", np.int32),  # -1 in a leaf
    ],
    align=True,
)


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
def child_of(nodes: Any, k: int, x: Floats) -> int:
    """The child of context k that holds x (p,)."""
    side: int = goes_right(x[nodes[k].feature], nodes[k].split, nodes[k].categories)
    return nodes[k].left + side


@kernel
def route(X: Floats, frame: Ints, nodes: Any, root: Ints, leaf: Ints) -> None:
    """Write the leaf of every row, in the trees that start at nodes root (T,), to leaf (T, n); X (F, n, p): the rows in
    F frames, of which each tree has one, frame (T,).
    """
    n = X.shape[1]
    going = np.empty((2, TOGETHER), np.uint64)  # trees and rows that are not in a leaf yet
    t, i = 0, 0
    while t < len(leaf) and n > 0:  # side by side: while one waits for memory, the others go on
        size = 0
        while size < TOGETHER and t < len(leaf):
            going[0, size], going[1, size], leaf[t, i] = t, i, root[t]
            size, i = size + 1, i + 1
            if i == n:
                t, i = t + 1, 0
        while size > 0:
            still = 0
            for j in range(size):
                tree, row = going[0, j], going[1, j]
                k = np.uint64(leaf[tree, row])
                left = nodes[k].left
                if left >= 0:
                    x = X[np.uint64(frame[tree]), row, np.uint64(nodes[k].feature)]
                    split = nodes[k].split
                    right = np.int64(x > split)
                    if x != x or split != split:
                        right = goes_right(x, split, nodes[k].categories)
                    leaf[tree, row] = left + right
                    going[0, still], going[1, still] = tree, row
                    still += 1
            size = still


@kernel
def arrange(leaf: Ints, nodes: Any, perm: Ints, start: Ints, end: Ints) -> None:
    """Sort rows by leaf so that every context holds one run of them, rows of a leaf keeping their order.

    Writes perm (n,), start (N,) and end (N,): context k holds rows perm[start[k]:end[k]].
    """
    N = len(nodes)
    size = np.zeros(N, np.int64)
    start[0] = 0
    for k in leaf:
        size[k] += 1
    for k in range(N - 1, -1, -1):
        left = nodes[k].left
        if left >= 0:
            size[k] = size[left] + size[left + 1]
    for k in range(N):
        left = nodes[k].left
        if left >= 0:
            start[left] = start[k]
            start[left + 1] = start[k] + size[left]
    for k in range(N):
        end[k] = start[k] + size[k]
    at = start.copy()
    for i in range(len(leaf)):
        perm[at[leaf[i]]] = i
        at[leaf[i]] += 1


@kernel
def by_leaf(leaf: Ints, first: int, last: int, order: Ints) -> None:
    """Fill order (n,): rows by leaf, where these are nodes first:last."""
    start = np.zeros(last - first + 1, np.int64)
    for k in leaf:
        start[k - first + 1] += 1
    for k in range(1, len(start)):
        start[k] += start[k - 1]
    for i in range(len(leaf)):
        order[start[leaf[i] - first]] = i
        start[leaf[i] - first] += 1


@kernel
def add_to_parents(parent: Ints, values: Floats) -> None:
    """Add the values (N, m) of each context to those of its parent, from the last one upwards."""
    for k in range(len(parent) - 1, 0, -1):
        for j in range(values.shape[1]):
            values[parent[k], j] += values[k, j]


@kernel
def add_to_children(parent: Ints, values: Floats) -> None:
    """Add the value (N,) of each context to those of its children, from the root downwards."""
    for k in range(1, len(parent)):
        values[k] += values[parent[k]]
