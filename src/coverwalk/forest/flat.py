"""A fitted tree as flat arrays that the kernels read: to predict with it, and to learn."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.flat import NEGLIGIBLE, count_components, fill_store, store_size
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
    records, S = fitted.records, len(fitted.records.weight)
    nodes, first, store = tree.nodes.copy(), np.empty(len(tree), np.int64), np.empty(store_size(records, member.degree))
    fill_store(tree.parent, records, fitted.shape, member.degree, first, store)
    least = 0.0 if learns or S > 1 else NEGLIGIBLE
    count_components(nodes, first, store, S, least, len(fitted.fill.column) == 0)
    return member._replace(flat=FlatTree(nodes, store, learns))
