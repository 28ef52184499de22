"""One random dyadic cover of R^q and the optional Polya tree over it: stop, or halve a cell along some axis."""

from dataclasses import dataclass
from math import comb
from typing import Annotated, Any

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.distributions.real_line import CORE, log_slope
from coverwalk._kernels.forest.dyadic_cells import AXIS, BITS, CHILD, HALVINGS, Cells, from_places, grow_cells, places
from coverwalk._kernels.forest.dyadic_walk import WeighedCells, boxes, cell_density, slice_cells, weigh_cells
from coverwalk.files.schema import Array, Limits, Scope, require, stored
from coverwalk.preparation.scaling import Scaling

MAX_HALVINGS = 40  # of an axis
_MARGIN = 0.5  # on either side the cells reach beyond the range by up to this part of it, at random
_CELLS_PER_ROW = 16  # shapes of cells in the widest level of the lattice, at most
_CELLS = 1_000_000  # and these times the rows

_MOVE = {
    AXIS: Limits(index="q"),
    HALVINGS: Limits(low=0, below=BITS - 1),
    CHILD: Limits(index="N", none=True),
    CHILD + 1: Limits(index="N", none=True),
}


@stored(read_first=("height", "move"), check=lambda state, scope: _check_cells(state, scope))
@dataclass(frozen=True)
class CellTree:
    """The predictive density of one tree: heights of cells, in units of its own."""

    # (q,) z = (y - loc) / scale, and u = F(z) of `real_line` is halved
    loc: Annotated[Floats, Array(float, "q", any_unit=True)]
    scale: Annotated[Floats, Array(float, "q", above=0, any_unit=True)]  # (q,)
    first: Annotated[Ints, Array(np.int64, "N + 1", offsets="M")]
    move: Annotated[Ints, Array(np.int64, "M", 4, columns=_MOVE)]
    height: Annotated[Floats, Array(float, "N", low=0)]
    edge: Annotated[Floats, Array(float, "M", 2, low=0)]

    @property
    def units(self) -> Scaling:
        """Of this tree's cells."""
        return Scaling(self.loc, self.scale, squash=False)

    @property
    def weighed(self) -> WeighedCells:
        """What the kernels read; docs in `dyadic_walk`."""
        return self.first, self.move, self.height, self.edge

    def logpdf(self, Y: Floats) -> Floats:
        """Log densities (n,) of points Y (n, q)."""
        codes, slope = self._places(Y)
        density = np.empty(len(Y))
        cell_density(codes, self.weighed, density)
        return np.asarray(np.log(density) + slope - np.log(self.scale).sum())

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws (n, q): a cell by its probability, then uniform in it."""
        low, width, mass = self.pieces()
        chosen = rng.choice(len(mass), size=n, p=mass / mass.sum())
        u = low[chosen] + width[chosen] * rng.random((n, len(self.loc)))
        u = np.clip(u, 2.0**-54, 1.0 - 2.0**-53)  # a generator gives 0 too, whose quantile would be -inf
        z = np.empty_like(u)
        from_places(u, z)
        return self.units.backward(z)

    def pieces(self) -> tuple[Floats, Floats, Floats]:
        """The boxes on which the density is uniform, which overlap: lower corner and width (m, q), and mass (m,)."""
        low, width = boxes_of(self.weighed, len(self.loc))
        heights = np.concatenate([self.height, self.edge.ravel()])
        has_weight = heights > 0.0
        return low[has_weight], width[has_weight], heights[has_weight] * width[has_weight].prod(axis=1)

    def slice(self, y: Floats, known: Bools, target: int) -> tuple[Floats, Floats, float]:
        """The joint density of the known axes of y (q,) and of one more, along the latter, all others integrated out.

        Edges (m + 1,) in (0, 1), heights (m,) in u, and the log density of the map at the known axes.
        """
        codes, slope = self._places(np.where(known, y, self.loc)[None, :])
        low, high, density = np.empty(256, np.int64), np.empty(256, np.int64), np.empty(256)
        n = slice_cells(codes[0], known, target, self.weighed, low, high, density)
        if n > len(low):
            low, high, density = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
            slice_cells(codes[0], known, target, self.weighed, low, high, density)
        low, high, density = low[:n], high[:n], density[:n]
        ends = np.unique(np.concatenate([low, high, [1 << (BITS - 3), 7 << (BITS - 3)]]))  # and those of the core
        steps = np.zeros(len(ends))
        np.add.at(steps, np.searchsorted(ends, low), density)
        np.subtract.at(steps, np.searchsorted(ends, high), density)
        heights = np.maximum(np.cumsum(steps)[:-1], 0.0)
        return ends / 2.0**BITS, heights, float(slope[0] - (~known).sum() * log_slope(0.0))

    def _places(self, Y: Floats) -> tuple[Ints, Floats]:
        codes, slope = np.empty(Y.shape, np.int64), np.empty(len(Y))
        places(self.units.forward(Y), codes, slope)
        return codes, slope


def _check_cells(state: Any, scope: Scope) -> None:
    """Each cell but the first is half of one before it; a move knows how often its axis was halved; mass is one."""
    N, move = scope["N"], state.move
    require("cells", N >= 1)
    cell = np.repeat(np.arange(N), np.diff(state.first))  # that each move divides
    children = move[:, CHILD : CHILD + 2]
    require("cells", (children == -1) | (children > cell[:, None]))
    require("cells", np.array_equal(np.sort(children[children >= 0]), np.arange(1, N)))
    splits, seen = np.zeros((N, scope["q"]), np.int64), cell == 0
    while seen.any():
        axis, below = move[seen, AXIS], children[seen]
        require("halvings", move[seen, HALVINGS] == splits[cell[seen], axis])
        new = np.zeros(N, bool)
        for side in range(2):
            some = below[:, side] >= 0
            child = below[some, side]
            splits[child] = splits[cell[seen][some]]
            splits[child, axis[some]] += 1
            new[child] = True
        seen = new[cell]
    require("mass", abs(CellTree(**vars(state)).pieces()[2].sum() - 1.0) < 1e-6)


def random_units(base: Scaling, rng: np.random.Generator) -> Scaling:
    """Units whose cells lie elsewhere: the core reaches beyond that of ``base`` by random margins."""
    below, above = 1.0 + _MARGIN * rng.random((2, len(base.scale)))
    centre = base.centre + 0.5 * CORE * base.scale * (above - below)
    return Scaling(centre, base.scale * 0.5 * (above + below), squash=False)


def levels_of_choice(n: int, q: int) -> int:
    """Halvings for which the lattice of cells is kept: as many as keep its widest level within bounds."""
    widest = max(min(_CELLS_PER_ROW, _CELLS // max(n, 1)), min(q, 2 * _CELLS_PER_ROW))
    levels = 0
    while q > 1 and comb(levels + q, q - 1) <= widest:
        levels += 1
    return levels


def grown_cells(codes: Ints, most: Ints, levels: int) -> Cells:
    """The cells of points codes (n, q), split at most most (q,) times along each axis; see `dyadic_cells`."""
    n, q = codes.shape
    widest = comb(levels + q - 1, q - 1)
    sizes = np.array([2 * n * (widest + 1), 2 * n * (widest + q), 0])  # nearly always enough; memory only where used
    while True:
        n_cells, n_moves = int(sizes[0]), int(sizes[1])
        cells = np.empty(n_cells + 1, np.int64), np.empty((n_moves, 6), np.int64)
        grow_cells(codes, most, levels, cells, sizes)
        if sizes[0] <= n_cells and sizes[1] <= n_moves:
            return cells[0][: sizes[0] + 1], cells[1][: sizes[1]]


def weighed_cells(cells: Cells, stop: float, a: float, faint: float) -> tuple[float, WeighedCells]:
    """Log evidence of the cells, and their predictive density without moves less probable than ``faint``."""
    N, M, sizes = len(cells[0]) - 1, len(cells[1]), np.zeros(2, np.int64)
    first, move, height, edge = np.empty(N + 1, np.int64), np.empty((M, 4), np.int64), np.empty(N), np.empty((M, 2))
    log_Z = weigh_cells(cells, stop, a, faint, (first, move, height, edge), sizes)
    n, m = sizes.tolist()
    return float(log_Z), (first[: n + 1].copy(), move[:m].copy(), height[:n].copy(), edge[:m].copy())


def boxes_of(weighed: WeighedCells, q: int) -> tuple[Floats, Floats]:
    """Lower corner and width (N + 2 M, q) in (0, 1)^q of all cells, then of the halves of all moves."""
    shape = (len(weighed[2]) + 2 * len(weighed[1]), q)
    low, width = np.zeros(shape), np.ones(shape)
    boxes(weighed, low, width)
    return low, width


def grow_cell_tree(Y: Floats, units: Scaling, step: Floats, stop: float, a: float, faint: float = 1e-6) -> CellTree:
    """Grow and weigh the cells of rows Y (n, q).

    Parameters
    ----------
    Y : (n, q) array
        The rows.
    units : Scaling
        In which the cells are dyadic.
    step : (q,) array
        Cells of the core are not made narrower than this, in units of y.
    stop, a : float
        Prior probability that a cell is uniform; prior points of each half.
    faint : float
        A halving less probable than this is left out, and its cell uniform instead.
    """
    n, q = Y.shape
    with np.errstate(divide="ignore"):
        narrowest = np.log2(8.0 * CORE / 3.0 * units.scale / step)  # the core has 3/4 of (0, 1)
    most = np.clip(np.floor(narrowest), 0, MAX_HALVINGS).astype(np.int64)
    codes, slope = np.empty((n, q), np.int64), np.empty(n)
    places(units.forward(Y), codes, slope)
    cells = grown_cells(codes, most, levels_of_choice(n, q))
    return CellTree(units.centre, units.scale, *weighed_cells(cells, stop, a, faint)[1])
