"""One tree of contexts for classes: grown on some rows, weighed by the others, and then learned from all."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.forest.class_criterion import classes_of
from coverwalk._kernels.forest.class_walk import LEARN, FlatTrees, Walk, visit
from coverwalk._kernels.forest.discriminant import Rows, add_moments, discriminants
from coverwalk._kernels.forest.evidence import stop_weights
from coverwalk._kernels.forest.grow import empty_nodes, grow
from coverwalk._kernels.forest.node import MAX_CATEGORIES, NODE, add_to_parents
from coverwalk.files.schema import Flag, List, Real, Whole, stored
from coverwalk.forest.tree import Tree

AXES = 2.0  # features to look at in a context, in units of the root of their number
SPLITS = 16  # drawn on each of them
SAMPLE = 512  # rows that judge the splits
TEMPERATURES = (1.0, 0.3)  # exponents of a discriminant's odds
N_LOCAL = 1 + 2 * len(TEMPERATURES)  # local models of a context
ROWS_SHARED = 2.0  # rows per column that a context needs for a shared covariance
ROWS_OWN = 1.0  # rows per column and class that it needs for own ones
NU0 = 0.5  # prior rows of a covariance, per column
RIDGE = 1.0  # scatter that every column has before any row, in units of its variance
MAX_COLUMNS = 48  # of a discriminant; where x has more, each tree draws its own
MAX_FLOATS = 2**20  # of all covariances of one kind in one tree, 8 MB: the largest contexts come first
FAINT = 1e-4  # a discriminant that predicts for fewer rows of its context is not kept


@stored()
@dataclass(frozen=True)
class ClassGrowth:
    """How a tree is grown, and what its contexts believe before they see a row."""

    discriminants: Annotated[bool, Flag()]
    min_rows: Annotated[int, Whole(1)] = 1  # on either side of a split
    stop: Annotated[float, Real(above=0, below=1)] = 0.1  # w
    # prior rows of the class counts, spread like the parent's prediction
    alpha: Annotated[float, Real(low=1e-100, high=1e100, whole=True)] = 1.0
    # of each column, 0 for numbers; empty where all are numbers
    n_categories: Annotated[tuple[int, ...], List(Whole(0, MAX_CATEGORIES), kind=tuple)] = ()

    @property
    def setting(self) -> tuple[float, Floats]:
        """What the walk's kernels need to know; of an integer they would be compiled again, for seconds."""
        return float(self.alpha), np.array(TEMPERATURES, np.float64)

    def categories(self, width: int) -> Ints:
        """How many each column has that splits read; behind these come indicators of categories, up to width."""
        return np.array(self.n_categories or (0,) * width, np.int64)


class ClassTree(NamedTuple):
    """A tree in flat arrays: all that predicts and learns. Or several in one, of which ``tree`` is the last."""

    tree: Tree
    flat: FlatTrees
    levels: int  # contexts on the longest path
    alone: bool = False  # whether it was grown later than its forest, from other rows

    @property
    def walk(self) -> Walk:
        """log v (N, J) and log odds (N,)."""
        return self.flat.log_v, self.flat.log_odds

    def with_arrays(self, **arrays: Any) -> "ClassTree":
        """The same with some other arrays."""
        return self._replace(flat=self.flat._replace(**arrays))

    def visit(self, rows: Rows, order: Ints, growth: ClassGrowth, mode: int, evidence: Floats | None = None) -> Floats:
        """psi (len(order), C), the class probabilities of rows; of several trees their sum.

        See `_kernels.forest.class_walk.visit` for what else happens.
        """
        psi = np.zeros((len(order), self.flat.counts.shape[1]))
        visit(
            rows,
            order,
            self.flat,
            growth.setting,
            self.levels,
            mode,
            self.walk[0] if evidence is None else evidence,
            psi,
        )
        return psi


