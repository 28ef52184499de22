"""``coverwalk show``: what a model is."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import add_json

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity

HELP = "describe a model: columns, contexts, component weights, size"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model."""
    parser.add_argument("model", help="model file")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print it."""
    from coverwalk.cli._models import load_model, print_json, size

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
    from coverwalk import ConditionalDensity, ContextClassifier, CoverModel, SequenceModel
    from coverwalk.cli._classes import class_facts

    if isinstance(model, ConditionalDensity) and hasattr(model, "forests_"):
        return _density(model)
    if isinstance(model, ContextClassifier) and hasattr(model, "classes_"):
        return class_facts(model)
    if isinstance(model, SequenceModel) and hasattr(model, "alphabet_"):
        return {"symbols": len(model.alphabet_), "contexts": model.n_contexts_, "memory": model.nbytes_}
    if any(hasattr(model, name) for name in ("stream_", "_engine")):
        return _stream(model)
    return {"contexts": len(model)} if isinstance(model, CoverModel) else {}


def _density(model: "ConditionalDensity") -> dict[str, Any]:
    from coverwalk.cli._models import columns_of
    from coverwalk.forest.summary import summarise

    inputs, targets = columns_of(model)
    outputs = []
    for target, forest in zip(targets, model.forests_):
        facts = summarise(forest)
        outputs.append(
            {
                "output": target,
                "rows": facts.n_rows,
                "rounding": facts.rounding,
                "outliers": facts.outliers,
                "memory": facts.n_bytes,
                "contexts": facts.n_contexts,
                "trees": facts.n_trees,
                "contexts_with_weight": facts.n_nonzero,
                "mean_depth": facts.mean_depth,
                "max_depth": facts.max_depth,
                "components": facts.components,
                "splits": facts.splits,
            }
        )
    facts_of = {"predicts": targets, "given": inputs, "outputs": outputs}
    calibration = model.__dict__.get("calibration_")
    return facts_of if calibration is None else facts_of | {"calibration_rows": len(calibration)}


def _stream(model: Any) -> dict[str, Any]:
    """The stream of a ConditionalDensity, or a DoubleTree."""
    from coverwalk.cli._models import columns_of

    inputs, targets = columns_of(model)
    facts: dict[str, Any] = {"predicts": targets, "given": inputs}
    if hasattr(model, "stream_"):
        streams = model.stream_.streams
        n_contexts = sum(stream.n_contexts for stream in streams)
        return facts | {"rows": streams[0].n_rows, "contexts": n_contexts, "trees": len(streams[0].members)}
    return facts | {"rows": model.n_rows_, "contexts": model.n_contexts_, "max_depth": model.depth_}


def _print(facts: dict[str, Any], indent: str = "  ") -> None:
    """One line for each fact; outputs one after the other."""
    from coverwalk.cli._models import size

    for key, value in facts.items():
        name = f"{indent}{key.replace('_', ' '):<21}"
        if value == "":
            continue
        if key == "outputs":
            for output in value:
                if len(value) > 1:
                    print()
                _print(output if len(value) > 1 else {k: v for k, v in output.items() if k != "output"})
        elif isinstance(value, dict):
            print(name + _weights(value))
        elif isinstance(value, list):
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
