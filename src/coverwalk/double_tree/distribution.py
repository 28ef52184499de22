"""The predictions of a double tree with one output as a `PredictiveDistribution`."""

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.double_tree.cells import cell_masses, context_weights, finest_cells, leaves
from coverwalk._kernels.double_tree.state import MAX_X_DEPTH, Settings, State
from coverwalk.distributions.mixture import PredictiveDistribution, Shapes
from coverwalk.distributions.unit_shapes import unit_shapes
from coverwalk.double_tree.engine import DoubleTreeEngine

RESOLVED = 48  # halvings of the unit interval whose cells doubles still tell apart, in y too


def predict_dist(engine: DoubleTreeEngine, X: Floats) -> PredictiveDistribution:
    """The distribution of y for each row of X (n, p): the normals of its contexts, and all its trees together as cells.

    Rows in the same leaf share the shapes of their components. A component's label is its context, the leaf for cells.
    Cells that doubles do not tell apart are one.
    """
    X = engine._inputs(X)
    s, c, units = engine.state, engine.settings, engine.units
    path = np.empty(MAX_X_DEPTH + 1, dtype=np.int64)
    leaf = np.empty(len(X), dtype=np.int64)
    leaves(s, X, path, leaf)
    _, first, of_leaf = np.unique(leaf, return_index=True, return_inverse=True)
    code, depth = _finest_cells(s, c)
    turns, mass = code.view(np.uint64) >> np.uint64(64 - RESOLVED), np.empty(len(code))
    place = np.flatnonzero(np.diff(turns, prepend=turns[:1] + np.uint64(1)))
    left, width = turns[place] / 2.0**RESOLVED, 2.0 ** -np.minimum(depth[place], RESOLVED).astype(np.float64)
    normal, tree = np.empty(len(path)), np.empty(len(path))
    df, loc, scale = engine.normals()
    tables: list[Shapes] = []
    weights, locs, scales, labels = [], [], [], []
    for t in first:
        contexts = path[: context_weights(s, c, X, int(t), path, normal, tree) + 1]
        cell_masses(s, c, contexts, tree[: len(contexts)].copy(), code, depth, mass)
        shapes, masses = unit_shapes(left, width, np.add.reduceat(mass, place))
        tables += [Shapes.student(df[contexts]), *shapes]
        weights.append(np.concatenate([normal[: len(contexts)], masses]))
        locs.append(np.append(loc[contexts, 0], units.centre.repeat(2)))
        scales.append(np.append(scale[contexts, 0], units.scale.repeat(2)))
        labels.append(np.append(contexts, [contexts[-1]] * 2))
    of_leaves = PredictiveDistribution(
        np.cumsum([0, *map(len, weights)]),
        np.concatenate([w / w.sum() for w in weights]),
        np.concatenate(locs),
        np.concatenate(scales),
        np.arange(sum(map(len, weights))),
        Shapes.join(tables),
        context=np.concatenate(labels),
    )
    return of_leaves[of_leaf]


def _finest_cells(s: State, c: Settings) -> tuple[Ints, Ints]:
    """The cells, left to right, within which the tree of every context is flat: their turns, and their depth."""
    none = np.empty(0, np.int64)
    n = finest_cells(s, c, none, none)
    code, depth = np.empty(n, np.int64), np.empty(n, np.int64)
    finest_cells(s, c, code, depth)
    return code, depth
