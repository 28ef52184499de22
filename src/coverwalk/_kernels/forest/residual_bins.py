"""Densities of every context from counts in bins: of its leave-one-out residuals, and of y about its mean.

The bins are in units of a scale that is known from the sums of a first reading of the rows; counts are made in a
second, and add up as sums do.
"""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.contexts import N_SHAPES, PROMISING, SHAPE_ROWS, Layout
from coverwalk._kernels.forest.kernel_density import BIN, MIDDLE, N_BINS, base_density, bins_evidence
from coverwalk._kernels.forest.polynomial import features
from coverwalk._kernels.forest.sums import Regressions

BLOCK = 64  # rows of a leaf that are looked at together


@kernel
def bin_scales(n: Floats, regressions: Regressions, min_scale: float, scale: Floats) -> None:
    """Write the scale (N, N_SHAPES) of each context's densities; it stays 0 where there is none."""
    for k in range(len(n)):
        if n[k] < SHAPE_ROWS:
            continue
        scale[k, 0] = max(regressions.loo_scale[k], min_scale)
        if regressions.spread[k] <= PROMISING * scale[k, 0]:
            scale[k, 1] = max(regressions.spread[k], min_scale)


@kernel
def _count(e: Floats, scale: float, counts: Ints) -> float:
    """Count e into bins, the last of which is beyond the others; returns the sum of log densities of those there."""
    log_outside = 0.0
    for q in range(len(e)):
        place = e[q] / (scale * BIN) + MIDDLE
        if 0.0 <= place < N_BINS:
            counts[int(place)] += 1
        else:
            counts[N_BINS] += 1
            log_outside += math.log(base_density(e[q] / scale))
    return log_outside


@kernel
def bin_residuals(
    X: Floats,
    y: Floats,
    layout: Layout,
    degree: int,
    regressions: tuple[Floats, Floats, Floats],
    scale: Floats,
    bins: tuple[Ints, Floats],
) -> None:
    """Count rows, sorted by leaf as ``layout`` says, in every context from their leaf to the root.

    regressions: gain (N,), loo (N, d) and mean (N,); scale (N, N_SHAPES) of each context's densities;
    bins: counts (N, N_SHAPES, N_BINS + 1), the last of rows beyond the bins, and the sums of their log
    densities under the base of each density (N, N_SHAPES).
    """
    gain, loo, mean = regressions
    counts, log_outside = bins
    d = loo.shape[1]
    f, F, error = np.empty(d), np.empty((d, BLOCK)), np.empty(BLOCK)
    for leaf in range(len(layout.left)):
        if layout.left[leaf] >= 0:
            continue
        for s in range(layout.start[leaf], layout.end[leaf], BLOCK):
            n = min(BLOCK, layout.end[leaf] - s)
            for q in range(n):
                features(X[s + q], degree, f)
                F[:, q] = f
            k = leaf
            while k >= 0:
                e = error[:n]
                if scale[k, 0] > 0.0:
                    for q in range(n):
                        e[q] = gain[k] * y[s + q]
                    for a in range(d):
                        t = loo[k, a]
                        column = F[a, :n]
                        for q in range(n):
                            e[q] -= t * column[q]
                    log_outside[k, 0] += _count(e, scale[k, 0], counts[k, 0])
                if scale[k, 1] > 0.0:
                    for q in range(n):
                        e[q] = y[s + q] - mean[k]
                    log_outside[k, 1] += _count(e, scale[k, 1], counts[k, 1])
                k = layout.parent[k]


@kernel
def density_scores(
    scale: Floats, counts: Ints, log_outside: Floats, tables: tuple[Floats, Floats], score: Floats, width: Ints
) -> None:
    """Leave-one-out log densities (N, N_SHAPES), -inf where there is none, and the best bandwidths (N, N_SHAPES)."""
    N = len(scale)
    score[:] = -math.inf
    width[:] = 0
    for k in range(N):
        for shape in range(N_SHAPES):
            if scale[k, shape] > 0.0:
                n, inside, beyond = counts[k, shape].sum(), counts[k, shape, :N_BINS], counts[k, shape, N_BINS]
                score[k, shape], width[k, shape] = bins_evidence(
                    inside, n, beyond, log_outside[k, shape], scale[k, shape], tables
                )
