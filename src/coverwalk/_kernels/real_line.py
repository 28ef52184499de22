"""The real line onto (0, 1): a law that is flat where the data are and falls like a power beyond.

With c = CORE, in standardised units,

    f(z) = 3 / (8 c)                    |z| <= c     3/4 of the mass: u runs through [1/8, 7/8], six of eight cells
    f(z) = 3 / (16 c) (c / |z|)^(5/2)   |z| >  c     1/8 on either side; the mean is finite

Flat in the core, so that dyadic cells of u are intervals of equal length and a uniform y stays uniform in u.
"""

from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel

__all__ = ["CORE", "TAIL", "from_unit", "log_slope", "morton", "to_unit"]

Floats = NDArray[np.float64]
CORE = 3.0  # the six cells of the core are one unit wide each
TAIL = 1.5  # P(|z| > t) falls like t^-TAIL: the mean exists, and a value far out costs little more than it must
_LOG_CORE = log(3.0 / (8.0 * CORE))
_LOG_TAIL = log(TAIL / (8.0 * CORE))


@kernel
def to_unit(z: float) -> float:
    """u = F(z), the cdf of the law above; beyond 10^10 it rounds to 0 or 1."""
    if z > CORE:
        return 1.0 - 0.125 * (CORE / z) ** TAIL
    if z < -CORE:
        return 0.125 * (CORE / -z) ** TAIL
    return 0.5 + z * (0.375 / CORE)


@kernel
def from_unit(u: float) -> float:
    """z = F^-1(u)."""
    if u > 0.875:
        return CORE * (8.0 * (1.0 - u)) ** (-1.0 / TAIL)
    if u < 0.125:
        return -CORE * (8.0 * u) ** (-1.0 / TAIL)
    return (u - 0.5) * (CORE / 0.375)


@kernel
def log_slope(z: float) -> float:
    """log f(z); finite for every finite z."""
    if abs(z) > CORE:
        return _LOG_TAIL - (TAIL + 1.0) * log(abs(z) / CORE)
    return _LOG_CORE


@kernel
def morton(Z: Floats, t: int, max_depth: int) -> int:
    """The path of Z[t] (q,) through the halvings of (0, 1)^q: bit 63 - j is the side taken at depth j, of output j mod q.

    Only the first max_depth <= 64 bits are used; u = 1, which only rounding can give, belongs to the last cell.
    """
    q = Z.shape[1]
    bits = min(ceil(max_depth / q), 52)
    code = 0
    for i in range(q):
        cell = min(int(to_unit(Z[t, i]) * 2.0**bits), (1 << bits) - 1)
        for level in range(bits):
            j = level * q + i
            if j < max_depth:
                code |= ((cell >> (bits - 1 - level)) & 1) << (63 - j)
    return code
