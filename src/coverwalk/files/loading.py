"""Reading a model: every value is checked against the schema of its class before an object is made of it."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from coverwalk.files.container import ModelFileError, parsed, read_bytes
from coverwalk.files.fields import Store
from coverwalk.files.limits import SchemaError
from coverwalk.files.objects import build, schema_of

# The models that files hold, by their home. All else that a file may hold is told by their schemas.
MODELS = {
    "ConditionalDensity": "coverwalk.conditional_density",
    "ContextClassifier": "coverwalk.classifier",
    "CoverModel": "coverwalk.cover_model",
    "Density": "coverwalk.density",
    "DoubleTree": "coverwalk.double_tree.estimator",
    "SequenceClassifier": "coverwalk.sequence_classifier",
    "SequenceModel": "coverwalk.sequence",
}


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file; it is read into memory, so that the file may change or vanish afterwards.

    Raises
    ------
    ModelFileError
        If the file is not a whole and valid model that this version can read.

    Parameters
    ----------
    path : str or path
        A file that `save` wrote.

    Returns
    -------
    estimator
        Of the class that was saved, in the state in which it was.
    """
    return load_after(path, lambda fields: None)


def load_after(path: str | os.PathLike[str], look: Callable[[dict[str, Any]], None]) -> Any:
    """As `load`; ``look`` gets the fields of the file, not yet checked, before the model's class is imported."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a file written by save()")
    metadata, arrays = read_bytes(path)
    tree = parsed(metadata.pop("model"), str(path))
    if type(tree) is dict and type(tree.get("fields")) is dict:
        look(tree["fields"])
    try:
        return decoded(tree, arrays)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, SchemaError) else f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{path} is not a valid model: {reason}") from error


def decoded(tree: Any, arrays: Store) -> Any:
    """The model of a tree of JSON values and the arrays beside it, which are taken out; SchemaError if it is none."""
    if type(tree) is not dict or tree.keys() != {"is", "fields"} or tree["is"] not in MODELS:
        raise SchemaError(f"the file holds none of {', '.join(MODELS)}")
    cls = getattr(import_module(MODELS[tree["is"]]), tree["is"])
    with np.errstate(all="ignore"):  # what overflows is refused
        model = build(cls, schema_of(cls).read(tree["fields"], "model", arrays, {}))
    if arrays:
        raise SchemaError(f"no part of the model has the arrays {sorted(arrays)[:5]}")
    return model
