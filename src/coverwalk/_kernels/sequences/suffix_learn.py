"""How both walks learn a symbol: evidence for stopping, tied priors, counts. See docs/sequences.md."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences import suffix_store as at
from coverwalk._kernels.sequences.suffix_store import SuffixStore
from coverwalk._kernels.sequences.suffix_tree import add_entry, advance, find_entries, has_capacity, materialise
from coverwalk._kernels.sequences.suffix_walk import Kind, alphabet_size, longest_path, newest_row, predict, weigh


@kernel
def _shared(log_odds: float, share: float) -> float:
    """Fixed share: the odds after both sides handed ``share`` of their probability to the other."""
    if share <= 0.0:
        return log_odds
    odds = math.exp(log_odds)
    return math.log(((1.0 - share) * odds + share) / (share * odds + 1.0 - share))


@kernel
def _nudge(tied: Floats, parameter: np.int64, kind: Kind, step: float) -> None:
    """One step up the slope of log psi."""
    order, away, row, column, newest = kind
    tied[parameter, 0, order, 0] += step
    tied[parameter, 1, row, column] += step
    tied[parameter, 2, away, column] += step
    tied[parameter, 3, newest, min(order, at.KINDS_COLUMNS - 1)] += step


@kernel
def _learn_mixed(tree: SuffixStore, level: Floats, entries: Ints, phi: Floats, psi: Floats) -> None:
    """Tied priors and local models after a symbol, finest context first; the counts are still as they were.

    ``reach`` is d log psi / d psi_k: how much the prediction owes to this order. It carries the slopes
    down the path, and scales the evidence between the local models: where finer contexts spoke, it says nothing.
    """
    length = tree.size[at.PATH]
    share, alpha, rates = tree.settings[at.SHARE], tree.settings[at.ALPHA], tree.settings[at.RATE :]
    path, node_value, entry_value, tied = tree.path, tree.node_value, tree.entry_value, tree.tied
    newest = newest_row(tree, path, length)
    reach = 1.0 / psi[length]
    for order in range(length - 1, -1, -1):
        w = level[order, at.W]
        if level[order, at.SEEN] > 0.0:
            node = path[order]
            d, r, q = level[order, at.D], level[order, at.R], level[order, at.REPEAT]
            row, column = np.int64(level[order, at.ROW]), np.int64(level[order, at.COLUMN])
            kind = (order, length - 1 - order, row, column, newest)
            below = psi[order]
            c_all, t_all, n_all = node_value[node, at.C], node_value[node, at.T], node_value[node, at.N]
            entry = entries[order]
            c = t = n = 0.0
            if entry >= 0:
                c, t, n = entry_value[entry, 0], entry_value[entry, 1], entry_value[entry, 2]
            tables = (c - d * t + d * t_all * below) / c_all
            full = (n + alpha * below) / (n_all + alpha)
            counted = (1.0 - r) * tables + r * full
            again = (phi[order] - (1.0 - q) * counted) / q
            if order > 0:
                _nudge(tied, at.P_STOP, kind, rates[at.P_STOP] * reach * w * (1.0 - w) * (phi[order] - below))
            _nudge(tied, at.P_REPEAT, kind, rates[at.P_REPEAT] * reach * w * q * (1.0 - q) * (again - counted))
            here = reach * w * (1.0 - q)
            _nudge(tied, at.P_FULL, kind, rates[at.P_FULL] * here * r * (1.0 - r) * (full - tables))
            slope = (t_all * below - t) / c_all
            _nudge(tied, at.P_DISCOUNT, kind, rates[at.P_DISCOUNT] * here * (1.0 - r) * slope * d * (1.0 - d))
            log_full = node_value[node, at.FULL] + here * counted * math.log(full / tables)
            node_value[node, at.FULL] = _shared(log_full, share)
        reach *= (1.0 - w) + w * level[order, at.BACK]


@kernel
def _learn_stops(tree: SuffixStore, phi: Floats, psi: Floats, longest: int) -> None:
    """w_M' = w_M phi_M / psi_M as log evidence: the ratio of what stopping and going on predicted."""
    length, path, node_value = tree.size[at.PATH], tree.path, tree.node_value
    share = tree.settings[at.SHARE]
    refining = tree.settings[at.MODE] == at.REFINE
    for order in range(length):
        if refining:
            if order == longest - 1:
                continue
            going_on = psi[order + 1] if order + 1 < length else 1.0 / alphabet_size(tree)
        else:
            if order == 0:
                continue
            going_on = psi[order]
        stop = node_value[path[order], at.STOP] + math.log(phi[order] / going_on)
        node_value[path[order], at.STOP] = _shared(stop, share)


