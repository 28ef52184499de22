"""Scores of a model over batches of rows, beside baselines that learned from the same rows as the model did."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk.classifier import ContextClassifier
from coverwalk.conditional_density import ConditionalDensity
from coverwalk.distributions.base import Distribution
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.double_tree.estimator import DoubleTree
from coverwalk.evaluation.baselines import RowScores, fit_baselines
from coverwalk.forest.schedule import NEVER
from coverwalk.preparation.columns import output_names


class Column(NamedTuple):
    """One score of the table; where each target has its own, its name."""

    key: str
    head: str
    format: str
    target: str | None = None


@dataclass
class Score:
    """Means over rows of the model's scores and of its baselines', by name."""

    columns: list[Column]
    confidence: float | None = None  # of the intervals
    n: int = 0
    n_seen: int = 0  # rows that the model had learned from
    sums: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, *sums: Any) -> None:
        """Add a predictor's sums over more rows, in the order of the columns: squared errors for the RMSE."""
        self.sums[name] = self.sums.get(name, 0.0) + np.hstack(sums)

    def table(self) -> dict[str, list[float]]:
        """The means of each predictor."""
        return {
            name: [np.sqrt(mean) if column.key == "rmse" else mean for column, mean in zip(self.columns, sums / self.n)]
            for name, sums in self.sums.items()
        }

    def facts(self) -> dict[str, Any]:
        """Plain values."""
        facts: dict[str, Any] = {"rows": self.n, "training_rows": self.n_seen}
        facts |= {} if self.confidence is None else {"confidence": self.confidence}
        for name, means in self.table().items():
            facts[name] = entry = dict[str, Any]()
            for column, mean in zip(self.columns, means):
                place = entry if column.target is None else entry.setdefault(column.key, {})
                place[column.target or column.key] = float(mean)
        return facts

    def __str__(self) -> str:
        widths = [max(11, len(column.head) + 2) for column in self.columns]
        lines = [f"{'':<18}" + "".join(f"{column.head:>{width}}" for column, width in zip(self.columns, widths))]
        for name, means in self.table().items():
            cells = [format(mean, column.format) for column, mean in zip(self.columns, means)]
            lines.append(f"{name:<18}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths)))
        return "\n".join(lines)


def learned_rows(model: ConditionalDensity | ContextClassifier | DoubleTree) -> tuple[Floats, Any] | None:
    """X (n, p) and Y (n, q), or numbers of classes (n,), that the model has learned from and still keeps.

    None for a long stream, which has let them go.
    """
    if isinstance(model, ContextClassifier):
        return np.concatenate([rows.X for rows in model._rows]), np.concatenate([rows.y for rows in model._rows])
    if isinstance(model, DoubleTree):
        return model._engine.rows
    if hasattr(model, "forests_"):
        return model.forests_[0].X, np.column_stack([forest.y for forest in model.forests_])
    streams = model.stream_.streams
    if streams[0].next_event == NEVER:  # its trees have stopped growing, and rows are kept to grow from
        return None
    kept = streams[0].n_rows - streams[0].first_row
    return streams[0].X[:kept], np.column_stack([stream.y[:kept] for stream in streams])


def n_learned(learned: tuple[Floats, Any] | None, X: Floats, Y: Floats | Ints) -> int:
    """How many of the rows X (n, p) with these targets are among those learned; 0 where they are not known."""
    return 0 if learned is None else int(np.isin(_row_keys(X, Y), _row_keys(*learned)).sum())


def _row_keys(X: Floats, Y: Floats | Ints) -> NDArray[Any]:
    """Rows as things that can be looked for, (n,): equal where all numbers are."""
    table = np.ascontiguousarray(np.column_stack([X, Y]) + 0.0)  # -0 is 0
    return table.view([("", np.int64)] * table.shape[1])[:, 0]


def predicted(model: ConditionalDensity | DoubleTree, X: Floats) -> Distribution:
    """The distributions in rows that need no check, corrected where the model was calibrated."""
    dist: Distribution = model._calibrated(model._dist(X))
    return dist


def marginals(dist: Distribution) -> list[UnivariateDistribution]:
    """The distribution of each output alone."""
    return [dist.marginal(j) for j in range(dist.n_outputs)]


def score(
    model: ConditionalDensity | DoubleTree, batches: Iterable[tuple[Floats, Floats]], confidence: float = 0.9
) -> Score:
    """Score every batch X (n, p), Y (n, q) once; the log loss is that of all outputs together."""
    targets, learned = output_names(model), learned_rows(model)
    scores = (("crps", "CRPS", ".4g"), ("rmse", "RMSE", ".4g"), ("coverage", f"{confidence:.0%} coverage", ".1%"))
    columns = [Column("log_loss", "log loss", ".4f")]
    for key, head, written in scores:
        columns += [Column(key, f"{head} {t}" if len(targets) > 1 else head, written, t) for t in targets]
    result = Score(columns, confidence)
    lines = [] if learned is None else [fit_baselines(learned[0], y, model._mixed.n_categories) for y in learned[1].T]
    for X, Y in batches:
        dist = predicted(model, X)
        log_density = dist.logpdf(Y if dist.n_outputs > 1 else Y[:, 0])
        each = []
        for marginal, y in zip(marginals(dist), Y.T):
            low, high = marginal.interval(confidence)
            each.append(RowScores(log_density, marginal.crps(y), y - marginal.mean(), (low <= y) & (y <= high)))
        _add(result, "coverwalk", log_density, each)
        for name in lines[0] if lines else ():
            each = [line[name].scores(X, y, confidence) for line, y in zip(lines, Y.T)]
            _add(result, name, sum(row.log_density for row in each), each)
        result.n += len(X)
        result.n_seen += n_learned(learned, X, Y)
    return result


def _add(result: Score, name: str, log_density: Any, each: Sequence[RowScores]) -> None:
    squares = [(row.error**2).sum() for row in each]
    result.add(name, -log_density.sum(), [row.crps.sum() for row in each], squares, [row.inside.sum() for row in each])


def score_classes(model: ContextClassifier, batches: Iterable[tuple[Floats, NDArray[Any]]]) -> Score:
    """Score rows and their labels, which must be known ones, beside the frequencies of the classes."""
    columns = [("log_loss", "log loss", ".4f"), ("accuracy", "accuracy", ".1%"), ("brier", "Brier", ".4f")]
    result, learned = Score([Column(*column) for column in columns]), learned_rows(model)
    for X, labels in batches:
        code = np.searchsorted(model.classes_, labels)
        frequencies = np.tile(class_frequencies(model), (len(X), 1))
        for name, q in (("coverwalk", model._proba(X)), ("class frequencies", frequencies)):
            own = q[np.arange(len(X)), code]
            with np.errstate(divide="ignore"):
                loss = -np.log(own).sum()
            result.add(name, loss, (q.argmax(axis=1) == code).sum(), ((q**2).sum(axis=1) - 2 * own + 1).sum())
        result.n += len(X)
        result.n_seen += n_learned(learned, X, code)
    return result


def class_frequencies(model: ContextClassifier) -> Floats:
    """How frequent each class is among the rows learned, (C,)."""
    frequencies: Floats = model._forest.counts / model._forest.counts.sum()
    return frequencies


def class_reliability(p: Floats, right: Bools, n_bins: int = 10) -> list[tuple[float, float, int]]:
    """Rows by the probability of their predicted class, p (n, C), in bins of equal width: mean probability, accuracy
    by ``right`` (n,), and number; empty bins are omitted.
    """
    best = p.max(axis=1)
    of = np.minimum((best * n_bins).astype(int), n_bins - 1)
    return [(float(best[of == b].mean()), float(right[of == b].mean()), int(np.sum(of == b))) for b in np.unique(of)]
