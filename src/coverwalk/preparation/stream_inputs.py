"""Inputs of a stream: tables and rows that come one after another, whose categories are numbered as they come."""

from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.preparation.checked_rows import has_text, refuse_nonfinite
from coverwalk.preparation.columns import MixedInputs, MixedTags, read_inputs


class StreamInputs(MixedTags):
    """What an estimator that learns row by row does with its inputs; ``begun``: whether it has learned rows."""

    categorical_features: Any
    _mixed = MixedInputs([])  # until rows with categories came

    def _read(self, X: Any, begun: bool) -> Floats:
        """A table of inputs as numbers; new categories have numbers from here on."""
        mixed = self._mixed if begun else MixedInputs.begun(X, self.categorical_features)
        try:
            table = read_inputs(self, X, reset=not begun, mixed=mixed.grown(X), order="C", ensure_all_finite=False)
        except ValueError as error:
            raise has_text(error) from error
        return refuse_nonfinite(table, "X", with_missing=True)

    def _with_categories(self, x: Any, begun: bool) -> MixedInputs:
        """The known categories, with those of one row x."""
        x = np.asarray(x, dtype=object).reshape(-1) if np.ndim(x) != 1 else x  # a number, or a row of a table
        if begun and self._mixed.knows(x):
            return self._mixed
        values = np.empty((1, len(x)), dtype=object)
        values[0, :] = list(x)
        return (self._mixed if begun else MixedInputs.begun(values, self.categorical_features)).grown(values)
