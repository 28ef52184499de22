"""The continuous ranked probability score of rows of mixtures: E|Y - y| less the integral of F (1 - F).

The first is a sum over components. The second does not depend on y and has no kink: in u, y being the middle of the row
and its spread times sinh(u), it is a sum at even distances, whose error vanishes faster than any power of them. The cdf
comes from tables (`row_cdf`), and the tails beyond are sums over components again.

Where y is rounded to a grid, both are sums over the midpoints of its cells. Few of them are summed. Where the
components are wide against a step these sums are the integrals, less step^2 f(y) / 12 - 7 step^4 f''(y) / 2880 in the
first (Euler and Maclaurin).
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.distributions.exponential import LOWEST, loop_exp, loop_tail
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.quantile import row_spread
from coverwalk._kernels.distributions.row_cdf import (
    FAR_PIECES,
    FIRST_FAR,
    N_PIECES,
    NORMAL,
    PER_UNIT,
    REACH,
    _ramps,
    empty_row,
    flatten,
)
from coverwalk._kernels.distributions.shapes import FAR_NORMAL, Table
from coverwalk._kernels.distributions.student import student_density, student_tail

__all__ = ["mixture_crps"]

_FARTHEST = 1e6  # spreads to which a sum goes at most
_NEAR, _FAR = 1e-6, 1e-7  # of its mass, that a component may have beyond: where squares are summed, and where not
_NOTHING = 1e-10  # of mass, from where a Student t is not read from its table
_ALL = 6.0  # deviations from where a normal is not: it has 1e-9 of its mass there
_TOLERANCE = 1e-7  # of the sum, in spreads, by each component; that of all is some 1e-7 too, as most are wider
_MOST = 4096  # terms of the sum
_WIDEST = 0.25  # distance in u: a normal in sinh(u) grows beyond pi / 4 from the axis, which adds exp(-pi^2 / 2 / this)
_FEW = 100  # values of a grid that are summed in any case
_MANY = 2000  # where components are narrow; a row with more of them is left to others
# The next term of the series is 62 / 967680 step^6 times the fourth derivative of the density, 1.2 / scale^5 at most
_NEXT = 62.0 / 967680 * 1.2
_FLAT = 1.0 / math.sqrt(2.0 * math.pi)


@fused_kernel
def _normal_distance(normal: Floats, n: int, y: float) -> tuple[float, float, float]:
    """What n normal components add to E|Y - y|, to the density at y, and to its second derivative."""
    total, density, curvature = 0.0, 0.0, 0.0
    for m in range(np.uint64(n)):
        weight, inverse = normal[m, 0], normal[m, 2]
        e = min(abs(y - normal[m, 1]) * inverse, 1e150)
        f = _FLAT * loop_exp(max(-0.5 * e * e, LOWEST)) if e < FAR_NORMAL else 0.0
        tail = loop_tail(min(e, FAR_NORMAL)) if e < FAR_NORMAL else 0.0
        total += weight / inverse * (2.0 * f + e * (1.0 - 2.0 * tail))
        density += weight * inverse * f
        curvature += weight * inverse * inverse * inverse * (e * e - 1.0) * f if e < FAR_NORMAL else 0.0
    return total, density, curvature


@kernel
def _student_distance(student: Floats, n: int, y: float) -> tuple[float, float, float]:
    """The same of n Student components, with more than one degree of freedom."""
    total, density, curvature = 0.0, 0.0, 0.0
    for m in range(n):
        weight, inverse, df, log_norm = student[m, 0], student[m, 2], student[m, 3], student[m, 4]
        e = abs(y - student[m, 1]) * inverse
        f, tail = student_density(e, df, log_norm), student_tail(e, df, log_norm)
        excess = (df + e * e) / (df - 1.0) * f - e * tail if e < 1e100 else 0.0
        total += weight / inverse * (2.0 * excess + e)
        density += weight * inverse * f
        spread = df + e * e
        slope = (df + 1.0) / spread
        curvature += weight * inverse * inverse * inverse * f * slope * (slope * e * e + 2.0 * e * e / spread - 1.0)
    return total, density, curvature


@kernel
def _ramp_distance(ramp: Floats, n: int, y: float) -> float:
    """E|Y - y| of n cells."""
    total = 0.0
    for m in range(n):
        t, width = (y - ramp[m, 1]) * ramp[m, 2], 1.0 / ramp[m, 2]
        inside = min(max(t, 0.0), 1.0)
        total += ramp[m, 0] * width * (abs(t - inside) + 0.5 * (inside * inside + (1.0 - inside) * (1.0 - inside)))
    return total


@kernel
def _distance(size: Ints, normal: Floats, student: Floats, ramp: Floats, y: float) -> tuple[float, float, float]:
    """E|Y - y|, the density at y but for cells, and its second derivative."""
    a, f, g = _normal_distance(normal, size[0], y)
    b, more, bent = _student_distance(student, size[1], y)
    return a + b + _ramp_distance(ramp, size[2], y), f + more, g + bent


@kernel
def _facts(size: Ints, normal: Floats, student: Floats, ramp: Floats) -> tuple[float, float, float]:
    """Of a flat row: the mean, NaN where there is none; the scale of its narrowest component; weights / scales^5."""
    mean, narrowest, sharp = 0.0, math.inf, 0.0
    for kind in range(2):
        part = normal if kind == 0 else student
        for m in range(size[kind]):
            mean += part[m, 0] * part[m, 1] if kind == 0 or student[m, 3] > 1.0 else math.nan
            narrowest = min(narrowest, 1.0 / part[m, 2])
            sharp += part[m, 0] * part[m, 2] ** 5
    for m in range(size[2]):
        mean += ramp[m, 0] * (ramp[m, 1] + 0.5 / ramp[m, 2])
        narrowest = 0.0
    return mean, narrowest, sharp


@kernel
def _distance_between(size: Ints, normal: Floats, student: Floats, center: float, spread: float) -> float:
    """The distance in u at which the sum over F (1 - F) is good to _TOLERANCE.

    A component whose locations are so many deviations d apart in the sum adds its weight times exp(-2 pi^2 / d^2) to
    the error if it is normal, and exp(-2 pi sqrt(df) / d) if it is a Student t, whose density has a pole there.
    """
    least = _WIDEST
    for kind in range(2):
        for m in range(size[kind]):
            part = normal if kind == 0 else student
            scale = 1.0 / (part[m, 2] * spread)
            digits = math.log(part[m, 0] * scale / _TOLERANCE)
            if digits <= 0.0:
                continue
            away = (part[m, 1] - center) / spread
            apart = math.pi * math.sqrt(2.0 / digits)
            if kind == 1:
                apart = min(apart, 2.0 * math.pi * math.sqrt(student[m, 3]) / digits)
            least = min(least, apart * scale / math.sqrt(1.0 + away * away))
    return least


@kernel
def _extent(weight: float, df: float, mass: float) -> float:
    """Deviations beyond which a component has less than about so much mass."""
    if weight <= mass:
        return 0.0
    if df == math.inf:
        return math.sqrt(2.0 * math.log(weight / mass))
    return math.sqrt(df) * max((weight / mass) ** (1.0 / df), 1.0)


@kernel
def _reach(size: Ints, normal: Floats, student: Floats, ramp: Floats, center: float, mass: float) -> float:
    """How far from the centre components have more than so much mass."""
    reach = 0.0
    for m in range(size[0]):
        reach = max(reach, abs(normal[m, 1] - center) + _extent(normal[m, 0], math.inf, mass) / normal[m, 2])
    for m in range(size[1]):
        reach = max(reach, abs(student[m, 1] - center) + _extent(student[m, 0], student[m, 3], mass) / student[m, 2])
    for m in range(size[2]):
        reach = max(reach, abs(ramp[m, 1] + 0.5 / ramp[m, 2] - center) + 0.5 / ramp[m, 2])
    return reach


@fused_kernel
def _add(part: Floats, which: Ints, n: int, pieces: Any, y: Floats, F: Floats) -> None:
    """Add n components, normals where there is no ``which``, to the cdf F (N + 1,) at y (N,), as differences."""
    N, first, last = len(y), 0, 0
    for m in range(n):
        weight, loc, inverse = part[m, 0], part[m, 1], part[m, 2]
        table, df, reach = NORMAL, math.inf, _ALL
        if len(which) > 0:
            table, df = which[m], part[m, 3]
            reach = _extent(weight, df, _NOTHING)
        low, high = loc - reach / inverse, loc + reach / inverse
        while first < N and y[first] < low:  # not far from those of the component before, as a rule
            first += 1
        while first > 0 and y[first - 1] >= low:
            first -= 1
        while last < N and y[last] < high:
            last += 1
        while last > 0 and y[last - 1] >= high:
            last -= 1
        before = 0.0
        for k in range(np.uint64(first), np.uint64(last)):
            e = (y[k] - loc) * inverse
            at = abs(e) * PER_UNIT
            if at >= REACH * PER_UNIT:
                at = REACH * PER_UNIT + (FAR_PIECES * REACH / abs(e) if df < math.inf else 0.0)
            if df == math.inf or at < REACH * PER_UNIT or at >= REACH * PER_UNIT + FIRST_FAR:
                piece = np.int64(min(at, N_PIECES - 1.0))
                t = at - piece
                a, b = np.uint64(table), np.uint64(piece)
                P = pieces[a, b, 3] + t * (pieces[a, b, 4] + t * pieces[a, b, 5])
                P = pieces[a, b, 0] + t * (pieces[a, b, 1] + t * (pieces[a, b, 2] + t * P))
            else:
                P = 1.0 - student_tail(e, df, part[m, 4])
            now = weight * (P if e > 0.0 else 1.0 - P)
            F[k] += now - before
            before = now
        F[last] += weight - before


@kernel
def _sum(
    size: Ints, normal: Floats, student: Floats, which: Ints, pieces: Any, center: float, spread: float, reach: float
) -> float:
    """The integral of F (1 - F) from -reach to reach about the centre, in spreads; NaN where it takes too much."""
    end = math.asinh(reach)
    N = math.ceil(2.0 * end / _distance_between(size, normal, student, center, spread)) + 1
    if N > _MOST:
        return math.nan
    width = 2.0 * end / (N - 1)
    y, F = np.empty(N), np.zeros(N + 1)
    for k in range(N):
        y[k] = center + spread * math.sinh(k * width - end)
    _add(normal, which[:0], size[0], pieces, y, F)
    _add(student, which, size[1], pieces, y, F)
    P = 0.0
    for k in range(N):
        P += F[k]
        F[k] = P * (1.0 - P) * math.cosh(k * width - end)
    total = -0.5 * (F[0] + F[N - 1])
    for k in range(N):
        total += F[k]
    # Euler's and Maclaurin's first term, for heavy tails: they end as powers, whose slopes two points tell
    for at, before in ((0, 1), (N - 1, N - 2)):
        if F[at] > 0.0 and F[before] > 0.0:
            total -= F[at] * math.log(F[at] / F[before]) / 12.0
    return total * width


@kernel
def mixture_crps(
    components: Components, table: Table, tables: tuple[Any, Any], y: Floats, origin: float, step: float, out: Floats
) -> None:
    """Fill out (n,): the score of y (n,), each in its row; NaN for rows that this does not suit.

    origin and step: of the grid to which y is rounded, step 0 for none; y is a value of it. tables: see `mixture_ppf`.
    """
    which, pieces = tables
    row = empty_row(components, table, out.shape[0])
    size, normal, student, kind, ramp, _ = row
    for i in range(out.shape[0]):
        out[i] = math.nan
        center, spread = row_spread(components, i)
        usual = flatten(components, table, which, i, row) and size[3] == 0 and abs(y[i]) < 1e100
        mean, narrowest, sharp = _facts(size, normal, student, ramp)
        smooth = size[2] == 0 and narrowest >= step and _NEXT * step**6 * sharp <= _TOLERANCE * spread
        if not usual or math.isnan(mean):
            continue
        if step > 0.0:
            reach = _reach(size, normal, student, ramp, center, _NEAR)
            first = np.floor((min(center - reach, y[i]) - origin) / step)
            count = np.ceil((max(center + reach, y[i]) - origin) / step) - first + 1.0
            if count <= (_FEW if smooth else _MANY):
                at, F = np.empty(int(count)), np.zeros(int(count) + 1)
                for k in range(len(at)):
                    at[k] = origin + (first + k + 0.5) * step
                _add(normal, kind[:0], size[0], pieces, at, F)
                _add(student, kind, size[1], pieces, at, F)
                total, P = 0.0, 0.0
                for k in range(len(at)):
                    P += F[k]
                    miss = P + _ramps(ramp, size[2], at[k])[0] - (1.0 if at[k] > y[i] else 0.0)
                    total += miss * miss
                out[i] = step * total
                continue
        if not smooth:
            continue
        reach = _reach(size, normal, student, ramp, center, _FAR)
        if not reach < _FARTHEST * spread:
            continue
        low, high = center - reach, center + reach
        near, density, bent = _distance(size, normal, student, ramp, y[i])
        left, right = _distance(size, normal, student, ramp, low)[0], _distance(size, normal, student, ramp, high)[0]
        tails = 0.5 * max(left - (mean - low), 0.0) + 0.5 * max(right - (high - mean), 0.0)
        series = step * step * (density / 12.0 - 7.0 * step * step * bent / 2880.0)
        inside = _sum(size, normal, student, kind, pieces, center, spread, reach / spread)
        out[i] = near - tails - spread * inside - series
