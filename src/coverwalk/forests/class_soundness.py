"""What must hold of a forest for classes that came from a file, before kernels that check nothing may read it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from coverwalk._kernels.class_grow import depth
from coverwalk._kernels.cut import MOST_LEVELS
from coverwalk._sound import check_array, check_with_nan, hold, is_real, is_whole
from coverwalk.covers.classes import ClassTree, Planting
from coverwalk.forests.pooling import Unseen

if TYPE_CHECKING:
    from coverwalk.forests.class_forest import ClassForest

__all__ = ["check_class_forest", "check_rows"]

_ROUNDING = 1e-6


def check_class_forest(forest: "ClassForest", p: int, n_classes: int) -> None:
    """Raise ValueError for a forest of p inputs that no fit has made."""
    for name in ("size", "mean", "deviation"):
        check_array(name, getattr(forest.standard, name), (p,))
    hold("scales", (forest.standard.size > 0) & (forest.standard.deviation > 0))
    indicators, shares = forest.standard.indicators, forest.standard.shares
    check_array("indicators", indicators, (len(shares), 2), np.int64)
    check_array("shares", shares, (len(shares),))
    hold("indicators", (indicators[:, 0] >= 0) & (indicators[:, 0] < p) & (shares > 0) & (shares < 1))
    hold("n_classes", is_whole(forest.n_classes) and forest.n_classes == n_classes)
    hold("trees", isinstance(forest.kinds, list) and 1 <= len(forest.kinds) <= 2)
    for kind in forest.kinds:
        hold("trees", isinstance(kind, tuple) and len(kind) == 2)
        planting, trees = kind
        hold("trees", isinstance(planting, Planting) and isinstance(trees, list) and len(trees) >= 1)
        _check_planting(planting, p)
        for tree in trees:
            hold("trees", isinstance(tree, ClassTree))
            _check_tree(tree, planting, p)
            _check_local(tree, p + len(shares), n_classes)
            _check_walk(tree, planting)
    hold("pools", isinstance(forest.unseen, Unseen))
    _check_unseen(forest.unseen, 2 * len(forest.kinds), n_classes)


def check_rows(X: Any, y: Any, weight: Any, p: int, n_classes: int) -> None:
    """Raise ValueError unless these are rows that a classifier keeps."""
    n = len(y)
    check_with_nan("rows", X, (n, p))
    check_array("classes of rows", y, (n,), np.int64)
    hold("classes of rows", (y >= 0) & (y < n_classes))
    check_array("weights of rows", weight, (n,))
    hold("weights of rows", weight >= 0)


def _check_planting(planting: Planting, p: int) -> None:
    counts = planting.n_levels
    hold("levels", isinstance(counts, tuple) and len(counts) in (0, p))
    hold("levels", all(is_whole(count, 0, MOST_LEVELS) for count in counts))
    hold("planting", isinstance(planting.discriminants, bool))
    hold("planting", is_whole(planting.min_rows, 1) and is_real(planting.stop) and 0 < planting.stop < 1)
    hold("planting", isinstance(planting.alpha, float | int) and is_real(planting.alpha) and planting.alpha > 0)
    hold("planting", isinstance(planting.heats, tuple) and len(planting.heats) >= 1)
    hold("planting", all(isinstance(heat, float) and is_real(heat) and heat > 0 for heat in planting.heats))


def _check_tree(planted: ClassTree, planting: Planting, p: int) -> None:
    """Parents stand before their children, so that every descent ends; the longest is as long as it says."""
    axis, cut, left, levels = planted.tree
    N = len(left)
    for name, links in (("axis", axis), ("left", left), ("levels", levels)):
        check_array(name, links, (N,), np.int64)
    check_with_nan("cut", cut, (N,))
    inner = np.flatnonzero(left != -1)
    child = left[inner]
    hold("left", N >= 1)
    hold("left", (child > inner) & (child + 1 < N))
    hold("left", np.array_equal(np.sort(np.concatenate([child, child + 1])), np.arange(1, N)))
    hold("axis", (axis[inner] >= 0) & (axis[inner] < p))
    counts = np.array(planting.n_levels or (0,) * p)
    hold("cut", np.isnan(cut[inner]) == (counts[axis[inner]] > 0))
    hold("levels", is_whole(planted.levels) and planted.levels == depth(left))


def _check_local(planted: ClassTree, p: int, n_classes: int) -> None:
    counts, shared, own, shared_factors, own_factors, columns = planted.local
    N, width = len(planted.tree[2]), len(columns)
    check_array("counts", counts, (N, n_classes))
    hold("counts", counts >= 0)
    check_array("columns", columns, (width,), np.int64)
    hold("columns", (columns >= 0) & (columns < p))
    for place, factors, m in ((shared, shared_factors, 1), (own, own_factors, n_classes)):
        hold("factors", isinstance(factors, tuple) and len(factors) == 5)
        U, centre, head, gain, power = factors
        G = len(U)
        check_array("places", place, (N,), np.int64)
        hold("places", (place >= -1) & (place < G))
        check_array("factors", U, (G, m, width, width))
        hold("factors", np.diagonal(U, axis1=2, axis2=3) > 0)
        check_array("centres", centre, (G, n_classes, width))
        for name, array in (("head", head), ("gain", gain), ("power", power)):
            check_array(name, array, (G, n_classes))
        hold("gain", (gain > 0) & (gain <= 1))
        hold("power", power > 0)


def _check_walk(planted: ClassTree, planting: Planting) -> None:
    """Weights sum to one; a local model that is not there has none; a leaf stops."""
    log_v, log_w, log_1mw = planted.walk
    N, T = len(planted.tree[2]), len(planting.heats)
    for name, array, shape in (("v", log_v, (N, 1 + 2 * T)), ("w", log_w, (N,)), ("1 - w", log_1mw, (N,))):
        check_array(name, array, shape, finite=False)
        hold(name, array <= _ROUNDING)
    hold("v", np.abs(np.exp(log_v).sum(axis=1) - 1.0) < _ROUNDING)
    hold("w", np.abs(np.exp(log_w) + np.exp(log_1mw) - 1.0) < _ROUNDING)
    missing = np.repeat(np.stack([planted.local[1] < 0, planted.local[2] < 0], axis=1), T, axis=1)
    hold("v", np.isneginf(log_v[:, 1:]) | ~missing)
    leaf = planted.tree[2] < 0
    hold("w", np.isneginf(log_1mw) == leaf)


def _check_unseen(unseen: Unseen, n_pools: int, n_classes: int) -> None:
    for name in ("prior", "powers"):
        check_array(name, getattr(unseen, name), (n_pools,))
        hold(name, getattr(unseen, name) >= 0)
    hold("pools", is_whole(unseen._fitted, 0) and isinstance(unseen._parts, list))
    for log_pools, y, weight in unseen._parts:
        check_array("pools", log_pools, (len(y), n_classes, n_pools))
        hold("pools", log_pools <= _ROUNDING)
        check_rows(np.empty((len(y), 0)), y, weight, 0, n_classes)
