"""Cells of y between which its density makes steps: found in y's own values, and in what was predicted for them; or
about the values at which rows pile up.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.y_cells import Prices, Rows, best_edges, move_edges
from coverwalk.files.schema import Array, Scope, require, stored
from coverwalk.preparation.rounding import Rounding

N_PLACES = 128  # about which edges are looked for first, on either side of as many quantiles
MAX_CELLS = 64
MAX_HEAPS = 128
MAX_STEPS = 1000  # from heap to heap
MIN_WIDTH = 1e-4 / 16  # of a support, in standard deviations of y: an atom is as wide as in the trees' densities
ATOM_WIDTH = 1e-2  # an atom must be worth its price if it were so wide: y that was rounded more finely has none
_APART = 1e-9  # of the range of y: places nearer to each other are one


@stored(check=lambda state, scope: _check_cells(state, scope))
class Cells(NamedTuple):
    """C cells from left to right, sorted, and the support of each: where it has its rows."""

    left: Annotated[Floats, Array(float, "C")]  # (C,)
    right: Annotated[Floats, Array(float, "C")]
    low: Annotated[Floats, Array(float, "C")]  # of the support, within the cell
    high: Annotated[Floats, Array(float, "C")]


def _check_cells(state: Any, scope: Scope) -> None:
    """One after the other, each with its support."""
    require("cells", 1 <= scope["C"] <= MAX_HEAPS)
    require("cells", (state.left <= state.low) & (state.low < state.high) & (state.high <= state.right))
    require("cells", np.isfinite(state.high - state.low) & np.isfinite(state.right[-1] - state.left[0]))
    require("cells", state.right[:-1] <= state.left[1:])


def find_cells(y: Floats, hinted: Floats, hint: Floats) -> Cells | None:
    """The best cells of y (n,); None where there are too many.

    A cell tells the density of its rows, uniform over its support; and it tells by their mean the hints of those of
    its rows that have one: what was predicted for them without knowing their y, hint (m,) at y's hinted (m,). Where x
    has to do with the cell of y and not with the place in it, both are constant in a cell. A cell costs log n for the
    place of its edge, as BIC has it half of that for each of the two numbers, and log n for either end of its support
    where that is not all between the edges.

    >>> rng = np.random.default_rng(0)
    >>> y = np.append(rng.choice([0.0, 1.0], 300), 5 + rng.uniform(size=200))
    >>> cells = find_cells(y, y[:0], y[:0])  # no hints
    >>> cells.right.round(1).tolist(), np.round(0.5 * (cells.low + cells.high), 1).tolist()
    ([0.5, 3.0, 8.0], [0.0, 1.0, 5.5])
    """
    start, end = float(y.min()), float(y.max())
    if not 0.0 < end - start < np.inf:
        return None
    ordered = np.sort((y - start) / (end - start))
    rows, noise = _seen_from_places(ordered, (hinted - start) / (end - start), hint)
    log_n = float(np.log(len(y)))
    prices = Prices(2.0 * log_n, 2.0 * log_n, ATOM_WIDTH * float(ordered.std()), noise)
    few = _few(rows.n_rows)
    chosen = np.empty(len(few), np.int64)
    n_edges = best_edges(Rows(*(column[few] for column in rows)), prices, chosen)
    edges = few[chosen[:n_edges]]
    if len(edges) > MAX_CELLS + 1:
        return None
    for _ in range(2):
        move_edges(rows, prices, edges, int(np.diff(few).max()))
    least = max(MIN_WIDTH * float(ordered.std()), _APART)
    place, low, high = (start + (end - start) * places for places in _supports(rows, prices, edges, least))
    sound = np.all(np.isfinite(place)) and np.all(np.diff(place) > 0.0) and np.all(high > low)
    return Cells(place[:-1].copy(), place[1:].copy(), low, high) if sound else None


def find_heaps(y: Floats, rounding: Rounding) -> Cells | None:
    """A cell about every value of a grid that is so many steps from the last, the support being that of the value: for
    y (n,) that people round more than their grid would have it, ages to years, weights to fives. None where no such
    values stand out.

    How many steps tells most of y: of the rows, a share h lies at these values, where 1/M would if all were alike.

    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(400) < 0.8, 5 * rng.integers(1, 9, 400), rng.integers(5, 41, 400))
    >>> cells = find_heaps(1.0 * y, Rounding(step=1.0, decimals=0))
    >>> np.round(0.5 * (cells.low + cells.high), 6).tolist()
    [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]
    >>> cells.left[1:3].tolist(), cells.low[1:3].tolist()
    ([7.5, 12.5], [9.5, 14.5])
    """
    place, counts = rounding.steps_of(y)
    n, best = int(counts.sum()), (0.0, 0, 0)
    for M in range(2, min(int(place[-1] - place[0]) // 2, MAX_STEPS) + 1):
        of_rest = np.bincount(place % M, counts, M) / n
        h = float(of_rest.max())
        told = h * np.log(h * M) + ((1.0 - h) * np.log((1.0 - h) * M / (M - 1)) if h < 1.0 else 0.0)
        best = max(best, (float(told), M, int(of_rest.argmax())))
    told, M, rest = best
    if not told * n > np.log(n):
        return None
    number = (place - rest) // M
    rows = np.concatenate([[0], np.cumsum(np.bincount(number - number[0], counts * (place % M == rest)))])
    width = min(MAX_HEAPS, len(rows) - 1)
    first = number[0] + int(np.argmax(rows[width:] - rows[:-width]))  # of all runs of so many, that with most rows
    return _about((first + np.arange(width)) * M + rest, rounding)


def find_repeats(y: Floats, rounding: Rounding) -> Cells | None:
    """As `find_heaps`, about the values of a grid that come more than once, the most frequent ones: where units were
    converted, or there are few sizes.
    """
    place, counts = rounding.steps_of(y)
    often = np.sort(place[np.argsort(-counts, kind="stable")[: min(MAX_HEAPS, int((counts > 1).sum()))]])
    return _about(often, rounding)


def _about(place: Ints, rounding: Rounding) -> Cells | None:
    """The cells about these steps of a grid, limits of y left out."""
    values = rounding.at_steps(place)
    low, high = rounding.cells(values[(rounding.low < values) & (values < rounding.high)])
    if len(low) < 2:
        return None
    edges = 0.5 * (high[:-1] + low[1:])
    ends = np.concatenate([[low[0] - (edges[0] - high[0])], edges, [high[-1] + (low[-1] - edges[-1])]])
    return Cells(ends[:-1].copy(), ends[1:].copy(), low, high)


def _seen_from_places(ordered: Floats, hinted: Floats, hint: Floats) -> tuple[Rows, float]:
    """The rows from the middles between neighbouring y's, and the variance of hints of neighbours."""
    middles = 0.5 * (ordered[1:] + ordered[:-1])[np.diff(ordered) > _APART]
    place = np.concatenate([[0.0], middles, [1.0]])
    order = np.argsort(hinted, kind="stable")
    hints = hint[order] / max(float(np.abs(hint).max(initial=0.0)), np.finfo(float).tiny)  # so that no square overflows
    hints -= hints.mean() if len(hints) else 0.0
    noise = max(0.5 * float(np.mean(np.diff(hints) ** 2)), 1e-12) if len(hints) > 1 else 1.0
    count, below = np.searchsorted(ordered, place), np.searchsorted(hinted[order], place)
    count[-1], below[-1] = len(ordered), len(hints)
    first, last = ordered[np.minimum(count, len(ordered) - 1)], ordered[np.maximum(count - 1, 0)]
    sums = np.concatenate([[0.0], np.cumsum(hints)])[below]
    return Rows(place, count.astype(np.float64), below.astype(np.float64), sums, first, last), noise


