"""A law that is flat on [-c, c] and falls like a power beyond: dyadic cells of its cdf are intervals of equal length.

The streaming kernels use the same law (`coverwalk._kernels.real_line`); here it is written independently, for arrays.
"""

import numpy as np

from coverwalk.base import Floats

_C = 3.0  # half width of the core, in units of the scale
_TAIL = 1.5  # P(|z| > t) falls like t^-1.5: the mean is finite, the variance is not


def flat_cdf(y: Floats, loc: float, scale: float) -> Floats:
    """F = 1/2 + 3 z / (8 c) in the core, which holds 3/4 of the mass; 1/8 (c / |z|)^(3/2) beyond on either side."""
    z = (y - loc) / scale
    tail = 0.125 * (_C / np.maximum(np.abs(z), _C)) ** _TAIL
    return np.asarray(np.where(np.abs(z) <= _C, 0.5 + z * (0.375 / _C), np.where(z < 0, tail, 1.0 - tail)))


def flat_logpdf(y: Floats, loc: float, scale: float) -> Floats:
    """Log f; no square is formed, so y = 1e300 is finite."""
    far = np.maximum(np.abs((y - loc) / scale) / _C, 1.0)
    log_tail = np.log(_TAIL / (8 * _C)) - (_TAIL + 1) * np.log(far)
    return np.asarray(np.where(far > 1.0, log_tail, np.log(3 / (8 * _C))) - np.log(scale))


def flat_ppf(u: Floats, loc: float, scale: float) -> Floats:
    """The inverse of the cdf."""
    side = np.minimum(u, 1 - u)
    with np.errstate(divide="ignore"):  # 0 and 1 are at infinity
        tail = _C * (8 * side) ** (-1 / _TAIL)
    z = np.where(side >= 0.125, (u - 0.5) * (_C / 0.375), np.where(u < 0.5, -tail, tail))
    return np.asarray(loc + scale * z)


def flat_ppf_integral(u: Floats) -> Floats:
    """The integral of the standard quantile function from 0 to u; it is symmetric about 1/2."""
    side = np.minimum(u, 1 - u)
    core = (_C / 0.75) * ((side - 0.5) ** 2 - 0.375**2) - 0.375 * _C
    return np.where(side >= 0.125, core, -0.75 * _C * np.cbrt(side))
