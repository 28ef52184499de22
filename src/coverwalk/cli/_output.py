"""Where predictions go: a CSV or Parquet table, or one JSON object for each row; columns that were kept come first."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

__all__ = ["write_rows"]

Write = Callable[["polars.DataFrame", Any], None]


@contextmanager
def write_rows(arguments: argparse.Namespace, columns: list[str]) -> "Iterator[Write]":
    """A function that takes a frame of kept columns and the values (columns, rows) that go beside it."""
    from coverwalk.preparation.table import TableError
    from coverwalk.preparation.table_writers import write_table

    twice = [name for name in arguments.keep if name in columns]
    if twice:
        raise TableError(f"the column {twice[0]!r} to keep has the name of a prediction: rename it in the table")
    names = [*arguments.keep, *columns]
    if arguments.json:
        with _json_lines(arguments.output) as stream:
            yield lambda kept, values: stream.write(_frame(kept, columns, values).write_ndjson().encode())
        return
    with write_table(arguments.output, names) as table:
        yield lambda kept, values: table._take(_frame(kept, columns, values))


def _frame(kept: "polars.DataFrame", columns: list[str], values: Any) -> "polars.DataFrame":
    import polars as pl

    return pl.DataFrame([*kept.get_columns(), *(pl.Series(name, column) for name, column in zip(columns, values))])


@contextmanager
def _json_lines(path: str) -> Iterator[Any]:
    """A stream of bytes; a file appears when it is whole."""
    from coverwalk.preparation.table_writers import whole_file

    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(path) as whole, open(whole, "wb") as stream:
        yield stream
