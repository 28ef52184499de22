"""Quantiles of rows of mixtures: Newton's method on the logarithm of a tail, inside a bracket that always shrinks."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._compile import kernel
from .mixture import Voices, row_density, row_tails
from .shapes import Table

__all__ = ["mixture_ppf", "rowwise_ppf"]

_NEWTON = 50  # steps of Newton or bisection; then the bracket is halved in the order of floats, at most 64 times
_BIGGEST = 1.7976931348623157e308


@kernel
def float_rank(x: float) -> int:
    """The place of a float among all floats, as an integer: neighbours differ by one, -inf and inf are at the ends."""
    value: Any = np.float64(x)
    bits = value.view(np.int64)
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


@kernel
def float_of_rank(rank: int) -> float:
    """The float at a place: the inverse of `float_rank`."""
    bits: Any = np.int64(abs(rank))
    size = bits.view(np.float64)
    return size if rank >= 0 else -size


@kernel
def row_spread(voices: Voices, i: int) -> tuple[float, float]:
    """Where row i is and how wide, roughly: weighted means of locations and of absolute deviations (no overflow)."""
    first, last = voices.offsets[i], voices.offsets[i + 1]
    center, spread = 0.0, 0.0
    for m in range(first, last):
        center += voices.weight[m] * voices.loc[m]
    for m in range(first, last):
        spread += voices.weight[m] * (voices.scale[m] + abs(voices.loc[m] - center))
    return center, spread


@kernel
def row_quantile(voices: Voices, table: Table, i: int, q: float, low: float, start: float, spread: float) -> float:
    """The y with P(Y <= y) = q in row i, 0 < q < 1, not below ``low``; begins its search at ``start``.

    The tail on the side of q (so that q = 1e-200 is met relatively) is matched in logarithms: power tails and normal
    tails are both nearly straight there. A step that leaves the bracket or does not halve the last one is replaced by
    a bisection; flat stretches and modes far apart end in halving the bracket in the order of floats, which needs
    no scale.
    """
    upper_side = q > 0.5
    target = 1.0 - q if upper_side else q
    high = math.inf
    x = max(start, low)
    last_step = math.inf
    reach = spread
    for iteration in range(_NEWTON + 70):
        lower, upper = row_tails(voices, table, i, x)
        tail = upper if upper_side else lower
        if abs(tail - target) <= 1e-12 * target:
            return x
        if (tail < target) == upper_side:
            high = x
        else:
            low = x
        if iteration >= _NEWTON:
            below, above = float_rank(low), float_rank(high)
            if below + 1 >= above:  # their difference may overflow
                return high
            x = float_of_rank(below // 2 + above // 2 + (below % 2 + above % 2) // 2)
            continue
        slope = row_density(voices, table, i, x)
        if tail > 0.0 and slope > 0.0 and slope < math.inf:
            step = math.log(tail / target) * (tail / slope)
            guess = x + step if upper_side else x - step
            if low < guess < high and abs(step) < 0.5 * last_step:
                # a short step is the end only near the target: where a density begins with a jump all are short
                if abs(step) <= 1e-14 * abs(x) and abs(tail - target) < 0.01 * target:
                    return guess
                x, last_step = guess, abs(step)
                continue
        if low == -math.inf or high == math.inf:
            reach *= 4.0
            x = max(x - reach, -_BIGGEST) if low == -math.inf else min(x + reach, _BIGGEST)
            last_step = math.inf
        else:
            x = 0.5 * low + 0.5 * high
            last_step = high - low
            if not low < x < high:
                return high
    return high


@kernel
def mixture_ppf(voices: Voices, table: Table, q: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill out (n, k): quantiles of every row at q (k,), ascending. No quantile is below the one before it."""
    for i in range(out.shape[0]):
        center, spread = row_spread(voices, i)
        low = -math.inf
        for j in range(q.size):
            if math.isnan(q[j]) or q[j] < 0.0 or q[j] > 1.0:
                out[i, j] = math.nan
            elif q[j] == 0.0:
                out[i, j] = -math.inf
            elif q[j] == 1.0:
                out[i, j] = math.inf
            else:
                # Tukey's lambda: close to the normal quantile
                start = center + spread * (q[j] ** 0.135 - (1.0 - q[j]) ** 0.135) / 0.1975
                low = row_quantile(voices, table, i, q[j], low, start, spread)
                out[i, j] = low


@kernel
def rowwise_ppf(voices: Voices, table: Table, u: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill out (n,): the quantile of row i at its own u[i] in (0, 1)."""
    for i in range(u.size):
        center, spread = row_spread(voices, i)
        start = center + spread * (u[i] ** 0.135 - (1.0 - u[i]) ** 0.135) / 0.1975
        out[i] = row_quantile(voices, table, i, u[i], -math.inf, start, spread)
