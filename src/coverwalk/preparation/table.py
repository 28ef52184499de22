"""Tables from files and streams, some rows at a time, as numbers and text: what a table of any format can do.

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
    """The rows of one file or stream: ``columns`` are its names, `pieces` what they hold."""

    def __init__(self, name: str, columns: list[str]) -> None:
        self.name = name
        self.columns = columns
        self._kept: polars.DataFrame | None = None

    def keep(self) -> None:
        """Read all rows now and keep them: a stream can be read only once."""
        frames = list(self.frames(self.columns))
        if not frames:
            raise self._without_rows()
        self._kept = polars_here().concat(frames)

    def frames(self, columns: list[str]) -> Iterator["polars.DataFrame"]:
        """Frames of these columns, one after the other."""
        raise NotImplementedError

    def _rows(self, columns: list[str]) -> Iterator["polars.DataFrame"]:
        """The frames of some columns, from the file or as they were kept."""
        return self.frames(columns) if self._kept is None else iter([self._kept.select(columns)])

    def text_columns(self, columns: list[str]) -> list[str]:
        """Those of some columns that hold text, found by reading all rows."""
        found = {name: _TextCounts(self.name, name) for name in columns}
        for frame in self._rows(columns):
            for name in columns:
                found[name].add(_as_text(frame[name]))
        return [name for name in columns if found[name].is_text()]

    def pieces(
        self, inputs: list[str], texts: Sequence[str], beside: list[str], n_rows: int | None = None
    ) -> Iterator[tuple["polars.DataFrame", "polars.DataFrame", range]]:
        """At most n_rows at a time, by default as many as are read at once; every row comes once, in order.

        Inputs, as text those named in ``texts``, as numbers all others, where missing values are null or NaN; other
        columns as they stand; and which rows of the table these are.

        Raises
        ------
        TableError
            For a column that is not there, an input that is no finite number, or a table without rows.
        """
        pl, wanted, first = polars_here(), list(dict.fromkeys([*inputs, *beside])), 0
        self.require(wanted)
        for frame in self._rows(wanted):
            X = pl.DataFrame(
                {
                    name: _without_missing(frame[name].cast(pl.String))
                    if name in texts
                    else self.numbers(frame[name], first, with_missing=True)
                    for name in inputs
                }
            )
            for start in range(0, len(frame), n_rows or len(frame)):
                part = slice(start, min(start + (n_rows or len(frame)), len(frame)))
                yield X[part], frame[part].select(beside), range(first + part.start, first + part.stop)
            first += len(frame)
        if first == 0:
            raise self._without_rows()

    def require(self, columns: Sequence[str]) -> None:
        """Raise TableError unless the table has all of these columns."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise TableError(f"{self.name} has no column {listed(missing)}; it has {listed(self.columns)}")

    def _without_rows(self) -> TableError:
        return TableError(f"{self.name} has a header and no rows; expected at least one row")

    def labels(self, column: "polars.Series", first: int) -> NDArray[Any]:
        """Text without the blanks around it, or numbers; neither may be missing. first: rows before those given."""
        pl = polars_here()
        text = column.dtype in (pl.String, pl.Categorical, pl.Enum)
        column = column.cast(pl.String).str.strip_chars().replace("", None) if text else column
        if column.null_count():
            row = first + int(column.is_null().arg_true()[0]) + 1
            where = f"column {column.name!r}, row {row}"
            raise TableError(f"{self.name} has nothing in {where}: fill in a value or leave the row out")
        return column.to_numpy() if not text else np.array(column.to_list(), dtype=object)

    def numbers(self, column: "polars.Series", first: int, with_missing: bool = False) -> Floats:
        """Finite numbers; with ``with_missing`` those that are missing are NaN. first: rows before those given."""
        pl = polars_here()
        if column.dtype in (pl.Categorical, pl.Enum):
            column = column.cast(pl.String)
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
