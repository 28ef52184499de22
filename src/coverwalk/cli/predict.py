"""``coverwalk predict``: the distribution of the targets in every row of a table, in numbers."""

import argparse
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from coverwalk.cli._models import (
    add_json,
    add_model_and_data,
    add_output,
    batch_size,
    check_folder,
    columns_of,
    load_fitted,
    numbers_of,
    probabilities,
    texts_of,
)

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity, ContextClassifier
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
    add_model_and_data(parser, "the model's inputs")
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
    add_json(parser, "write one JSON object for each row")


def run(arguments: argparse.Namespace) -> None:
    """Batch by batch, so that no table is too long."""
    if arguments.density and not 2 <= arguments.density <= 10_000:
        raise ValueError(f"--density takes a number of points from 2 to 10000, got {arguments.density}")
    if not 0 <= arguments.samples <= 10_000:
        raise ValueError(f"--samples takes a number of draws up to 10000, got {arguments.samples}")
    if arguments.output != "-":
        check_folder(arguments.output, "table")
    model = load_fitted(arguments.model, arguments.data, targets=False)
    import polars as pl

    from coverwalk.preparation.table import TableError
    from coverwalk.preparation.table_writers import write_table
    from coverwalk.preparation.tables import open_table

    columns, predict = (_classes if hasattr(model, "classes_") else _density)(model, arguments)
    twice = [name for name in arguments.keep if name in columns]
    if twice:
        raise TableError(f"the column {twice[0]!r} to keep has the name of a prediction: rename it in the table")
    table, inputs = open_table(arguments.data), columns_of(model)[0]

    def frames() -> "Iterator[pl.DataFrame]":
        for X, kept, rows in table.pieces(inputs, texts_of(model), arguments.keep, batch_size(model)):
            values = predict(numbers_of(model, X, len(rows)))
            yield pl.DataFrame([*kept.get_columns(), *map(pl.Series, columns, values)])

    write_table(arguments.output, frames(), arguments.json)


def _classes(
    model: "ContextClassifier", arguments: argparse.Namespace
) -> "tuple[list[str], Callable[[Floats], list[Any]]]":
    """The most probable class and the probability of each: names of columns, and what predicts them."""
    if any(getattr(arguments, name) for name in ("quantiles", "interval", "density", "prob", "samples")):
        raise ValueError(
            "this model is a classifier, which predicts class probabilities: omit --quantiles, --interval, --prob, "
            "--samples and --density"
        )

    def predict(X: "Floats") -> list[Any]:
        p = model._proba(X)
        return [model.classes_[p.argmax(axis=1)], *p.T]

    _, (target,) = columns_of(model)
    return [target, *(f"{target}_p({label})" for label in model.classes_)], predict


def _density(
    model: "ConditionalDensity", arguments: argparse.Namespace
) -> "tuple[list[str], Callable[[Floats], list[Any]]]":
    """The chosen numbers for each target: names of columns, and what predicts them."""
    import numpy as np

    from coverwalk.evaluation.scores import learned_rows, marginals, predicted

    _, targets = columns_of(model)
    rows = learned_rows(model) if arguments.density else None
    if arguments.density and rows is None:
        raise ValueError(f"{arguments.model} holds a long stream, which no longer keeps its rows: omit --density")
    grids = [np.empty(0)] * len(targets) if rows is None else [_grid(y, arguments.density) for y in rows[1].T]
    rng = np.random.default_rng(arguments.seed)

    def predict(X: "Floats") -> list[Any]:
        dist = predicted(model, X)
        draws = np.empty((len(X), 0, len(targets)))
        if arguments.samples:
            draws = np.asarray(dist.rvs(arguments.samples, rng)).reshape(len(X), arguments.samples, len(targets))
        each = enumerate(zip(marginals(dist), grids))
        return [v for j, (marginal, grid) in each for v in _predictions(marginal, grid, draws[:, :, j], arguments)]

    columns = [name for target, grid in zip(targets, grids) for name in _columns(target, grid, arguments)]
    return columns, predict


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


def _predictions(marginal: Any, grid: "Floats", draws: "Floats", arguments: argparse.Namespace) -> list[Any]:
    """The values (n,) of each column."""
    values = [marginal.mean(), marginal.std()]
    if arguments.quantiles:
        values += [*marginal.ppf(arguments.quantiles).T]
    for confidence in arguments.interval:
        values += marginal.interval(confidence)
    values += [marginal.prob(event.low, event.high) for event in arguments.prob]
    values += [*draws.T]
    return values + ([*marginal.pdf(grid[None, :]).T] if grid.size else [])
