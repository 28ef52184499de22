"""The refining walk over trees of contexts for classes: predict rows, learn them one by one, or weigh the walk by them.

Local models of a context, in this order: class counts under a Dirichlet based on the parent's prediction; then
discriminants with shared and with own covariances, each at several temperatures (exponents of its odds).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import inlined_kernel, kernel
from coverwalk._kernels.forest.discriminant import Factors, Rows, log_scores
from coverwalk._kernels.forest.node import child_of
from coverwalk._kernels.odds import log_step

Walk = tuple[Floats, Floats]  # log v (N, J), log odds (N,): which local model predicts, and whether the walk stops

STRANGE = 1e-9  # share of rows that the parent's prediction leaves to all classes alike: no class is ever impossible
PREDICT, LEARN, WEIGH, LEAVE_OUT = 0, 1, 2, 3  # what `visit` does with rows


class FlatTrees(NamedTuple):
    """K trees with N contexts in all, of which root[t] is the first of tree t."""

    nodes: Any  # (N,) of `NODE`
    root: Ints  # (K,)
    counts: Floats  # (N, C) weight of the rows of each class
    shared: Ints  # (N,) the place of a context's discriminants with shared covariances, or -1
    own: Ints  # (N,) likewise of those with own ones
    shared_factors: Factors
    own_factors: Factors
    columns: Ints  # (K, p) that discriminants use
    log_v: Floats  # see `Walk`
    log_odds: Floats


@inlined_kernel
def predict_locally(
    k: int,
    t: int,
    X: Floats,
    i: int,
    trees: FlatTrees,
    setting: tuple[float, Floats],
    left_out: tuple[int, float],
    blend: Floats,
    depth: int,
    phi: Floats,
    z: Floats,
) -> None:
    """phi (J, C): the prediction for X[i] of each local model of context k, of tree t; blend[depth] (C,): its parent's.

    A discriminant's odds are raised to an exponent, and a share of strange rows follows the counts. left_out: a class
    and a weight by which less of it was counted.
    """
    counts, log_v = trees.counts, trees.log_v
    alpha, temperatures = setting
    C, T, p = counts.shape[1], len(temperatures), trees.columns.shape[1]
    total = -left_out[1]
    for c in range(C):
        total += counts[k, c]
    for c in range(C):
        n = counts[k, c] - (left_out[1] if c == left_out[0] else 0.0)
        phi[0, c] = (n + alpha * ((1.0 - STRANGE) * blend[depth, c] + STRANGE / C)) / (total + alpha)
    strange = 1.0 / (total + 1.0)
    for kind in range(2):
        g = trees.shared[k] if kind == 0 else trees.own[k]
        if g < 0:
            continue
        for a in range(p):
            at = X[i, trees.columns[t, a]]
            z[0, a] = at if at == at else 0.0  # missing: the column's mean
        log_scores(trees.shared_factors if kind == 0 else trees.own_factors, g, p, z)
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
def visit(
    rows: Rows,
    order: Ints,
    trees: FlatTrees,
    setting: tuple[float, Floats],
    levels: int,
    mode: int,
    evidence: Floats,
    psi: Floats,
) -> None:
    """Add to psi (len(order), C) the predictions of all trees for rows in order; levels: contexts on the longest path.

    LEARN: each row is then learned: eqs. 2 and 3 of docs/math.md change v and w, and the row is counted. A row of
    weight m counts as m rows that come at once: w' = w (phi/psi)^m, normalised. WEIGH: each row was counted, and is
    predicted without; log phi of its class is added to the evidence (N, J), and nothing else changes. LEAVE_OUT: the
    same without evidence. PREDICT: neither classes nor weights of the rows matter.
    """
    X, y, weight = rows
    nodes, counts, shared, own, log_v, log_odds = (
        trees.nodes, trees.counts, trees.shared, trees.own, trees.log_v, trees.log_odds
    )  # fmt: skip
    alpha = setting[0]
    J, C = log_v.shape[1], counts.shape[1]
    z, phi = np.empty((4, max(C, trees.columns.shape[1]))), np.empty((J, C))
    path, blend, log_phi, mixed = (
        np.zeros(levels, np.int64), np.empty((levels + 1, C)), np.empty((levels, J)), np.empty(C)
    )  # fmt: skip
    for c in range(C):
        blend[0, c] = 1.0 / C  # what the root has for a parent
    for t in range(len(trees.root)):
        path[0] = trees.root[t]
        for r in range(len(order)):
            i = order[r]
            depth = 0
            left_out = (y[i], weight[i] if mode >= WEIGH else 0.0)
            while True:
                k = path[depth]
                if mode == PREDICT and shared[k] < 0 and own[k] < 0 and log_v[k, 0] == 0.0:
                    # Counts alone, as in most contexts: both calls below without the time that their arguments take.
                    total = alpha
                    for c in range(C):
                        total += counts[k, c]
                    for c in range(C):
                        prior = (1.0 - STRANGE) * blend[depth, c] + STRANGE / C
                        blend[depth + 1, c] = (counts[k, c] + alpha * prior) / total
                else:
                    predict_locally(k, t, X, i, trees, setting, left_out, blend, depth, phi, z)
                    for c in range(C):
                        blend[depth + 1, c] = 0.0
                    for j in range(J):  # phi_M = sum_j v_j phi_j
                        if log_v[k, j] > -math.inf:
                            v = math.exp(log_v[k, j])
                            for c in range(C):
                                blend[depth + 1, c] += v * phi[j, c]
                if mode != PREDICT:
                    for j in range(J):
                        log_phi[depth, j] = math.log(phi[j, y[i]]) if log_v[k, j] > -math.inf else 0.0
                        if mode == WEIGH:
                            evidence[k, j] += weight[i] * log_phi[depth, j]
                depth += 1
                if nodes[k].left < 0:
                    break
                path[depth] = child_of(nodes, k, X[i])
            for c in range(C):
                mixed[c] = 0.0
            log_onward = 0.0
            for d in range(depth - 1, -1, -1):
                k = path[d]
                g = math.exp(-abs(log_odds[k]))  # each weight from the odds: 1 - w would lose a small one
                w, go = (1.0 / (1.0 + g), g / (1.0 + g)) if log_odds[k] > 0.0 else (g / (1.0 + g), 1.0 / (1.0 + g))
                for c in range(C):
                    mixed[c] = w * blend[d + 1, c] + go * mixed[c]
                if mode == LEARN:
                    counts[k, y[i]] += weight[i]
                    for j in range(J):
                        if log_v[k, j] > -math.inf:
                            log_v[k, j] += weight[i] * log_phi[d, j]
                    _normalise(log_v[k])
                    if log_odds[k] < math.inf:  # in a leaf it always stops
                        log_odds[k] += weight[i] * log_step(log_onward, math.log(blend[d + 1, y[i]]))
                    log_onward = math.log(mixed[y[i]])
            for c in range(C):
                psi[r, c] += mixed[c]
