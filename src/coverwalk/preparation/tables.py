"""Tables from files and streams, a batch of rows at a time, as plain numbers: CSV and Parquet, by their ending.

What is read is checked here: a column that is not there, text, a missing value; the message names the file, the column
and the row.
"""

import csv
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats

if TYPE_CHECKING:
    import polars

__all__ = ["Floats", "Table", "TableError", "TableWriter", "listed", "open_table", "write_table"]

_BLOCK_BYTES = 2**22  # of CSV text at once
_BLOCK_ROWS = 2**16  # of Parquet at once
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # a frame's row labels, which pandas writes as a column
_LIKE_NUMBERS = re.compile(r"[-+(]?[$€£]?\s*\d[\d.,:/\s-]*\s*[%$€£)]?(T[\d:.]+Z?)?")  # 1,000, 5%, 2024-01-31, 3/4/2024
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?[/.]\d\d?[/.]\d{2,4}")
_TYPO_SHARE = 0.1  # of text in a column, up to which it is a column of numbers with mistakes in it
_MIN_IDS, _ID_SHARE = 20, 0.9  # rows, and the fraction of them with a text of its own, of a column of identifiers
_GAPS = ("", "na", "nan", "null", "none")  # what a missing entry looks like


class TableError(ValueError):
    """A table that is not there, cannot be read, or lacks what was asked for."""


