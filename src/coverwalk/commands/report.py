"""``coverwalk report``: one page about a model and how it does on a table."""

import argparse
import os

HELP = "write one self-contained page: calibration, losses, surprising rows, an explorer; of at most 50,000 rows"

_MOST_ROWS = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, page."""
    parser.add_argument("model", help="model file, made by coverwalk fit")
    parser.add_argument("data", help="CSV or Parquet file with inputs and targets; - for CSV from standard input")
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page (default: report.html)")
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="which of several targets (default: the first), given the inputs and the targets before it",
    )


def run(arguments: argparse.Namespace) -> None:
    """Read the rows, write the page."""
    import numpy as np

    from coverwalk.commands._models import columns_of, first_rows, load_density, rows_of, size
    from coverwalk.evaluation.report import write_report
    from coverwalk.evaluation.report.facts import Subject

    model = load_density(arguments.model, forest=True)
    _, targets = columns_of(model)
    target = arguments.target or targets[0]
    if target not in targets:
        raise ValueError(f"{arguments.model} has no target {target!r}; it has {', '.join(targets)}")
    if not os.path.isdir(os.path.dirname(os.path.abspath(arguments.out))):
        raise ValueError(f"there is no folder {os.path.dirname(arguments.out)} for the page {arguments.out}")
    j = targets.index(target)
    X, Y, more = first_rows(rows_of(model, arguments.data, targets=True), _MOST_ROWS)
    forest = model.forests_[j]
    forest.names = [*forest.names[: X.shape[1]], *targets[:j]]
    subject = Subject(forest, target, np.hstack([X, Y[:, :j]]), Y[:, j])
    title = f"{target} given {os.path.basename(arguments.data)}"
    note = f"{arguments.data} has more rows than a report reads: this page is about the first {_MOST_ROWS:,} only."
    write_report(subject, arguments.out, title, notes=[note] if more else [])
    which = f"the first {len(X)} rows (a report reads no more)" if more else f"{len(X)} rows"
    print(f"wrote {arguments.out} ({size(os.path.getsize(arguments.out))}): {which} of {arguments.data}")
