"""``coverwalk report``: one page about a model and how it does on a table."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import add_output

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity, ContextClassifier
    from coverwalk._arrays import Floats
    from coverwalk.evaluation.report.facts import Subject

HELP = "write a self-contained HTML page: scores, calibration, importances, surprising rows"

_MAX_ROWS = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, page."""
    parser.add_argument("model", help="model file, made by coverwalk fit")
    parser.add_argument("data", help="CSV or Parquet file with inputs and targets; - for CSV from standard input")
    add_output(parser, "HTML file to write", "report.html")
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="which target, if the model has several (default: the first)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Read the rows, write the page."""
    from coverwalk.cli._models import check_folder, load_fitted, size

    check_folder(arguments.output, "page")
    model = load_fitted(arguments.model, arguments.data, targets=True)
    n, more = (_report_classes if hasattr(model, "classes_") else _report_density)(model, arguments)
    which = f"the first {n} rows (the maximum)" if more else f"{n} rows"
    print(f"wrote {arguments.output} ({size(os.path.getsize(arguments.output))}): {which} of {arguments.data}")


def _notes(arguments: argparse.Namespace, more: bool) -> list[str]:
    note = f"{arguments.data} has more rows than a report uses: this page is about the first {_MAX_ROWS:,}."
    return [note] if more else []


def _title(arguments: argparse.Namespace, target: str) -> str:
    return f"{target} given {os.path.basename(arguments.data)}"


def _report_classes(model: "ContextClassifier", arguments: argparse.Namespace) -> tuple[int, bool]:
    from coverwalk.cli._classes import labelled_rows
    from coverwalk.cli._models import columns_of, first_rows
    from coverwalk.evaluation.report.class_facts import gather_classes
    from coverwalk.evaluation.report.page import write_page

    inputs, (target,) = columns_of(model)
    X, labels, more = first_rows(labelled_rows(model, arguments.data, known=True), _MAX_ROWS)
    facts = gather_classes(model, X, labels, target, inputs)
    write_page(facts, arguments.output, _title(arguments, target), _notes(arguments, more))
    return len(X), more


def _report_density(model: "ConditionalDensity", arguments: argparse.Namespace) -> tuple[int, bool]:
    from coverwalk.cli._models import columns_of, first_rows, rows_of
    from coverwalk.evaluation.report import write_report

    _, targets = columns_of(model)
    target = arguments.target or targets[0]
    if target not in targets:
        raise ValueError(f"{arguments.model} has no target {target!r}; it has {', '.join(targets)}")
    X, Y, more = first_rows(rows_of(model, arguments.data, targets=True), _MAX_ROWS)
    subject = _subject(model, X, Y, targets.index(target), targets)
    write_report(subject, arguments.output, _title(arguments, target), notes=_notes(arguments, more))
    return len(X), more


def _subject(model: "ConditionalDensity", X: "Floats", Y: "Floats", j: int, targets: list[str]) -> "Subject":
    """Target j given the inputs and the targets before it: of a forest, else of whatever the model predicts with."""
    import numpy as np

    from coverwalk.cli._models import columns_of
    from coverwalk.cli.show import _stream
    from coverwalk.evaluation.report.facts import Subject
    from coverwalk.evaluation.scores import learned_rows, predicted

    inputs, _ = columns_of(model)
    calibrated = "calibration_" in model.__dict__
    if hasattr(model, "forests_") and not calibrated:
        forest = model.forests_[j]
        forest.names = [*forest.names[: X.shape[1]], *targets[:j]]
        return Subject.of(forest, targets[j], np.hstack([X, Y[:, :j]]), Y[:, j])

    def predict(rows: "Floats") -> Any:
        return predicted(model, np.ascontiguousarray(rows)).marginal(j)

    learned = learned_rows(model)
    if hasattr(model, "forests_"):
        forest = model.forests_[j]
        facts = {
            "n_rows": forest.n_rows,
            "n_trees": len(forest.trees),
            "n_contexts": sum(len(t.feature) for t in forest.trees),
        }
    else:
        shown = _stream(model)
        facts = {"n_rows": shown["rows"], "n_trees": shown.get("trees", 1), "n_contexts": shown["contexts"]}
    rows = None if learned is None else (learned[0], learned[1][:, j])
    return Subject(targets[j], X, Y[:, j], predict, inputs, rows, model._mixed.n_categories, facts)
