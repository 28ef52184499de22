"""Tables with categories and missing values as arrays of numbers: the one edge where frames are taken apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from sklearn.utils.validation import check_array, check_X_y, validate_data

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.node import OWN_CATEGORIES, UNSEEN
from coverwalk.files.schema import List, Plain, Scope, require, stored

OTHERS = "(others)"  # the name that categories without a number of their own share


@stored(check=lambda state, scope: _check_categories(state, scope))
@dataclass(frozen=True)
class MixedInputs:
    """Which columns are categorical, and the categories of each: number i is categories[column][i].

    Missing values are NaN. Categories come as 0, 1, ...; of more than 61 the 61 most frequent keep their own number and
    the others share one. A category that was not there at fit is UNSEEN. On a stream the tables grow: the first
    categories to come have a number each, those beyond share that of the first entry of a table, OTHERS.
    """

    categories: Annotated[list[list[Any]], List(List(Plain()))]  # one list a column; empty for numbers

    @classmethod
    def of(cls, X: Any, categorical: Any) -> "MixedInputs":
        """From the table of a fit; ``categorical`` as the estimators document it."""
        chosen = categories_of(X, categorical)
        if chosen is None:
            return cls([])
        return cls([_categories(column) if a in chosen else [] for a, column in enumerate(columns_of(X))])

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
            _extended(categories, column) if categories else categories
            for categories, column in zip(self.categories, columns)
        ]
        return self if all(a is b for a, b in zip(new, self.categories)) else MixedInputs(new)

    def knows(self, x: Any) -> bool:
        """Whether `grown` by the row x would change nothing."""
        return len(x) == len(self.categories) and all(
            not categories or value in categories or column_values([value])[0] is None
            for value, categories in zip(x, self.categories)
        )

    @property
    def n_categories(self) -> tuple[int, ...]:
        """Number of categories of each column; 0 for numbers. Empty where all columns are numbers."""
        counts = tuple(len(categories) for categories in self.categories)
        return counts if any(counts) else ()

    def encode(self, X: Any) -> Any:
        """X with its categories as numbers; X itself where there are none."""
        if not any(self.categories):
            return X
        columns = columns_of(X)
        coded = [
            encoded(column, categories) if categories else column
            for column, categories in zip(columns, self.categories)
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
        if not any(self.categories):
            return x
        if np.ndim(x) != 1:  # a number, or a row of a table
            x = np.asarray(x, dtype=object).reshape(-1)
        if len(x) != len(self.categories):
            raise ValueError(f"x must have {len(self.categories)} values, got {len(x)}: {x!r}")
        pairs = zip(x, self.categories)
        return [float(encoded([value], categories)[0]) if categories else value for value, categories in pairs]


def _check_categories(state: Any, scope: Scope) -> None:
    """Refuse more categories than a mask has bits."""
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
    estimator: Any, X: Any, y: Any = "no y", *, reset: bool, mixed: MixedInputs | None = None, **options: Any
) -> Any:
    """X (and y) as arrays of numbers, NaN where values are missing; with ``reset`` the estimator learns the categories.

    ``mixed`` says how categories become numbers, if not as at fit. Options are those of scikit-learn's ``check_X_y``.
    A refused table changes nothing.
    """
    alone = isinstance(y, str) and y == "no y"  # None is what scikit-learn refuses
    if mixed is None and not reset:
        mixed = estimator._mixed
    ready = not (reset or options) and mixed is not None and not any(mixed.categories) and _ready(estimator, X)
    if ready and (alone or _codes(y, len(X))):
        estimator._mixed = mixed
        return X if alone else (X, y)
    refuse_equal_names(X)
    if mixed is None:
        mixed = MixedInputs.of(X, estimator.categorical_features)
    options = {"dtype": np.float64, "ensure_all_finite": "allow-nan", **options}
    if not alone:
        _refuse_missing(y)
    if not any(mixed.categories):
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


def categories_of(X: Any, categorical: Any) -> set[int] | None:
    """Numbers of the columns of a table that are categories; None where there cannot be any."""
    if categorical is None or (isinstance(categorical, str) and categorical == "from_dtype" and not _framed(X)):
        return None
    return _chosen(X, columns_of(X), categorical)


def _framed(X: Any) -> bool:
    return hasattr(X, "columns") or hasattr(X, "column_names")


def columns_of(X: Any) -> list[Any]:
    """The columns of a frame or an array, one by one."""
    if hasattr(X, "column_names"):  # Arrow
        return [X.column(a).to_pandas() for a in range(X.num_columns)]
    if hasattr(X, "columns"):
        names = list(X.columns)
        return [X.iloc[:, a] if hasattr(X, "iloc") else X[name] for a, name in enumerate(names)]
    array = np.asarray(X) if hasattr(X, "__array__") else np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"Expected 2D array, got an array of shape {array.shape}: rows and columns are needed")
    return [array[:, a] for a in range(array.shape[1])]


def _chosen(X: Any, columns: Sequence[Any], categorical: Any) -> set[int]:
    """Numbers of the columns that are categories."""
    if isinstance(categorical, str):
        if categorical != "from_dtype":
            raise ValueError(
                'categorical_features must be "from_dtype", None, or columns by name, number or mask; '
                f"got {categorical!r}"
            )
        return {a for a, column in enumerate(columns) if _is_text(column)}
    given = np.asarray(categorical)
    if given.size == 0:
        return set()
    if given.ndim != 1:
        raise ValueError(f"categorical_features must be a flat list of columns, got shape {given.shape}")
    if given.dtype == bool:
        if len(given) != len(columns):
            raise ValueError(f"categorical_features is a mask of {len(given)} columns, X has {len(columns)}")
        return set(np.flatnonzero(given).tolist())
    names = [str(name) for name in getattr(X, "column_names", getattr(X, "columns", []))]
    chosen = set()
    for item in given.tolist():
        if isinstance(item, str):
            if item not in names:
                raise ValueError(
                    f"categorical_features names {item!r}; the columns of X are {names or 'without names'}"
                )
            chosen.add(names.index(item))
        elif isinstance(item, int) and 0 <= item < len(columns):
            chosen.add(item)
        else:
            raise ValueError(f"categorical_features has column {item!r}; X has columns 0 to {len(columns) - 1}")
    return chosen


def _is_text(column: Any) -> bool:
    """Whether a column of a frame holds categories or strings."""
    kind = str(column.dtype).lower()
    if kind.startswith(("category", "categorical", "enum", "string", "str", "utf8", "large_string")):
        return True
    if kind == "object":
        return any(isinstance(value, str) for value in column)
    return False


def column_values(column: Any) -> list[Any]:
    """Python values, None where one is missing."""
    if not isinstance(column, list):
        column = column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    plain = (value.item() if isinstance(value, np.generic) else value for value in column)
    return [None if value is None or type(value).__name__ == "NAType" or value != value else value for value in plain]


def _categories(column: Any) -> list[Any]:
    """The distinct values in a fixed order; of too many the most frequent, and one name for all others."""
    return frequent_categories(Counter(value for value in column_values(column) if value is not None))


def frequent_categories(counts: dict[Any, int]) -> list[Any]:
    """The table of categories that came so often."""
    categories = sorted(
        counts, key=lambda value: (str(type(value)), value if not isinstance(value, bool) else int(value))
    )
    if len(categories) > OWN_CATEGORIES:
        kept = set(sorted(categories, key=lambda value: -counts[value])[:OWN_CATEGORIES])
        categories = [*(category for category in categories if category in kept), OTHERS]
    return categories or [OTHERS]  # a column without values has one category, which never came


def _extended(categories: list[Any], column: Any) -> list[Any]:
    """A table with the new categories of a column behind it as long as there are numbers; itself where none is new."""
    known, new = set(categories), []
    for value in column_values(column):
        if value is not None and value not in known:
            if len(known) - (OTHERS in known) >= OWN_CATEGORIES:
                new += [] if OTHERS in known else [OTHERS]
                break
            known.add(value)
            new.append(value)
    return categories + new if new else categories


def encoded(column: Any, categories: list[Any]) -> Floats:
    """The number of each value's category; of others that of OTHERS, or UNSEEN where the table has none."""
    number = {category: float(i) for i, category in enumerate(categories)}
    others = number.get(OTHERS, float(UNSEEN))
    return np.array([np.nan if value is None else number.get(value, others) for value in column_values(column)])
