"""``coverwalk fit``: learn the distribution of some columns given the others."""

import argparse
import os
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coverwalk.tables import Floats, Table

LARGE_FILE = 2**29  # bytes: larger ones are read in chunks
ROWS_AT_ONCE = 2**16

HELP = "learn the distribution of one or more columns, or the class in one, given the others"


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
    parser.add_argument(
        "--classify", action="store_true", help="the target is a class; so is one of text, without being told"
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
    from coverwalk import ConditionalDensity, ContextClassifier
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
    chunked = arguments.chunks or (arguments.data != "-" and os.path.getsize(arguments.data) > LARGE_FILE)
    X = None if chunked else table.inputs(inputs)
    Y, labels = (None, None) if chunked else _read(table, targets, arguments.classify)
    model: ConditionalDensity | ContextClassifier
    if labels is not None or (chunked and _classifies(table, targets, arguments.classify)):
        options = {} if arguments.trees is None else {"n_trees": arguments.trees}
        model = ContextClassifier(**options, n_jobs=arguments.jobs, random_state=arguments.seed)
    else:
        model = ConditionalDensity(arguments.trees, n_jobs=arguments.jobs, random_state=arguments.seed)
    if X is None or Y is None:
        labelled = isinstance(model, ContextClassifier)
        texts = table.text_columns(inputs)
        model.fit_chunks(lambda: chunks_of(table, inputs, texts, targets, labelled), sample_rows=arguments.sample)
    else:
        model.fit(X, labels if labels is not None else Y[:, 0] if len(targets) == 1 else Y)
    model.target_names_ = targets
    model.save(out)
    what = ", ".join(targets) + (f" ({len(model.classes_)} classes)" if isinstance(model, ContextClassifier) else "")
    given = f"{len(inputs)} column{'s' * (len(inputs) > 1)}"
    n_rows = model.forests_[0].n_rows if isinstance(model, ConditionalDensity) else model.n_rows_
    print(f"{what} given {given}, learned from {n_rows} rows; wrote {out} ({size(os.path.getsize(out))})")


def _classifies(table: "Table", targets: list[str], classify: bool) -> bool:
    """Whether the target of a table that is read in chunks is a class: as told, or as its first rows have it."""
    from coverwalk.commands._classes import is_text
    from coverwalk.tables import TableError

    if len(targets) > 1 and classify:
        raise TableError(f"a classifier has one target, got {', '.join(targets)}: fit one model for each")
    return len(targets) == 1 and (classify or is_text(next(table.labelled([], targets[0]))[1]))


def chunks_of(
    table: "Table", inputs: list[str], texts: list[str], targets: list[str], labelled: bool
) -> Iterator[tuple[Any, Any]]:
    """The rows of a table in chunks, from the beginning; all labels are numbers if the first ones are, else text."""
    import polars

    from coverwalk.commands._classes import as_labels

    n = len(inputs) - len(texts)
    plain = [name for name in inputs if name not in texts]
    table.understand(plain, [])

    def framed(rows: "Floats", words: "polars.DataFrame | None") -> "polars.DataFrame":
        frame = polars.DataFrame(rows[:, :n], schema=plain, orient="row")
        return frame if words is None else polars.concat([frame, words], how="horizontal").select(inputs)

    words: Iterator[Any] = table.texts(texts, ROWS_AT_ONCE) if texts else repeat(None)
    if not labelled:
        for rows, beside in zip(table.batches(plain + targets, ROWS_AT_ONCE), words):
            yield framed(rows, beside), rows[:, n] if len(targets) == 1 else rows[:, n:]
        return
    numbers = None
    for (rows, entries), beside in zip(table.labelled(plain, targets[0], ROWS_AT_ONCE), words):
        if numbers is None:
            numbers = as_labels(entries).dtype.kind in "iufb"
        yield framed(rows, beside), table.numbers(targets[0], entries) if numbers else entries.astype(str)


def _read(table: "Table", targets: list[str], classify: bool) -> "tuple[Floats, NDArray[Any] | None]":
    """The targets as numbers, and labels where the target is a class."""
    import numpy as np

    from coverwalk.commands._classes import as_labels, is_text
    from coverwalk.tables import TableError

    if len(targets) > 1:
        if classify:
            raise TableError(f"a classifier has one target, got {', '.join(targets)}: fit one model for each")
        return table.read(targets), None
    entries = np.concatenate([part for _, part in table.labelled([], targets[0])])
    if classify or is_text(entries):
        return np.empty((len(entries), 0)), as_labels(entries)
    return table.numbers(targets[0], entries)[:, None], None


def _out(arguments: argparse.Namespace) -> str:
    if arguments.out:
        return str(arguments.out)
    return "model.cw" if arguments.data == "-" else os.path.splitext(arguments.data)[0] + ".cw"
