"""``coverwalk learn``: go on learning from more rows."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coverwalk import SequenceModel

HELP = "go on learning from more rows, where the model can"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, and where the model goes."""
    parser.add_argument("model", help="model file")
    parser.add_argument("data", help="CSV or Parquet file, or any file for a model of sequences; - for standard input")
    parser.add_argument("--out", metavar="FILE", help="where the model goes; over the old one if not given")


def run(arguments: argparse.Namespace) -> None:
    """Take every row in, then save; a table with a mistake leaves the model as it was."""
    from coverwalk import SequenceModel
    from coverwalk.commands._models import load_model

    model = load_model(arguments.model)
    if not isinstance(model, SequenceModel):
        raise ValueError(
            f"{arguments.model} holds a {type(model).__name__} that cannot go on learning: fit it again on all rows "
            "with coverwalk fit, or learn rows with partial_fit in Python; models of sequences can go on"
        )
    learned = _learn_sequence(model, arguments.data)
    model.save(arguments.out or arguments.model)
    print(f"learned {learned}; wrote {arguments.out or arguments.model}")


def _learn_sequence(model: "SequenceModel", path: str) -> str:
    """One more document: the file's letters where the model knows letters, else its bytes."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    letters = all(isinstance(symbol, str) for symbol in model.alphabet_)
    try:
        sequence = data.decode() if letters else data
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8, which this model of letters needs") from error
    model.partial_fit(sequence)
    return f"{len(sequence)} more {'letters' if letters else 'bytes'}"
