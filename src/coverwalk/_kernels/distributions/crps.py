"""The continuous ranked probability score of rows of mixtures: the integral of (F(t) - 1{t >= y})^2 over t.

t is a function of the latent y that is, piece by piece, constant, linear or exponential: see `pieces`.
The integral goes over the latent y, where the cdf is smooth but for the ends of cells: between those, the ends of the
pieces and y by Gauss and Legendre, in u, the latent y being the middle of the row and its spread times sinh(u). The cdf
comes from tables (`row_cdf`). Squares of the tails beyond are nothing.

Where y is rounded to a grid, it is a sum over the midpoints of its cells. Few of them are summed. Where the components
are wide against a step the sum is the integral, less step^2 f(y) / 12 - 7 step^4 f''(y) / 2880 + ... (Euler and
Maclaurin).
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.pieces import CONSTANT, EXPONENTIAL, Grid, Pieces, latent_of, value_of
from coverwalk._kernels.distributions.quantile import row_spread
from coverwalk._kernels.distributions.row_cdf import (
    FlatRow,
    add_cdfs,
    add_ramps,
    empty_row,
    extent,
    flatten,
    tabulated_cdf,
)
from coverwalk._kernels.distributions.shapes import Table

__all__ = ["mixture_crps"]

_FARTHEST = 1e6  # spreads to which a sum goes at most
_LITTLE = 1e-7  # of its mass, that a component may have beyond
_TOLERANCE = 7e-7  # of the sum, in spreads, by a component if it were at its worst: that of all is below 1e-6
_MOST = 2**15  # terms of a sum; a row with more of them is left to others
_WIDEST = 0.25  # distance in u: a normal in sinh(u) grows beyond pi / 4 from the axis, which adds exp(-pi^2 / 2 / this)
_FEW = 100  # values of a grid that are summed in any case
_SMOOTH = 3.0  # steps of a grid: what the series leaves out under components so wide is below 1e-7 of them
# of the differences F(y + j step / 2) - F(y - j step / 2), j = 1, 3, 5, that make three terms of the series
_SERIES = np.linalg.solve([[1, 3, 5], [1, 27, 125], [1, 243, 3125]], [1 / 12, -7 * 24 / 2880, 62 * 1920 / 967680])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_PANEL = 6.0  # distances in u that share these nodes
_WIDE = 4.0  # of an exponential, that they see well

Work = tuple[Floats, Floats, Floats]  # nodes of a sum over the latent y, their weights, and the cdf: see `_score`


@kernel
def _distance_between(size: Ints, normal: Floats, student: Floats, center: float, spread: float) -> float:
    """The distance in u at which an endless sum over F (1 - F) is good to _TOLERANCE.

    A component whose locations are so many deviations d apart in the sum adds its weight times exp(-pi^2 / d^2) to
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
            apart = math.pi / math.sqrt(digits)
            if kind == 1:
                apart = min(apart, 2.0 * math.pi * math.sqrt(student[m, 3]) / digits)
            least = min(least, apart * scale / math.sqrt(1.0 + away * away))
    return least


@kernel
def _reach(size: Ints, normal: Floats, student: Floats, ramp: Floats, center: float) -> tuple[float, float]:
    """How far from the centre components have more than _LITTLE mass; the scale of the narrowest."""
    reach, narrowest = 0.0, math.inf if size[2] == 0 else 0.0
    for kind in range(2):
        part = normal if kind == 0 else student
        for m in range(size[kind]):
            half = extent(part[m, 0], math.inf if kind == 0 else student[m, 3], _LITTLE) / part[m, 2]
            reach, narrowest = max(reach, abs(part[m, 1] - center) + half), min(narrowest, 1.0 / part[m, 2])
    for m in range(size[2]):
        reach = max(reach, abs(ramp[m, 1] + 0.5 / ramp[m, 2] - center) + 0.5 / ramp[m, 2])
    return reach, narrowest


@kernel
def _score(row: FlatRow, tables: Any, work: Work, N: int) -> float:
    """The sum over N nodes of their weights times the square of the cdf and what F is at first, as differences."""
    z, weight, F = work
    add_cdfs(row.normal, row.which[:0], row.size[0], tables, z[:N], F)
    add_cdfs(row.student, row.which, row.size[1], tables, z[:N], F)
    add_ramps(row.ramp, row.size[2], z[:N], F)
    P, total = 0.0, 0.0
    for k in range(N):
        P += F[k]
        total += weight[k] * P * P
    return total


@kernel
def _insert(marks: Floats, n: int, z: float) -> int:
    """Put z among the n marks, ascending, if it lies between the first and the last; how many there are then."""
    if not marks[0] < z < marks[n - 1]:
        return n
    k = n
    while marks[k - 1] > z:
        marks[k] = marks[k - 1]
        k -= 1
    marks[k] = z
    return n + 1


