"""Rows as users bring them, made into arrays of numbers, or refused with the place of the first bad value."""

from datetime import date, timedelta
from typing import Any

import numpy as np
from sklearn.utils import check_array

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.scaling import all_finite

LARGEST = 1e305  # of y: a hundred times the range of such numbers is finite


def refuse_nonfinite(table: Floats, name: str, *, with_missing: bool = False) -> Floats:
    """The table, or a ValueError that names the place of its first infinity or, without ``with_missing``, NaN."""
    if not np.isfinite(table).all():  # one pass; the search below is for the unhappy case
        bad = np.isinf(table) if with_missing else ~np.isfinite(table)
        if not bad.any():
            return table
        row, column = np.argwhere(bad)[0]
        kind = "NaN" if np.isnan(table[row, column]) else "infinity"
        raise ValueError(
            f"Input {name} contains {kind} in row {row}, column {column}: drop such rows or fill the values in; "
            "nothing was learned"
        )
    return table


def refuse_kinds(y: Any) -> None:
    """Raise ValueError where y holds truths, dates or lengths of time, which NumPy would take for whole numbers.

    >>> refuse_kinds(np.array([3600], "timedelta64[s]"))
    Traceback (most recent call last):
    ValueError: y must be numbers, got lengths of time: divide by a unit, such as y / np.timedelta64(1, "h")
    """
    values = np.asarray(y)
    kinds: set[str] = {values.dtype.kind}
    if values.dtype == object:
        known = ((bool | np.bool_, "b"), (timedelta | np.timedelta64, "m"), (date | np.datetime64, "M"))
        kinds = {kind for entry in values.flat for types, kind in known if isinstance(entry, types)}
    if "b" in kinds:
        raise ValueError(
            "y must be numbers, got True and False: for their probabilities use ContextClassifier, for the numbers 0 "
            "and 1 y.astype(float)"
        )
    if "m" in kinds:
        raise ValueError('y must be numbers, got lengths of time: divide by a unit, such as y / np.timedelta64(1, "h")')
    if "M" in kinds:
        raise ValueError(
            'y must be numbers, got dates: take the time since a start, such as (y - y.min()) / np.timedelta64(1, "D")'
        )


def has_text(error: ValueError) -> ValueError:
    """The error of a stream that meets text in a column of numbers, with what to do; other errors as they are."""
    if "could not convert" not in str(error):
        return error
    return ValueError(
        f"a column of numbers has text ({error}): name columns of text in categorical_features, or have them in the "
        "first frame of the stream; nothing was learned"
    )


def as_outputs(y: Any, n: int | None = None) -> tuple[Floats, bool]:
    """Y (n, q) of finite numbers, and whether it came as a vector (n,)."""
    refuse_kinds(y)
    Y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, order="C", input_name="y")
    flat = Y.ndim == 1
    Y = np.ascontiguousarray(Y.reshape(len(Y), -1) if flat else Y)
    if n is not None and len(Y) != n:
        raise ValueError(f"X and y must have the same number of rows, got {n} and {len(Y)}")
    refuse_nonfinite(Y, "y")
    return Y, flat


def usable_outputs(Y: Floats) -> Floats:
    """The outputs (n, q), or a ValueError for one that is not finite, or so large that differences overflow."""
    refuse_nonfinite(Y, "y")
    if len(Y) and max(Y.max(), -Y.min()) > LARGEST:
        row, column = np.argwhere(np.abs(Y) > LARGEST)[0]
        raise ValueError(
            f"Input y contains {Y[row, column]:g} in row {row}, column {column}, beyond {LARGEST:g}: divide y by a "
            "power of ten; nothing was learned"
        )
    return Y


def as_row(value: Any, name: str, size: int | None, *, with_missing: bool = False) -> Floats:
    """One row (1, size) of finite numbers, by the shortest way: a stream calls this for every row.

    With ``with_missing`` there may be NaN.
    """
    try:
        row = np.array(value, dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise has_text(error) from error
    if row.shape != (1, size) and (size is not None or row.ndim != 2 or row.shape[0] != 1 or row.shape[1] == 0):
        wanted = "a number or a vector of numbers" if size is None else f"{size} number{'s' * (size > 1)}"
        raise ValueError(f"{name} must be {wanted}, got shape {np.shape(value)}: {value!r}")
    if not all_finite(row) and (not with_missing or np.isinf(row).any()):
        raise ValueError(
            f"{name} must be finite, got {value!r}: drop the row or fill the value in; nothing was learned"
        )
    return row


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_lossy(y: Any) -> None:
    """Refuse what is no number, and whole numbers that floats cannot tell from their neighbours."""
    numbers = np.asarray(y)
    refuse_kinds(numbers)
    if numbers.dtype.kind in "USO":
        texts = (entry for entry in numbers.ravel().tolist() if isinstance(entry, str | bytes))
        if text := next((entry for entry in texts if not _is_number(entry)), None):
            raise ValueError(f"y must be numbers, got the text {str(text)[:40]!r}: for classes use ContextClassifier")
    if numbers.dtype.kind in "iu" and numbers.size:
        large = numbers[(numbers > 2**53) | (numbers < -(2**53))].tolist()
    elif numbers.dtype.kind == "O":
        large = [number for number in numbers.ravel().tolist() if isinstance(number, int) and abs(number) > 2**53]
    else:
        return
    for number in large:
        if abs(number) >= 2**1024 or int(float(number)) != number:
            raise ValueError(
                f"y has whole numbers beyond 2**53 that floats do not hold, {str(number)[:40]} for one: they would be "
                "rounded. Subtract an offset from y, or give it in a larger unit"
            )
