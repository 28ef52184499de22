"""How a lattice reads and learns symbols; coding and decoding them are the same loop, on the same numbers.

And the whole distribution of the next symbol.
"""

import math

import numpy as np

from coverwalk._arrays import Bytes, Floats, Ints, Ints32, UInts
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences import store as at
from coverwalk._kernels.sequences.binary_coder import code_bit
from coverwalk._kernels.sequences.covers import PERIOD_EVERY, advance_past, find_period
from coverwalk._kernels.sequences.lattice import learn_bit, new_scratch, open_slots, open_symbol, predict_bit
from coverwalk._kernels.sequences.logistic import HISTORY_HALF
from coverwalk._kernels.sequences.store import LatticeStore

READ, LEARN, ENCODE, DECODE = range(4)
_FIRST_RATE, _RATE, _SOON = 96, 24, 4000  # of the mixer, out of 2^14: at first, in the end, and how soon
_USED_EVERY = 15  # one symbol in 16 is looked at to see which covers are of use


@kernel
def run(
    store: LatticeStore,
    past: UInts,
    ring: Bytes,
    place: Ints,
    symbols: Ints32,
    extra: UInts,
    losses: Floats,
    mode: int,
    coder: UInts,
    data: Bytes,
) -> None:
    """Go along symbols: read them, learn them, code them on the way, or find out what they are by decoding.

    past (3,), ring (2^k,), place (2,)   the store's own past, history, and POSITION and DOCUMENT; of a reader, others.
                     They move on
    symbols (n,)     read, or written when decoding
    extra (n, m)     contexts of the m covers of the user's own, as hashes
    losses (n,)      written: -log p of each symbol before it was learned, in nats; empty to move a reader only
    coder, data      the state of a binary coder and its bytes: see binary_coder
    """
    matches, counters, use = store.matches, store.counters, store.use
    scratch = new_scratch(store)
    x, numbers, found = scratch.x, scratch.numbers, scratch.found
    learning, mask = mode != READ, len(ring) - 1
    for i in range(len(symbols)):
        position, known = place[at.POSITION], place[at.DOCUMENT]
        symbol = np.int64(symbols[i])
        if len(losses) > 0:
            open_symbol(store, scratch, past, ring, position, known, extra[i])
            rate = _RATE + _FIRST_RATE * _SOON // (position + _SOON)
            node = np.int64(1)
            cost = 0.0
            for bit in range(8):
                if bit & 3 == 0:
                    open_slots(store, scratch, node, learning)
                p = predict_bit(store, scratch, node, bit, past[at.LAST8])
                y = (symbol >> (7 - bit)) & 1 if mode != DECODE else -1
                if mode >= ENCODE:
                    y = code_bit(coder, data, p, y)
                cost -= math.log((p if y == 1 else 65536 - p) / 65536.0)
                if learning:
                    if position & _USED_EVERY == 0:
                        _note_use(use, store.weights, x, np.int64(numbers[4]) * len(x))
                    learn_bit(store, scratch, node, bit, y, rate)
                node = 2 * node + y
            symbol = node & 255
            losses[i] = cost
        ring[position & mask] = symbol
        advance_past(past, symbol)
        place[at.POSITION], place[at.DOCUMENT] = position + 1, known + 1
        if not learning:
            continue
        symbols[i] = symbol
        for which in range(2):
            if found[2 + which] >= 0:
                matches[which, found[2 + which]] = np.int32((position & mask) + 1)
        if known & (PERIOD_EVERY - 1) == PERIOD_EVERY - 1 and known > PERIOD_EVERY:
            seen = min(known + 1, len(ring))
            counters[at.PERIOD] = find_period(store.differences, ring, position + 1, seen, counters[at.PERIOD])
        if counters[at.DECAY] > 0:
            _decay(store.slots, store.zero, position, counters[at.DECAY] * at.DECAY_UNIT)


@kernel
def _decay(slots: Bytes, zero: Bytes, position: int, halvings: float) -> None:
    """Halve the counts of the buckets whose turn it is: each has it ``halvings`` times per symbol, one after the other.

    What is halved says less against what is new; maps and weights go on as they are.
    """
    buckets = len(slots) // at.BUCKET - 1
    for turn in range(int(position * halvings * buckets), int((position + 1) * halvings * buckets)):
        bucket = at.BUCKET * (turn % buckets)
        for slot in range(bucket, bucket + at.BUCKET, 16):
            if slots[slot + 1] > 0:
                for place in range(slot + 1, slot + 16):
                    slots[place] = HISTORY_HALF[slots[place]]
    if int((position + 1) * halvings) > int(position * halvings):
        for node in range(256):
            zero[node] = HISTORY_HALF[zero[node]]


@kernel
def _note_use(use: Floats, weights: Ints32, x: Ints32, begin: int) -> None:
    """Add each input's part of the log-odds; order zero and the match come last."""
    for c in range(len(use)):
        part = np.int64(weights[begin + 2 * c]) * x[2 * c] + np.int64(weights[begin + 2 * c + 1]) * x[2 * c + 1]
        use[c, 0] += abs(part) / 2.0**33


@kernel
def spread(store: LatticeStore, past: UInts, ring: Bytes, known: int, extra: UInts, probability: Floats) -> None:
    """The probability of each of the 256 symbols to come next: two bits' worth of a tree of 255 nodes.

    probability (256,)   written
    """
    scratch = new_scratch(store)
    open_symbol(store, scratch, past, ring, known, known, extra)
    reach = np.zeros(512)
    reach[1] = 1.0
    last = past[at.LAST8]
    for top in range(1, 32):  # the root of the first four bits, and those of the last four
        if 1 < top < 16:
            continue
        open_slots(store, scratch, top, False)
        for bit in range(4):
            for node in range(top << bit, (top + 1) << bit):
                p = predict_bit(store, scratch, node, bit if top == 1 else bit + 4, last) / 65536.0
                reach[2 * node], reach[2 * node + 1] = reach[node] * (1.0 - p), reach[node] * p
    for symbol in range(256):
        probability[symbol] = reach[256 + symbol]
