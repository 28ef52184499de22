"""The values of a linear function plus cosine waves, row by row: the answer of a row does not depend on the others."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = ["waves"]

Floats = NDArray[np.float64]


@kernel
def waves(Z: Floats, frequency: Floats, phase: Floats, coefficients: Floats) -> Floats:
    """c_0 + c_a z_a + c_k cos(frequency_k'z + phase_k) in rows Z (n, p); frequency (D, p), coefficients (1 + p + D,)."""
    n, p = Z.shape
    out = np.empty(n)
    for i in range(n):
        z = Z[i]
        total = coefficients[0]
        for a in range(p):
            total += coefficients[1 + a] * z[a]
        for k in range(len(phase)):
            row, angle = frequency[k], phase[k]
            for a in range(p):
                angle += row[a] * z[a]
            total += coefficients[1 + p + k] * math.cos(angle)
        out[i] = total
    return out
