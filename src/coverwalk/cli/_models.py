"""What commands share: the model in a file, its columns, and the rows of a table in their order."""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

    from coverwalk import ConditionalDensity, ContextClassifier, DoubleTree
    from coverwalk._arrays import Floats

ROWS_AT_ONCE = 5_000
_JOINT_ROWS_AT_ONCE = 100  # several outputs are predicted by draws: a row takes the memory of hundreds


def add_output(parser: argparse.ArgumentParser, words: str, default: str | None = None) -> None:
    """``-o/--output``, the same in every command."""
    shown = "" if default is None else " (default: %(default)s)"
    parser.add_argument("-o", "--output", default=default, metavar="FILE", help=words + shown)


def add_json(parser: argparse.ArgumentParser, words: str = "print the result as one JSON object") -> None:
    """``--json``, the same in every command."""
    parser.add_argument("--json", action="store_true", help=words)


def print_json(facts: dict[str, Any]) -> None:
    """One object on one line."""
    print(json.dumps(facts, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON has them."""
    return value.tolist()


def check_folder(path: str, what: str) -> None:
    """Refuse a path in a folder that is not there, before the work is done."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise ValueError(f"there is no folder {os.path.dirname(path)} for the {what} {path}")


def load_model(path: str, data: str = "-", names: Sequence[str] = ("feature_names_in_", "target_names_")) -> Any:
    """The model in a file. A table without the columns that it has under ``names`` is refused before it is loaded."""
    from coverwalk import ModelFileError
    from coverwalk.files.loading import load_after
    from coverwalk.preparation.tables import open_table

    if not os.path.exists(path):
        raise ModelFileError(f"there is no file {path}; create one with: coverwalk fit data.csv --target y -o {path}")

    def look(fields: dict[str, Any]) -> None:
        columns = [column for name in names if type(fields.get(name)) is list for column in fields[name]]
        if columns and data != "-":  # standard input can be read only once
            open_table(data).require([column for column in columns if type(column) is str])

    return load_after(path, look)


def load_fitted(path: str, data: str, targets: bool) -> Any:
    """The fitted model in a file: a ContextClassifier, which has ``classes_``, a ConditionalDensity or a DoubleTree.

    A table without its inputs or, with ``targets``, its targets is refused.
    """
    from coverwalk import ModelFileError

    model = load_model(path, data, ("feature_names_in_", "target_names_")[: 1 + targets])
    name = type(model).__name__
    if name not in ("ConditionalDensity", "ContextClassifier", "DoubleTree"):
        raise ModelFileError(f"{path} holds a {name}; this command takes a ConditionalDensity")
    if not hasattr(model, "classes_" if name == "ContextClassifier" else "n_outputs_"):
        raise ModelFileError(f"{path} holds a model that was never fitted: fit it and save it again")
    return model


def columns_of(model: "ConditionalDensity | ContextClassifier | DoubleTree") -> tuple[list[str], list[str]]:
    """Names of inputs and of targets; a classifier has one."""
    from coverwalk.preparation.columns import input_names, output_names

    return input_names(model), output_names(model)


def batch_size(model: "ConditionalDensity | DoubleTree") -> int:
    """Rows to predict at once."""
    return ROWS_AT_ONCE if model.n_outputs_ == 1 else _JOINT_ROWS_AT_ONCE


def rows_of(model: "ConditionalDensity | DoubleTree", data: str, targets: bool) -> Iterator[tuple["Floats", "Floats"]]:
    """X and Y of a table, batch by batch. Y has no columns without ``targets``; categories in X are numbers."""
    from coverwalk.preparation.tables import open_table

    inputs, outputs = columns_of(model)
    table = open_table(data).understand(inputs, model._mixed.categories)
    for rows in table.batches(inputs + outputs * targets, batch_size(model)):
        yield rows[:, : len(inputs)], rows[:, len(inputs) :]


@contextmanager
def write_rows(
    arguments: argparse.Namespace, columns: list[str]
) -> "Iterator[Callable[[polars.DataFrame, Any], None]]":
    """A function that takes a frame of kept columns and the values (columns, rows) of predictions beside it."""
    import polars as pl

    from coverwalk.preparation.table import TableError
    from coverwalk.preparation.table_writers import write_table

    twice = [name for name in arguments.keep if name in columns]
    if twice:
        raise TableError(f"the column {twice[0]!r} to keep has the name of a prediction: rename it in the table")
    with write_table(arguments.output, [*arguments.keep, *columns], arguments.json) as write:
        yield lambda kept, values: write(
            pl.DataFrame([*kept.get_columns(), *(pl.Series(name, column) for name, column in zip(columns, values))])
        )


def first_rows(batches: Iterator[tuple["Floats", Any]], n: int) -> tuple["Floats", Any, bool]:
    """The first n rows of X and Y together, or all; and whether there were more."""
    import numpy as np

    parts, count = [], 0
    for X, Y in batches:
        parts.append((X, Y))
        count += len(X)
        if count > n:
            break
    return np.concatenate([X for X, _ in parts])[:n], np.concatenate([Y for _, Y in parts])[:n], count > n


def probabilities(text: str) -> list[float]:
    """Probabilities separated by commas, for argparse."""
    values = [float(part) for part in text.split(",")]
    if not all(0 < value < 1 for value in values):
        raise argparse.ArgumentTypeError(
            f"probabilities must be between 0 and 1, got {text}: divide percentages by 100"
        )
    return values


def counted(n: int, thing: str) -> str:
    """A number of things for people.

    >>> counted(1, "row"), counted(2, "more row")
    ('1 row', '2 more rows')
    """
    return f"{n} {thing}{'s' * (n != 1)}"


def size(n_bytes: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"
