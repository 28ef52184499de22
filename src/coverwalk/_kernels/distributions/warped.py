"""Moments of bounded y: of functions of the latent y that are, piece by piece, constant, linear or exponential."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.mixture import Components, row_tails
from coverwalk._kernels.distributions.rounded import _excess, _normal_between
from coverwalk._kernels.distributions.row_cdf import empty_row, flatten, other_cdf, tabulated_cdf
from coverwalk._kernels.distributions.shapes import KERNELS, STUDENT, Table, atoms_tails
from coverwalk._kernels.distributions.student import student_density, student_tail

__all__ = ["CONSTANT", "EXPONENTIAL", "LINEAR", "cdf_at_ends", "piece_moments"]

Floats = NDArray[np.float64]

CONSTANT, LINEAR, EXPONENTIAL = range(3)

_GAUSS = np.polynomial.legendre.leggauss(12)
_NODES, _WEIGHTS = _GAUSS[0][6:].copy(), _GAUSS[1][6:].copy()  # of twelve on [-1, 1], those above 0
_FAR = 40.0  # e^-40 of what there is
_OUT = 9.0  # deviations beyond which a normal has nothing
_NOTHING = 1e-14  # a mass that changes no moment


@kernel
def shape_tails(table: Table, s: int, e: float) -> tuple[float, float]:
    """P(E <= e) and P(E > e) of shape s."""
    if table.kind[s] != STUDENT:
        return atoms_tails(table, s, e)
    tail = student_tail(e, table.df[s], table.log_norm[s])
    return (tail, 1.0 - tail) if e < 0.0 else (1.0 - tail, tail)


@kernel
def _normal_exp(rate: float, loc: float, scale: float, low: float, high: float) -> float:
    """E[e^(rate Z); low < Z < high] of a normal; low or high bounds e^(rate Z) by one."""
    shift = loc + rate * scale * scale
    start, end = (low - shift) / scale, (high - shift) / scale
    if start > _OUT or end < -_OUT:
        return 0.0
    power = rate * loc + 0.5 * rate * rate * scale * scale
    if start < -_OUT and end > _OUT:
        return math.exp(power)
    mass = _normal_between(start, end)
    return math.exp(power + math.log(mass)) if mass > 0.0 else 0.0


@kernel
def _student_exp(
    rate: float, loc: float, scale: float, low: float, high: float, df: float, log_norm: float
) -> tuple[float, float]:
    """The same of a Student t, and of 2 rate: Gauss and Legendre between points that stand the farther apart the
    farther out. The density has poles at +-i sqrt(df): twelve nodes err by 1e-12 over two units, or a third of the way
    to the middle.
    """
    if rate > 0.0:
        low = max(low, high - _FAR / rate)
    else:
        high = min(high, low - _FAR / rate)
    reach = math.sqrt(df * math.expm1(min(60.0 / df, 600.0)))  # (1 + reach^2 / df)^(-df / 2) = e^-30
    start, end = max((low - loc) / scale, -reach), min((high - loc) / scale, reach)
    one, two, at = 0.0, 0.0, start
    while at < end:
        until = min(end, at + min(max(min(2.0, math.sqrt(df)), 0.5 * abs(at)), 4.0 / (abs(rate) * scale)))
        if until == at:  # so far out that floats do not hold the next point
            break
        half, middle = 0.5 * (until - at), 0.5 * (until + at)
        for k in range(6):
            for side in range(2):
                e = middle + (half if side == 0 else -half) * _NODES[k]
                value = math.exp(rate * (loc + scale * e))
                first = half * _WEIGHTS[k] * value * student_density(e, df, log_norm)
                one, two = one + first, two + first * value
        at = until
    return one, two


@kernel
def _exp_moments(
    table: Table, s: int, loc: float, scale: float, rate: float, low: float, high: float
) -> tuple[float, float]:
    """E[e^(rate Z); low < Z < high] and that of 2 rate, Z = loc + scale * e, e of shape s, where e^(rate Z) <= 1."""
    if table.kind[s] == STUDENT:
        if table.df[s] == math.inf:
            return _normal_exp(rate, loc, scale, low, high), _normal_exp(2.0 * rate, loc, scale, low, high)
        return _student_exp(rate, loc, scale, low, high, table.df[s], table.log_norm[s])
    one, two = 0.0, 0.0
    for a in range(table.start[s], table.start[s + 1]):
        mass, at, width = table.weight[a], loc + scale * table.center[a], scale * table.width[a]
        if table.kind[s] == KERNELS:
            one += mass * _normal_exp(rate, at, width, low, high)
            two += mass * _normal_exp(2.0 * rate, at, width, low, high)
        else:
            start, end = max(low, at), min(high, at + width)
            if start < end:
                first, last, height = math.exp(rate * start), math.exp(rate * end), mass / (width * rate)
                one += height * (last - first)
                two += 0.5 * height * (last * last - first * first)
    return one, two


@kernel
def _linear_moments(
    table: Table, s: int, loc: float, scale: float, low: float, high: float
) -> tuple[float, float, float]:
    """The integrals of 1, Z and Z^2 from low to high, one of which may be infinite."""
    mean = loc + scale * table.mean[s]
    zero, one, two = 1.0, mean, scale * scale * table.var[s] + mean * mean  # of all; less those beyond either end
    for side in range(2):
        end = low if side == 0 else high
        if math.isinf(end):
            continue
        e = (end - loc) / scale
        above = shape_tails(table, s, e)[1]
        first, second = _excess(table, s, e)
        first, second = scale * first, 2.0 * scale * scale * second  # E[(Z - end)+] and E[(Z - end)+^2]
        if side == 0:  # from here upwards
            zero, one, two = above, first + end * above, second + 2.0 * end * first + end * end * above
        else:
            zero, one = zero - above, one - first - end * above
            two -= second + 2.0 * end * first + end * end * above
    return zero, one, two


@kernel
def _piece(
    table: Table, s: int, loc: float, scale: float, kind: int, rate: float, low: float, high: float
) -> tuple[float, float]:
    """E[phi(Z)] and E[phi(Z)^2] between low and high; phi is 0, Z, or exp(rate Z), at most one."""
    if kind == LINEAR:
        _, one, two = _linear_moments(table, s, loc, scale, low, high)
        return one, two
    if kind == EXPONENTIAL:
        return _exp_moments(table, s, loc, scale, rate, low, high)
    return 0.0, 0.0


@kernel
def cdf_at_ends(
    components: Components, table: Table, tables: tuple[Any, Any], offsets: NDArray[np.int64], ends: Floats, out: Floats
) -> None:
    """Fill out: P(Z <= ends[k]) of row i for offsets[i] <= k < offsets[i + 1]; tables as `mixture_ppf` has them."""
    which, pieces = tables
    row = empty_row(components, table, len(offsets) - 1)
    size, normal, student, tabulated, ramp, _ = row
    for i in range(len(offsets) - 1):
        usual = flatten(components, table, which, i, row)
        for k in range(offsets[i], offsets[i + 1]):
            if math.isinf(ends[k]):
                out[k] = 1.0 if ends[k] > 0.0 else 0.0
            elif usual:
                out[k] = tabulated_cdf(size, normal, student, tabulated, ramp, pieces, ends[k])[0]
                if size[3] > 0:
                    out[k] += other_cdf(components, table, row, ends[k])[0]
            else:
                out[k] = row_tails(components, table, i, ends[k])[0]


@kernel
def piece_moments(
    components: Components,
    table: Table,
    edges: Floats,
    kind: NDArray[np.int64],
    form: Floats,
    cells: tuple[NDArray[np.int64], Floats, Floats, Floats],
    mean: Floats,
    var: Floats,
) -> None:
    """Fill mean, var (n,) of h(Z), which is a + b phi(Z) between edges[k] and edges[k + 1].

    form (P, 4): a, b, rate and origin of each piece; phi is 0, Z - origin, or exp(rate (Z - origin)), at most one.
    cells: of each row some that lie side by side, within which h is constant instead: offsets (n + 1,) into their
    ends, one more than there are cells, their values, of which the last is not read, and P(Z <= end). A row without
    has none.
    mean comes with a guess, about which squares are summed.
    """
    offsets, ends, values, below = cells
    for i in range(len(mean)):
        guess, first, second = mean[i], 0.0, 0.0
        start, stop = offsets[i], offsets[i + 1] - 1
        from_, to = (ends[start], ends[stop]) if start < stop else (math.inf, math.inf)  # where the cells lie
        for c in range(start, stop):
            mass, away = below[c + 1] - below[c], values[c] - guess
            first, second = first + mass * away, second + mass * away * away
        for m in range(components.offsets[i], components.offsets[i + 1]):
            weight, at, scale, s = components.weight[m], components.loc[m], components.scale[m], components.shape[m]
            if weight == 0.0:
                continue
            under, last = 0.0, -math.inf  # P(Z < last)
            for part in range(2 * len(kind)):  # of each piece what lies below the cells, and what lies above
                k = part // 2
                low = edges[k] if part % 2 == 0 else max(edges[k], to)
                high = min(edges[k + 1], from_) if part % 2 == 0 else edges[k + 1]
                if low >= high:
                    continue
                a, b, rate, origin = form[k, 0] - guess, form[k, 1], form[k, 2], form[k, 3]
                if low != last:
                    under = 0.0 if math.isinf(low) else shape_tails(table, s, (low - at) / scale)[0]
                over = 1.0 if math.isinf(high) else shape_tails(table, s, (high - at) / scale)[0]
                mass, under, last = over - under, over, high
                away = 0.0 if kind[k] != LINEAR else (min(max(at, low), high) - at) / scale
                if mass * (1.0 + away * away) < _NOTHING:  # exponentials are at most one
                    continue
                one, two = _piece(table, s, at - origin, scale, kind[k], rate, low - origin, high - origin)
                first += weight * (a * mass + b * one)
                second += weight * (a * a * mass + 2.0 * a * b * one + b * b * two)
        mean[i], var[i] = guess + first, second - first * first
