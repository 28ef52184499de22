"""Labels of classes as a table has them: whole numbers, numbers or text."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coverwalk._arrays import Floats


def as_labels(entries: "NDArray[Any]") -> "NDArray[Any]":
    """The entries of a column as labels: whole numbers or numbers where all are, else text.

    >>> import numpy as np
    >>> as_labels(np.array(["1", "2"], dtype=object)), as_labels(np.array(["1", "b"], dtype=object))
    (array([1, 2]), array(['1', 'b'], dtype='<U1'))
    """
    import numpy as np

    if entries.dtype != object:
        return entries
    for kind in (np.int64, np.float64):
        try:
            return entries.astype(kind)
        except (ValueError, OverflowError):
            continue
    return entries.astype(str)


def is_text(entries: "NDArray[Any]") -> bool:
    """Whether no entry is a number: a column that can only be meant as classes."""
    if entries.dtype == bool:
        return True
    return entries.dtype == object and not any(_is_number(entry) for entry in set(entries.tolist()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in ("na", "null", "none")  # meant as a number that is missing
    return True


def read_labels(
    batches: "Iterable[tuple[Floats, NDArray[Any]]]", data: str, target: str, classes: "NDArray[Any]", known: bool
) -> "Iterator[tuple[Floats, NDArray[Any]]]":
    """Inputs and entries of a table with these as labels of a kind with the classes.

    Others are refused with their row, and where they have to be ``known`` those that are no class as well.
    """
    import numpy as np

    from coverwalk.preparation.table import TableError, listed

    first, text = 0, classes.dtype.kind in "UO"
    for X, entries in batches:
        labels = entries.astype(str) if text else as_labels(entries)
        if not text and labels.dtype.kind not in "iufb":
            wrong = next(i for i, entry in enumerate(entries) if not _is_number(entry))
            raise TableError(
                f"{data} has the text {entries[wrong]!r} in column {target!r}, row {first + wrong + 1}; the classes "
                f"are numbers: {listed([str(c) for c in classes])}"
            )
        unknown = np.flatnonzero(~np.isin(labels, classes))
        if known and unknown.size:
            raise TableError(
                f"{data} has the class {labels[unknown[0]].item()!r} in column {target!r}, row "
                f"{first + int(unknown[0]) + 1}, which the model has never seen; it knows "
                f"{listed([str(c) for c in classes])}"
            )
        yield X, labels
        first += len(X)
