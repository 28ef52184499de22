"""``coverwalk show``: what a model is."""

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity

HELP = "say what a model is: columns, contexts, who speaks, size"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model."""
    parser.add_argument("model", help="model file")


def run(arguments: argparse.Namespace) -> None:
    """Print it."""
    from coverwalk import ConditionalDensity, ContextClassifier, CoverModel, SequenceModel
    from coverwalk.commands._classes import print_facts
    from coverwalk.commands._models import load_model, size

    model = load_model(arguments.model)
    print(f"{arguments.model}: {model!r}, {size(os.path.getsize(arguments.model))} on disk")
    if isinstance(model, ConditionalDensity) and hasattr(model, "forests_"):
        _show_density(model)
    elif isinstance(model, ContextClassifier) and hasattr(model, "classes_"):
        print_facts(model)
    elif any(hasattr(model, name) for name in ("stream_", "_engine")):
        _show_stream(model)
    elif isinstance(model, SequenceModel):
        print(f"  symbols    {len(model.alphabet_)}")
        print(f"  contexts   {model.n_contexts_}, {size(model.nbytes_)} in memory")
    elif isinstance(model, CoverModel):
        print(f"  contexts   {len(model)}")


def _show_density(model: "ConditionalDensity") -> None:
    from coverwalk.commands._models import columns_of, size
    from coverwalk.forests.forest_summary import summarise

    inputs, targets = columns_of(model)
    print(f"  predicts   {', '.join(targets)}")
    print(f"  given      {', '.join(inputs)}")
    for target, forest in zip(targets, model.forests_):
        facts = summarise(forest)
        if len(targets) > 1:
            print(f"\n{target}, given {len(forest.names)} columns")
        print(f"  rows       {facts.n_rows} learned, {size(facts.n_bytes)} in memory")
        print(f"  contexts   {facts.n_contexts} in {facts.n_trees} trees, {facts.n_heard} of them can be heard")
        print(f"  depth      the walk stops at {facts.mean_depth:.1f} on average, {facts.max_depth} at most")
        print(f"  voices     {', '.join(f'{share:.1%} {kind}' for kind, share in facts.voices.items())}")
        print(f"  cuts       {_cuts(facts.cuts)}")


def _show_stream(model: Any) -> None:
    """The stream of a ConditionalDensity, or a DoubleTree."""
    from coverwalk.commands._models import columns_of

    inputs, targets = columns_of(model)
    print(f"  predicts   {', '.join(targets)}")
    print(f"  given      {', '.join(inputs) or 'nothing'}")
    if hasattr(model, "stream_"):
        streams = model.stream_.streams
        print(f"  rows       {streams[0].n_rows} learned")
        print(
            f"  contexts   {sum(stream.n_contexts for stream in streams)} in {len(streams[0].members)} trees an output"
        )
        return
    print(f"  rows       {model.n_rows_} learned")
    print(f"  contexts   {model.n_contexts_}, {model.depth_} deep")


def _cuts(cuts: dict[str, Any]) -> str:
    """The inputs that the walk's cuts look at, the most often asked first."""
    heavy = sorted(cuts.items(), key=lambda item: -item[1])[:8]
    more = len(cuts) - len(heavy)
    return ", ".join(f"{share:.0%} {name}" for name, share in heavy) + (f" and {more} more" if more else "")
