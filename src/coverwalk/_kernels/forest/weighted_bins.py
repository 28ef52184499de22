"""Densities of the residuals of rows with weights: bins hold whole numbers of rows, fractions go to the next bin."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.kernel_density import BIN, MIDDLE, N_BINS, base_density, bins_evidence

__all__ = ["weighted_evidence"]


@kernel
def _count(e: Floats, w: Floats, scale: float, counts: Ints32) -> tuple[int, int]:
    """Fill counts (N_BINS,), so that the sum up to any bin is that of the weights, within one half; returns the rows
    of all weights together, and how many of them are beyond the bins.
    """
    mass, total = np.zeros(N_BINS), w.sum()
    for q in range(len(e)):
        place = e[q] / (scale * BIN) + MIDDLE
        if 0.0 <= place < N_BINS:
            mass[int(place)] += w[q]
    n, below, taken = max(int(total + 0.5), 1), 0.0, 0
    for b in range(N_BINS):
        below += mass[b]
        counts[b] = min(int(below + 0.5), n) - taken
        taken += counts[b]
    return n, n - taken


@kernel
def _outside(e: Floats, w: Floats, scale: float, n_out: int) -> float:
    """The log density that n_out rows beyond the bins have under the base."""
    total, mass = 0.0, 0.0
    for q in range(len(e)):
        place = e[q] / (scale * BIN) + MIDDLE
        if not 0.0 <= place < N_BINS:
            total += w[q] * math.log(max(base_density(e[q] / scale), 1e-300))
            mass += w[q]
    return n_out * total / mass if mass > 0.0 else n_out * math.log(base_density(4.0))


@kernel
def weighted_evidence(
    e: Floats, w: Floats, min_scale: float, tables: tuple[Floats, Floats], counts: Ints32
) -> tuple[float, float, int]:
    """As `density_evidence`, of rows e (n,) with weights w (n,): evidence, scale and width."""
    square, total = 0.0, 0.0
    for q in range(len(e)):
        square += w[q] * e[q] * e[q]
        total += w[q]
    scale = max(math.sqrt(square / total), min_scale)
    n, n_out = _count(e, w, scale, counts)
    score, width = bins_evidence(counts, n, n_out, _outside(e, w, scale, n_out), scale, tables)
    return score, scale, width
