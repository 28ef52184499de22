"""Tables written a batch of rows at a time: CSV, Parquet or lines of JSON; a file appears when it is whole."""

import glob
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import IO, TYPE_CHECKING

from coverwalk.preparation.table import TableError, polars_here
from coverwalk.preparation.tables import is_parquet, separator_of

if TYPE_CHECKING:
    import polars

Write = Callable[["polars.DataFrame"], None]


@contextmanager
def write_table(path: str, columns: list[str], json: bool = False) -> Iterator[Write]:
    """A function that appends frames of these columns to one table: lines of ``json``, or by the ending of the file.

    ``-`` is CSV, or JSON, to standard output.
    """
    polars_here()
    separator = None if json else separator_of(path)
    if path == "-":
        yield _text(sys.stdout.buffer, separator)
        sys.stdout.buffer.flush()
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise TableError(f"there is no folder {folder} to write {os.path.basename(path)} into")
    with tempfile.TemporaryDirectory(prefix=".coverwalk", dir=folder) as beside:
        whole = os.path.join(beside, "whole")
        if is_parquet(path) and not json:
            part = (os.path.join(beside, f"{i:08d}.parquet") for i in count())
            yield lambda frame: frame.write_parquet(next(part))
            _join(sorted(glob.glob(os.path.join(glob.escape(beside), "*.parquet"))), columns, whole)
        else:
            with open(whole, "wb") as stream:
                yield _text(stream, separator)
        os.replace(whole, path)


def _text(stream: IO[bytes], separator: str | None) -> Write:
    """CSV whose first lines are names, or lines of JSON where there is no separator."""
    begun = False

    def write(frame: "polars.DataFrame") -> None:
        nonlocal begun
        text = frame.write_csv(include_header=not begun, separator=separator) if separator else frame.write_ndjson()
        stream.write(text.encode())
        begun = True

    return write


def _join(parts: list[str], columns: list[str], path: str) -> None:
    """One Parquet file of several, which are not held in memory together."""
    pl = polars_here()
    rows = pl.scan_parquet(parts) if parts else pl.LazyFrame(schema=dict.fromkeys(columns, pl.Float64))
    rows.sink_parquet(path)
