"""``coverwalk score``: how good the predictions are, beside simple baselines."""

import argparse

from coverwalk.commands._models import probabilities

HELP = "score a model on rows it has not seen: log loss, RMSE and coverage, or accuracy, beside simple baselines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, and the confidence of the intervals."""
    parser.add_argument("model", help="model file, made by coverwalk fit")
    parser.add_argument("data", help="CSV or Parquet file with inputs and targets; - for CSV from standard input")
    parser.add_argument(
        "--interval",
        type=probabilities,
        default=[0.9],
        metavar="C",
        help="confidence of the intervals whose coverage is told (default: .9)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Batch by batch, so that no table is too long."""
    from coverwalk.commands._classes import print_scores
    from coverwalk.commands._models import columns_of, load_classifier, load_density, rows_of
    from coverwalk.evaluation.scores import score

    if (classifier := load_classifier(arguments.model)) is not None:
        print_scores(classifier, arguments.data)
        return
    model = load_density(arguments.model)
    _, targets = columns_of(model)
    confidence = arguments.interval[0]
    result = score(model, rows_of(model, arguments.data, targets=True), confidence)
    n = result.totals["coverwalk"].n
    suffix = [f" {target}" for target in targets] if len(targets) > 1 else [""]
    heads = ["log loss", *(f"RMSE{s}" for s in suffix), *(f"in {confidence:.0%}{s}" for s in suffix)]
    print(f"{n} rows of {arguments.data}; log loss in nats, the units of {', '.join(targets)}; less is better\n")
    print(f"{'':<18}" + "".join(f"{head:>{max(11, len(head) + 2)}}" for head in heads))
    for name, loss, rmse, covered in result.table():
        cells = [f"{loss:.4f}", *(f"{value:.4g}" for value in rmse), *(f"{value:.1%}" for value in covered)]
        print(f"{name:<18}" + "".join(f"{cell:>{max(11, len(head) + 2)}}" for cell, head in zip(cells, heads)))
