"""Mixtures of y that is rounded: mean densities over cells, and moments of what rounding makes of the mixture."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.distributions.exponential import LOWEST, loop_exp, loop_tail
from coverwalk._kernels.distributions.mixture import Components, row_log_density
from coverwalk._kernels.distributions.shapes import (
    CELLS,
    FAR,
    FAR_NORMAL,
    KERNELS,
    STUDENT,
    Table,
    atoms_tails,
    find_cell,
    log_density,
)
from coverwalk._kernels.distributions.student import student_density, student_tail

__all__ = ["cell_densities", "cell_logpdf", "grid_moments"]

Floats = NDArray[np.float64]

_LEAST = 1e-280  # a sum of densities above this has lost nothing to underflow
_NARROW = 0.03  # deviations below which a cell's mean density is that of its middle and a curvature: good to 1e-9
_SERIES = 0.6  # the same of a normal's series
_AWAY = 8.5  # deviations beyond which a normal is passed over at first, and its density there at most
_AWAY_DENSITY = math.exp(-0.5 * _AWAY**2)
_SMOOTH_STUDENT, _SMOOTH_NORMAL = 2.5, 1.2  # scales, in steps, from which rounding adds step^2 / 12 alone: 1e-10, 1e-12
_STEPS = 40  # on either side of a narrow Student t that are summed one by one; then an integral
_SQRT_HALF = math.sqrt(0.5)
_NORM = 1.0 / math.sqrt(2.0 * math.pi)


@kernel
def _normal_between(low: float, high: float) -> float:
    """P(low < Z < high), exact in both tails."""
    if low > 0.0:
        return 0.5 * (math.erfc(low * _SQRT_HALF) - math.erfc(high * _SQRT_HALF))
    return 0.5 * (math.erfc(-high * _SQRT_HALF) - math.erfc(-low * _SQRT_HALF))


@kernel
def _student_mean_density(low: float, high: float, df: float, log_norm: float) -> float:
    width, middle = high - low, 0.5 * (low + high)
    if width * max(1.0, abs(middle)) < _NARROW:
        square = middle * middle
        if df == math.inf:
            bend = square - 1.0
        else:
            bend = (df + 1.0) * ((df + 2.0) * square - df) / ((df + square) * (df + square))
        return student_density(middle, df, log_norm) * (1.0 + width * width / 24.0 * bend)
    below, above = student_tail(low, df, log_norm), student_tail(high, df, log_norm)
    if low > 0.0:
        return (below - above) / width
    return ((above - below) if high < 0.0 else (1.0 - below - above)) / width


@fused_kernel
def _narrow_density(square: float, t: float) -> float:
    """The mean density of a standard normal over a narrow cell, whose middle is z = sqrt(square), its width 2 sqrt(t).

    By the series sum_k He_2k(z) t^k / (2k+1)! times the density at z, He being the Hermite polynomials: five terms are
    good to 2e-10.
    """
    he_4 = (square - 6.0) * square + 3.0
    he_6 = ((square - 15.0) * square + 45.0) * square - 15.0
    he_8 = (((square - 28.0) * square + 210.0) * square - 420.0) * square + 105.0
    series = 1.0 + t * ((square - 1.0) / 6.0 + t * (he_4 / 120.0 + t * (he_6 / 5040.0 + t * he_8 / 362880.0)))
    return _NORM * series * loop_exp(max(-0.5 * square, LOWEST))


@fused_kernel
def _narrow_cells(
    mass: Floats, center: Floats, width: Floats, first: int, last: int, middle: float, span: float
) -> tuple[float, float]:
    """The mean density over a cell of the normals first:last that are wide against it, and a bound on the others'.

    A normal farther than _AWAY deviations is among the others.
    """
    total, passed = 0.0, 0.0
    for a in range(first, last):
        inverse = 1.0 / width[a]
        z, w = (middle - center[a]) * inverse, span * inverse
        square, t = z * z, 0.25 * w * w
        height = mass[a] * inverse
        narrow = t * max(1.0, square) <= 0.25 * _SERIES**2 and square < _AWAY**2
        total += height * _narrow_density(square, t) if narrow else 0.0
        passed += 0.0 if narrow else height * (1.0 if square < _AWAY**2 else _AWAY_DENSITY)
    return total, passed


@fused_kernel
def _all_cells(mass: Floats, center: Floats, width: Floats, first: int, last: int, middle: float, span: float) -> float:
    """The mean density over a cell of the normals first:last: of those that are not wide against it, by their tails at
    its ends.
    """
    total = 0.0
    for a in range(first, last):
        inverse = 1.0 / width[a]
        z, w = abs(middle - center[a]) * inverse, span * inverse
        near, far = z - 0.5 * w, z + 0.5 * w
        narrow = w * max(1.0, z) <= _SERIES
        below = loop_tail(min(abs(near), FAR_NORMAL))
        between = (below if near > 0.0 else 1.0 - below) - loop_tail(min(far, FAR_NORMAL))
        mean = _narrow_density(z * z, 0.25 * w * w) if narrow else between / w
        total += mass[a] * inverse * mean if near < FAR_NORMAL else 0.0
    return total


@kernel
def _kernels_mean_density(
    mass: Floats, center: Floats, width: Floats, first: int, last: int, low: float, high: float
) -> float:
    """The mean density of the normals first:last between low and high."""
    middle, span = 0.5 * (low + high), high - low
    if first < last and span <= _SERIES * width[first]:  # else hardly any are wide against the cell
        total, passed = _narrow_cells(mass, center, width, first, last, middle, span)
        if passed <= 1e-12 * total:
            return total
    return _all_cells(mass, center, width, first, last, middle, span)


@kernel
def _cells_mean_density(table: Table, s: int, low: float, high: float) -> float:
    """The mean density of cells between low and high; where they are one the density there."""
    if low == high:
        return math.exp(log_density(table, s, low, 0.0))
    if table.kind[s] == CELLS:
        a = find_cell(table.center, table.start[s], table.start[s + 1], low)
        if a >= table.start[s] and high - table.center[a] <= table.width[a]:  # one cell holds both
            return table.weight[a] / table.width[a]
    below_low, above_low = atoms_tails(table, s, low)
    below_high, above_high = atoms_tails(table, s, high)
    return ((below_high - below_low) if below_low < 0.5 else (above_low - above_high)) / (high - low)


@kernel
def row_mean_density(components: Components, table: Table, i: int, low: float, high: float) -> float:
    """The mean density of row i between low and high, as a plain sum."""
    # Out of the tuples first: to hand a table to a function costs more than the density of a Student t.
    loc, scale, shape, weight = components.loc, components.scale, components.shape, components.weight
    kind, df, log_norm, first = table.kind, table.df, table.log_norm, table.start
    mass, center, width = table.weight, table.center, table.width
    total = 0.0
    for m in range(components.offsets[i], components.offsets[i + 1]):
        s = shape[m]
        start, end = (low - loc[m]) / scale[m], (high - loc[m]) / scale[m]
        if max(abs(start), abs(end)) > FAR:
            continue
        if kind[s] == STUDENT:
            p = _student_mean_density(start, end, df[s], log_norm[s])
        elif kind[s] == KERNELS:
            p = _kernels_mean_density(mass, center, width, first[s], first[s + 1], start, end)
        else:
            p = _cells_mean_density(table, s, start, end)
        total += weight[m] / scale[m] * p
    return total


@kernel
def cell_densities(components: Components, table: Table, low: Floats, high: Floats, out: Floats) -> None:
    """Fill out (n,): the mean density of row i between low[i] and high[i], as a plain sum."""
    for i in range(len(out)):
        out[i] = row_mean_density(components, table, i, low[i], high[i])


@kernel
def cell_logpdf(components: Components, table: Table, low: Floats, high: Floats, out: Floats) -> None:
    """Fill out (n, k): the log of the mean density of row i between low[i, j] and high[i, j]. NaN in, NaN out."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            start, end = low[i, j], high[i, j]
            if math.isnan(start):
                out[i, j] = math.nan
            elif math.isinf(start):
                out[i, j] = -math.inf
            elif j > 0 and start == low[i, j - 1] and end == high[i, j - 1]:  # a grid finer than the cells
                out[i, j] = out[i, j - 1]
            else:
                total = row_mean_density(components, table, i, start, end)
                if total > _LEAST and total < math.inf:
                    out[i, j] = math.log(total)
                else:  # so far out that a cell is a point
                    out[i, j] = row_log_density(components, table, i, 0.5 * start + 0.5 * end)


