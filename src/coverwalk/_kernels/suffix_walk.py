"""Both walks on the contexts of a sequence: what they predict, and how they learn. See docs/sequences.md.

Every context M on the path of a symbol s predicts, from its own counts and from psi of the next coarser context P,

    phi_M(s) = own_M(s) + b_M psi_P(s)
    psi_M(s) = w_M phi_M(s) + (1 - w_M) psi_P(s)                        coarsening walk, root: w = 1
    psi_M(s) = w_M phi_M(s) + (1 - w_M) psi_child(s), b_M = 0           refining walk, finest: w = 1

The coefficients of own_M, b_M and w_M do not depend on s: ``weigh`` computes them once for a path, and learning,
reading and whole distributions share them.
"""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.suffix_tree import (
    ALPHABET,
    BEGIN,
    ENTRIES,
    FRESH,
    FULL,
    HEAD,
    HISTORY,
    KINDS,
    LAST,
    NEXT,
    PATH,
    START,
    STOP,
    SUCCESSOR,
    SYMBOL,
    C,
    N,
    SuffixTree,
    T,
    add_entry,
    advance,
    find_entry,
    has_room,
    materialise,
)

__all__ = ["COARSEN_DIRICHLET", "COARSEN_MIXED", "REFINE", "distribution", "follow", "learn", "prime", "weigh"]

COARSEN_MIXED, COARSEN_DIRICHLET, REFINE = 0, 1, 2

# places of settings
DEPTH, EAGER, BUDGET, MODE, SHARE, ALPHA, GROWING, PRIOR, RATE = 0, 1, 2, 3, 4, 5, 6, 7, 8

# the tied prior log-odds: stopping, discount, full counts against tables, repeating the newest symbol
P_STOP, P_DISCOUNT, P_FULL, P_REPEAT = 0, 1, 2, 3
LIMIT = 6.0  # of a sum of tied log-odds: no kind of context is ever taken for certain
FLOOR = 2.0**-40  # the weight of the uniform distribution beside the mixed walk: no symbol is ever impossible

# columns of level
G_PY, D, G_FULL, REPEAT, BACK, FLAT, W, R, ROW, COLUMN, SEEN = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
LEVEL_COLUMNS = 11


@kernel
def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


@kernel
def _shared(log_odds: float, share: float) -> float:
    """Fixed share: the odds after both sides handed ``share`` of their probability to the other."""
    if share <= 0.0:
        return log_odds
    odds = math.exp(log_odds)
    return math.log(((1.0 - share) * odds + share) / (share * odds + 1.0 - share))


@kernel
def _count_row(count: float) -> int:
    """Counts by powers of two: 0 to 1.5, to 3, to 6, ..."""
    row = 0
    while count > 1.5 and row < 12:
        count *= 0.5
        row += 1
    return row


@kernel
def _kinds_column(kinds: int) -> int:
    """Numbers of distinct symbols: 0, 1, 2, 3-4, 5-8, 9-16, 17-64, more."""
    if kinds <= 2:
        return kinds
    if kinds <= 4:
        return 3
    if kinds <= 8:
        return 4
    if kinds <= 16:
        return 5
    return 6 if kinds <= 64 else 7


@kernel
def _tied(tree: SuffixTree, parameter: int, order: int, away: int, row: int, column: int) -> float:
    """The prior log-odds of a context: the sum of three that it shares with others of its kind."""
    x = tree.tied[parameter, 0, order, 0] + tree.tied[parameter, 1, row, column] + tree.tied[parameter, 2, away, column]
    return max(-LIMIT, min(LIMIT, x))


@kernel
def _nudge(tree: SuffixTree, parameter: int, order: int, away: int, row: int, column: int, slope: float) -> None:
    """One step up the slope of log psi."""
    step = tree.settings[RATE + parameter] * slope
    tree.tied[parameter, 0, order, 0] += step
    tree.tied[parameter, 1, row, column] += step
    tree.tied[parameter, 2, away, column] += step


@kernel
def alphabet_size(tree: SuffixTree) -> float:
    """Symbols that may come next: those known, and one never seen where the alphabet may grow."""
    return tree.size[ALPHABET] + tree.settings[GROWING]


