"""``coverwalk fit``: learn the distribution of some columns given the others."""

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from coverwalk.cli._labels import LabelReader, is_text
from coverwalk.cli._models import add_json, add_output, check_folder, chunks_of, counted, numbers_of, print_json, size

if TYPE_CHECKING:
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
    from coverwalk.preparation.table import TableError
    from coverwalk.preparation.tables import open_table

    if arguments.chunks and arguments.data == "-":
        raise TableError("--chunks reads the data three times, but standard input can be read only once: use a file")
    table = open_table(arguments.data)
    targets, out = list(dict.fromkeys(arguments.target)), _out(arguments)
    inputs = _inputs(table, {*targets, *arguments.drop})
    check_folder(out, "model")
    chunked = arguments.chunks or (arguments.data != "-" and os.path.getsize(arguments.data) > LARGE_FILE)
    if chunked and arguments.test:
        raise TableError("--test does not work with chunks: split the file, and run coverwalk score on the second part")
    if not chunked:
        table.keep()
    texts = table.text_columns(inputs)
    classify = _are_classes(table, targets, arguments.classify)
    labels = LabelReader(table) if classify else None
    chunks = partial(chunks_of, table, inputs, texts, targets, labels, ROWS_AT_ONCE if chunked else None)
    rows = None if chunked else next(chunks())
    if classify and arguments.bounds:
        raise TableError("--bounds is for numbers, and the target is a class")
    # Mistakes in the table were reported at once: to load these takes longer.
    from coverwalk import ConditionalDensity, ContextClassifier
    from coverwalk.warmup import help_compiling

    options = {"n_jobs": arguments.jobs, "random_state": arguments.seed}
    options |= {} if arguments.trees is None else {"n_estimators": arguments.trees}
    model: Any = ContextClassifier(**options)
    if not classify:
        help_compiling("prediction", "distributions")
        bounds = [arguments.bounds] * len(targets) if len(targets) > 1 and arguments.bounds else arguments.bounds
        model = ConditionalDensity(**options, bounds=bounds)
    scored = None
    if rows is None:
        model.fit_chunks(chunks, sample_rows=arguments.sample)
    elif arguments.test:
        scored = _fit_and_score(model, *rows, arguments)
    else:
        model.fit(*rows)
    model.target_names_ = targets
    model.save(out)
    n_rows = model.n_rows_ if classify else model.forests_[0].n_rows
    if arguments.json:
        facts = {"model": out, "bytes": os.path.getsize(out), "targets": targets, "inputs": inputs, "rows": n_rows}
        print_json(facts | ({} if scored is None else {"test": scored.facts()}))
        return
    what = ", ".join(targets) + (f" ({len(model.classes_)} classes)" if classify else "")
    learned = f"{what} given {counted(len(inputs), 'column')}, learned from {counted(n_rows, 'row')}"
    print(f"{learned}; wrote {out} ({size(os.path.getsize(out))})")
    if scored is not None:
        units = "" if classify else f"; CRPS and RMSE in the units of {', '.join(targets)}"
        print(f"\nOn {counted(scored.n, 'held-out row')} (log loss in nats{units}):\n\n{scored}")


def _inputs(table: "Table", excluded: set[str]) -> list[str]:
    """The columns that are neither targets nor dropped."""
    from coverwalk.preparation.table import TableError

    inputs = [column for column in table.columns if column not in excluded]
    if not inputs:
        raise TableError(f"{table.name} has no column besides {', '.join(sorted(excluded))}: nothing to predict from")
    table.require(sorted(excluded))
    return inputs


def _are_classes(table: "Table", targets: list[str], classify: bool) -> bool:
    """Whether to classify, as text says: of a table in chunks that of its first rows."""
    from coverwalk.preparation.table import TableError

    if len(targets) > 1 and classify:
        raise TableError(f"a classifier has one target, got {', '.join(targets)}: fit one model for each")
    if len(targets) > 1:
        return False
    _, frame, rows = next(table.pieces([], [], targets))
    return is_text(table.labels(frame[targets[0]], rows.start)) or classify


def _fit_and_score(model: Any, X: Any, y: Any, arguments: argparse.Namespace) -> Any:
    """Fit to all rows but those held out, and score on these."""
    import numpy as np

    from coverwalk.evaluation.scores import score, score_classes

    order = np.random.default_rng(arguments.seed).permutation(len(y))
    n_test = round(arguments.test * len(y))
    if not 0 < n_test < len(y):
        raise ValueError(f"--test {arguments.test:g} of {len(y)} rows leaves none to learn from or none to score")
    test, train = order[:n_test], np.sort(order[n_test:])
    model.fit(X[train], y[train])
    held_out = numbers_of(model, X[test], n_test)
    if not hasattr(model, "classes_"):
        return score(model, [(held_out, y[test].reshape(n_test, -1))])
    unknown = np.setdiff1d(y[test], model.classes_)
    if unknown.size:
        raise ValueError(f"all rows of the class {unknown[0]!r} were held out: use another --seed")
    return score_classes(model, [(held_out, y[test])])


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