# -- moments ----------------------------------------------------------------------------------------------------------


@kernel
def _normal_excess(z: float) -> tuple[float, float]:
    """E[(Z - z)+] and E[(Z - z)+^2] / 2 of a standard normal."""
    density, tail = _NORM * math.exp(-0.5 * z * z), 0.5 * math.erfc(z * _SQRT_HALF)
    return density - z * tail, 0.5 * ((1.0 + z * z) * tail - z * density)


@kernel
def _student_excess(e: float, df: float, log_norm: float) -> tuple[float, float]:
    """E[(T - e)+] and E[(T - e)+^2] / 2; for df > 1 and df > 2, else infinite."""
    if df == math.inf:
        return _normal_excess(e)
    tail = student_tail(e, df, log_norm)
    tail = tail if e >= 0.0 else 1.0 - tail
    if df <= 1.0:
        return math.inf, math.inf
    first = (df + e * e) / (df - 1.0) * student_density(e, df, log_norm)  # E[T; T > e]
    if df <= 2.0:
        return first - e * tail, math.inf
    ratio = (df - 1.0) / (df - 2.0)
    shrink = math.sqrt((df - 2.0) / df)
    fewer = student_tail(e * shrink, df - 2.0, log_norm - math.log(ratio * shrink))
    second = df * (ratio * (fewer if e >= 0.0 else 1.0 - fewer) - tail)  # E[T^2; T > e]
    return first - e * tail, 0.5 * (second - 2.0 * e * first + e * e * tail)


