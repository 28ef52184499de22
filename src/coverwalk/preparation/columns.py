"""Tables with categories and missing values as arrays of numbers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from sklearn.utils.validation import check_array, check_X_y, validate_data

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.node import OWN_CATEGORIES
from coverwalk.files.schema import List, Plain, Real, Scope, Table, require, stored
from coverwalk.preparation.categories import (
    OTHERS,
    all_categories,
    column_values,
    encoded,
    extended,
    frequent_categories,
    most_frequent,
    numbered,
)
from coverwalk.preparation.effects import category_effects, category_groups
from coverwalk.preparation.frames import categories_of, columns_of
from coverwalk.preparation.row_codes import canonical_order


@stored(check=lambda state, scope: _check_categories(state, scope))
@dataclass(frozen=True)
class MixedInputs:
    """Which columns are categorical, and the categories of each: number i is categories[column][i].

    Missing values are NaN. Categories come as 0, 1, ...; of more than 61 the 61 most frequent keep their own number and
    the others share one. A category that was not there at fit is UNSEEN. On a stream the tables grow: the first
    categories to come have a number each, those beyond share that of the first entry of a table, OTHERS.

    Where y tells, a column of more than 61 categories is one of numbers: their effects on y, see `with_effects`.
    """

    categories: Annotated[list[list[Any]], List(List(Plain()))]  # one list a column; empty for numbers
    # one table a column, which has OTHERS: of effects, or of the groups that are the column's categories; empty for
    # columns without, of which all may be
    effects: Annotated[list[dict[Any, float]], List(Table(Real(low=-100, high=100)))] = field(default_factory=list)

    @classmethod
    def of(cls, X: Any, categorical: Any, every: bool = False) -> "MixedInputs":
        """From the table of a fit; ``categorical`` as the estimators document it; with ``every``, each of the
        categories has a number of its own, for `with_effects`.
        """
        chosen = categories_of(X, categorical)
        if chosen is None:
            return cls([])
        make = all_categories if every else most_frequent
        return cls([make(column) if a in chosen else [] for a, column in enumerate(columns_of(X))])

    def with_effects(self, X: Floats, Y: Floats, weight: Floats | None) -> "MixedInputs":
        """Columns of more categories than splits tell apart as their effects on Y (n, q), in rows X (n, p) numbered by
        these tables; on the mean of the normal scores of several outputs.
        """
        order = canonical_order(np.hstack([X, Y[:, :-1]]), Y[:, -1])  # sums do not see how rows came
        Y, weight = Y[order], None if weight is None else weight[order]
        own, effects = [], []
        for a, names in enumerate(self.categories):
            many = len(names) > OWN_CATEGORIES
            found = category_effects(X[order, a], Y, weight) if many else {}
            effects.append({OTHERS: 0.0} | _by_name(names, found) if many else {})
            own.append([] if many else names)
        return MixedInputs(own, effects)

    def with_groups(self, X: Floats, y: Ints, weight: Floats) -> "MixedInputs":
        """Columns of more categories than splits tell apart as groups in whose rows X (n, p), numbered by these tables,
        classes y (n,) are alike; what is in no group is one of the OTHERS.
        """
        order = canonical_order(X, y.astype(np.float64))
        own, groups = list(self.categories), [dict[Any, float]() for _ in self.categories]
        for a, names in enumerate(self.categories):
            if len(names) > OWN_CATEGORIES:
                found = _by_name(names, category_groups(X[order, a], y[order], weight[order], OWN_CATEGORIES))
                groups[a] = {OTHERS: 0.0} | found
                members: dict[int, list[str]] = {}
                for name, group in found.items():
                    members.setdefault(int(group), []).append(str(name))
                told = {g: ", ".join(some[:3]) + (", ..." if len(some) > 3 else "") for g, some in members.items()}
                own[a] = [OTHERS, *(f"{g}: {told.get(g, '')}" for g in range(1, max(told, default=0) + 1))]
        return MixedInputs(own, groups)

    def frequent(self, X: Floats) -> "MixedInputs":
        """The tables of the most frequent categories in rows X (n, p) numbered by these tables."""
        tables = list(self.categories)
        for a, names in enumerate(self.categories):
            if len(names) > OWN_CATEGORIES:
                codes = X[~np.isnan(X[:, a]), a].astype(np.int64)
                tables[a] = frequent_categories(dict(zip(names, np.bincount(codes, minlength=len(names)).tolist())))
        return MixedInputs(tables)

    @property
    def fixed(self) -> list[bool]:
        """Which columns take no new categories: they have effects, or groups."""
        return [bool(table) for table in self.effects] or [False] * len(self.categories)

    @property
    def grouped(self) -> bool:
        """Whether categories cannot be told from their numbers."""
        return any(self.fixed[a] and bool(names) for a, names in enumerate(self.categories))

    @property
    def coded(self) -> bool:
        """Whether some columns do not come as numbers."""
        return any(self.categories) or any(self.effects)

    def seen_as(self, names: list[str]) -> list[str]:
        """What trees call the columns with these names."""
        effects = self.effects or [{}] * len(names)
        return [f"effect of {name}" if table else name for name, table in zip(names, effects)]

    @property
    def is_category(self) -> list[bool]:
        """Which columns come as categories. Empty where all are numbers."""
        return [bool(numbers) for numbers in self.numbers]

    @property
    def numbers(self) -> list[dict[Any, float]]:
        """The number of each category, column by column; empty for columns of numbers."""
        effects = self.effects or [{}] * len(self.categories)
        return [table or numbered(categories) for categories, table in zip(self.categories, effects)]

    @classmethod
    def begun(cls, X: Any, categorical: Any) -> "MixedInputs":
        """From the first table of a stream: which columns are categorical. `grown` takes in their categories.

        >>> begun = MixedInputs.begun([["b", 1.0]], [0])
        >>> begun.grown([["b", 1.0], ["a", 2.0]]).categories
        [['(others)', 'b', 'a'], []]
        """
        return cls([[OTHERS] if categories else [] for categories in cls.of(X, categorical).categories])

    def grown(self, X: Any) -> "MixedInputs":
        """With the categories of further rows, numbered as they come; itself where none is new."""
        columns = columns_of(X) if any(self.categories) else []
        if len(columns) != len(self.categories):  # all numbers, or a table that will be refused
            return self
        new = [
            extended(categories, column) if categories and not fixed else categories
            for categories, fixed, column in zip(self.categories, self.fixed, columns)
        ]
        return self if all(a is b for a, b in zip(new, self.categories)) else MixedInputs(new, self.effects)

    def knows(self, x: Any) -> bool:
        """Whether `grown` by the row x would change nothing."""
        return len(x) == len(self.categories) and all(
            fixed or not categories or value in categories or column_values([value])[0] is None
            for value, categories, fixed in zip(x, self.categories, self.fixed)
        )

    @property
    def n_categories(self) -> tuple[int, ...]:
        """Number of categories of each column; 0 for numbers. Empty where all columns are numbers."""
        counts = tuple(len(categories) for categories in self.categories)
        return counts if any(counts) else ()

    def encode(self, X: Any) -> Any:
        """X with its categories as numbers; X itself where there are none."""
        if not self.coded:
            return X
        coded = [
            encoded(column, numbers) if numbers else column for column, numbers in zip(columns_of(X), self.numbers)
        ]
        try:
            table = np.column_stack([np.asarray(column, dtype=np.float64) for column in coded])
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"could not convert a column to numbers ({error}): name columns of text in categorical_features, or "
                'make them categories: frame.astype({column: "category"})'
            ) from error
        return table

    @property
    def category_names(self) -> list[list[str]]:
        """The categories as text, for people. Empty where all columns are numbers."""
        return [list(map(str, categories)) for categories in self.categories] if any(self.categories) else []

    def row(self, x: Any) -> Any:
        """One row of values as one of numbers; the row itself where there are no categories."""
        if not self.coded:
            return x
        if np.ndim(x) != 1:  # a number, or a row of a table
            x = np.asarray(x, dtype=object).reshape(-1)
        if len(x) != len(self.categories):
            raise ValueError(f"x must have {len(self.categories)} values, got {len(x)}: {x!r}")
        pairs = zip(x, self.numbers)
        return [float(encoded([value], numbers)[0]) if numbers else value for value, numbers in pairs]

    def decode(self, X: Floats) -> Any:
        """Rows with their categories again, None where one is missing; X itself where all columns are numbers."""
        if not self.coded:
            return X
        decoded = X.astype(object)
        for a, numbers in enumerate(self.numbers):
            if numbers:
                names = {number: name for name, number in reversed(numbers.items())}  # equal effects are the first's
                known = ~np.isnan(X[:, a])
                decoded[known, a] = [names[number] for number in X[known, a].tolist()]
                decoded[~known, a] = None
        return decoded


def _by_name(names: list[Any], found: Mapping[float, float]) -> dict[Any, float]:
    """What was found for the codes of categories, by their names; OTHERS, where it is one, stays without."""
    return {names[int(code)]: float(value) for code, value in found.items() if names[int(code)] != OTHERS}


def _check_categories(state: Any, scope: Scope) -> None:
    """Refuse more categories than a mask has bits."""
    require("effects", len(state.effects) in (0, len(state.categories)))
    for categories, effects in zip(state.categories, state.effects):
        groups = {float(k) for k in range(len(categories))}
        require(
            "effects", not effects or (effects.get(OTHERS) == 0.0 and (not groups or groups >= {*effects.values()}))
        )
    for categories in state.categories:
        require("categories", len(set(categories)) == len(categories) <= OWN_CATEGORIES + (OTHERS in categories))


def input_names(model: Any) -> list[str]:
    """Names of the inputs of a fitted estimator; x0, x1, ... where they had none."""
    return [str(name) for name in getattr(model, "feature_names_in_", [f"x{a}" for a in range(model.n_features_in_)])]


def output_names(model: Any) -> list[str]:
    """Names of its outputs, of which a classifier has one; y, or y0, y1, ..., where they had none."""
    n = getattr(model, "n_outputs_", 1)
    return list(getattr(model, "target_names_", ["y"] if n == 1 else [f"y{j}" for j in range(n)]))


class MixedTags:
    """The tags, for scikit-learn, of an estimator that takes categories and missing values."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags


def read_inputs(
    estimator: Any,
    X: Any,
    y: Any = "no y",
    *,
    reset: bool,
    mixed: MixedInputs | None = None,
    every: bool = False,
    **options: Any,
) -> Any:
    """X (and y) as arrays of numbers, NaN where values are missing; with ``reset`` the estimator learns the categories,
    and keeps them all with ``every``.

    ``mixed`` says how categories become numbers, if not as at fit. Options are those of scikit-learn's ``check_X_y``.
    A refused table changes nothing.
    """
    alone = isinstance(y, str) and y == "no y"  # None is what scikit-learn refuses
    if mixed is None and not reset:
        mixed = estimator._mixed
    ready = not (reset or options) and mixed is not None and not mixed.coded and _ready(estimator, X)
    if ready and (alone or _codes(y, len(X))):
        estimator._mixed = mixed
        return X if alone else (X, y)
    refuse_equal_names(X)
    if mixed is None:
        mixed = MixedInputs.of(X, estimator.categorical_features, every)
    options = {"dtype": np.float64, "ensure_all_finite": "allow-nan", **options}
    if not alone:
        _refuse_missing(y)
    if not mixed.coded:
        _refuse_text(X)
        checked = validate_data(estimator, X, *([] if alone else [y]), reset=reset, **options)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        coded = mixed.encode(X)
        checked = check_array(coded, input_name="X", **options) if alone else check_X_y(coded, y, **options)
    estimator._mixed = mixed
    return checked


