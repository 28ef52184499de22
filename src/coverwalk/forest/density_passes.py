"""The passes of `ConditionalDensity` after the sample: the sums of every output's forest, then their bins."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.forest.category_choice import choose_categories
from coverwalk.forest.chain import chain_inputs
from coverwalk.forest.experts.trend import MAX_ROWS as ROWS_OF_TREND
from coverwalk.forest.passes import Columns, SamplePass
from coverwalk.forest.settings import Settings
from coverwalk.forest.sums import Capacity, ForestShapes, ForestSums, plan_on_sample
from coverwalk.forest.tuning import choose_for_output
from coverwalk.preparation.category_counts import category_codes
from coverwalk.preparation.row_codes import row_codes


@dataclass
class DensityPass:
    """Sums, or bins, of the forests of all outputs; each has the earlier outputs as further inputs."""

    model: Any
    columns: Columns
    second_pass: bool
    bound: int  # rows up to this code are those of which trends were made
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
        seen = row_codes(np.hstack([X, Y[:, :-1]]), Y[:, -1].copy()) <= self.bound
        X = category_codes(X, self.model._mixed)
        for j, part in enumerate(self.parts):
            part.accumulate(chain_inputs(X, Y, j), np.ascontiguousarray(Y[:, j]), seen)

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
        model = self.model
        model.forests_, model.n_outputs_, model._flat = done, len(done), self.columns.n_outputs == 0
        model.__dict__.pop("stream_", None)
        return model


def plan_density(model: Any, settings: Settings, drawn: SamplePass) -> DensityPass:
    """Forests for every output, planned and chosen on the sample as `fit` does: the pass that sums all rows."""
    kept = drawn.sample.lowest(ROWS_OF_TREND)
    X, Y = drawn.sample.lowest(drawn.options.sample_rows).rows()
    every = drawn.categories.every()
    tables = every, model._mixed
    mixed = model._mixed = choose_categories(category_codes(X, every), Y, None, tables, settings, model.bounds)
    X_kept, Y_kept = kept.rows()
    X, X_kept = category_codes(X, mixed), category_codes(X_kept, mixed)
    names = mixed.seen_as(drawn.columns.names or [f"x{a}" for a in range(X.shape[1])])
    capacity = Capacity(drawn.options.state_bytes // Y.shape[1], drawn.n_rows, len(Y_kept))
    with_missing = tuple(sorted(drawn.categories.with_missing))
    sums = []
    for j in range(Y.shape[1]):
        inputs, y = chain_inputs(X, Y, j), np.ascontiguousarray(Y[:, j])
        rows = chain_inputs(X_kept, Y_kept, j), np.ascontiguousarray(Y_kept[:, j])
        chosen = choose_for_output(model, settings, inputs, y, (j, Y.shape[1]), drawn.n_rows)
        forest = plan_on_sample(inputs, y, chosen, names + [f"y{i}" for i in range(j)], capacity)
        forest.categories = mixed.category_names
        sums.append(ForestSums.over(forest, rows, with_missing))
    return DensityPass(model, drawn.columns, drawn.options.second_pass, kept.bound, sums)
