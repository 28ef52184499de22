"""The cdf and the density of one row, by tables: what a search for quantiles evaluates several times.

A row is laid out flat first: Student components and the normal kernels of kernel densities are all read from tables of
Student cdfs, cells are ramps. The error of a tabulated cdf is at most 1e-10 (`test_tabulated_cdf`).
"""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.shapes import (
    CELLS,
    KERNELS,
    STUDENT,
    Table,
    atoms_tails,
    cells_density,
    t2_density,
    t2_lower,
)
from coverwalk._kernels.distributions.student import student_density, student_tail
from coverwalk._kernels.linalg.prefetch import prefetch

PER_UNIT = 16  # pieces of a table per unit of e
REACH = 8  # units of e; then come pieces of u = REACH / e
FAR_PIECES = 32  # per unit of u
FIRST_FAR = 3  # of them: between one and two degrees of freedom those before are not good to 1e-10; they are constant
N_PIECES = REACH * PER_UNIT + FAR_PIECES
NEGLIGIBLE = 1e-14  # weight of a component that is left out: a hundred of them are 1e-12 of a probability
AHEAD = 6  # components whose kernels are fetched ahead
NORMAL = 0  # the table of the normal is the first
_NOTHING = 1e-10  # of mass, from where a Student t is not read from its table
_ALL = 6.0  # deviations from where a normal is not: it has 1e-9 of its mass there


class FlatRow(NamedTuple):
    """One row's components by what they cost; their counts are in ``size``."""

    size: Ints  # (4,)
    normal: Floats  # (a, 3) weight, location and inverse scale
    student: Floats  # (b, 5) the same, degrees of freedom and log density at 0
    which: Ints  # (b,) table of it
    ramp: Floats  # (c, 3) weight, left end and inverse width
    other: Ints  # (d,) components of the row


@kernel
def _slopes(e: float, df: float, log_norm: float) -> tuple[float, float, float]:
    """The density of a Student t at e and its first two derivatives."""
    f = student_density(e, df, log_norm)
    if df == math.inf:
        return f, -f * e, f * (e * e - 1.0)
    wide = df + e * e
    g = (df + 1.0) * e / wide
    return f, -f * g, f * (g * g - (df + 1.0) * (df - e * e) / (wide * wide))


@kernel
def student_pieces(df: Floats, log_norm: Floats, out: Floats) -> None:
    """Fill out (D, N_PIECES, 6): polynomials in the place within a piece that are the cdf of e >= 0, and then of u.

    Each matches the cdf, the density and its slope at both ends. The cdf at the ends is summed by the quadrature that
    is exact for such polynomials; beyond REACH it is worked out.
    """
    h, near = 1.0 / PER_UNIT, REACH * PER_UNIT
    for j in range(len(df)):
        low = 0.5
        f0, g0, k0 = _slopes(0.0, df[j], log_norm[j])
        for piece in range(near):
            f1, g1, k1 = _slopes((piece + 1.0) * h, df[j], log_norm[j])
            rise = h * (0.5 * (f0 + f1) + h * (0.1 * (g0 - g1) + h * (k0 + k1) / 120.0))
            _match(out[j, piece], h, low, f0, g0, rise, f1, g1)
            low += rise
            f0, g0, k0 = f1, g1, k1
        out[j, near : near + FIRST_FAR] = 0.0
        out[j, near : near + FIRST_FAR, 0] = 1.0
        F0, f0, g0 = _far_slopes(FIRST_FAR / FAR_PIECES, df[j], log_norm[j])
        for piece in range(FIRST_FAR, FAR_PIECES):
            F1, f1, g1 = _far_slopes((piece + 1.0) / FAR_PIECES, df[j], log_norm[j])
            _match(out[j, near + piece], 1.0 / FAR_PIECES, F0, f0, g0, F1 - F0, f1, g1)
            F0, f0, g0 = F1, f1, g1


@kernel
def _match(out: Floats, h: float, low: float, f0: float, g0: float, rise: float, f1: float, g1: float) -> None:
    """Write the polynomial over a piece of width h that begins at low with slopes f0 and g0, and ends so much higher
    with f1 and g1.
    """
    c1, c2 = h * f0, 0.5 * h * h * g0
    d, d1, d2 = rise - c1 - c2, h * f1 - c1 - 2.0 * c2, h * h * g1 - 2.0 * c2
    out[0], out[1], out[2] = low, c1, c2
    out[3] = 10.0 * d - 4.0 * d1 + 0.5 * d2
    out[4] = -15.0 * d + 7.0 * d1 - d2
    out[5] = 6.0 * d - 3.0 * d1 + 0.5 * d2


@kernel
def _far_slopes(u: float, df: float, log_norm: float) -> tuple[float, float, float]:
    """The cdf of a Student t at e = REACH / u, and its first two derivatives in u."""
    e = REACH / u
    f, g, _ = _slopes(e, df, log_norm)
    turn = -e / u  # of e in u
    return 1.0 - student_tail(e, df, log_norm), f * turn, g * turn * turn - 2.0 * f * turn / u


