"""Pseudo-random numbers that depend on what a row holds alone, and y spread over its rounding cell by them."""

import numpy as np

from coverwalk._arrays import Floats, Ints, UInts
from coverwalk._kernels._compile import kernel

_GOLDEN = 0.6180339887498949


@kernel
def _mixed(code: np.uint64) -> np.uint64:
    code = code * np.uint64(0x9E3779B97F4A7C15)
    code = (code ^ (code >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return code ^ (code >> np.uint64(32))


@kernel
def hash_rows(X: Floats, y: Floats, out: UInts) -> None:
    """Fill out (n,): a number for each row X (n, p), y (n,)."""
    row = np.empty(X.shape[1] + 1)
    bits = row.view(np.uint64)
    for i in range(len(y)):
        for j in range(X.shape[1]):
            row[j] = X[i, j] + 0.0  # -0.0 and 0.0 are one value
        row[-1] = y[i] + 0.0
        code = np.uint64(0)
        for word in bits:
            code = _mixed(code ^ word)
        out[i] = code


@kernel
def uniforms(code: UInts, rank: Ints, out: Floats) -> None:
    """Fill out (n,) with numbers in (0, 1), one a code; those of equal codes, told apart by rank, lie evenly apart."""
    for i in range(len(out)):
        start = float(_mixed(code[i] ^ np.uint64(0xD1B54A32D192ED03)) >> np.uint64(12)) * 2.0**-52
        out[i] = (start + rank[i] * _GOLDEN + 2.0**-53) % 1.0


@kernel
def spread_on_grid(y: Floats, u: Floats, origin: float, step: float, snap: float, out: Floats) -> None:
    """Fill out (n,): y moved to the place u (n,) in its cell of the grid; unmoved where it is not on the grid."""
    for i in range(len(y)):
        z = (y[i] - origin) / step
        near = np.rint(z)
        out[i] = y[i]
        if abs(z - near) <= snap:
            left, right = origin + (near - 0.5) * step, origin + (near + 0.5) * step
            out[i] = left + u[i] * (right - left)
