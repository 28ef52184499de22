"""Fixed covers of R^p by boxes: one grid halved again and again, a choice of halvings, and shifted grids.

A box at the edge reaches to infinity, so that every x has a context at every level.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from coverwalk.base import Context, Cover, Floats, Move, as_vector
from coverwalk.files.schema import Array, Schema, Scope, Whole, require

__all__ = ["ChoiceBoxes", "DyadicBoxes", "ShiftedGrids"]


MAX_BOXES = 100_000  # that an x may be looked up in; also for a model from a file that has seen nothing


def _check_boxes(state: Any, scope: Scope) -> None:
    p, depth = scope["p"], state.depth
    require("low and high", state.low < state.high)
    n_boxes = {"ChoiceBoxes": (depth + 1) ** min(p, 20), "DyadicBoxes": depth * p * p}.get(
        scope["kind"], depth * p * getattr(state, "shifts", 1)
    )
    require("depth", p >= 1 and n_boxes <= MAX_BOXES)


_SIDES = Schema(
    low=Array(float, "p", any_unit=True),
    high=Array(float, "p", any_unit=True),
    depth=Whole(0, 1000),
    check=_check_boxes,
)


class _Boxes(Cover):
    """Boxes between ``low`` and ``high`` (each a number or a vector), halved to a depth."""

    def __init__(self, low: Any, high: Any, depth: int) -> None:
        self.low, self.high = as_vector(low, "low"), as_vector(high, "high")
        if len(self.low) != len(self.high) or not (self.low < self.high).all():
            raise ValueError(f"low must lie below high in every coordinate, got low={low!r} and high={high!r}")
        if depth < 0:
            raise ValueError(f"depth must be 0 or more, got {depth}")
        self.depth = depth

    def check(self, x: Any) -> Floats:
        """A vector of as many finite numbers as the boxes have sides."""
        return as_vector(x, "x", len(self.low))

    def _cell(self, x: Any, halvings: int, axis: int, shift: float = 0.0) -> int:
        """The index of x's interval when an axis is cut in 2^halvings, the splits shifted by a part of their width."""
        side = float(x[axis] / (self.high[axis] - self.low[axis]) - self.low[axis] / (self.high[axis] - self.low[axis]))
        cells = 2**halvings
        edge = cells - 1 if shift == 0.0 else cells  # shifted splits leave a part of a cell at either end
        return int(min(max(np.floor(side * cells + shift), 0), edge))


class DyadicBoxes(_Boxes):
    """Boxes halved at the middle, one coordinate after the other; the paper's Example 2 for p = 1.

    >>> DyadicBoxes(0, 1, depth=2).contexts([0.6])
    [[(0,)], [(1, 1)], [(2, 2)]]
    """

    nested = True
    _schema = _SIDES

    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """One box a level: its level and its index along each coordinate."""
        p = len(self.low)
        levels: list[list[Context]] = [[(0,)]]
        for k in range(1, self.depth + 1):
            halvings = [(k + p - 1 - j) // p for j in range(p)]
            levels.append([(k, *(self._cell(x, h, j) for j, h in enumerate(halvings)))])
        return levels


class ChoiceBoxes(_Boxes):
    """Boxes halved along any coordinate. The transition v of each context chooses which (as in optional Pólya trees).

    A box reached by halving first x1 and then x2, or the other way round, is the same context.

    >>> len(ChoiceBoxes([0, 0], [1, 1], depth=2).contexts([0.3, 0.8])[2])
    3
    """

    nested = True
    _schema = _SIDES

    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """All boxes with k halvings in total that hold x; a box is (halvings, index) for each coordinate."""
        p = len(self.low)
        splits = [h for h in product(range(self.depth + 1), repeat=p) if sum(h) <= self.depth]
        return [[self._box(x, h) for h in splits if sum(h) == k] for k in range(self.depth + 1)]

    def refinements(self, context: Context, x: Any, finer: Sequence[Context]) -> Sequence[Move]:
        """Halve once more: the label is the coordinate."""
        halvings = [h for h, _ in context]  # type: ignore[attr-defined]
        return [(j, self._box(x, tuple(h + (i == j) for i, h in enumerate(halvings)))) for j in range(len(halvings))]

    def _box(self, x: Any, halvings: tuple[int, ...]) -> Context:
        return tuple((h, self._cell(x, h, j)) for j, h in enumerate(halvings))


class ShiftedGrids(_Boxes):
    """Several grids per level, shifted against each other, so x is near the middle of a cell in one of them.

    The grids overlap, so this is a lattice: from a cell, the walk can move to the cell of x in any grid of the next
    level, with weights that are learned.

    >>> ShiftedGrids(0, 1, depth=1, shifts=2).contexts([0.6])
    [[(0, 0, 0)], [(1, 0, 1), (1, 1, 1)]]
    """

    _schema = Schema(check=_check_boxes, **_SIDES.fields, shifts=Whole(1, 10_000))

    def __init__(self, low: Any, high: Any, depth: int, shifts: int = 2) -> None:
        super().__init__(low, high, depth)
        if shifts < 1:
            raise ValueError(f"shifts must be 1 or more, got {shifts}")
        self.shifts = shifts

    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """``shifts`` cells a level below the first: (level, grid, index along each coordinate)."""
        p = range(len(self.low))
        levels: list[list[Context]] = [[(0, 0, *(0 for _ in p))]]
        for k in range(1, self.depth + 1):
            levels.append([(k, s, *(self._cell(x, k, j, s / self.shifts) for j in p)) for s in range(self.shifts)])
        return levels
