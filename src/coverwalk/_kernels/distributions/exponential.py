"""The exponential, the logarithm and the normal's tail for inner loops: in operations that a compiler can do on several
numbers at once.
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._kernels._compile import fused_kernel, inlined_kernel

LOWEST = -700.0  # of an argument: below, a float loses digits
HIGHEST = 710.0  # of which the exponential is infinite, as it is from 709.5 on
_LOG2_E = 1.0 / math.log(2.0)
_TO_BITS = 1.5 * 2.0**52 + 1023.0
_HIGH, _LOW = 0.693147180369123816490, 1.90821492927058770002e-10  # log 2 in two parts: k times the first is exact
# Bits of sqrt(1/2), how many fewer these are than those of 1, and of a mantissa; and 2^52, whose last bits count
_ROOT_HALF = 0x3FE6A09E667F3BCD
_HALF_BINADE = 0x3FF0000000000000 - _ROOT_HALF
_MANTISSA = 0x000FFFFFFFFFFFFF
_TWO_52, _TWO_52_FLOAT = 0x4330000000000000, 2.0**52


@fused_kernel
def loop_exp(x: float) -> float:
    """exp(x) for LOWEST <= x <= HIGHEST, to 1e-13 of itself, and 1e-15 near 0: 2^k exp(r), exp(r) by its
    series, |r| <= log(2) / 2.
    """
    k = np.floor(x * _LOG2_E + 0.5)
    r = (x - k * _HIGH) - k * _LOW
    series = 1.0 / 3628800 + r * (1.0 / 39916800 + r * (1.0 / 479001600))
    series = 1.0 / 5040 + r * (1.0 / 40320 + r * (1.0 / 362880 + r * series))
    series = 1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * series))
    shifted: Any = np.float64(k + _TO_BITS)  # its last bits are k + 1023, which become those of the float 2^k
    two_to_k = np.int64(shifted.view(np.int64) << 52).view(np.float64)
    return (1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6 + r * series)))) * two_to_k


@fused_kernel
def loop_log1p(z: float) -> float:
    """log(1 + z) for 0 <= z <= 1e300, to 1e-15 of itself: 1 + z is 2^k (1 + f), and log(1 + f) = 2 artanh(f / (2 + f)),
    |f| < sqrt(2) - 1 or so, by its series.
    """
    one_more: Any = np.float64(1.0 + z)
    shifted: Any = np.int64(one_more.view(np.int64) + _HALF_BINADE)
    bits: Any = np.int64((shifted >> 52) | _TWO_52)
    k = bits.view(np.float64) - _TWO_52_FLOAT - 1023.0
    mantissa: Any = np.int64((shifted & _MANTISSA) + _ROOT_HALF)
    f = z if k == 0.0 else mantissa.view(np.float64) - 1.0
    s = f / (2.0 + f)
    t = s * s
    series = 1.0 / 15 + t * (1.0 / 17 + t * (1.0 / 19 + t * (1.0 / 21)))
    series = 1.0 / 7 + t * (1.0 / 9 + t * (1.0 / 11 + t * (1.0 / 13 + t * series)))
    series = t * (1.0 / 3 + t * (1.0 / 5 + t * series))
    return k * _HIGH + (2.0 * s + (2.0 * s * series + k * _LOW))


@inlined_kernel
def loop_mills(z: float) -> float:
    """P(Z > z) of a standard normal, 0 <= z, as a multiple of exp(-z^2 / 2): to 3e-13 up to z = 37, then 2e-9.

    1 / (1 + z) times a polynomial in (z - 4) / (z + 4), fitted by least squares of relative errors at Chebyshev's
    points (`test_the_tail_of_inner_loops` fits it again).
    """
    inverse = 1.0 / ((z + 4.0) * (z + 1.0))
    t = (z - 4.0) * (z + 1.0) * inverse
    p = 4.1494032644680384e-07 + t * (-1.9452924731258368e-08 - t * 3.825908737313315e-08)
    p = 1.3540160250137454e-05 + t * (
        -3.411710375714331e-06 + t * (-2.4716621871940617e-06 + t * (4.0230513926263543e-07 + t * p))
    )
    p = 0.0006948896111422675 + t * (
        -9.442350933860841e-05 + t * (-8.782049534038572e-05 + t * (2.1232962004864962e-05 + t * p))
    )
    p = -0.03219783749527408 + t * (
        0.017936097630217397 + t * (-0.005002377599964278 + t * (-0.00028562450892070517 + t * p))
    )
    p = 0.4720532065098363 + t * (
        -0.09670347732643426 + t * (0.013999634726221576 + t * (0.028600364046565976 + t * p))
    )
    return p * (z + 4.0) * inverse


@fused_kernel
def loop_tail(z: float) -> float:
    """P(Z > z) of a standard normal, 0 <= z, to 3e-13 of itself up to z = 37; beyond some number below 1e-300."""
    return loop_mills(z) * loop_exp(max(-0.5 * z * z, LOWEST))
