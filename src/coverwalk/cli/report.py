"""``coverwalk report``: one page about a model and how it does on a table."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import (
    add_model_and_data,
    add_output,
    add_target,
    check_folder,
    chosen_target,
    columns_of,
    first_rows,
    load_fitted,
    rows_of,
    size,
)
from coverwalk.cli.show import stream_facts

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity
    from coverwalk._arrays import Floats
    from coverwalk.evaluation.report.facts import Subject

HELP = "write a self-contained HTML page: scores, calibration, importances, surprising rows"

_MAX_ROWS = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, page."""
    add_model_and_data(parser)
    add_output(parser, "HTML file to write", "report.html")
    add_target(parser)


def run(arguments: argparse.Namespace) -> None:
    """Read the rows, write the page."""
    check_folder(arguments.output, "page")
    model = load_fitted(arguments.model, arguments.data)
    from coverwalk.evaluation.report.page import write_page, write_report

    inputs, targets = columns_of(model)
    j = 0 if hasattr(model, "classes_") else chosen_target(arguments, targets)
    X, Y, more = first_rows(rows_of(model, arguments.data), _MAX_ROWS)
    note = f"{arguments.data} has more rows than a report uses: this page is about the first {_MAX_ROWS:,}."
    head = f"{targets[j]} given {os.path.basename(arguments.data)}", [note] if more else []
    if hasattr(model, "classes_"):
        from coverwalk.evaluation.report.class_facts import gather_classes

        write_page(gather_classes(model, X, Y, targets[0], inputs), arguments.output, *head)
    else:
        write_report(_subject(model, X, Y, j), arguments.output, *head)
    which = f"the first {len(X)} rows (the maximum)" if more else f"{len(X)} rows"
    print(f"wrote {arguments.output} ({size(os.path.getsize(arguments.output))}): {which} of {arguments.data}")


def _subject(model: "ConditionalDensity", X: "Floats", Y: "Floats", j: int) -> "Subject":
    """Target j given the inputs and the targets before it: of a forest, else of whatever the model predicts with."""
    import numpy as np

    from coverwalk.evaluation.report.facts import Subject
    from coverwalk.evaluation.scores import learned_rows, predicted

    inputs, targets = columns_of(model)
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
            "n_contexts": sum(len(tree) for tree in forest.trees),
            "calibration_rows": len(model.calibration_),
        }
    else:
        shown = stream_facts(model)
        facts = {"n_rows": shown["rows"], "n_trees": shown.get("trees", 1), "n_contexts": shown["contexts"]}
    rows = None if learned is None else (learned[0], learned[1][:, j])
    return Subject(targets[j], X, Y[:, j], predict, inputs, rows, model._mixed.n_categories, facts)
