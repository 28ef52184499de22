"""A fitted forest as flat arrays that one kernel reads: what prediction needs, made with the first answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.forest.components import Records
from coverwalk._kernels.forest.flat import (
    HEAD,
    RECORD,
    count_components,
    fill_store,
    flat_components,
    route_rows,
    scale_rows,
)
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.tree import Tree
from coverwalk.preparation.scaling import Scaling

__all__ = ["Components", "FlatForest", "FlatTree"]


class FlatTree(NamedTuple):
    """One tree, as it is put into a `FlatForest`."""

    tree: Tree
    records: Records
    shape: Ints  # (R,) of each record, in the forest's table of shapes
    degree: int  # of its contexts' functions
    smooth: bool  # whether locations count from the trend
    fill: tuple[Ints, Floats]  # columns (m,) that had missing values, and their means (N, m)


class Components(NamedTuple):
    """The components of n rows, and the rows without missing values and categories."""

    offsets: Ints
    weight: Floats
    loc: Floats
    scale: Floats
    shape: Ints32
    label: Ints
    plain: Floats


class FlatForest:
    """All trees of a forest, each with the same weight in the mixture."""

    def __init__(self, trees: Sequence[FlatTree], inputs: Scaling, n_categories: tuple[int, ...]) -> None:
        p = trees[0].records.low.shape[1]
        self.inputs = inputs
        self.category = np.zeros(p)
        self.category[np.flatnonzero(n_categories)] = 1.0
        self.root = np.concatenate([[0], np.cumsum([len(tree.tree) for tree in trees])])
        at = [_places(tree, p) for tree in trees]
        places = np.concatenate([[0], np.cumsum([each[-1] for each in at])])
        self.nodes, store = np.concatenate([tree.tree.nodes for tree in trees]), np.empty(places[-1])
        total, first = np.concatenate([tree.records.total[0] for tree in trees]), np.empty(len(self.nodes), np.int64)
        for k, tree in enumerate(trees):
            own = slice(*self.root[k : k + 2])
            nodes, records, begin = self.nodes[own], tree.records, places[k] + at[k]
            nodes["left"][nodes["left"] >= 0] += self.root[k]
            above = np.where(records.above >= 0, begin[records.slot[records.above]], -1)
            first[own] = np.where(records.slot >= 0, begin[records.slot], above)
            node = np.flatnonzero(records.slot >= 0)  # slots are given in the order of nodes
            fill_store(records, tree.shape, tree.degree, (begin, above[node], node + self.root[k]), store)
        column = trees[0].fill[0]
        count_components(self.nodes, total, first, store, len(column) == 0)
        mean = np.concatenate([tree.fill[1] for tree in trees]) if len(column) else np.empty((0, 0))
        degree, smooth = np.array([tree.degree for tree in trees]), np.array([tree.smooth for tree in trees])
        n_rows = max(int(tree.records.n_rows[tree.records.rows_at >= 0].max(initial=0)) for tree in trees)
        capacity = max(int(n_features(2, p)), n_rows)
        self.arrays = self.nodes, store, self.root, degree, smooth, column, mean, capacity

    def components(self, X: Floats, n_more: int, units: tuple[float, ...], trend: Trend | None) -> Components:
        """The components in rows X (n, p), with room for some more at the end of each row; units: see the kernel."""
        X = np.ascontiguousarray(X)  # one kernel for all layouts
        n, p = X.shape
        Z, plain = np.empty((n, p)), np.empty((n, p))
        if not scale_rows(X, self.inputs.centre, self.inputs.scale, self.category, Z, plain):
            Z = self.inputs.forward(X)
            Z[:, self.category > 0] = X[:, self.category > 0]
            plain = np.where(np.isnan(Z) | (self.category > 0), 0.0, Z)
        leaf, offsets = np.empty((len(self.root) - 1, n), np.int64), np.empty(n + 1, np.int64)
        route_rows(Z, self.nodes, self.root, 1 + n_more, leaf, offsets)
        m = int(offsets[-1])
        out = np.empty(m), np.empty(m), np.empty(m), np.empty(m, np.int32), np.empty(m, np.int64)
        origin = trend.value(plain) if trend else np.empty(n)
        at = offsets[:-1].copy()
        flat_components((Z, plain, leaf, origin), self.arrays, units, at, out)
        return Components(offsets, *out, plain)


def _places(tree: FlatTree, p: int) -> Ints:
    """Where each context begins in its tree's part of the store, and where that ends; (C + 1,)."""
    records = tree.records
    size = np.array([n_features(g, p) for g in range(3)])[records.degree]
    in_rows = records.rows_at >= 0
    size = np.where(in_rows, records.n_rows, size)
    told = np.where(records.leverage < 0, size * (size + 1) // 2 + np.where(in_rows, size * p, 0), 0)
    head = HEAD + RECORD * np.diff(records.first)[records.slot >= 0] + 2 * p + n_features(tree.degree, p) + 2
    return np.concatenate([[0], np.cumsum(head + told)])