@kernel
def empty_row(components: Components, table: Table, n_rows: int) -> FlatRow:
    """Room for the largest of the rows."""
    most = np.ones(4, np.int64)
    for i in range(n_rows):
        normals, ramps = 0, 0
        for m in range(components.offsets[i], components.offsets[i + 1]):
            s = components.shape[m]
            atoms = table.start[s + 1] - table.start[s]
            normals += atoms if table.kind[s] == KERNELS else 1
            ramps += atoms if table.kind[s] == CELLS else 0
        most[0], most[2] = max(most[0], normals), max(most[2], ramps)
        most[1] = most[3] = max(most[1], components.offsets[i + 1] - components.offsets[i])
    return FlatRow(
        np.zeros(4, np.int64),
        np.empty((most[0], 3)),
        np.empty((most[1], 5)),
        np.empty(most[1], np.int64),
        np.empty((most[2], 3)),
        np.empty(most[3], np.int64),
    )


@kernel
def flatten(components: Components, table: Table, which: Ints, i: int, row: FlatRow) -> bool:
    """Lay row i out; which (s,): the table of each shape, -1 for none. False where numbers are too extreme for it."""
    # Out of the tuples first: to hand them to a function, or to reach into them, costs more than what is done here.
    offsets, weights, locs, scales, shape = components
    kinds, start, mass, center, width = table.kind, table.start, table.weight, table.center, table.width
    normal, student, ramp = row.normal, row.student, row.ramp
    a, b, c, d = 0, 0, 0, 0
    for m in range(offsets[i], offsets[i + 1]):
        ahead = start[shape[min(m + AHEAD, offsets[i + 1] - 1)]]
        for line in range(3):
            prefetch(mass, np.uint64(ahead + 8 * line))
            prefetch(center, np.uint64(ahead + 8 * line))
            prefetch(width, np.uint64(ahead + 8 * line))
        weight, loc, scale, s = weights[m], locs[m], scales[m], shape[m]
        if weight < NEGLIGIBLE:
            continue
        if not (abs(loc) < 1e100 and 1e-100 < scale < 1e100):
            return False
        kind = kinds[s]
        if kind in (KERNELS, CELLS):
            last, inverse = -1.0, 0.0
            for t in range(start[s], start[s + 1]):
                if width[t] != last:
                    last = width[t]
                    inverse = 1.0 / (scale * last)
                if weight * mass[t] < NEGLIGIBLE:
                    continue
                if kind == KERNELS:
                    normal[a, 0], normal[a, 1], normal[a, 2] = weight * mass[t], loc + scale * center[t], inverse
                    a += 1
                else:
                    ramp[c, 0], ramp[c, 1], ramp[c, 2] = weight * mass[t], loc + scale * center[t], inverse
                    c += 1
        elif kind == STUDENT and which[s] == NORMAL:
            normal[a, 0], normal[a, 1], normal[a, 2] = weight, loc, 1.0 / scale
            a += 1
        elif kind == STUDENT and which[s] > NORMAL:
            student[b, 0], student[b, 1], student[b, 2] = weight, loc, 1.0 / scale
            student[b, 3], student[b, 4] = table.df[s], table.log_norm[s]
            row.which[b] = which[s]
            b += 1
        else:
            row.other[d] = m
            d += 1
    row.size[0], row.size[1], row.size[2], row.size[3] = a, b, c, d
    return True


@fused_kernel
def _normals(normal: Floats, n: int, pieces: Floats, y: float) -> tuple[float, float]:
    """What n normal components add to the cdf and to the density."""
    total, slope = 0.0, 0.0
    for m in range(n):
        e = (y - normal[m, 1]) * normal[m, 2]
        at = min(abs(e) * PER_UNIT, 1.0 * REACH * PER_UNIT)  # that piece is 1 all over
        k = np.int64(at)
        t = at - k
        c = pieces[NORMAL, np.uint64(k)]
        F = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
        total += normal[m, 0] * (F if e > 0.0 else 1.0 - F)
        f = c[1] + t * (2.0 * c[2] + 3.0 * t * c[3])  # to 1e-5, it only guides a search
        slope += normal[m, 0] * normal[m, 2] * f
    return total, slope * PER_UNIT


@fused_kernel
def _students(student: Floats, which: Ints, n: int, pieces: Floats, y: float) -> tuple[float, float]:
    """The same of n Student components."""
    total, slope = 0.0, 0.0
    for m in range(n):
        weight, inverse = student[m, 0], student[m, 2]
        e = (y - student[m, 1]) * inverse
        at, rate = abs(e) * PER_UNIT, 1.0 * PER_UNIT
        if at >= REACH * PER_UNIT:
            u = REACH / abs(e)
            at, rate = REACH * PER_UNIT + FAR_PIECES * u, -FAR_PIECES * u * u / REACH
        if at < REACH * PER_UNIT or at >= REACH * PER_UNIT + FIRST_FAR:
            k = np.int64(min(at, N_PIECES - 1.0))
            t = at - k
            c = pieces[np.uint64(which[m]), np.uint64(k)]
            F = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
            f = rate * (c[1] + t * (2.0 * c[2] + 3.0 * t * c[3]))
        else:
            F = 1.0 - student_tail(e, student[m, 3], student[m, 4])
            f = student_density(e, student[m, 3], student[m, 4])
        total += weight * (F if e > 0.0 else 1.0 - F)
        slope += weight * inverse * f
    return total, slope


