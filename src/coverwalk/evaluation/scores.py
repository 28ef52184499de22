"""Scores of a model over batches of rows, beside baselines that learned from the same rows as the model did."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk.classifier import ContextClassifier
from coverwalk.conditional_density import ConditionalDensity
from coverwalk.distributions.base import Distribution
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.double_tree.estimator import DoubleTree
from coverwalk.evaluation.baselines import Line, normal_crps, plain_inputs
from coverwalk.forest.schedule import NEVER
from coverwalk.preparation.columns import output_names

__all__ = [
    "Score",
    "Totals",
    "baselines",
    "class_reliability",
    "learned_rows",
    "marginals",
    "n_learned_from",
    "predicted",
    "row_keys",
    "score",
]


@dataclass
class Totals:
    """Sums over rows of one predictor; all but ``loss`` are (q,), one entry for each output."""

    n: int = 0
    loss: float = 0.0
    crps: Any = 0.0
    square: Any = 0.0
    covered: Any = 0.0

    def add(self, log_density: Floats, crps: Floats, error: Floats, inside: Bools) -> None:
        """Take rows in: log densities (n,); CRPS, errors and whether an interval held y, (n, q) each."""
        self.n += len(error)
        self.loss -= float(log_density.sum())
        self.crps = self.crps + np.sum(crps, axis=0)
        self.square = self.square + np.sum(error**2, axis=0)
        self.covered = self.covered + np.sum(inside, axis=0)


@dataclass
class Score:
    """The model and its baselines, by name."""

    confidence: float
    targets: list[str]
    totals: dict[str, Totals] = field(default_factory=dict)
    n_seen: int = 0  # rows that the model had learned from

    @property
    def n(self) -> int:
        """Rows that were scored."""
        return self.totals["coverwalk"].n

    def table(self) -> list[tuple[str, float, Floats, Floats, Floats]]:
        """Name, mean log loss, and for each output CRPS, RMSE and coverage."""
        return [
            (name, t.loss / t.n, t.crps / t.n, np.sqrt(t.square / t.n), t.covered / t.n)
            for name, t in self.totals.items()
        ]

    def facts(self) -> dict[str, Any]:
        """Plain values."""
        facts: dict[str, Any] = {"rows": self.n, "training_rows": self.n_seen, "confidence": self.confidence}
        for name, loss, *each in self.table():
            named = zip(("crps", "rmse", "coverage"), each)
            facts[name] = {"log_loss": loss} | {
                key: dict(zip(self.targets, np.atleast_1d(values).tolist())) for key, values in named
            }
        return facts

    def __str__(self) -> str:
        suffix = [f" {target}" for target in self.targets] if len(self.targets) > 1 else [""]
        words = ("CRPS", "RMSE", f"{self.confidence:.0%} coverage")
        heads = ["log loss", *(f"{word}{s}" for word in words for s in suffix)]
        widths = [max(11, len(head) + 2) for head in heads]
        lines = [f"{'':<18}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths))]
        for name, loss, crps, rmse, covered in self.table():
            cells = [f"{loss:.4f}", *(f"{v:.4g}" for v in (*crps, *rmse)), *(f"{v:.1%}" for v in covered)]
            lines.append(f"{name:<18}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths)))
        return "\n".join(lines)


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


def row_keys(X: Floats, Y: Floats | Ints) -> NDArray[Any]:
    """Rows as things that can be looked for, (n,): equal where all numbers are."""
    table = np.ascontiguousarray(np.column_stack([X, Y]) + 0.0)  # -0 is 0
    return table.view([("", np.int64)] * table.shape[1])[:, 0]


def n_learned_from(model: ContextClassifier, X: Floats, code: Ints) -> int:
    """How many of the rows X (n, p) with classes ``code`` (n,) a classifier has learned from, of those it keeps."""
    known = np.concatenate([row_keys(rows.X, rows.y) for rows in model._rows])
    return int(np.isin(row_keys(X, code), known).sum())


def class_reliability(p: Floats, right: Bools, n_bins: int = 10) -> list[tuple[float, float, int]]:
    """Rows by the probability of their predicted class, p (n, C), in bins of equal width: mean probability, share of
    them that are ``right`` (n,), and number; empty bins are left out.
    """
    best = p.max(axis=1)
    of = np.minimum((best * n_bins).astype(int), n_bins - 1)
    return [(float(best[of == b].mean()), float(right[of == b].mean()), int(np.sum(of == b))) for b in np.unique(of)]


def baselines(model: ConditionalDensity | DoubleTree) -> dict[str, list[Line]]:
    """One normal, and a line with normal noise, for each output; learned from the rows that the model holds, if any."""
    rows = learned_rows(model)
    if rows is None:
        return {}
    X, Y = plain_inputs(rows[0], rows[0], model._mixed.n_categories), rows[1]
    return {
        "one normal": [Line.fit(X[:, :0], y) for y in Y.T],
        "linear regression": [Line.fit(X, y) for y in Y.T],
    }


def predicted(model: Any, X: Floats) -> Distribution:
    """The distributions in rows that need no check, corrected where the model was calibrated."""
    dist: Distribution = model._dist(X)
    return model._calibrated(dist) if hasattr(model, "_calibrated") else dist


def marginals(dist: Distribution) -> list[UnivariateDistribution]:
    """The distribution of each output alone."""
    return [dist.marginal(j) for j in range(dist.n_outputs)]


def score(
    model: ConditionalDensity | DoubleTree, batches: Iterable[tuple[Floats, Floats]], confidence: float = 0.9
) -> Score:
    """Score every batch X (n, p), Y (n, q) once; the log loss is that of all outputs together."""
    from scipy.stats import norm

    lines, rows = baselines(model), learned_rows(model)
    known = None if rows is None else row_keys(*rows)
    result = Score(confidence, output_names(model), {name: Totals() for name in ("coverwalk", *lines)})
    reach = float(norm.ppf(0.5 + confidence / 2))
    for X, Y in batches:
        means, crps, inside = np.empty_like(Y), np.empty_like(Y), np.empty(Y.shape, bool)
        dist = predicted(model, X)
        for j, marginal in enumerate(marginals(dist)):
            low, high = marginal.interval(confidence)
            means[:, j], inside[:, j] = marginal.mean(), (low <= Y[:, j]) & (Y[:, j] <= high)
            crps[:, j] = marginal.crps(Y[:, j])
        log_density = dist.logpdf(Y if dist.n_outputs > 1 else Y[:, 0])
        result.totals["coverwalk"].add(log_density, crps, Y - means, inside)
        for name, outputs in lines.items():
            assert rows is not None  # or there were no lines
            Z = plain_inputs(X, rows[0], model._mixed.n_categories)[:, : len(outputs[0].centre)]
            error = np.column_stack([Y[:, j] - line.mean(Z) for j, line in enumerate(outputs)])
            log_density = np.asarray(sum(line.logpdf(Z, Y[:, j]) for j, line in enumerate(outputs)))
            std = np.array([line.std for line in outputs])
            result.totals[name].add(log_density, normal_crps(error, std), error, np.abs(error) <= reach * std)
        if known is not None:
            result.n_seen += int(np.isin(row_keys(X, Y), known).sum())
    return result
