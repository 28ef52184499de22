"""Four families of standard shapes in one flat table: log density, density and both tail masses of each."""

# mypy: disable-error-code="no-any-return"  # a compiled function is Any to its caller

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._compile import kernel
from .student import log1p, student_tail

__all__ = ["CELLS", "FAR", "KERNELS", "STUDENT", "T2_CELLS", "Table", "density", "log_density", "partial_sums", "tails"]

STUDENT, KERNELS, T2_CELLS, CELLS = range(4)

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
FAR = 1e150  # beyond this a square overflows


class Table(NamedTuple):
    """All that a kernel must know of s shapes with together a atoms; made by `coverwalk.shapes.Shapes`, read only."""

    kind: NDArray[np.int32]  # (s,)
    df: NDArray[np.float64]  # (s,) degrees of freedom of a Student t; NaN elsewhere
    log_norm: NDArray[np.float64]  # (s,) its log density at 0
    start: NDArray[np.int64]  # (s + 1,) atoms of a shape: start[s]:start[s+1]
    weight: NDArray[np.float64]  # (a,) mass of an atom
    center: NDArray[np.float64]  # (a,) centre of a kernel; left edge of a cell
    width: NDArray[np.float64]  # (a,) standard deviation of a kernel; width of a cell
    log_height: NDArray[np.float64]  # (a,) log density of the atom at its centre, mass included
    below: NDArray[np.float64]  # (a,) mass of the shape's cells before this one
    above: NDArray[np.float64]  # (a,) mass of the cells after it
    mean: NDArray[np.float64]  # (s,)
    var: NDArray[np.float64]  # (s,)


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
def find_cell(table: Table, s: int, u: float) -> int:
    """The last cell of shape s whose left edge is at or below u; start[s] - 1 when there is none."""
    low, high = table.start[s] - 1, table.start[s + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if table.center[middle] <= u:
            low = middle
        else:
            high = middle
    return low


@kernel
def in_cell(table: Table, s: int, a: int, u: float) -> bool:
    """Whether cell a, as found for u, holds u: cells may leave gaps, and the last one owns its right edge."""
    if a < table.start[s]:
        return False
    right = table.center[a] + table.width[a]
    return u < right or (u == right and a == table.start[s + 1] - 1)


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
    a = find_cell(table, s, u)
    if not in_cell(table, s, a, u):
        return -math.inf
    if kind == CELLS:
        return table.log_height[a]
    return table.log_height[a] - (3.0 * log_abs_e if far else 1.5 * math.log(2.0 + e * e))


@kernel
def density(table: Table, s: int, e: float) -> float:
    """Density of shape s at e; 0 where it underflows."""
    kind = table.kind[s]
    if abs(e) > FAR:
        return 0.0
    if kind == STUDENT:
        df = table.df[s]
        if df == math.inf:
            return math.exp(table.log_norm[s] - 0.5 * e * e)
        return math.exp(table.log_norm[s] - 0.5 * (df + 1.0) * log1p(e * e / df))
    if kind == KERNELS:
        total = 0.0
        for a in range(table.start[s], table.start[s + 1]):
            z = (e - table.center[a]) / table.width[a]
            half_square = 0.5 * z * z
            if half_square < 700.0:
                total += math.exp(table.log_height[a] - half_square)
        return total
    u = t2_lower(e) if kind == T2_CELLS else e
    a = find_cell(table, s, u)
    if not in_cell(table, s, a, u):
        return 0.0
    height = table.weight[a] / table.width[a]
    return height if kind == CELLS else height / ((2.0 + e * e) * math.sqrt(2.0 + e * e))


@kernel
def tails(table: Table, s: int, e: float) -> tuple[float, float]:
    """P(E <= e) and P(E > e) of shape s: both, since the small one cannot be had from the other."""
    kind = table.kind[s]
    if kind == STUDENT:
        tail = student_tail(e, table.df[s], table.log_norm[s])
        return (tail, 1.0 - tail) if e < 0.0 else (1.0 - tail, tail)
    if kind == KERNELS:
        lower, upper = 0.0, 0.0
        for a in range(table.start[s], table.start[s + 1]):
            z = (e - table.center[a]) / table.width[a]
            tail = 0.5 * math.erfc(abs(z) * math.sqrt(0.5))
            lower += table.weight[a] * (tail if z < 0.0 else 1.0 - tail)
            upper += table.weight[a] * (1.0 - tail if z < 0.0 else tail)
        return lower, upper
    u = t2_lower(e) if kind == T2_CELLS else e
    a = find_cell(table, s, u)
    if a < table.start[s]:
        return 0.0, 1.0
    inside = u - table.center[a]
    if inside >= table.width[a]:
        return table.below[a] + table.weight[a], table.above[a]
    # what is left of the cell, from the distances of both to the end of the u axis when that is the exact way
    left_over = t2_lower(-e) - (1.0 - table.center[a] - table.width[a]) if kind == T2_CELLS else table.width[a] - inside
    height = table.weight[a] / table.width[a]
    return table.below[a] + height * inside, table.above[a] + height * left_over


@kernel
def partial_sums(
    start: NDArray[np.int64], weight: NDArray[np.float64], below: NDArray[np.float64], above: NDArray[np.float64]
) -> None:
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