def joined(trees: Sequence[ClassTree]) -> tuple[ClassTree, list[ClassTree]]:
    """All trees in one, and each of them as before, in views of its arrays: what either learns, both have learned."""
    flats = [tree.flat for tree in trees]
    first, first_shared, first_own = (
        np.cumsum([0, *map(len, parts)])
        for parts in zip(*((flat.nodes, flat.shared_factors[0], flat.own_factors[0]) for flat in flats))
    )

    def moved(numbers: Iterable[Ints], by: Ints) -> Ints:
        """Numbers that are not negative, counted on."""
        return np.concatenate([np.where(part >= 0, part + m, part) for part, m in zip(numbers, by.tolist())])

    # As bytes: NumPy joins records field by field, in four times the time.
    nodes = np.concatenate([flat.nodes.view(np.uint8) for flat in flats]).view(NODE)
    nodes["left"] = moved((flat.nodes["left"] for flat in flats), first)
    views: dict[str, tuple[Any, Ints]] = {
        name: (np.concatenate([getattr(flat, name) for flat in flats]), first)
        for name in ("counts", "log_v", "log_odds")
    }
    for name, begin in (("shared_factors", first_shared), ("own_factors", first_own)):
        views[name] = tuple(np.concatenate(parts) for parts in zip(*(getattr(flat, name) for flat in flats))), begin
    whole = FlatTrees(
        nodes=nodes,
        root=first[:-1].copy(),
        shared=moved((flat.shared for flat in flats), first_shared),
        own=moved((flat.own for flat in flats), first_own),
        columns=np.concatenate([flat.columns for flat in flats]),
        **{name: array for name, (array, _) in views.items()},
    )

    def part(array: Any, here: slice) -> Any:
        return tuple(each[here] for each in array) if isinstance(array, tuple) else array[here]

    own = [
        tree.with_arrays(**{name: part(array, slice(*begin[t : t + 2])) for name, (array, begin) in views.items()})
        for t, tree in enumerate(trees)
    ]
    return ClassTree(trees[-1].tree, whole, max(tree.levels for tree in trees)), own


def grown_tree(rows: Rows, n_classes: int, inside: Ints, seed: int, growth: ClassGrowth) -> Tree:
    """Grow a tree on the rows named in ``inside``, whose order changes."""
    X, y, weight = rows
    n_categories = growth.categories(X.shape[1])
    classes = classes_of(y, weight, n_classes, max(1, round(AXES * len(n_categories) ** 0.5)), SPLITS, SAMPLE)
    grown = empty_nodes(len(inside), growth.min_rows)
    n = grow(X, inside, n_categories, np.uint64(seed), growth.min_rows, SAMPLE, None, classes, None, grown)
    return Tree(grown[0][:n].copy())


def leaf_counts(n_contexts: int, n_classes: int, leaf: Ints, y: Ints, weight: Floats) -> Floats:
    """Weight of each class in each leaf (N, C), of rows in these leaves (n,); other contexts have none."""
    counts = np.bincount(leaf * n_classes + y, weight, minlength=n_contexts * n_classes)
    return counts.astype(np.float64).reshape(n_contexts, n_classes)


def grow_class_tree(
    rows: Rows, n_classes: int, inside: Ints, outside: Ints, seed: int, growth: ClassGrowth
) -> tuple[ClassTree, Ints, Floats]:
    """Grow a tree on the rows ``inside``, let those ``outside`` weigh it one by one, and learn all of them.

    Returns the tree, the rows outside in the order they came, and psi (len(outside), C): the tree's prediction of each
    before it had seen it.
    """
    X, y, weight = rows
    rng = np.random.default_rng(seed)
    inside, order = rng.permutation(inside), rng.permutation(outside)
    tree = grown_tree(rows, n_classes, inside, seed, growth)
    leaf = tree.leaves(X)
    counts, size = (
        tree.sum_upwards(leaf_counts(len(tree), C, leaf[inside], of[inside], m[inside]))
        for C, of, m in ((n_classes, y, weight), (1, np.zeros_like(y), np.ones_like(weight)))
    )
    n_categories = growth.categories(X.shape[1])
    columns = np.append(np.flatnonzero(n_categories == 0), np.arange(len(n_categories), X.shape[1]))  # of numbers
    if len(columns) > MAX_COLUMNS:
        columns = np.sort(rng.choice(columns, MAX_COLUMNS, replace=False))
    has = _large_enough(counts, size[:, 0], tree.parent, len(columns), growth)
    flat = flat_tree(tree, counts, has, columns, _prior(tree, has, growth))
    begun = ClassTree(tree, flat, int(tree.depth.max()) + 1)
    seen: Any = tuple(part[inside] for part in rows)
    psi = with_factors(begun, seen, leaf[inside]).visit(rows, order, growth, LEARN)  # walks have now seen all rows
    return with_factors(without_faint(begun), rows, leaf), order, psi


