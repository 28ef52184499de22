"""Rows with classes: as a classifier keeps them, how their labels are read, and how they are dealt to folds."""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from coverwalk._arrays import Floats, Ints
from coverwalk.files.schema import Array, require, stored
from coverwalk.preparation.columns import MixedInputs
from coverwalk.preparation.row_codes import row_codes

MAX_WEIGHT = 1e9  # rows that a row may count as: sums of squares keep what a column varies by
MANY_ROWS = 2**14  # distinct rows that need not come in more parts than folds
MANY_PARTS = 16  # nor, however many folds there are, in more than these


@stored(read_first=("y",))
class ClassRows(NamedTuple):
    """Rows as they came: X (n, p), class of each (n,), weight of each (n,)."""

    X: Annotated[Floats, Array(float, "n", "p", nan=True, any_unit=True)]
    y: Annotated[Ints, Array(np.int64, "n", index="C")]
    weight: Annotated[Floats, Array(float, "n", low=0, high=MAX_WEIGHT)]

    def part(self, rows: Any) -> "ClassRows":
        """Some of them."""
        return ClassRows(self.X[rows], self.y[rows], self.weight[rows])


def together(parts: list[ClassRows]) -> ClassRows:
    """All rows in one part."""
    return ClassRows(*(np.concatenate(arrays) for arrays in zip(*parts)))


def joined(parts: list[ClassRows]) -> list[ClassRows]:
    """The same rows in parts of which each is longer than the next, so that they are few however many were added."""
    while len(parts) > 1 and len(parts[-1].y) >= len(parts[-2].y):
        parts[-2:] = [together(parts[-2:])]
    return parts


def checked_weights(X: Floats, y: NDArray[Any], sample_weight: Any) -> Floats:
    """The weights (n,) of rows X (n, p) whose labels y (n,) are checked too."""
    if y.dtype.kind not in "biu":  # a millisecond, more than it takes to learn a row
        check_classification_targets(y)
    if sample_weight is None:
        return np.ones(len(X))
    weight = np.array(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    if weight.max(initial=0.0) > MAX_WEIGHT:
        raise ValueError(f"a sample weight is {weight.max():g}, at most {MAX_WEIGHT:g} is allowed: scale them down")
    return weight


def merged_classes(
    known: NDArray[Any] | None, declared: bool, classes: Any, y: NDArray[Any]
) -> tuple[NDArray[Any], bool]:
    """All labels, with those of new rows, and whether these are all that may come.

    known: the labels before, or None in the first call, when ``classes`` may declare all that may come.
    """
    if classes is not None:
        named = np.unique(np.asarray(classes))
        if known is None:
            known, declared = named, True
        elif not np.array_equal(named, known):
            raise ValueError(
                f"classes={named.tolist()} differs from the classes of earlier calls, {known.tolist()}: "
                "leave it out after the first call"
            )
    if known is None or not len(known):
        return np.unique(y), declared
    if (known.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(f"labels must be all numbers or all strings, got y like {y[0]!r} for {known.tolist()}")
    merged = np.union1d(known, y)
    if declared and len(merged) > len(known):
        raise ValueError(
            f"y has labels that were not declared: {np.setdiff1d(y, known).tolist()}; declared were "
            f"{known.tolist()}. Name all in `classes` of the first call, or leave `classes` out"
        )
    return merged, declared


def check_classifier(state: Any) -> None:
    """A fitted classifier has all of its parts, and its rows have no categories but those it knows."""
    parts = ["classes_", "_forest", "_rows", "_rows_grown", "_seed", "_declared", "_n_summed", "n_features_in_"]
    has = [hasattr(state, name) for name in parts]
    if not any(has[:4]):  # saved before it was fitted
        return
    require("the fitted parts", all(has) and len(state.classes_) >= 1)
    p, mixed = state.n_features_in_, getattr(state, "_mixed", MixedInputs([]))
    require("categorical", len(mixed.categories) in (0, p))
    known = np.array(mixed.n_categories or (0,) * p)  # some may have come since the last growth
    for growth, _ in state._forest.kinds:
        grown = np.array(growth.n_categories or (0,) * p)
        require("categorical", ((grown > 0) == (known > 0)) & (grown <= known))
    codes = np.concatenate([rows.X[:, known > 0] for rows in state._rows])
    require("rows", np.isnan(codes) | ((codes >= 0) & (codes < known[known > 0]) & (codes == np.floor(codes))))


class DuplicateRows(NamedTuple):
    """Rows in an order that depends on their values alone; equal rows are bundled, and dealt out in few parts."""

    X: Floats
    y: Ints
    weight: Floats
    bundle: Ints  # (n,) equal rows have the same; parts of a bundle stand side by side

    @classmethod
    def of(cls, rows: ClassRows, held_out: int) -> "DuplicateRows":
        """Bundle rows by their values and divide the weight of each bundle: its units are dealt to the parts in turn.

        So the order in which rows are given does not matter, and a row of weight m is the same as m rows: a row of
        weight 1 is one part, and one of weight 6.5 dealt to four parts is 2, 2, 1.5 and 1. Few distinct rows come in
        many parts, as they would in a sample; many in as many as there are folds, up to 16, to save work. Rows without
        weight are left out.
        """
        X, y, weight = rows if rows.weight.all() else rows.part(rows.weight > 0.0)
        _, first, bundle = np.unique(row_codes(X, y.astype(np.float64)), return_index=True, return_inverse=True)
        X, y, weight = X[first], y[first], np.bincount(bundle, weight).astype(np.float64)
        most_parts = max(min(held_out, MANY_PARTS), MANY_ROWS // len(y))
        parts = np.minimum(np.ceil(weight), most_parts).astype(np.int64)
        bundle = np.repeat(np.arange(len(y)), parts)
        part = np.arange(len(bundle)) - np.repeat(np.cumsum(parts) - parts, parts)
        whole = np.floor(weight)[bundle]
        turns, rest = np.divmod(whole, parts[bundle])
        units = turns + (part < rest) + np.where(part == rest, weight[bundle] - whole, 0.0)
        return cls(X[bundle], y[bundle], units, bundle)

    def folds(self, n_trees: int, held_out: int, rng: np.random.Generator) -> Iterator[Ints]:
        """For each tree the parts it leaves out: every ``held_out`` trees leave out each once, classes evenly.

        No fold has two parts of a bundle, if it has at most ``held_out`` of them.
        """
        n = len(self.y)
        for k in range(n_trees):
            if k % held_out == 0:
                fold, shuffle = np.empty(n, np.int64), rng.random(self.bundle[-1] + 1)
                fold[np.lexsort((shuffle[self.bundle], self.y))] = (np.arange(n) + rng.integers(held_out)) % held_out
            yield np.flatnonzero(fold == k % held_out)
