"""Densities of rows of mixtures, at points and in the mean over cells: a point is a cell of no width.

A row's Student components and the normals of its kernel densities are laid side by side first, so that the functions
in them are worked out several at once. The sum of densities is exact unless it leaves the range of floats: only then
is a row summed again in logarithms.
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.distributions.exponential import LOWEST, loop_exp, loop_log1p, loop_tail
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.shapes import (
    BLOCK,
    FAR,
    FAR_NORMAL,
    KERNELS,
    STUDENT,
    T2_CELLS,
    Table,
    cells_density,
    find_cell,
    log_density,
    t2_density,
    t2_lower,
)
from coverwalk._kernels.distributions.student import student_tail
from coverwalk._kernels.linalg.prefetch import prefetch

LEAST = 1e-280  # a sum of densities above this has lost nothing to underflow
# Unsigned: an index that might be negative counts from the end, and a loop over it is not done on several at once.
_BLOCK = np.uint64(BLOCK)
_AHEAD = 4  # components whose normals are fetched ahead
_SERIES = 0.6  # deviations up to which a cell is narrow, times those from the middle: its mean density has a series
_NARROW = 0.03  # the same of a Student t with one degree of freedom, squared; the square rises with them
_AWAY = 8.5  # deviations beyond which a normal is passed over at first
# Widths up to which a cell is thin: t is 1.2e-3, and what four terms leave out, t^4 He_8 / 362880, is 1e-10
_THIN = 0.07
_LEFT_OUT = math.exp(-0.5 * _AWAY**2 + 0.5 * _THIN * _AWAY)  # of a normal passed over, at the end of a cell
_NORM = 1.0 / math.sqrt(2.0 * math.pi)
_MANY = 1e30  # degrees of freedom that are as good as infinitely many
_FLAT = 1e15  # deviations from which on there is no curvature: nothing overflows


@fused_kernel
def _series(square: float, t: float) -> float:
    """The mean density of a normal over a narrow cell, whose middle is z = sqrt(square), its width 2 sqrt(t), as a
    multiple of the density at z.

    By the series sum_k He_2k(z) t^k / (2k+1)!, He being the Hermite polynomials: five terms are good to 2e-10.
    """
    he_4 = (square - 6.0) * square + 3.0
    he_6 = ((square - 15.0) * square + 45.0) * square - 15.0
    he_8 = (((square - 28.0) * square + 210.0) * square - 420.0) * square + 105.0
    third = he_6 * (1.0 / 5040) + t * he_8 * (1.0 / 362880)  # a division by a constant would stay one
    return 1.0 + t * ((square - 1.0) * (1.0 / 6) + t * (he_4 * (1.0 / 120) + t * third))


@fused_kernel
def _thin_normals(
    mass: Floats, center: Floats, width: Floats, first: int, last: int, middle: float, span: float
) -> tuple[float, float]:
    """The mean density of the normals first:last over a cell of at most _THIN of the narrowest width, by four terms of
    the series; and a bound on that of the normals farther than _AWAY deviations, which are passed over.
    """
    total, passed, quarter = 0.0, 0.0, 0.25 * span * span
    block, end = np.uint64(first), np.uint64(last)
    while block < end:
        for j in range(_BLOCK):
            a = block + j
            inverse = 1.0 / width[a]
            z, t = (middle - center[a]) * inverse, quarter * inverse * inverse
            square = min(z * z, _AWAY**2)
            height = mass[a] * inverse if a < end else 0.0
            he_6 = ((square - 15.0) * square + 45.0) * square - 15.0
            third = ((square - 6.0) * square + 3.0) * (1.0 / 120) + t * he_6 * (1.0 / 5040)
            series = (square - 1.0) * (1.0 / 6) + t * third
            total += height * loop_exp(-0.5 * square) * (1.0 + t * series)
            passed += 0.0 if square < _AWAY**2 else height * _LEFT_OUT
        block += _BLOCK
    return _NORM * total, passed


@fused_kernel
def _students(room: Floats, n: int) -> float:
    """The sum over n Student components of mean densities over narrow cells.

    By the series sum_k D_2k t^k / (2k+1)!, 2 sqrt(t) being a cell's width and D_k = f^(k) / f at its middle, which
    (df + e^2) f' = -(df + 1) e f gives one after the other: five terms are good to 1e-9.
    """
    total = 0.0
    block, end = np.uint64(0), np.uint64(n)
    while block < end:
        for j in range(_BLOCK):
            k = block + j
            e, t, df = min(room[1, k], _FLAT), room[2, k], room[3, k]
            power = room[4, k] - 0.5 * (df + 1.0) * loop_log1p(room[1, k] * room[1, k] / df)
            inverse = -1.0 / (df + e * e)
            one = (df + 1.0) * e * inverse
            two = ((df + 3.0) * e * one + (df + 1.0)) * inverse
            three = ((df + 5.0) * e * two + 2.0 * (df + 2.0) * one) * inverse
            four = ((df + 7.0) * e * three + 3.0 * (df + 3.0) * two) * inverse
            five = ((df + 9.0) * e * four + 4.0 * (df + 4.0) * three) * inverse
            six = ((df + 11.0) * e * five + 5.0 * (df + 5.0) * four) * inverse
            seven = ((df + 13.0) * e * six + 6.0 * (df + 6.0) * five) * inverse
            eight = ((df + 15.0) * e * seven + 7.0 * (df + 7.0) * six) * inverse
            third = six * (1.0 / 5040) + t * eight * (1.0 / 362880)
            series = 1.0 + t * (two * (1.0 / 6) + t * (four * (1.0 / 120) + t * third))
            total += room[0, k] * series * loop_exp(max(power, LOWEST)) if k < end and power > LOWEST else 0.0
        block += _BLOCK
    return total


@kernel
def _wide_student(low: float, high: float, df: float, log_norm: float) -> float:
    """The mean density of a Student t over a cell that is not narrow."""
    below, above = student_tail(low, df, log_norm), student_tail(high, df, log_norm)
    if low > 0.0:
        return (below - above) / (high - low)
    return ((above - below) if high < 0.0 else (1.0 - below - above)) / (high - low)


@fused_kernel
def _all_normals(
    mass: Floats, center: Floats, width: Floats, first: int, last: int, middle: float, span: float
) -> float:
    """The mean density over a cell of the normals first:last: of those that are not wide against it, by their tails at
    its ends.
    """
    total = 0.0
    for a in range(np.uint64(first), np.uint64(last)):
        inverse = 1.0 / width[a]
        z, w = abs(middle - center[a]) * inverse, span * inverse
        near, far = z - 0.5 * w, z + 0.5 * w
        narrow = w * max(1.0, z) <= _SERIES
        below = loop_tail(min(abs(near), FAR_NORMAL))
        between = (below if near > 0.0 else 1.0 - below) - loop_tail(min(far, FAR_NORMAL))
        square = z * z
        mean = _NORM * loop_exp(max(-0.5 * square, LOWEST)) * _series(square, 0.25 * w * w) if narrow else between / w
        total += mass[a] * inverse * mean if near < FAR_NORMAL else 0.0
    return total


@kernel
def _cells_mean_density(
    mass: Floats, left: Floats, width: Floats, first: int, last: int, low: float, high: float, in_u: bool
) -> float:
    """The mean density between low and high of the cells first:last in e, or in u = F(e); at low where they are one."""
    start = t2_lower(low) if in_u else low
    if low == high:
        return cells_density(mass, left, width, first, last, start) * (t2_density(low) if in_u else 1.0)
    stop, total = t2_lower(high) if in_u else high, 0.0
    for a in range(max(find_cell(left, first, last, start), first), last):
        end = left[a] + width[a]
        if left[a] >= stop:
            break
        inside = min(stop, end) - max(start, left[a])
        if in_u and end > 0.5:  # by the distances to 1: u itself may round to it
            inside = min(t2_lower(-low), 1.0 - left[a]) - max(t2_lower(-high), 1.0 - end)
        total += mass[a] / width[a] * max(inside, 0.0)
    return total / (high - low)


@kernel
def cell_densities(components: Components, table: Table, first: int, low: Floats, high: Floats, out: Floats) -> None:
    """Fill out (n, k): the mean density of row first + i between low[i, j] and high[i, j]; where they are one, at low.

    As a plain sum: 0 or inf where it leaves the range of floats.
    """
    # Out of the tuples first: to hand a table to a function costs more than the density of a Student t.
    loc, scale, shape, weight = components.loc, components.scale, components.shape, components.weight
    offsets, kind, df, log_norm, start = components.offsets, table.kind, table.df, table.log_norm, table.start
    mass, center, width, narrowest = table.weight, table.center, table.width, table.narrowest
    room = np.empty((5, 16 * BLOCK))  # Student components side by side
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            if j > 0 and low[i, j] == low[i, j - 1] and high[i, j] == high[i, j - 1]:  # a grid finer than the cells
                out[i, j] = out[i, j - 1]
                continue
            middle, span, total, n = 0.5 * low[i, j] + 0.5 * high[i, j], high[i, j] - low[i, j], 0.0, 0
            for m in range(offsets[first + i], offsets[first + i + 1]):
                ahead = start[shape[min(m + _AHEAD, len(shape) - 1)]]
                for line in range(3):
                    prefetch(mass, np.uint64(ahead + 8 * line))
                    prefetch(center, np.uint64(ahead + 8 * line))
                    prefetch(width, np.uint64(ahead + 8 * line))
                s, inverse = shape[m], 1.0 / scale[m]
                e, w, factor = (middle - loc[m]) * inverse, span * inverse, weight[m] * inverse
                if abs(e) > FAR or w > FAR:
                    continue
                if kind[s] == STUDENT:
                    if w * w * max(1.0, e * e) > _NARROW * min(9.0, df[s]):
                        total += factor * _wide_student(e - 0.5 * w, e + 0.5 * w, df[s], log_norm[s])
                        continue
                    room[0, n], room[1, n], room[2, n] = factor, abs(e), 0.25 * w * w
                    room[3, n], room[4, n] = min(df[s], _MANY), log_norm[s]
                    n += 1
                    if n == room.shape[1]:
                        total += _students(room, n)
                        n = 0
                elif kind[s] == KERNELS:
                    density, others = 0.0, math.inf
                    if w <= _THIN * narrowest[s]:
                        density, others = _thin_normals(mass, center, width, start[s], start[s + 1], e, w)
                    if factor * others > 1e-12 * (total + factor * density):
                        density = _all_normals(mass, center, width, start[s], start[s + 1], e, w)
                    total += factor * density
                else:
                    left, right = (low[i, j] - loc[m]) / scale[m], (high[i, j] - loc[m]) / scale[m]
                    in_u = kind[s] == T2_CELLS
                    density = _cells_mean_density(mass, center, width, start[s], start[s + 1], left, right, in_u)
                    total += factor * density
            out[i, j] = total + _students(room, n)


@kernel
def row_density(components: Components, table: Table, i: int, y: float) -> float:
    """The density of row i at y, as a plain sum."""
    point, out = np.full((1, 1), y), np.empty((1, 1))
    cell_densities(components, table, i, point, point, out)
    return out[0, 0]


@kernel
def row_log_density(components: Components, table: Table, i: int, y: float) -> float:
    """Log density of row i at y by a log-sum-exp in one pass, for the far tails and the extreme scales."""
    top, total = -math.inf, 0.0
    for m in range(components.offsets[i], components.offsets[i + 1]):
        if components.weight[m] == 0.0:
            continue
        scale = components.scale[m]
        e = (y - components.loc[m]) / scale
        log_scale = math.log(scale)
        log_abs_e = 0.0
        if abs(e) > FAR:
            log_abs_e = math.log(abs(0.5 * y - 0.5 * components.loc[m])) + math.log(2.0) - log_scale
        term = math.log(components.weight[m]) - log_scale + log_density(table, components.shape[m], e, log_abs_e)
        if term > top:
            total = total * math.exp(top - term) + 1.0
            top = term
        elif term > -math.inf:
            total += math.exp(term - top)
    return top + math.log(total) if total > 0.0 else -math.inf


@kernel
def cell_logpdf(components: Components, table: Table, low: Floats, high: Floats, out: Floats) -> None:
    """Fill out (n, k): the log of the mean density of row i between low[i, j] and high[i, j]. NaN in, NaN out."""
    cell_densities(components, table, 0, low, high, out)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total, start = out[i, j], low[i, j]
            if math.isinf(start):
                out[i, j] = -math.inf
            elif not (total > LEAST and total < math.inf) and start == start:  # so far out that a cell is a point
                out[i, j] = row_log_density(components, table, i, 0.5 * start + 0.5 * high[i, j])
            else:
                out[i, j] = math.log(total) if start == start else math.nan
