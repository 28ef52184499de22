"""Frames and arrays, column by column, and which columns are categories: the one edge where frames are taken apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np


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
