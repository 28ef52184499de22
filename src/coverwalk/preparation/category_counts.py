"""The categories over rows that come in chunks: counted wherever the rows are, and added up.

A chunk does not know the categories of others. So the first pass takes every category by a number that its content
decides, and counts; when all rows were counted the tables are those of `fit` on all of them, and every later pass
uses them.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.preparation.categories import OTHERS, column_values, digest, encoded, frequent_categories, in_order
from coverwalk.preparation.columns import MixedInputs
from coverwalk.preparation.frames import columns_of


def digests(column: Any) -> Floats:
    """A number for each value of a column, of what it is alone; NaN where it is missing.

    >>> one, other = digests(["a", None, "b"]), digests(["b", "a"])
    >>> bool(one[0] == other[1] and one[2] == other[0]), bool(np.isnan(one[1]))
    (True, True)
    """
    values = column_values(column)
    known = {value: digest(value) for value in set(values) if value is not None}
    return np.array([np.nan if value is None else known[value] for value in values], dtype=np.float64)


@dataclass
class CategoryCounts:
    """How often each category of some columns came, and which columns have missing values."""

    columns: tuple[int, ...]
    n_inputs: int
    counts: dict[int, Counter[Any]] = field(default_factory=lambda: defaultdict(Counter))
    with_missing: set[int] = field(default_factory=set)

    def empty(self) -> "CategoryCounts":
        """The same columns without rows."""
        return CategoryCounts(self.columns, self.n_inputs)

    def accumulate(self, X: Any, numbers: Floats) -> None:
        """Count the categories of further rows; ``numbers`` are those rows as numbers."""
        self.with_missing |= set(np.flatnonzero(np.isnan(numbers).any(axis=0)).tolist())
        table = columns_of(X) if self.columns else []
        for a in self.columns:
            self.counts[a].update(value for value in column_values(table[a]) if value is not None)

    def merge(self, other: "CategoryCounts") -> None:
        """Add what another has counted."""
        self.with_missing |= other.with_missing
        for a, counts in other.counts.items():
            self.counts[a].update(counts)

    def mixed(self) -> MixedInputs:
        """The tables that `fit` on all rows would have made."""
        if not self.columns:
            return MixedInputs([])
        chosen = set(self.columns)
        return MixedInputs(
            [frequent_categories(self.counts.get(a, {})) if a in chosen else [] for a in range(self.n_inputs)]
        )

    def every(self) -> MixedInputs:
        """The tables with all categories."""
        return MixedInputs([in_order(self.counts.get(a, {})) for a in range(self.n_inputs)] if self.columns else [])

    def values(self, a: int, column: Floats) -> list[Any]:
        """The categories behind the digests of column a; None where one is missing."""
        value = {digest(category): category for category in self.counts.get(a, {})}
        return [None if number != number else value[number] for number in column.tolist()]


def category_codes(X: Floats, mixed: MixedInputs) -> Floats:
    """Rows whose categories are digests, with their numbers instead."""
    if not mixed.coded:
        return X
    coded = X.copy()
    for a, numbers in enumerate(mixed.numbers):
        if numbers:
            known, place = np.unique(X[:, a], return_inverse=True)
            of_digest = {name if name == OTHERS else digest(name): number for name, number in numbers.items()}
            coded[:, a] = encoded(known, of_digest)[place]
    return coded
