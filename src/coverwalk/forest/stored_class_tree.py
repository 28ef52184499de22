"""What a file holds of a tree for classes: what neither the tree nor the rows of its forest tell.

Discriminants are most of a tree, and are made again from the rows on loading, by the function that made them in `fit`:
to the same bits. Where the rows are gone, or that would take long or much memory, they are in the file, as triangles.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.forest.discriminant import Factors, Rows
from coverwalk.files.schema import Array, Maybe, Object, Scope, Tuple, require, stored
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
    counts: Annotated[Floats, Array(float, "tree.N", "C", low=0)]
    shared: Annotated[Bools, Array(bool, "tree.N")]  # whether a context has a discriminant of this kind
    own: Annotated[Bools, Array(bool, "tree.N")]
    columns: Annotated[Ints, Array(np.int64, "width", index="columns")]
    # None where the rows of the forest tell
    factors: Annotated[tuple[Factors, Factors] | None, Maybe(Tuple(_factors_of(1), _factors_of("C")))]
    # of the contexts with a discriminant: others have their counts alone
    log_v: Annotated[Floats, Array(float, "V", N_LOCAL, high=1e-6, inf=True, log_total=1.0)]
    log_odds: Annotated[Floats, Array(float, "I")]  # of the contexts that are no leaves: those stop


def _is_cheap(kept: StoredClassTree, rows: Rows | None, n_trees: int) -> bool:
    """Whether discriminants can be made from rows in little time and memory, in each of n_trees trees."""
    if rows is None:
        return False
    C, p = kept.counts.shape[1], len(kept.columns)
    shared, own = (has.sum() for has in needed_contexts(kept.shared, kept.own, kept.tree.parent))
    n_bytes = 8 * ((shared + own * C) * p * p + (shared + own) * (C * p + 3 * C))
    work = len(rows[1]) * (p * p + float(kept.tree.depth.max())) + float(shared + own * C) * p**3
    return bool(
        max(shared, own * C) * p * p <= MAX_FLOATS
        and work * n_trees <= MAX_WORK
        and n_bytes * n_trees <= MAX_BYTES + PER_BYTE * sum(part.nbytes for part in rows)
    )


def trees_to_store(kinds: Kinds, rows: Rows | None) -> Kinds:
    """What a file holds of the trees of a forest that was grown on these rows, as its trees see them, or on some that
    are gone.
    """

    def of(class_tree: ClassTree, n_trees: int) -> StoredClassTree:
        tree, flat = class_tree.tree, class_tree.flat
        shared, own = flat.shared >= 0, flat.own >= 0
        row, column = np.triu_indices(flat.columns.shape[1])
        factors: Any = tuple((U[:, :, row, column], *rest) for U, *rest in (flat.shared_factors, flat.own_factors))
        walk = flat.log_v[shared | own], flat.log_odds[tree.left >= 0]
        kept = StoredClassTree(tree, flat.counts, shared, own, flat.columns[0], factors, *walk)
        return kept._replace(factors=None) if not class_tree.alone and _is_cheap(kept, rows, n_trees) else kept

    return [(growth, [of(tree, len(trees)) for tree in trees]) for growth, trees in kinds]


def restored_trees(kinds: Kinds, rows: Rows | None) -> Kinds:
    """The trees of what `trees_to_store` has made; SchemaError where there is too much to make."""

    def of(kept: StoredClassTree, n_trees: int) -> ClassTree:
        tree, N, width = kept.tree, len(kept.tree), len(kept.columns)
        log_v, log_odds = np.full((N, N_LOCAL), -np.inf), np.full(N, np.inf)
        log_v[:, 0] = 0.0
        log_v[kept.shared | kept.own], log_odds[tree.left >= 0] = kept.log_v, kept.log_odds
        flat = flat_tree(tree, kept.counts, (kept.shared, kept.own), kept.columns, (log_v, log_odds))
        class_tree = ClassTree(tree, flat, int(tree.depth.max()) + 1, alone=kept.factors is not None)
        if kept.factors is not None:
            whole = []
            for triangles, *rest in kept.factors:
                U = np.zeros((*triangles.shape[:2], width, width))
                U[:, :, *np.triu_indices(width)] = triangles
                whole.append((U, *rest))
            return class_tree.with_arrays(shared_factors=whole[0], own_factors=whole[1])
        require("factors", _is_cheap(kept, rows, n_trees))
        assert rows is not None
        made = with_factors(class_tree, rows, tree.leaves(rows[0]))
        for factors in (made.flat.shared_factors, made.flat.own_factors):
            _check_factors(factors, np.diagonal(factors[0], axis1=2, axis2=3))
        return made

    return [(growth, [of(tree, len(trees)) for tree in trees]) for growth, trees in kinds]
