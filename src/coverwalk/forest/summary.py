"""What a forest is, in a few numbers: where its walks stop, which local models predict, which inputs its splits use."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import FittedTree
from coverwalk.forest.settings import Settings
from coverwalk.forest.tree import Tree

KINDS = ("polynomial", "kernel density of residuals", "kernel density of y")


class ForestSummary(NamedTuple):
    """Facts about a forest, averaged over the rows it has learned."""

    n_rows: int
    n_trees: int
    n_contexts: int
    n_nonzero: int  # contexts that keep a component
    mean_depth: float  # at which the walk stops
    max_depth: int
    components: dict[str, float]  # share of the posterior, by kind of local model
    splits: dict[str, float]  # share of the walk's splits, by input
    n_bytes: int
    rounding: str = ""  # of y, in words
    outliers: str = ""  # of y, in words
    unused: tuple[str, ...] = ()  # inputs that are left out


def summarise(forest: Forest) -> ForestSummary:
    """Walk all rows through the posterior of every tree, in expectation."""
    Z = forest.frame.rows(forest.X).Z
    components, splits, depth, deepest = np.zeros(len(KINDS)), np.zeros(len(forest.names)), 0.0, 0
    for tree, fitted in zip(forest.trees, forest.fitted):
        depth += _add_tree(tree, fitted, Z, components, splits) / len(forest.fitted)
        deepest = max(deepest, int(tree.depth.max()))
    return ForestSummary(
        n_rows=forest.n_rows,
        n_trees=len(forest.fitted),
        n_contexts=sum(len(tree) for tree in forest.trees),
        n_nonzero=sum(len(tree.records.mean) for tree in forest.fitted),
        mean_depth=depth,
        max_depth=deepest,
        components=_shares_of_kinds(forest, components),
        splits=dict(zip(forest.names, (splits / (splits.sum() or 1.0)).tolist())),
        n_bytes=_n_bytes(forest),
        rounding=str(forest.settings.rounding or ""),
        outliers=_told_outliers(forest.settings),
        unused=tuple(forest.names[a] for a in forest.settings.unused),
    )


def _told_outliers(settings: Settings) -> str:
    if settings.outliers is None:
        return ""
    low, high, weight = settings.outliers
    low, high = (settings.rounding.unrounded([low, high]) if settings.rounding else np.array([low, high])).tolist()
    return f"{100 * weight:.2g} % of the rows, below {low:.4g} or above {high:.4g}"


def _shares_of_kinds(forest: Forest, components: Floats) -> dict[str, float]:
    """Of the trees' local models, and of the experts beside them: the global kernel and the cells of y."""
    kernel, y_cells = forest.settings.kernel if forest.global_kernel else 0.0, forest.settings.y_cells
    share = y_cells.weight if y_cells else 0.0  # at most: of what lies in the cells
    shares = dict(zip(KINDS, ((1.0 - share) * (1.0 - kernel) * components / components.sum()).tolist()))
    shares |= {"kernel density of y given x": (1.0 - share) * kernel} if forest.global_kernel else {}
    return shares | ({"cells of y common to all x": share} if y_cells else {})


def _n_bytes(forest: Forest) -> int:
    arrays: list[NDArray[Any]] = [forest.X, forest.y, *(tree.nodes for tree in forest.trees)]
    if forest.trend:
        arrays += [forest.trend.turns, forest.trend.phase, forest.trend.coefficients]
        arrays += [forest.trend.curves.knots, forest.trend.curves.heights]
    for tree in forest.fitted:
        arrays += [*tree.records, tree.shape, *tree.shapes.__getstate__().values()]
    if forest.global_kernel is not None:
        arrays += [*forest.global_kernel.shapes.__getstate__().values()]
    return sum(array.nbytes for array in arrays)


def _add_tree(tree: Tree, fitted: FittedTree, Z: Floats, components: Floats, splits: Floats) -> float:
    """Add the weight of each kind of component and of each input's splits, means over rows; returns the mean depth."""
    records = fitted.records
    share = _shares(tree, Z)
    context = np.repeat(np.arange(len(share)), np.diff(records.first))
    nonzero = share[context] * records.weight[0]
    components += np.bincount(records.kind, nonzero, minlength=len(KINDS))
    inner = tree.left >= 0
    # a walk that has not stopped on the way to a context, nor in it, meets its split
    stopped = tree.summed_downwards(np.bincount(context, records.weight[0], len(tree)))
    meets = share[inner] * np.maximum(1.0 - stopped[inner], 0.0)
    splits += np.bincount(tree.feature[inner], meets, minlength=len(splits))
    return float(nonzero @ tree.depth[context] / nonzero.sum())


def _shares(tree: Tree, Z: Floats) -> Floats:
    """The share of rows that lie in each context, (N,): of the leaves, then summed upwards."""
    share = np.bincount(tree.leaves(Z), minlength=len(tree))[:, None] / max(len(Z), 1)
    return tree.sum_upwards(share)[:, 0]