def flat_tree(tree: Tree, counts: Floats, has: tuple[Bools, Bools], columns: Ints, walk: Walk) -> FlatTrees:
    """A tree in flat arrays; has: the contexts (N,) with discriminants of shared and of own covariances, to be made."""
    none: Any = ()
    root = np.zeros(1, np.int64)
    return FlatTrees(tree.nodes, root, counts, _places(has[0]), _places(has[1]), none, none, columns[None], *walk)


def _places(has: Bools) -> Ints:
    return np.where(has, np.cumsum(has) - 1, -1)


def with_factors(class_tree: ClassTree, rows: Rows, leaf: Ints) -> ClassTree:
    """The tree with the discriminants that it has a place for, made from rows, which are in these leaves (n,)."""
    moments = empty_moments(class_tree)
    add_rows(class_tree, rows, leaf, moments)
    return with_moments(class_tree, moments)


def empty_moments(class_tree: ClassTree) -> tuple[Floats, ...]:
    """The moments that the discriminants of a tree need, three arrays of shared and three of own covariances."""
    C, p = class_tree.flat.counts.shape[1], class_tree.flat.columns.shape[1]
    sizes = zip((int(place.max()) + 1 for place in _needed(class_tree)), (1, C))
    return tuple(np.zeros(shape) for G, m in sizes for shape in ((G, C), (G, C, p), (G, m, p, p)))


def add_rows(class_tree: ClassTree, rows: Rows, leaf: Ints, moments: Sequence[Floats]) -> None:
    """Add rows, which are in these leaves (n,), to moments: each in the deepest context alone that needs them."""
    for place, (n, sums, squares) in zip(_needed(class_tree), (moments[:3], moments[3:])):
        add_moments(rows, leaf, class_tree.tree.parent, place, class_tree.flat.columns[0], (n, sums, squares))


def with_moments(class_tree: ClassTree, moments: Sequence[Floats]) -> ClassTree:
    """The tree with discriminants from such moments of all rows, to which those of the contexts below are added."""
    flat, parent, made = class_tree.flat, class_tree.tree.parent, []
    C, p = flat.counts.shape[1], flat.columns.shape[1]
    needed = _needed(class_tree)
    sigma = np.zeros((len(moments[0]), p, p))
    for own, (place, kept) in enumerate(zip(needed, (flat.shared, flat.own))):
        n, sums, squares = moments[3 * own : 3 * own + 3]
        above = parent[place >= 0]
        above = np.where(above >= 0, place[above], -1)
        for part in (n, sums, squares):
            add_to_parents(above, part.reshape(len(n), math.prod(part.shape[1:])))
        head, gain, power = (np.zeros((len(n), C)) for _ in range(3))
        factors = np.zeros_like(squares), np.zeros_like(sums), head, gain, power
        of_own = sigma[needed[0][place >= 0]] if own else sigma
        discriminants((n, sums, squares), above, of_own, NU0 * p, RIDGE, factors)
        made.append(tuple(part[place[kept >= 0]] for part in factors))
    return class_tree.with_arrays(shared_factors=made[0], own_factors=made[1])


