"""``coverwalk fit``: learn the distribution of some columns given the others."""

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity
    from coverwalk.tables import Table

LARGE_FILE = 2**29  # bytes: larger ones are read in chunks
ROWS_AT_ONCE = 2**16

HELP = "learn the distribution of one or more columns given the others"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Data, targets, and where the model goes."""
    parser.add_argument("data", help="CSV or Parquet file; - for CSV from standard input")
    parser.add_argument(
        "--target", action="append", required=True, metavar="COLUMN", help="what to predict; may be repeated"
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="COLUMN", help="leave a column out; may be repeated"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="the model file; the data's name with the ending .cw if not given"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the candidate cuts (default: 0)")
    parser.add_argument(
        "--trees", type=int, default=None, help="trees in the forest (default: as many as the rows want)"
    )
    parser.add_argument("--jobs", type=int, default=None, help="threads; -1 for all cores (default: 1)")
    parser.add_argument(
        "--chunks",
        action="store_true",
        help="read the file in chunks, three times, in bounded memory; so are files of more than 512 MB",
    )
    parser.add_argument(
        "--sample", type=int, default=2**17, metavar="ROWS", help="with chunks: rows that plan the trees (131072)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Read the table, fit, save."""
    from coverwalk import ConditionalDensity
    from coverwalk.commands._models import size
    from coverwalk.tables import TableError, listed, open_table

    if arguments.chunks and arguments.data == "-":
        raise TableError("standard input can be read only once, and --chunks reads it three times: write a file first")
    table = open_table(arguments.data)
    targets, out = list(dict.fromkeys(arguments.target)), _out(arguments)
    left_out = {*targets, *arguments.drop}
    inputs = [column for column in table.columns if column not in left_out]
    if not inputs:
        raise TableError(f"{table.name} has no column besides {', '.join(sorted(left_out))}: nothing to predict from")
    if not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise TableError(f"there is no folder {os.path.dirname(out)} for the model {out}")
    unknown = left_out - set(table.columns)
    if unknown:
        raise TableError(f"{table.name} has no column {listed(sorted(unknown))}; it has {listed(table.columns)}")
    model = ConditionalDensity(arguments.trees, n_jobs=arguments.jobs, random_state=arguments.seed)
    chunked = arguments.chunks or (arguments.data != "-" and os.path.getsize(arguments.data) > LARGE_FILE)
    n_rows = (
        _fit_chunks(model, table, inputs, targets, arguments.sample) if chunked else _fit(model, table, inputs, targets)
    )
    model.target_names_ = targets
    model.save(out)
    given = f"{len(inputs)} column{'s' * (len(inputs) > 1)}"
    print(f"{', '.join(targets)} given {given}, learned from {n_rows} rows; wrote {out} ({size(os.path.getsize(out))})")


def _fit(model: "ConditionalDensity", table: "Table", inputs: list[str], targets: list[str]) -> int:
    """Fit to all rows at once; returns how many."""
    import polars  # there, since the table could be opened

    rows = table.read(inputs + targets)
    X = polars.DataFrame(rows[:, : len(inputs)], schema=inputs, orient="row")
    model.fit(X, rows[:, len(inputs)] if len(targets) == 1 else rows[:, len(inputs) :])
    return len(rows)


def _fit_chunks(
    model: "ConditionalDensity", table: "Table", inputs: list[str], targets: list[str], sample_rows: int
) -> int:
    """Fit to all rows, chunk by chunk; returns how many."""
    import polars

    def chunks() -> Iterator[tuple[Any, Any]]:
        for rows in table.batches(inputs + targets, ROWS_AT_ONCE):
            X = polars.DataFrame(rows[:, : len(inputs)], schema=inputs, orient="row")
            yield X, rows[:, len(inputs)] if len(targets) == 1 else rows[:, len(inputs) :]

    model.fit_chunks(chunks, sample_rows=sample_rows)
    return model.forests_[0].n_rows


def _out(arguments: argparse.Namespace) -> str:
    if arguments.out:
        return str(arguments.out)
    return "model.cw" if arguments.data == "-" else os.path.splitext(arguments.data)[0] + ".cw"
