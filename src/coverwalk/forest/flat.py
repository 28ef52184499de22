"""A fitted forest as flat arrays that one kernel reads: what prediction needs, made with the first answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.forest.components import Records
from coverwalk._kernels.forest.flat import HEAD, RECORD, count_components, fill_store, flat_components, route_rows
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.forest.members import Member

__all__ = ["FlatComponents", "FlatForest"]


class FlatComponents(NamedTuple):
    """The components of n rows, and the rows without missing values and categories."""

    offsets: Ints
    weight: Floats
    loc: Floats
    scale: Floats
    shape: Ints32
    label: Ints
    plain: Floats


class FlatForest:
    """All trees of a forest, fitted in one frame, each with the same weight in the mixture.

    first_shape: where the shapes of each tree begin in the table of the forest.
    """

    def __init__(self, members: Sequence[Member], first_shape: Ints) -> None:
        self.frame = members[0].frame
        p = len(self.frame.inputs.centre)
        self.root = np.concatenate([[0], np.cumsum([len(member.tree) for member in members])])
        at = [_places(member.fitted.records, member.degree) for member in members]
        places = np.concatenate([[0], np.cumsum([each[-1] for each in at])])
        self.nodes, store = np.concatenate([member.tree.nodes for member in members]), np.empty(places[-1])
        kept = [member.fitted.records for member in members]
        total, first = np.concatenate([records.total[0] for records in kept]), np.empty(len(self.nodes), np.int64)
        for k, (member, records) in enumerate(zip(members, kept)):
            own = slice(*self.root[k : k + 2])
            nodes, begin = self.nodes[own], places[k] + at[k]
            nodes["left"][nodes["left"] >= 0] += self.root[k]
            above = np.where(records.above >= 0, begin[records.slot[records.above]], -1)
            first[own] = np.where(records.slot >= 0, begin[records.slot], above)
            node = np.flatnonzero(records.slot >= 0)  # slots are given in the order of nodes
            shape, heads = member.fitted.shape + first_shape[k], (begin, above[node], node + self.root[k])
            fill_store(records, shape, member.degree, heads, store)
        fills = [member.fitted.fill for member in members]
        column = fills[0].column
        count_components(self.nodes, total, first, store, len(column) == 0)
        mean = np.concatenate([fill.mean for fill in fills]) if len(column) else np.empty((0, 0))
        degree = np.array([member.degree for member in members])
        smooth = np.array([member.part.smooth for member in members])
        n_rows = max(int(records.n_rows[records.rows_at >= 0].max(initial=0)) for records in kept)
        capacity = max(int(n_features(2, p)), n_rows)
        self.arrays = self.nodes, store, self.root, degree, smooth, column, mean, capacity

    def components(self, X: Floats, n_more: int, units: tuple[float, ...]) -> FlatComponents:
        """The components in rows X (n, p), with room for some more at the end of each row; units: see the kernel."""
        Z, plain = self.frame.rows(X)
        leaf, offsets = np.empty((len(self.root) - 1, len(X)), np.int64), np.empty(len(X) + 1, np.int64)
        route_rows(Z, self.nodes, self.root, 1 + n_more, leaf, offsets)
        m = int(offsets[-1])
        out = np.empty(m), np.empty(m), np.empty(m), np.empty(m, np.int32), np.empty(m, np.int64)
        flat_components((Z, plain, leaf, self.frame.origin(plain)), self.arrays, units, offsets[:-1].copy(), out)
        return FlatComponents(offsets, *out, plain)


def _places(records: Records, degree: int) -> Ints:
    """Where each context of a tree begins in its part of the store, and where that ends; (C + 1,)."""
    p = records.low.shape[1]
    size = np.array([n_features(g, p) for g in range(3)])[records.degree]
    in_rows = records.rows_at >= 0
    size = np.where(in_rows, records.n_rows, size)
    told = np.where(records.leverage < 0, size * (size + 1) // 2 + np.where(in_rows, size * p, 0), 0)
    head = HEAD + RECORD * np.diff(records.first)[records.slot >= 0] + 2 * p + n_features(degree, p) + 2
    return np.concatenate([[0], np.cumsum(head + told)])
