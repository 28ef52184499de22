"""What local models see of rows with missing values and categories: the means of a row's leaf, and nothing."""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = ["fill_rows", "leaf_means"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Truths = NDArray[np.bool_]


@kernel
def leaf_means(Z: Floats, leaf: Ints, parent: Ints, column: Ints) -> tuple[Floats, Floats]:
    """Means (N, m) of the values that are there in m columns of Z (n, p), in every context of a tree, and their counts.

    leaf (n,): that of each row; parent (N,), smaller than its children. A context without a value has its parent's
    mean, the root 0.
    """
    N, m = len(parent), len(column)
    mean, count = np.zeros((N, m)), np.zeros((N, m))
    for j in range(m):
        for i in range(len(Z)):
            z = Z[i, column[j]]
            if z == z:
                mean[leaf[i], j] += z
                count[leaf[i], j] += 1.0
        for k in range(N - 1, 0, -1):
            mean[parent[k], j] += mean[k, j]
            count[parent[k], j] += count[k, j]
        for k in range(N):
            above = mean[parent[k], j] if k > 0 else 0.0
            mean[k, j] = mean[k, j] / count[k, j] if count[k, j] > 0.0 else above
    return mean, count


@kernel
def fill_rows(Z: Floats, leaf: Ints, mean: Floats, categories: Truths) -> Floats:
    """Rows Z (n, p) with missing values at the mean (N, p) of their leaf and categories at 0."""
    n, p = Z.shape
    local = np.zeros((n, p))
    for i in range(n):
        for a in range(p):
            z = Z[i, a]
            if not categories[a]:
                local[i, a] = z if z == z else mean[leaf[i], a]
    return local
