"""The real line onto (0, 1): a law that is flat where the data are and falls like a power beyond.

With c = CORE, in standardised units,

    f(z) = h                 |z| <= c         3/4 of the mass: u runs through [1/8, 7/8], six of eight dyadic cells
    f(z) = h (c / |z|)^4     |z| >  c         1/8 on either side; mean and variance are finite
    h    = 3 / (8 c)

Flat in the core, so that dyadic cells of u are intervals of equal length in z and a cell's uniform law is uniform in y.
"""

from math import ceil, log

from coverwalk._kernels._compile import kernel

__all__ = ["CORE", "from_unit", "log_slope", "morton", "to_unit"]

CORE = 3.0  # the six cells of the core are one standard deviation wide each
_LOG_H = log(3.0 / (8.0 * CORE))


@kernel
def to_unit(z: float) -> float:
    """u = F(z), the cdf of the law above. It rounds to 0 or 1 only beyond 10^5."""
    if z > CORE:
        return 1.0 - 0.125 * (CORE / z) ** 3
    if z < -CORE:
        return 0.125 * (CORE / -z) ** 3
    return 0.5 + z * (0.375 / CORE)


@kernel
def from_unit(u: float) -> float:
    """z = F^-1(u)."""
    if u > 0.875:
        return CORE / (8.0 * (1.0 - u)) ** (1.0 / 3.0)
    if u < 0.125:
        return -CORE / (8.0 * u) ** (1.0 / 3.0)
    return (u - 0.5) * (CORE / 0.375)


@kernel
def log_slope(z: float) -> float:
    """log f(z); finite for every finite z."""
    if abs(z) > CORE:
        return _LOG_H - 4.0 * log(abs(z) / CORE)
    return _LOG_H


@kernel
def morton(z, max_depth):  # type: ignore[no-untyped-def]
    """The path of z (q,) through the halvings of (0, 1)^q: bit 63 - j is the side taken at depth j, which halves j mod q.

    Only the first max_depth <= 64 bits are used; u = 1, which only rounding can give, belongs to the last cell.
    """
    q = z.shape[0]
    bits = min(ceil(max_depth / q), 52)
    code = 0
    for i in range(q):
        cell = min(int(to_unit(z[i]) * 2.0**bits), (1 << bits) - 1)
        for level in range(bits):
            j = level * q + i
            if j < max_depth:
                code |= ((cell >> (bits - 1 - level)) & 1) << (63 - j)
    return code
