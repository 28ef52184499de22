"""Both walks on the contexts of a sequence: what they predict. See docs/sequences.md.

Every context M on the path of a symbol s predicts, from its own counts and from psi of the next coarser context P,

    phi_M(s) = own_M(s) + b_M psi_P(s)
    psi_M(s) = w_M phi_M(s) + (1 - w_M) psi_P(s)                        coarsening walk, root: w = 1
    psi_M(s) = w_M phi_M(s) + (1 - w_M) psi_child(s), b_M = 0           refining walk, finest: w = 1

The coefficients of own_M, b_M and w_M do not depend on s: ``weigh`` computes them once for a path, and learning,
reading and whole distributions share them.
"""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences import suffix_store as at
from coverwalk._kernels.sequences.suffix_store import BORDER, FRESH, SuffixStore

LIMIT = 6.0  # of a sum of tied log-odds: no kind of context is ever taken for certain
FLOOR = 2.0**-40  # the weight of the uniform distribution beside the mixed walk: no symbol is ever impossible

# the kind of a context: its order, how far it is from the finest, its counts, its distinct symbols, its newest symbol
Kind = tuple[int, int, int, int, int]
COUNT_ROWS = 13
# the column of a number of distinct symbols: 0, 1, 2, 3-4, 5-8, 9-16, 17-64, more
_KINDS_COLUMN = np.searchsorted([0, 1, 2, 4, 8, 16, 64], np.arange(66))


@kernel
def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


@kernel
def _count_row(count: float) -> int:
    """Counts by powers of two: 0 to 1.5, to 3, to 6, ..."""
    row = 0
    while count > 1.5 and row < COUNT_ROWS - 1:
        count *= 0.5
        row += 1
    return row


@kernel
def _tied(tied: Floats, parameter: np.int64, kind: Kind) -> float:
    """The prior log-odds of a context: the sum of four that it shares with others of its kind."""
    order, away, row, column, newest = kind
    x = tied[parameter, 0, order, 0] + tied[parameter, 1, row, column] + tied[parameter, 2, away, column]
    x += tied[parameter, 3, newest, min(order, at.KINDS_COLUMNS - 1)]
    return float(max(-LIMIT, min(LIMIT, x)))


@kernel
def newest_row(tree: SuffixStore, path: Ints, length: int) -> int:
    """Contexts by their newest symbol, told from the context of order 1; 0 if that is the border or new."""
    if length < 2 or path[1] == FRESH:
        return 0
    code = path[1]
    newest = tree.node_link[code, at.LABEL] if code >= 0 else tree.history[-1 - code - 1]
    return 0 if newest == BORDER else 1 + int(newest) % (at.NEWEST_ROWS - 1)


@kernel
def alphabet_size(tree: SuffixStore) -> float:
    """Symbols that may come next: those known, and one never seen where the alphabet may grow."""
    return float(tree.size[at.ALPHABET] + tree.settings[at.GROWING])


@kernel
def prior_log_odds(tree: SuffixStore, order: int) -> float:
    """Of stopping at this order where priors are not learnt: log w/(1-w), w as set or 2^-order."""
    w = tree.settings[at.PRIOR]
    if w <= 0.0:
        w = 0.5**order
    return math.log(w) - math.log1p(-w)


@kernel
def _weigh_mixed(
    tied: Floats, alpha: float, level: Floats, order: int, away: int, kinds: int, newest: int, unknown: bool
) -> None:
    """Three local models in one context, chosen by v: tables (Pitman-Yor), full counts (Dirichlet), the newest again.

    ``unknown`` silences the tables. On entry level[order, 0..4] are C, T, N and the log evidences for stopping
    and for full counts.
    """
    c_all, t_all, n_all = level[order, 0], level[order, 1], level[order, 2]
    log_stop, log_full = level[order, 3], level[order, 4]
    if c_all <= 0.0:  # nothing seen: it predicts as its parent does, whatever its weight
        level[order, at.G_PY], level[order, at.D], level[order, at.G_FULL], level[order, at.REPEAT] = 0.0, 0.0, 0.0, 0.0
        level[order, at.BACK], level[order, at.W], level[order, at.R], level[order, at.SEEN] = 1.0, 0.5, 0.0, 0.0
        if order == 0:
            level[order, at.W] = 1.0
        return
    row, column = _count_row(c_all), _KINDS_COLUMN[min(kinds, 65)]
    kind = (order, away, row, column, newest)
    d = sigmoid(_tied(tied, at.P_DISCOUNT, kind))
    r = 1.0 if unknown else sigmoid(_tied(tied, at.P_FULL, kind) + log_full)
    q = sigmoid(_tied(tied, at.P_REPEAT, kind))
    w = 1.0
    if order > 0:
        w = sigmoid(_tied(tied, at.P_STOP, kind) + log_stop)
    level[order, at.G_PY] = (1.0 - q) * (1.0 - r) / c_all
    level[order, at.D] = d
    level[order, at.G_FULL] = (1.0 - q) * r / (n_all + alpha)
    level[order, at.REPEAT] = q
    level[order, at.BACK] = (1.0 - q) * ((1.0 - r) * d * t_all / c_all + r * alpha / (n_all + alpha))
    level[order, at.W] = w
    level[order, at.R] = r
    level[order, at.ROW] = row
    level[order, at.COLUMN] = column
    level[order, at.SEEN] = 1.0


