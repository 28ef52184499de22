"""Several outputs by the chain rule, each a forest with the earlier outputs as inputs: fitted, or on a stream."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats, Ints
from coverwalk.distributions.joint import JointDistribution
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.predicting import ROWS_AT_ONCE
from coverwalk.files.schema import List, Object, Schema, require
from coverwalk.forest.forest import Forest
from coverwalk.forest.schedule import StreamSettings
from coverwalk.forest.stream import ForestStream
from coverwalk.preparation.bounds import check_within

Part = Forest | ForestStream


def chain_inputs(X: Floats, Y: Floats, j: int) -> Floats:
    """What output j is predicted from: inputs X (n, p), and the outputs of Y (n, q) before it."""
    return np.hstack([X, Y[:, :j]]) if j else X


def chain_dist(parts: Sequence[Part], X: Floats, names: Any = None) -> PredictiveDistribution | JointDistribution:
    """The distributions of all outputs, which may have names, in rows X (n, p)."""
    if len(parts) == 1:
        return parts[0].predict_dist(X)

    def conditional(j: int, rows: Ints, before: Floats) -> PredictiveDistribution:
        return parts[j].predict_dist(np.ascontiguousarray(np.hstack([X[rows], before])))

    return JointDistribution(conditional, len(X), len(parts), names=names)


def chain_logpdf(parts: Sequence[Part], X: Floats, Y: Floats) -> Floats:
    """Log densities (n,) of rows X (n, p), Y (n, q)."""
    total = np.zeros(len(X))
    for start in range(0, len(X), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for j, part in enumerate(parts):
            dist = part.predict_dist(chain_inputs(X[rows], Y[rows], j))
            total[rows] += dist.logpdf(np.ascontiguousarray(Y[rows, j]))
    return total


class StreamChain:
    """One `ForestStream` for each output; log p(y given x) = sum_j log p(y_j given x, y_1 .. y_{j-1})."""

    _schema = Schema(
        streams=List(Object(ForestStream, p="p + i"), "q", low=1), check=lambda state, scope: _check_chain(state)
    )

    def __init__(self, streams: list[ForestStream]) -> None:
        self.streams = streams

    @classmethod
    def new(cls, settings: list[StreamSettings], names: list[str], n_categories: tuple[int, ...] = ()) -> "StreamChain":
        """Streams that have seen nothing, one of each settings; n_categories: of inputs, more than 0 for categories."""
        p, q = len(names), len(settings)
        kinds = np.zeros(p + q, bool)
        kinds[: len(n_categories)] = np.array(n_categories, np.int64) > 0
        named = [*names, *(f"y{i}" for i in range(q))]
        return cls(
            [ForestStream(each, p + j, named[: p + j], kinds[: p + j].copy()) for j, each in enumerate(settings)]
        )

    def name_categories(self, names: list[list[str]]) -> None:
        """Tell the streams the names of the categories of their inputs, as they are by now."""
        for stream in self.streams:
            stream.categories = names

    @classmethod
    def of(cls, forests: list[Forest], settings: StreamSettings) -> "StreamChain":
        """Streams that go on from fitted forests."""
        return cls([ForestStream.of(forest, settings) for forest in forests])

    @property
    def n_rows(self) -> int:
        """Rows learned."""
        return self.streams[0].n_rows

    def copy(self) -> "StreamChain":
        """A chain that learns on its own: what this one knows stays as it is."""
        return StreamChain([stream.copy() for stream in self.streams])

    def learn(self, X: Floats, Y: Floats, *, scored: bool = True) -> Floats:
        """Learn rows X (n, p), Y (n, q) in order; returns the log density (n,) that each had just before.

        Not ``scored``: where that takes long, of the trees alone.
        """
        total = np.zeros(len(Y))
        for j, stream in enumerate(self.streams):
            total += stream.learn(chain_inputs(X, Y, j), np.ascontiguousarray(Y[:, j]), scored=scored)
        return total

    def check_limits(self, Y: ArrayLike) -> None:
        """Refuse rows Y (n, q) beyond the limits that were given for y."""
        for j, stream in enumerate(self.streams):
            if stream.settings.forest.limited:
                check_within(np.asarray(Y)[:, j], stream.settings.forest.limits)

    def learn_one(self, x: Floats, y: Floats) -> float:
        """Learn one row x (1, p), y (1, q); returns the log density that it had just before."""
        return float(self.learn(x, y)[0])


def _check_chain(state: Any) -> None:
    require("rows of the streams", len({stream.n_rows for stream in state.streams}) == 1)
