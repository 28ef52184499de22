"""What a file holds of a tree for classes: what neither the tree nor the rows of its forest tell.

Discriminants are most of a tree, and are made again from the rows on loading, by the function that made them in `fit`:
to the same bits. Where the rows are gone, or that would take long or much memory, they are in the file, as triangles.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.forest.class_walk import Rows
from coverwalk._kernels.forest.discriminant import Factors
from coverwalk.files.schema import Array, Maybe, Object, Scope, Tuple, Whole, require, stored
from coverwalk.forest.class_tree import (
    MAX_FLOATS,
    N_LOCAL,
    TEMPERATURES,
    ClassGrowth,
    ClassTree,
    flat_tree,
    needed_contexts,
    with_factors,
)
from coverwalk.forest.tree import Tree

# Of what all trees of a forest make again: bytes, beside a multiple of those of its rows, and sums of products
MAX_BYTES, PER_BYTE, MAX_WORK = 2**27, 4, 4e9
LARGEST = 1e30  # of a number in units of order one, as in other arrays of a file

Kinds = list[tuple[ClassGrowth, list[Any]]]
RowsOf = (
    Callable[[int], Rows] | None
)  # as trees see them, of the first rows of the forest, so many; None: they are gone


def _factors_of(covariances: int | str) -> Tuple:
    return Tuple(
        Array(float, "G", covariances, "width * (width + 1) // 2"),  # upper triangles, row by row
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
    missing = np.repeat(~np.stack([state.shared, state.own], axis=1)[has], len(TEMPERATURES), axis=1)
    require("v", np.isneginf(state.log_v[:, 1:]) | ~missing)
    for place, factors in zip((state.shared, state.own), state.factors or ()):
        require("factors", len(factors[0]) == place.sum() and (len(factors[0]) == 0 or len(state.columns) > 0))
        row, column = np.triu_indices(len(state.columns))
        _check_factors(factors, factors[0][:, :, row == column])


def _check_factors(factors: Any, pivots: Floats) -> None:
    require("factors", pivots > 0)
    for part in factors:
        require("factors", np.abs(part) <= LARGEST)  # NaN is not


@stored(check=_check)
class StoredClassTree(NamedTuple):
    """The arrays of a `ClassTree` that nothing else tells."""

    tree: Annotated[Tree, Object(Tree, p="p")]
    n_rows: Annotated[int, Whole(1, 10**15)]  # from which it was grown
    counts: Annotated[Floats, Array(float, "tree.N", "C", low=0)]
    shared: Annotated[Bools, Array(bool, "tree.N")]  # whether a context has a discriminant of this kind
    own: Annotated[Bools, Array(bool, "tree.N")]
    columns: Annotated[Ints, Array(np.int64, "width", index="columns")]
    # None where the rows of the forest tell
    factors: Annotated[tuple[Factors, Factors] | None, Maybe(Tuple(_factors_of(1), _factors_of("C")))]
    # of the contexts with a discriminant: others have their counts alone
    log_v: Annotated[Floats, Array(float, "V", N_LOCAL, high=1e-6, inf=True, log_total=1.0)]
    log_odds: Annotated[Floats, Array(float, "I")]  # of the contexts that are no leaves: those stop


class _Budget:
    """What may still be made again, for all trees of a forest with these rows."""

    def __init__(self, rows_of: RowsOf) -> None:
        self.rows_of = rows_of
        self.bytes, self.work = 0.0, 0.0

    def rows_for(self, kept: StoredClassTree) -> Rows | None:
        """The rows from which the discriminants of a tree are made again; None where there is no room for them."""
        if self.rows_of is None:
            return None
        C, p = kept.counts.shape[1], len(kept.columns)
        shared, own = (has.sum() for has in needed_contexts(kept.shared, kept.own, kept.tree.parent))
        if max(shared, own * C) * p * p > MAX_FLOATS:
            return None
        n_bytes = 8 * ((shared + own * C) * p * p + (shared + own) * (C * p + 3 * C))
        work = kept.n_rows * (p * p + float(kept.tree.depth.max())) + float(shared + own * C) * p**3
        if self.work + work > MAX_WORK:
            return None
        rows = self.rows_of(kept.n_rows)
        if self.bytes + n_bytes > MAX_BYTES + PER_BYTE * sum(part.nbytes for part in rows):
            return None
        self.bytes, self.work = self.bytes + n_bytes, self.work + work
        return rows


def trees_to_store(kinds: Kinds, rows_of: RowsOf) -> Kinds:
    """What a file holds of the trees of a forest."""
    budget = _Budget(rows_of)

    def of(class_tree: ClassTree) -> StoredClassTree:
        tree, flat = class_tree.tree, class_tree.flat
        shared, own = flat.shared >= 0, flat.own >= 0
        row, column = np.triu_indices(flat.columns.shape[1])
        factors: Any = tuple((U[:, :, row, column], *rest) for U, *rest in (flat.shared_factors, flat.own_factors))
        walk = flat.log_v[shared | own], flat.log_odds[tree.left >= 0]
        kept = StoredClassTree(tree, class_tree.n_rows, flat.counts, shared, own, flat.columns[0], factors, *walk)
        return kept if budget.rows_for(kept) is None else kept._replace(factors=None)

    return [(growth, [of(tree) for tree in trees]) for growth, trees in kinds]


def restored_trees(kinds: Kinds, rows_of: RowsOf) -> Kinds:
    """The trees of what `trees_to_store` has made; SchemaError where there is too much to make."""
    budget = _Budget(rows_of)

    def of(kept: StoredClassTree) -> ClassTree:
        tree, N = kept.tree, len(kept.tree)
        log_v, log_odds = np.full((N, N_LOCAL), -np.inf), np.full(N, np.inf)
        log_v[:, 0] = 0.0
        log_v[kept.shared | kept.own], log_odds[tree.left >= 0] = kept.log_v, kept.log_odds
        flat = flat_tree(tree, kept.counts, (kept.shared, kept.own), kept.columns, (log_v, log_odds))
        class_tree = ClassTree(tree, flat, int(tree.depth.max()) + 1, kept.n_rows)
        rows = budget.rows_for(kept)
        if kept.factors is not None:
            shared, own = (_whole(factors, len(kept.columns)) for factors in kept.factors)
            return class_tree._replace(flat=flat._replace(shared_factors=shared, own_factors=own))
        require("factors", rows is not None)
        assert rows is not None
        made = with_factors(class_tree, rows, tree.leaves(rows[0]))
        for factors in (made.flat.shared_factors, made.flat.own_factors):
            _check_factors(factors, np.diagonal(factors[0], axis1=2, axis2=3))
        return made

    return [(growth, [of(tree) for tree in trees]) for growth, trees in kinds]


def _whole(factors: Factors, width: int) -> Factors:
    """Factors with matrices in place of triangles."""
    triangles, *rest = factors
    U = np.zeros((*triangles.shape[:2], width, width))
    U[:, :, *np.triu_indices(width)] = triangles
    return (U, *rest)
