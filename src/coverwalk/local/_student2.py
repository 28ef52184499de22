"""Student's t with 2 degrees of freedom: heavy tails, and everything in closed form, free of overflow."""

import numpy as np

from coverwalk.base import Floats


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