def _polars() -> Any:
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
        self._levels: dict[str, list[Any]] = {}  # of inputs; none for numbers
        self._kept: list[polars.DataFrame] | None = None

    def understand(self, inputs: list[str], categories: list[list[Any]]) -> "Table":
        """Take these columns for inputs of a model: some have levels, come as their numbers; all may have gaps, NaN."""
        self._levels = dict(zip(inputs, categories or [[]] * len(inputs)))
        return self

    def inputs(self, columns: list[str]) -> "polars.DataFrame":
        """All rows of some columns, as numbers where all entries are, else as text; gaps are null.

        Rows are kept, so that other columns can be read as well.
        """
        pl = _polars()
        self._kept = list(self.frames(self.columns))
        if not self._kept:
            raise self._without_rows()
        whole: polars.DataFrame = pl.concat(self._kept).select(columns)
        return whole.with_columns([self._typed(column) for column in whole])

    def _typed(self, column: "polars.Series") -> "polars.Series":
        pl = _polars()
        column = _as_text(column)
        counts = _TextCounts(self.name, column.name)
        counts.add(column)
        if counts.is_text():
            if len(column) >= _MIN_IDS and column.n_unique() > _ID_SHARE * len(column):
                print(
                    f"coverwalk: column {column.name!r} has a different text in almost every row, so it cannot help to "
                    f"predict; if it is an identifier, leave it out: --drop {column.name}",
                    file=sys.stderr,
                )
            return column
        numbers: polars.Series = pl.Series(column.name, self._numbers(column, 0, with_missing=True))
        return numbers

    def text_columns(self, columns: list[str]) -> list[str]:
        """Those of some columns that `inputs` would take for text, found by reading all rows."""
        found = {name: _TextCounts(self.name, name) for name in columns}
        for frame in self._rows(columns):
            for name in columns:
                found[name].add(_as_text(frame[name]))
        return [name for name in columns if found[name].is_text()]

    def texts(self, columns: list[str], n_rows: int = 20_000) -> Iterator["polars.DataFrame"]:
        """Frames of text, gaps as null, of the rows that `batches` gives."""
        for frame in self._rows(columns):
            cleaned = frame.select([_without_missing(frame[name].cast(_polars().String)) for name in columns])
            yield from _pieces(n_rows, cleaned)

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
        for numbers, _, _ in self._numbered(columns):
            yield from _pieces(n_rows, numbers)

    def read(self, columns: list[str]) -> Floats:
        """All rows at once."""
        return np.concatenate(list(self.batches(columns)))

    def labelled(self, columns: list[str], label: str, n_rows: int = 20_000) -> Iterator[tuple[Floats, NDArray[Any]]]:
        """Arrays of finite numbers as from `batches`, each with the entries of the column ``label`` as they stand."""
        for numbers, frame, first in self._numbered(columns, [label]):
            labels = self._labels(frame[label], first)
            yield from zip(_pieces(n_rows, numbers), _pieces(n_rows, labels))

    def beside(
        self, columns: list[str], kept: list[str], n_rows: int = 20_000
    ) -> Iterator[tuple[Floats, "polars.DataFrame"]]:
        """Arrays of finite numbers as from `batches`, each with the entries of some more columns as they stand."""
        for numbers, frame, _ in self._numbered(columns, kept):
            for some, rows in zip(_pieces(n_rows, numbers), _pieces(n_rows, frame)):
                yield some, rows.select(kept)  # a frame without columns has no rows

    def _numbered(self, columns: list[str], kept: Sequence[str] = ()) -> Iterator[tuple[Floats, Any, int]]:
        """Frame by frame: its columns as numbers, the frame with those kept, and how many rows came before it."""
        wanted = list(dict.fromkeys([*columns, *kept]))
        self.require(wanted)
        first = 0
        for frame in self._rows(wanted):
            yield self._table(frame, columns, first), frame, first
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

    def numbers(self, name: str, entries: NDArray[Any]) -> Floats:
        """The entries of a column, as `labelled` gives them, as finite numbers."""
        return self._numbers(_polars().Series(name, entries.tolist()), 0)

    def _labels(self, column: "polars.Series", first: int) -> NDArray[Any]:
        """Text without the blanks around it, or numbers; neither may be missing."""
        pl = _polars()
        text = column.dtype in (pl.String, pl.Categorical, pl.Enum)
        column = column.cast(pl.String).str.strip_chars().replace("", None) if text else column
        if column.null_count():
            row = first + int(column.is_null().arg_true()[0]) + 1
            where = f"column {column.name!r}, row {row}"
            raise TableError(f"{self.name} has nothing in {where}: fill in a value or leave the row out")
        return column.to_numpy() if not text else np.array(column.to_list(), dtype=object)

    def _table(self, frame: "polars.DataFrame", columns: list[str], first: int) -> Floats:
        """Numbers of all columns; of inputs that have levels, the numbers of these."""
        parts = [np.empty((len(frame), 0))]
        for name in columns:
            categories, column = self._levels.get(name), frame[name]
            if categories:
                from coverwalk.preparation.columns import encoded  # loads scikit-learn: only where it is needed

                coded = encoded(_without_missing(column.cast(_polars().String)), categories)
                parts.append(coded[:, None])
            else:
                parts.append(self._numbers(column, first, with_missing=categories is not None)[:, None])
        return np.ascontiguousarray(np.hstack(parts))

    def _numbers(self, column: "polars.Series", first: int, with_missing: bool = False) -> Floats:
        """Finite numbers; with ``with_missing`` those that are missing are NaN."""
        pl = _polars()
        text = column.dtype == pl.String
        numbers = (column.str.strip_chars() if text else column).cast(pl.Float64, strict=False)
        values: Floats = numbers.fill_null(np.nan).to_numpy()
        wrong = np.flatnonzero(~np.isfinite(values))
        for i in wrong.tolist():
            entry = column[i]
            shown = "" if entry is None else str(entry).strip()
            where = f"column {column.name!r}, row {first + i + 1}"
            if shown.lower() in _GAPS:
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


def _pieces(n_rows: int, rows: Any) -> Iterator[Any]:
    """At most so many rows of an array or a frame at a time."""
    return (rows[start : start + n_rows] for start in range(0, len(rows), n_rows))


def _as_text(column: "polars.Series") -> "polars.Series":
    """A column of names or truths as text, gaps as null; one of numbers as it is."""
    pl = _polars()
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
        self.n_rows = self.n_there = self.n_texts = 0
        self.first: tuple[int, str] | None = None  # row and entry of the first text
        self.told = False

    def add(self, column: "polars.Series") -> None:
        """Count the entries of further rows, gaps being null."""
        pl = _polars()
        if column.dtype == pl.String:
            text = column.is_not_null() & column.cast(pl.Float64, strict=False).is_null()
            if self.first is None and text.any():
                row = int(text.arg_true()[0])
                self.first = self.n_rows + row + 1, str(column[row])
            self.n_texts += int(text.sum())
        self.n_there += len(column) - column.null_count()
        self.n_rows += len(column)

    def is_text(self) -> bool:
        """Whether the column is one of names."""
        if self.first is None:
            return False
        row, entry = self.first
        share = self.n_texts / self.n_there
        what = f"{self.table} has {_brief(entry)} in column {self.column!r}, row {row}"
        if share <= _TYPO_SHARE:
            raise TableError(
                f"{what}, where {self.n_there - self.n_texts} of {self.n_there} entries are numbers: write it as a "
                f"number or leave it empty; or fit with --drop {self.column}"
            )
        if (share < 1 or _LIKE_NUMBERS.fullmatch(entry)) and not self.told:
            self.told = True
            hint = "; for a date, add columns such as month or days since a start" if _DATE.match(entry) else ""
            print(f"coverwalk: {what}: its values are used as categories, not as numbers{hint}", file=sys.stderr)
        return True


