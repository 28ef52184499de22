"""Pool the predictions of many trees and keep them sharp: powers of their linear and log-linear pools.

    log p(c|x) = sum_m T_m log pool_m(c|x) - log sum_c' exp(...)

The mean over trees is safe but blunt: trees that disagree in part are each surer than their mean. How much sharper the
pool may be is a matter of the data, so the powers T are fitted to predictions of rows that the trees had not seen; a
convex problem in as many unknowns as there are pools, with a normal prior, solved by Newton's method.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_powers", "log_softmax"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def log_softmax(scores: Floats) -> Floats:
    """Scores (n, C) as log probabilities."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def fit_powers(log_pools: Floats, y: Integers, weight: Floats, prior: Floats, strength: float = 1.0) -> Floats:
    """The powers T (M,) of the most posterior probability, given log pools (n, C, M) and classes y (n,).

    The prior is normal around ``prior`` (M,) with precision ``strength``: of the weight of a single row or so.

    >>> rng = np.random.default_rng(0)
    >>> blunt = np.log(rng.dirichlet(np.ones(3), size=5000))[:, :, None]
    >>> sharp = np.exp(log_softmax(2 * blunt[:, :, 0]))  # the truth is the square of the pool
    >>> y = (sharp.cumsum(1) < rng.random((5000, 1))).sum(1)
    >>> fit_powers(blunt, y, np.ones(5000), np.ones(1)).round(1)
    array([2.])
    """
    T = prior.copy()
    chosen = log_pools[np.arange(len(y)), y]

    def loss(T: Floats) -> float:
        fit = log_softmax(log_pools @ T)[np.arange(len(y)), y]
        return float(0.5 * strength * ((T - prior) ** 2).sum() - weight @ fit)

    here = loss(T)
    for _ in range(100):
        p = np.exp(log_softmax(log_pools @ T))
        mean = np.einsum("nc,ncm->nm", p, log_pools)
        gradient = strength * (T - prior) - weight @ (chosen - mean)
        weighted = (p * weight[:, None])[:, :, None] * log_pools
        curvature = np.tensordot(weighted, log_pools, axes=((0, 1), (0, 1))) - (mean * weight[:, None]).T @ mean
        step = np.linalg.solve(curvature + strength * np.eye(len(T)), gradient)
        # The problem is convex and smooth: halving the step until the loss falls ends, and ends at the optimum.
        while (there := loss(T - step)) > here and np.abs(step).max() > 1e-12:
            step /= 2
        if there > here:
            break
        T, here = T - step, there
        if np.abs(step).max() < 1e-10:
            break
    return T
