"""The posterior over the context trees of a refining walk: the most probable ones, draws from it, and the order.

With posterior stop weights w_M the probability of a tree is the product of w_M over its leaves and of 1 - w_M over its
inner contexts (a context that cannot be refined is a leaf for sure). So the k best trees below M are: the leaf, and the
k best combinations of one of the k best trees of each child. A context met once or never has its prior weight.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.sequences import suffix_store, suffix_walk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")
BORDER_SIGN = "^"  # how the beginning of a document is written in a context

Split = tuple[tuple[int, Any], ...]  # children that are not plain unseen leaves: their labels and shapes
Ranked = list[tuple[float, Split | None]]  # log probabilities and shapes, best first; None is a leaf


@dataclass
class ContextNode:
    """A context in a tree: its symbols from old to new, how often it was met, and its refinements by one symbol."""

    context: tuple[Hashable, ...]
    count: int
    children: dict[Hashable, "ContextNode"] = field(default_factory=dict)

    def leaves(self) -> Iterator["ContextNode"]:
        """The contexts in which the walk stops."""
        if not self.children:
            yield self
        for child in self.children.values():
            yield from child.leaves()


@dataclass
class ContextTree:
    """One context tree and its posterior log probability. Leaves that were never met are not listed.

    Examples
    --------
    >>> from coverwalk import SequenceModel
    >>> model = SequenceModel(alphabet="ab", depth=2, walk="refine").fit("ab" * 40)
    >>> print(model.map_tree()[0])
    . (80)
      a (40)
      b (39)
      ^ (1)
    """

    root: ContextNode
    log_posterior: float

    @property
    def posterior(self) -> float:
        """The posterior probability of exactly this tree."""
        return float(np.exp(self.log_posterior))

    def leaves(self) -> list[ContextNode]:
        """The contexts in which the walk stops, those that were met."""
        return list(self.root.leaves())

    def __str__(self) -> str:
        lines: list[str] = []
        stack = [(self.root, 0)]
        while stack:
            node, depth = stack.pop()
            lines.append("  " * depth + f"{context_text(node.context)} ({node.count})")
            stack += [(child, depth + 1) for child in reversed(node.children.values())]
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the tree with matplotlib, the root on the left; contexts met more often are larger."""
        from coverwalk.distributions.plotting import axes_to_draw_on

        axes = axes_to_draw_on(ax, f"posterior {self.posterior:.3g}", xlabel="order", yticks=[])
        heights = {id(leaf): -float(i) for i, leaf in enumerate(self.root.leaves())}
        _draw(axes, self.root, 0, heights)
        return axes


def context_text(context: tuple[Hashable, ...]) -> str:
    """A context as a line: letters joined, anything else separated by spaces; the empty one is a dot."""
    letters = all(isinstance(s, str) and len(s) == 1 for s in context)
    return ("" if letters else " ").join(str(s) for s in context) or "."


def _draw(axes: "Axes", node: ContextNode, order: int, heights: dict[int, float]) -> float:
    """Draw a node right of its parent, amid its children; its height."""
    if node.children:
        below = [_draw(axes, child, order + 1, heights) for child in node.children.values()]
        heights[id(node)] = sum(below) / len(below)
        for height in below:
            axes.plot([order, order + 1], [heights[id(node)], height], color="0.7", zorder=1)
    axes.scatter(order, heights[id(node)], s=20 + 10 * np.log1p(node.count), color="C0", zorder=2)
    axes.annotate(context_text(node.context), (order, heights[id(node)]), xytext=(5, 4), textcoords="offset points")
    return heights[id(node)]


class StopWeights(NamedTuple):
    """The posterior of a refining walk.

    parent, order, label, visits, log_stop, log_go (n,)   by context, parents first; a label of -1 is the border
    prior_log_stop, prior_log_go (depth + 1,)     by order, for contexts that were not met
    """

    parent: Ints32
    order: Ints
    label: Ints32
    visits: Floats
    log_stop: Floats
    log_go: Floats
    prior_log_stop: Floats
    prior_log_go: Floats


def stop_weights(tree: suffix_store.SuffixStore) -> StopWeights:
    """Where a refining walk stops, by its state."""
    nodes, depth = int(tree.size[suffix_store.NODES]), len(tree.path) - 2
    parent, label = tree.node_link[:nodes, suffix_store.PARENT], tree.node_link[:nodes, suffix_store.LABEL]
    order = np.zeros(nodes, np.int64)
    for node in range(1, nodes):
        order[node] = order[parent[node]] + 1
    prior = np.array([suffix_walk.prior_log_odds(tree, k) for k in range(depth + 1)])
    exists = np.ones(nodes, np.bool_)
    exists[1] = tree.node_value[1, suffix_store.N] > 0  # "a document begins" is always stored, met or not
    met = np.flatnonzero(exists)
    place = np.cumsum(exists) - 1  # of the parents among those met
    log_odds = prior[np.minimum(order, depth)] + tree.node_value[:nodes, suffix_store.STOP]
    surely = (order == depth) | ((label == suffix_store.BORDER) & (order > 0))
    return StopWeights(
        np.where(met > 0, place[parent[met]], -1).astype(np.int32),
        order[met],
        label[met],
        tree.node_value[met, suffix_store.N],
        np.where(surely, 0.0, -np.logaddexp(0.0, -log_odds))[met],
        np.where(surely, -np.inf, -np.logaddexp(0.0, log_odds))[met],
        np.append(-np.logaddexp(0.0, -prior[:-1]), 0.0),
        np.append(-np.logaddexp(0.0, prior[:-1]), -np.inf),
    )


