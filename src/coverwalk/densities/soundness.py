"""What must hold of a density that came from a file, before kernels that check nothing may read it."""

import numpy as np

from coverwalk._kernels.dyadic_sound import cells_are_sound
from coverwalk._sound import check_array, hold, is_real
from coverwalk.densities.cell_tree import CellTree
from coverwalk.densities.density_forest import DensityForest
from coverwalk.densities.normal_tree import Normals

__all__ = ["check_density"]

_ROUNDING = 1e-6


def check_density(forest: DensityForest, q: int) -> None:
    """Raise ValueError for a density of q columns that no fit has made."""
    hold("the forest", isinstance(forest, DensityForest) and isinstance(forest.cells, list) and len(forest.cells) >= 1)
    for tree in forest.cells:
        hold("cells", isinstance(tree, CellTree))
        _check_cells(tree, q)
    hold("normals", isinstance(forest.normals, Normals))
    _check_normals(forest.normals, q)
    check_array("shares", forest.shares, (2,))
    hold("shares", (forest.shares > 0) & (abs(forest.shares.sum() - 1.0) < _ROUNDING))
    check_array("kinds", forest.kinds, (len(forest.kinds),))
    hold("kinds", (forest.kinds >= 0) & (len(forest.kinds) >= 2))


def _check_units(tree: CellTree | Normals, q: int) -> None:
    check_array("loc", tree.loc, (q,))
    check_array("scale", tree.scale, (q,))
    hold("scale", tree.scale > 0)
    hold("evidence", is_real(tree.log_evidence))


def _check_cells(tree: CellTree, q: int) -> None:
    _check_units(tree, q)
    N, M = len(tree.height), len(tree.move)
    hold("cells", N >= 1)
    check_array("first", tree.first, (N + 1,), np.int64)
    hold("first", (tree.first >= 0) & (tree.first <= M))
    hold("first", tree.first[0] == 0 and tree.first[-1] == M)
    check_array("moves", tree.move, (M, 4), np.int64)
    hold("moves", cells_are_sound(tree.first, tree.move, q))
    check_array("heights", tree.height, (N,))
    check_array("edges", tree.edge, (M, 2))
    hold("heights", tree.height >= 0)
    hold("edges", tree.edge >= 0)
    hold("mass", abs(tree.pieces()[2].sum() - 1.0) < _ROUNDING)


def _check_normals(normals: Normals, q: int) -> None:
    _check_units(normals, q)
    V = len(normals.df)
    check_array("weight", normals.weight, (V,))
    hold("weight", (normals.weight > 0) & (abs(normals.weight.sum() - 1.0) < _ROUNDING))
    check_array("df", normals.df, (V,))
    hold("df", normals.df > 0)
    check_array("mean", normals.mean, (V, q))
    check_array("factor", normals.factor, (V, q * (q + 1) // 2))
    diagonal = np.cumsum(np.r_[0, np.arange(q, 1, -1)]).astype(np.int64)
    hold("factor", normals.factor[:, diagonal] > 0)
