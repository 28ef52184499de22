"""Reading along a path without learning: losses, how unusual symbols were, sequences drawn and their entropy."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences import suffix_store as at
from coverwalk._kernels.sequences.suffix_store import SuffixStore
from coverwalk._kernels.sequences.suffix_tree import advance, find_entries
from coverwalk._kernels.sequences.suffix_walk import alphabet_size, distribution, predict, weigh

MOVE, LOSSES, TAIL, DRAW = range(4)


@kernel
def _draw(probability: Floats, known: int, power: float, uniform: float) -> tuple[int, float]:
    """A known symbol drawn from probabilities raised to a power and normalised, and their entropy in nats."""
    total = 0.0
    for symbol in range(known):
        if power != 1.0:
            probability[symbol] = probability[symbol] ** power
        total += probability[symbol]
    entropy = 0.0
    left = uniform * total
    drawn = -1
    for symbol in range(known):
        p = probability[symbol] / total
        if p > 0.0:
            entropy -= p * math.log(p)
        left -= probability[symbol]
        if drawn < 0 and left < 0.0:
            drawn = symbol
    return (drawn if drawn >= 0 else known - 1), entropy  # rounding may take the last crumb


@kernel
def _tail_score(probability: Floats, symbol: int) -> float:
    """-log of the probability that a symbol no likelier than this one would have come."""
    seen = probability[symbol] * (1.0 + 1e-12)  # equal up to rounding counts as equal
    tail = 0.0
    for p in probability:
        if p <= seen:
            tail += p
    return -math.log(min(tail, 1.0))


@kernel
def judge(
    probability: Floats, known: int, what: int, i: int, symbols: Ints32, out: Floats, uniforms: Floats, power: float
) -> None:
    """What `read` does with the distribution of symbol i: the TAIL score of the symbol, or DRAW it."""
    if what == DRAW:
        symbols[i], out[i] = _draw(probability, known, power, uniforms[i])
    else:
        out[i] = _tail_score(probability, symbols[i])


@kernel
def read(
    tree: SuffixStore,
    path: Ints,
    lengths: Ints,
    what: int,
    symbols: Ints32,
    out: Floats,
    uniforms: Floats,
    power: float,
) -> None:
    """Go along symbols without learning; moves ``path`` on in place.

    lengths (2,)   of the path, and of what it would be had all its contexts been met before; written too
    what           MOVE on and no more; or write to out (n,), in nats, the LOSSES of the symbols, or the TAIL scores; or
                   DRAW them by uniforms (n,) in [0, 1), known ones alone, from probabilities raised to ``power``, and
                   write the entropy of what each was drawn from
    """
    length, longest = lengths
    room = len(path)
    level, entries, path_entry = np.empty((room, at.LEVEL_COLUMNS)), np.empty(room, np.int64), np.empty(room, np.int64)
    phi, psi = np.empty(room), np.empty(room + 1)
    probability = np.empty(np.int64(alphabet_size(tree)))
    for i in range(len(symbols)):
        if what >= TAIL:
            distribution(tree, path, length, longest, level, probability)
            judge(probability, tree.size[at.ALPHABET], what, i, symbols, out, uniforms, power)
        symbol = np.int64(symbols[i])
        find_entries(tree, path, length, symbol, entries)
        if what == LOSSES:
            weigh(tree, path, length, longest, level)
            out[i] = -math.log(predict(tree, path, length, level, symbol, entries, phi, psi))
        length = advance(tree, path, path_entry, entries, length, symbol, at.READ)
        longest = min(longest + 1, room - 1)
    lengths[0], lengths[1] = length, longest
