"""One tree of contexts for classes: grown on some rows, weighed by the others, and then learned from all."""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.forest.class_criterion import classes_of
from coverwalk._kernels.forest.class_walk import Local, Rows, Walk, visit
from coverwalk._kernels.forest.discriminant import Factors, Moments, discriminants, empty_factors, moments
from coverwalk._kernels.forest.grow import empty_nodes, grow
from coverwalk._kernels.forest.node import MAX_CATEGORIES
from coverwalk.files.schema import Flag, List, Real, Whole, stored
from coverwalk.forest.tree import Tree

Span = tuple[Ints, Ints]  # start (N,), end (N,): the rows of each context in an ordered list of rows

MAX_COLUMNS = 48  # of a discriminant; where x has more, each tree draws its own
MAX_FLOATS = 2**20  # of all covariances of one kind in one tree, 8 MB: the largest contexts come first
FAINT = 1e-4  # a discriminant that predicts for fewer rows of its context is not kept


@stored()
@dataclass(frozen=True)
class ClassGrowth:
    """How a tree is grown, and what its contexts believe before they see a row."""

    discriminants: Annotated[bool, Flag()]
    min_rows: Annotated[int, Whole(1)] = 1  # on either side of a split
    # axes to look at in a context, in units of the root of their number
    axes: Annotated[float, Real(above=0, high=1e6)] = 2.0
    splits: Annotated[int, Whole(1, 10**6)] = 16  # drawn on each of them
    sample: Annotated[int, Whole(1)] = 512  # rows that judge the splits
    stop: Annotated[float, Real(above=0, below=1)] = 0.1  # w
    # prior rows of the class counts, spread like the parent's prediction
    alpha: Annotated[float, Real(low=1e-100, high=1e100, whole=True)] = 1.0
    # powers of a discriminant's odds
    temperatures: Annotated[tuple[float, ...], List(Real(above=0, high=1e6), low=1, high=100, kind=tuple)] = (1.0, 0.3)
    rows_shared: Annotated[float, Real(low=0)] = 2.0  # rows a column that a context needs for a shared covariance
    rows_own: Annotated[float, Real(low=0)] = 1.0  # rows a column and class that it needs for own ones
    nu0: Annotated[float, Real(low=0)] = 0.5  # prior rows of a covariance, a column
    ridge: Annotated[float, Real(low=0)] = 1.0  # scatter that every column has before any row, in units of its variance
    # of each column, 0 for numbers; empty where all are numbers
    n_categories: Annotated[tuple[int, ...], List(Whole(0, MAX_CATEGORIES), kind=tuple)] = ()

    @property
    def setting(self) -> tuple[float, Floats]:
        """What the walk's kernels need to know; of an integer they would be compiled again, for seconds."""
        return float(self.alpha), np.array(self.temperatures, np.float64)

    def names(self) -> list[str]:
        """The local models of a context, in the order of the kernels."""
        return [
            "counts",
            *(
                f"{kind} covariance, temperature {temperature:g}"
                for kind in ("shared", "own")
                for temperature in self.temperatures
            ),
        ]


class ClassTree(NamedTuple):
    """The whole state of a tree: flat arrays."""

    tree: Tree
    local: Local
    walk: Walk
    levels: int  # contexts on the longest path

    def predict(self, X: Floats, growth: ClassGrowth) -> Floats:
        """psi (n, C), the class probabilities of each row."""
        unknown = np.zeros(len(X), np.int64)
        return self._visit((X, unknown, np.zeros(len(X))), np.arange(len(X)), growth, learn=False)

    def learn(self, rows: Rows, order: Ints, growth: ClassGrowth) -> Floats:
        """psi of each row before it was learned; the state changes in place."""
        return self._visit(rows, order, growth, learn=True)

    def writable(self) -> "ClassTree":
        """The same tree in arrays that may be changed."""
        counts, shared, own, shared_factors, own_factors, columns = self.local
        factors = (_copied(shared_factors), _copied(own_factors))
        return ClassTree(
            self.tree,
            (*_copied((counts, shared, own)), *factors, *_copied((columns,))),
            _copied(self.walk),
            self.levels,
        )

    def _visit(self, rows: Rows, order: Ints, growth: ClassGrowth, learn: bool) -> Floats:
        psi = np.empty((len(order), self.local[0].shape[1]))
        visit(rows, order, self.tree.nodes, self.local, self.walk, growth.setting, self.levels, learn, psi)
        return psi


def _copied(parts: Any) -> Any:
    """A tuple of arrays, those that are read-only copied."""
    return tuple(part if part.flags.writeable else np.array(part) for part in parts)


