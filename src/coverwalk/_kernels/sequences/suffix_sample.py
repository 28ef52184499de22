"""Whole distributions along a path: sequences drawn from a model, its entropy, and how unusual a symbol was."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences.suffix_store import ALPHABET, SuffixStore
from coverwalk._kernels.sequences.suffix_tree import advance, find_entries
from coverwalk._kernels.sequences.suffix_walk import DEPTH, LEVEL_COLUMNS, alphabet_size, distribution

__all__ = ["draw", "tail_scores"]


@kernel
def draw(
    tree: SuffixStore, path: Ints, lengths: Ints, power: float, uniforms: Floats, symbols: Ints32, entropies: Floats
) -> None:
    """Draw one symbol after the other without learning; moves ``path`` and its lengths on.

    power                     probabilities are raised to it, then normalised
    uniforms (n,)             numbers in [0, 1), one a symbol
    symbols, entropies (n,)   written: what was drawn, and the entropy in nats of what it was drawn from

    Only known symbols are drawn: where the alphabet may grow, the rest is renormalised.
    """
    length, longest = lengths
    depth = int(tree.settings[DEPTH])
    level = np.empty((depth + 2, LEVEL_COLUMNS))
    entries = np.empty(depth + 2, np.int64)
    path_entry = np.empty(depth + 2, np.int64)
    probability = np.empty(np.int64(alphabet_size(tree)))
    known = tree.size[ALPHABET]
    for i in range(len(uniforms)):
        distribution(tree, path, length, longest, level, probability)
        total = 0.0
        for symbol in range(known):
            if power != 1.0:
                probability[symbol] = probability[symbol] ** power
            total += probability[symbol]
        entropy = 0.0
        left = uniforms[i] * total
        drawn = -1
        for symbol in range(known):
            p = probability[symbol] / total
            if p > 0.0:
                entropy -= p * math.log(p)
            left -= probability[symbol]
            if drawn < 0 and left < 0.0:
                drawn = symbol
        if drawn < 0:  # rounding took the last crumb
            drawn = known - 1
        symbols[i] = drawn
        entropies[i] = entropy
        find_entries(tree, path, length, drawn, entries)
        length = advance(tree, path, path_entry, entries, length, drawn, 0)
        longest = min(longest + 1, depth + 1)
    lengths[0], lengths[1] = length, longest


@kernel
def tail_scores(tree: SuffixStore, path: Ints, lengths: Ints, symbols: Ints32, scores: Floats) -> None:
    """-log of the probability that a symbol no likelier than the one seen would have come; reads only.

    scores (n,)   written, in nats
    """
    length, longest = lengths
    depth = int(tree.settings[DEPTH])
    level = np.empty((depth + 2, LEVEL_COLUMNS))
    entries = np.empty(depth + 2, np.int64)
    path_entry = np.empty(depth + 2, np.int64)
    probability = np.empty(np.int64(alphabet_size(tree)))
    for i in range(len(symbols)):
        distribution(tree, path, length, longest, level, probability)
        symbol = np.int64(symbols[i])
        seen = probability[symbol] * (1.0 + 1e-12)  # equal up to rounding counts as equal
        tail = 0.0
        for p in probability:
            if p <= seen:
                tail += p
        scores[i] = -math.log(min(tail, 1.0))
        find_entries(tree, path, length, symbol, entries)
        length = advance(tree, path, path_entry, entries, length, symbol, 0)
        longest = min(longest + 1, depth + 1)