@kernel
def _excess(table: Table, s: int, e: float) -> tuple[float, float]:
    """E[(E - e)+] and E[(E - e)+^2] / 2 of shape s, no histogram in u."""
    if table.kind[s] == STUDENT:
        return _student_excess(e, table.df[s], table.log_norm[s])
    first, second = 0.0, 0.0
    for a in range(table.start[s], table.start[s + 1]):
        mass, width = table.weight[a], table.width[a]
        if table.kind[s] == KERNELS:
            one, two = _normal_excess((e - table.center[a]) / width)
            first, second = first + mass * width * one, second + mass * width * width * two
            continue
        over = table.center[a] + width - e  # of the cell's upper end
        if over >= width:
            away = over - 0.5 * width
            first, second = first + mass * away, second + 0.5 * mass * (away * away + width * width / 12.0)
        elif over > 0.0:
            first += mass * over * over / (2.0 * width)
            second += mass * over * over * over / (6.0 * width)
    return first, second


@kernel
def _uniform_sums(end: float) -> tuple[float, float]:
    """The integrals of R and of R^2, R the nearest whole number, from -1/2 to end."""
    k = np.ceil(end - 0.5)
    rest = end - (k - 0.5)
    return 0.5 * k * (k - 1.0) + rest * k, (k - 1.0) * k * (2.0 * k - 1.0) / 6.0 + rest * k * k