@dataclass(frozen=True)
class _Kind:
    """The contexts of a tree that have discriminants of one kind, and their moments."""

    place: Ints  # (N,) among the moments, or -1
    parent: Ints  # (G,) the place of each one's parent, or -1
    total: Moments

    @classmethod
    def of(cls, has: Bools, parent: Ints, n_classes: int, p: int, own: bool) -> "_Kind":
        capacity = MAX_FLOATS // max(p * p * (n_classes if own else 1), 1)
        has = has & (np.cumsum(has) <= capacity)
        for k in np.flatnonzero(has):  # a context has one only if its parent has
            has[k] = k == 0 or has[parent[k]]
        place = np.where(has, np.cumsum(has) - 1, -1)
        G = int(has.sum())
        total = np.zeros((G, n_classes)), np.zeros((G, n_classes, p)), np.zeros((G, n_classes if own else 1, p, p))
        above = parent[has]
        return cls(place, np.where(above >= 0, place[above], -1), total)


def grown_tree(
    rows: Rows, n_classes: int, perm: Ints, seed: int, growth: ClassGrowth, n_categories: Ints
) -> tuple[Tree, Span]:
    """Grow a tree on the rows named in ``perm``, which is put in the order of its contexts; which rows are whose."""
    X, y, weight = rows
    n_features = max(1, round(growth.axes * len(n_categories) ** 0.5))
    classes = classes_of(y, weight, n_classes, n_features, growth.splits, growth.sample)
    grown = empty_nodes(len(perm), growth.min_rows)
    n = grow(X, perm, n_categories, np.uint64(seed), growth.min_rows, growth.sample, None, classes, None, grown)
    return Tree(grown[0][:n].copy()), (grown[2][:n].copy(), grown[3][:n].copy())


def arranged(X: Floats, perm: Ints, tree: Tree) -> tuple[Ints, Span]:
    """The rows named in ``perm`` in the order of a tree's contexts; start and end of each context's."""
    order, layout = tree.arrange(X[perm])
    return perm[order], (layout.start, layout.end)


def counted(rows: Rows, n_classes: int, perm: Ints, tree: Tree, span: Span) -> Floats:
    """Weight of each class in each context (N, C), of rows in the order of the contexts."""
    leaf = np.flatnonzero(tree.left < 0)
    leaf = leaf[np.argsort(span[0][leaf], kind="stable")]
    place = np.repeat(leaf, (span[1] - span[0])[leaf]) * n_classes + rows[1][perm]
    counts: Floats = np.bincount(place, rows[2][perm], minlength=len(tree) * n_classes).astype(np.float64)
    return tree.sum_upwards(counts.reshape(len(tree), n_classes))


def grow_class_tree(
    rows: Rows, n_classes: int, inside: Ints, outside: Ints, seed: int, growth: ClassGrowth
) -> tuple[ClassTree, Ints, Floats]:
    """Grow a tree on the rows ``inside``, let those ``outside`` weigh it one by one, and learn all of them.

    Returns the tree, the rows outside in the order they came, and psi (len(outside), C): what the tree said of each
    before it had seen it.
    """
    X = rows[0]
    p = len(growth.n_categories) or X.shape[1]  # what follows are indicators of levels, which splits have no need of
    rng = np.random.default_rng(seed)
    inside, order = rng.permutation(inside), rng.permutation(outside)
    n_categories = np.array(growth.n_categories or (0,) * p, np.int64)
    tree, span = grown_tree(rows, n_classes, inside, seed, growth, n_categories)
    counts = counted(rows, n_classes, inside, tree, span)
    columns = np.append(np.flatnonzero(n_categories == 0), np.arange(p, X.shape[1]))  # a discriminant takes numbers
    if len(columns) > MAX_COLUMNS:
        columns = np.sort(rng.choice(columns, MAX_COLUMNS, replace=False))
    shared, own = _kinds(counts, span, tree.parent, len(columns), growth)
    walk, levels = _prior(tree, shared, own, growth), int(tree.depth.max()) + 1

    def class_tree() -> ClassTree:
        factors = _factors(shared, own, growth)
        return ClassTree(tree, (counts, shared.place, own.place, *factors, columns), walk, levels)

    for kind in (shared, own):
        moments(rows, inside, span, tree.parent, tree.left, kind.place, columns, kind.total)
    psi = class_tree().learn(rows, order, growth)  # the counts and the walk have now seen all rows
    local: Any = counts, *_without_faint(shared.place, own.place, walk[0], growth), (), (), columns
    return with_factors(ClassTree(tree, local, walk, levels), rows, growth), order, psi


def with_factors(class_tree: ClassTree, rows: Rows, growth: ClassGrowth) -> ClassTree:
    """The tree with the discriminants that it has a place for, made from all rows of its forest."""
    tree, kinds = class_tree.tree, needed_kinds(class_tree)
    if len(kinds[0].parent):
        perm, span = arranged(rows[0], np.arange(len(rows[1])), tree)
        for kind in kinds:
            moments(rows, perm, span, tree.parent, tree.left, kind.place, class_tree.local[5], kind.total)
    return with_moments(class_tree, kinds, growth)


