"""The exponential function and the normal's tail for inner loops: written in operations that a compiler can do on
several numbers at once.
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._kernels._compile import fused_kernel

__all__ = ["HIGHEST", "LOWEST", "loop_exp", "loop_tail"]

LOWEST = -700.0  # of an argument: below, a float loses digits
HIGHEST = 710.0  # of which the exponential is infinite, as it is from 709.5 on
_LOG2_E = 1.0 / math.log(2.0)
_TO_BITS = 1.5 * 2.0**52 + 1023.0
_HIGH, _LOW = 0.693147180369123816490, 1.90821492927058770002e-10  # log 2 in two parts: k times the first is exact


@fused_kernel
def loop_exp(x: float) -> float:
    """exp(x) for LOWEST <= x <= HIGHEST, to 1e-13 of itself, and 1e-15 near 0: 2^k exp(r), exp(r) by its
    series, |r| <= log(2) / 2.
    """
    k = np.floor(x * _LOG2_E + 0.5)
    r = (x - k * _HIGH) - k * _LOW
    series = 1.0 / 3628800 + r * (1.0 / 39916800 + r / 479001600)
    series = 1.0 / 5040 + r * (1.0 / 40320 + r * (1.0 / 362880 + r * series))
    series = 1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * series))
    shifted: Any = np.float64(k + _TO_BITS)  # its last bits are k + 1023, which become those of the float 2^k
    two_to_k = np.int64(shifted.view(np.int64) << 52).view(np.float64)
    return (1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6 + r * series)))) * two_to_k


@fused_kernel
def loop_tail(z: float) -> float:
    """P(Z > z) of a standard normal, 0 <= z, to 3e-13 of itself up to z = 37; beyond some number below 1e-300.

    exp(-z^2 / 2) / (1 + z) times a polynomial in (z - 4) / (z + 4), fitted by least squares of relative errors at
    Chebyshev's points (`test_the_tail_of_inner_loops` fits it again).
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
    return p * (z + 4.0) * inverse * loop_exp(max(-0.5 * z * z, LOWEST))
