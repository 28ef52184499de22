"""``coverwalk show``: what a model is."""

import argparse
import os
from typing import Any

from coverwalk.cli._models import add_json, columns_of, load_model, print_json, size

HELP = "describe a model: columns, contexts, component weights, size"

_SUMMARY = {  # what is shown of a forest, and its name in the summary
    "rows": "n_rows",
    "rounding": "rounding",
    "outliers": "outliers",
    "inputs_left_out": "unused",
    "memory": "n_bytes",
    "contexts": "n_contexts",
    "trees": "n_trees",
    "contexts_with_weight": "n_nonzero",
    "mean_depth": "mean_depth",
    "max_depth": "max_depth",
    "components": "components",
    "splits": "splits",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model."""
    parser.add_argument("model", help="model file")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print it."""
    model = load_model(arguments.model)
    facts = _facts(model)
    n_bytes = os.path.getsize(arguments.model)
    if arguments.json:
        print_json({"file": arguments.model, "class": type(model).__name__, "bytes": n_bytes} | facts)
        return
    print(f"{arguments.model}: {model!r}, {size(n_bytes)} on disk")
    _print(facts)


def _facts(model: Any) -> dict[str, Any]:
    """What a model is, as plain values."""
    from coverwalk import ContextClassifier, CoverModel, SequenceModel

    if hasattr(model, "forests_"):
        return _forests(model)
    if isinstance(model, ContextClassifier) and hasattr(model, "classes_"):
        return _classes(model)
    if isinstance(model, SequenceModel) and hasattr(model, "alphabet_"):
        return {"symbols": len(model.alphabet_), "contexts": model.n_contexts_, "memory": model.nbytes_}
    if any(hasattr(model, name) for name in ("stream_", "_engine")):
        return stream_facts(model)
    return {"contexts": len(model)} if isinstance(model, CoverModel) else {}


def _forests(model: Any) -> dict[str, Any]:
    from coverwalk.forest.summary import summarise

    inputs, targets = columns_of(model)
    outputs = []
    for target, forest in zip(targets, model.forests_):
        facts = summarise(forest)
        outputs.append({"output": target} | {shown: getattr(facts, name) for shown, name in _SUMMARY.items()})
    calibration = model.__dict__.get("calibration_")
    rows = {} if calibration is None else {"calibration_rows": len(calibration)}
    return {"predicts": targets, "given": inputs, "outputs": outputs} | rows


def _classes(model: Any) -> dict[str, Any]:
    inputs, targets = columns_of(model)
    trees = [tree for _, trees in model._forest.kinds for tree in trees]
    return {
        "predicts": targets,
        "classes": [str(label) for label in model.classes_],
        "given": inputs,
        "rows": model.n_rows_,
        "contexts": sum(len(tree.tree) for tree in trees),
        "trees": len(trees),
        "max_depth": max(tree.levels for tree in trees) - 1,
        "weights": model.weights_.round(4).tolist(),
        "exponents": model.exponents_.round(4).tolist(),
    }


def stream_facts(model: Any) -> dict[str, Any]:
    """The stream of a ConditionalDensity, or a DoubleTree."""
    inputs, targets = columns_of(model)
    facts = {"predicts": targets, "given": inputs}
    if hasattr(model, "stream_"):
        streams = model.stream_.streams
        n_contexts = sum(stream.n_contexts for stream in streams)
        return facts | {"rows": streams[0].n_rows, "contexts": n_contexts, "trees": len(streams[0].members)}
    return facts | {"rows": model.n_rows_, "contexts": model.n_contexts_, "max_depth": model.depth_}


def _print(facts: dict[str, Any]) -> None:
    """One line for each fact; outputs one after the other."""
    for key, value in facts.items():
        name = f"  {key.replace('_', ' '):<21}"
        if value in ("", ()):
            continue
        if key == "outputs":
            for output in value:
                if len(value) > 1:
                    print()
                _print(output if len(value) > 1 else {k: v for k, v in output.items() if k != "output"})
        elif isinstance(value, dict):
            print(name + _weights(value))
        elif isinstance(value, list | tuple):
            print(name + ", ".join(map(str, value)))
        elif isinstance(value, float):
            print(f"{name}{value:.1f}")
        else:
            print(name + (size(value) if key == "memory" else str(value)))


def _weights(weights: dict[str, float]) -> str:
    """Names by weight, the heaviest first."""
    heavy = sorted(weights.items(), key=lambda item: -item[1])[:8]
    more = len(weights) - len(heavy)
    return ", ".join(f"{weight:.1%} {name}" for name, weight in heavy) + (f" and {more} more" if more else "")
