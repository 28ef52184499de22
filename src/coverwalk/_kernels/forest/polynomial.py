"""Polynomials of degree 0, 1, 2 in the inputs, as features."""

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel


@kernel
def n_features(degree: int, p: int) -> int:
    """1, then p, then every product of two inputs, squares included."""
    if degree == 0:
        return 1
    if degree == 1:
        return 1 + p
    return 1 + p + p * (p + 1) // 2


def places_of(columns: Ints, degree: int, p: int) -> Ints:
    """Where the features of some of p inputs, in ascending order, are among those of all.

    >>> places_of(np.array([0, 2]), 2, 3).tolist()  # 1, x_0, x_2, x_0 x_0, x_2 x_0, x_2 x_2
    [0, 1, 3, 4, 7, 9]
    """
    one, (first, second) = np.zeros(1, np.int64), np.tril_indices(len(columns))
    a, b = columns[first], columns[second]
    return np.concatenate([one, 1 + columns, 1 + p + a * (a + 1) // 2 + b])[: n_features(degree, len(columns))]


@kernel
def features(x: Floats, degree: int, f: Floats) -> None:
    """f = 1, x_a, x_a x_b (b <= a), as far as the degree goes."""
    p = len(x)
    f[0] = 1.0
    if degree >= 1:
        for a in range(p):
            f[1 + a] = x[a]
    if degree >= 2:
        at = 1 + p
        for a in range(p):
            for b in range(a + 1):
                f[at + b] = x[a] * x[b]
            at += a + 1


@kernel
def add_features(X: Floats, q: int, degree: int, weight: float, out: Floats, k: int) -> None:
    """Add weight f(x), x being row q of X, to row k of out; slices would be counted as referenced."""
    p = X.shape[1]
    out[k, 0] += weight
    if degree >= 1:
        for a in range(p):
            out[k, 1 + a] += weight * X[q, a]
    if degree >= 2:
        at = 1 + p
        for a in range(p):
            t = weight * X[q, a]
            for b in range(a + 1):
                out[k, at + b] += t * X[q, b]
            at += a + 1
