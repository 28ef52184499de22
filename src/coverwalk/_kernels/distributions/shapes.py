"""Four families of standard shapes in one flat table: log density, density and both tail masses of each."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import NamedTuple

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import fused_kernel, kernel
from coverwalk._kernels.distributions.exponential import loop_tail
from coverwalk._kernels.distributions.student import log1p

STUDENT, KERNELS, T2_CELLS, CELLS = range(4)
BLOCK = 8  # atoms that are worked out together: what a table has of them ends with so many of no mass

FAR = 1e150  # beyond this a square overflows
FAR_NORMAL = 37.0  # deviations beyond which a normal has no mass: 6e-300


class Table(NamedTuple):
    """What a kernel must know of s shapes with a atoms together; made by `distributions.shapes.Shapes`, read only."""

    kind: Ints32  # (s,)
    df: Floats  # (s,) degrees of freedom of a Student t; NaN elsewhere
    log_norm: Floats  # (s,) its log density at 0
    start: Ints  # (s + 1,) atoms of a shape: start[s]:start[s+1]
    weight: Floats  # (a,) mass of an atom
    center: Floats  # (a,) centre of a kernel; left edge of a cell
    width: Floats  # (a,) standard deviation of a kernel; width of a cell
    log_height: Floats  # (a,) log density of the atom at its centre, mass included
    below: Floats  # (a,) mass of the shape's cells before this one
    above: Floats  # (a,) mass of the cells after it
    mean: Floats  # (s,)
    var: Floats  # (s,)
    narrowest: Floats  # (s,) width of the narrowest kernel; 1 of a Student t, 0 of cells


@kernel
def t2_lower(e: float) -> float:
    """The cdf u = F(e) = 1/2 + e / (2 sqrt(2 + e^2)), Student's t with df = 2; exact in the lower tail."""
    if e < -FAR:
        return 0.5 / e / e
    r = math.sqrt(2.0 + e * e) if e < FAR else e
    if e < 0.0:
        return 1.0 / (r * (r - e))
    return 0.5 + 0.5 * (e / r) if e < FAR else 1.0


@kernel
def find_cell(left: Floats, first: int, last: int, u: float) -> int:
    """The last of the cells first:last whose left edge is at or below u; first - 1 when there is none."""
    low, high = first - 1, last
    while high - low > 1:
        middle = (low + high) // 2
        if left[middle] <= u:
            low = middle
        else:
            high = middle
    return low


@kernel
def log_kernels(table: Table, s: int, e: float) -> float:
    """Log density of a mixture of normals, by a log-sum-exp in one pass."""
    top, total = -math.inf, 0.0
    for a in range(table.start[s], table.start[s + 1]):
        z = (e - table.center[a]) / table.width[a]
        term = table.log_height[a] - 0.5 * z * z
        if term <= top:
            total += math.exp(term - top) if term > -math.inf else 0.0
        else:
            total = total * math.exp(top - term) + 1.0
            top = term
    return top + math.log(total) if total > 0.0 else -math.inf


@kernel
def log_density(table: Table, s: int, e: float, log_abs_e: float) -> float:
    """Log density of shape s at e. ``log_abs_e`` = log(abs(e)), finite even for infinite e; read beyond FAR."""
    kind = table.kind[s]
    far = abs(e) > FAR
    if kind == STUDENT:
        df = table.df[s]
        if df == math.inf:
            return table.log_norm[s] - 0.5 * e * e
        log_power = 2.0 * log_abs_e - math.log(df) if far else log1p(e * e / df)
        return table.log_norm[s] - 0.5 * (df + 1.0) * log_power
    if kind == KERNELS:
        return log_kernels(table, s, e)
    u = t2_lower(e) if kind == T2_CELLS else e
    height = cells_density(table.weight, table.center, table.width, table.start[s], table.start[s + 1], u)
    if height == 0.0:
        return -math.inf
    if kind == CELLS:
        return math.log(height)
    return math.log(height) - (3.0 * log_abs_e if far else 1.5 * math.log(2.0 + e * e))


@fused_kernel
def kernels_tails(
    weight: Floats, center: Floats, width: Floats, first: int, last: int, e: float
) -> tuple[float, float]:
    """P(E <= e) and P(E > e) of the normals first:last."""
    lower, upper = 0.0, 0.0
    for a in range(first, last):
        z = (e - center[a]) / width[a]
        tail = weight[a] * (loop_tail(min(abs(z), FAR_NORMAL)) if abs(z) < FAR_NORMAL else 0.0)
        rest = weight[a] - tail
        lower += tail if z < 0.0 else rest
        upper += rest if z < 0.0 else tail
    return lower, upper


@kernel
def cells_density(weight: Floats, left: Floats, width: Floats, first: int, last: int, u: float) -> float:
    """Height of the cells first:last at u: 0 in the gaps between; the last cell owns its right edge."""
    a = find_cell(left, first, last, u)
    if a < first:
        return 0.0
    inside = u - left[a]
    if inside < width[a] or (inside == width[a] and a == last - 1):
        return weight[a] / width[a]
    return 0.0


@kernel
def t2_density(e: float) -> float:
    """Density of Student's t with df = 2."""
    return 1.0 / ((2.0 + e * e) * math.sqrt(2.0 + e * e))


@kernel
def atoms_tails(table: Table, s: int, e: float) -> tuple[float, float]:
    """P(E <= e) and P(E > e) of shape s, not a Student t: both, as the small one cannot be had from the other."""
    kind = table.kind[s]
    if kind == KERNELS:
        return kernels_tails(table.weight, table.center, table.width, table.start[s], table.start[s + 1], e)
    u = t2_lower(e) if kind == T2_CELLS else e
    a = find_cell(table.center, table.start[s], table.start[s + 1], u)
    if a < table.start[s]:
        return 0.0, 1.0
    inside = u - table.center[a]
    # what is left of the cell; in u by the distances of both to 1, so that it is exact where u itself rounds to 1
    left_over = t2_lower(-e) - (1.0 - table.center[a] - table.width[a]) if kind == T2_CELLS else table.width[a] - inside
    if left_over <= 0.0:
        return table.below[a] + table.weight[a], table.above[a]
    height = table.weight[a] / table.width[a]
    return table.below[a] + height * inside, table.above[a] + height * left_over


@kernel
def partial_sums(start: Ints, weight: Floats, below: Floats, above: Floats) -> None:
    """Fill below, above (a,): mass of the atoms before and after each one in its own shape."""
    for s in range(start.size - 1):
        total = 0.0
        for a in range(start[s], start[s + 1]):
            below[a] = total
            total += weight[a]
        total = 0.0
        for a in range(start[s + 1] - 1, start[s] - 1, -1):
            above[a] = total
            total += weight[a]
