"""Tables from files and streams, a batch of rows at a time, as plain numbers: what a table of any format can do.

What is read is checked here: a column that is not there, text, a missing value; the message names the file, the column
and the row.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats

if TYPE_CHECKING:
    import polars

_LIKE_NUMBERS = re.compile(r"[-+(]?[$€£]?\s*\d[\d.,:/\s-]*\s*[%$€£)]?(T[\d:.]+Z?)?")  # 1,000, 5%, 2024-01-31, 3/4/2024
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?[/.]\d\d?[/.]\d{2,4}")
_TYPO_FRACTION = 0.1  # of text in a column, up to which it is a column of numbers with mistakes in it
_MIN_IDS, _ID_FRACTION = 20, 0.9  # rows, and the fraction of them with a text of its own, of a column of identifiers
_MISSING = ("", "na", "nan", "null", "none")  # what a missing entry looks like


class TableError(ValueError):
    """A table that is not there, cannot be read, or lacks what was asked for."""


def polars_here() -> Any:
    """Polars, or how to get it."""
    try:
        import polars
    except ImportError as error:
        raise ImportError("the command line reads and writes tables with Polars: pip install polars") from error
    return polars


def listed(names: list[str]) -> str:
    """Names for a message, the first few where they are many."""
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(map(_brief, names[:12])) + more


def _brief(entry: str) -> str:
    """An entry for a message, its beginning where it is long."""
    return repr(entry) if len(entry) <= 60 else f"{entry[:60]!r}... ({len(entry)} characters)"


def _too_large(entry: str) -> bool:
    """Whether an entry is a number that floats do not hold."""
    return re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", entry, re.IGNORECASE) is not None


class Table:
    """The rows of one file or stream: ``columns`` are its names, ``batches`` its numbers."""

    def __init__(self, name: str, columns: list[str]) -> None:
        self.name = name
        self.columns = columns
        self._categories: dict[str, list[Any]] = {}  # of inputs; empty for numbers
        self._kept: list[polars.DataFrame] | None = None

    def understand(self, inputs: list[str], categories: list[list[Any]]) -> "Table":
        """Read these columns as inputs of a model: categories as their numbers, missing values as NaN."""
        self._categories = dict(zip(inputs, categories or [[]] * len(inputs)))
        return self

    def inputs(self, columns: list[str]) -> "polars.DataFrame":
        """All rows of some columns, as numbers where all entries are, else as text; missing values are null.

        Rows are kept, so that other columns can be read as well.
        """
        pl = polars_here()
        self._kept = list(self.frames(self.columns))
        if not self._kept:
            raise self._without_rows()
        texts, whole = self.text_columns(columns), pl.concat(self._kept).select(columns)
        typed = {name: _as_text(whole[name]) for name in columns}
        numbers = {name: self._numbers(typed[name], 0, with_missing=True) for name in columns if name not in texts}
        frame: polars.DataFrame = pl.DataFrame(typed | numbers)
        return frame

    def text_columns(self, columns: list[str]) -> list[str]:
        """Those of some columns that `inputs` would take for text, found by reading all rows."""
        found = {name: _TextCounts(self.name, name) for name in columns}
        for frame in self._rows(columns):
            for name in columns:
                found[name].add(_as_text(frame[name]))
        return [name for name in columns if found[name].is_text()]

    def texts(self, columns: list[str], n_rows: int = 20_000) -> Iterator["polars.DataFrame"]:
        """Frames of text, missing values as null, of the rows that `batches` gives."""
        for frame in self._rows(columns):
            cleaned = frame.select([_without_missing(frame[name].cast(polars_here().String)) for name in columns])
            yield from (cleaned[start : start + n_rows] for start in range(0, len(cleaned), n_rows))

    def _rows(self, columns: list[str]) -> Iterator["polars.DataFrame"]:
        """The frames of some columns, from the file or as they were kept."""
        if self._kept is None:
            return self.frames(columns)
        return (frame.select(columns) for frame in self._kept)

    def frames(self, columns: list[str]) -> Iterator["polars.DataFrame"]:
        """Frames of these columns, one after the other."""
        raise NotImplementedError

    def batches(self, columns: list[str], n_rows: int = 20_000) -> Iterator[Floats]:
        """Arrays (at most n_rows, len(columns)) of finite numbers; every row comes once, in order.

        Raises
        ------
        TableError
            For a column that is not there, an entry that is no finite number, or a table without rows.
        """
        return (numbers for numbers, _, _ in self._numbered(columns, [], n_rows))

    def read(self, columns: list[str]) -> Floats:
        """All rows at once."""
        return np.concatenate(list(self.batches(columns)))

    def labelled(self, columns: list[str], label: str, n_rows: int = 20_000) -> Iterator[tuple[Floats, NDArray[Any]]]:
        """Arrays of finite numbers as from `batches`, each with the entries of the column ``label`` as they stand."""
        for numbers, frame, first in self._numbered(columns, [label], n_rows):
            yield numbers, self._labels(frame[label], first)

    def beside(
        self, columns: list[str], kept: list[str], n_rows: int = 20_000
    ) -> Iterator[tuple[Floats, "polars.DataFrame"]]:
        """Arrays of finite numbers as from `batches`, each with the entries of some more columns as they stand."""
        return ((numbers, frame.select(kept)) for numbers, frame, _ in self._numbered(columns, kept, n_rows))

    def _numbered(self, columns: list[str], kept: list[str], n_rows: int) -> Iterator[tuple[Floats, Any, int]]:
        """Piece by piece: some columns as numbers, the rows with those kept, and how many rows came before them."""
        wanted = list(dict.fromkeys([*columns, *kept]))
        self.require(wanted)
        first = 0
        for frame in self._rows(wanted):
            numbers = self._table(frame, columns, first)
            for start in range(0, len(numbers), n_rows):
                part = slice(start, start + n_rows)
                yield numbers[part], frame[part], first + start
            first += len(numbers)
        if first == 0:
            raise self._without_rows()

    def require(self, columns: Sequence[str]) -> None:
        """Raise TableError unless the table has all of these columns."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise TableError(f"{self.name} has no column {listed(missing)}; it has {listed(self.columns)}")

    def _without_rows(self) -> TableError:
        return TableError(f"{self.name} has a header and no rows; expected at least one row")

    def numbers(self, name: str, entries: NDArray[Any]) -> Floats:
        """The entries of a column, as `labelled` gives them, as finite numbers."""
        return self._numbers(polars_here().Series(name, entries.tolist()), 0)

    def _labels(self, column: "polars.Series", first: int) -> NDArray[Any]:
        """Text without the blanks around it, or numbers; neither may be missing."""
        pl = polars_here()
        text = column.dtype in (pl.String, pl.Categorical, pl.Enum)
        column = column.cast(pl.String).str.strip_chars().replace("", None) if text else column
        if column.null_count():
            row = first + int(column.is_null().arg_true()[0]) + 1
            where = f"column {column.name!r}, row {row}"
            raise TableError(f"{self.name} has nothing in {where}: fill in a value or leave the row out")
        return column.to_numpy() if not text else np.array(column.to_list(), dtype=object)

    def _table(self, frame: "polars.DataFrame", columns: list[str], first: int) -> Floats:
        """Numbers of all columns; of categorical inputs, the numbers of their categories."""
        parts = [np.empty((len(frame), 0))]
        for name in columns:
            categories, column = self._categories.get(name), frame[name]
            if categories:
                from coverwalk.preparation.columns import encoded  # loads scikit-learn: only where it is needed

                coded = encoded(_without_missing(column.cast(polars_here().String)), categories)
                parts.append(coded[:, None])
            else:
                parts.append(self._numbers(column, first, with_missing=categories is not None)[:, None])
        return np.ascontiguousarray(np.hstack(parts))

    def _numbers(self, column: "polars.Series", first: int, with_missing: bool = False) -> Floats:
        """Finite numbers; with ``with_missing`` those that are missing are NaN."""
        pl = polars_here()
        text = column.dtype == pl.String
        numbers = (column.str.strip_chars() if text else column).cast(pl.Float64, strict=False)
        values: Floats = numbers.fill_null(np.nan).to_numpy()
        wrong = np.flatnonzero(~np.isfinite(values))
        for i in wrong.tolist():
            entry = column[i]
            shown = "" if entry is None else str(entry).strip()
            where = f"column {column.name!r}, row {first + i + 1}"
            if shown.lower() in _MISSING:
                if with_missing:
                    continue
                what = _brief(str(entry)) if shown else "nothing"
                raise TableError(f"{self.name} has {what} in {where}: fill in a finite number or leave the row out")
            kind = "" if np.isinf(values[i]) or _too_large(shown) else "the text "
            raise TableError(
                f"{self.name} has {kind}{_brief(shown)} in {where}, expected a finite number: fill one in or leave the "
                "row out"
            )
        return values


