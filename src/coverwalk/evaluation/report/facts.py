"""What the page tells of a model on rows of data, as plain values."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from coverwalk.evaluation.baselines import Line, plain_inputs
from coverwalk.forests.forest import Forest
from coverwalk.forests.forest_summary import summarise

__all__ = ["Subject", "gather", "is_mixed"]

Floats = NDArray[np.float64]

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
N_BINS = 20
N_SURPRISING = 10
N_ROWS = 200  # that the explorer can choose among
_ROWS_AT_ONCE = 5_000


class Subject(NamedTuple):
    """One target's forest, and rows X (n, p), y (n,) to judge it on."""

    forest: Forest
    target: str
    X: Floats
    y: Floats


class Answers(NamedTuple):
    """What the forest says of each row, (n,) each; 5 % and 95 % quantiles."""

    log_density: Floats
    pit: Floats
    mean: Floats
    low: Floats
    high: Floats


def gather(subject: Subject) -> dict[str, Any]:
    """Everything but the explorer's arrays."""
    answers = _ask(subject)
    seen = _share_seen(subject)
    return {
        "target": subject.target,
        "inputs": subject.forest.names,
        "n": len(subject.y),
        "seen": seen,
        "model": summarise(subject.forest)._asdict(),
        "calibration": _calibration(answers.pit),
        "losses": _losses(subject, answers),
        "surprising": _surprising(subject, answers),
        "explore": None if is_mixed(subject) else _explore(subject, answers),
    }


def is_mixed(subject: Subject) -> bool:
    """Whether there are categories or gaps: the page's own evaluator, and its sliders, know numbers."""
    rows = subject.forest.X, subject.X
    return bool(subject.forest.settings.n_levels) or any(bool(np.isnan(X).any()) for X in rows)


def _ask(subject: Subject) -> Answers:
    parts = []
    for start in range(0, len(subject.y), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        dist, y = subject.forest.ask(subject.X[rows]), subject.y[rows]
        parts.append((dist.logpdf(y), dist.cdf(y), dist.mean(), *dist.interval(0.9)))
    return Answers(*(np.concatenate(columns) for columns in zip(*parts)))


def _share_seen(subject: Subject) -> float:
    """The share of rows that the forest learned from."""
    ours, learned = (
        np.ascontiguousarray(np.column_stack([X, y]) + 0.0).view([("", np.int64)] * (X.shape[1] + 1))[:, 0]
        for X, y in ((subject.X, subject.y), (subject.forest.X, subject.forest.y))
    )
    return float(np.isin(ours, learned).mean())


def _calibration(pit: Floats) -> dict[str, Any]:
    n, central = len(pit), np.abs(2 * pit - 1)
    heights, _ = np.histogram(pit, bins=N_BINS, range=(0.0, 1.0))
    return {
        "heights": (heights * N_BINS / n).tolist(),
        "band": [float(binom.ppf(q, n, 1 / N_BINS) * N_BINS / n) for q in (0.025, 0.975)],
        "levels": list(LEVELS),
        "covered": [float(np.mean(central <= level)) for level in LEVELS],
        "noise": [float(1.96 * np.sqrt(level * (1 - level) / n)) for level in LEVELS],
    }


def _losses(subject: Subject, answers: Answers) -> list[dict[str, Any]]:
    """The model beside baselines that learned from the same rows."""
    forest, y = subject.forest, subject.y
    learned, X = (plain_inputs(rows, forest.X, forest.settings.n_levels) for rows in (forest.X, subject.X))
    inside = (answers.low <= y) & (y <= answers.high)
    losses = [_loss("coverwalk", answers.log_density, y - answers.mean, inside)]
    for name, width in (("linear regression", X.shape[1]), ("one normal", 0)):
        line = Line.fit(learned[:, :width], forest.y)
        error = y - line.mean(X[:, :width])
        losses.append(_loss(name, line.logpdf(X[:, :width], y), error, np.abs(error) <= norm.ppf(0.95) * line.std))
    return losses


def _loss(name: str, log_density: Floats, error: Floats, inside: NDArray[np.bool_]) -> dict[str, Any]:
    return {
        "name": name,
        "loss": float(-log_density.mean()),
        "error": float(log_density.std() / np.sqrt(len(log_density))),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "covered": float(inside.mean()),
    }


def _surprising(subject: Subject, answers: Answers) -> list[dict[str, Any]]:
    order = np.argsort(answers.log_density)[:N_SURPRISING]
    return [
        {
            "row": int(i) + 1,
            "y": float(subject.y[i]),
            "loss": float(-answers.log_density[i]),
            "low": float(answers.low[i]),
            "high": float(answers.high[i]),
        }
        for i in order
    ]


def _explore(subject: Subject, answers: Answers) -> dict[str, Any]:
    """Rows to choose among, the ranges of the sliders, and the range of y."""
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
