"""The values of a linear function plus cosine waves, row by row: the answer of a row does not depend on the others."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = ["waves"]

Floats = NDArray[np.float64]

# cos(2 pi t) = sum_k (-1)^k (2 pi t)^2k / (2k)!, for |t| <= 1/2; the next term is below 1e-15
SERIES = np.array([(-1.0) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(15)])


@kernel
def waves(Z: Floats, turns: Floats, phase: Floats, coefficients: Floats) -> Floats:
    """c_0 + c_a z_a + c_k cos(2 pi (turns_k'z + phase_k)) in rows Z (n, p); turns (p, D), coefficients (1 + p + D,).

    The cosines are a series without branches, so that the loop over waves vectorises: a quarter of the time.
    """
    n, p = Z.shape
    D = len(phase)
    out, t = np.empty(n), np.empty(D)
    tall = coefficients[1 + p :]
    for i in range(n):
        t[:] = phase
        total = coefficients[0]
        for a in range(p):
            total += coefficients[1 + a] * Z[i, a]
            z, row = Z[i, a], turns[a]
            for k in range(D):
                t[k] += z * row[k]
        for k in range(D):
            u = t[k] - math.floor(t[k] + 0.5)
            square = u * u
            cosine = SERIES[14]
            for j in range(13, -1, -1):
                cosine = cosine * square + SERIES[j]
            t[k] = cosine * tall[k]
        for k in range(D):
            total += t[k]
        out[i] = total
    return out
