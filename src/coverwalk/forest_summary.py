"""What a forest is, in a few numbers: where its walks stop, who speaks there, and which inputs its cuts look at."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk.forest import FittedTree, Forest

__all__ = ["ForestSummary", "summarise"]

Floats = NDArray[np.float64]

KINDS = ("polynomial", "kernel density of residuals", "kernel density of y")


class ForestSummary(NamedTuple):
    """Facts about a forest, averaged over the rows it has learned."""

    n_rows: int
    n_trees: int
    n_contexts: int
    n_heard: int  # contexts that keep a voice
    mean_depth: float  # at which the walk stops
    max_depth: int
    voices: dict[str, float]  # share of the posterior, by kind of local model
    cuts: dict[str, float]  # share of the walk's cuts, by input
    n_bytes: int


def summarise(forest: Forest) -> ForestSummary:
    """Walk all rows through the posterior of every tree, in expectation."""
    Z = forest.inputs.forward(forest.X)
    voices, cuts, depth = np.zeros(len(KINDS)), np.zeros(len(forest.names)), 0.0
    for tree in forest.fitted:
        depth += _add_tree(tree, Z, voices, cuts) / len(forest.fitted)
    arrays = [forest.X, forest.y, *(column for tree in forest.fitted for column in (*tree.records, *tree.walks[0]))]
    arrays += [table for tree in forest.fitted for table in vars(tree.shapes).values() if isinstance(table, np.ndarray)]
    return ForestSummary(
        n_rows=len(forest.y),
        n_trees=len(forest.fitted),
        n_contexts=sum(len(tree.dim) for tree in forest.trees),
        n_heard=sum(len(tree.records.mean) for tree in forest.fitted),
        mean_depth=depth,
        max_depth=max(int(_depths(tree).max()) for tree in forest.fitted),
        voices=dict(zip(KINDS, (voices / max(voices.sum(), 1e-300)).tolist())),
        cuts=dict(zip(forest.names, (cuts / max(cuts.sum(), 1e-300)).tolist())),
        n_bytes=sum(array.nbytes for array in arrays),
    )


def _depths(tree: FittedTree) -> NDArray[np.int64]:
    """Depth of each context; parents come first."""
    left = tree.walks[0].left
    depth = np.zeros(len(left), np.int64)
    for k in np.flatnonzero(left >= 0).tolist():
        depth[left[k] : left[k] + 2] = depth[k] + 1
    return depth


def _add_tree(tree: FittedTree, Z: Floats, voices: Floats, cuts: Floats) -> float:
    """Add the weight of each kind of voice and of each input's cuts, a mean over rows; returns the mean depth of the stop."""
    walk, records = tree.walks[0], tree.records
    reach = _shares(tree, Z)
    for k in np.flatnonzero(walk.left >= 0).tolist():
        children = slice(int(walk.left[k]), int(walk.left[k]) + 2)
        go = np.exp(walk.log_go[k])
        reach[children, 1] = reach[k, 1] * go
        cuts[walk.dim[k]] += reach[k, 0] * reach[k, 1] * go
    stop = reach[:, 0] * reach[:, 1] * np.exp(walk.log_stop)
    context = np.repeat(np.arange(len(stop)), np.diff(records.first))
    voices += np.bincount(records.kind, stop[context] * np.exp(records.log_weight), minlength=len(KINDS))
    return float(stop @ _depths(tree))


def _shares(tree: FittedTree, Z: Floats) -> Floats:
    """(N, 2): the share of rows that lie in each context; and a column of ones, in which reaches are worked out."""
    walk = tree.walks[0]
    shares = np.ones((len(walk.left), 2))
    rows: dict[int, NDArray[np.int64]] = {0: np.arange(len(Z))}
    for k in range(len(walk.left)):
        mine = rows.pop(k)
        shares[k, 0] = len(mine) / max(len(Z), 1)
        if walk.left[k] >= 0:
            below = Z[mine, walk.dim[k]] <= walk.cut[k]
            rows[int(walk.left[k])], rows[int(walk.left[k]) + 1] = mine[below], mine[~below]
    return shares
