"""The paper's online kd-tree: a leaf that holds more rows than its depth allows is cut along its widest side."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from coverwalk.base import Context, Cover, Floats, as_vector
from coverwalk.files.schema import (
    Array,
    Flag,
    Limits,
    List,
    Maybe,
    Object,
    Real,
    Schema,
    Scope,
    Tuple,
    Whole,
    require,
    stored,
)

__all__ = ["KDTree"]


@stored()
@dataclass
class _Node:
    """A box: a leaf while ``axis`` is -1, with the rows it holds; afterwards a split and two children."""

    depth: Annotated[int, Whole(0, "max_depth")]
    rows: Annotated[list[Floats], List(Array(float, "p", any_unit=True))] = field(default_factory=list)
    axis: Annotated[int, Whole(-1, "p - 1")] = -1
    cut: Annotated[float, Real(any_unit=True)] = 0.0
    children: Annotated[tuple[int, int], Tuple(Whole(-1), Whole(-1))] = (-1, -1)


def _check_nodes(tree: Any, scope: Scope) -> None:
    """Children come in pairs after their parent, one deeper; rows stand in the leaf that holds them."""
    nodes, p = tree._nodes, scope["_nodes"][0].p
    require("scale", len(tree.scale) in (1, p) and (p > 0 or len(nodes) == 1))
    require("size", tree._size in (None, p))
    scope["p"] = p or None
    left = np.array([min(node.children[0], len(nodes)) for node in nodes])
    Limits(children=True).require(left, "children", scope)
    depth = max(node.depth for node in nodes)
    require("depth", nodes[0].depth == 0 and depth * np.log(tree.alpha) < 700)  # alpha^depth is a number
    for number, node in enumerate(nodes):
        first, second = node.children
        if node.axis == -1:
            require("children", (first, second) == (-1, -1))
        else:
            require("children", first > 0 and second == first + 1 and not node.rows)
            require("depth", nodes[first].depth == nodes[second].depth == node.depth + 1)
        require("rows", all(KDTree.contexts(tree, row)[-1][0] == number for row in node.rows))


class KDTree(Cover):
    """Online kd-tree: a leaf at depth k is split when it has more than alpha^k rows.

    It is split in the middle of the widest side of the box around its rows. Equal rows are not split.

    Parameters
    ----------
    alpha : float
        Growth of the threshold with depth, more than 1. The depth after T rows is at most about log_alpha T.
    scale : number or vector
        Unit of each coordinate, to compare the sides.
    max_depth : int
        Maximum depth.

    Examples
    --------
    >>> tree = KDTree()
    >>> [list(tree.grow(np.array([x]))) for x in (0.1, 0.9, 0.8, 0.7)]
    [[], [0], [], [2]]
    >>> tree.contexts(np.array([0.75]))
    [[0], [2], [3]]
    """

    nested = True
    _schema = Schema(
        alpha=Real(above=1),
        scale=Array(float, "s", above=0, any_unit=True),
        max_depth=Whole(0, 1000),
        _size=Maybe(Whole(1, 10**6)),
        _frozen=Flag(),
        _nodes=List(Object(_Node, p="(_size or 0) if s == 1 else s", max_depth="max_depth"), low=1),
        check=_check_nodes,
    )

    def __init__(self, alpha: float = 2.0, scale: Any = 1.0, max_depth: int = 60) -> None:
        if not alpha > 1:
            raise ValueError(f"alpha must be more than 1 or the tree deepens with every row, got {alpha!r}")
        self.alpha, self.scale, self.max_depth = float(alpha), as_vector(scale, "scale"), max_depth
        if not (self.scale > 0).all():
            raise ValueError(f"scale must be positive, got {scale!r}")
        self._nodes = [_Node(0)]
        self._size: int | None = None
        self._frozen = False

    @property
    def growing(self) -> bool:
        """Until `freeze`."""
        return not self._frozen

    def freeze(self) -> None:
        """Stop growing and discard the rows. Models on a fixed cover can be merged."""
        self._frozen = True
        for node in self._nodes:
            node.rows = []

    def __eq__(self, other: object) -> bool:
        """The same splits, in frozen trees."""
        return isinstance(other, KDTree) and self._frozen and other._frozen and self._nodes == other._nodes

    def check(self, x: Any) -> Floats:
        """A vector of finite numbers, as many as in the first row."""
        return as_vector(x, "x", self._size if len(self.scale) == 1 else len(self.scale))

    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """The path from the root to the leaf of x, by the number of the node."""
        number = 0
        path: list[list[Context]] = [[0]]
        while (node := self._nodes[number]).axis >= 0:
            number = node.children[int(x[node.axis] > node.cut)]
            path.append([number])
        return path

    def grow(self, x: Any) -> Sequence[Context]:
        """Put x in its leaf and split while a leaf holds too many."""
        self._size = len(x)
        if self._frozen:
            return ()
        leaf = self.contexts(x)[-1][0]
        assert isinstance(leaf, int)
        self._nodes[leaf].rows.append(x)
        split: list[Context] = []
        pending = [leaf]
        while pending:
            number = pending.pop()
            if self._split(number):
                split.append(number)
                pending.extend(reversed(self._nodes[number].children))
        return split

    def _split(self, number: int) -> bool:
        node = self._nodes[number]
        if node.depth >= self.max_depth or len(node.rows) <= self.alpha**node.depth:
            return False
        rows = np.array(node.rows)
        low, high = rows.min(0), rows.max(0)
        sides = (high / self.scale) - (low / self.scale)
        axis = int(np.argmax(sides))
        cut = 0.5 * low[axis] + 0.5 * high[axis]
        if not low[axis] <= cut < high[axis]:  # the rows coincide: nothing to tell them apart
            return False
        node.axis, node.cut = axis, float(cut)
        node.children = (len(self._nodes), len(self._nodes) + 1)
        self._nodes += [_Node(node.depth + 1), _Node(node.depth + 1)]
        for row in node.rows:
            self._nodes[node.children[int(row[axis] > cut)]].rows.append(row)
        node.rows = []
        return True
