"""Choose the prior of the walk, and the largest degree, on rows that the trees have not seen."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coverwalk.forest import Forest, Settings
from coverwalk.scaling import canonical_order

__all__ = ["choose"]

Floats = NDArray[np.float64]

STOPS = (0.5, 0.8, 0.95, 0.99)
FEWEST_ROWS = 20  # fewer rows tell nothing
MOST_ROWS = 1200  # more would tell little more
N_TREES = 8
HELD_OUT = ((0.0, 0.25), (0.5, 0.75))  # parts of the rows, in their canonical order, left out in turn


def choose(X: Floats, y: Floats, settings: Settings) -> Settings:
    """The largest degree and the stopping probability w that predict rows left out best, the trees pooled.

    A context's evidence is that of its rows, but its cut was the best of many and its prior is its parent's posterior, which saw them too:
    evidence alone goes deeper and bends more than it should, by an amount that belongs to the data.
    """
    if len(y) < FEWEST_ROWS:
        return replace(settings, degree=min(settings.degree, 1), stop=STOPS[-1])
    order = canonical_order(X, y)[:MOST_ROWS]
    X, y = X[order], y[order]
    choices = [(degree, stop) for degree in range(min(1, settings.degree), settings.degree + 1) for stop in STOPS]
    total = np.zeros(len(choices))
    for low, high in HELD_OUT:
        out = np.zeros(len(y), dtype=bool)
        out[int(low * len(y)) : int(high * len(y))] = True
        forest = Forest.plan(X[~out], y[~out], replace(settings, n_trees=N_TREES))
        forest.accumulate(X[~out], y[~out])
        scores = []
        for degree in sorted({degree for degree, _ in choices}):
            forest.settings = replace(forest.settings, degree=degree)
            forest.finalize(STOPS)
            scores += [forest.ask(X[out], prior).logpdf(y[out]).sum() for prior in range(len(STOPS))]
        total += scores
    degree, stop = choices[int(np.argmax(total))]
    return replace(settings, degree=degree, stop=stop)
