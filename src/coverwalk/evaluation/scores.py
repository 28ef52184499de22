"""Scores of a model over a stream of rows, beside baselines that learned from the same rows as the model did."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk.conditional_density import ConditionalDensity
from coverwalk.distributions.base import Distribution
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.double_tree.estimator import DoubleTree
from coverwalk.evaluation.baselines import Line, plain_inputs
from coverwalk.forest.schedule import NEVER

__all__ = ["Score", "Totals", "baselines", "laws", "learned_rows", "score"]

Floats = NDArray[np.float64]


@dataclass
class Totals:
    """Sums over rows of one predictor; ``square`` and ``covered`` are (q,), one entry for each output."""

    n: int = 0
    loss: float = 0.0
    square: Any = 0.0
    covered: Any = 0.0

    def add(self, log_density: Floats, error: Floats, inside: NDArray[np.bool_]) -> None:
        """Take rows in: log densities (n,), errors (n, q), whether an interval held y (n, q)."""
        self.n += len(error)
        self.loss -= float(log_density.sum())
        self.square = self.square + np.sum(error**2, axis=0)
        self.covered = self.covered + np.sum(inside, axis=0)


@dataclass
class Score:
    """The model and its baselines, by name."""

    confidence: float
    totals: dict[str, Totals] = field(default_factory=dict)

    def table(self) -> list[tuple[str, float, Floats, Floats]]:
        """Name, mean log loss, and for each output RMSE and coverage."""
        return [(name, t.loss / t.n, np.sqrt(t.square / t.n), t.covered / t.n) for name, t in self.totals.items()]


def learned_rows(model: ConditionalDensity | DoubleTree) -> tuple[Floats, Floats] | None:
    """X (n, p) and Y (n, q) that the model has learned from; None for a long stream, which has let them go."""
    if isinstance(model, DoubleTree):
        return model._engine.rows
    if hasattr(model, "forests_"):
        return model.forests_[0].X, np.column_stack([forest.y for forest in model.forests_])
    streams = model.stream_.streams
    if streams[0].next_event == NEVER:  # its trees have stopped growing, and rows are kept to grow from
        return None
    kept = streams[0].n_rows - streams[0].first_row
    return streams[0].X[:kept], np.column_stack([stream.y[:kept] for stream in streams])


def baselines(model: ConditionalDensity | DoubleTree) -> dict[str, list[Line]]:
    """One normal, and a line with normal noise, for each output; learned from the rows that the model holds, if any."""
    rows = learned_rows(model)
    if rows is None:
        return {}
    X, Y = plain_inputs(rows[0], rows[0], model._mixed.n_levels), rows[1]
    return {
        "one normal": [Line.fit(X[:, :0], y) for y in Y.T],
        "linear regression": [Line.fit(X, y) for y in Y.T],
    }


def laws(dist: Distribution) -> list[UnivariateDistribution]:
    """The distribution of each output alone."""
    return [dist.marginal(j) for j in range(dist.n_outputs)]


def score(
    model: ConditionalDensity | DoubleTree, batches: Iterable[tuple[Floats, Floats]], confidence: float = 0.9
) -> Score:
    """Score every batch X (n, p), Y (n, q) once; the log loss is that of all outputs together."""
    from scipy.stats import norm

    lines, rows = baselines(model), learned_rows(model)
    result = Score(confidence, {name: Totals() for name in ("coverwalk", *lines)})
    reach = float(norm.ppf(0.5 + confidence / 2))
    for X, Y in batches:
        means, inside = np.empty_like(Y), np.empty(Y.shape, bool)
        dist = model._dist(X)
        for j, law in enumerate(laws(dist)):
            low, high = law.interval(confidence)
            means[:, j], inside[:, j] = law.mean(), (low <= Y[:, j]) & (Y[:, j] <= high)
        result.totals["coverwalk"].add(dist.logpdf(Y if dist.n_outputs > 1 else Y[:, 0]), Y - means, inside)
        for name, outputs in lines.items():
            assert rows is not None  # or there were no lines
            Z = plain_inputs(X, rows[0], model._mixed.n_levels)[:, : len(outputs[0].centre)]
            error = np.column_stack([Y[:, j] - line.mean(Z) for j, line in enumerate(outputs)])
            log_density = sum(line.logpdf(Z, Y[:, j]) for j, line in enumerate(outputs))
            result.totals[name].add(
                np.asarray(log_density), error, np.abs(error) <= reach * np.array([line.std for line in outputs])
            )
    return result
