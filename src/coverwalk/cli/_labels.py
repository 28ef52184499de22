"""Labels of classes as a table has them: whole numbers, numbers or text."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars
    from numpy.typing import NDArray

    from coverwalk.preparation.table import Table


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


class LabelReader:
    """The entries of a table's column as labels of one kind, numbers or text: that of its first entries, or of classes.

    Others are refused with their row, and where they have to be ``known`` those that are no class as well.
    """

    def __init__(self, table: "Table", classes: "NDArray[Any] | None" = None, known: bool = False) -> None:
        self.table, self.known = table, known
        self.classes = classes  # until some are known, the first labels

    def read(self, column: "polars.Series", first: int) -> "NDArray[Any]":
        """The labels (n,) of further rows; first: rows that came before."""
        import numpy as np

        from coverwalk.preparation.table import TableError, listed

        entries = self.table.labels(column, first)
        labels = as_labels(entries)
        if self.classes is None:
            self.classes = np.unique(labels)
        numbers = self.classes.dtype.kind not in "UO"
        if not numbers:
            labels = entries.astype(str)
        where, classes = f"in column {column.name!r}, row", listed([str(c) for c in self.classes])
        if numbers and labels.dtype.kind not in "iufb":
            wrong = next(i for i, entry in enumerate(entries) if not _is_number(entry))
            raise TableError(
                f"{self.table.name} has the text {entries[wrong]!r} {where} {first + wrong + 1}; the classes are "
                f"numbers: {classes}"
            )
        unknown = np.flatnonzero(~np.isin(labels, self.classes)) if self.known else labels[:0]
        if unknown.size:
            raise TableError(
                f"{self.table.name} has the class {labels[unknown[0]].item()!r} {where} {first + int(unknown[0]) + 1}, "
                f"which the model has never seen; it knows {classes}"
            )
        return labels
