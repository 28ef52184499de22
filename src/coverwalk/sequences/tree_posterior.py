"""The posterior over context trees beyond its modes: trees drawn from it, and the order of the source."""

from collections.abc import Hashable

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.sequences.context_tree import BORDER_SIGN, ContextNode, ContextTree, StopWeights


def sample_tree(weights: StopWeights, symbols: list[Hashable], rng: np.random.Generator) -> ContextTree:
    """A tree drawn from the posterior: each context that the walk reaches stops with its own probability.

    Contexts that were never met are not drawn, and the posterior of the tree is that of its contexts that were.
    """
    stops = np.log(rng.random(len(weights.parent))) < weights.log_stop
    nodes: list[ContextNode | None] = [None] * len(stops)
    nodes[0] = root = ContextNode((), int(weights.visits[0]))
    log_p = float(weights.log_stop[0] if stops[0] else weights.log_go[0])
    for i in range(1, len(stops)):
        above = nodes[weights.parent[i]]
        if above is None or stops[weights.parent[i]]:
            continue
        code = int(weights.label[i])
        symbol = symbols[code] if code >= 0 else BORDER_SIGN
        below = ContextNode((symbol, *above.context), int(weights.visits[i]))
        nodes[i] = above.children[symbol] = below
        log_p += float(weights.log_stop[i] if stops[i] else weights.log_go[i])
    return ContextTree(root, log_p)


def order_posterior(weights: StopWeights) -> Floats:
    """P(the longest context of the tree, among those that were met, has length k), k = 0 .. depth.

    Below M all contexts are at most m long with probability f_M(m) = w_M + (1 - w_M) prod_N f_N(m); f_M = w_M at m.
    """
    n, depth = len(weights.parent), len(weights.prior_log_stop) - 1
    below = np.zeros((n, depth + 1))  # sums of log f over the children
    log_f = np.zeros(depth + 1)
    for i in range(n - 1, -1, -1):
        k = weights.order[i]
        log_f = np.full(depth + 1, -np.inf)
        log_f[k] = weights.log_stop[i]
        log_f[k + 1 :] = np.logaddexp(weights.log_stop[i], weights.log_go[i] + below[i, k + 1 :])
        if i:
            below[weights.parent[i]] += log_f
    return np.diff(np.exp(log_f), prepend=0.0)
