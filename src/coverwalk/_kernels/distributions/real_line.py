"""The real line onto (0, 1): a distribution that is flat where the data are and has the tails of Student's t beyond.

With c = CORE, in standardised units, and t2 the distribution of Student's t with 2 degrees of freedom,

    f(z) = 3 / (8 c)       |z| <= c     3/4 of the mass: u runs through [1/8, 7/8], six of eight cells
    f(z) = K t2(z)         |z| >  c     1/8 on either side, K = 1/8 / Pr_t2(z > c); the mean is finite

Flat in the core, so that dyadic cells of u are intervals of equal length and a uniform y stays uniform in u.
"""

from math import ceil, log, sqrt

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.shapes import t2_lower

CORE = 3.0  # the six cells of the core are one unit wide each
TAILS = 0.125 * sqrt(2.0 + CORE * CORE) * (sqrt(2.0 + CORE * CORE) + CORE)  # K
_LOG_CORE = log(3.0 / (8.0 * CORE))
_LOG_TAILS = log(TAILS)


@kernel
def to_unit(z: float) -> float:
    """u = F(z), the cdf of the distribution above; it rounds to 1 only beyond 10^7."""
    if z > CORE:
        return 1.0 - TAILS * t2_lower(-z)
    if z < -CORE:
        return TAILS * t2_lower(z)
    return 0.5 + z * (0.375 / CORE)


@kernel
def from_unit(u: float) -> float:
    """z = F^-1(u)."""
    if 0.125 <= u <= 0.875:
        return (u - 0.5) * (CORE / 0.375)
    tail = min(u, 1.0 - u) / TAILS
    z = (1.0 - 2.0 * tail) / sqrt(2.0 * tail * (1.0 - tail))
    return -z if u < 0.5 else z


@kernel
def log_slope(z: float) -> float:
    """log f(z); finite for every finite z."""
    if abs(z) > 1e100:
        return _LOG_TAILS - 3.0 * log(abs(z))
    if abs(z) > CORE:
        return _LOG_TAILS - 1.5 * log(2.0 + z * z)
    return _LOG_CORE


@kernel
def morton(Z: Floats, t: int, max_depth: int) -> int:
    """The path of Z[t] (q,) through the halvings of (0, 1)^q: bit 63 - j is the side at depth j, of output j mod q.

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
