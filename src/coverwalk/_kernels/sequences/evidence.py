"""The evidence of context tree weighting after each symbol, where symbols may come in any order."""

import math

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.odds import log_add


@kernel
def evidences(
    contexts: Ints,
    entries: Ints,
    alpha: float,
    symbols: int,
    stop: float,
    counts: Floats,
    log_kt: Floats,
    below: Floats,
    log_z: Floats,
    out: Floats,
) -> None:
    """log Z of the first 1, 2, ... n symbols in the order in which they stand.

    contexts (n, d + 1)   of each symbol, order 0 to d, numbered; the empty one is 0
    entries (n, d + 1)    the symbol after each of these contexts, numbered likewise
    stop                  w
    counts (entries,), log_kt, below, log_z (contexts, 2)   zeros, to work in; the second column of log_kt is n
    out (n,)              written

        Z_M = w Z_KT(M) + (1 - w) prod_N Z_N            at depth d: Z_M = Z_KT(M)
    """
    depth = contexts.shape[1] - 1
    log_w, log_1mw = math.log(stop), math.log1p(-stop)
    for t in range(len(contexts)):
        change = 0.0
        for k in range(depth, -1, -1):
            m, e = contexts[t, k], entries[t, k]
            log_kt[m, 0] += math.log((counts[e] + alpha) / (log_kt[m, 1] + alpha * symbols))
            log_kt[m, 1] += 1.0
            counts[e] += 1.0
            now = log_kt[m, 0]
            if k < depth:
                below[m] += change
                now = log_add(log_w + now, log_1mw + below[m])
            change = now - log_z[m]
            log_z[m] = now
        out[t] = log_z[0]
