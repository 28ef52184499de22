"""The pool: experts and their weights v, from what they say of rows that they have not seen.

Given log densities L (n, E) of held-out rows under E experts, the weights maximise

    sum_i log sum_e v_e exp(L_ie) + (a - 1) sum_e log v_e

with a Dirichlet prior of a - 1 rows for each expert. The function is concave; expectation maximisation climbs it and
cannot overshoot. On a stream the same update goes on row by row: `_kernels.forest.learned.pool_rows`.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["MIN_WEIGHT", "extrapolated", "pool_weights", "whole_numbers"]

Floats = NDArray[np.float64]

PRIOR_ROWS = 1.0  # of the Dirichlet prior, in all
N_STEPS = 100
TOLERANCE = 1e-4  # of a weight, between two steps
MIN_WEIGHT = 0.05  # an expert with less is dropped, and its weight given to the others


def pool_weights(log_density: Floats, prior: Floats | None = None, counted: Floats | None = None) -> Floats:
    """Weights (E,) of experts from their log densities (n, E) of held-out rows.

    Parameters
    ----------
    log_density : (n, E)
        Of rows that the experts have not seen; -inf where an expert rules a row out.
    prior : (E,), optional
        Rows of the Dirichlet prior for each expert; by default one row in all, evenly.
    counted : (n,), optional
        Weights of the rows, where they are not all one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first = rng.random(2000) < 0.3  # the rows that the first of two experts is right about
    >>> pool_weights(np.log(np.where(first[:, None], [0.9, 0.1], [0.1, 0.9]))).round(1)
    array([0.3, 0.7])
    >>> pool_weights(np.empty((0, 2)))
    array([0.5, 0.5])
    """
    n, E = log_density.shape
    rows = np.full(E, PRIOR_ROWS / E) if prior is None else prior
    if n == 0:
        return np.asarray(rows / rows.sum())
    weight = np.full(E, 1.0 / E)
    best = log_density.max(axis=1, keepdims=True)
    density = np.exp(log_density - np.where(np.isfinite(best), best, 0.0))
    counted = np.ones(n) if counted is None else counted
    density, counted = (
        density[np.isfinite(best[:, 0])],
        counted[np.isfinite(best[:, 0])],
    )  # a row that all rule out says nothing of their weights
    for _ in range(N_STEPS):
        joint = density * weight
        counts = rows + counted @ (joint / joint.sum(axis=1, keepdims=True))
        before, weight = weight, counts / counts.sum()
        if np.abs(weight - before).max() < TOLERANCE:
            break
    return np.asarray(weight)


def extrapolated(first: Floats, second: Floats, n_asked: float, n_trees: int) -> Floats:
    """Log densities (n,) of a pool of n_trees trees, from those of two halves of n_asked trees.

    A pool of K trees loses c/K to one without end, for some c; two small pools and both together tell c. Without this,
    small pools would ask for a larger scale factor, and for safer priors, than the forest needs.
    """
    with np.errstate(invalid="ignore"):  # densities of 0 and of infinity are what they are
        together = np.where(first == second, first, np.logaddexp(first, second) - np.log(2.0))
        gain = np.where(np.isfinite(together), together - 0.5 * (first + second), 0.0)
    return np.asarray(together + (1.0 - n_asked / n_trees) * gain)


def whole_numbers(weights: Floats, total: int) -> list[int]:
    """Numbers of trees in these weights; those that lose most by rounding down get the trees left over.

    >>> whole_numbers(np.array([0.5, 0.25, 0.25]), 5)
    [3, 1, 1]
    """
    wanted = weights * total
    counts = np.floor(wanted).astype(int)
    for k in np.argsort(counts - wanted, kind="stable")[: total - counts.sum()]:
        counts[k] += 1
    return [int(count) for count in counts]
