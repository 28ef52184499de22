"""Cells of y that are the same for all x: where their edges lie, and the mass that rows of mixtures have in them."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.shapes import KERNELS, STUDENT, Table, atoms_tails, find_cell

__all__ = ["Prices", "Rows", "best_edges", "cell_masses", "move_edges", "normal_table"]


class Rows(NamedTuple):
    """Rows sorted by y, as seen from G places between them: what lies below each."""

    place: Floats  # (G,)
    n_rows: Floats  # (G,)
    hints: Floats  # (G,) rows that have a hint
    hinted: Floats  # (G,) the sum of their hints
    first: Floats  # (G,) the first y above
    last: Floats  # (G,) the last y below


class Prices(NamedTuple):
    """What cells cost, and what is known before."""

    cell: float  # in nats
    support: float  # of a cell that holds less than all between its edges
    least: float  # width of a support
    noise: float  # variance of the hints in a cell


_REACH, _FINE = 6.0, 128.0  # the normal cdf is tabled up to so many deviations, in steps of 1/128: good to 2e-6


def normal_table() -> Floats:
    """The normal cdf at multiples of 1/128 from -6 to 6, and 0 and 1 at the ends."""
    at = np.arange(-_REACH, _REACH + 0.5 / _FINE, 1.0 / _FINE)
    table = np.array([0.5 * math.erfc(-z * math.sqrt(0.5)) for z in at])
    table[0], table[-1] = 0.0, 1.0
    return table


@kernel
def _score(rows: Rows, a: int, b: int, prices: Prices) -> float:
    """What the cell between places a and b is worth: the log density of its rows, and how well it tells their hints."""
    whole, reach = rows.place[b] - rows.place[a], rows.last[b] - rows.first[a]
    n, k, total = rows.n_rows[b] - rows.n_rows[a], rows.hints[b] - rows.hints[a], rows.hinted[b] - rows.hinted[a]
    score = -prices.cell
    if n > 0.0:
        narrow = max(reach * (n + 2.0) / n, prices.least)  # a uniform distribution reaches a little beyond its rows
        density = n * math.log(n / whole)
        if n * (whole - narrow) > prices.support * narrow:  # as log t <= t - 1, else it is not worth its price
            density = max(density, n * math.log(n / narrow) - prices.support)
        score += density
    if k > 0.0:
        score += 0.5 * total * total / (k * prices.noise)
    return score


@kernel
def best_edges(rows: Rows, prices: Prices, edges: Ints) -> int:
    """Write the indices of those places, the first and the last among them, whose cells are worth most, to the first
    of edges (G,); returns how many.

    The dynamic programme over all choices of edges: the best cells below b are a last cell (a, b) after the best cells
    below a.
    """
    G = len(rows.place)
    best, previous = np.full(G, -math.inf), np.zeros(G, np.int64)
    best[0] = 0.0
    for b in range(1, G):
        for a in range(b):
            score = best[a] + _score(rows, a, b, prices)
            if score > best[b]:
                best[b], previous[b] = score, a
    n_edges, k = 1, G - 1
    while k > 0:
        k = previous[k]
        n_edges += 1
    k = G - 1
    for j in range(n_edges - 1, -1, -1):
        edges[j] = k
        k = previous[k]
    return n_edges


@kernel
def move_edges(rows: Rows, prices: Prices, edges: Ints, reach: int) -> None:
    """Move each inner edge, in turn, to the best of the places within reach, between its neighbours."""
    for j in range(1, len(edges) - 1):
        low, high = max(edges[j - 1] + 1, edges[j] - reach), min(edges[j + 1] - 1, edges[j] + reach)
        best = -math.inf
        for t in range(low, high + 1):
            score = _score(rows, edges[j - 1], t, prices) + _score(rows, t, edges[j + 1], prices)
            if score > best:
                best, edges[j] = score, t


@kernel
def _normal(table: Floats, z: float) -> float:
    """The normal cdf, between the entries of its table."""
    t = (z + _REACH) * _FINE
    if not t > 0.0:
        return 0.0
    k = int(min(t, 2.0 * _REACH * _FINE))
    if k + 1 >= len(table):
        return 1.0
    return table[k] + (t - k) * (table[k + 1] - table[k])


@kernel
def _student_below(normal: Floats, df: float, e: float) -> float:
    """P(E <= e) by Wallace's normal deviate (1959): good to a few thousandths at three degrees of freedom."""
    if df == math.inf:
        return _normal(normal, e)
    z = (8.0 * df + 1.0) / (8.0 * df + 3.0) * math.sqrt(df * math.log(1.0 + e * e / df))
    return _normal(normal, z if e > 0.0 else -z)


