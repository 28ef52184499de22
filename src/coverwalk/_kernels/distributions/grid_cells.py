"""Rounded y with bounds: the cells of a grid that are told apart in a row, and what rounding adds elsewhere.

Under components that are wide against the cells, rounding moves the moments as the formula of Euler and Maclaurin has
it. Cells that narrow components reach are told apart: the row has its cdf at their ends.
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.pieces import EXPONENTIAL, LINEAR, Grid, Pieces, latent_of, slope_of, value_of
from coverwalk._kernels.distributions.row_cdf import FlatRow, _ramps, cdf_at, other_cdf, tabulated_cdf
from coverwalk._kernels.distributions.shapes import CELLS, STUDENT, T2_CELLS, Table
from coverwalk._kernels.distributions.student import student_density

MAX_CELLS = 2**11  # of a row that are told apart
_FAINT = 1e-8  # weight of a component for which no cell is told apart
# cells that a Student t is wide, and a normal, from where rounding adds step^2 / 12 alone: 1e-10, 1e-12
_SMOOTH_STUDENT, _SMOOTH_NORMAL = 2.5, 1.2
_REACH = 7.0  # scales about a component in which its cells lie
_BEYOND = 24  # cells more, from where on the tail of a narrow Student t is smooth
_NORM = 1.0 / math.sqrt(2.0 * math.pi)


@kernel
def _reached(low: float, high: float, width: float, pieces: Pieces) -> tuple[float, float]:
    """The part of the latent y from low to high in which cells are wider than ``width``, in steps; inf, -inf for none.

    Constant pieces have no cells.
    """
    edges, kind, form = pieces
    first, last = math.inf, -math.inf
    for k in range(len(kind)):
        start, end = max(low, edges[k]), min(high, edges[k + 1])
        if kind[k] == EXPONENTIAL:
            turn = form[k, 3] + math.log(1.0 / (width * abs(form[k, 1]))) / form[k, 2]
            start, end = (start, min(end, turn)) if form[k, 2] > 0.0 else (max(start, turn), end)
        elif kind[k] != LINEAR or form[k, 1] * width >= 1.0:
            continue
        if start < end:
            first, last = min(first, start), max(last, end)
    return first, last


@kernel
def narrow_between(components: Components, table: Table, i: int, pieces: Pieces, step: float) -> tuple[float, float]:
    """The latent y between which components of row i are narrow against the cells they reach; inf, -inf for none."""
    first, last = math.inf, -math.inf
    for m in range(components.offsets[i], components.offsets[i + 1]):
        loc, scale, s = components.loc[m], components.scale[m], components.shape[m]
        if components.weight[m] <= _FAINT:
            continue
        low, high, width = loc, loc, scale * table.narrowest[s]
        if table.kind[s] == T2_CELLS:
            return -math.inf, math.inf
        if table.kind[s] != STUDENT:
            low, high = math.inf, -math.inf
            for a in range(table.start[s], table.start[s + 1]):
                end = table.center[a] + (table.width[a] if table.kind[s] == CELLS else 0.0)
                low, high = min(low, loc + scale * table.center[a]), max(high, loc + scale * end)
        if table.kind[s] == CELLS:
            first, last = min(first, low), max(last, high)
            continue
        smooth = _SMOOTH_STUDENT if table.kind[s] == STUDENT and table.df[s] < math.inf else _SMOOTH_NORMAL
        start, end = _reached(low - _REACH * width, high + _REACH * width, width / (smooth * step), pieces)
        first, last = min(first, start), max(last, end)
    return first, last


@kernel
def cells_apart(
    components: Components,
    table: Table,
    row: FlatRow,
    tables: Floats,
    pieces: Pieces,
    grid: Grid,
    middle: float,
    narrow: tuple[float, float],
    ends: Floats,
    below: Floats,
) -> tuple[int, float]:
    """How many cells of a flat row are told apart about the value ``middle``, and the value of the first.

    narrow: see `narrow_between`, where some are. Writes their ends (N + 1,), and P(Z <= end) to below.
    """
    origin, step, lowest, highest = grid
    first = np.floor((value_of(pieces, narrow[0]) - origin) / step) - _BEYOND
    last = np.ceil((value_of(pieces, narrow[1]) - origin) / step) + _BEYOND
    at = np.rint((middle - origin) / step)
    least, most = np.rint((lowest - origin) / step), np.rint((highest - origin) / step)
    first = max(first, least, at - MAX_CELLS // 2 + 1)
    last = min(last, most, at + MAX_CELLS // 2 - 1)
    N = int(max(last - first + 1.0, 0.0))
    for k in range(N + 1):
        y = first + k
        ends[k] = -math.inf if y <= least else math.inf if y > most else latent_of(pieces, origin + (y - 0.5) * step)
    cdf_at(components, table, row, tables, ends[: N + 1], below)
    return N, origin + first * step


@kernel
def _density(components: Components, table: Table, row: FlatRow, z: float) -> float:
    """The density of a row at z."""
    total = _ramps(row.ramp, row.size[2], z)[1] + other_cdf(components, table, row, z)[1]
    for m in range(row.size[0]):
        e = (z - row.normal[m, 1]) * row.normal[m, 2]
        total += row.normal[m, 0] * row.normal[m, 2] * _NORM * math.exp(-0.5 * e * e)
    for m in range(row.size[1]):
        e = (z - row.student[m, 1]) * row.student[m, 2]
        total += row.student[m, 0] * row.student[m, 2] * student_density(e, row.student[m, 3], row.student[m, 4])
    return total


@kernel
def rounding_adds(
    components: Components,
    table: Table,
    row: FlatRow,
    tables: Floats,
    pieces: Pieces,
    grid: Grid,
    apart: tuple[float, float],
    mean: float,
) -> tuple[float, float]:
    """What rounding adds to the mean and to the variance of a row, but for the cells from the first to the second of
    ``apart``, which are told apart, and those of the limits.

    With p the density and M the mass from a to b, both ends of cells, a sum over cells is more than the integral by
    step^2 / 12 (p(a) - p(b)), and of squares about the mean by step^2 / 12 (M + 2 (a - mean) p(a) - 2 (b - mean) p(b)).
    """
    _, step, lowest, highest = grid
    start = -math.inf if math.isinf(lowest) else latent_of(pieces, lowest + 0.5 * step)
    end = math.inf if math.isinf(highest) else latent_of(pieces, highest - 0.5 * step)
    mass, shift, squares = 0.0, 0.0, 0.0
    for part in range(2):
        low, high = (start, min(apart[0], end)) if part == 0 else (max(apart[1], start), end)
        if not low < high:
            continue
        for side in range(2):
            z, sign = (low, 1.0) if side == 0 else (high, -1.0)
            if math.isinf(z):
                mass += 1.0 if z > 0.0 else 0.0
                continue
            density = sign * _density(components, table, row, z) / slope_of(pieces, z)
            shift, squares = shift + density, squares + 2.0 * (value_of(pieces, z) - mean) * density
            below = tabulated_cdf(row.size, row.normal, row.student, row.which, row.ramp, tables, z)[0]
            mass -= sign * (below + other_cdf(components, table, row, z)[0])
    twelfth = step * step / 12.0
    return twelfth * shift, twelfth * (mass + squares) - (twelfth * shift) ** 2
