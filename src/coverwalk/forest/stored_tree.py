"""What a file holds of a fitted tree: what neither the tree nor the rows of its forest tell.

A forest that keeps its rows makes the ranges, rows and factors of its contexts again on loading, by the kernel that
made them in `fit`: to the same bits. A stream's trees, and those of sums, have theirs in the file, as have those where
that would take long or much memory.
"""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints, Ints32
from coverwalk._kernels.forest.components import DENSITY_OF_Y, MAX_MODELS, MAX_PLANE, REGRESSION, Learned, Records
from coverwalk._kernels.forest.contexts import Layout
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk._kernels.forest.records import at_rest, fill_spans, find_homes, span_sizes, whole_records
from coverwalk.distributions.shapes import STUDENT, Shapes
from coverwalk.files.schema import Array, Maybe, Object, Scope, require, stored
from coverwalk.forest.local_columns import Fill, local_columns
from coverwalk.forest.tree import Tree

if TYPE_CHECKING:
    from coverwalk.forest.members import FittedTree

MAX_BYTES, MAX_WORK = 2**27, 4e9  # of what all trees of a forest make again: beyond, it is in the file
_KNOWN = ("first", "kind", "weight", "s2", "centre", "mean", "degree", "ridge", "n_rows")


@stored()
class Spans(NamedTuple):
    """What comes from the rows of contexts; see `Records`."""

    low: Annotated[Floats, Array(float, "C", "p")]
    high: Annotated[Floats, Array(float, "C", "p")]
    rows: Annotated[Floats, Array(float, "T", "p")]
    factors: Annotated[Floats, Array(float, "F", low=-1e100, high=1e100)]  # of sums of squares


def _positive(matrices: Floats) -> bool:
    """Whether all matrices (n, m, m) are symmetric and positive definite."""
    symmetric = np.abs(matrices - matrices.transpose(0, 2, 1)).max(initial=0.0) <= 1e-9
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return bool(symmetric)


def _check(tree: Any, scope: Scope) -> None:
    """Components, shapes and what was learned go together."""
    p, d = scope["p"], tree.centre.shape[1]
    require("weight", len(tree.weight) >= 1)
    require("first", tree.first[1] > 0 and int((np.diff(tree.first) > 0).sum()) == scope["C"])
    require("first", np.diff(tree.first) <= MAX_MODELS)
    require("shape", (tree.shapes.kind[tree.shape] == STUDENT) == (tree.kind == REGRESSION))
    require("averaged", tree.n_rows[tree.averaged] > 0)
    require("degree", np.array([n_features(degree, p) for degree in range(3)])[tree.degree] <= d)
    if tree.learned:
        require("plane", tree.learned.plane.shape[1] == (p + 1 if p < MAX_PLANE else 1))
        require("inverse", len(tree.learned.inverse) in (0, scope["C"]) and _positive(tree.learned.inverse))


@stored(read_first=("kind", "shapes"), check=_check)
class StoredTree(NamedTuple):
    """The arrays of `Records` that nothing else tells, and the rest of a `FittedTree`."""

    first: Annotated[Ints, Array(np.int64, "N + 1", offsets="R")]
    kind: Annotated[Ints, Array(np.int64, "R", low=REGRESSION, high=DENSITY_OF_Y)]
    weight: Annotated[Floats, Array(float, "S", "R", low=0, high=1 + 1e-9)]
    s2: Annotated[Floats, Array(float, "R", above=0)]
    centre: Annotated[Floats, Array(float, "C", "d")]
    mean: Annotated[Floats, Array(float, "C")]
    degree: Annotated[Ints, Array(np.int64, "C", low=0, high=2)]
    ridge: Annotated[Floats, Array(float, "C", above=0)]
    n_rows: Annotated[Ints, Array(np.int64, "C", low=0, high=10**15)]
    averaged: Annotated[Bools, Array(bool, "C")]  # whether the mean leverage stands for all
    shape: Annotated[Ints32, Array(np.int32, "R", index="shapes.s")]
    shapes: Annotated[Shapes, Object(Shapes)]
    fill: Annotated[Fill, Object(Fill, N="N", p="p")]
    learned: Annotated[Learned | None, Maybe(Object(Learned, C="C", R="R"))]  # None where nothing was learned
    spans: Annotated[Spans | None, Maybe(Object(Spans, C="C", p="p"))]  # None where the rows of the forest tell


