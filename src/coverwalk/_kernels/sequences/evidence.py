"""The evidence of context tree weighting after each symbol, where symbols may come in any order."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.odds import log_add


@kernel
def evidences(contexts: Ints, entries: Ints, alpha: float, symbols: int, stop: float, out: Floats) -> None:
    """log Z of the first 1, 2, ... n symbols in the order in which they stand.

    contexts (n, d + 1)   of each symbol, order 0 to d, numbered; the empty one is 0
    entries (n, d + 1)    the symbol after each of these contexts, numbered likewise
    stop                  w
    out (n,)              written

        Z_M = w Z_KT(M) + (1 - w) prod_N Z_N            at depth d: Z_M = Z_KT(M)
    """
    depth = contexts.shape[1] - 1
    counts, nodes = np.zeros(entries.max() + 1), contexts.max() + 1
    seen, log_kt, below, log_z = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    log_w, log_1mw = math.log(stop), math.log1p(-stop)
    for t in range(len(contexts)):
        change = 0.0
        for k in range(depth, -1, -1):
            m, e = contexts[t, k], entries[t, k]
            log_kt[m] += math.log((counts[e] + alpha) / (seen[m] + alpha * symbols))
            seen[m] += 1.0
            counts[e] += 1.0
            now = log_kt[m]
            if k < depth:
                below[m] += change
                now = log_add(log_w + now, log_1mw + below[m])
            change = now - log_z[m]
            log_z[m] = now
        out[t] = log_z[0]