def best_trees(weights: StopWeights, symbols: list[Hashable], k: int) -> list[ContextTree]:
    """The k most probable trees, best first."""
    n, names = len(weights.parent), [*symbols, BORDER_SIGN]  # whose label is -1
    children: list[dict[int, int]] = [{} for _ in range(n)]
    for node in range(1, n):
        children[weights.parent[node]][int(weights.label[node])] = node

    def shapes(log_stop: float, log_go: float, order: int, met: dict[int, Ranked]) -> Ranked:
        """The k best shapes of a context, from those of its children that were met."""
        leaf: Ranked = [(log_stop, None)]
        if log_go == -np.inf:
            return leaf
        free = [code for code in range(len(symbols)) if code not in met]
        fresh = unmet(order + 1, len(free))
        splits: list[tuple[float, Split]] = [(log_go + p, tuple((free[i], s) for i, s in split)) for p, split in fresh]
        for code, ranked in met.items():
            splits = _best(((p + q, (*split, (code, s))) for p, split in splits for q, s in ranked), k)
        return _best([*leaf, *splits], k)

    @cache
    def unmet(order: int, many: int) -> list[tuple[float, Split]]:
        """The k best choices for ``many`` unmet siblings: those that are not leaves, by number."""
        ranked = shapes(weights.prior_log_stop[order], weights.prior_log_go[order], order, {})
        together: list[tuple[float, Split]] = [(0.0, ())]
        for i in range(many):
            pairs = ((p + q, split if s is None else (*split, (i, s))) for p, split in together for q, s in ranked)
            together = _best(pairs, k)
        return together

    ranked: list[Ranked] = [[] for _ in range(n)]
    for node in range(n - 1, -1, -1):
        met = {code: ranked[child] for code, child in children[node].items()}
        ranked[node] = shapes(weights.log_stop[node], weights.log_go[node], int(weights.order[node]), met)
        for child in children[node].values():
            ranked[child] = []

    def grow(shape: Split | None, node: int, context: tuple[Hashable, ...]) -> ContextNode:
        grown = ContextNode(context, int(weights.visits[node]) if node >= 0 else 0)
        for code, below in sorted(shape or (), key=lambda child: child[0] % len(names)):  # the border last
            known = children[node].get(code, -1) if node >= 0 else -1
            grown.children[names[code]] = grow(below, known, (names[code], *context))
        return grown

    return [ContextTree(grow(shape, 0, ()), float(log_p)) for log_p, shape in ranked[0]]


def _best(choices: Iterable[tuple[float, T]], k: int) -> list[tuple[float, T]]:
    return sorted(choices, key=lambda choice: -choice[0])[:k]


def sample_tree(weights: StopWeights, symbols: list[Hashable], rng: np.random.Generator) -> ContextTree:
    """A tree drawn from the posterior: each context that the walk reaches stops with its own probability.

    Contexts that were never met are not drawn, and the posterior of the tree is that of its contexts that were.
    """
    names = [*symbols, BORDER_SIGN]  # whose label is -1
    stops = np.log(rng.random(len(weights.parent))) < weights.log_stop
    nodes: list[ContextNode | None] = [None] * len(stops)
    nodes[0] = root = ContextNode((), int(weights.visits[0]))
    log_p = float(weights.log_stop[0] if stops[0] else weights.log_go[0])
    for i in range(1, len(stops)):
        above = nodes[weights.parent[i]]
        if above is None or stops[weights.parent[i]]:
            continue
        symbol = names[weights.label[i]]
        below = ContextNode((symbol, *above.context), int(weights.visits[i]))
        nodes[i] = above.children[symbol] = below
        log_p += float(weights.log_stop[i] if stops[i] else weights.log_go[i])
    return ContextTree(root, log_p)


def order_posterior(weights: StopWeights) -> Floats:
    """P(the longest context of the tree, among those that were met, has length k), k = 0 .. depth.

    Below M all contexts are at most m long with probability f_M(m) = w_M + (1 - w_M) prod_N f_N(m); f_M = w_M at m.
    """
    n, depth = len(weights.parent), len(weights.prior_log_stop) - 1
    below = np.zeros((n, depth + 1))  # sums of log f over the children
    log_f = np.zeros(depth + 1)
    for i in range(n - 1, -1, -1):
        k = weights.order[i]
        log_f = np.full(depth + 1, -np.inf)
        log_f[k] = weights.log_stop[i]
        log_f[k + 1 :] = np.logaddexp(weights.log_stop[i], weights.log_go[i] + below[i, k + 1 :])
        if i:
            below[weights.parent[i]] += log_f
    return np.diff(np.exp(log_f), prepend=0.0)
