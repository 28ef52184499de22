"""Inputs that a forest leaves out, where held-out rows are predicted better without them.

An input that tells of y only through others (a voice, where the speaker is known) divides contexts as well as these do,
and leaves too few rows for them. No evidence of single splits shows it: a forest without the input does.
"""

import math
from dataclasses import replace

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.forest.importance import regression_gains
from coverwalk.forest.pool import extrapolated
from coverwalk.forest.settings import FEW_TREES
from coverwalk.forest.small_forests import Kind, SmallForests

SHARES = (0.7, 0.35)  # of the inputs that are kept in one step: if not the first, perhaps the second
ERRORS = 2.0  # standard errors that held-out rows must gain: small forests differ by chance, too


def without_unused(small: SmallForests, counted: Floats) -> SmallForests:
    """Small forests without the inputs that do not help; counted (n,): weights of the held-out rows.

    The inputs whose splits and slopes save least go first, a share of them at a time.
    """
    fewer: SmallForests | None = small if small.settings.n_trees >= FEW_TREES else None
    while fewer is not None:
        small, fewer = fewer, _with_fewer(fewer, counted)
    return small


def _with_fewer(small: SmallForests, counted: Floats) -> SmallForests | None:
    """Without some more of the inputs, if they are surely not missed."""
    unused = small.settings.unused
    used = [a for a in range(small.X.shape[1]) if a not in unused]
    kept = sorted({math.ceil(share * len(used)) for share in SHARES} - {len(used)}, reverse=True)
    if not kept:
        return None
    judged = _held_out(small, 1)
    gains = regression_gains(small.forest(False, 0))
    used.sort(key=lambda a: -gains[a])
    for n in kept:
        left_out = tuple(sorted([*unused, *used[n:]]))
        fewer = SmallForests(small.X, small.y, small.folds, replace(small.settings, unused=left_out), small.weight)
        first = _errors_gained(_held_out(fewer, 1) - judged, counted)  # one fold tells of most that they are needed
        n_folds = len(small.folds)
        if first > 0.0 and _errors_gained(_held_out(fewer, n_folds) - _held_out(small, n_folds), counted) > ERRORS:
            return fewer
        if first < -1.0:
            break
    return None


def _held_out(small: SmallForests, n_folds: int) -> Floats:
    """Log densities of the rows of the first folds, by planes under the prior that is best for them."""
    gain = max(1.0 - small.n_trees / small.settings.n_trees, 0.0)
    experts = small.experts(Kind(min(1, small.settings.degree), False), n_folds)
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