@kernel
def prior_log_odds(tree: SuffixTree, order: int) -> float:
    """Of stopping at this order where priors are not learnt: log w/(1-w), w as set or 2^-order."""
    w = tree.settings[PRIOR]
    if w <= 0.0:
        w = 0.5**order
    return math.log(w) - math.log1p(-w)


@kernel
def _weigh_mixed(tree: SuffixTree, level: NDArray[np.float64], order: int, away: int, kinds: int) -> None:
    """Three local models in one context, chosen by v: tables (Pitman-Yor), full counts (Dirichlet), the newest again.

    On entry level[order, 0..4] are C, T, N and the log evidences for stopping and for full counts.
    """
    c_all, t_all, n_all = level[order, 0], level[order, 1], level[order, 2]
    log_stop, log_full = level[order, 3], level[order, 4]
    if c_all <= 0.0:  # nothing seen: it speaks as its parent does, whatever its weight
        level[order, G_PY], level[order, D], level[order, G_FULL], level[order, REPEAT] = 0.0, 0.0, 0.0, 0.0
        level[order, BACK], level[order, W], level[order, R], level[order, SEEN] = 1.0, 0.5, 0.0, 0.0
        if order == 0:
            level[order, W] = 1.0
        return
    row, column = _count_row(c_all), _kinds_column(kinds)
    alpha = tree.settings[ALPHA]
    d = _sigmoid(_tied(tree, P_DISCOUNT, order, away, row, column))
    r = _sigmoid(_tied(tree, P_FULL, order, away, row, column) + log_full)
    q = _sigmoid(_tied(tree, P_REPEAT, order, away, row, column))
    w = 1.0
    if order > 0:
        w = _sigmoid(_tied(tree, P_STOP, order, away, row, column) + log_stop)
    level[order, G_PY] = (1.0 - q) * (1.0 - r) / c_all
    level[order, D] = d
    level[order, G_FULL] = (1.0 - q) * r / (n_all + alpha)
    level[order, REPEAT] = q
    level[order, BACK] = (1.0 - q) * ((1.0 - r) * d * t_all / c_all + r * alpha / (n_all + alpha))
    level[order, W] = w
    level[order, R] = r
    level[order, ROW] = row
    level[order, COLUMN] = column
    level[order, SEEN] = 1.0


@kernel
def weigh(tree: SuffixTree, path: NDArray[np.int64], length: int, longest: int, level: NDArray[np.float64]) -> None:
    """The coefficients of every context on a path.

    longest                       the length the path would have had all its contexts been met before
    level (depth + 2, LEVEL_COLUMNS)  written: see the columns above
    """
    mode = np.int64(tree.settings[MODE])
    for order in range(length):
        code = path[order]
        level[order, FLAT] = 0.0
        kinds = 1
        if code >= 0:
            for column in range(5):
                level[order, column] = tree.node_value[code, column]
            kinds = tree.node_link[code, KINDS]
        else:
            seen = 0.0 if code == FRESH else 1.0
            for column in range(3):
                level[order, column] = seen
            level[order, 3] = level[order, 4] = 0.0
        if mode == COARSEN_MIXED:
            _weigh_mixed(tree, level, order, length - 1 - order, kinds)
            continue
        alpha = tree.settings[ALPHA]
        whole = level[order, N] + alpha * alphabet_size(tree)
        log_stop = level[order, STOP]
        surely = order == 0 if mode == COARSEN_DIRICHLET else order == longest - 1
        level[order, W] = 1.0 if surely else _sigmoid(prior_log_odds(tree, order) + log_stop)
        level[order, G_FULL] = 1.0 / whole
        level[order, FLAT] = alpha / whole
        level[order, G_PY], level[order, D], level[order, REPEAT], level[order, BACK] = 0.0, 0.0, 0.0, 0.0


