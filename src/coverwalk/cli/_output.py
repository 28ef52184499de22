"""Where predictions go: a CSV or Parquet table, or one JSON object for each row; columns that were kept come first."""

import argparse
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
    import polars as pl

    from coverwalk.preparation.table import TableError
    from coverwalk.preparation.table_writers import write_table

    twice = [name for name in arguments.keep if name in columns]
    if twice:
        raise TableError(f"the column {twice[0]!r} to keep has the name of a prediction: rename it in the table")
    with write_table(arguments.output, [*arguments.keep, *columns], arguments.json) as write:
        yield lambda kept, values: write(
            pl.DataFrame([*kept.get_columns(), *(pl.Series(name, column) for name, column in zip(columns, values))])
        )
