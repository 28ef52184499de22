"""The pool: experts and their weights v, from their log densities of held-out rows.

Given log densities L (n, E) of held-out rows under E experts, the weights maximise

    sum_i log sum_e v_e exp(L_ie) + (a - 1) sum_e log v_e

with a Dirichlet prior of a - 1 rows for each expert. The function is concave; expectation maximisation climbs it and
cannot overshoot. On a stream the same update goes on row by row: `_kernels.forest.learned.pool_rows`.

**Small forests.** Experts that are judged by few trees err each in their own way, and a mixture of many averages their
errors: it looks better than it will be among forests of many trees, where that noise is gone. So the judged is the
mixture as it will be with all trees, extrapolated from two halves of the trees (`extrapolated`): with p_1 and p_2
the mixtures of the halves, p = (p_1 + p_2) / 2 and the gain t,

    sum_i (1 + t) log p(y_i) - t/2 (log p_1(y_i) + log p_2(y_i)).

The part with a minus is convex; put a straight line in its place at the weights that one has, and the rest is
expectation maximisation again, whose every step climbs (the concave-convex procedure).
"""

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.pool import climb

PRIOR_ROWS = 1.0  # of the Dirichlet prior, in all


def pool_weights(
    log_density: Floats,
    prior: Floats | None = None,
    counted: Floats | None = None,
    *,
    other: Floats | None = None,
    gain: float = 0.0,
) -> Floats:
    """Weights (E,) of experts from their log densities (n, E) of held-out rows.

    Parameters
    ----------
    log_density : (n, E)
        Of rows that the experts have not seen; -inf where an expert rules a row out.
    prior : (E,), optional
        Rows of the Dirichlet prior for each expert; by default one row in all, evenly.
    counted : (n,), optional
        Weights of the rows, where they are not all one.
    other : (n, E), optional
        The same of other halves of the experts' trees.
    gain : float
        How far to extrapolate from the halves: 0 judges both together as they are, 1 a forest without end.

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
    halves = np.stack([log_density, log_density if other is None else other])
    best = halves.max(axis=(0, 2))
    known = np.isfinite(best)  # a row that all rule out has no part in their weights
    if not known.any():
        return np.asarray(rows / rows.sum())
    density = np.exp(halves[:, known] - best[known, None])
    density = np.concatenate([density.sum(axis=0)[None], density])  # of both halves together, of the first, the second
    counted = np.ones(n) if counted is None else counted
    weight = np.full(E, 1.0 / E)
    climb(np.ascontiguousarray(density.transpose(0, 2, 1)), counted[known], rows, gain, weight)
    return weight


def extrapolated(first: Floats, second: Floats, gain: float) -> Floats:
    """Log densities (n,) of a pool of K trees, from those of two halves of k trees together; gain = 1 - k / K.

    A pool of K trees loses c/K to one without end, for some c; two small pools and both together tell c. Without this,
    small pools would ask for a larger scale factor, and for safer priors, than the forest needs.
    """
    with np.errstate(invalid="ignore"):  # densities of 0 and of infinity are what they are
        together = np.where(first == second, first, np.logaddexp(first, second) - np.log(2.0))
        return np.asarray(together + gain * np.where(np.isfinite(together), together - 0.5 * (first + second), 0.0))


def few_experts(log_density: Floats, other: Floats, counted: Floats, gain: float) -> Floats:
    """Weights (E,) of experts, of which those are dropped that held-out rows do not miss.

    The expert with the least weight goes, and the others are weighed again, until the rows lose more than one standard
    error by it. A mixture that few rows cannot tell from chance costs more on rows to come than it gained on them.
    """

    def mixture(kept: Ints) -> tuple[Floats, Floats]:
        halves = log_density[:, kept], other[:, kept]
        weight = pool_weights(halves[0], counted=counted, other=halves[1], gain=gain)
        first, second = (np.logaddexp.reduce(half + np.log(weight), axis=1) for half in halves)
        return weight, extrapolated(first, second, gain)

    E = log_density.shape[1]
    kept, rows = np.arange(E), max(float(counted.sum()), 1.0)
    weight, before = mixture(kept)
    while len(kept) > 1:
        fewer = np.delete(kept, np.argmin(weight))
        again, now = mixture(fewer)
        with np.errstate(invalid="ignore"):
            lost = np.where(np.isfinite(before - now), before - now, 0.0)
        mean = float(lost @ counted / rows)
        error = float(np.sqrt(((lost - mean) ** 2) @ counted)) / rows
        if mean > error:
            break
        kept, weight, before = fewer, again, now
    out = np.zeros(E)
    out[kept] = weight
    return out


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
