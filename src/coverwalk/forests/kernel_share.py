"""How much of the prediction a kernel density over the whole space has beside the trees, told by rows left out."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coverwalk.forests.forest import Forest, Settings
from coverwalk.forests.kernel_context import MOST_INPUTS
from coverwalk.forests.scaling import canonical_order

__all__ = ["choose_share"]

Floats = NDArray[np.float64]

SHARES = np.linspace(0.0, 1.0, 11)
FEWEST_ROWS = 20  # fewer tell nothing
MOST_ROWS = 1000  # more would tell little more
FEW_ROWS = 300  # up to which each eighth of the rows is left out in turn; else each quarter, or two of more than most
N_TREES = 6
CERTAIN = 1e-4  # probability of a share worth having below which the search ends
LEAST_SHARE = 0.15  # less is not worth its voices, and trees gain more from more rows


def choose_share(X: Floats, y: Floats, settings: Settings, weight: Floats | None = None) -> Settings:
    """The mean of the share under its posterior, uniform before the rows left out were asked.

    A mixture of two laws loses little by a share that is somewhat wrong, and much by a share of 0 or 1 that is.
    """
    mixed = bool(settings.n_levels) or bool(np.isnan(X).any())  # kernels want numbers
    if mixed or len(y) < FEWEST_ROWS or not 1 <= X.shape[1] <= MOST_INPUTS:
        return settings
    n_parts, every = (8, 1) if len(y) <= FEW_ROWS else (4, 1 if len(y) <= MOST_ROWS else 2)
    order = canonical_order(X, y)[:MOST_ROWS]
    X, y, weight = X[order], y[order], weight if weight is None else weight[order]
    score, posterior = np.zeros(len(SHARES)), np.empty(0)
    rows = np.arange(len(y))
    for part in np.array_split(rows, n_parts)[::every]:
        rest = np.delete(rows, part)
        forest = Forest.plan(X[rest], y[rest], replace(settings.with_trees(N_TREES), kernel=1.0, steps=None))
        forest.accumulate(X[rest], y[rest], None if weight is None else weight[rest])
        forest.finalize()
        whole = forest.ask(X[part]).pdf(y[part])
        forest.settings = replace(forest.settings, kernel=0.0)
        trees = forest.ask(X[part]).pdf(y[part])
        gain = np.log(np.outer(SHARES, whole) + np.outer(1.0 - SHARES, trees))
        score += gain @ (np.ones(len(part)) if weight is None else weight[part])
        posterior = np.exp(score - score.max())
        posterior /= posterior.sum()
        if posterior[SHARES >= LEAST_SHARE].sum() < CERTAIN:  # the other parts would have to say the opposite
            break
    share = float(posterior @ SHARES)
    return replace(settings, kernel=share if share >= LEAST_SHARE else 0.0)
