"""Rows as dictionaries, made into rows of a table whose columns come and go.

A feature has a column from the first row on that has a value of it: a column of numbers, or of categories where that
value is text. Where a row lacks it, or has None or NaN, the value is missing: NaN. A feature that is new later on needs
a wider table, and the model has to learn its rows again, the older ones without the new feature: at once while rows are
few, afterwards when their number has doubled since the last time, so that a row costs the same on average however many
features come. Until then, and in predictions, unknown features are left aside.
"""

import math
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from coverwalk._arrays import Floats

_FEW = 64  # rows up to which a new feature is taken in at once
UNSEEN = -1.0  # the number of a category that never came: no model has learned it


class DictRows:
    """The columns of a stream of dictionaries, and as many of its rows as may be learned again.

    >>> rows = DictRows(max_rows=100)
    >>> rows.enter({"b": 2.0, "a": 1.0}, 0.0)[0]
    array([[1., 2.]])
    >>> rows.enter({"a": 3.0}, 0.0)
    (array([[ 3., nan]]), None)
    >>> row, before = rows.enter({"a": 5.0, "c": "red"}, 0.0)  # a new column: the rows before must be learned again
    >>> row, before[0], rows.categorical
    (array([[ 5., nan,  0.]]), array([[ 1.,  2., nan], [ 3., nan, nan]]), [2])
    """

    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows
        self.columns: dict[Any, int] = {}
        self.n_rows = self.n_rebuilt = 0
        self.categories: dict[Any, dict[Any, float]] = {}  # numbers of the values of features that are categories
        self._waiting: dict[Any, bool] = {}  # features without a column, and whether they are categories
        self._X, self._y = np.empty((0, 0)), np.empty(0)  # NaN where a row lacks a feature; longer than the rows
        self._values_of: Callable[[Any], Any] | None = None  # of several columns

    @property
    def keeps(self) -> bool:
        """Whether all rows are still here, so that new features can be taken in."""
        return self.n_rows <= self.max_rows

    @property
    def categorical(self) -> list[int]:
        """The columns that are categories."""
        return sorted(self.columns[name] for name in self.categories)

    def are_all(self, names: Any) -> bool:
        """Whether these are the features of all columns, which hold numbers, and no other is waiting for a column."""
        return not self.categories and not self._waiting and set(names) == self.columns.keys()

    def enter(self, x: Mapping[Any, Any], y: float) -> tuple[Floats, tuple[Floats, Floats] | None]:
        """Take in a row that will be learned with y: the row (1, p), and all rows before it if there are new columns.

        Raises ValueError for a value that is no number, in whatever feature; nothing is noted then.
        """
        wider, row = False, None if self._waiting else self._whole(x)
        if row is None:
            for name, value in x.items():
                self._check(name, value)
            wider = self._widen(x)
            for name, categories in self.categories.items():
                if not _is_missing(x.get(name)):
                    categories.setdefault(x[name], float(len(categories)))
            row = self.row(x)
        n = self.n_rows
        self.add(row, y)
        return row, (self._X[:n].copy(), self._y[:n].copy()) if wider else None

    def row(self, x: Mapping[Any, Any]) -> Floats:
        """The row (1, p) of a dictionary; nothing is noted."""
        row = self._whole(x)
        if row is not None:
            return row
        row = np.full((1, len(self.columns)), np.nan)
        for name, value in x.items():
            at = self.columns.get(name)
            if at is not None and not _is_missing(value):
                categories = self.categories.get(name)
                row[0, at] = _number(name, value) if categories is None else categories.get(value, UNSEEN)
        return row

    def _whole(self, x: Mapping[Any, Any]) -> Floats | None:
        """The row of a dictionary with just the features that have columns, and finite numbers; else None.

        It takes a fifth of the time that looking at each feature takes.
        """
        if len(x) != len(self.columns) or self._values_of is None or self.categories:
            return None
        try:
            values = self._values_of(x)
            if not math.isfinite(sum(values)):  # nor where the sum overflows; text has no sum
                return None
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return np.array([values], dtype=np.float64)

    def _widen(self, x: Mapping[Any, Any]) -> bool:
        """Note the features of a row to come; True if there are new columns."""
        if self.keeps and not x.keys() <= self.columns.keys():
            for name, value in x.items():
                if name not in self.columns and not _is_missing(value):
                    self._waiting.setdefault(name, isinstance(value, str))
        if not self._waiting or not self.keeps or (self.n_rows > _FEW and self.n_rows < 2 * self.n_rebuilt):
            return False
        old = list(self.columns)
        # an order that does not depend on that of the dictionaries
        names = sorted([*old, *self._waiting], key=lambda name: (str(type(name)), str(name)))
        self.categories |= {name: {} for name, category in self._waiting.items() if category}
        self.columns, self._waiting, self.n_rebuilt = {name: j for j, name in enumerate(names)}, {}, self.n_rows
        X = np.full((len(self._X), len(names)), np.nan)
        X[:, [self.columns[name] for name in old]] = self._X
        self._X = X
        self._values_of = itemgetter(*names) if len(names) > 1 else None
        return True

    def _check(self, name: Any, value: Any) -> None:
        """Raise ValueError for what is neither missing, nor a number in a column of numbers, nor a category."""
        if _is_missing(value):
            return
        known = name in self.columns or name in self._waiting
        category = name in self.categories or self._waiting.get(name, False)
        if category or (not known and isinstance(value, str)):
            hash(value)
        else:
            _number(name, value)

    def add(self, X: Floats, y: Any) -> None:
        """Keep rows (n, p), in the order of the columns, with y."""
        n, end = self.n_rows, self.n_rows + len(X)
        self.n_rows = end
        if end > self.max_rows:  # too many to be learned again: let them go
            self._X, self._y, self._waiting = self._X[:0].copy(), self._y[:0].copy(), {}
            return
        if end > len(self._y):
            size = max(2 * len(self._y), end, 64)
            X_old, y_old = self._X[:n], self._y[:n]
            self._X, self._y = np.full((size, len(self.columns)), np.nan), np.zeros(size)
            self._X[:n], self._y[:n] = X_old, y_old
        self._X[n:end], self._y[n:end] = X, y


def _is_missing(value: Any) -> bool:
    return value is None or (not isinstance(value, str) and bool(value != value))


def _number(name: Any, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.inf
    if np.isinf(number) or isinstance(value, str):
        raise ValueError(
            f"the feature {name!r} must be a finite number, got {value!r}: a category is one from its first value on; "
            "nothing was learned"
        )
    return number
