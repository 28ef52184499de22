"""Choose the prior of the walk, the largest degree and the spread on rows that the trees have not seen."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.polynomial import n_features
from coverwalk.distribution import PredictiveDistribution
from coverwalk.forests.forest import Forest, Settings, rescaled
from coverwalk.forests.scaling import canonical_order

__all__ = ["choose"]

Floats = NDArray[np.float64]

STOPS = (0.5, 0.8, 0.95, 0.99)
SPREADS = (1.15, 1.0, 0.87, 0.75)
FEWEST_ROWS = 20  # fewer rows tell nothing
SPREAD_ROWS = 200  # fewer rows cannot tell a spread from chance
MOST_ROWS = (1000, 2500)  # more would tell little more: the second where features are few and a row costs little
MOST_NUMBERS = 40_000  # rows times features, between those two
N_TREES = 6
HELD_OUT = ((0.0, 0.25), (0.5, 0.75))  # parts of the rows, in their canonical order, left out in turn


def choose(X: Floats, y: Floats, settings: Settings) -> Settings:
    """The largest degree, the stopping probability w and the spread that predict rows left out best, the trees pooled.

    A context's evidence is that of its rows, but its cut was the best of many and its prior is its parent's posterior,
    which saw them too: evidence alone goes deeper and bends more than it should, by an amount that belongs to the
    data. And a pool of trees that err each in their own way is wider than its own errors: hence the spread, a factor
    on all scales.
    """
    if len(y) < FEWEST_ROWS:
        return replace(settings, degree=min(settings.degree, 1), stop=STOPS[-1])
    most = int(np.clip(MOST_NUMBERS / n_features(settings.degree, X.shape[1]), *MOST_ROWS))
    order = canonical_order(X, y)[:most]
    X, y = X[order], y[order]
    degrees = range(min(1, settings.degree), settings.degree + 1)
    parts = [slice(int(low * len(y)), int(high * len(y))) for low, high in HELD_OUT]
    asked: dict[tuple[int, float], list[PredictiveDistribution]] = {(g, w): [] for g in degrees for w in STOPS}
    for part in parts:
        rest = np.delete(np.arange(len(y)), part)
        forest = Forest.plan(X[rest], y[rest], replace(settings, n_trees=N_TREES))
        forest.accumulate(X[rest], y[rest])
        for degree in degrees:
            forest.settings = replace(forest.settings, degree=degree)
            forest.finalize(STOPS)
            for prior, stop in enumerate(STOPS):
                asked[degree, stop].append(forest.ask(X[part], prior))

    def score(choice: tuple[int, float], spread: float = 1.0) -> float:
        dists = zip(asked[choice], parts)
        return sum(float(rescaled(dist, spread).logpdf(y[part]).sum()) for dist, part in dists)

    degree, stop = best = max(asked, key=score)
    spread = max(SPREADS, key=lambda spread: score(best, spread)) if len(y) >= SPREAD_ROWS else 1.0
    return replace(settings, degree=degree, stop=stop, spread=spread)
