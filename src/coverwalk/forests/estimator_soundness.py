"""Whether the parts of a loaded `ConditionalDensity` fit together; `soundness` looks into each forest."""

from typing import TYPE_CHECKING, Any

import numpy as np

from coverwalk.forest.chain import StreamChain
from coverwalk.forests.forest import Forest
from coverwalk.mixed_inputs import MixedInputs

if TYPE_CHECKING:
    from coverwalk.conditional_density import ConditionalDensity

__all__ = ["check_parts"]


def check_parts(model: "ConditionalDensity") -> None:
    """Refuse a model that has not one forest, or stream, for each output, over the inputs that it names."""
    forests: Any = getattr(model, "forests_", None)
    stream: Any = getattr(model, "stream_", None)
    if forests is None and stream is None:  # saved before it was fitted
        return
    names = getattr(model, "feature_names_in_", None)
    targets = getattr(model, "target_names_", None)
    if forests is None:
        kinds, widths = isinstance(stream, StreamChain), [part.p for part in stream.streams]
    else:
        kinds = isinstance(forests, list) and all(isinstance(forest, Forest) for forest in forests)
        widths = [forest.X.shape[1] for forest in forests]
    sound = (
        kinds
        and type(model.n_outputs_) is type(model.n_features_in_) is int  # True is no number here
        and (forests is None or stream is None)
        and len(widths) == model.n_outputs_ >= 1
        and all(width == model.n_features_in_ + j for j, width in enumerate(widths))
        and isinstance(model._flat, bool | np.bool_)
        and isinstance(model._mixed, MixedInputs)
        and len(model._mixed.levels) in (0, model.n_features_in_)
        and all(forest.levels == model._mixed.level_names for forest in forests or [])
        and (names is None or (names.shape == (model.n_features_in_,) and all(isinstance(n, str) for n in names)))
        and (targets is None or (len(targets) == model.n_outputs_ and all(isinstance(t, str) for t in targets)))
    )
    if not sound:
        raise ValueError("the parts of this ConditionalDensity do not fit together")
