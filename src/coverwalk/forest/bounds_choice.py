"""Bounds of y, and where the map that keeps them turns from logarithmic to linear, chosen on held-out rows."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk.forest.forest import Forest, Settings
from coverwalk.preparation.bounds import Bounds, check_within, checked_bounds, natural_bounds
from coverwalk.preparation.rounding import Rounding, atom_widths, find_rounding
from coverwalk.preparation.scaling import canonical_order

__all__ = ["choose_rounding"]

Floats = NDArray[np.float64]

MAX_ROWS = 1000  # more would tell little more
N_TREES = 4
FOLDS = 2  # quarters of the rows that are held out in turn
QUANTILES = (1.0, 0.5)  # of the distances from a bound, at which the map turns linear
PARTS = (0.5, 0.125)  # of the interval between two bounds


def choose_rounding(X: Floats, y: Floats, bounds: Any, settings: Settings, name: str = "y") -> Rounding | None:
    """The rounding of y (n,), within its bounds: a pair, None, or "auto" for those that y shows by itself."""
    found = find_rounding(y)
    automatic = isinstance(bounds, str)
    if automatic:
        if bounds != "auto":
            raise ValueError(f'bounds must be a pair (low, high) or "auto", got {bounds!r}')
        atoms = found.values if found else np.empty(0)
        ends = natural_bounds(y, atoms)
    else:
        ends = checked_bounds(bounds)
    if ends is None or y.min() == y.max():
        return found
    check_within(y, ends, name)
    candidates: list[Rounding | None] = [found] if automatic else []
    candidates += _candidates(y, found or Rounding(), ends)
    if len(candidates) == 1 or len(y) < 20:
        return candidates[-1] if automatic else candidates[0]
    scores = [_score(X, y, replace(settings, rounding=one)) for one in candidates]
    return candidates[int(np.argmax(scores))]


def _candidates(y: Floats, found: Rounding, ends: tuple[float, float]) -> list[Rounding]:
    """A limit that y reaches is an atom, and what lies beyond counts for it; towards others y is mapped to the line.

    On a grid, both: its cells end half a step beyond its limits.
    """
    low, high = ends
    if found.step:
        low, high = found.within(low, high)
        split = replace(found, low=low, high=high)
        return [split, *_mapped(split, (low - 0.5 * found.step, high + 0.5 * found.step), y)]
    reached = [end for end in ends if np.any(y == end)]
    values = np.unique(np.concatenate([found.values, reached]))
    width = atom_widths(y, values)
    found = replace(found, values=values, width=width, low=low, high=high)
    open_low = -np.inf if low in reached else low
    open_high = np.inf if high in reached else high + float(width.sum())
    return _mapped(found, (open_low, open_high), found._cells(y)[1]) or [found]


def _mapped(found: Rounding, ends: tuple[float, float], t: Floats) -> list[Rounding]:
    """With maps from the interval of t (n,), the latent y, that turn from logarithmic to linear at several places."""
    low, high = ends
    if np.isinf(low) and np.isinf(high):
        return []
    if np.isfinite(high - low):
        turns = [part * (high - low) for part in PARTS]
    else:
        distance = t - low if low > -np.inf else high - t
        turns = np.unique(np.quantile(distance, QUANTILES)).tolist()
    return [replace(found, bounds=Bounds(float(low), float(high), float(c))) for c in turns if c > 0]


def _score(X: Floats, y: Floats, settings: Settings) -> float:
    """The log density of held-out rows under a small forest."""
    order = canonical_order(X, y)[:MAX_ROWS]
    X, y, total = X[order], y[order], 0.0
    for fold in range(FOLDS):
        part = np.arange(len(y))[fold::4]
        rest = np.delete(np.arange(len(y)), part)
        forest = Forest.plan(X[rest], y[rest], replace(settings.with_trees(N_TREES), degree=1, stop=0.8))
        forest.accumulate(X[rest], y[rest])
        forest.finalize()
        total += float(forest.predict_dist(X[part]).logpdf(y[part]).sum())
    return total
