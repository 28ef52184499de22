"""How a lattice reads and learns symbols; coding and decoding them are the same loop, on the same numbers."""

import math

import numpy as np

from coverwalk._arrays import Bytes, Floats, Ints, Ints32, UInts
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences import store as at
from coverwalk._kernels.sequences.binary_coder import decode_bit, encode_bit
from coverwalk._kernels.sequences.covers import PERIOD_EVERY, advance_past, contexts, find_match, find_period
from coverwalk._kernels.sequences.lattice import learn_bit, new_scratch, open_slots, predict_bit
from coverwalk._kernels.sequences.logistic import HISTORY_HALF
from coverwalk._kernels.sequences.store import LatticeStore

READ, LEARN, ENCODE, DECODE = range(4)
_LN2 = math.log(2.0)
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
    slots, maps, weights, finals, refined = store.slots, store.maps, store.weights, store.finals, store.refined
    zero, hits, history, matches = store.zero, store.hits, store.history, store.matches
    differences, counters, use = store.differences, store.counters, store.use
    hashes, covers, awake, places, states, x, numbers, found = new_scratch(store)
    learning, matching, mask = mode != READ, use[len(use) - 1, 2] == 0.0, len(ring) - 1
    for i in range(len(symbols)):
        position, known = place[at.POSITION], place[at.DOCUMENT]
        symbol = np.int64(symbols[i])
        if len(losses) > 0:
            period = counters[at.PERIOD] if counters[at.PERIOD] > 0 else at.SMALL_PERIOD
            contexts(past, ring, position, min(known, len(ring)), period, hashes)
            for k in range(extra.shape[1]):
                hashes[at.COVERS + k] = extra[i, k]
            if matching:
                find_match(matches, history, ring, position, min(known, len(ring)), found)
            rate = _RATE + _FIRST_RATE * _SOON // (position + _SOON)
            node = np.int64(1)
            cost = 0.0
            for bit in range(8):
                if bit & 3 == 0:
                    open_slots(slots, hashes, covers, awake, node, learning, places)
                p = predict_bit(
                    slots, maps, weights, finals, refined, zero, hits, places, states, x, numbers, found, awake,
                    node, bit, past[at.LAST8],
                )  # fmt: skip
                if mode == DECODE:
                    y = decode_bit(coder, data, p)
                else:
                    y = (symbol >> (7 - bit)) & 1
                    if mode == ENCODE:
                        encode_bit(coder, data, p, y)
                cost -= math.log((p if y == 1 else 65536 - p) / 65536.0)
                if learning:
                    if position & _USED_EVERY == 0:
                        _note_use(use, weights, x, np.int64(numbers[4]) * len(x))
                    learn_bit(
                        slots, maps, weights, finals, refined, zero, hits, places, states, x, numbers, awake,
                        node, bit, y, rate,
                    )  # fmt: skip
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
            counters[at.PERIOD] = find_period(
                differences, history, position + 1, min(known + 1, len(history)), counters[at.PERIOD]
            )
        if counters[at.DECAY] > 0:
            _decay(slots, zero, position, counters[at.DECAY] * at.DECAY_UNIT)


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
