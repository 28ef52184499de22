"""The steps by which the weights of a pool climb: see `coverwalk.forest.pool`."""

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import fused_kernel

N_STEPS = 200
TOLERANCE = 1e-4  # of a weight, between two steps
MIN_DENSITY = 1e-300  # of a half that rules a row out


@fused_kernel
def climb(density: Floats, counted: Floats, rows: Floats, gain: float, weight: Floats) -> None:
    """Expectation maximisation from weight (E,), which is overwritten.

    density (3, E, n): of both halves of the experts' trees together, of the first, the second; counted (n,): weights of
    the held-out rows; rows (E,): of the prior.
    """
    parts, E, n = density.shape
    mixture, sums, total = np.empty(n), np.empty((parts, E)), counted.sum() + rows.sum()
    for _ in range(N_STEPS):
        for part in range(parts):
            for i in range(n):
                mixture[i] = 0.0
            for e in range(E):
                w = weight[e]
                for i in range(n):
                    mixture[i] += w * density[part, e, i]
            for i in range(n):
                mixture[i] = counted[i] / max(mixture[i], MIN_DENSITY)
            for e in range(E):
                t = 0.0
                for i in range(n):
                    t += mixture[i] * density[part, e, i]
                sums[part, e] = t
        whole = 0.0
        for e in range(E):
            noisy = 0.5 * gain * (sums[1, e] + sums[2, e])
            sums[0, e] = (rows[e] + weight[e] * (1.0 + gain) * sums[0, e]) / (total + noisy)
            whole += sums[0, e]
        change = 0.0
        for e in range(E):
            change = max(change, abs(sums[0, e] / whole - weight[e]))
            weight[e] = sums[0, e] / whole
        if change < TOLERANCE:
            break
