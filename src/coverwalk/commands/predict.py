"""``coverwalk predict``: the distribution of the targets in every row of a table, in numbers."""

import argparse
from typing import TYPE_CHECKING, Any

from coverwalk.commands._models import probabilities

if TYPE_CHECKING:
    from coverwalk.tables import Floats

HELP = "predict every row of a table: mean and deviation, quantiles, intervals, densities; or classes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, and what to say of each row."""
    parser.add_argument("model", help="model file, made by coverwalk fit")
    parser.add_argument("data", help="CSV or Parquet file with the model's inputs; - for CSV from standard input")
    parser.add_argument("--quantiles", type=probabilities, default=[], metavar="Q,Q,...", help="such as .05,.5,.95")
    parser.add_argument("--interval", type=probabilities, default=[], metavar="C", help="central intervals, such as .9")
    parser.add_argument(
        "--density",
        type=int,
        default=0,
        metavar="N",
        help="densities on a grid of N points over the range of the target",
    )
    parser.add_argument(
        "--out", default="-", metavar="FILE", help="CSV or Parquet file; - for standard output (default)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Batch by batch, so that no table is too long."""
    import numpy as np

    from coverwalk.commands._classes import write_classes
    from coverwalk.commands._models import columns_of, load_classifier, load_density, rows_of
    from coverwalk.evaluation.scores import laws, learned_rows
    from coverwalk.tables import write_table

    if arguments.density and not 2 <= arguments.density <= 10_000:
        raise ValueError(f"--density takes a number of points from 2 to 10000, got {arguments.density}")
    if (classifier := load_classifier(arguments.model)) is not None:
        if arguments.quantiles or arguments.interval or arguments.density:
            raise ValueError("classes have probabilities, but no quantiles, intervals or densities: leave these out")
        write_classes(classifier, arguments.data, arguments.out)
        return
    model = load_density(arguments.model)
    _, targets = columns_of(model)
    rows = learned_rows(model) if arguments.density else None
    if arguments.density and rows is None:
        raise ValueError(f"{arguments.model} holds a long stream, which has let its rows go: leave --density out")
    grids = [np.empty(0)] * len(targets) if rows is None else [_grid(y, arguments.density) for y in rows[1].T]
    columns = [name for target, grid in zip(targets, grids) for name in _columns(target, grid, arguments)]
    with write_table(arguments.out, columns) as table:
        for X, _ in rows_of(model, arguments.data, targets=False):
            answers = [_answers(law, grid, arguments) for law, grid in zip(laws(model._dist(X)), grids)]
            table.write(np.hstack(answers))


def _grid(y: "Floats", n: int) -> "Floats":
    """N points over the target's range and a tenth beyond it."""
    import numpy as np

    low, high = float(y.min()), float(y.max())
    margin = 0.1 * (high - low) or max(abs(low), 1.0)
    return np.linspace(low - margin, high + margin, n)


def _columns(target: str, grid: "Floats", arguments: argparse.Namespace) -> list[str]:
    return [
        f"{target}_mean",
        f"{target}_std",
        *(f"{target}_q{q:g}" for q in arguments.quantiles),
        *(f"{target}_{end}{c:g}" for c in arguments.interval for end in ("low", "high")),
        *(f"{target}_p({y:.6g})" for y in grid),
    ]


def _answers(law: Any, grid: "Floats", arguments: argparse.Namespace) -> "Floats":
    """As many numbers a row as there are columns."""
    import numpy as np

    blocks = [law.mean()[:, None], law.std()[:, None]]
    if arguments.quantiles:
        blocks.append(law.ppf(arguments.quantiles))
    for confidence in arguments.interval:
        blocks += [end[:, None] for end in law.interval(confidence)]
    if grid.size:
        blocks.append(law.pdf(grid[None, :]))
    return np.hstack(blocks)
