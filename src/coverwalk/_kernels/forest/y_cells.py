"""Cells of y that are the same for all x: where their edges lie, and the mass that rows of mixtures have in them."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.mixture import Components, row_tails
from coverwalk._kernels.distributions.row_cdf import cdf_at, empty_row, flatten
from coverwalk._kernels.distributions.shapes import Table


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
def cell_masses(
    components: Components, table: Table, tables: tuple[Any, Any], left: Floats, right: Floats, out: Floats
) -> None:
    """Fill out (n, C): the mass of row i in each of the cells from left (C,) to right (C,), sorted.

    tables: which (s,) of the tables pieces (D, N_PIECES, 6) is that of a shape.
    """
    which, pieces = tables
    row, C = empty_row(components, table, len(out)), len(left)
    ends, below = np.empty(2 * C), np.empty(2 * C + 1)
    for c in range(C):
        ends[2 * c], ends[2 * c + 1] = left[c], right[c]
    for i in range(len(out)):
        if flatten(components, table, which, i, row):
            cdf_at(components, table, row, pieces, ends, below)
        else:
            for k in range(2 * C):
                below[k] = row_tails(components, table, i, ends[k])[0]
        for c in range(C):
            out[i, c] = max(below[2 * c + 1] - below[2 * c], 0.0)