def refuse_equal_names(X: Any) -> None:
    """Raise ValueError for a frame with two columns of one name: nobody could say which is which."""
    names = list(getattr(X, "column_names", getattr(X, "columns", [])))
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise ValueError(f"X has two columns with the name {twice!r}: rename one of them")


def _ready(estimator: Any, X: Any) -> bool:
    """Whether scikit-learn's checks, which take longer than to predict a row, would return the array X as it is."""
    plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X) > 0
    known = estimator.__dict__
    return (
        plain
        and X.shape[1] == known.get("n_features_in_", -1)
        and "feature_names_in_" not in known
        and not np.isinf(X).any()
    )


def _codes(y: Any, n: int) -> bool:
    """Whether y is an array of n whole numbers."""
    return type(y) is np.ndarray and y.dtype.kind in "biu" and y.shape == (n,)


def _refuse_missing(y: Any) -> None:
    """Name the row of the first NaN in an array of numbers."""
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    missing = np.isnan(np.asarray(y)) if kind == "f" else np.zeros(0, dtype=bool)
    if missing.any():
        row = int(np.argmax(missing.reshape(len(missing), -1).any(axis=1)))
        raise ValueError(f"Input y contains NaN, first in row {row}: drop such rows, or fill in the values")


def _refuse_text(X: Any) -> None:
    """Text in an array has no dtype of its own column, so nothing says which columns are categories."""
    if getattr(getattr(X, "dtype", None), "kind", "") not in ("U", "S"):
        return
    try:
        np.asarray(X).astype(np.float64)
    except ValueError as error:
        raise ValueError(
            "X is an array of text: pass a DataFrame, whose text columns are categories, or name the columns that are "
            "in categorical_features"
        ) from error


def recoded(X: Floats, old: MixedInputs, new: MixedInputs) -> Floats:
    """Rows X (n, p), numbered by old tables, as new ones number them; X itself where the tables are the same."""
    changed = [a for a, names in enumerate(old.categories) if names != new.categories[a]]
    if not changed:
        return X
    X = X.copy()
    for a in changed:
        known = ~np.isnan(X[:, a])
        X[known, a] = encoded(old.categories[a], new.numbers[a])[X[known, a].astype(np.int64)]
    return X
