"""Moments of what rounding makes of a mixture."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.shapes import KERNELS, STUDENT, Table
from coverwalk._kernels.distributions.student import student_density, student_tail
from coverwalk._kernels.distributions.warped import student_beyond

_SMOOTH_STUDENT, _SMOOTH_NORMAL = 2.5, 1.2  # scales, in steps, from which rounding adds step^2 / 12 alone: 1e-10, 1e-12
_PERIODIC, _WAVES = 0.35, 4  # width of a normal, in steps, from which so many waves of its error are all: 1e-17
_STEPS = 40  # on either side of a narrow Student t that are summed one by one; then an integral
_LOG_NORM = -0.5 * math.log(2.0 * math.pi)


@kernel
def _uniform_sums(end: float) -> tuple[float, float]:
    """The integrals of R and of R^2, R the nearest whole number, from -1/2 to end."""
    k = np.ceil(end - 0.5)
    rest = end - (k - 0.5)
    return 0.5 * k * (k - 1.0) + rest * k, (k - 1.0) * k * (2.0 * k - 1.0) / 6.0 + rest * k * k


@kernel
def _rounded_wave(center: float, width: float, middle: float) -> tuple[float, float]:
    """E[R] and E[R^2] of a normal about middle + center, by the Fourier series of the rounding error.

    R - X = sum_k (-1)^k sin(2 pi k X) / (pi k), and its square is 1/12 + sum_k (-1)^k cos(2 pi k X) / (pi k)^2; under a
    normal each wave shrinks by exp(-2 (pi k width)^2).
    """
    first, second, variance = center, width * width + center * center + 1.0 / 12.0, width * width
    sine, cosine = math.sin(2.0 * math.pi * center), math.cos(2.0 * math.pi * center)
    shrunk = math.exp(-2.0 * math.pi * math.pi * variance)
    s, c, height, power = 0.0, 1.0, 1.0, shrunk  # of wave k - 1; exp(-2 (pi width)^2 (2 k - 1))
    for k in range(1, _WAVES + 1):
        s, c = s * cosine + c * sine, c * cosine - s * sine
        height, power = -height * power, power * shrunk * shrunk
        first += height * s / (math.pi * k)
        second += height * (2.0 * (center * s / (math.pi * k) + 2.0 * variance * c) + c / (math.pi * k) ** 2)
    return middle + first, second + 2.0 * middle * first + middle * middle


@kernel
def _rounded_student(center: float, width: float, df: float, log_norm: float, var: float) -> tuple[float, float]:
    """E[R] and E[R^2] of a Student t in steps, rounded; far out the integral of which steps are the midpoints."""
    if width >= (_SMOOTH_NORMAL if df == math.inf else _SMOOTH_STUDENT):
        return center, width * width * var + center * center + 1.0 / 12.0
    middle = np.floor(center + 0.5)
    if df == math.inf and width >= _PERIODIC:
        return _rounded_wave(center - middle, width, middle)
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
        density = student_density(e, df, log_norm) / width
        tail, one, two = student_beyond(e, df, log_norm, True)
        one, two = one - e * tail, two - 2.0 * e * one + e * e * tail  # E[(T - e)+] and E[(T - e)+^2]
        first += sign * (width * one - density / 24.0)
        second += 2.0 * _STEPS * width * one + width * width * two + (tail - _STEPS * density) / 12.0
    return middle + first, second + 2.0 * middle * first + middle * middle


@kernel
def rounded_moments(table: Table, s: int, loc: float, scale: float) -> tuple[float, float]:
    """E[R] and E[R^2] of loc + scale * e, in steps, rounded to whole numbers."""
    least = _SMOOTH_STUDENT if table.kind[s] == STUDENT else _SMOOTH_NORMAL
    if scale * table.narrowest[s] >= least and table.var[s] < math.inf:
        mean = loc + scale * table.mean[s]
        return mean, scale * scale * table.var[s] + mean * mean + 1.0 / 12.0
    if table.kind[s] == STUDENT:
        if not table.var[s] < math.inf:
            return loc + table.mean[s], table.var[s]
        return _rounded_student(loc, scale, table.df[s], table.log_norm[s], table.var[s])
    first, second = 0.0, 0.0
    for a in range(table.start[s], table.start[s + 1]):
        at, width, mass = loc + scale * table.center[a], scale * table.width[a], table.weight[a]
        if table.kind[s] == KERNELS:
            one, two = _rounded_student(at, width, math.inf, _LOG_NORM, 1.0)
        else:
            above, above_square = _uniform_sums(at + width)
            below, below_square = _uniform_sums(at)
            one, two = (above - below) / width, (above_square - below_square) / width
        first, second = first + mass * one, second + mass * two
    return first, second


@kernel
def grid_moments(components: Components, table: Table, origin: float, step: float, mean: Floats, var: Floats) -> None:
    """Mean and variance (n,) of rows that are rounded to origin + k step; in place of those before rounding."""
    # Out of the tuple: to hand it to a function costs more than what most components need.
    kind, narrowest, means, variances = table.kind, table.narrowest, table.mean, table.var
    for i in range(len(mean)):
        if math.isnan(mean[i]):
            continue
        near = np.floor((mean[i] - origin) / step + 0.5)  # moments about it: nothing cancels
        zero, first, second = origin + near * step, 0.0, 0.0
        for m in range(components.offsets[i], components.offsets[i + 1]):
            if components.weight[m] > 0.0:
                loc, scale, s = (components.loc[m] - zero) / step, components.scale[m] / step, components.shape[m]
                least = _SMOOTH_STUDENT if kind[s] == STUDENT else _SMOOTH_NORMAL
                if scale * narrowest[s] >= least and variances[s] < math.inf:
                    one = loc + scale * means[s]
                    two = scale * scale * variances[s] + one * one + 1.0 / 12.0
                else:
                    one, two = rounded_moments(table, s, loc, scale)
                first, second = first + components.weight[m] * one, second + components.weight[m] * two
        mean[i], var[i] = zero + step * first, step * step * (second - first * first)
