"""A distribution that is flat on [-c, c] and has the tails of Student's t with 2 degrees of freedom beyond.

Dyadic cells of its cdf are intervals of equal length where the data are. The streaming kernels use it too
(`coverwalk._kernels.distributions.real_line`); here it is written independently, for arrays.
"""

import numpy as np

from coverwalk.base import Floats
from coverwalk.local._student2 import student2_cdf, student2_logpdf, student2_ppf

_C = 3.0  # half width of the core, in units of the scale; it holds 3/4 of the mass
_K = 0.125 / float(student2_cdf(np.array(-_C), 0.0, 1.0))


def flat_cdf(y: Floats, loc: float, scale: float) -> Floats:
    """F = 1/2 + 3 z / (8 c) in the core; beyond, the tails of Student's t scaled to 1/8 on either side."""
    z = (y - loc) / scale
    tail = _K * student2_cdf(-np.abs(z), 0.0, 1.0)
    return np.asarray(np.where(np.abs(z) <= _C, 0.5 + z * (0.375 / _C), np.where(z < 0, tail, 1.0 - tail)))


def flat_logpdf(y: Floats, loc: float, scale: float) -> Floats:
    """Log f; no square is formed, so y = 1e300 is finite."""
    z = (y - loc) / scale
    log_tail = np.log(_K) + student2_logpdf(z, 0.0, 1.0)
    return np.asarray(np.where(np.abs(z) > _C, log_tail, np.log(3 / (8 * _C))) - np.log(scale))


def flat_ppf(u: Floats, loc: float, scale: float) -> Floats:
    """The inverse of the cdf."""
    side = np.minimum(u, 1 - u)
    with np.errstate(divide="ignore"):  # 0 and 1 are at infinity
        tail = student2_ppf(side / _K, 0.0, 1.0)
    z = np.where(side >= 0.125, (u - 0.5) * (_C / 0.375), np.where(u < 0.5, tail, -tail))
    return np.asarray(loc + scale * z)


def flat_ppf_integral(u: Floats) -> Floats:
    """The integral of the standard quantile function from 0 to u; it is symmetric about 1/2."""
    side = np.minimum(u, 1 - u)
    tail = -_K * np.sqrt(2 * (side / _K) * (1 - side / _K))
    edge = -_K * np.sqrt(2 * (0.125 / _K) * (1 - 0.125 / _K))
    core = edge + (_C / 0.75) * ((side - 0.5) ** 2 - 0.375**2)
    return np.asarray(np.where(side >= 0.125, core, tail))