def _without_missing(column: "polars.Series") -> "polars.Series":
    """Text without the blanks around it; null where nothing is left, or a word that says so."""
    entries = column.str.strip_chars()
    return entries.set(entries.str.to_lowercase().is_in(list(_GAPS)), None)


class _CsvTable(Table):
    """Text read in blocks of whole records, so that any stream will do."""

    def __init__(self, path: str) -> None:
        name = "standard input" if path == "-" else path
        self._path, self._separator = path, "\t" if path.lower().endswith(".tsv") else ","
        self._size = None if path == "-" else os.path.getsize(path)
        with self._opened() as stream:
            self._header = _records(stream, 1)
        try:
            header = self._header.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise TableError(f"{name} is not text in UTF-8: save it as CSV in UTF-8, or as Parquet") from error
        if "\r" in header.strip("\r\n") and "\n" not in header:
            raise TableError(f"{name} has lines that end in CR alone: save it with line ends LF or CR LF")
        columns = next(csv.reader([header.strip("\r\n")], delimiter=self._separator), [])
        if not any(column.strip() for column in columns):
            raise TableError(f"{name} is empty; expected a first line with the names of the columns")
        if len(set(columns)) < len(columns):
            raise TableError(f"{name} has two columns with the same name; rename one of them")
        super().__init__(name, columns)

    def _opened(self) -> AbstractContextManager[IO[bytes]]:
        return nullcontext(sys.stdin.buffer) if self._path == "-" else open(self._path, "rb")

    def frames(self, columns: list[str]) -> Iterator["polars.DataFrame"]:
        from tqdm import tqdm

        bar = tqdm(total=self._size, unit="B", unit_scale=True, desc=self.name, disable=None)
        with self._opened() as stream, bar:
            bar.update(len(self._header) if self._path == "-" else len(_records(stream, 1)))  # the header again
            n_rows = 0
            while block := _records(stream, _BLOCK_BYTES):
                if block.strip():
                    frame = self._parse(block, n_rows)
                    n_rows += len(frame)
                    yield frame.select(columns)
                bar.update(len(block))

    def _parse(self, block: bytes, first: int) -> "polars.DataFrame":
        """All columns, or lines of too many fields would go unnoticed; as text, to show what is no number."""
        pl = _polars()
        names = self._separator.join(f"column{a}" for a in range(len(self.columns)))  # theirs may need quotes
        text = names.encode() + b"\n" + block.rstrip(b"\r\n") + b"\n"
        try:
            frame: polars.DataFrame = pl.read_csv(BytesIO(text), separator=self._separator, infer_schema_length=0)
        except pl.exceptions.PolarsError as error:
            raise TableError(f"{self.name} is not valid CSV: {self._mistake(block, first, error)}") from error
        frame.columns = self.columns
        return frame

    def _mistake(self, block: bytes, first: int, error: Exception) -> str:
        """What is wrong with a block: the first row of too many fields, or what Polars says."""
        rows = csv.reader(block.decode("utf-8", "replace").splitlines(), delimiter=self._separator)
        try:
            for i, row in enumerate(rows, first + 1):
                if len(row) > len(self.columns):
                    return f"row {i} has {len(row)} fields, expected {len(self.columns)}"
        except csv.Error:  # a field longer than this reader takes
            pass
        return str(error).splitlines()[0][:200]


def _records(stream: IO[bytes], n_bytes: int) -> bytes:
    """Whole lines of about this many bytes; a line break inside quotes ends no record."""
    lines = stream.readlines(n_bytes)
    quoted = sum(line.count(b'"') for line in lines) % 2
    while quoted and (line := stream.readline()):
        lines.append(line)
        quoted ^= line.count(b'"') % 2
    return b"".join(lines)


