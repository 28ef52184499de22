"""Two heavy-tailed distributions in closed form: Student's t with 2 degrees of freedom, and one that is flat on [-c, c]
and has the tails of that t beyond, so that dyadic cells of its cdf are intervals of equal length where the data are.

The streaming kernels use the second too (`coverwalk._kernels.distributions.real_line`); here it is written
independently, for arrays.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coverwalk.base import Floats

__all__ = ["HEAVY_TAILED"]


class HeavyTailed(NamedTuple):
    """A distribution of the line: cdf, log density and quantiles around a location with a scale."""

    cdf: Callable[[Floats, float, float], Floats]
    logpdf: Callable[[Floats, float, float], Floats]
    ppf: Callable[[Floats, float, float], Floats]
    ppf_integral: Callable[[Floats], Floats]  # of the standard quantile function, from 0


def student2_cdf(y: Floats, loc: float, scale: float) -> Floats:
    """F(y) = 1/2 + z / (2 sqrt(2 + z^2)) with z = (y - loc) / scale."""
    d = y - loc
    return np.asarray(0.5 + 0.5 * d / np.hypot(d, np.sqrt(2.0) * scale))


def student2_logpdf(y: Floats, loc: float, scale: float) -> Floats:
    """Log f(y) = 2 log scale - 3/2 log(2 scale^2 + (y - loc)^2); no square is formed, so y = 1e300 is finite."""
    return np.asarray(2 * np.log(scale) - 3 * np.log(np.hypot(y - loc, np.sqrt(2.0) * scale)))


def student2_ppf(u: Floats, loc: float, scale: float) -> Floats:
    """The inverse of the cdf."""
    return np.asarray(loc + scale * (2 * u - 1) / np.sqrt(2 * u * (1 - u)))


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


HEAVY_TAILED = {
    "student2": HeavyTailed(student2_cdf, student2_logpdf, student2_ppf, lambda u: -np.sqrt(2 * u * (1 - u))),
    "flat": HeavyTailed(flat_cdf, flat_logpdf, flat_ppf, flat_ppf_integral),
}
