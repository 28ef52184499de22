"""Quantiles of rows of mixtures, by two searches inside brackets that always shrink.

Between 0.001 and 0.999 the cdf is read from tables (`row_cdf`), and what was evaluated for one quantile of a row serves
the others: the inverse is interpolated between the nearest points, by a cubic in the logit of the cdf. Beyond, where
what counts is the relative error of a tail, it is Newton's method on the logarithm of the tail, with exact cdfs.
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.density import row_density
from coverwalk._kernels.distributions.mixture import Components, row_tails
from coverwalk._kernels.distributions.row_cdf import FlatRow, empty_row, flatten, other_cdf, tabulated_cdf
from coverwalk._kernels.distributions.shapes import Table

_NEWTON = 50  # steps of Newton or bisection; then the bracket is halved in the order of floats, at most 64 times
_BIGGEST = 1.7976931348623157e308
_TAIL = 1e-3  # of a quantile that is searched by exact cdfs
_CLOSE = 1e-9  # in q, where a tabulated search ends
_SMOOTH = 1e-7  # where it ends with a last step of Newton's, in rows without cells: the density jumps nowhere there
_MAX_POINTS = 256  # evaluated in one row; then exact cdfs go on


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
def row_spread(components: Components, i: int) -> tuple[float, float]:
    """Where row i is and how wide, roughly: weighted means of locations and of absolute deviations (no overflow)."""
    first, last = components.offsets[i], components.offsets[i + 1]
    center, spread = 0.0, 0.0
    for m in range(first, last):
        center += components.weight[m] * components.loc[m]
    for m in range(first, last):
        spread += components.weight[m] * (components.scale[m] + abs(components.loc[m] - center))
    return center, spread


@kernel
def row_quantile(
    components: Components, table: Table, i: int, q: float, low: float, start: float, spread: float
) -> float:
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
        lower, upper = row_tails(components, table, i, x)
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
        slope = row_density(components, table, i, x)
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
def _remember(points: Floats, n: int, y: float, F: float, f: float) -> None:
    """Insert a point into points (n, 4), sorted by y: y, its cdf, the logit of that, the slope of y in the logit."""
    k = n
    while k > 0 and points[k - 1, 0] > y:
        points[k] = points[k - 1]
        k -= 1
    points[k, 0], points[k, 1], points[k, 2], points[k, 3] = y, F, math.inf, math.inf
    if 0.0 < F < 1.0:
        points[k, 2] = math.log(F / (1.0 - F))
        points[k, 3] = F * (1.0 - F) / f
    elif F <= 0.0:
        points[k, 2] = -math.inf


@kernel
def _between(low: Floats, high: Floats, logit: float) -> float:
    """Where the logit of the cdf is reached between two points: by a cubic that rises (Fritsch and Carlson 1980)."""
    run, rise = high[0] - low[0], high[2] - low[2]
    if not rise < math.inf or not rise > 0.0:
        return low[0] + 0.5 * run
    t = (logit - low[2]) / rise
    a, b = min(rise * low[3] / run, 3.0), min(rise * high[3] / run, 3.0)
    place = t * (a + t * (3.0 - 2.0 * a - b + t * (a + b - 2.0)))
    return low[0] + run * min(max(place, 1e-3 * t), 1.0 - 1e-3 * (1.0 - t))


@kernel
def _beyond(end: Floats, logit: float, spread: float, n: int) -> float:
    """Where to look when all n points lie on one side: Newton's step from the last, never a long way at once."""
    sign = 1.0 if logit > end[2] else -1.0
    step = 1.02 * end[3] * abs(logit - end[2])
    reach = spread * 2.0**n
    return end[0] + sign * (step if step < reach else reach)


@kernel
def _search(
    components: Components,
    table: Table,
    pieces: Any,
    row: FlatRow,
    q: float,
    start: float,
    spread: float,
    points: Any,
    n: int,
) -> tuple[float, int]:
    """The quantile at q and the number of points known then, n of them at first; NaN where it was not found."""
    # Out of the tuple first: to hand it to a function costs more than what it does with it.
    size, normal, student, which, ramp, _ = row
    logit = math.log(q / (1.0 - q))
    smooth = size[2] == 0 and size[3] == 0
    close = _SMOOTH if smooth else _CLOSE
    last_miss = math.inf
    halve = False
    while n < _MAX_POINTS:
        k = 0
        while k < n and points[k, 1] < q:
            k += 1
        if k < n and points[k, 1] - q <= close:
            return points[k, 0] + (points[k, 3] * (logit - points[k, 2]) if smooth else 0.0), n
        if k > 0 and q - points[k - 1, 1] <= close:
            return points[k - 1, 0] + (points[k - 1, 3] * (logit - points[k - 1, 2]) if smooth else 0.0), n
        if n == 0:
            y = start
        elif k == 0 or k == n:
            y = _beyond(points[0 if k == 0 else n - 1], logit, spread, n)
        else:
            low, high = points[k - 1, 0], points[k, 0]
            y = 0.5 * low + 0.5 * high if halve else _between(points[k - 1], points[k], logit)
            if not low < y < high:
                return (high, n) if high - low <= 4e-16 * max(abs(low), abs(high)) else (math.nan, n)
        F, f = tabulated_cdf(size, normal, student, which, ramp, pieces, y)
        if size[3] > 0:
            more, steeper = other_cdf(components, table, row, y)
            F, f = F + more, f + steeper
        _remember(points, n, y, F, f)
        n += 1
        miss = abs(F - q)
        halve = not halve and miss > 0.25 * last_miss
        last_miss = miss
    return math.nan, n


@kernel
def mixture_ppf(components: Components, table: Table, tables: tuple[Any, Any], q: Any, out: Floats) -> None:
    """Fill out (n, k): quantiles of every row at q (k,), ascending. No quantile is below the one before it.

    tables: which (s,) of the tables pieces (D, N_PIECES, 6) is that of a shape.
    """
    which, pieces = tables
    row, points = empty_row(components, table, out.shape[0]), np.empty((_MAX_POINTS, 4))
    for i in range(out.shape[0]):
        center, spread = row_spread(components, i)
        usual = flatten(components, table, which, i, row)
        low, n = -math.inf, 0
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
                found = math.nan
                if usual and _TAIL <= q[j] <= 1.0 - _TAIL:
                    found, n = _search(components, table, pieces, row, q[j], start, spread, points, n)
                if math.isnan(found):
                    found = row_quantile(components, table, i, q[j], low, start, spread)
                low = max(low, found)
                out[i, j] = low


@kernel
def rowwise_ppf(components: Components, table: Table, u: Floats, out: Floats) -> None:
    """Fill out (n,): the quantile of row i at its own u[i] in (0, 1)."""
    for i in range(u.size):
        center, spread = row_spread(components, i)
        start = center + spread * (u[i] ** 0.135 - (1.0 - u[i]) ** 0.135) / 0.1975
        out[i] = row_quantile(components, table, i, u[i], -math.inf, start, spread)
