"""Tables written a batch of rows at a time; a file appears when it is whole."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from coverwalk._arrays import Floats
from coverwalk.preparation.table import TableError, polars_here
from coverwalk.preparation.tables import is_parquet, separator_of

if TYPE_CHECKING:
    import polars

__all__ = ["TableWriter", "whole_file", "write_table"]


class TableWriter:
    """Takes rows batch after batch; made by `write_table`."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def write(self, rows: Floats) -> None:
        """Append rows (n, len(columns))."""
        self._take(polars_here().DataFrame(rows, schema=self.columns, orient="row"))

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
        pl = polars_here()
        parts = sorted(self._folder.glob("*.parquet"))
        (
            pl.scan_parquet(parts) if parts else pl.LazyFrame(schema=dict.fromkeys(self.columns, pl.Float64))
        ).sink_parquet(path)


@contextmanager
def whole_file(path: str) -> Iterator[str]:
    """A path to write to in place of this one, which has the file when all went well."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise TableError(f"there is no folder {folder} to write {os.path.basename(path)} into")
    with tempfile.TemporaryDirectory(prefix=".coverwalk", dir=folder) as beside:
        yield os.path.join(beside, "whole")
        os.replace(os.path.join(beside, "whole"), path)


@contextmanager
def write_table(path: str, columns: list[str]) -> Iterator[TableWriter]:
    """A writer of one table, by the file's ending; ``-`` is CSV to standard output. A file appears when it is whole."""
    polars_here()
    if path == "-":
        yield _CsvWriter(columns, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with whole_file(path) as whole:
        if is_parquet(path):
            writer = _ParquetWriter(columns, os.path.dirname(whole))
            yield writer
            writer.join(whole)
        else:
            with open(whole, "wb") as stream:
                yield _CsvWriter(columns, stream, separator_of(path))
