"""What the page shows of a model on rows of data, as plain values."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.evaluation.baselines import RowScores, fit_baselines
from coverwalk.evaluation.metrics import central_fractions, coverage_noise, distance_from_uniform, pit, pit_band
from coverwalk.evaluation.scores import n_learned
from coverwalk.forest.explain import permutation_rises
from coverwalk.forest.forest import Forest
from coverwalk.forest.summary import summarise

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
N_BINS = 20
N_SURPRISING = 10
N_ROWS = 200  # that the explorer can choose among
_ROWS_AT_ONCE = 5_000
_SHUFFLED_ROWS = 40_000  # predicted for the importances, over all inputs


class Subject(NamedTuple):
    """One target, rows X (n, p), y (n,) to judge its predictions on, and what is known of the model."""

    target: str
    X: Floats
    y: Floats
    predict_dist: Callable[[Floats], UnivariateDistribution]
    inputs: list[str]
    rows: tuple[Floats, Floats] | None  # that the model learned from, where they are known
    n_categories: tuple[int, ...]  # of each input; empty where all are numbers
    model: dict[str, Any]
    forest: Forest | None = None  # if it predicts, and nothing else

    @classmethod
    def of(cls, forest: Forest, target: str, X: Floats, y: Floats) -> "Subject":
        """What a forest predicts."""
        rows, known = (forest.X, forest.y), summarise(forest)._asdict()
        return cls(target, X, y, forest.predict_dist, forest.names, rows, forest.settings.n_categories, known, forest)


class Predicted(NamedTuple):
    """What the model predicts in each row, (n,) each, and how well."""

    scores: RowScores
    pit: Floats
    low: Floats  # 5 % quantiles
    high: Floats  # 95 % quantiles


def gather(subject: Subject) -> dict[str, Any]:
    """Everything but the explorer's arrays."""
    predicted = _predict(subject)

    def loss(X: Floats, rows: Ints) -> float:
        return -float(np.mean(subject.predict_dist(X).logpdf(subject.y[rows])))

    return {
        "kind": "density",
        "target": subject.target,
        "inputs": subject.inputs,
        "n": len(subject.y),
        "seen": n_learned(subject.rows, subject.X, subject.y) / len(subject.y),
        "model": subject.model,
        "calibration": _calibration(predicted.pit),
        "losses": _losses(subject, predicted.scores),
        "importances": permuted_losses(subject.X, loss, subject.inputs),
        "surprising": _surprising(subject, predicted),
        "explore": _explore(subject, predicted.scores.log_density),
    }


def _predict(subject: Subject) -> Predicted:
    parts = []
    for start in range(0, len(subject.y), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        dist, y = subject.predict_dist(subject.X[rows]), subject.y[rows]
        parts.append((dist.logpdf(y), dist.crps(y), y - dist.mean(), pit(y, dist), *dist.interval(0.9)))
    log_density, crps, error, F, low, high = (np.concatenate(columns) for columns in zip(*parts))
    inside = (low <= subject.y) & (subject.y <= high)
    return Predicted(RowScores(log_density, crps, error, inside), F, low, high)


def _calibration(F: Floats) -> dict[str, Any]:
    n, levels = len(F), np.array(LEVELS)
    heights, _ = np.histogram(F, bins=N_BINS, range=(0.0, 1.0))
    return {
        "heights": (heights * N_BINS / n).tolist(),
        "band": pit_band(n, N_BINS),
        "levels": list(LEVELS),
        "covered": central_fractions(F, levels).tolist(),
        "noise": coverage_noise(levels, n).tolist(),
        "error": distance_from_uniform(F),
        "by_chance": 0.32 / float(np.sqrt(n)),  # mean height of a Brownian bridge, sqrt(pi/32)
    }


def _losses(subject: Subject, scores: RowScores) -> list[dict[str, Any]]:
    """The model beside baselines that learned from the same rows."""
    losses = [_loss("coverwalk", scores)]
    if subject.rows is not None:
        lines = fit_baselines(*subject.rows, subject.n_categories)
        losses += [_loss(name, line.scores(subject.X, subject.y, 0.9)) for name, line in reversed(lines.items())]
    return losses


def _loss(name: str, scores: RowScores) -> dict[str, Any]:
    return {
        "name": name,
        "loss": float(-scores.log_density.mean()),
        "error": float(scores.log_density.std() / np.sqrt(len(scores.error))),
        "crps": float(scores.crps.mean()),
        "rmse": float(np.sqrt(np.mean(scores.error**2))),
        "covered": float(scores.inside.mean()),
    }


def permuted_losses(X: Floats, loss: Callable[[Floats, Ints], float], names: list[str]) -> Any:
    """Rise of the mean loss when each input is shuffled, over some of the rows; the largest first.

    ``loss(X, rows)`` is the mean loss of inputs X (k, p) with the targets of these rows.
    """
    n, p = X.shape
    rng = np.random.default_rng(0)
    rows = rng.permutation(n)[: max(50, min(n, _SHUFFLED_ROWS // max(p, 1), 2_000))]
    rises = permutation_rises(X[rows], lambda shuffled: loss(shuffled, rows), p, 1, rng)
    entries = [{"name": name, "rise": rise} for name, rise in zip(names, rises[:, 0].tolist())]
    return sorted(entries, key=lambda entry: -entry["rise"])


def _surprising(subject: Subject, predicted: Predicted) -> list[dict[str, Any]]:
    log_density = predicted.scores.log_density
    return [
        {
            "row": int(i) + 1,
            "y": float(subject.y[i]),
            "loss": float(-log_density[i]),
            "low": float(predicted.low[i]) if np.isfinite(predicted.low[i]) else None,
            "high": float(predicted.high[i]) if np.isfinite(predicted.high[i]) else None,
        }
        for i in np.argsort(log_density)[:N_SURPRISING]
    ]


def _explore(subject: Subject, log_density: Floats) -> dict[str, Any] | None:
    """Rows to choose among, the ranges of the sliders, and the range of y.

    None where the page cannot predict by itself: it knows numbers, and no forest for classes.
    """
    X, forest = subject.X, subject.forest
    if forest is None or forest.settings.atoms is not None or subject.n_categories:
        return None
    both, y = np.concatenate([X, forest.X]), np.concatenate([subject.y, forest.y])
    if np.isnan(both).any():
        return None
    evenly = np.linspace(0, len(X) - 1, min(N_ROWS, len(X))).astype(int)
    chosen = np.unique(np.concatenate([evenly, np.argsort(log_density)[:N_SURPRISING]]))
    margin = 0.05 * (y.max() - y.min()) or max(abs(y[0]), 1.0)
    return {
        "rows": (chosen + 1).tolist(),
        "X": X[chosen].tolist(),
        "y": subject.y[chosen].tolist(),
        "low": both.min(axis=0).tolist(),
        "high": both.max(axis=0).tolist(),
        "whole": np.all(both == np.round(both), axis=0).tolist(),
        "range": [float(y.min() - margin), float(y.max() + margin)],
    }
