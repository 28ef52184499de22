"""Cholesky factors and triangular solves as plain loops whose inner loop runs along a row, so that it vectorises.

Rows are indexed, not sliced: to make a view counts references, which takes longer than a short row.

A symmetric matrix lives in the upper triangle of a square work array; its factor U (A = U'U) overwrites it, with the
inverse of its diagonal in place of the diagonal: all that follows divides by it, and a division takes as long as ten
products. A packed factor has its own diagonal.
"""

import math

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import fused_kernel, kernel


@fused_kernel
def factorise(A: Floats, d: int) -> None:
    """A = U'U in place, upper triangle; a pivot lost to rounding is kept positive, at rounding's own size.

    Four rows of the factor at a time are taken off two rows of the rest.
    """
    largest = 0.0
    for k in range(d):
        largest = max(largest, A[k, k])
    tiny = 1e-14 * largest + 1e-300
    for s in range(0, d, 4):
        e = min(s + 4, d)
        for k in range(s, e):
            scale = 1.0 / math.sqrt(max(A[k, k], tiny))
            A[k, k] = scale
            for j in range(k + 1, d):
                A[k, j] *= scale
            for i in range(k + 1, e):
                u = A[k, i]
                for j in range(i, d):
                    A[i, j] -= u * A[k, j]
        if e - s < 4:  # the last rows: nothing comes after them
            break
        for i in range(e, d - 1, 2):
            t0, t1, t2, t3 = A[s, i], A[s + 1, i], A[s + 2, i], A[s + 3, i]
            u0, u1, u2, u3 = A[s, i + 1], A[s + 1, i + 1], A[s + 2, i + 1], A[s + 3, i + 1]
            A[i, i] -= t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3
            for j in range(i + 1, d):
                f0, f1, f2, f3 = A[s, j], A[s + 1, j], A[s + 2, j], A[s + 3, j]
                A[i, j] -= t0 * f0 + t1 * f1 + t2 * f2 + t3 * f3
                A[i + 1, j] -= u0 * f0 + u1 * f1 + u2 * f2 + u3 * f3
        if (d - e) % 2 == 1:
            for k in range(s, e):
                A[d - 1, d - 1] -= A[k, d - 1] * A[k, d - 1]


@kernel
def log_determinant(U: Floats, d: int) -> float:
    """Log determinant of U'U."""
    total = 0.0
    for k in range(d):
        total -= 2.0 * math.log(U[k, k])
    return total


@fused_kernel
def forward_solve(U: Floats, d: int, z: Floats, start: int) -> float:
    """Overwrite z with U'^-1 z, z zero before ``start``; returns the squared length of the result."""
    square = 0.0
    for k in range(start, d):
        t = z[k] * U[k, k]
        z[k] = t
        square += t * t
        for j in range(k + 1, d):
            z[j] -= t * U[k, j]
    return square


@fused_kernel
def back_solve(U: Floats, d: int, z: Floats) -> None:
    """Overwrite z with U^-1 z."""
    for k in range(d - 1, -1, -1):
        t = z[k]
        for j in range(k + 1, d):
            t -= U[k, j] * z[j]
        z[k] = t * U[k, k]
