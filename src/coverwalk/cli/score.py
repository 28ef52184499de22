"""``coverwalk score``: how good the predictions are, beside simple baselines."""

import argparse
import sys

from coverwalk.cli._models import (
    add_json,
    add_model_and_data,
    columns_of,
    counted,
    load_fitted,
    print_json,
    probabilities,
    rows_of,
)

HELP = "score a model on held-out rows, next to simple baselines: log loss, CRPS, RMSE and coverage, or accuracy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, and the confidence of the intervals."""
    add_model_and_data(parser)
    parser.add_argument(
        "--interval",
        type=probabilities,
        default=[0.9],
        metavar="C",
        help="confidence of the intervals whose coverage is shown (default: .9)",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Batch by batch, so that no table is too long."""
    model = load_fitted(arguments.model, arguments.data)
    from coverwalk.evaluation.scores import score, score_classes

    rows = rows_of(model, arguments.data)
    if hasattr(model, "classes_"):
        result = score_classes(model, rows)
        units = f"{len(model.classes_)} classes; log loss in nats; lower is better for log loss and Brier score"
    else:
        result = score(model, rows, arguments.interval[0])
        units = f"log loss in nats; CRPS and RMSE in the units of {', '.join(columns_of(model)[1])}; lower is better"
    if result.n_seen:
        print(
            f"coverwalk score: warning: the model learned from {result.n_seen} of these {result.n} rows, so the scores "
            "are too optimistic; use rows that it has not seen (coverwalk fit --test 0.2 holds some out)",
            file=sys.stderr,
        )
    if arguments.json:
        print_json(result.facts())
        return
    print(f"{counted(result.n, 'row')} of {arguments.data}; {units}\n\n{result}")
