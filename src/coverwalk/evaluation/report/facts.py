"""What the page tells of a model on rows of data, as plain values."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom, norm

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.evaluation.baselines import Line, plain_inputs
from coverwalk.evaluation.metrics import pit
from coverwalk.evaluation.scores import row_keys
from coverwalk.forest.explain import permutation_rises
from coverwalk.forest.forest import Forest
from coverwalk.forest.summary import summarise

__all__ = ["Subject", "gather", "is_mixed", "permuted_losses"]

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


class Answers(NamedTuple):
    """What the model says of each row, (n,) each; 5 % and 95 % quantiles."""

    log_density: Floats
    pit: Floats
    mean: Floats
    low: Floats
    high: Floats
    crps: Floats


def gather(subject: Subject) -> dict[str, Any]:
    """Everything but the explorer's arrays."""
    answers = _ask(subject)
    return {
        "kind": "density",
        "target": subject.target,
        "inputs": subject.inputs,
        "n": len(subject.y),
        "seen": _share_seen(subject),
        "model": subject.model,
        "calibration": _calibration(answers.pit),
        "losses": _losses(subject, answers),
        "importances": _importances(subject, answers),
        "surprising": _surprising(subject, answers),
        "explore": _explore(subject, answers) if _explorable(subject) else None,
    }


def is_mixed(subject: Subject) -> bool:
    """Whether there are categories or missing values: the page's own evaluator, and its sliders, know numbers."""
    rows = (*(subject.rows or ())[:1], subject.X)
    return bool(subject.n_categories) or any(bool(np.isnan(X).any()) for X in rows)


def _ask(subject: Subject) -> Answers:
    parts = []
    for start in range(0, len(subject.y), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        dist, y = subject.predict_dist(subject.X[rows]), subject.y[rows]
        parts.append((dist.logpdf(y), pit(y, dist), dist.mean(), *dist.interval(0.9), dist.crps(y)))
    return Answers(*(np.concatenate(columns) for columns in zip(*parts)))


def _share_seen(subject: Subject) -> float:
    """The fraction of rows that the model learned from; 0 where that is not known."""
    if subject.rows is None:
        return 0.0
    return float(np.isin(row_keys(subject.X, subject.y), row_keys(*subject.rows)).mean())


def _calibration(pit: Floats) -> dict[str, Any]:
    n, central = len(pit), np.abs(2 * pit - 1)
    heights, _ = np.histogram(pit, bins=N_BINS, range=(0.0, 1.0))
    return {
        "heights": (heights * N_BINS / n).tolist(),
        "band": [float(binom.ppf(q, n, 1 / N_BINS) * N_BINS / n) for q in (0.025, 0.975)],
        "levels": list(LEVELS),
        "covered": [float(np.mean(central <= level)) for level in LEVELS],
        "noise": [float(1.96 * np.sqrt(level * (1 - level) / n)) for level in LEVELS],
        "error": float(np.mean(np.abs(np.sort(pit) - (np.arange(n) + 0.5) / n))),
        "by_chance": 0.32 / float(np.sqrt(n)),  # mean height of a Brownian bridge, sqrt(pi/32)
    }


def _losses(subject: Subject, answers: Answers) -> list[dict[str, Any]]:
    """The model beside baselines that learned from the same rows."""
    y = subject.y
    inside = (answers.low <= y) & (y <= answers.high)
    losses = [_loss("coverwalk", answers.log_density, y - answers.mean, inside, answers.crps)]
    if subject.rows is None:
        return losses
    learned_X, learned_y = subject.rows
    learned, X = (plain_inputs(rows, learned_X, subject.n_categories) for rows in (learned_X, subject.X))
    for name, width in (("linear regression", X.shape[1]), ("one normal", 0)):
        line = Line.fit(learned[:, :width], learned_y)
        error = y - line.mean(X[:, :width])
        covered = np.abs(error) <= norm.ppf(0.95) * line.std
        losses.append(_loss(name, line.logpdf(X[:, :width], y), error, covered, line.crps(X[:, :width], y)))
    return losses


def _loss(name: str, log_density: Floats, error: Floats, inside: Bools, crps: Floats) -> dict[str, Any]:
    return {
        "name": name,
        "loss": float(-log_density.mean()),
        "error": float(log_density.std() / np.sqrt(len(log_density))),
        "crps": float(crps.mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "covered": float(inside.mean()),
    }


def permuted_losses(X: Floats, losses: Callable[[Floats, Ints], float], names: list[str]) -> Any:
    """Rise of the mean loss when each input is shuffled, over some of the rows; the largest first.

    ``losses(X, rows)`` is the mean loss of inputs X (k, p) with the targets of these rows.
    """
    n, p = X.shape
    rng = np.random.default_rng(0)
    rows = rng.permutation(n)[: max(50, min(n, _SHUFFLED_ROWS // max(p, 1), 2_000))]
    rises = permutation_rises(X[rows], lambda shuffled: losses(shuffled, rows), p, 1, rng)
    told = [{"name": name, "rise": rise} for name, rise in zip(names, rises[:, 0].tolist())]
    return sorted(told, key=lambda entry: -entry["rise"])


def _importances(subject: Subject, answers: Answers) -> Any:
    def losses(X: Floats, rows: Ints) -> float:
        return -float(np.mean(subject.predict_dist(X).logpdf(subject.y[rows])))

    return permuted_losses(subject.X, losses, subject.inputs)


def _surprising(subject: Subject, answers: Answers) -> list[dict[str, Any]]:
    order = np.argsort(answers.log_density)[:N_SURPRISING]
    return [
        {
            "row": int(i) + 1,
            "y": float(subject.y[i]),
            "loss": float(-answers.log_density[i]),
            "low": float(answers.low[i]) if np.isfinite(answers.low[i]) else None,
            "high": float(answers.high[i]) if np.isfinite(answers.high[i]) else None,
        }
        for i in order
    ]


def _explorable(subject: Subject) -> bool:
    """Whether the page can predict by itself: it has no categories, and no forest for classes."""
    return subject.forest is not None and subject.forest.settings.atoms is None and not is_mixed(subject)


def _explore(subject: Subject, answers: Answers) -> dict[str, Any]:
    """Rows to choose among, the ranges of the sliders, and the range of y."""
    assert subject.forest is not None
    X, forest = subject.X, subject.forest
    evenly = np.linspace(0, len(X) - 1, min(N_ROWS, len(X))).astype(int)
    chosen = np.unique(np.concatenate([evenly, np.argsort(answers.log_density)[:N_SURPRISING]]))
    both, y = np.concatenate([X, forest.X]), np.concatenate([subject.y, forest.y])
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