@kernel
def _rounded_normal(center: float, width: float) -> tuple[float, float]:
    """E[R] and E[R^2] of a normal in steps, rounded."""
    if width >= _SMOOTH_NORMAL:
        return center, width * width + center * center + 1.0 / 12.0
    middle = np.floor(center + 0.5)
    first, second, k = 0.0, 0.0, 0.0
    while True:
        up = 0.5 * math.erfc((middle + k + 0.5 - center) / width * _SQRT_HALF)
        down = 0.5 * math.erfc((center - middle + k + 0.5) / width * _SQRT_HALF)
        first, second = first + up - down, second + (2.0 * k + 1.0) * (up + down)
        k += 1.0
        if up + down < 1e-18:
            return middle + first, second + 2.0 * middle * first + middle * middle


@kernel
def _rounded_student(center: float, width: float, df: float, log_norm: float, var: float) -> tuple[float, float]:
    """E[R] and E[R^2] of a Student t in steps, rounded; far out the integral of which steps are the midpoints."""
    if width >= _SMOOTH_STUDENT:
        return center, width * width * var + center * center + 1.0 / 12.0
    middle = np.floor(center + 0.5)
    first, second = 0.0, 0.0
    for k in range(_STEPS):
        e_up, e_down = (middle + k + 0.5 - center) / width, (center - middle + k + 0.5) / width
        up, down = student_tail(e_up, df, log_norm), student_tail(e_down, df, log_norm)
        up, down = (up if e_up >= 0.0 else 1.0 - up), (down if e_down >= 0.0 else 1.0 - down)
        first, second = first + up - down, second + (2.0 * k + 1.0) * (up + down)
        if up + down < 1e-18:
            return middle + first, second + 2.0 * middle * first + middle * middle
    for side in range(2):
        sign = 1.0 - 2.0 * side
        e = (_STEPS + sign * (middle - center)) / width
        one, two = _student_excess(e, df, log_norm)
        density, tail = student_density(e, df, log_norm) / width, student_tail(e, df, log_norm)
        first += sign * (width * one - density / 24.0)
        second += 2.0 * (_STEPS * width * one + width * width * two) + (tail - _STEPS * density) / 12.0
    return middle + first, second + 2.0 * middle * first + middle * middle


@kernel
def _rounded_moments(table: Table, s: int, loc: float, scale: float) -> tuple[float, float]:
    """E[R] and E[R^2] of loc + scale * e, in steps, rounded to whole numbers."""
    if table.kind[s] == STUDENT:
        if not table.var[s] < math.inf:
            return loc + table.mean[s], table.var[s]
        return _rounded_student(loc, scale, table.df[s], table.log_norm[s], table.var[s])
    first, second = 0.0, 0.0
    for a in range(table.start[s], table.start[s + 1]):
        at, width, mass = loc + scale * table.center[a], scale * table.width[a], table.weight[a]
        if table.kind[s] == KERNELS:
            one, two = _rounded_normal(at, width)
        else:
            above, above_square = _uniform_sums(at + width)
            below, below_square = _uniform_sums(at)
            one, two = (above - below) / width, (above_square - below_square) / width
        first, second = first + mass * one, second + mass * two
    return first, second


@kernel
def grid_moments(components: Components, table: Table, origin: float, step: float, mean: Floats, var: Floats) -> None:
    """Mean and variance (n,) of rows that are rounded to origin + k step; in place of those before rounding."""
    for i in range(len(mean)):
        if math.isnan(mean[i]):
            continue
        near = np.floor((mean[i] - origin) / step + 0.5)  # moments about it: nothing cancels
        zero, first, second = origin + near * step, 0.0, 0.0
        for m in range(components.offsets[i], components.offsets[i + 1]):
            if components.weight[m] > 0.0:
                loc, scale = (components.loc[m] - zero) / step, components.scale[m] / step
                one, two = _rounded_moments(table, components.shape[m], loc, scale)
                first, second = first + components.weight[m] * one, second + components.weight[m] * two
        mean[i], var[i] = zero + step * first, step * step * (second - first * first)