@kernel
def _own(tree: SuffixTree, level: NDArray[np.float64], order: int, code: int, entry: int, symbol: int) -> float:
    """own_M(s): the part of phi that the context's own counts give."""
    own = level[order, FLAT]
    last = -1
    if code >= 0:
        last = tree.node_link[code, LAST]
        if entry >= 0:
            d = level[order, D]
            own += level[order, G_PY] * (tree.entry_value[entry, 0] - d * tree.entry_value[entry, 1])
            own += level[order, G_FULL] * tree.entry_value[entry, 2]
    elif code != FRESH:
        last = tree.history[-1 - code]
        if last == symbol:
            own += level[order, G_PY] * (1.0 - level[order, D]) + level[order, G_FULL]
    if last == symbol:
        own += level[order, REPEAT]
    return own


@kernel
def _ask(
    tree: SuffixTree,
    path: NDArray[np.int64],
    length: int,
    longest: int,
    level: NDArray[np.float64],
    symbol: int,
    entries: NDArray[np.int64],
    phi: NDArray[np.float64],
    psi: NDArray[np.float64],
) -> float:
    """The probability of one symbol; writes the entry, phi and psi of every order.

    psi (depth + 3,)   coarsening: psi[k + 1] is that of order k, psi[0] the uniform base; refining: psi[k] is that of order k
    """
    base = 1.0 / alphabet_size(tree)
    for order in range(length):
        entries[order] = find_entry(tree, path[order], symbol) if path[order] >= 0 else -1
    if tree.settings[MODE] == REFINE:
        below = base  # a finer context that was never met
        for order in range(length - 1, -1, -1):
            phi[order] = _own(tree, level, order, path[order], entries[order], symbol)
            w = level[order, W]
            psi[order] = w * phi[order] + (1.0 - w) * below
            below = psi[order]
        return below
    psi[0] = base
    for order in range(length):
        own = _own(tree, level, order, path[order], entries[order], symbol)
        phi[order] = own + level[order, BACK] * psi[order]
        w = level[order, W]
        psi[order + 1] = w * phi[order] + (1.0 - w) * psi[order]
    if tree.settings[MODE] == COARSEN_MIXED:
        return (1.0 - FLOOR) * psi[length] + FLOOR * base
    return psi[length]


@kernel
def _learn_mixed(
    tree: SuffixTree,
    level: NDArray[np.float64],
    entries: NDArray[np.int64],
    phi: NDArray[np.float64],
    psi: NDArray[np.float64],
) -> None:
    """Evidence and tied priors after a symbol, finest context first; the counts are still as they were.

    ``reach`` is d log psi / d psi_k: how much the prediction owes to this order. It carries the slopes
    down the path, and scales the evidence between the local models: where finer contexts spoke, it says nothing.
    """
    length = tree.size[PATH]
    share = tree.settings[SHARE]
    alpha = tree.settings[ALPHA]
    reach = 1.0 / psi[length]
    for order in range(length - 1, -1, -1):
        w = level[order, W]
        if level[order, SEEN] > 0.0:
            node = tree.path[order]
            d, r, q = level[order, D], level[order, R], level[order, REPEAT]
            row, column = np.int64(level[order, ROW]), np.int64(level[order, COLUMN])
            away = length - 1 - order
            below = psi[order]
            c_all, t_all, n_all = tree.node_value[node, C], tree.node_value[node, T], tree.node_value[node, N]
            entry = entries[order]
            c = t = n = 0.0
            if entry >= 0:
                c, t, n = tree.entry_value[entry, 0], tree.entry_value[entry, 1], tree.entry_value[entry, 2]
            tables = (c - d * t + d * t_all * below) / c_all
            full = (n + alpha * below) / (n_all + alpha)
            counted = (1.0 - r) * tables + r * full
            again = (phi[order] - (1.0 - q) * counted) / q
            if order > 0:
                _nudge(tree, P_STOP, order, away, row, column, reach * w * (1.0 - w) * (phi[order] - below))
                tree.node_value[node, STOP] = _shared(tree.node_value[node, STOP] + math.log(phi[order] / below), share)
            _nudge(tree, P_REPEAT, order, away, row, column, reach * w * q * (1.0 - q) * (again - counted))
            here = reach * w * (1.0 - q)
            _nudge(tree, P_FULL, order, away, row, column, here * r * (1.0 - r) * (full - tables))
            slope = (t_all * below - t) / c_all
            _nudge(tree, P_DISCOUNT, order, away, row, column, here * (1.0 - r) * slope * d * (1.0 - d))
            log_full = tree.node_value[node, FULL] + here * counted * math.log(full / tables)
            tree.node_value[node, FULL] = _shared(log_full, share)
        reach *= (1.0 - w) + w * level[order, BACK]


