"""The refining walk over one tree of contexts for classes: predict, or learn row by row.

Local models of a context, in this order: class counts under a Dirichlet based on the parent's prediction; then
discriminants with shared and with own covariances, each at several temperatures (powers of its odds).
"""

import math
from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import inlined_kernel, kernel
from coverwalk._kernels.forest.discriminant import Factors, log_scores
from coverwalk._kernels.forest.node import child_of
from coverwalk._kernels.odds import log_step

Rows = tuple[Floats, Ints, Floats]  # X (n, p), class of each row (n,), weight of each row (n,)

STRANGE = 1e-9  # share of rows that the parent's prediction leaves to all classes alike: no class is ever impossible
# counts (N, C), shared (N,) and own (N,) the place of a context's factors or -1, factors of both, columns (p,) they use
Local = tuple[Floats, Ints, Ints, Factors, Factors, Ints]
# log v (N, J), log odds (N,): which local model predicts, and whether the walk stops
Walk = tuple[Floats, Floats]


@inlined_kernel
def predict_locally(
    k: int,
    X: Floats,
    i: int,
    local: Local,
    log_v: Floats,
    setting: tuple[float, Floats],
    blend: Floats,
    depth: int,
    phi: Floats,
    z: Floats,
) -> None:
    """phi (J, C): what each local model of context k says about X[i]; blend[depth] (C,) is what its parent said.

    A discriminant's odds are raised to a power, and a share of strange rows follows the counts.
    """
    counts, shared, own, shared_factors, own_factors, columns = local
    alpha, temperatures = setting
    C, T, p = counts.shape[1], len(temperatures), len(columns)
    total = 0.0
    for c in range(C):
        total += counts[k, c]
    for c in range(C):
        phi[0, c] = (counts[k, c] + alpha * ((1.0 - STRANGE) * blend[depth, c] + STRANGE / C)) / (total + alpha)
    strange = 1.0 / (total + 1.0)
    for kind in range(2):
        g = shared[k] if kind == 0 else own[k]
        if g < 0:
            continue
        for a in range(p):
            at = X[i, columns[a]]
            z[0, a] = at if at == at else 0.0  # missing: the column's mean
        log_scores(shared_factors if kind == 0 else own_factors, g, p, z)
        top = -math.inf
        for c in range(C):
            top = max(top, z[2, c])
        for j in range(1 + kind * T, 1 + (kind + 1) * T):
            if log_v[k, j] > -math.inf:
                temperature, sum_ = temperatures[j - 1 - kind * T], 0.0
                for c in range(C):
                    phi[j, c] = math.exp(temperature * (z[2, c] - top))
                    sum_ += phi[j, c]
                for c in range(C):
                    phi[j, c] = (1.0 - strange) * phi[j, c] / sum_ + strange * phi[0, c]


@kernel
def _normalise(log_weight: Floats) -> None:
    top, total = -math.inf, 0.0
    for j in range(len(log_weight)):
        top = max(top, log_weight[j])
    for j in range(len(log_weight)):
        total += math.exp(log_weight[j] - top)
    for j in range(len(log_weight)):
        log_weight[j] -= top + math.log(total)


@kernel
def _learn(
    k: int, label: int, m: float, log_phi: Floats, log_stop: float, log_onward: float, counts: Floats, walk: Walk
) -> None:
    """Change v, w and the counts of context k for m rows of a class: eqs. 2 and 3 of docs/math.md.

    log_phi (J,) of each local model; log_stop, log_onward: of phi, and of psi further down (0.0 in a leaf).
    """
    log_v, log_odds = walk
    counts[k, label] += m
    for j in range(len(log_phi)):
        if log_v[k, j] > -math.inf:
            log_v[k, j] += m * log_phi[j]
    _normalise(log_v[k])
    if log_odds[k] < math.inf:  # in a leaf it always stops
        log_odds[k] += m * log_step(log_onward, log_stop)


@kernel
def visit(
    rows: Rows,
    order: Ints,
    nodes: Any,
    local: Local,
    walk: Walk,
    setting: tuple[float, Floats],
    levels: int,
    learn: bool,
    psi: Floats,
) -> None:
    """Rows in order, each predicted, into psi (len(order), C), and then learned where that is wanted.

    Levels: contexts on the longest path. A row of weight m counts as m rows that come at once: w' = w (phi/psi)^m,
    normalised. Where nothing is learned, neither classes nor weights of the rows matter, and nothing changes but psi.
    """
    X, y, weight = rows
    counts, shared, own = local[0], local[1], local[2]
    log_v, log_odds = walk
    alpha = setting[0]
    J, C = log_v.shape[1], counts.shape[1]
    z, phi = np.empty((4, max(C, len(local[5])))), np.empty((J, C))
    path, blend, log_phi = np.zeros(levels, np.int64), np.empty((levels + 1, C)), np.empty((levels, J))
    for c in range(C):
        blend[0, c] = 1.0 / C  # what the root has for a parent
    for r in range(len(order)):
        i = order[r]
        depth = 0
        while True:
            k = path[depth]
            if shared[k] < 0 and own[k] < 0 and not learn and log_v[k, 0] == 0.0:
                # Counts alone, as in most contexts: both calls below without the time that their arguments take.
                total = alpha
                for c in range(C):
                    total += counts[k, c]
                for c in range(C):
                    prior = (1.0 - STRANGE) * blend[depth, c] + STRANGE / C
                    blend[depth + 1, c] = (counts[k, c] + alpha * prior) / total
            else:
                predict_locally(k, X, i, local, log_v, setting, blend, depth, phi, z)
                for c in range(C):
                    blend[depth + 1, c] = 0.0
                for j in range(J):  # phi_M = sum_j v_j phi_j
                    if log_v[k, j] > -math.inf:
                        v = math.exp(log_v[k, j])
                        for c in range(C):
                            blend[depth + 1, c] += v * phi[j, c]
            if learn:
                for j in range(J):
                    log_phi[depth, j] = math.log(phi[j, y[i]]) if log_v[k, j] > -math.inf else 0.0
            depth += 1
            if nodes[k].left < 0:
                break
            path[depth] = child_of(nodes, k, X[i])
        for c in range(C):
            psi[r, c] = 0.0
        log_onward = 0.0
        for d in range(depth - 1, -1, -1):
            k = path[d]
            g = math.exp(-abs(log_odds[k]))  # each weight from the odds: 1 - w would lose a small one
            w, go = (1.0 / (1.0 + g), g / (1.0 + g)) if log_odds[k] > 0.0 else (g / (1.0 + g), 1.0 / (1.0 + g))
            for c in range(C):
                psi[r, c] = w * blend[d + 1, c] + go * psi[r, c]
            if learn:
                log_psi = math.log(psi[r, y[i]])
                _learn(k, y[i], weight[i], log_phi[d], math.log(blend[d + 1, y[i]]), log_onward, counts, walk)
                log_onward = log_psi
