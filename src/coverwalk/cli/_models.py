"""What commands share: arguments, the model in a file, its columns, and the rows of a table in their order."""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

    from coverwalk import ConditionalDensity, ContextClassifier, DoubleTree
    from coverwalk._arrays import Floats
    from coverwalk.cli._labels import LabelReader
    from coverwalk.preparation.table import Table

    Model = ConditionalDensity | ContextClassifier | DoubleTree

ROWS_AT_ONCE = 5_000
_JOINT_ROWS_AT_ONCE = 100  # several outputs are predicted by draws: a row takes the memory of hundreds


def add_model_and_data(parser: argparse.ArgumentParser, contents: str = "inputs and targets") -> None:
    """A fitted model, and a table with these columns."""
    parser.add_argument("model", help="model file, made by coverwalk fit")
    parser.add_argument("data", help=f"CSV or Parquet file with {contents}; - for CSV from standard input")


def add_output(parser: argparse.ArgumentParser, words: str, default: str | None = None, metavar: str = "FILE") -> None:
    """``-o/--output``, the same in every command."""
    shown = "" if default is None else " (default: %(default)s)"
    parser.add_argument("-o", "--output", default=default, metavar=metavar, help=words + shown)


def add_json(parser: argparse.ArgumentParser, words: str = "print the result as one JSON object") -> None:
    """``--json``, the same in every command."""
    parser.add_argument("--json", action="store_true", help=words)


def add_target(parser: argparse.ArgumentParser) -> None:
    """``--target``, of commands that show one."""
    words = "which target, if the model has several (default: the first)"
    parser.add_argument("--target", metavar="COLUMN", help=words)


def chosen_target(arguments: argparse.Namespace, targets: list[str]) -> int:
    """The number of the target that was named, or of the first."""
    target = arguments.target or targets[0]
    if target not in targets:
        raise ValueError(f"{arguments.model} has no target {target!r}; it has {', '.join(targets)}")
    return targets.index(target)


def print_json(facts: dict[str, Any]) -> None:
    """One object on one line; NumPy's numbers and arrays as JSON has them."""
    print(json.dumps(facts, allow_nan=False, default=lambda value: value.tolist()))


def check_folder(path: str, what: str) -> None:
    """Refuse a path in a folder that is not there, before the work is done."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise ValueError(f"there is no folder {os.path.dirname(path)} for the {what} {path}")


def load_model(path: str, data: str = "-", names: Sequence[str] = ("feature_names_in_", "target_names_")) -> Any:
    """The model in a file. A table without the columns that it has under ``names`` is refused before it is loaded."""
    from coverwalk.files.loading import load_after
    from coverwalk.preparation.tables import open_table

    def look(fields: dict[str, Any]) -> None:
        columns = [column for name in names if type(fields.get(name)) is list for column in fields[name]]
        if columns and data != "-":  # standard input can be read only once
            open_table(data).require([column for column in columns if type(column) is str])

    return load_after(path, look)


def load_fitted(path: str, data: str, targets: bool = True) -> Any:
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


def columns_of(model: "Model") -> tuple[list[str], list[str]]:
    """Names of inputs and of targets; a classifier has one."""
    from coverwalk.preparation.columns import input_names, output_names

    return input_names(model), output_names(model)


def texts_of(model: "Model") -> list[str]:
    """Names of the inputs that are categories: tables hold them as text."""
    return [name for name, category in zip(columns_of(model)[0], model._mixed.is_category) if category]


def numbers_of(model: "Model", frame: "polars.DataFrame", n: int) -> "Floats":
    """X (n, p) as the model takes it: a frame of n inputs, its categories as their numbers."""
    import numpy as np

    coded = model._mixed.encode(frame)
    return np.require(coded, np.float64, ["C", "W"]).reshape(n, -1 if n else frame.width)


def batch_size(model: "Model") -> int:
    """Rows to predict at once."""
    return ROWS_AT_ONCE if getattr(model, "n_outputs_", 1) == 1 else _JOINT_ROWS_AT_ONCE


def chunks_of(
    table: "Table",
    inputs: list[str],
    texts: list[str],
    targets: list[str],
    labels: "LabelReader | None",
    n_rows: int | None,
) -> Iterator[tuple["polars.DataFrame", Any]]:
    """The rows of a table, some at a time, as estimators take them: frames of inputs, beside numbers or labels."""
    import numpy as np

    for X, frame, rows in table.pieces(inputs, texts, targets, n_rows):
        if labels is not None:
            yield X, labels.read(frame[targets[0]], rows.start)
        else:
            outputs = [table.numbers(column, rows.start) for column in frame]
            yield X, outputs[0] if len(outputs) == 1 else np.stack(outputs, axis=1)


def frames_of(model: "Model", data: str, known: bool) -> Iterator[tuple["polars.DataFrame", Any]]:
    """`chunks_of` a table that has the columns of a model; with ``known`` the labels have to be those of classes."""
    from coverwalk.cli._labels import LabelReader
    from coverwalk.preparation.tables import open_table

    table, (inputs, targets) = open_table(data), columns_of(model)
    labels = LabelReader(table, model.classes_, known) if hasattr(model, "classes_") else None
    return chunks_of(table, inputs, texts_of(model), targets, labels, batch_size(model))


def rows_of(model: "Model", data: str) -> Iterator[tuple["Floats", Any]]:
    """X (n, p) of a table beside Y (n, q) or labels (n,) that the model knows, batch by batch."""
    for X, y in frames_of(model, data, known=True):
        yield numbers_of(model, X, len(y)), y if hasattr(model, "classes_") else y.reshape(len(y), -1)


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
