"""``coverwalk fit``: learn the distribution of some columns given the others."""

import argparse
import os
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import add_json, add_output

if TYPE_CHECKING:
    import polars
    from numpy.typing import NDArray

    from coverwalk._arrays import Floats
    from coverwalk.preparation.table import Table

LARGE_FILE = 2**29  # bytes: larger ones are read in chunks
ROWS_AT_ONCE = 2**16

HELP = "learn the distribution of one or more columns, or a class, given the other columns"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Data, targets, and where the model goes."""
    parser.add_argument("data", help="CSV or Parquet file; - for CSV from standard input")
    parser.add_argument(
        "--target", action="append", required=True, metavar="COLUMN", help="what to predict; can be repeated"
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="leave out a column, such as an id; repeatable",
    )
    add_output(parser, "model file to write (default: the name of the data file, ending in .cover)")
    add_json(parser)
    parser.add_argument(
        "--test",
        type=fraction,
        metavar="FRACTION",
        help="hold out this fraction of the rows at random, and score the model on them",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of splits and held-out rows (default: 0)")
    parser.add_argument(
        "--trees", type=int, default=None, help="number of trees (default: 16 or 24, depending on the number of rows)"
    )
    parser.add_argument(
        "--bounds",
        type=limits,
        metavar="LOW:HIGH",
        help="limits of the target, such as 0: for counts or 0:100 for percentages, or auto",
    )
    parser.add_argument("--classify", action="store_true", help="the target is a class; a text column always is")
    parser.add_argument("--jobs", type=int, default=-1, help="number of threads (default: all cores)")
    parser.add_argument(
        "--chunks",
        action="store_true",
        help="read the file in chunks, in bounded memory; the default for files of more than 512 MB",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=2**17,
        metavar="ROWS",
        help="with chunks: rows to grow trees from (131072)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Read the table, fit, save."""
    from coverwalk.cli._models import check_folder, counted, print_json, size
    from coverwalk.preparation.table import TableError, listed
    from coverwalk.preparation.tables import open_table

    if arguments.chunks and arguments.data == "-":
        raise TableError("--chunks reads the data three times, but standard input can be read only once: use a file")
    table = open_table(arguments.data)
    targets, out = list(dict.fromkeys(arguments.target)), _out(arguments)
    excluded = {*targets, *arguments.drop}
    inputs = [column for column in table.columns if column not in excluded]
    if not inputs:
        raise TableError(f"{table.name} has no column besides {', '.join(sorted(excluded))}: nothing to predict from")
    check_folder(out, "model")
    unknown = excluded - set(table.columns)
    if unknown:
        raise TableError(f"{table.name} has no column {listed(sorted(unknown))}; it has {listed(table.columns)}")
    chunked = arguments.chunks or (arguments.data != "-" and os.path.getsize(arguments.data) > LARGE_FILE)
    if chunked and arguments.test:
        raise TableError("--test does not work with chunks: split the file, and run coverwalk score on the second part")
    X = None if chunked else table.inputs(inputs)
    Y, labels = (None, None) if chunked else _read(table, targets, arguments.classify)
    # What is wrong with the table was told at once: to load these takes longer.
    from coverwalk import ConditionalDensity, ContextClassifier
    from coverwalk.warmup import help_compiling

    model: ConditionalDensity | ContextClassifier
    classifies = labels is not None or (chunked and _classifies(table, targets, arguments.classify))
    if classifies and arguments.bounds:
        raise TableError("--bounds is for numbers, and the target is a class")
    if classifies:
        options = {} if arguments.trees is None else {"n_estimators": arguments.trees}
        model = ContextClassifier(**options, n_jobs=arguments.jobs, random_state=arguments.seed)
    else:
        help_compiling("prediction", "distributions")
        bounds = [arguments.bounds] * len(targets) if len(targets) > 1 and arguments.bounds else arguments.bounds
        model = ConditionalDensity(arguments.trees, bounds=bounds, n_jobs=arguments.jobs, random_state=arguments.seed)
    if X is None or Y is None:
        labelled = isinstance(model, ContextClassifier)
        texts = table.text_columns(inputs)
        model.fit_chunks(lambda: chunks_of(table, inputs, texts, targets, labelled), sample_rows=arguments.sample)
        scored = None
    else:
        scored = _fit(model, X, labels if labels is not None else Y, arguments)
    model.target_names_ = targets
    model.save(out)
    what = ", ".join(targets) + (f" ({len(model.classes_)} classes)" if isinstance(model, ContextClassifier) else "")
    n_rows = model.forests_[0].n_rows if isinstance(model, ConditionalDensity) else model.n_rows_
    if arguments.json:
        facts = {"model": out, "bytes": os.path.getsize(out), "targets": targets, "inputs": inputs, "rows": n_rows}
        print_json(facts | ({} if scored is None else {"test": scored.facts()}))
        return
    learned = f"{what} given {counted(len(inputs), 'column')}, learned from {counted(n_rows, 'row')}"
    print(f"{learned}; wrote {out} ({size(os.path.getsize(out))})")
    if scored is not None:
        units = "" if hasattr(model, "classes_") else f"; CRPS and RMSE in the units of {', '.join(targets)}"
        print(f"\nOn {counted(scored.n, 'held-out row')} (log loss in nats{units}):\n\n{scored}")