@kernel
def _continuous(row: FlatRow, pieces: Pieces, center: float, spread: float, reach: float, y: float, work: Work) -> int:
    """Nodes of the integral, but for tails beyond reach from the centre, y being latent: how many, -1 for too many."""
    (edges, kind, form), (z, weight, F), ramp = pieces, work, row.ramp
    marks, n = np.empty(len(edges) + 3 + 2 * row.size[2]), 2
    marks[0] = min(center - reach, y if y > -math.inf else center)
    marks[1] = max(center + reach, y if y < math.inf else center)
    for k in range(len(edges)):
        n = _insert(marks, n, edges[k])
    for m in range(row.size[2]):
        n = _insert(marks, n, ramp[m, 1])
        n = _insert(marks, n, ramp[m, 1] + 1.0 / ramp[m, 2])
    n = _insert(marks, n, y)
    apart = _PANEL * _distance_between(row.size, row.normal, row.student, center, spread)
    at, k, below, F[0] = 0, 0, True, 0.0
    for m in range(n - 1):
        while edges[k + 1] <= marks[m]:
            k += 1
        if below and marks[m] >= y:
            below = False
            F[at] -= 1.0
        if kind[k] == CONSTANT:
            continue
        start, end = math.asinh((marks[m] - center) / spread), math.asinh((marks[m + 1] - center) / spread)
        often = (marks[m + 1] - marks[m]) / _WIDE if kind[k] == EXPONENTIAL else 0.0
        panels = math.ceil(min(max((end - start) / apart, often), 1.0 * _MOST))
        if at + len(_NODES) * panels > _MOST:
            return -1
        half = 0.5 * (end - start) / panels
        for q in range(len(_NODES) * panels):
            node = q % len(_NODES)
            grown = math.exp(start + half * (2 * (q // len(_NODES)) + 1 + _NODES[node]))
            z[at] = center + 0.5 * spread * (grown - 1.0 / grown)
            weight[at] = half * _WEIGHTS[node] * 0.5 * spread * (grown + 1.0 / grown) * form[k, 1]
            if kind[k] == EXPONENTIAL:
                weight[at] *= form[k, 2] * math.exp(form[k, 2] * (z[at] - form[k, 3]))
            at += 1
            F[at] = 0.0
    return at


@kernel
def _rounded(pieces: Pieces, grid: Grid, ends: tuple[float, float], y: float, most: int, work: Work) -> int:
    """Nodes of the sum over a grid between two latent ends, y being a value of it: how many, -1 for more than most."""
    (z, weight, F), (origin, step, low, high) = work, grid
    first = np.floor((max(min(value_of(pieces, ends[0]), y), low) - origin) / step)
    count = np.ceil((min(max(value_of(pieces, ends[1]), y), high) - origin) / step) - first
    if not count <= most:
        return -1
    N = int(count)
    F[: N + 1] = 0.0
    F[min(max(int(np.rint((y - origin) / step) - first), 0), N)] = -1.0
    for j in range(N):
        z[j], weight[j] = latent_of(pieces, origin + (first + j + 0.5) * step), step
    return N


@kernel
def mixture_crps(
    components: Components,
    table: Table,
    tables: tuple[Any, Any],
    y: Floats,
    latent: Floats,
    pieces: Pieces,
    grid: Grid,
    out: Floats,
) -> None:
    """Fill out (n,): the score of y (n,), each in its row; NaN for rows that this does not suit.

    latent (n,): the latent y up to which all lies at or below y, which is a value of the grid. tables: see
    `mixture_ppf`.
    """
    _, step, lowest, highest = grid
    straight = len(pieces[1]) == 1 and lowest == -math.inf and highest == math.inf
    row, work = empty_row(components, table, out.shape[0]), (np.empty(_MOST), np.empty(_MOST), np.empty(_MOST + 1))
    for i in range(out.shape[0]):
        out[i] = math.nan
        center, spread = row_spread(components, i)
        if not (flatten(components, table, tables[0], i, row) and row.size[3] == 0 and abs(y[i]) < 1e100):
            continue
        reach, narrowest = _reach(row.size, row.normal, row.student, row.ramp, center)
        if not reach < _FARTHEST * spread:
            continue
        N, series, smooth = -1, 0.0, straight and narrowest >= _SMOOTH * step
        if step > 0.0:
            N = _rounded(pieces, grid, (center - reach, center + reach), y[i], _FEW if smooth else _MOST, work)
        if N < 0 and (step == 0.0 or smooth):
            N = _continuous(row, pieces, center, spread, reach, latent[i], work)
            for j in range(3 if step > 0.0 else 0):
                for side in (-1.0, 1.0):
                    at = y[i] + side * (j + 0.5) * step
                    F = tabulated_cdf(row.size, row.normal, row.student, row.which, row.ramp, tables[1], at)[0]
                    series += side * step * _SERIES[j] * F
        if N >= 0:
            out[i] = _score(row, tables[1], work, N) - series