@kernel
def _count(tree: SuffixStore, level: Floats, entries: Ints, psi: Floats, symbol: int) -> None:
    """Add the symbol to the counts of its path, finest first.

    Of a customer of weight kappa, the part that opened a new table goes on to the parent:
    f = d T psi_P / (d T psi_P + c - d t), or 1 where the symbol is new.
    """
    mixed = tree.settings[at.MODE] == at.COARSEN_MIXED
    path, node_value, node_link, entry_value = tree.path, tree.node_value, tree.node_link, tree.entry_value
    kappa = 1.0
    for order in range(tree.size[at.PATH] - 1, -1, -1):
        node = path[order]
        entry = entries[order]
        opened = 1.0
        if entry < 0:
            entry = add_entry(tree, node, symbol, -1 - (tree.size[at.HISTORY] + 1))
            entries[order] = entry
        elif mixed and entry_value[entry, 0] > 0.0:
            d = level[order, at.D]
            new = d * node_value[node, at.T] * psi[order]
            opened = new / (new + entry_value[entry, 0] - d * entry_value[entry, 1])
        if mixed:
            entry_value[entry, 0] += kappa
            entry_value[entry, 1] += kappa * opened
            node_value[node, at.C] += kappa
            node_value[node, at.T] += kappa * opened
            kappa *= opened
        entry_value[entry, 2] += 1.0
        node_value[node, at.N] += 1.0
        node_link[node, at.LAST] = symbol


@kernel
def _step(tree: SuffixStore, entries: Ints, symbol: int, keep: int) -> None:
    """Put a symbol behind: into the history, and the path on to the contexts that come after it."""
    tree.history[tree.size[at.HISTORY]] = symbol
    tree.size[at.HISTORY] += 1
    if symbol == tree.size[at.ALPHABET]:
        tree.size[at.ALPHABET] += 1
    tree.size[at.PATH] = advance(tree, tree.path, tree.path_entry, entries, tree.size[at.PATH], symbol, keep)


@kernel
def observe(tree: SuffixStore, symbol: int, level: Floats, entries: Ints, phi: Floats, psi: Floats) -> float:
    """Learn one symbol; the probability that it had. ``has_capacity`` must hold."""
    materialise(tree)
    longest = longest_path(tree)
    length = tree.size[at.PATH]
    find_entries(tree, tree.path, length, symbol, entries)
    weigh(tree, tree.path, length, longest, level)
    probability = predict(tree, tree.path, length, level, symbol, entries, phi, psi)
    _learn_stops(tree, phi, psi, longest)
    if tree.settings[at.MODE] == at.COARSEN_MIXED:
        _learn_mixed(tree, level, entries, phi, psi)
    _count(tree, level, entries, psi, symbol)
    _step(tree, entries, symbol, at.LEARN)
    return float(probability)


@kernel
def learn(tree: SuffixStore, symbols: Ints32, start: int, losses: Floats) -> int:
    """Learn symbols from ``start`` on; how far it got before the arrays were full.

    losses (n,)   written: -log p of each symbol, before it was learnt, in nats
    """
    length = len(tree.path)
    level, entries = np.empty((length, at.LEVEL_COLUMNS)), np.empty(length, np.int64)
    phi, psi = np.empty(length), np.empty(length + 1)
    for i in range(start, len(symbols)):
        if not has_capacity(tree):
            return i
        losses[i] = -math.log(observe(tree, np.int64(symbols[i]), level, entries, phi, psi))
    return len(symbols)


@kernel
def prime(tree: SuffixStore, symbol: int) -> None:
    """Append a symbol without learning it: its contexts are opened, with no counts. ``has_capacity`` must hold."""
    materialise(tree)
    entries = np.empty(len(tree.path), np.int64)
    find_entries(tree, tree.path, tree.size[at.PATH], symbol, entries)
    for order in range(tree.size[at.PATH]):
        if entries[order] < 0:
            entries[order] = add_entry(tree, tree.path[order], symbol, -1 - (tree.size[at.HISTORY] + 1))
    _step(tree, entries, symbol, at.OPEN)
    materialise(tree)