def _fit(model: Any, X: Any, y: Any, arguments: argparse.Namespace) -> Any:
    """Fit to the rows, or to all but those held out, and score on these."""
    import numpy as np

    from coverwalk.cli._classes import score_classes
    from coverwalk.evaluation.scores import score

    flat = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if not arguments.test:
        model.fit(X, flat)
        return None
    order = np.random.default_rng(arguments.seed).permutation(len(flat))
    n_test = round(arguments.test * len(flat))
    if not 0 < n_test < len(flat):
        raise ValueError(f"--test {arguments.test:g} of {len(flat)} rows leaves none to learn from or none to score")
    test, train = order[:n_test], np.sort(order[n_test:])
    model.fit(X[train], flat[train])
    held_out = model._check(X[test]) if hasattr(model, "_check") else X[test]
    if hasattr(model, "classes_"):
        strange = np.setdiff1d(flat[test], model.classes_)
        if strange.size:
            raise ValueError(f"all rows of the class {strange[0]!r} were held out: use another --seed")
        return score_classes(model, [(held_out, flat[test])])
    return score(model, [(held_out, y[test].reshape(n_test, -1))])


def _classifies(table: "Table", targets: list[str], classify: bool) -> bool:
    """Whether the target of a table that is read in chunks is a class: as told, or as its first rows have it."""
    from coverwalk.cli._classes import is_text
    from coverwalk.preparation.table import TableError

    if len(targets) > 1 and classify:
        raise TableError(f"a classifier has one target, got {', '.join(targets)}: fit one model for each")
    return len(targets) == 1 and (classify or is_text(next(table.labelled([], targets[0]))[1]))


def chunks_of(
    table: "Table", inputs: list[str], texts: list[str], targets: list[str], labelled: bool
) -> Iterator[tuple[Any, Any]]:
    """The rows of a table in chunks, from the beginning; all labels are numbers if the first ones are, else text."""
    import polars

    from coverwalk.cli._classes import as_labels

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

    from coverwalk.cli._classes import as_labels, is_text
    from coverwalk.preparation.table import TableError

    if len(targets) > 1:
        if classify:
            raise TableError(f"a classifier has one target, got {', '.join(targets)}: fit one model for each")
        return table.read(targets), None
    entries = np.concatenate([part for _, part in table.labelled([], targets[0])])
    if classify or is_text(entries):
        return np.empty((len(entries), 0)), as_labels(entries)
    return table.numbers(targets[0], entries)[:, None], None


def _out(arguments: argparse.Namespace) -> str:
    if arguments.output:
        return str(arguments.output)
    return "model.cover" if arguments.data == "-" else os.path.splitext(arguments.data)[0] + ".cover"


def limits(text: str) -> str | tuple[float | None, float | None]:
    """Limits of y, for argparse.

    >>> limits("0:"), limits(":1.5"), limits("auto")
    ((0.0, None), (None, 1.5), 'auto')
    """
    if text == "auto":
        return text
    try:
        low, high = (float(end) if end.strip() else None for end in text.split(":"))
    except ValueError:
        low = high = None
    if low is None and high is None:
        raise argparse.ArgumentTypeError(f"expected limits such as 0: or 0:100, or auto; got {text!r}")
    return low, high


def fraction(text: str) -> float:
    """A number strictly between 0 and 1, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a fraction between 0 and 1, such as 0.2; got {text!r}")
    return value
