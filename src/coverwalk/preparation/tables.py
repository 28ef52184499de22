"""Tables in CSV and Parquet, distinguished by their ending, and CSV from standard input."""

import csv
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from io import BytesIO
from typing import IO, TYPE_CHECKING

from coverwalk.preparation.table import Table, TableError, polars_here

if TYPE_CHECKING:
    import polars

_BLOCK_BYTES = 2**22  # of CSV text at once
_BLOCK_ROWS = 2**16  # of Parquet at once
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # a frame's row labels, which pandas writes as a column


class _CsvTable(Table):
    """Text read in blocks of whole records, so that any stream will do."""

    def __init__(self, path: str) -> None:
        name = "standard input" if path == "-" else path
        self._path, self._separator = path, separator_of(path)
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
        pl = polars_here()
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
        pl = polars_here()
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
    ...     [inputs.rows() for inputs, _, _ in open_table(file.name).pieces(["y", "x"], ["x"], [])]
    [[(2.0, '1'), (4.0, '3')]]
    """
    if find_spec("polars") is None:
        polars_here()
    if path == "-":
        return _CsvTable(path)
    if not os.path.exists(path):
        raise TableError(f"there is no file {path}")
    if os.path.isdir(path):
        raise TableError(f"{path} is a folder; expected a CSV or Parquet file")
    return _ParquetTable(path) if is_parquet(path) else _CsvTable(path)


def is_parquet(path: str) -> bool:
    """Whether a file is Parquet, by its ending."""
    return path.lower().endswith((".parquet", ".pq"))


def separator_of(path: str) -> str:
    """Between the fields of a text file: tabs in .tsv, else commas."""
    return "\t" if path.lower().endswith(".tsv") else ","