def with_moments(class_tree: ClassTree, kinds: tuple[_Kind, _Kind], growth: ClassGrowth) -> ClassTree:
    """The tree with discriminants from the moments of its `needed_kinds`."""
    counts, shared, own, _, _, columns = class_tree.local
    made = (
        tuple(part[kind.place[place >= 0]] for part in parts)
        for parts, kind, place in zip(_factors(*kinds, growth), kinds, (shared, own))
    )
    return class_tree._replace(local=(counts, shared, own, *made, columns))  # type: ignore[arg-type]


def needed_kinds(class_tree: ClassTree) -> tuple[_Kind, _Kind]:
    """The moments that the discriminants of a tree need, of shared and own covariances, without rows."""
    counts, shared, own, *_, columns = class_tree.local
    parent, C, p = class_tree.tree.parent, counts.shape[1], len(columns)
    of_shared, of_own = needed_contexts(shared >= 0, own >= 0, parent)
    return _Kind.of(of_shared, parent, C, p, own=False), _Kind.of(of_own, parent, C, p, own=True)


def needed_contexts(shared: Bools, own: Bools, parent: Ints) -> tuple[Bools, Bools]:
    """The contexts (N,) whose moments discriminants need, of shared and own covariances: those that have them, and
    those above, whose covariances are the priors.
    """
    kinds = (shared | own, own.copy())
    for has in kinds:
        for k in np.flatnonzero(has)[::-1].tolist():
            while k > 0 and not has[parent[k]]:
                k = parent[k]
                has[k] = True
    return kinds


def _kinds(counts: Floats, span: Span, parent: Ints, p: int, growth: ClassGrowth) -> tuple[_Kind, _Kind]:
    """Which contexts have rows enough for discriminants, of shared and of own covariances; that of all rows always has.

    It is one in a tree, and costs little; deeper ones cost most of the time and of the file.
    """
    size, present = span[1] - span[0], (counts > 0).sum(1)
    root = np.arange(len(size)) == 0
    has_shared = ((size >= growth.rows_shared * p) | root) & (present > 1) & (growth.discriminants and p > 0)
    has_own = has_shared & ((size >= growth.rows_own * p * present) | root)
    C = counts.shape[1]
    shared = _Kind.of(has_shared, parent, C, p, own=False)
    return shared, _Kind.of(has_own & (shared.place >= 0), parent, C, p, own=True)


def _factors(shared: _Kind, own: _Kind, growth: ClassGrowth) -> tuple[Factors, Factors]:
    p = shared.total[1].shape[2]
    sigma = np.zeros((len(shared.parent), p, p))
    nu0 = growth.nu0 * p
    shared_factors, own_factors = empty_factors(shared.total), empty_factors(own.total)
    discriminants(shared.total, shared.parent, sigma, nu0, growth.ridge, shared_factors)
    sigma_of_own = sigma[shared.place[own.place >= 0]]
    discriminants(own.total, own.parent, sigma_of_own, nu0, growth.ridge, own_factors)
    return shared_factors, own_factors


def _prior(tree: Tree, shared: _Kind, own: _Kind, growth: ClassGrowth) -> Walk:
    """Uniform v over the local models that a context has; w as set, 1 in a leaf."""
    N, T = len(tree), len(growth.temperatures)
    has = np.zeros((N, 1 + 2 * T), bool)
    has[:, 0] = True
    has[:, 1 : 1 + T] = (shared.place >= 0)[:, None]
    has[:, 1 + T :] = (own.place >= 0)[:, None]
    leaf = tree.left < 0
    with np.errstate(divide="ignore"):
        log_v = np.log(has / has.sum(1, keepdims=True))
    return log_v, np.where(leaf, np.inf, np.log(growth.stop) - np.log1p(-growth.stop))


def _without_faint(shared: Ints, own: Ints, log_v: Floats, growth: ClassGrowth) -> tuple[Ints, Ints]:
    """The places of discriminants, without those that hardly have weight: they would cost most of the time and memory.

    Weights log_v (N, J) are changed.
    """
    T = len(growth.temperatures)
    faint = log_v < np.log(FAINT)
    faint[:, 0] = False
    log_v[faint] = -np.inf
    keep_shared = (shared >= 0) & (log_v[:, 1 : 1 + T] > -np.inf).any(1)
    keep_own = (own >= 0) & (log_v[:, 1 + T :] > -np.inf).any(1)
    log_v -= np.log(np.exp(log_v).sum(1, keepdims=True))
    log_v[~(keep_shared | keep_own), 0] = 0.0
    return np.where(keep_shared, np.cumsum(keep_shared) - 1, -1), np.where(keep_own, np.cumsum(keep_own) - 1, -1)
