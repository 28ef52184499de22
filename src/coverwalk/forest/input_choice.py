"""Inputs that a forest leaves out, where held-out rows are predicted better without them.

An input that tells of y only through others (the pitch of a word, where the speaker is known) divides contexts as well
as these do, and leaves too few rows for them. No evidence of single splits shows it: a forest without the input does.
"""

from dataclasses import replace

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.forest.pool import extrapolated
from coverwalk.forest.settings import FEW_TREES
from coverwalk.forest.small_forests import Kind, SmallForests

SHARES = (0.9, 0.98)  # of what held-out rows would miss, that the inputs kept in one step carry: tried in turn
MOST_KEPT = 0.8  # of the inputs in one step: to leave out fewer gains too little for a trial
ERRORS = 2.0  # standard errors that held-out rows must gain: small forests differ by chance, too
MAX_NUMBERS, MIN_ROWS = 10**8, 16  # rows times inputs squared, by which inputs are ranked; and the fewest rows
FLOOR = -1e3  # of a log density


def without_unused(
    every: SmallForests, kinds: list[Kind], counted: Floats, known: tuple[int, ...] = ()
) -> SmallForests:
    """Small forests without the inputs that do not help; counted (n,): weights of the held-out rows; known: those that
    were left out before, when there were fewer rows.

    The search asks planes alone; in the end the best of them and the smooth ones must gain, too.
    """
    if every.settings.n_trees < FEW_TREES:
        return every
    base = (_if_surely(every, known, counted) if known else None) or every
    small, fewer = base, _with_fewer(base, counted)
    while fewer is not None:
        small, fewer = fewer, _with_fewer(fewer, counted)
    if small is base:
        return base
    some = [kind for kind in kinds if kind.degree <= 1]
    for n_folds, least in ((1, 0.5 * ERRORS), (len(small.folds), ERRORS)):  # the first tells of most that all will not
        if _errors_gained(_best(small, some, n_folds) - _best(base, some, n_folds), counted) <= least:
            return base
    return small


def _if_surely(small: SmallForests, unused: tuple[int, ...], counted: Floats) -> SmallForests | None:
    """Without these inputs, if held-out rows surely gain by it; one fold tells of most that it would lose."""
    fewer = SmallForests(small.X, small.y, small.folds, replace(small.settings, unused=unused), small.weight)
    for n_folds, least in ((1, 0.0), (len(small.folds), ERRORS)):
        if _errors_gained(_held_out(fewer, n_folds) - _held_out(small, n_folds), counted) <= least:
            return None
    return fewer


def _with_fewer(small: SmallForests, counted: Floats) -> SmallForests | None:
    """Without the inputs that are missed least, if held-out rows surely gain by it."""
    unused = small.settings.unused
    used = np.setdiff1d(np.arange(small.X.shape[1]), unused)
    if len(used) < 2:
        return None
    _held_out(small, 1)
    missed = np.maximum(_missed(small, used.tolist()), 0.0)
    used = used[np.argsort(-missed, kind="stable")]
    carried = np.cumsum(np.sort(missed)[::-1])
    for n in dict.fromkeys(int(np.searchsorted(carried, share * carried[-1])) + 1 for share in SHARES):
        if n > MOST_KEPT * len(used):
            break
        fewer = _if_surely(small, tuple(sorted([*unused, *used[n:].tolist()])), counted)
        if fewer is not None:
            return fewer
    return None


def _missed(small: SmallForests, used: list[int]) -> Floats:
    """What the rows of the first fold lose in log density, if one of the inputs has the values of other rows; by trees
    that were asked for them before.

    An input that tells nothing of its own is missed less than one that does, however often it is split.
    """
    forest, fold = small.forest(False, 0), small.folds[0]
    n = max(MAX_NUMBERS // (small.X.shape[1] * len(used)), MIN_ROWS)
    X, y = small.X[fold][:n], small.y[fold][:n]

    def score(rows: Floats) -> float:
        return float(np.mean(np.maximum(forest.predict_dist(rows).logpdf(y), FLOOR)))

    others, lost, before = X.copy(), np.empty(len(used)), score(X)
    for j, a in enumerate(used):
        others[:, a] = np.roll(X[:, a], 1)  # rows come in random order
        lost[j] = before - score(others)
        others[:, a] = X[:, a]
    return lost


def _held_out(small: SmallForests, n_folds: int) -> Floats:
    """Log densities of the rows of the first folds, by planes."""
    return _best(small, [Kind(min(1, small.settings.degree), False)], n_folds)


def _best(small: SmallForests, kinds: list[Kind], n_folds: int | None = None) -> Floats:
    """Log densities of the rows of all folds, or the first, by the kind and the prior that are best for them."""
    gain = max(1.0 - small.n_trees / small.settings.n_trees, 0.0)
    experts = [expert for kind in kinds for expert in small.experts(kind, n_folds)]
    halves = [[np.concatenate(half) for half in expert.known] for expert in experts]
    scores = [extrapolated(first, second, gain) for first, second in halves]
    return max(scores, key=lambda score: float(score.sum()))


def _errors_gained(gained: Floats, counted: Floats) -> float:
    """The mean of what the first rows gain, in its standard errors."""
    gained = np.where(np.isfinite(gained), gained, 0.0)
    counted = counted[: len(gained)]
    mean = float(counted @ gained / counted.sum())
    error = float(np.sqrt(counted @ (gained - mean) ** 2)) / float(counted.sum())
    return mean / error if error > 0.0 else 0.0
