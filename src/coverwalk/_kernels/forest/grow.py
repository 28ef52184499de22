"""Grow one tree of contexts from rows: one queue, one partition, and splits by exchangeable criteria.

In a context, in random order of its rows, a run of them judges a few splits drawn at random; the best one divides it.
What is best a criterion says: the evidence of lines (`line_criterion`), the entropy of classes (`class_criterion`) or
the evidence of normals (`normal_criterion`).
"""

from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.class_criterion import Classes, class_split
from coverwalk._kernels.forest.line_criterion import Lines, line_split
from coverwalk._kernels.forest.node import NODE, goes_right
from coverwalk._kernels.forest.normal_criterion import NormalContexts, fit_normal, normal_split
from coverwalk._kernels.linalg.splitmix import mix, uniform

Grown = tuple[Any, Ints, Ints, Ints]  # nodes, parent, start, end: context k holds rows perm[start[k]:end[k]]


def empty_nodes(n: int, min_rows: int) -> Grown:
    """Capacity for any tree that `grow` can make of n rows."""
    capacity = max(2 * (n // max(min_rows, 1)) + 1, 1)
    parent, start, end = np.full(capacity, -1), np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    nodes = np.zeros(capacity, NODE)
    nodes["left"] = nodes["feature"] = -1
    return nodes, parent, start, end


@kernel
def _divide(x: Floats, split: float, mask: int, perm: Ints, s: int, e: int, spare: Ints) -> int:
    """Put the rows perm[s:e] that go left before those that go right, in order; where the right ones start.

    x (n,): the feature that is split.
    """
    middle, n_right = s, 0
    for q in range(s, e):
        i = perm[q]
        if goes_right(x[i], split, mask) == 0:
            perm[middle] = i
            middle += 1
        else:
            spare[n_right] = i
            n_right += 1
    for q in range(n_right):
        perm[middle + q] = spare[q]
    return middle


@kernel
def grow(
    X: Floats,
    perm: Ints,
    n_categories: Ints,
    seed: np.uint64,
    min_rows: int,
    sample: int,
    lines: Lines | None,
    classes: Classes | None,
    normals: NormalContexts | None,
    grown: Grown,
) -> int:
    """Grow a tree on the rows of X (n, p) named in ``perm``, in random order; perm is put in the order of the contexts.

    Column a has numbers, or the numbers of n_categories[a] > 0 categories; columns behind these are not split; NaN is
    missing. Of the three criteria one is given: Numba compiles what it needs, and nothing of the others. Normals make
    their own feature: X (n, 1) is work space then.

    Fills the first N of the `empty_nodes`, and returns N. Parents come before children, siblings side by side.
    """
    nodes, parent, start, end = grown
    name = np.zeros(len(parent), np.uint64)  # a context's own random stream: it depends on the path alone
    spare, state = np.empty(len(perm), np.int64), np.zeros(1, np.uint64)
    end[0], name[0], n_nodes = len(perm), mix(np.uint64(seed)), 1
    k = 0
    while k < n_nodes:
        s, e = start[k], end[k]
        n = e - s
        state[0] = name[k]
        m = min(n, sample)
        first = s + int(uniform(state) * (n - m + 1))  # rows are in random order: a run of them is a sample
        run = (first, m, float(min_rows) if m == n else max(2.0, min_rows * m / n))
        a, split, mask = -1, 0.0, 0
        if normals is not None:
            fit_normal(perm, s, e, k, parent[k], normals)
        if n >= 2 * min_rows and X.shape[1] > 0:
            if lines is not None:
                a, split, mask = line_split(X, perm, (s, e), run, n_categories, lines, k == 0, state)
            if classes is not None:
                a, split, mask = class_split(X, perm, (s, e), run, n_categories, classes, state)
            if normals is not None:
                a, split = normal_split(X, perm, (s, e), run, k, parent[k], normals, state)
        if a >= 0:
            middle = _divide(X[:, a], split, mask, perm, s, e, spare)
            if min(middle - s, e - middle) >= min_rows:
                nodes[k].feature, nodes[k].split, nodes[k].categories, nodes[k].left = a, split, mask, n_nodes
                for side in range(2):
                    child = n_nodes + side
                    parent[child], name[child] = k, mix(name[k] + np.uint64(side + 1))
                    start[child] = s if side == 0 else middle
                    end[child] = middle if side == 0 else e
                n_nodes += 2
        k += 1
    return n_nodes
