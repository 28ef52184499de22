"""Covers that look at y: trees of axis-parallel splits, each the best of a few drawn at random."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.forest.contexts import Layout
from coverwalk._kernels.forest.grow import arrange, empty_nodes, grow, route
from coverwalk.files.schema import Array, Derived, Scope, require, stored

__all__ = ["AdaptiveTree", "grow_tree"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@stored(
    left=Array(np.int64, "N", children=True),
    feature=Array(np.int64, "N", index="p", none=True),
    parent=Derived(lambda tree: _parents(tree.left)),
    split=Array(float, "N", nan=True),
    categories=Array(np.int64, "N"),
    check=lambda state, scope: _check_tree(state, scope),
)
class AdaptiveTree(NamedTuple):
    """The contexts of one tree, N of them, parents first and siblings side by side; context 0 is the whole space.

    Examples
    --------
    >>> tree = grow_tree(np.arange(20.0)[:, None], np.repeat([0.0, 1.0], 10), seed=0, min_rows=8)
    >>> tree.leaves(np.array([[0.0], [19.0]])).tolist()
    [1, 2]
    >>> tree.box(1)
    {0: (-inf, 9.0)}
    """

    feature: Ints  # (N,) the input that is cut, -1 in a leaf
    left: Ints  # (N,) the child where x[dim] <= cut; the other one follows it; -1 in a leaf
    parent: Ints  # (N,) -1 for the root
    split: Floats  # (N,) NaN for a split between categories of a column
    categories: Ints  # (N,) masks: the levels that go left, and whether missing values do; see `_kernels.forest.split`

    def leaves(self, X: Floats) -> Ints:
        """The leaf of each row."""
        leaf = np.empty(len(X), np.int64)
        route(X, self.feature, self.left, self.split, self.categories, leaf)
        return leaf

    def arrange(self, X: Floats) -> tuple[Ints, Layout]:
        """An order of the rows in which every context is one run, and the runs."""
        perm, start, end = (np.empty(n, np.int64) for n in (len(X), len(self.left), len(self.left)))
        arrange(self.leaves(X), self.left, perm, start, end)
        return perm, Layout(start, end, self.left, self.parent)

    def box(self, context: int) -> dict[int, tuple[float, float]]:
        """The half-open intervals (low, high] of the inputs that are cut on the way to a context."""
        bounds: dict[int, tuple[float, float]] = {}
        k = context
        while k > 0:
            child, k = k, int(self.parent[k])
            a, split = int(self.feature[k]), float(self.split[k])
            if np.isnan(split):
                continue
            low, high = bounds.get(a, (-np.inf, np.inf))
            below = child == self.left[k]
            bounds[a] = (low, min(high, split)) if below else (max(low, split), high)
        return bounds

    def category_sets(self, context: int) -> dict[int, int]:
        """Masks of the levels, of the categories that are cut on the way to a context, that it holds."""
        masks: dict[int, int] = {}
        k = context
        while k > 0:
            child, k = k, int(self.parent[k])
            if np.isnan(self.split[k]):
                mask = int(self.categories[k])
                a = int(self.feature[k])
                masks[a] = masks.get(a, -1) & (mask if child == self.left[k] else ~mask)
        return masks


def _check_tree(state: Any, scope: Scope) -> None:
    require("feature", state.feature[state.left != -1] >= 0)


def _parents(left: Ints) -> Ints:
    """The parent of each context, -1 for the root."""
    parent, inner = np.full(len(left), -1), np.flatnonzero(left != -1)
    parent[left[inner]] = parent[left[inner] + 1] = inner
    return parent


def grow_tree(
    X: Floats,
    y: Floats,
    seed: int,
    *,
    min_rows: int = 3,
    n_candidates: int = 20,
    n_judged: int = 400,
    n_categories: tuple[int, ...] = (),
) -> AdaptiveTree:
    """Grow a tree from rows X (n, p) and y (n,), which come in random order.

    Parameters
    ----------
    X, y : arrays
        The rows.
    seed : int
        Of the candidates; every context has a stream of its own.
    min_rows : int
        Rows on either side of a split.
    n_candidates : int
        Cuts drawn in a context, of which the one of most evidence is taken.
    n_judged : int
        Rows on which candidates are judged, where a context has more.
    n_levels : tuple of int
        How many levels each column has; 0 for numbers. Empty: all columns are numbers.
    """
    counts = np.array(n_categories or (0,) * X.shape[1], np.int64)
    nodes = empty_nodes(len(X), min_rows)
    n_nodes = grow(X, y, counts, seed, min_rows, n_candidates, n_judged, nodes)
    kept: list[NDArray[Any]] = [part[:n_nodes].copy() for part in nodes]
    return AdaptiveTree(*kept)
