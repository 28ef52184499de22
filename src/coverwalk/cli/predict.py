"""``coverwalk predict``: the distribution of the targets in every row of a table, in numbers."""

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from coverwalk.cli._models import add_output, probabilities

if TYPE_CHECKING:
    import polars

    from coverwalk import ConditionalDensity
    from coverwalk._arrays import Floats

HELP = "predict each row of a table: mean, quantiles, intervals, probabilities of events, samples; or classes"


class Event(NamedTuple):
    """An interval of y whose probability is wanted, and how it was written."""

    text: str
    low: float
    high: float


def event(text: str) -> Event:
    """``>70``, ``<50`` or ``50:70``, for argparse.

    >>> event(">70"), event("50:70")
    (Event(text='>70', low=70.0, high=inf), Event(text='50:70', low=50.0, high=70.0))
    """
    wrong = argparse.ArgumentTypeError(f"expected an event such as '>70', '<=50' or 50:70, got {text!r}")
    text = text.replace(" ", "")
    try:
        if found := re.fullmatch(r"([<>])=?(.+)", text):
            value = float(found[2])
            return Event(text, value, float("inf")) if found[1] == ">" else Event(text, float("-inf"), value)
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise wrong from None
    if not low < high:
        raise wrong
    return Event(text, low, high)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, and what to predict for each row."""
    parser.add_argument("model", help="model file, made by coverwalk fit")
    parser.add_argument("data", help="CSV or Parquet file with the model's inputs; - for CSV from standard input")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="COLUMN", help="copy a column, such as an id; can be repeated"
    )
    parser.add_argument("--quantiles", type=probabilities, default=[], metavar="Q,Q,...", help="such as .05,.5,.95")
    parser.add_argument("--interval", type=probabilities, default=[], metavar="C", help="central intervals, such as .9")
    parser.add_argument(
        "--prob",
        type=event,
        action="append",
        default=[],
        metavar="EVENT",
        help="probability of an event, such as '>70', '<50' or 50:70; can be repeated",
    )
    parser.add_argument("--samples", type=int, default=0, metavar="N", help="N random draws of the targets")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the samples (default: 0)")
    parser.add_argument(
        "--density",
        type=int,
        default=0,
        metavar="N",
        help="density at N points over the range of the target",
    )
    add_output(parser, "CSV or Parquet file; - for standard output", "-")
    parser.add_argument("--json", action="store_true", help="write one JSON object for each row")


def run(arguments: argparse.Namespace) -> None:
    """Batch by batch, so that no table is too long."""
    from coverwalk.cli._models import columns_of, load_fitted, write_rows

    if arguments.density and not 2 <= arguments.density <= 10_000:
        raise ValueError(f"--density takes a number of points from 2 to 10000, got {arguments.density}")
    if not 0 <= arguments.samples <= 10_000:
        raise ValueError(f"--samples takes a number of draws up to 10000, got {arguments.samples}")
    model = load_fitted(arguments.model, arguments.data, targets=False)
    import numpy as np

    from coverwalk.cli._classes import write_classes
    from coverwalk.evaluation.scores import learned_rows, marginals, predicted

    if hasattr(model, "classes_"):
        if any(getattr(arguments, name) for name in ("quantiles", "interval", "density", "prob", "samples")):
            raise ValueError(
                "this model is a classifier, which predicts class probabilities: omit --quantiles, --interval, --prob, "
                "--samples and --density"
            )
        write_classes(model, arguments)
        return
    _, targets = columns_of(model)
    rows = learned_rows(model) if arguments.density else None
    if arguments.density and rows is None:
        raise ValueError(f"{arguments.model} holds a long stream, which no longer keeps its rows: omit --density")
    grids = [np.empty(0)] * len(targets) if rows is None else [_grid(y, arguments.density) for y in rows[1].T]
    columns = [name for target, grid in zip(targets, grids) for name in _columns(target, grid, arguments)]
    rng = np.random.default_rng(arguments.seed)
    with write_rows(arguments, columns) as write:
        for X, kept in _batches(model, arguments):
            dist = predicted(model, X)
            draws = np.asarray(dist.rvs(arguments.samples, rng)) if arguments.samples else np.empty((len(X), 0))
            each = draws.reshape(len(X), arguments.samples, -1) if arguments.samples else draws[:, :, None]
            answers = [
                _answers(marginal, grid, each[:, :, min(j, each.shape[2] - 1)], arguments)
                for j, (marginal, grid) in enumerate(zip(marginals(dist), grids))
            ]
            write(kept, np.hstack(answers).T)


def _batches(model: "ConditionalDensity", arguments: argparse.Namespace) -> "Iterator[tuple[Floats, polars.DataFrame]]":
    """Inputs, and the columns to copy, a batch at a time."""
    from coverwalk.cli._models import batch_size, columns_of
    from coverwalk.preparation.tables import open_table

    inputs, _ = columns_of(model)
    table = open_table(arguments.data).understand(inputs, model._mixed.categories)
    return table.beside(inputs, arguments.keep, batch_size(model))


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
        *(f"{target}_P({event.text})" for event in arguments.prob),
        *(f"{target}_sample{i}" for i in range(arguments.samples)),
        *(f"{target}_p({y:.6g})" for y in grid),
    ]


def _answers(marginal: Any, grid: "Floats", draws: "Floats", arguments: argparse.Namespace) -> "Floats":
    """As many numbers for each row as there are columns."""
    import numpy as np

    blocks = [marginal.mean()[:, None], marginal.std()[:, None]]
    if arguments.quantiles:
        blocks.append(marginal.ppf(arguments.quantiles))
    for confidence in arguments.interval:
        blocks += [end[:, None] for end in marginal.interval(confidence)]
    blocks += [marginal.prob(event.low, event.high)[:, None] for event in arguments.prob]
    blocks.append(draws)
    if grid.size:
        blocks.append(marginal.pdf(grid[None, :]))
    return np.hstack(blocks)
