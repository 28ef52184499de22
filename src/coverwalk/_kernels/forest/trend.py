"""A line, cosines and curves, row by row: features, and values, in which a row does not depend on others."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import fused_kernel, kernel

MISSING = -1  # the category of a missing value
# sin(2 pi v) = sum_k (-1)^k (2 pi v)^(2k + 1) / (2k + 1)!, for |v| <= 1/4; what is left out is below 1e-15
SERIES = np.array([(-1.0) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(10)])


@fused_kernel
def _turn(t: Floats) -> None:
    """Overwrite t with cos(2 pi t): a series without branches, so that the loop vectorises: a quarter of the time."""
    for k in range(len(t)):
        v = 0.25 - abs(t[k] - math.floor(t[k] + 0.5))  # cos(2 pi t) = sin(2 pi v)
        square = v * v
        series = SERIES[9]
        for j in range(8, -1, -1):
            series = series * square + SERIES[j]
        t[k] = v * series


@fused_kernel
def fourier_features(Z: Floats, turns: Floats, phase: Floats, height: float, F: Floats) -> None:
    """1, z_a, height cos(2 pi (turns_k'z + phase_k)) of rows Z (n, p); turns (p, D); into F (n, 1 + p + D)."""
    n, p = Z.shape
    D = len(phase)
    t = np.empty(D)
    for i in range(n):
        F[i, 0] = 1.0
        for k in range(D):
            t[k] = phase[k]
        for a in range(p):
            z = F[i, 1 + a] = Z[i, a]
            if z != 0.0:  # most indicators of categories are
                for k in range(D):
                    t[k] += z * turns[a, k]
        _turn(t)
        for k in range(D):
            F[i, 1 + p + k] = height * t[k]


@fused_kernel
def fourier_value(z: Floats, turns: Floats, phase: Floats, coefficients: Floats, t: Floats) -> float:
    """c_0 + c_a z_a + c_k cos(2 pi (turns_k'z + phase_k)) at z (p,); turns (p, D), coefficients (1 + p + D,)."""
    p, D = len(z), len(phase)
    total = coefficients[0]
    for k in range(D):
        t[k] = phase[k]
    for a in range(p):
        total += coefficients[1 + a] * z[a]
        if z[a] != 0.0:
            for k in range(D):
                t[k] += z[a] * turns[a, k]
    _turn(t)
    for k in range(D):
        total += coefficients[1 + p + k] * t[k]
    return total


@kernel
def curves_value(z: Floats, column: Ints, knots: Floats, heights: Floats) -> float:
    """The sum over j of heights (q, K) at knots (q, K), in ascending order, and straight between: at z[column_j]."""
    total = 0.0
    for j in range(len(column)):
        value, low, high = z[column[j]], 0, knots.shape[1] - 1
        while high - low > 1:
            middle = (low + high) // 2
            if knots[j, middle] <= value:
                low = middle
            else:
                high = middle
        width = knots[j, high] - knots[j, low]
        share = min(max((value - knots[j, low]) / width, 0.0), 1.0) if width > 0.0 else 0.0
        total += (1.0 - share) * heights[j, low] + share * heights[j, high]
    return total


@kernel
def trend_values(
    Z: Floats,
    turns: Floats,
    phase: Floats,
    coefficients: Floats,
    column: Ints,
    knots: Floats,
    heights: Floats,
    out: Floats,
) -> None:
    """Fill out (n,): the value in each row of Z (n, p)."""
    t = np.empty(len(phase))
    for i in range(len(Z)):
        out[i] = fourier_value(Z[i], turns, phase, coefficients, t) + curves_value(Z[i], column, knots, heights)