def _needed(class_tree: ClassTree) -> list[Ints]:
    """The places (N,) of contexts in the moments of shared and of own covariances."""
    flat = class_tree.flat
    return [_places(has) for has in needed_contexts(flat.shared >= 0, flat.own >= 0, class_tree.tree.parent)]


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


def _large_enough(counts: Floats, size: Floats, parent: Ints, p: int, growth: ClassGrowth) -> tuple[Bools, Bools]:
    """Which contexts have rows enough for discriminants, of shared and of own covariances; that of all rows always has.

    It is one in a tree, and costs little; deeper ones cost most of the time and of the file.
    """
    present = (counts > 0).sum(1)
    root = np.arange(len(size)) == 0

    def first(has: Bools, n_covariances: int) -> Bools:
        has = has & (np.cumsum(has) <= MAX_FLOATS // max(p * p * n_covariances, 1))
        for k in np.flatnonzero(has):  # a context has one only if its parent has
            has[k] = k == 0 or has[parent[k]]
        return has

    shared = first(((size >= ROWS_SHARED * p) | root) & (present > 1) & (growth.discriminants and p > 0), 1)
    return shared, first(shared & ((size >= ROWS_OWN * p * present) | root), counts.shape[1])


def _prior(tree: Tree, has: tuple[Bools, Bools], growth: ClassGrowth) -> Walk:
    """Uniform v over the local models that a context has; w as set, 1 in a leaf."""
    every = np.column_stack([np.ones(len(tree), bool), *(kind for kind in has for _ in TEMPERATURES)])
    with np.errstate(divide="ignore"):
        log_v = np.log(every / every.sum(1, keepdims=True))
    return log_v, np.where(tree.left < 0, np.inf, np.log(growth.stop) - np.log1p(-growth.stop))


def without_faint(class_tree: ClassTree) -> ClassTree:
    """The tree without the discriminants that hardly have weight: they would cost most of the time and memory.

    Its weights log_v (N, J) are changed.
    """
    T, flat, log_v = len(TEMPERATURES), class_tree.flat, class_tree.flat.log_v
    faint = log_v < np.log(FAINT)
    faint[:, 0] = False
    log_v[faint] = -np.inf
    log_v -= np.log(np.exp(log_v).sum(1, keepdims=True))
    kept: dict[str, Any] = {}
    for kind, name in enumerate(("shared", "own")):
        place, factors = getattr(flat, name), getattr(flat, f"{name}_factors")
        has = (place >= 0) & (log_v[:, 1 + kind * T : 1 + (kind + 1) * T] > -np.inf).any(1)
        kept |= {name: _places(has), f"{name}_factors": tuple(part[place[has]] for part in factors)}
    log_v[(kept["shared"] < 0) & (kept["own"] < 0), 0] = 0.0
    return class_tree.with_arrays(**kept)


def with_evidence(class_tree: ClassTree, log_phi: Floats) -> ClassTree:
    """The tree with the walk as rows weigh it: log_phi (N, J) are sums over them, of each local model.

    Evidence goes upwards: Z_M = w phi_M + (1 - w) Z_left Z_right, from the w and v that there are.
    """
    leaf, (log_v, log_odds) = class_tree.tree.left < 0, class_tree.walk
    log_v = log_v + log_phi
    log_phi_M = np.logaddexp.reduce(log_v, axis=1)
    log_2w, log_2go = np.where(leaf, 0.0, np.log(2.0) - np.logaddexp(0.0, [-log_odds, log_odds]))  # each has its own w
    log_stop, log_go = np.empty((2, len(leaf)))
    stop_weights(class_tree.tree.left, log_phi_M + log_2w, 0.5, log_stop, log_go, log_2go)
    with np.errstate(invalid="ignore"):
        log_odds = np.where(leaf, np.inf, log_stop - log_go)
    return without_faint(class_tree.with_arrays(log_v=log_v - log_phi_M[:, None], log_odds=log_odds))
