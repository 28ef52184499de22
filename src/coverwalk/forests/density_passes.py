"""The passes of `ConditionalDensity` after the sample: the sums of every output's forest, then their bins."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk.chunks import Columns, SamplePass
from coverwalk.forests.forest import Settings
from coverwalk.forests.level_counts import level_codes
from coverwalk.forests.sums import ForestShapes, ForestSums
from coverwalk.forests.tuning import choose
from coverwalk.preparation.rounding import find_rounding

__all__ = ["DensityPass", "plan_density"]

Floats = NDArray[np.float64]


@dataclass
class DensityPass:
    """Sums, or bins, of the forests of all outputs; each has the earlier outputs as further inputs."""

    model: Any
    columns: Columns
    second_pass: bool
    parts: Sequence[Any]  # of one kind: ForestSums, then ForestShapes

    @property
    def n_rows(self) -> int:
        """How many rows were taken in."""
        return int(self.parts[0].n_rows)

    @property
    def n_bytes(self) -> int:
        """The size of what travels."""
        return sum(part.n_bytes for part in self.parts)

    def empty(self) -> "DensityPass":
        """The same pass without rows."""
        return replace(self, parts=[part.empty() for part in self.parts])

    def accumulate(self, X: Floats, Y: Floats) -> None:
        """Take rows X (n, p), Y (n, q) in."""
        X = level_codes(X, self.model._mixed)
        for j, part in enumerate(self.parts):
            part.accumulate(np.hstack([X, Y[:, :j]]) if j else X, np.ascontiguousarray(Y[:, j]))

    def merge(self, other: "DensityPass") -> None:
        """Take in what another took in."""
        for part, others in zip(self.parts, other.parts):
            part.merge(others)

    def finish(self) -> Any:
        """From sums to bins, from bins to the fitted estimator."""
        done = [part.finish() for part in self.parts]
        if isinstance(done[0], ForestShapes):
            following = replace(self, parts=done)
            return following if self.second_pass else following.finish()
        self.model.forests_, self.model.n_outputs_ = done, len(done)
        self.model._flat = self.columns.n_outputs == 0
        self.model.__dict__.pop("stream_", None)
        return self.model


def plan_density(model: Any, settings: Settings, drawn: SamplePass) -> DensityPass:
    """Trees for every output, from the sample that was drawn.

    Rows left out of the sample choose the prior of the walk, and the steps of y. The largest degree and the spread stay
    as set: they would be those of a small set, where polynomials have too few rows and a pool errs.
    """
    X, Y = drawn.sample.rows()
    X, mixed, gaps = level_codes(X, model._mixed), model._mixed, drawn.levels.gaps
    names = list(drawn.columns.names or [f"x{a}" for a in range(X.shape[1])])
    parts = []
    for j in range(Y.shape[1]):
        inputs, y = np.hstack([X, Y[:, :j]]), np.ascontiguousarray(Y[:, j])
        chosen = replace(settings, rounding=find_rounding(y))
        if mixed.n_levels:
            chosen = replace(chosen, n_levels=(*mixed.n_levels, *[0] * j))
        if model.stop == "auto":
            best = choose(inputs, y, chosen)
            chosen = replace(chosen, stop=best.stop, steps=best.steps)
        room = drawn.options.state_bytes // Y.shape[1]
        sums = ForestSums.plan(inputs, y, chosen, names + [f"y{i}" for i in range(j)], room, tuple(sorted(gaps)))
        sums.forest.levels = mixed.level_names
        parts.append(sums)
    return DensityPass(model, drawn.columns, drawn.options.second_pass, parts)
