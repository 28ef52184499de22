"""What a fitted forest predicts: its flat table's components, the global kernel's, and the cells of y."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.mixture import Voices
from coverwalk.distribution import PredictiveDistribution
from coverwalk.forests.context import WHOLE
from coverwalk.forests.flat import FlatForest, FlatTree
from coverwalk.forests.steps import with_steps

if TYPE_CHECKING:
    from coverwalk.forests.forest import Forest

__all__ = ["flat_answer"]

Floats = NDArray[np.float64]


def flat_answer(forest: "Forest", X: Floats, outlier: float) -> PredictiveDistribution:
    """The distributions of y in rows X (n, p), under the first prior; outlier: weight of the outliers' component."""
    settings, whole = forest.settings, forest.whole
    kernel, corners = (settings.kernel, 2 ** X.shape[1]) if whole else (0.0, 0)
    centre, unit = float(forest.output.centre[0]), float(forest.output.scale[0])
    share = (1.0 - outlier) * (1.0 - kernel) / len(forest.fitted)
    units = centre, unit, unit * settings.spread, outlier, share
    out = _flat(forest).components(X, corners, units, forest.trend)
    if whole is not None:
        node, corner = whole.ask(out.plain)
        places = out.offsets[1:, None] - corners + np.arange(corners)
        first = 1 + sum(len(tree.shapes) for tree in forest.fitted)
        columns: tuple[NDArray[Any], ...] = out[1:6]
        for column, entries in zip(columns, ((1.0 - outlier) * kernel * corner, centre, unit, first + node, WHOLE)):
            column[places] = entries
    voices = Voices(out.offsets, out.weight, out.loc, out.scale, out.shape)
    dist = PredictiveDistribution.trusted(voices, forest.shapes, out.label, forest.describe)
    return with_steps(dist, settings.steps, len(forest.shapes) - 1) if settings.steps else dist


def _flat(forest: "Forest") -> FlatForest:
    """All trees in one table, made with the first answer after they were fitted, and kept beside them."""
    made: tuple[Any, FlatForest] | None = forest.__dict__.get("_made")
    if made is None or made[0] is not forest.fitted:
        first = np.cumsum([1, *(len(tree.shapes) for tree in forest.fitted)])
        parts = forest.settings.part_of_trees()
        degrees = [forest.grid_of(part.degree).degree for part in parts]
        trees = [
            FlatTree(forest.trees[k], tree.records, tree.shape + first[k], degrees[k], parts[k].smooth, tree.fill)
            for k, tree in enumerate(forest.fitted)
        ]
        made = forest.fitted, FlatForest(trees, forest.inputs, forest.settings.n_levels)
        forest.__dict__["_made"] = made
    return made[1]
