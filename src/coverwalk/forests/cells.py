"""Cells of y between which its density makes steps: found in y's own values, and in what was predicted for them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.steps import Prices, Rows, best_edges, move_edges

__all__ = ["MOST_CELLS", "Cells", "find_cells"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_PLACES = 256  # at which edges are looked for first
MOST_CELLS = 64
LEAST_WIDTH = 1e-4  # of a cell's support, in standard deviations of y: an atom of y is so wide
_APART = 1e-9  # of the range of y: places nearer to each other are one


class Cells(NamedTuple):
    """C cells from left to right, sorted, and the support of each: where it has its rows."""

    left: Floats  # (C,)
    right: Floats
    low: Floats  # of the support, within the cell
    high: Floats

    @property
    def narrow(self) -> NDArray[np.bool_]:
        """Which have a support of their own: atoms of y, and what lies between gaps."""
        return np.asarray((self.low > self.left) | (self.high < self.right))

    def some(self, which: NDArray[np.bool_]) -> "Cells":
        """Some of the cells."""
        return Cells(*(column[which] for column in self))


def find_cells(y: Floats, hinted: Floats, hint: Floats) -> Cells | None:
    """The best cells of y (n,); None where there are too many.

    A cell tells the density of its rows, uniform over its support; and it tells by their mean the hints of those of
    its rows that have one: what was predicted for them without knowing their y, hint (m,) at y's hinted (m,). Where x
    has to do with the cell of y and not with the place in it, both are constant in a cell. A cell costs log n for the
    place of its edge, as BIC has it half of that for each of the two numbers, and log n for either end of its support
    where that is not all between the edges.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice([0.0, 1.0, 5.0], 500) + rng.uniform(size=500)
    >>> cells = find_cells(y, y[:0], y[:0])  # no hints
    >>> cells.right.round(1).tolist(), cells.low.round(1).tolist(), cells.high.round(1).tolist()
    ([3.5, 7.5], [-0.0, 5.0], [2.0, 6.0])
    """
    start, end = float(y.min()), float(y.max())
    if not 0.0 < end - start < np.inf:
        return None
    ordered = np.sort((y - start) / (end - start))
    rows, noise = _seen_from_places(ordered, (hinted - start) / (end - start), hint)
    log_n = float(np.log(len(y)))
    prices = Prices(2.0 * log_n, 2.0 * log_n, max(LEAST_WIDTH * float(ordered.std()), _APART), noise)
    G = len(rows.place)
    few = np.unique(np.linspace(0, G - 1, min(N_PLACES, G)).round().astype(np.int64))
    edges = few[best_edges(Rows(*(column[few] for column in rows)), prices)]
    if len(edges) > MOST_CELLS + 1:
        return None
    for _ in range(2):
        move_edges(rows, prices, edges, G // len(few) + 1)
    place, low, high = (start + (end - start) * places for places in _supports(rows, prices, edges))
    sound = np.all(np.isfinite(place)) and np.all(np.diff(place) > 0.0) and np.all(high > low)
    return Cells(place[:-1].copy(), place[1:].copy(), low, high) if sound else None


def _seen_from_places(ordered: Floats, hinted: Floats, hint: Floats) -> tuple[Rows, float]:
    """The rows from the middles between neighbouring y's, and the variance of hints of neighbours."""
    middles = 0.5 * (ordered[1:] + ordered[:-1])[np.diff(ordered) > _APART]
    place = np.concatenate([[0.0], middles, [1.0]])
    order = np.argsort(hinted, kind="stable")
    told = hint[order] - hint.mean() if len(hint) else hint
    noise = 0.5 * float(np.mean(np.diff(told) ** 2)) if len(told) > 1 else 1.0
    noise = max(noise, 1e-12 * float(np.mean(told**2)) if len(told) else 0.0, np.finfo(float).tiny)
    count, below = np.searchsorted(ordered, place), np.searchsorted(hinted[order], place)
    count[-1], below[-1] = len(ordered), len(told)
    first, last = ordered[np.minimum(count, len(ordered) - 1)], ordered[np.maximum(count - 1, 0)]
    sums = np.concatenate([[0.0], np.cumsum(told)])[below]
    return Rows(place, count.astype(np.float64), below.astype(np.float64), sums, first, last), noise


def _supports(rows: Rows, prices: Prices, edges: Ints) -> tuple[Floats, Floats, Floats]:
    """Edges and supports; the outermost edges are moved outwards, by what rows have told too little of."""
    place, n = rows.place[edges], np.diff(rows.n_rows[edges])
    first, last = rows.first[edges[:-1]], rows.last[edges[1:]]
    whole, narrow = np.diff(place), np.maximum((last - first) * (n + 2.0) / n, prices.least)
    kept = n * np.log(whole / narrow) > prices.support  # a support of its own
    place = place.copy()
    place[0] -= place[1] - last[0] if kept[0] else whole[0] / n[0]
    place[-1] += first[-1] - place[-2] if kept[-1] else whole[-1] / n[-1]
    low = np.where(kept, np.maximum(0.5 * (first + last - narrow), place[:-1]), place[:-1])
    high = np.where(kept, np.minimum(0.5 * (first + last + narrow), place[1:]), place[1:])
    return place, low, high
