"""What must hold of a density forest that came from a file, before kernels that check nothing may read it."""

from typing import TYPE_CHECKING

import numpy as np

from coverwalk._kernels.dyadic_cells import AXIS, BITS, CHILD, HALVINGS
from coverwalk._sound import check_array, hold, is_real
from coverwalk.densities.cell_tree import CellTree
from coverwalk.densities.normal_tree import Normals

if TYPE_CHECKING:
    from coverwalk.densities.density_forest import DensityForest

__all__ = ["check_density_forest"]

_ROUNDING = 1e-6


def check_density_forest(forest: "DensityForest", q: int) -> None:
    """Raise ValueError for a forest of q columns that no fit has made."""
    hold("trees", isinstance(forest.cells, list) and len(forest.cells) >= 1)
    check_array("shares", forest.shares, (2,))
    hold("shares", (forest.shares > 0) & (abs(forest.shares.sum() - 1.0) < _ROUNDING))
    check_array("kinds", forest.kinds, (len(forest.kinds),))
    hold("normals", isinstance(forest.normals, Normals))
    _check_normals(forest.normals, q)
    for tree in forest.cells:
        hold("trees", isinstance(tree, CellTree))
        _check_units(tree, q)
        _check_cells(tree, q)


def _check_units(part: CellTree | Normals, q: int) -> None:
    check_array("loc", part.loc, (q,))
    check_array("scale", part.scale, (q,))
    hold("scale", part.scale > 0)
    hold("evidence", is_real(part.log_evidence))


def _check_normals(normals: Normals, q: int) -> None:
    _check_units(normals, q)
    V = len(normals.weight)
    check_array("weights", normals.weight, (V,))
    hold("weights", (normals.weight >= 0) & (abs(normals.weight.sum() - 1.0) < _ROUNDING))
    check_array("degrees of freedom", normals.df, (V,))
    hold("degrees of freedom", normals.df > 0)
    check_array("means", normals.mean, (V, q))
    check_array("factors", normals.factor, (V, q * (q + 1) // 2))
    pivots = np.cumsum(np.r_[0, np.arange(q, 1, -1)]).astype(np.int64)
    hold("factors", normals.factor[:, pivots] > 0)


def _check_cells(tree: CellTree, q: int) -> None:
    """Parents stand before their children and a cell has one parent at most, so that every walk ends."""
    N, M = len(tree.height), len(tree.edge)
    check_array("first", tree.first, (N + 1,), np.int64)
    hold("first", N >= 1 and tree.first[0] == 0 and tree.first[-1] == M)
    hold("first", (tree.first[1:] >= tree.first[:-1]) & (tree.first[1:] <= M))
    check_array("moves", tree.move, (M, 4), np.int64)
    hold("moves", (tree.move[:, AXIS] >= 0) & (tree.move[:, AXIS] < q))
    hold("moves", (tree.move[:, HALVINGS] >= 0) & (tree.move[:, HALVINGS] < BITS))
    child = tree.move[:, CHILD:]
    owner = np.repeat(np.arange(N), np.diff(tree.first))[:, None]
    hold("moves", (child == -1) | ((child > owner) & (child < N)))
    hold("moves", np.array_equal(np.sort(child[child >= 0]), np.arange(1, N)))
    check_array("heights", tree.height, (N,))
    check_array("heights", tree.edge, (M, 2))
    hold("heights", (tree.height >= 0).all() and (tree.edge >= 0).all())
    hold("heights", abs(tree.pieces()[2].sum() - 1.0) < _ROUNDING)