@kernel
def weigh(tree: SuffixStore, path: Ints, length: int, longest: int, level: Floats) -> None:
    """The coefficients of every context on a path.

    longest                       the length the path would have had all its contexts been met before
    level (depth + 2, LEVEL_COLUMNS)  written: see the columns above
    """
    mode = np.int64(tree.settings[at.MODE])
    alpha, depth, size = tree.settings[at.ALPHA], len(path) - 2, alphabet_size(tree)
    node_value, node_link, tied = tree.node_value, tree.node_link, tree.tied
    newest = newest_row(tree, path, length)
    for order in range(length):
        code = path[order]
        level[order, at.FLAT] = 0.0
        kinds = np.int64(1)
        if code >= 0:
            for column in range(5):
                level[order, column] = node_value[code, column]
            kinds = np.int64(node_link[code, at.KINDS])
        else:
            seen = 0.0 if code == FRESH else 1.0
            for column in range(3):
                level[order, column] = seen
            level[order, 3] = level[order, 4] = 0.0
        if mode == at.COARSEN_MIXED:
            # No more of the past is known: the tables leave out what finer contexts explained, full counts do not.
            unknown = order == longest - 1 and order < depth and code >= 0
            if unknown and node_link[code, at.LABEL] == BORDER:  # it is known: the document begins here
                unknown = order == 0
            _weigh_mixed(tied, alpha, level, order, length - 1 - order, kinds, newest, unknown)
            continue
        whole = level[order, at.N] + alpha * size
        log_stop = level[order, at.STOP]
        surely = order == 0 if mode == at.COARSEN_DIRICHLET else order == longest - 1
        level[order, at.W] = 1.0 if surely else sigmoid(prior_log_odds(tree, order) + log_stop)
        level[order, at.G_FULL] = 1.0 / whole
        level[order, at.FLAT] = alpha / whole
        level[order, at.G_PY], level[order, at.D], level[order, at.REPEAT], level[order, at.BACK] = 0.0, 0.0, 0.0, 0.0


@kernel
def predict(
    tree: SuffixStore, path: Ints, length: int, level: Floats, symbol: int, entries: Ints, phi: Floats, psi: Floats
) -> float:
    """The probability of one symbol, whose entries on the path are given; writes phi and psi of every order.

    psi (depth + 3,)   coarsening: psi[k + 1] is that of order k and psi[0] the uniform base; refining: psi[k] is it
    """
    node_link, entry_value, history = tree.node_link, tree.entry_value, tree.history
    for order in range(length):  # phi holds own_M(s) first
        code, entry = path[order], entries[order]
        own = level[order, at.FLAT]
        last = -1
        if code >= 0:
            last = node_link[code, at.LAST]
            if entry >= 0:
                own += level[order, at.G_PY] * (entry_value[entry, 0] - level[order, at.D] * entry_value[entry, 1])
                own += level[order, at.G_FULL] * entry_value[entry, 2]
        elif code != FRESH:
            last = history[-1 - code]
            if last == symbol:
                own += level[order, at.G_PY] * (1.0 - level[order, at.D]) + level[order, at.G_FULL]
        if last == symbol:
            own += level[order, at.REPEAT]
        phi[order] = own
    base = 1.0 / alphabet_size(tree)
    mode = tree.settings[at.MODE]
    if mode == at.REFINE:
        below = base  # a finer context that was never met
        for order in range(length - 1, -1, -1):
            psi[order] = level[order, at.W] * phi[order] + (1.0 - level[order, at.W]) * below
            below = psi[order]
        return float(below)
    psi[0] = base
    for order in range(length):
        phi[order] += level[order, at.BACK] * psi[order]
        psi[order + 1] = level[order, at.W] * phi[order] + (1.0 - level[order, at.W]) * psi[order]
    if mode == at.COARSEN_MIXED:
        return float((1.0 - FLOOR) * psi[length] + FLOOR * base)
    return float(psi[length])


@kernel
def longest_path(tree: SuffixStore) -> int:
    """How many contexts the past of the next symbol has, met or not."""
    return min(int(tree.size[at.START] + tree.size[at.HISTORY] - tree.size[at.BEGIN]), len(tree.path) - 1)


@kernel
def distribution(tree: SuffixStore, path: Ints, length: int, longest: int, level: Floats, probability: Floats) -> None:
    """The probability of every symbol after a path; writes ``level`` and ``probability`` (alphabet size,).

    Each order adds its own part once, times the weight with which the finest psi reaches it.
    """
    weigh(tree, path, length, longest, level)
    node_link, entry_link, entry_value, history = tree.node_link, tree.entry_link, tree.entry_value, tree.history
    mode = tree.settings[at.MODE]
    refining = mode == at.REFINE
    reach = 1.0 - FLOOR if mode == at.COARSEN_MIXED else 1.0
    flat = 1.0 - reach
    base = 1.0 / alphabet_size(tree)
    for symbol in range(len(probability)):
        probability[symbol] = 0.0
    for step in range(length):
        order = step if refining else length - 1 - step
        code = path[order]
        w = level[order, at.W]
        weight = reach * w
        flat += weight * level[order, at.FLAT] / base
        if code >= 0:
            d, g_py, g_full = level[order, at.D], level[order, at.G_PY], level[order, at.G_FULL]
            entry = node_link[code, at.HEAD]
            while entry >= 0:
                own = g_py * (entry_value[entry, 0] - d * entry_value[entry, 1])
                own += g_full * entry_value[entry, 2]
                probability[entry_link[entry, at.SYMBOL]] += weight * own
                entry = entry_link[entry, at.NEXT]
            if node_link[code, at.LAST] >= 0:
                probability[node_link[code, at.LAST]] += weight * level[order, at.REPEAT]
        elif code != FRESH:
            own = level[order, at.G_PY] * (1.0 - level[order, at.D]) + level[order, at.G_FULL] + level[order, at.REPEAT]
            probability[history[-1 - code]] += weight * own
        reach *= (1.0 - w) + w * level[order, at.BACK]
    flat = (flat + reach) * base
    for symbol in range(len(probability)):
        probability[symbol] += flat
