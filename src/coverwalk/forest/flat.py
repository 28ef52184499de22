"""A fitted tree as flat arrays that the kernels read: to predict with it, and to learn."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.components import Records
from coverwalk._kernels.forest.flat import HEAD, NEGLIGIBLE, count_components, fill_store
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.forest.members import Member


class FlatTree(NamedTuple):
    """The contexts of a tree, as `coverwalk._kernels.forest.flat` documents them."""

    nodes: NDArray[Any]  # (N,) of `NODE`
    store: Floats
    learns: bool  # else components that have next to no weight are left out


def flattened(member: Member, learns: bool) -> Member:
    """The member with its flat tree."""
    if member.flat is not None and member.flat.learns == learns:
        return member
    tree, fitted = member.tree, member.fitted
    records, begin = fitted.records, _places(fitted.records, member.degree)
    above = np.where(records.above >= 0, begin[records.slot[records.above]], -1)
    first = np.where(records.slot >= 0, begin[records.slot], above)
    nodes, store, S = tree.nodes.copy(), np.empty(begin[-1]), len(records.weight)
    fill_store(records, fitted.shape, member.degree, begin, above[records.slot >= 0], store)
    least = 0.0 if learns or S > 1 else NEGLIGIBLE
    count_components(nodes, records.total[0], first, store, S, least, len(fitted.fill.column) == 0)
    return member._replace(flat=FlatTree(nodes, store, learns))


def _places(records: Records, degree: int) -> Ints:
    """Where each context of a tree begins in its store, and where that ends; (C + 1,)."""
    p = records.low.shape[1]
    size = np.array([n_features(g, p) for g in range(3)])[records.degree]
    in_rows = records.rows_at >= 0
    size = np.where(in_rows, records.n_rows, size)
    told = np.where(records.leverage < 0, size * (size + 1) // 2 + np.where(in_rows, size * p, 0), 0)
    n_models = np.diff(records.first)[records.slot >= 0]
    head = HEAD + (len(records.weight) + 2) * n_models + 2 * p + n_features(degree, p) + 2
    return np.concatenate([[0], np.cumsum(head + told)])
