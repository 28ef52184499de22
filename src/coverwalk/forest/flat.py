"""A fitted forest as flat arrays that one kernel reads: what prediction needs, made with the first answer."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.forest.components import Records
from coverwalk._kernels.forest.flat import (
    CONTEXT,
    END,
    RECORD,
    count_components,
    fill_store,
    flat_components,
    route_rows,
    scale_rows,
)
from coverwalk._kernels.forest.node import NODE
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.tree import Tree
from coverwalk.preparation.scaling import Scaling

__all__ = ["Components", "FlatForest", "FlatTree"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    shape: NDArray[np.int32]
    label: Ints
    plain: Floats


class FlatForest:
    """All trees of a forest, each with the same weight in the mixture."""

    def __init__(self, trees: Sequence[FlatTree], inputs: Scaling, n_categories: tuple[int, ...]) -> None:
        p = trees[0].records.low.shape[1]
        self.inputs = inputs
        self.category = np.zeros(p)
        self.category[np.flatnonzero(n_categories)] = 1.0
        sizes = [[len(tree.tree), len(tree.records.mean), len(tree.records.kind)] for tree in trees]
        begins = np.concatenate([[[0, 0, 0]], np.cumsum(sizes, axis=0)])
        at = [_places(tree, p) for tree in trees]
        places = np.concatenate([[0], np.cumsum([each[-1] for each in at])])
        nodes, contexts, records = (np.zeros(n, dtype) for n, dtype in zip(begins[-1], (NODE, CONTEXT, RECORD)))
        ends, store = np.zeros(len(nodes), END), np.empty(places[-1])
        for k, tree in enumerate(trees):
            slices = [slice(*begins[k : k + 2, j]) for j in range(3)]
            _put_nodes(nodes[slices[0]], ends[slices[0]], tree, begins[k])
            _put_contexts(contexts[slices[1]], tree, begins[k], places[k] + at[k][:-1])
            _put_records(records[slices[2]], tree)
            fill_store(tree.records, tree.degree, places[k] + at[k][:-1], store)
        column = trees[0].fill[0]
        count_components(nodes, ends, contexts, records, len(column) == 0)
        mean = np.concatenate([tree.fill[1] for tree in trees]) if len(column) else np.empty((0, 0))
        smooth = np.array([tree.smooth for tree in trees])
        capacity = max(int(n_features(2, p)), int(contexts["n_rows"].max(initial=0)))
        self.root, self.nodes, self.ends = begins[:, 0].copy(), nodes, ends
        self.arrays = ends, contexts, records, store, self.root, smooth, column, mean, capacity

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
        route_rows(Z, self.nodes, self.ends, self.root, 1 + n_more, leaf, offsets)
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
    return np.concatenate([[0], np.cumsum(2 * p + n_features(tree.degree, p) + 2 + told)])


def _put_nodes(nodes: Any, ends: Any, tree: FlatTree, begins: Ints) -> None:
    records = tree.records
    nodes[:] = tree.tree.nodes
    nodes["left"][nodes["left"] >= 0] += begins[0]
    slot = np.where(records.slot >= 0, records.slot, records.slot[records.above])
    ends["context"] = np.where((records.slot >= 0) | (records.above >= 0), slot + begins[1], -1)
    ends["total"] = records.total[0]


def _put_contexts(contexts: Any, tree: FlatTree, begins: Ints, at: Ints) -> None:
    records = tree.records
    node = np.flatnonzero(records.slot >= 0)  # slots are given in the order of nodes
    above = records.above[node]
    contexts["at"] = at
    contexts["up"] = np.where(above >= 0, records.slot[above] + begins[1], -1)
    contexts["first"], contexts["last"] = records.first[node] + begins[2], records.first[node + 1] + begins[2]
    contexts["label"] = node + begins[0]
    contexts["degree"], contexts["best"] = tree.degree, records.degree
    kept = np.where(records.rows_at >= 0, records.n_rows, 0)
    contexts["n_rows"] = np.where(records.leverage >= 0, -1, kept)


def _put_records(records: Any, tree: FlatTree) -> None:
    records["weight"], records["shape"] = tree.records.weight[0], tree.shape
    for name in ("s2", "kind"):
        records[name] = getattr(tree.records, name)
