"""Trees of contexts: routing, boxes, how a context is described; grown by any criterion."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.contexts import Layout
from coverwalk._kernels.forest.grow import empty_nodes, grow
from coverwalk._kernels.forest.line_criterion import lines_of
from coverwalk._kernels.forest.node import NODE, add_to_children, add_to_parents, arrange, route
from coverwalk.files.schema import Array, Schema, Scope, require
from coverwalk.locks import cached


@dataclass(frozen=True, eq=False)
class Tree:
    """The contexts of one tree, N of them; context 0 is the whole space.

    They stand in the order of `grow`: the two children of a context side by side, in the order of their parents.

    Examples
    --------
    >>> tree = grow_tree(np.arange(20.0)[:, None], np.repeat([0.0, 1.0], 10), seed=0, min_rows=8)
    >>> tree.leaves(np.array([[0.0], [19.0]])).tolist()
    [1, 2]
    >>> tree.box(1)
    {0: (-inf, 9.0)}
    """

    nodes: NDArray[Any]  # (N,) of `NODE`

    _schema = Schema(
        feature=Array(np.int64, "N", index="p", none=True),
        split=Array(float, "N", nan=True),
        categories=Array(np.int64, "N"),
        check=lambda state, scope: _check_tree(state, scope),
    )

    def __getstate__(self) -> dict[str, Any]:
        """The columns of the nodes; their features tell where their children are."""
        return {name: getattr(self, name) for name in ("feature", "split", "categories")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        nodes = np.empty(len(state["feature"]), NODE)
        for name, column in state.items():
            nodes[name] = column
        inner = np.flatnonzero(state["feature"] >= 0)
        nodes["left"] = -1
        nodes["left"][inner] = 1 + 2 * np.arange(len(inner))
        self.__dict__["nodes"] = nodes

    def __len__(self) -> int:
        return len(self.nodes)

    @cached
    def feature(self) -> Ints:
        """The input that is split (N,); -1 in a leaf."""
        return self.nodes["feature"].astype(np.int64)

    @cached
    def left(self) -> Ints:
        """The child where x[feature] <= split (N,); the other one follows it; -1 in a leaf."""
        return self.nodes["left"].astype(np.int64)

    @cached
    def parent(self) -> Ints:
        """The parent of each context (N,), -1 for the root."""
        parent, inner = np.full(len(self.nodes), -1), np.flatnonzero(self.left >= 0)
        parent[self.left[inner]] = parent[self.left[inner] + 1] = inner
        return parent

    @cached
    def depth(self) -> Ints:
        """How many contexts lie above each (N,)."""
        depth, level = np.zeros(len(self.nodes), np.int64), np.zeros(1, np.int64)
        while len(level):
            left = self.left[level[self.left[level] >= 0]]
            depth[left] = depth[left + 1] = depth[level[0]] + 1
            level = np.concatenate([left, left + 1])
        return depth

    @property
    def split(self) -> Floats:
        """Where it is split (N,); NaN between categories."""
        return self.nodes["split"].copy()

    @property
    def categories(self) -> Ints:
        """Masks (N,): the categories that go left, and whether missing values do; see `_kernels.forest.node`."""
        return self.nodes["categories"].copy()

    def same(self, other: "Tree") -> bool:
        """Whether both have the same contexts."""
        return self.nodes.tobytes() == other.nodes.tobytes()

    def leaves(self, X: Floats) -> Ints:
        """The leaf of each row."""
        leaf = np.empty(len(X), np.int64)
        route(X[None], np.zeros(1, np.int64), self.nodes, np.zeros(1, np.int64), leaf[None])
        return leaf

    def arrange(self, X: Floats) -> tuple[Ints, Layout]:
        """An order of the rows in which every context is one run, and the runs."""
        perm, start, end = (np.empty(n, np.int64) for n in (len(X), len(self.nodes), len(self.nodes)))
        arrange(self.leaves(X), self.nodes, perm, start, end)
        return perm, Layout(start, end, self.left, self.parent)

    def sum_upwards(self, values: Floats) -> Floats:
        """Values (N, m) of the leaves, with those of all others, zeros before, as the sums of their children's."""
        add_to_parents(self.parent, values)
        return values

    def summed_downwards(self, values: NDArray[Any]) -> Floats:
        """Values (N,) of contexts, each with those of all that hold it."""
        total = values.astype(np.float64)
        add_to_children(self.parent, total)
        return total

    def joined_upwards(self, leaves: Floats, join: np.ufunc) -> Floats:
        """Values (N, m) of all contexts from those of the leaves, in their order: each joins those of its children."""
        values = np.empty((len(self), leaves.shape[1]))
        values[self.left < 0] = leaves
        for k in np.flatnonzero(self.left >= 0)[::-1].tolist():
            join(values[self.left[k]], values[self.left[k] + 1], out=values[k])
        return values

    def box(self, context: int) -> dict[int, tuple[float, float]]:
        """The half-open intervals (low, high] of the inputs that are split on the way to a context."""
        bounds: dict[int, tuple[float, float]] = {}
        k = context
        while k > 0:
            child, k = k, int(self.parent[k])
            a, split = int(self.feature[k]), float(self.nodes["split"][k])
            if np.isnan(split):
                continue
            low, high = bounds.get(a, (-np.inf, np.inf))
            below = child == self.left[k]
            bounds[a] = (low, min(high, split)) if below else (max(low, split), high)
        return bounds

    def category_sets(self, context: int) -> dict[int, int]:
        """Masks of the categories that a context holds, of the inputs that are split by them on the way to it."""
        masks: dict[int, int] = {}
        k = context
        while k > 0:
            child, k = k, int(self.parent[k])
            if np.isnan(self.nodes["split"][k]):
                mask = int(self.nodes["categories"][k])
                a = int(self.feature[k])
                masks[a] = masks.get(a, -1) & (mask if child == self.left[k] else ~mask)
        return masks

    def describe(self, context: int, names: Any, categories: Any, bound: Any) -> dict[str, Any]:
        """The box of a context in the units and names of the inputs: intervals, and lists of categories.

        bound(split, a): a split of column a in the units of the inputs.
        """
        box: dict[str, Any] = {
            names[a]: (bound(low, a), bound(high, a)) for a, (low, high) in self.box(context).items()
        }
        for a, mask in self.category_sets(context).items():
            box[names[a]] = [category for i, category in enumerate(categories[a]) if mask >> i & 1]
        return box