@kernel
def _kernels_below(
    normal: Floats, atoms: tuple[Floats, Floats, Floats, Floats], first: int, last: int, e: float
) -> float:
    """P(E <= e) of kernels first:last: three of a base, then others of one width in the order of their centres."""
    weight, center, width, below = atoms
    narrow = min(first + 3, last)
    total = 0.0
    for a in range(first, narrow):
        total += weight[a] * _normal(normal, (e - center[a]) / width[a])
    if narrow == last:
        return total
    h = width[narrow]
    a = find_cell(center, narrow, last, e - _REACH * h)
    if a >= narrow:  # these lie below as a whole
        total += below[a] + weight[a] - below[narrow]
    a += 1
    while a < last and center[a] < e + _REACH * h:
        total += weight[a] * _normal(normal, (e - center[a]) / h)
        a += 1
    return total


@kernel
def _reach(table: Table, s: int) -> float:
    """How far a shape reaches, in scales: all of it, as far as `_normal` can tell."""
    if table.kind[s] == STUDENT:
        df = table.df[s]
        if df == math.inf:
            return _REACH
        z = _REACH * (8.0 * df + 3.0) / (8.0 * df + 1.0)
        return math.sqrt(df * math.expm1(z * z / df))
    first, last = table.start[s], table.start[s + 1] - 1
    if table.kind[s] == KERNELS:
        reach = 0.0
        for a in (first, min(first + 1, last), min(first + 2, last), min(first + 3, last), last):
            reach = max(reach, abs(table.center[a]) + _REACH * table.width[a])
        return reach
    return max(abs(table.center[first]), abs(table.center[last] + table.width[last]))


@kernel
def cell_masses(components: Components, table: Table, normal: Floats, left: Floats, right: Floats, out: Floats) -> None:
    """Fill out (n, C): the mass of row i in each of the cells from left (C,) to right (C,), sorted.

    As exact as a weight has to be: what is done with them is a mixture whatever they are, as long as none is negative
    and their sum is at most one.
    """
    # Out of the tuples first: to hand them to a function costs more than what it does with them.
    kind, df, start = table.kind, table.df, table.start
    atoms = (table.weight, table.center, table.width, table.below)
    offsets, weights, locs, scales, shape = components
    for i in range(len(out)):
        out[i, :] = 0.0
        for m in range(offsets[i], offsets[i + 1]):
            weight, loc, scale, s = weights[m], locs[m], scales[m], shape[m]
            before, after = 0.0, 0.0
            reach = _reach(table, s) * scale
            low = find_cell(right, 0, len(left), loc - reach) + 1  # cells farther away have none of its mass
            high = find_cell(left, 0, len(left), loc + reach)
            for end in range(2 * low, 2 * high + 2):
                c = end // 2
                if end % 2 == 0 and c > low and left[c] == right[c - 1]:
                    before = after
                    continue
                e = ((left[c] if end % 2 == 0 else right[c]) - loc) / scale
                if kind[s] == STUDENT:
                    after = _student_below(normal, df[s], e)
                elif kind[s] == KERNELS:
                    after = _kernels_below(normal, atoms, start[s], start[s + 1], e)
                else:
                    after, _ = atoms_tails(table, s, e)
                if end % 2 == 0:
                    before = after
                else:
                    out[i, c] += weight * max(after - before, 0.0)
