"""What local models see of rows with missing values and categories: the means of a row's leaf, and nothing."""

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel

__all__ = ["leaf_means"]


@kernel
def leaf_means(Z: Floats, leaf: Ints, parent: Ints, column: Ints, mean: Floats, count: Floats) -> None:
    """Means (N, m) of the values that are there in m columns of Z (n, p), in every context of a tree, and their counts.

    leaf (n,): that of each row; parent (N,), smaller than its children. A context without a value has its parent's
    mean, the root 0. Both are written to arrays of zeros.
    """
    N = len(parent)
    for j in range(len(column)):
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