def _check_tree(state: Any, scope: Scope) -> None:
    """Contexts are split in their order, so the r-th that is has the children 1 + 2 r and 2 + 2 r, behind itself."""
    inner = np.flatnonzero(state.feature >= 0)
    require("feature", 2 * len(inner) + 1 == scope["N"])
    require("feature", inner <= 2 * np.arange(len(inner)))
    require("nodes", scope["N"] < 2**31)


def plain_columns(Z: Floats, n_categories: tuple[int, ...]) -> Floats:
    """Rows Z (n, p) with missing values and categories at 0, a column's centre; Z itself where there are neither."""
    missing = np.isnan(Z)
    if not n_categories and not missing.any():
        return Z
    plain = np.where(missing, 0.0, Z)
    plain[:, np.flatnonzero(n_categories)] = 0.0
    return plain


def grow_tree(
    X: Floats,
    y: Floats,
    seed: int,
    *,
    min_rows: int = 3,
    n_candidates: int = 20,
    n_judged: int = 400,
    n_categories: tuple[int, ...] = (),
) -> Tree:
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
        Splits drawn in a context, of which the one of most evidence is taken.
    n_judged : int
        Rows on which candidates are judged, where a context has more.
    n_categories : tuple of int
        How many categories each column has; 0 for numbers. Empty: all columns are numbers.
    """
    counts = np.array(n_categories or (0,) * X.shape[1], np.int64)
    vary = np.flatnonzero((X[:1] != X).any(axis=0))  # and NaN does
    if len(vary) < X.shape[1]:
        X, counts = np.ascontiguousarray(X[:, vary]), counts[vary]
    plain = plain_columns(X, tuple(counts.tolist()) if n_categories else ())
    lines, grown = lines_of(y, plain, n_candidates, n_judged), empty_nodes(len(X), min_rows)
    n = grow(X, np.arange(len(X)), counts, np.uint64(seed), min_rows, n_judged, lines, None, None, grown)
    nodes = grown[0][:n].copy()
    inner = nodes["left"] >= 0
    nodes["feature"][inner] = vary[nodes["feature"][inner]]
    return Tree(nodes)