class RowsOfForest(NamedTuple):
    """The rows to which trees were fitted, in canonical order and in units."""

    Z: Floats
    weight: Floats  # (n,), or empty
    n_categories: tuple[int, ...]
    n_trees: int

    def arrange(self, tree: Tree, fill: Fill) -> tuple[Floats, Layout]:
        """What the local models of a tree see, sorted by leaf."""
        perm, layout = tree.arrange(self.Z)
        if len(self.weight):
            layout = layout._replace(weight=self.weight[perm])
        return local_columns(tree, self.Z, fill, self.n_categories)[perm], layout


def to_store(tree: Tree, fitted: "FittedTree", rows: RowsOfForest | None) -> StoredTree:
    """What a file holds of a tree that was fitted to these rows, or to some that are gone."""
    records, learned = fitted.records, fitted.learned
    new = all(np.array_equal(a, b) for a, b in zip(learned, at_rest(records)))
    known: Any = (getattr(records, name) for name in _KNOWN)
    spans = Spans(records.low, records.high, records.rows, records.factors)
    kept = StoredTree._make(
        (*known, records.leverage > 0, fitted.shape, fitted.shapes, fitted.fill, None if new else learned, spans)
    )
    p = records.low.shape[1]
    cheap = rows is not None and _is_cheap(kept, rows.arrange(tree, fitted.fill), p, rows.n_trees)
    return kept._replace(spans=None) if cheap else kept


def restored(tree: Tree, kept: StoredTree, rows: RowsOfForest | None, p: int) -> "FittedTree":
    """The fitted tree; SchemaError where what is stored is none."""
    from coverwalk.forest.members import FittedTree

    known: dict[str, Any] = {name: getattr(kept, name) for name in _KNOWN}
    if kept.spans:
        n_kept, order = span_sizes(kept.n_rows, kept.degree, kept.averaged, p)
        require("rows", len(kept.spans.rows) == n_kept.sum())
        require("factors", len(kept.spans.factors) == (order * (order + 1) // 2).sum())
        records = whole_records(tree.parent, p, kept.averaged, tuple(kept.spans), **known)
    else:
        require("rows", rows is not None)
        assert rows is not None
        arranged = rows.arrange(tree, kept.fill)
        require("rows", _is_cheap(kept, arranged, p, rows.n_trees))
        records = whole_records(tree.parent, p, kept.averaged, (), **known)
        fill_spans(*arranged, records)
    require("weight", records.total[:, tree.left < 0] > 0)  # higher up it may underflow
    _check_factors(records)
    return FittedTree(records, kept.shape, kept.shapes, kept.learned or at_rest(records), kept.fill)


def _is_cheap(kept: StoredTree, arranged: tuple[Floats, Layout], p: int, n_trees: int) -> bool:
    """Whether spans can be made from rows in little time and memory, in each of n_trees trees."""
    layout, nonzero = arranged[1], np.diff(kept.first) > 0
    if not np.array_equal(kept.n_rows, (layout.end - layout.start)[nonzero]):
        return False
    home = np.empty(len(nonzero), np.int64)
    find_homes(layout, home)
    n = (layout.end - layout.start)[home[nonzero]].astype(float)
    n_kept, order = span_sizes(kept.n_rows, kept.degree, kept.averaged, p)
    work = n * (p + order * np.where(n_kept > 0, p, order)) + order.astype(float) ** 3
    n_bytes = 8 * (n_kept * p + order * (order + 1) // 2 + 2 * p).sum()
    return bool(work.sum() * n_trees <= MAX_WORK and n_bytes * n_trees <= MAX_BYTES)


def _check_factors(records: Records) -> None:
    """Packed triangles have positive pivots."""
    order = np.diff(np.append(records.factor_at, len(records.factors)))
    order = ((np.sqrt(8.0 * order + 1) - 1) / 2).round().astype(np.int64)
    row = np.arange(order.sum()) - np.repeat(np.cumsum(order) - order, order)
    pivot = np.repeat(records.factor_at, order) + row * np.repeat(order, order) - row * (row - 1) // 2
    require("factors", records.factors[pivot] > 1e-60)  # the root of the least ridge is 1e-50
