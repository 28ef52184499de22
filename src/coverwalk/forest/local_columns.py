"""What local models see of an x that has missing values and categories: the context's mean, and nothing."""

from typing import Annotated, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.scaling import leaf_means
from coverwalk.files.schema import Array, stored
from coverwalk.forest.tree import Tree, plain_columns


@stored()
class Fill(NamedTuple):
    """The means of columns that had missing values, in every context of a tree."""

    column: Annotated[Ints, Array(np.int64, "m", index="p")]  # (m,)
    # (N, m); that of the parent where a context has no value
    mean: Annotated[Floats, Array(float, "N if m else 0", "m")]


NO_FILL = Fill(np.empty(0, np.int64), np.empty((0, 0)))


def fill_of(tree: Tree, Z: Floats, n_categories: tuple[int, ...], with_missing: tuple[int, ...] = ()) -> Fill:
    """From rows Z (n, p); with_missing: columns that have missing values, in rows that are not among these."""
    unknown = np.isnan(Z)
    if not unknown.any() and not with_missing:
        return NO_FILL
    missing = np.atleast_1d(unknown.any(axis=0))
    missing[list(with_missing)] = True
    missing[np.flatnonzero(n_categories)] = False
    column = np.flatnonzero(missing)
    if not len(column):
        return NO_FILL
    mean, count = np.zeros((2, len(tree.parent), len(column)))
    leaf_means(Z, tree.leaves(Z), tree.parent, column, mean, count)
    return Fill(column, mean)


def local_columns(tree: Tree, Z: Floats, fill: Fill, n_categories: tuple[int, ...]) -> Floats:
    """As `plain_columns`, but for missing values in columns that had some at fit: those are at their leaf's mean."""
    plain = plain_columns(Z, n_categories)
    if len(fill.column) and plain is not Z:
        leaf = tree.leaves(Z)
        for j, a in enumerate(fill.column.tolist()):
            rows = np.flatnonzero(np.isnan(Z[:, a]))
            plain[rows, a] = fill.mean[leaf[rows], j]
    return plain
