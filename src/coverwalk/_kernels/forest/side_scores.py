"""What one side of a split is worth: the evidence of a line, or the certainty of its classes."""

import math
from functools import lru_cache

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel

RIDGE = 1.0  # of the line on a side
PRIOR_ROWS = 2.0  # a side's variance starts at the context's, with this weight


@lru_cache(32)
def line_table(n: int) -> Floats:
    """log Gamma((PRIOR_ROWS + k) / 2) for k = 0..n rows on a side."""
    return np.array([math.lgamma(0.5 * (PRIOR_ROWS + k)) for k in range(n + 1)])


@kernel
def line_evidence(n: float, x: float, r: float, xx: float, xr: float, rr: float, s2: float, log_gamma: Floats) -> float:
    """Log evidence of a ridge line with its own variance on one side, without the term of the determinant.

    That term would make every split pay for its two lines; all candidates have them, and small sides would win by it.
    """
    a, c = n + RIDGE, xx + RIDGE
    explained = (c * r * r - 2.0 * x * r * xr + a * xr * xr) / (a * c - x * x)
    psi = PRIOR_ROWS * s2 + max(rr - explained, 0.0)
    return log_gamma[int(n)] - 0.5 * (PRIOR_ROWS + n) * math.log(psi / s2)


@lru_cache(32)
def x_log_x_table(n: int) -> Floats:
    """i log i for i = 0..n."""
    return np.array([i * math.log(max(i, 1)) for i in range(n + 1)])


@kernel
def _x_log_x(x: float, table: Floats) -> float:
    """x log x; of small whole numbers, which nearly all counts are, from a table."""
    i = int(max(-1.0, min(x, 1e9)))  # differences of heavy counts may be negative by a rounding
    if 0 <= i < len(table) and x == i:
        return float(table[i])
    return x * math.log(x) if x > 0.0 else 0.0


@kernel
def negative_entropy(counts: Floats, table: Floats) -> float:
    """Sum of n_c log n_c, less n log n: minus the rows' total class entropy, in nats."""
    total, score = 0.0, 0.0
    for c in range(len(counts)):
        total += counts[c]
        score += _x_log_x(counts[c], table)
    return score - float(_x_log_x(total, table))