@fused_kernel
def _ramps(ramp: Floats, n: int, y: float) -> tuple[float, float]:
    """The same of n cells."""
    total, slope = 0.0, 0.0
    for m in range(n):
        t = (y - ramp[m, 1]) * ramp[m, 2]
        total += ramp[m, 0] * min(max(t, 0.0), 1.0)
        slope += ramp[m, 0] * ramp[m, 2] if 0.0 < t <= 1.0 else 0.0
    return total, slope


@kernel
def tabulated_cdf(
    size: Ints, normal: Floats, student: Floats, which: Ints, ramp: Floats, pieces: Floats, y: float
) -> tuple[float, float]:
    """P(Y <= y) and the density at y, of all but the others of a row."""
    total, slope = _normals(normal, size[0], pieces, y)
    more, steeper = _students(student, which, size[1], pieces, y)
    most, steepest = _ramps(ramp, size[2], y)
    return total + more + most, slope + steeper + steepest


@kernel
def other_cdf(components: Components, table: Table, row: FlatRow, y: float) -> tuple[float, float]:
    """Components without a table: histograms over all of R, and Student components with less than one degree."""
    total, slope = 0.0, 0.0
    for j in range(row.size[3]):
        m = row.other[j]
        weight, scale, s = components.weight[m], components.scale[m], components.shape[m]
        e = (y - components.loc[m]) / scale
        if table.kind[s] == STUDENT:
            tail = student_tail(e, table.df[s], table.log_norm[s])
            total += weight * (1.0 - tail if e > 0.0 else tail)
            slope += weight / scale * student_density(e, table.df[s], table.log_norm[s])
        else:
            total += weight * atoms_tails(table, s, e)[0]
            height = cells_density(
                table.weight, table.center, table.width, table.start[s], table.start[s + 1], t2_lower(e)
            )
            slope += weight / scale * height * t2_density(e)
    return total, slope


@kernel
def extent(weight: float, df: float, mass: float) -> float:
    """Deviations beyond which a component has less than about so much mass."""
    if weight <= mass:
        return 0.0
    if df == math.inf:
        return math.sqrt(2.0 * math.log(weight / mass))
    return math.sqrt(df) * max((weight / mass) ** (1.0 / df), 1.0)


@fused_kernel
def add_cdfs(part: Floats, which: Ints, n: int, pieces: Any, y: Floats, F: Floats) -> None:
    """Add n components, normals where there is no ``which``, to the cdf F (N + 1,) at y (N,), as differences."""
    N, first, last = len(y), 0, 0
    for m in range(n):
        weight, loc, inverse = part[m, 0], part[m, 1], part[m, 2]
        table, df, reach = NORMAL, math.inf, _ALL
        if len(which) > 0:
            table, df = which[m], part[m, 3]
            reach = extent(weight, df, _NOTHING)
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
def add_ramps(ramp: Floats, n: int, y: Floats, F: Floats) -> None:
    """Add n cells to the cdf F (N + 1,) at y (N,), ascending, as differences."""
    N = len(y)
    for m in range(n):
        k, last = 0, N
        while k < last:  # the first y beyond the left end
            middle = (k + last) // 2
            if y[middle] > ramp[m, 1]:
                last = middle
            else:
                k = middle + 1
        before, t = 0.0, 0.0
        while k < N and t < 1.0:
            t = min((y[k] - ramp[m, 1]) * ramp[m, 2], 1.0)
            F[k] += ramp[m, 0] * t - before
            before, k = ramp[m, 0] * t, k + 1
        F[k] += ramp[m, 0] - before


@kernel
def cdf_at(components: Components, table: Table, row: FlatRow, tables: Any, y: Floats, F: Floats) -> None:
    """Fill F (N + 1,) with P(Y <= y) of a flat row at y (N,), ascending, some of which may be infinite."""
    N = len(y)
    F[: N + 1] = 0.0
    add_cdfs(row.normal, row.which[:0], row.size[0], tables, y, F)
    add_cdfs(row.student, row.which, row.size[1], tables, y, F)
    add_ramps(row.ramp, row.size[2], y, F)
    total = 0.0
    for k in range(N):
        total += F[k]
        F[k] = total
        if math.isinf(y[k]):
            F[k] = 1.0 if y[k] > 0.0 else 0.0
        elif row.size[3] > 0:
            F[k] += other_cdf(components, table, row, y[k])[0]
