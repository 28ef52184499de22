"""Rows of a stream made ready for a growth, without the GIL: their codes, their order, their units."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.stream_state import squash, to_units

__all__ = ["codes_of", "in_units", "pick", "rows_of", "units_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.uint64]

SPIKE = 16.0  # as in `forests.scaling`, like all that follows
NEGATIVE_ZERO = np.uint64(1 << 63)
FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
U29, U32 = np.uint64(29), np.uint64(32)


@kernel
def codes_of(X: Codes, y: Codes, codes: Codes) -> None:
    """Write `row_codes` of rows whose numbers come as bits to codes (n,), zeros before."""
    n, p = X.shape
    for i in range(n):
        code = codes[i]
        for a in range(p + 1):
            bits = X[i, a] if a < p else y[i]
            if bits == NEGATIVE_ZERO:
                bits ^= NEGATIVE_ZERO
            code = (code ^ bits) * FIRST
            code ^= code >> U29
            code *= SECOND
            code ^= code >> U32
        codes[i] = code


@kernel
def pick(X: Floats, y: Floats, order: Ints, columns: Floats, unit: Floats) -> None:
    """Write the columns (p + 1, n) of the rows in an order, y last, each over its largest size; and those sizes, in
    unit (p + 1,), zeros before.
    """
    n, p = len(order), X.shape[1]
    for i in range(n):
        row = order[i]
        for a in range(p + 1):
            t = X[row, a] if a < p else y[row]
            columns[a, i] = t
            unit[a] = max(unit[a], abs(t))
    for a in range(p + 1):
        if unit[a] == 0.0:
            unit[a] = 1.0
        for i in range(n):
            columns[a, i] /= unit[a]  # so that no square overflows or vanishes


@kernel
def _moments(column: Floats, low: float, high: float) -> tuple[float, float]:
    """Mean and standard deviation of a column that is clipped to low..high."""
    n = len(column)
    mean, square = 0.0, 0.0
    for i in range(n):
        mean += min(max(column[i], low), high) / n
    for i in range(n):
        square += (min(max(column[i], low), high) - mean) ** 2 / n
    return mean, math.sqrt(square)


@kernel
def units_of(columns: Floats, unit: Floats, ends: Floats, out: Floats) -> None:
    """Centre and scale of every column into out (2, p + 1); ends (2, p + 1): its quantiles 0.01 and 0.99."""
    for a in range(len(unit)):
        centre, scale = _moments(columns[a], ends[0, a], ends[1, a])
        deviation = _moments(columns[a], -math.inf, math.inf)[1]
        scale = max(scale, deviation / SPIKE) if deviation > 1e-14 else 1.0
        out[0, a], out[1, a] = centre * unit[a], max(scale * unit[a], np.finfo(np.float64).tiny)


@kernel
def in_units(X: Floats, y: Floats, order: Ints, units: Floats, Z: Floats, r: Floats) -> None:
    """Write rows in an order and in units (2, p + 1), as a stream that learns them sees them, to Z (n, p), r (n,)."""
    n, p = len(order), X.shape[1]
    for i in range(n):
        for a in range(p):
            Z[i, a] = squash(to_units(X[order[i], a], units[0, a], units[1, a]))
        r[i] = to_units(y[order[i]], units[0, p], units[1, p])


@kernel
def rows_of(X: Floats, y: Floats, order: Ints, Z: Floats, r: Floats) -> None:
    """Write X[order] to Z (n, p) and y[order] to r (n,); NumPy would hold the GIL for the first."""
    n, p = X.shape
    for i in range(n):
        for a in range(p):
            Z[i, a] = X[order[i], a]
        r[i] = y[order[i]]