def _as_text(column: "polars.Series") -> "polars.Series":
    """A column of names or truths as text, missing values as null; one of numbers as it is."""
    pl = polars_here()
    if column.dtype in (pl.Categorical, pl.Enum, pl.Boolean):
        return column.cast(pl.String)
    return _without_missing(column) if column.dtype == pl.String else column


class _TextCounts:
    """Whether a column holds text or numbers, from all of its entries.

    A few entries that are not numbers among many that are, such as "1,000" or "5%", are mistakes. If there are more,
    the column holds names, and a note says so.
    """

    def __init__(self, table: str, column: str) -> None:
        self.table, self.column = table, column
        self.n_rows = self.n_there = self.n_texts = self.n_distinct = 0
        self.first: tuple[int, str] | None = None  # row and entry of the first text

    def add(self, column: "polars.Series") -> None:
        """Count the entries of further rows; missing values are null."""
        pl = polars_here()
        if column.dtype == pl.String:
            text = column.is_not_null() & column.cast(pl.Float64, strict=False).is_null()
            if self.first is None and text.any():
                row = int(text.arg_true()[0])
                self.first = self.n_rows + row + 1, str(column[row])
            self.n_texts += int(text.sum())
            self.n_distinct += column.n_unique()
        self.n_there += len(column) - column.null_count()
        self.n_rows += len(column)

    def is_text(self) -> bool:
        """Whether the column is one of names."""
        if self.first is None:
            return False
        row, entry = self.first
        fraction = self.n_texts / self.n_there
        what = f"{self.table} has {_brief(entry)} in column {self.column!r}, row {row}"
        if fraction <= _TYPO_FRACTION:
            raise TableError(
                f"{what}, where {self.n_there - self.n_texts} of {self.n_there} entries are numbers: write it as a "
                f"number or leave it empty; or fit with --drop {self.column}"
            )
        if fraction < 1 or _LIKE_NUMBERS.fullmatch(entry):
            hint = "; for a date, add columns such as month or days since a start" if _DATE.match(entry) else ""
            print(f"coverwalk: {what}: its values are used as categories, not as numbers{hint}", file=sys.stderr)
        if self.n_rows >= _MIN_IDS and self.n_distinct > _ID_FRACTION * self.n_rows:
            print(
                f"coverwalk: column {self.column!r} has a different text in almost every row, so it cannot help to "
                f"predict; if it is an identifier, leave it out: --drop {self.column}",
                file=sys.stderr,
            )
        return True


def _without_missing(column: "polars.Series") -> "polars.Series":
    """Text without the blanks around it; null where nothing is left, or a word that says so."""
    entries = column.str.strip_chars()
    return entries.set(entries.str.to_lowercase().is_in(list(_MISSING)), None)