@kernel
def _learn_stops(
    tree: SuffixTree, level: NDArray[np.float64], phi: NDArray[np.float64], psi: NDArray[np.float64], longest: int
) -> None:
    """w_M' = w_M phi_M / psi_M as log evidence: the ratio of what stopping and going on predicted."""
    length = tree.size[PATH]
    share = tree.settings[SHARE]
    refining = tree.settings[MODE] == REFINE
    for order in range(length):
        if refining:
            if order == longest - 1:
                continue
            going_on = psi[order + 1] if order + 1 < length else 1.0 / alphabet_size(tree)
        else:
            if order == 0:
                continue
            going_on = psi[order]
        node = tree.path[order]
        tree.node_value[node, STOP] = _shared(tree.node_value[node, STOP] + math.log(phi[order] / going_on), share)


@kernel
def _count(
    tree: SuffixTree, level: NDArray[np.float64], entries: NDArray[np.int64], psi: NDArray[np.float64], symbol: int
) -> None:
    """Add the symbol to the counts of its path, finest first.

    Of a customer of weight kappa, the part that opened a new table goes on to the parent:
    f = d T psi_P / (d T psi_P + c - d t), or 1 where the symbol is new.
    """
    mixed = tree.settings[MODE] == COARSEN_MIXED
    kappa = 1.0
    for order in range(tree.size[PATH] - 1, -1, -1):
        node = tree.path[order]
        entry = entries[order]
        opened = 1.0
        if entry < 0:
            entry = add_entry(tree, node, symbol, -1 - (tree.size[HISTORY] + 1))
            entries[order] = entry
        elif mixed and tree.entry_value[entry, 0] > 0.0:
            d = level[order, D]
            new = d * tree.node_value[node, T] * psi[order]
            opened = new / (new + tree.entry_value[entry, 0] - d * tree.entry_value[entry, 1])
        if mixed:
            tree.entry_value[entry, 0] += kappa
            tree.entry_value[entry, 1] += kappa * opened
            tree.node_value[node, C] += kappa
            tree.node_value[node, T] += kappa * opened
            kappa *= opened
        tree.entry_value[entry, 2] += 1.0
        tree.node_value[node, N] += 1.0
        tree.node_link[node, LAST] = symbol


@kernel
def _step(tree: SuffixTree, symbol: int) -> None:
    """Put a symbol behind: into the history, and the path on to the contexts that come after it."""
    tree.history[tree.size[HISTORY]] = symbol
    tree.size[HISTORY] += 1
    if symbol == tree.size[ALPHABET]:
        tree.size[ALPHABET] += 1
    tree.size[PATH] = advance(tree, tree.path, tree.path_entry, tree.size[PATH], symbol, 1)


@kernel
def longest_path(tree: SuffixTree) -> int:
    """How many contexts the past of the next symbol has, met or not."""
    return min(tree.size[START] + tree.size[HISTORY] - tree.size[BEGIN], np.int64(tree.settings[DEPTH]) + 1)


@kernel
def observe(
    tree: SuffixTree,
    symbol: int,
    level: NDArray[np.float64],
    entries: NDArray[np.int64],
    phi: NDArray[np.float64],
    psi: NDArray[np.float64],
) -> float:
    """Learn one symbol; the probability that it had. ``has_room`` must hold."""
    materialise(tree)
    longest = longest_path(tree)
    length = tree.size[PATH]
    weigh(tree, tree.path, length, longest, level)
    probability = _ask(tree, tree.path, length, longest, level, symbol, entries, phi, psi)
    if tree.settings[MODE] == COARSEN_MIXED:
        _learn_mixed(tree, level, entries, phi, psi)
    else:
        _learn_stops(tree, level, phi, psi, longest)
    _count(tree, level, entries, psi, symbol)
    _step(tree, symbol)
    return probability


