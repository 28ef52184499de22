"""The walk over a tree of contexts, for all rows at once: evidence upwards, stop weights downwards (docs/math.md)."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.odds import log_add


@kernel
def local_evidence(log_score: Floats, n_regressions: int, log_weight: Floats, log_phi: Floats) -> None:
    """Sum out the local models of each context, half of the prior on its regressions: log evidences into log_phi (N,).

    Fills log_weight (N, 1 + n), the posterior of all regressions together and of each density.
    """
    n_densities = log_weight.shape[1] - 1
    log_prior = math.log(0.5 / n_densities)
    for k in range(len(log_score)):
        high = -math.inf
        for m in range(n_regressions):
            high = max(high, log_score[k, m])
        total = 0.0
        for m in range(n_regressions):
            total += math.exp(log_score[k, m] - high)
        log_weight[k, 0] = high + math.log(0.5 * total / n_regressions)
        high = log_weight[k, 0]
        for m in range(n_densities):
            log_weight[k, 1 + m] = log_prior + log_score[k, n_regressions + m]
            high = max(high, log_weight[k, 1 + m])
        total = 0.0
        for m in range(1 + n_densities):
            total += math.exp(log_weight[k, m] - high)
        log_phi[k] = high + math.log(total)
        for m in range(1 + n_densities):
            log_weight[k, m] -= log_phi[k]


@kernel
def stop_weights(
    left: Ints, log_phi: Floats, w: float, log_stop: Floats, log_go: Floats, log_split: Floats | None = None
) -> float:
    """Z_M = w phi_M + (1 - w) B_M Z_left Z_right: writes the log probabilities to stop and to go on; log Z of the root.

    log_split (N,): log B_M, the evidence of the numbers of rows on either side where rows have to choose one.
    """
    N = len(left)
    log_z = np.empty(N)
    log_w, log_1mw = math.log(w), math.log1p(-w)
    for k in range(N - 1, -1, -1):
        if left[k] < 0:
            log_z[k], log_stop[k], log_go[k] = log_phi[k], 0.0, -math.inf
            continue
        stop, go = log_w + log_phi[k], log_1mw + log_z[left[k]] + log_z[left[k] + 1]
        if log_split is not None:
            go += log_split[k]
        log_z[k] = log_add(stop, go)
        log_stop[k], log_go[k] = stop - log_z[k], go - log_z[k]
    return log_z[0]


@kernel
def walk_weights(parent: Ints, log_weight: Floats, log_stop: Floats, log_go: Floats, weight: Floats) -> None:
    """Write the posterior probabilities (S, N, M) that the walk stops in a context and takes a local model, given that
    x lies in it; log_stop, log_go (S, N): the posteriors of the walk under S priors.
    """
    S, N, M = weight.shape
    log_reach = np.zeros(N)
    for s in range(S):
        for k in range(N):
            if k > 0:
                log_reach[k] = log_reach[parent[k]] + log_go[s, parent[k]]
            for m in range(M):
                weight[s, k, m] = math.exp(log_reach[k] + log_stop[s, k] + log_weight[k, m])