def _few(n_rows: Floats) -> Ints:
    """Indices of places at quantiles of the rows; what a frequent value has on either side is among them."""
    wanted = np.linspace(0.0, n_rows[-1], N_PLACES)
    above = np.searchsorted(n_rows, wanted)
    below = np.searchsorted(n_rows, wanted, side="right") - 1
    return np.unique(np.concatenate([above, below]))


def _supports(rows: Rows, prices: Prices, edges: Ints, least: float) -> tuple[Floats, Floats, Floats]:
    """Edges and supports; the outermost edges are moved outwards, to where rows may yet come."""
    place, n = rows.place[edges], np.diff(rows.n_rows[edges])
    first, last = rows.first[edges[:-1]], rows.last[edges[1:]]
    whole, reach = np.diff(place), (last - first) * (n + 2.0) / n
    kept = n * np.log(whole / np.maximum(reach, prices.least)) > prices.support  # a support of its own
    narrow = np.maximum(reach, least)
    place = place.copy()
    place[0] -= place[1] - last[0] if kept[0] else whole[0] / n[0]
    place[-1] += first[-1] - place[-2] if kept[-1] else whole[-1] / n[-1]
    low = np.where(kept, np.maximum(0.5 * (first + last - narrow), place[:-1]), place[:-1])
    high = np.where(kept, np.minimum(0.5 * (first + last + narrow), place[1:]), place[1:])
    return place, low, high