@kernel
def learn(tree: SuffixTree, symbols: NDArray[np.int32], start: int, losses: NDArray[np.float64]) -> int:
    """Learn symbols from ``start`` on; how far it got before the arrays were full.

    losses (n,)   written: -log p of each symbol, before it was learnt, in nats
    """
    depth = np.int64(tree.settings[DEPTH])
    level = np.empty((depth + 2, LEVEL_COLUMNS))
    entries = np.empty(depth + 2, np.int64)
    phi = np.empty(depth + 2)
    psi = np.empty(depth + 3)
    for i in range(start, len(symbols)):
        if not has_room(tree, depth):
            return i
        losses[i] = -math.log(observe(tree, symbols[i], level, entries, phi, psi))
    return len(symbols)


@kernel
def prime(tree: SuffixTree, symbols: NDArray[np.int32]) -> None:
    """Put symbols behind without learning them: their contexts are opened, with no counts. ``has_room`` for each."""
    eager = tree.settings[EAGER]
    tree.settings[EAGER] = 1.0
    for symbol in symbols:
        materialise(tree)
        for order in range(tree.size[PATH]):
            if find_entry(tree, tree.path[order], symbol) < 0:
                add_entry(tree, tree.path[order], symbol, -1 - (tree.size[HISTORY] + 1))
        _step(tree, symbol)
    materialise(tree)
    tree.settings[EAGER] = eager


@kernel
def follow(
    tree: SuffixTree,
    path: NDArray[np.int64],
    length: int,
    longest: int,
    symbols: NDArray[np.int32],
    losses: NDArray[np.float64],
) -> tuple[int, int]:
    """Read symbols without learning: moves ``path`` on in place; its new length and longest length.

    losses (n,)   written: -log p of each symbol in nats; empty to move only
    """
    depth = np.int64(tree.settings[DEPTH])
    level = np.empty((depth + 2, LEVEL_COLUMNS))
    entries = np.empty(depth + 2, np.int64)
    phi = np.empty(depth + 2)
    psi = np.empty(depth + 3)
    for i in range(len(symbols)):
        if len(losses) > 0:
            weigh(tree, path, length, longest, level)
            losses[i] = -math.log(_ask(tree, path, length, longest, level, symbols[i], entries, phi, psi))
        length = advance(tree, path, entries, length, symbols[i], 0)
        longest = min(longest + 1, depth + 1)
    return length, longest


@kernel
def distribution(
    tree: SuffixTree,
    path: NDArray[np.int64],
    length: int,
    longest: int,
    level: NDArray[np.float64],
    probability: NDArray[np.float64],
) -> None:
    """The probability of every symbol after a path; writes ``level`` and ``probability`` (alphabet size,).

    Each order adds its own part once, times the weight with which the finest psi reaches it.
    """
    weigh(tree, path, length, longest, level)
    mode = tree.settings[MODE]
    refining = mode == REFINE
    reach = 1.0 - FLOOR if mode == COARSEN_MIXED else 1.0
    flat = 1.0 - reach
    base = 1.0 / alphabet_size(tree)
    for symbol in range(len(probability)):
        probability[symbol] = 0.0
    for step in range(length):
        order = step if refining else length - 1 - step
        code = path[order]
        w = level[order, W]
        weight = reach * w
        flat += weight * level[order, FLAT] / base
        if code >= 0:
            d, g_py, g_full = level[order, D], level[order, G_PY], level[order, G_FULL]
            entry = tree.node_link[code, HEAD]
            while entry >= 0:
                own = g_py * (tree.entry_value[entry, 0] - d * tree.entry_value[entry, 1])
                own += g_full * tree.entry_value[entry, 2]
                probability[tree.entry_link[entry, SYMBOL]] += weight * own
                entry = tree.entry_link[entry, NEXT]
            if tree.node_link[code, LAST] >= 0:
                probability[tree.node_link[code, LAST]] += weight * level[order, REPEAT]
        elif code != FRESH:
            own = level[order, G_PY] * (1.0 - level[order, D]) + level[order, G_FULL] + level[order, REPEAT]
            probability[tree.history[-1 - code]] += weight * own
        reach *= (1.0 - w) + w * level[order, BACK]
    flat = (flat + reach) * base
    for symbol in range(len(probability)):
        probability[symbol] += flat