class _ParquetTable(Table):
    def __init__(self, name: str) -> None:
        pl = _polars()
        self._scan = pl.scan_parquet(name)
        try:
            schema = self._scan.collect_schema()
            super().__init__(name, [column for column in schema if not _PANDAS_INDEX.fullmatch(column)])
            self._height = int(self._scan.select(pl.len()).collect().item())
        except (pl.exceptions.PolarsError, OSError) as error:
            raise TableError(f"{name} is not a valid Parquet file: {str(error).splitlines()[0]}") from error
        self._nested = {
            column: kind for column, kind in schema.items() if kind.is_nested() or kind in (pl.Binary, pl.Object)
        }

    def frames(self, columns: list[str]) -> Iterator["polars.DataFrame"]:
        for column in columns:
            if column in self._nested:
                raise TableError(
                    f"{self.name} has {self._nested[column]} in column {column!r}; expected numbers or text: make "
                    f"columns of its parts, or fit with --drop {column}"
                )
        from tqdm import tqdm

        with tqdm(total=self._height, unit="rows", desc=self.name, disable=None) as bar:
            for start in range(0, self._height, _BLOCK_ROWS):
                frame = self._scan.select(columns).slice(start, _BLOCK_ROWS).collect()
                yield frame
                bar.update(len(frame))


def open_table(path: str) -> Table:
    r"""The table in a file: Parquet by its ending, else CSV (``.tsv``: tabs); ``-`` is CSV from standard input.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x,y\n1,2\n3,4\n")
    ...     file.flush()
    ...     open_table(file.name).read(["y", "x"]).tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    if find_spec("polars") is None:
        _polars()
    if path == "-":
        return _CsvTable(path)
    if not os.path.exists(path):
        raise TableError(f"there is no file {path}")
    if os.path.isdir(path):
        raise TableError(f"{path} is a folder; expected a CSV or Parquet file")
    return _ParquetTable(path) if _is_parquet(path) else _CsvTable(path)


def _is_parquet(path: str) -> bool:
    return path.lower().endswith((".parquet", ".pq"))


class TableWriter:
    """Takes rows batch after batch; made by `write_table`."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def write(self, rows: Floats) -> None:
        """Append rows (n, len(columns))."""
        self._take(_polars().DataFrame(rows, schema=self.columns, orient="row"))

    def _take(self, frame: "polars.DataFrame") -> None:
        raise NotImplementedError


class _CsvWriter(TableWriter):
    def __init__(self, columns: list[str], stream: IO[bytes], separator: str = ",") -> None:
        super().__init__(columns)
        self._stream, self._separator, self._begun = stream, separator, False

    def _take(self, frame: "polars.DataFrame") -> None:
        self._stream.write(frame.write_csv(include_header=not self._begun, separator=self._separator).encode())
        self._begun = True


class _ParquetWriter(TableWriter):
    """Batches go to files of their own, which are joined at the end without being held in memory together."""

    def __init__(self, columns: list[str], folder: str) -> None:
        super().__init__(columns)
        self._folder, self._parts = Path(folder), 0

    def _take(self, frame: "polars.DataFrame") -> None:
        frame.write_parquet(self._folder / f"{self._parts:08d}.parquet")
        self._parts += 1

    def join(self, path: str) -> None:
        pl = _polars()
        parts = sorted(self._folder.glob("*.parquet"))
        (
            pl.scan_parquet(parts) if parts else pl.LazyFrame(schema=dict.fromkeys(self.columns, pl.Float64))
        ).sink_parquet(path)


@contextmanager
def write_table(path: str, columns: list[str]) -> Iterator[TableWriter]:
    """A writer of one table, by the file's ending; ``-`` is CSV to standard output. A file appears when it is whole."""
    _polars()
    if path == "-":
        yield _CsvWriter(columns, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise TableError(f"there is no folder {folder} to write {os.path.basename(path)} into")
    with tempfile.TemporaryDirectory(prefix=".coverwalk", dir=folder) as beside:
        whole = os.path.join(beside, "whole")
        if _is_parquet(path):
            writer = _ParquetWriter(columns, beside)
            yield writer
            writer.join(whole)
        else:
            with open(whole, "wb") as stream:
                yield _CsvWriter(columns, stream, "\t" if path.lower().endswith(".tsv") else ",")
        os.replace(whole, path)
