"""What a file holds of a tree for classes: what neither the tree nor the rows of its forest tell.

Discriminants are most of a tree, and are made again from the rows on loading, by the function that made them in `fit`:
to the same bits. Where the rows are gone, or that would take long or much memory, they are in the file.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.forest.class_walk import Rows
from coverwalk._kernels.forest.discriminant import Factors
from coverwalk.files.schema import Array, Maybe, Object, Scope, Tuple, require, stored
from coverwalk.forest.class_tree import MAX_FLOATS, ClassGrowth, ClassTree, needed_contexts, with_factors
from coverwalk.forest.tree import Tree

# Of what all trees of a forest make again: bytes, beside a multiple of those of its rows, and sums of products
MAX_BYTES, PER_BYTE, MAX_WORK = 2**27, 4, 4e9
LARGEST = 1e30  # of a number in units of order one, as in other arrays of a file

Kinds = list[tuple[ClassGrowth, list[Any]]]


def _factors_of(covariances: int | str) -> Tuple:
    return Tuple(
        Array(float, "G", covariances, "width", "width"),
        Array(float, "G", "C", "width"),
        Array(float, "G", "C"),
        Array(float, "G", "C", above=0, high=1),
        Array(float, "G", "C", above=0),
    )


def _check(state: Any, scope: Scope) -> None:
    """Discriminants are there, with positive pivots; one that is not there has no weight."""
    has = state.shared | state.own
    require("v", len(state.log_v) == has.sum())
    require("odds", len(state.log_odds) == (state.tree.left >= 0).sum())
    missing = np.repeat(~np.stack([state.shared, state.own], axis=1)[has], len(scope["temperatures"]), axis=1)
    require("v", np.isneginf(state.log_v[:, 1:]) | ~missing)
    for place, factors in zip((state.shared, state.own), state.factors or ()):
        require("factors", len(factors[0]) == place.sum() and (len(factors[0]) == 0 or factors[0].shape[2] > 0))
        _check_factors(factors)


def _check_factors(factors: Any) -> None:
    require("factors", np.diagonal(factors[0], axis1=2, axis2=3) > 0)
    for part in factors:
        require("factors", np.abs(part) <= LARGEST)  # NaN is not


@stored(check=_check)
class StoredClassTree(NamedTuple):
    """The arrays of a `ClassTree` that nothing else tells."""

    tree: Annotated[Tree, Object(Tree, p="p")]
    counts: Annotated[Floats, Array(float, "tree.N", "C", low=0)]
    shared: Annotated[Bools, Array(bool, "tree.N")]  # whether a context has a discriminant of this kind
    own: Annotated[Bools, Array(bool, "tree.N")]
    columns: Annotated[Ints, Array(np.int64, "width", index="columns")]
    # None where the rows of the forest tell
    factors: Annotated[tuple[Factors, Factors] | None, Maybe(Tuple(_factors_of(1), _factors_of("C")))]
    # of the contexts with a discriminant: others have their counts alone
    log_v: Annotated[Floats, Array(float, "V", "1 + 2 * len(temperatures)", high=1e-6, inf=True, log_total=1.0)]
    log_odds: Annotated[Floats, Array(float, "I")]  # of the contexts that are no leaves: those stop


class _Budget:
    """What may still be made again, for all trees of a forest with these rows."""

    def __init__(self, rows: Rows | None) -> None:
        self.n_rows = 0 if rows is None else len(rows[1])
        self.bytes = -1.0 if rows is None else MAX_BYTES + PER_BYTE * sum(part.nbytes for part in rows)
        self.work = MAX_WORK

    def takes(self, kept: StoredClassTree) -> bool:
        """Whether the discriminants of a tree are made again: as long as there is room for them."""
        C, p = kept.counts.shape[1], len(kept.columns)
        shared, own = (has.sum() for has in needed_contexts(kept.shared, kept.own, kept.tree.parent))
        if max(shared, own * C) * p * p > MAX_FLOATS:
            return False
        n_bytes = 8 * ((shared + own * C) * p * p + (shared + own) * (C * p + 3 * C))
        work = self.n_rows * (p * p + float(kept.tree.depth.max())) + float(shared + own * C) * p**3
        if n_bytes > self.bytes or work > self.work:
            return False
        self.bytes, self.work = self.bytes - n_bytes, self.work - work
        return True


def trees_to_store(kinds: Kinds, rows: Rows | None) -> Kinds:
    """What a file holds of the trees of a forest that was grown on these rows, as its trees see them, or on some that
    are gone.
    """
    budget = _Budget(rows)

    def of(class_tree: ClassTree) -> StoredClassTree:
        counts, shared, own, *factors, columns = class_tree.local
        has, (log_v, log_odds) = (shared >= 0) | (own >= 0), class_tree.walk
        inner = class_tree.tree.left >= 0
        told: Any = tuple(factors)
        kept = StoredClassTree(
            class_tree.tree, counts, shared >= 0, own >= 0, columns, told, log_v[has], log_odds[inner]
        )
        return kept._replace(factors=None) if budget.takes(kept) else kept

    return [(growth, [of(tree) for tree in trees]) for growth, trees in kinds]


def restored_trees(kinds: Kinds, rows: Rows | None) -> Kinds:
    """The trees of what `trees_to_store` has made; SchemaError where there is too much to make."""
    budget = _Budget(rows)

    def of(kept: StoredClassTree, growth: ClassGrowth) -> ClassTree:
        N, (shared, own) = len(kept.tree), (np.where(has, np.cumsum(has) - 1, -1) for has in (kept.shared, kept.own))
        log_v, log_odds = np.full((N, kept.log_v.shape[1]), -np.inf), np.full(N, np.inf)
        log_v[:, 0] = 0.0
        log_v[kept.shared | kept.own], log_odds[kept.tree.left >= 0] = kept.log_v, kept.log_odds
        levels = int(kept.tree.depth.max()) + 1
        cheap = budget.takes(kept)
        local: Any = (kept.counts, shared, own, *(kept.factors or ((), ())), kept.columns)
        class_tree = ClassTree(kept.tree, local, (log_v, log_odds), levels)
        if kept.factors is not None:
            return class_tree
        require("factors", cheap and rows is not None)
        assert rows is not None
        made = with_factors(class_tree, rows, growth)
        for factors in made.local[3:5]:
            _check_factors(factors)
        return made

    return [(growth, [of(tree, growth) for tree in trees]) for growth, trees in kinds]
