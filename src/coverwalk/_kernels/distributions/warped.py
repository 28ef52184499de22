"""Moments of bounded y: of functions of the latent y that are, piece by piece, constant, linear or exponential."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import fused_kernel, inlined_kernel, kernel
from coverwalk._kernels.distributions.exponential import LOWEST, loop_exp, loop_log1p, loop_mills
from coverwalk._kernels.distributions.grid_cells import MAX_CELLS, cells_apart, narrow_between, rounding_adds
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.pieces import EXPONENTIAL, LINEAR, Grid, Pieces, value_of
from coverwalk._kernels.distributions.row_cdf import empty_row, flatten
from coverwalk._kernels.distributions.shapes import BLOCK, KERNELS, STUDENT, Table
from coverwalk._kernels.distributions.student import student_density, student_tail

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FAR = 40.0  # e^-40 of what there is
_OUT = 7.5  # deviations beyond which a normal has nothing, 3e-14
_NOTHING = 1e-14  # a mass that changes no moment
_NORM = 1.0 / math.sqrt(2.0 * math.pi)

Atoms = tuple[Floats, Floats, Floats, int, int]  # mass, center and width of all atoms, and which are those of a shape
Pair = tuple[float, float]
Beyond = tuple[float, float, float]  # P(E > e), E[E; E > e], E[E^2; E > e]


@kernel
def student_beyond(e: float, df: float, log_norm: float, squares: bool) -> Beyond:
    """Of a Student t; the last is 0 where it is not asked for."""
    tail, density = student_tail(e, df, log_norm), student_density(e, df, log_norm)
    tail = tail if e >= 0.0 else 1.0 - tail
    if df == math.inf:
        return tail, density, tail + e * density
    first, second = (df + e * e) / (df - 1.0) * density if df > 1.0 else math.inf, 0.0
    if squares and df > 2.0:
        ratio, shrink = (df - 1.0) / (df - 2.0), math.sqrt((df - 2.0) / df)
        fewer = student_tail(e * shrink, df - 2.0, log_norm - math.log(ratio * shrink))
        second = df * (ratio * (fewer if e >= 0.0 else 1.0 - fewer) - tail)
    elif squares:
        second = math.inf
    return tail, first, second


@fused_kernel
def _kernels_beyond(atoms: Atoms, e: float) -> Beyond:
    """Of normals."""
    mass, center, width, start, stop = atoms
    zero, one, two = 0.0, 0.0, 0.0
    for block in range(start, stop, BLOCK):
        n_near = 0.0
        for a in range(block, block + BLOCK):
            n_near += 1.0 if abs(e - center[a]) < _OUT * width[a] else 0.0
        for a in range(block, block + BLOCK):
            m, c, w = mass[a] if a < stop else 0.0, center[a], width[a]
            tail, density = 1.0 if e < c else 0.0, 0.0
            if n_near > 0.0:
                z = (e - c) / w
                bell = loop_exp(max(-0.5 * z * z, LOWEST))
                half = loop_mills(abs(z)) * bell
                tail, density = half if z > 0.0 else 1.0 - half, w * _NORM * bell
            zero += m * tail
            one += m * (c * tail + density)
            two += m * ((c * c + w * w) * tail + density * (e + c))
    return zero, one, two


@kernel
def _cells_beyond(atoms: Atoms, e: float) -> Beyond:
    """Of cells."""
    mass, left, width, start, stop = atoms
    zero, one, two = 0.0, 0.0, 0.0
    for a in range(start, stop):
        low, high = max(e, left[a]), left[a] + width[a]
        if low < high:
            part = mass[a] * (high - low) / width[a]
            zero, one, two = zero + part, one + 0.5 * part * (low + high), two
            two += part * (low * low + low * high + high * high) / 3.0
    return zero, one, two


@inlined_kernel
def _normal_exp(u: float, rate: float) -> float:
    """E[e^(rate (U - u)); U < u] of a standard normal, rate > 0: e^(rate^2 / 2 - rate u) P(U < u - rate).

    A tail of that P is a ratio times e^(-(u - rate)^2 / 2), so that nothing overflows.
    """
    tail = loop_mills(abs(u - rate)) * loop_exp(max(-0.5 * u * u, LOWEST))
    whole = loop_exp(min(max(rate * (0.5 * rate - u), LOWEST), 0.0))
    return tail if u < rate else whole - tail


@fused_kernel
def _exp_up_to(atoms: Atoms, z: Pair, rate: float, end: float, squares: bool) -> Pair:
    """E[e^(rate Z); rate Z < rate end] of normals, z being loc and scale; and with squares that of 2 rate."""
    mass, center, width, start, stop = atoms
    one, two, sign = 0.0, 0.0, math.copysign(1.0, rate)
    for block in range(start, stop, BLOCK):
        for a in range(block, block + BLOCK):
            m, w = mass[a] if a < stop else 0.0, z[1] * width[a]
            u = sign * (end - z[0] - z[1] * center[a]) / w
            one += m * _normal_exp(u, abs(rate) * w)
            if squares:
                two += m * _normal_exp(u, 2.0 * abs(rate) * w)
    grown = math.exp(rate * end)
    return grown * one, grown * grown * two


@kernel
def _normals_exp(atoms: Atoms, z: Pair, rate: float, low: float, high: float, squares: bool) -> Pair:
    """E[e^(rate Z); low < Z < high] and that of 2 rate: low or high, which bounds both by one, is finite."""
    near, far = (high, low) if rate > 0.0 else (low, high)
    one, two = _exp_up_to(atoms, z, rate, near, squares)
    if math.isinf(far):
        return one, two
    beyond, beyond_two = _exp_up_to(atoms, z, rate, far, squares)
    return one - beyond, two - beyond_two


@fused_kernel
def _panel(z: tuple[float, float, float], from_: float, to: float, df: float, log_norm: float) -> Pair:
    """The integrals of e^(rate (loc + scale e)) and of its square times the density of a Student t."""
    rate, loc, scale = z
    half, middle = 0.5 * (to - from_), 0.5 * (to + from_)
    one, two = 0.0, 0.0
    for k in range(16):
        e = middle + half * _NODES[k]
        value = loop_exp(max(rate * (loc + scale * e), LOWEST))
        density = loop_exp(max(log_norm - 0.5 * (df + 1.0) * loop_log1p(e * e / df), LOWEST))
        one += _WEIGHTS[k] * value * density
        two += _WEIGHTS[k] * value * value * density
    return half * one, half * two


@kernel
def _student_exp(z: tuple[float, float, float], low: float, high: float, df: float, log_norm: float) -> Pair:
    """E[e^(rate Z); low < Z < high] and that of 2 rate, of a Student t, z being rate, loc and scale: Gauss and Legendre
    between points that stand the farther apart the farther out. The density has poles at +-i sqrt(df): sixteen nodes
    err by 1e-12 over three units, or half of the way to the middle.
    """
    rate, loc, scale = z
    if rate > 0.0:
        low = max(low, high - _FAR / rate)
    else:
        high = min(high, low - _FAR / rate)
    reach = math.sqrt(df * math.expm1(min(60.0 / df, 600.0)))  # (1 + reach^2 / df)^(-df / 2) = e^-30
    start, end = max((low - loc) / scale, -reach), min((high - loc) / scale, reach)
    one, two, at = 0.0, 0.0, start
    while at < end:
        until = min(end, at + min(max(min(3.0, 1.5 * math.sqrt(df)), 0.5 * abs(at)), 5.0 / (abs(rate) * scale)))
        if until == at:  # so far out that floats do not hold the next point
            break
        first, second = _panel(z, at, until, df, log_norm)
        one, two, at = one + first, two + second, until
    return one, two


@kernel
def _cells_exp(atoms: Atoms, z: tuple[float, float], rate: float, low: float, high: float) -> Pair:
    """The same of cells, z being loc and scale."""
    mass, left, width, start, stop = atoms
    one, two = 0.0, 0.0
    for a in range(start, stop):
        at, w = z[0] + z[1] * left[a], z[1] * width[a]
        from_, to = max(low, at), min(high, at + w)
        if from_ < to:
            first, last, height = math.exp(rate * from_), math.exp(rate * to), mass[a] / (w * rate)
            one += height * (last - first)
            two += 0.5 * height * (last * last - first * first)
    return one, two


@kernel
def piece_moments(
    components: Components,
    table: Table,
    tables: tuple[Any, Any],
    pieces: Pieces,
    grid: Grid,
    squares: bool,
    mean: Floats,
    var: Floats,
) -> None:
    """Fill mean, and with squares var (n,), of y; mean comes with that of the latent y. tables: see `mixture_ppf`."""
    edges, kind, form = pieces
    _, step, lowest, highest = grid
    limited = lowest > -math.inf or highest < math.inf
    # Out of the tuples first: to hand a table to a function costs more than what it does with it.
    starts, weights, locs, scales, shape = components
    kinds, dfs, log_norms, first_atom = table.kind, table.df, table.log_norm, table.start
    atom_mass, center, width, means, vars_ = table.weight, table.center, table.width, table.mean, table.var
    normal = (np.ones(BLOCK), np.zeros(BLOCK), np.ones(BLOCK), 0, 1)
    row, size = empty_row(components, table, len(mean) if step > 0.0 else 0), MAX_CELLS if step > 0.0 else 0
    ends, below = np.empty(size + 1), np.empty(size + 2)
    for i in range(len(mean)):
        guess, first, second = value_of(pieces, mean[i]), 0.0, 0.0  # about which squares are summed
        cells, narrow, flat = 0, (math.inf, -math.inf), False
        from_, to = math.inf, math.inf  # where cells are told apart
        if step > 0.0 and not math.isnan(guess):
            narrow = narrow_between(components, table, i, pieces, step)
            if narrow[0] < narrow[1] or limited:
                flat = flatten(components, table, tables[0], i, row)
        if flat and narrow[0] < narrow[1]:
            cells, value = cells_apart(components, table, row, tables[1], pieces, grid, guess, narrow, ends, below)
            for c in range(cells):
                mass, away = below[c + 1] - below[c], value + c * step - guess
                first, second = first + mass * away, second + mass * away * away
            if cells > 0:
                from_, to = ends[0], ends[cells]
        for m in range(starts[i], starts[i + 1]):
            weight, at, scale, s = weights[m], locs[m], scales[m], shape[m]
            if weight == 0.0:
                continue
            atoms = normal if kinds[s] == STUDENT else (atom_mass, center, width, first_atom[s], first_atom[s + 1])
            under, last = (1.0, means[s], vars_[s] + means[s] * means[s]), -math.inf  # beyond the last end
            for part in range(2 * len(kind)):  # of each piece what lies below the cells, and what lies above
                k = part // 2
                low = edges[k] if part % 2 == 0 else max(edges[k], to)
                high = min(edges[k + 1], from_) if part % 2 == 0 else edges[k + 1]
                if low >= high:
                    continue
                a, b, rate, origin = form[k, 0] - guess, form[k, 1], form[k, 2], form[k, 3]
                for side in range(2):
                    end = low if side == 0 else high
                    before = under
                    if end != last and end < math.inf:
                        e = (end - at) / scale
                        if kinds[s] == STUDENT:
                            under = student_beyond(e, dfs[s], log_norms[s], squares)
                        elif kinds[s] == KERNELS:
                            under = _kernels_beyond(atoms, e)
                        else:
                            under = _cells_beyond(atoms, e)
                    elif end == math.inf:
                        under = (0.0, 0.0, 0.0)
                    last = end
                mass = before[0] - under[0]
                away = 0.0 if kind[k] != LINEAR else (min(max(at, low), high) - at) / scale
                if mass * (1.0 + away * away) < _NOTHING:  # exponentials are at most one
                    continue
                one, two = 0.0, 0.0
                if kind[k] == LINEAR:
                    a, b = a + b * (at - origin), b * scale  # small numbers, however far y is from its bound
                    one, two = before[1] - under[1], before[2] - under[2]
                elif kind[k] == EXPONENTIAL:
                    x, left, right = at - origin, low - origin, high - origin
                    if kinds[s] == STUDENT and dfs[s] < math.inf:
                        one, two = _student_exp((rate, x, scale), left, right, dfs[s], log_norms[s])
                    elif kinds[s] in (STUDENT, KERNELS):
                        one, two = _normals_exp(atoms, (x, scale), rate, left, right, squares)
                    else:
                        one, two = _cells_exp(atoms, (x, scale), rate, left, right)
                first += weight * (a * mass + b * one)
                second += weight * (a * a * mass + 2.0 * a * b * one + b * b * two)
        mean[i] = guess + first
        if squares:
            var[i] = second - first * first
        if flat:
            shift, more = rounding_adds(components, table, row, tables[1], pieces, grid, (from_, to), mean[i])
            mean[i], var[i] = mean[i] + shift, var[i] + more
        else:
            var[i] += step * step / 12.0
