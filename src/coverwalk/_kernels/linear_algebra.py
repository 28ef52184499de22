"""Cholesky factors and triangular solves as plain loops whose inner loop runs along a row, so that it vectorises.

A symmetric matrix lives in the upper triangle of a square work array; its factor U (A = U'U) overwrites it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = ["back_solve", "factorise", "forward_solve", "leverage", "log_determinant", "pack", "packed_leverage"]

Floats = NDArray[np.float64]


@kernel
def factorise(A: Floats, d: int) -> None:
    """A = U'U in place, upper triangle; a pivot lost to rounding is kept positive, at rounding's own size."""
    largest = 0.0
    for k in range(d):
        largest = max(largest, A[k, k])
    tiny = 1e-14 * largest + 1e-300
    for k in range(d):
        root = math.sqrt(max(A[k, k], tiny))
        for j in range(k, d):
            A[k, j] /= root
        A[k, k] = root
        for i in range(k + 1, d):
            u, row, top = A[k, i], A[i, i:d], A[k, i:d]
            for j in range(len(row)):
                row[j] -= u * top[j]


@kernel
def log_determinant(U: Floats, d: int) -> float:
    """Log determinant of U'U."""
    total = 0.0
    for k in range(d):
        total += 2.0 * math.log(U[k, k])
    return total


@kernel
def forward_solve(U: Floats, d: int, z: Floats, start: int) -> float:
    """Overwrite z with U'^-1 z, z zero before ``start``; returns the squared length of the result."""
    square = 0.0
    for k in range(start, d):
        t = z[k] / U[k, k]
        z[k] = t
        square += t * t
        rest, row = z[k + 1 : d], U[k, k + 1 : d]
        for j in range(len(rest)):
            rest[j] -= t * row[j]
    return square


@kernel
def back_solve(U: Floats, d: int, z: Floats) -> None:
    """Overwrite z with U^-1 z."""
    for k in range(d - 1, -1, -1):
        t = z[k]
        for j in range(k + 1, d):
            t -= U[k, j] * z[j]
        z[k] = t / U[k, k]


@kernel
def leverage(U: Floats, d: int, f: Floats, z: Floats) -> float:
    """f' (U'U)^-1 f, with z as work space."""
    for k in range(d):
        z[k] = f[k]
    square: float = forward_solve(U, d, z, 0)
    return square


@kernel
def pack(U: Floats, d: int, flat: Floats, at: int) -> None:
    """Write the upper triangle of U, row by row, into flat[at:]."""
    for k in range(d):
        for j in range(k, d):
            flat[at] = U[k, j]
            at += 1


@kernel
def packed_leverage(flat: Floats, at: int, d: int, z: Floats) -> float:
    """z' (U'U)^-1 z for a packed factor; z is overwritten."""
    square = 0.0
    for k in range(d):
        t = z[k] / flat[at]
        square += t * t
        rest, row = z[k + 1 : d], flat[at + 1 : at + d - k]
        for j in range(len(rest)):
            rest[j] -= t * row[j]
        at += d - k
    return square
