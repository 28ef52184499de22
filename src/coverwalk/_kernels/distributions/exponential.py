"""The exponential function for inner loops: written in operations that a compiler can do on several numbers at once."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._kernels._compile import fused_kernel

__all__ = ["HIGHEST", "LOWEST", "loop_exp"]

LOWEST = -700.0  # of an argument: below, a float loses digits
HIGHEST = 710.0  # of which the exponential is infinite, as it is from 709.5 on
_LOG2_E = 1.0 / math.log(2.0)
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
    power: Any = np.int64((np.int64(k) + 1023) << 52)  # the bits of the float 2^k
    two_to_k = np.int64(power).view(np.float64)
    return (1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6 + r * series)))) * two_to_k
