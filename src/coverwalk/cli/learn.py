"""``coverwalk learn``: go on learning from more rows."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import add_json, add_output, counted, frames_of, load_model, print_json

if TYPE_CHECKING:
    from coverwalk import SequenceModel

HELP = "let a model learn more rows"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, and where the model goes."""
    parser.add_argument("model", help="model file")
    parser.add_argument("data", help="CSV or Parquet file, or any file for a sequence model; - for standard input")
    add_output(parser, "new model file to write")
    parser.add_argument("--in-place", action="store_true", help="replace the model file")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Take every row in, then save; a table with a mistake leaves the model as it was."""
    out = _out(arguments)
    model = load_model(arguments.model, arguments.data)
    from coverwalk import ModelFileError, SequenceModel

    if not hasattr(model, "partial_fit"):
        raise ValueError(
            f"{arguments.model} holds a {type(model).__name__}, which cannot learn more rows: fit it again on all rows "
            "with coverwalk fit"
        )
    if isinstance(model, SequenceModel):
        learned = _learn_sequence(model, arguments.data)
    elif not any(hasattr(model, fitted) for fitted in ("n_outputs_", "classes_")):
        raise ModelFileError(f"{arguments.model} holds a model that was never fitted: use coverwalk fit first")
    else:
        learned = counted(_learn_rows(model, arguments.data), "more row")
    model.save(out)
    print_json({"learned": learned, "model": out}) if arguments.json else print(f"learned {learned}; wrote {out}")


def _out(arguments: argparse.Namespace) -> str:
    """Where the model goes; an existing file is replaced only with --in-place."""
    if arguments.in_place == bool(arguments.output):
        raise ValueError(f"choose where to write the model: -o FILE, or --in-place to replace {arguments.model}")
    if arguments.in_place:
        return str(arguments.model)
    if os.path.exists(arguments.output):
        raise FileExistsError(f"{arguments.output} exists: choose another file, or use --in-place")
    return str(arguments.output)


def _learn_rows(model: Any, data: str) -> int:
    """Chunk by chunk, in the order of the table, under the names that the model knows its columns by."""
    n = 0
    for X, y in frames_of(model, data, known=False):
        rows = X if hasattr(model, "feature_names_in_") else X.to_numpy()
        model.partial_fit(rows if X.width else None, y)
        n += len(y)
    return n


def _learn_sequence(model: "SequenceModel", path: str) -> str:
    """One more document: the file's letters where the model knows letters, else its bytes."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    letters = all(isinstance(symbol, str) for symbol in model.alphabet_)
    try:
        sequence = data.decode() if letters else data
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8, which this model of letters needs") from error
    model.partial_fit(sequence)
    return counted(len(sequence), "more letter" if letters else "more byte")
