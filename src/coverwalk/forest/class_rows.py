"""The rows that a classifier keeps, and whether its parts go together in a file."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.files.schema import Array, require, stored
from coverwalk.preparation.columns import MixedInputs

MAX_WEIGHT = 1e9  # rows that a row may count as: sums of squares keep what a column varies by


@stored(read_first=("y",))
class ClassRows(NamedTuple):
    """Rows as they came: X (n, p), class of each (n,), weight of each (n,)."""

    X: Annotated[Floats, Array(float, "n", "p", nan=True, any_unit=True)]
    y: Annotated[Ints, Array(np.int64, "n", index="C")]
    weight: Annotated[Floats, Array(float, "n", low=0, high=MAX_WEIGHT)]


def joined(parts: list[ClassRows]) -> list[ClassRows]:
    """The same rows in parts of which each is longer than the next, so that they are few however many were added."""
    while len(parts) > 1 and len(parts[-1].y) >= len(parts[-2].y):
        parts[-2:] = [ClassRows(*(np.concatenate(both) for both in zip(*parts[-2:])))]
    return parts


def check_classifier(state: Any) -> None:
    """A fitted classifier has all of its parts, and its rows have no levels but those it knows."""
    parts = ["classes_", "_forest", "_rows", "_rows_grown", "_seed", "_declared", "_n_summed", "n_features_in_"]
    has = [hasattr(state, name) for name in parts]
    if not any(has[:4]):  # saved before it was fitted
        return
    require("the fitted parts", all(has) and len(state.classes_) >= 1)
    p, mixed = state.n_features_in_, getattr(state, "_mixed", MixedInputs([]))
    require("categorical", len(mixed.categories) in (0, p))
    known = np.array(mixed.n_categories or (0,) * p)  # some may have come since the last growth
    for growth, _ in state._forest.kinds:
        grown = np.array(growth.n_categories or (0,) * p)
        require("categorical", ((grown > 0) == (known > 0)) & (grown <= known))
    codes = np.concatenate([rows.X[:, known > 0] for rows in state._rows])
    require("rows", np.isnan(codes) | ((codes >= 0) & (codes < known[known > 0]) & (codes == np.floor(codes))))
