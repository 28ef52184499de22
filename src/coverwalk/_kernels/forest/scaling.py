"""Columns of any scale as numbers of order one; `coverwalk.preparation.scaling` has the way back."""

import math

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel

BULK = 4.0  # units up to which inputs are taken as they are; logarithms beyond
FARTHEST = 1e300


@kernel
def to_units(x: float, centre: float, scale: float, squash: bool) -> float:
    """X in units, with logarithmic tails where it is squashed; by halves, because a difference may overflow."""
    z = min(max((0.5 * x - 0.5 * centre) / (0.5 * scale), -FARTHEST), FARTHEST)
    if squash and abs(z) > BULK:
        far = BULK + math.log(abs(z) - (BULK - 1.0))
        return far if z > 0.0 else -far
    return z


@kernel
def scale_rows(X: Floats, centre: Floats, scale: Floats, squash: bool, out: Floats) -> None:
    """Fill out (n, p) with rows X (n, p) in units; NaN stays NaN."""
    for i in range(len(X)):
        for a in range(X.shape[1]):
            x = X[i, a]
            out[i, a] = x if x != x else to_units(x, centre[a], scale[a], squash)


@kernel
def frame_rows(X: Floats, centre: Floats, scale: Floats, category: Ints, Z: Floats, plain: Floats) -> None:
    """Rows X (n, p) as splits read them, into Z: inputs in units, categories as they are; and into plain, without
    missing values and categories. category (p,): more than 0 for categories. Columns of infinite scale are zero.
    """
    for i in range(len(X)):
        for a in range(X.shape[1]):
            x = X[i, a] if scale[a] < math.inf else 0.0
            number = category[a] == 0 and x == x
            Z[i, a] = to_units(x, centre[a], scale[a], True) if number else x
            plain[i, a] = Z[i, a] if number else 0.0


@kernel
def all_finite(row: Floats) -> bool:
    """Whether a row (1, p) has finite numbers only; NumPy takes five times as long for a few."""
    finite = True
    for a in range(row.shape[1]):
        finite &= abs(row[0, a]) < math.inf
    return finite


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
