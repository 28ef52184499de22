"""Reading a lattice without changing it: losses along a sequence, whole distributions, draws."""

import math

import numpy as np

from coverwalk._arrays import Bytes, Floats, Ints, Ints32, Words
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences.covers import advance_past, contexts, find_match
from coverwalk._kernels.sequences.lattice import Scratch, new_scratch, open_slots, predict_bit
from coverwalk._kernels.sequences.store import COVERS, LAST8, PERIOD, SMALL_PERIOD, LatticeStore

__all__ = ["follow", "spread"]


@kernel
def _enter(store: LatticeStore, scratch: Scratch, past: Words, ring: Bytes, known: int, extra: Words) -> None:
    """The contexts and the match of the next symbol."""
    period = store.counters[PERIOD] if store.counters[PERIOD] > 0 else SMALL_PERIOD
    contexts(past, ring, known, min(known, len(ring)), period, scratch.hashes)
    for k in range(len(extra)):
        scratch.hashes[COVERS + k] = extra[k]
    if store.use[len(store.use) - 1, 2] == 0.0:
        find_match(store.matches, store.history, ring, known, min(known, len(ring)), scratch.found)


@kernel
def _bit(store: LatticeStore, scratch: Scratch, node: int, bit: int, last: np.uint64) -> float:
    """P(1) of the next bit."""
    if bit & 3 == 0:
        open_slots(store.slots, scratch.hashes, scratch.covers, scratch.awake, node, False, scratch.places)
    p = predict_bit(
        store.slots, store.maps, store.weights, store.finals, store.refined, store.zero, store.hits,
        scratch.places, scratch.states, scratch.x, scratch.numbers, scratch.found, scratch.awake, node, bit, last,
    )  # fmt: skip
    return p / 65536.0


@kernel
def follow(
    store: LatticeStore, past: Words, ring: Bytes, known: Ints, symbols: Ints32, extra: Words, losses: Floats
) -> None:
    """Read symbols: past (3,), ring (2^k,) and known (1,), the reader's place, move on.

    losses (n,)   written: -log p of each symbol in nats; empty to move only
    """
    scratch = new_scratch(store)
    for i in range(len(symbols)):
        symbol = np.int64(symbols[i])
        if len(losses) > 0:
            _enter(store, scratch, past, ring, known[0], extra[i])
            node = np.int64(1)
            cost = 0.0
            for bit in range(8):
                p = _bit(store, scratch, node, bit, past[LAST8])
                y = (symbol >> (7 - bit)) & 1
                cost -= math.log(p if y == 1 else 1.0 - p)
                node = 2 * node + y
            losses[i] = cost
        ring[known[0] & (len(ring) - 1)] = symbol
        advance_past(past, symbol)
        known[0] += 1


@kernel
def spread(store: LatticeStore, past: Words, ring: Bytes, known: int, extra: Words, probability: Floats) -> None:
    """The probability of each of the 256 symbols to come next: two bits' worth of a tree of 255 nodes.

    probability (256,)   written
    """
    scratch = new_scratch(store)
    _enter(store, scratch, past, ring, known, extra)
    reach = np.zeros(512)
    reach[1] = 1.0
    last = past[LAST8]
    for bit in range(4):
        for node in range(1 << bit, 2 << bit):
            p = _bit(store, scratch, node, bit, last)
            reach[2 * node], reach[2 * node + 1] = reach[node] * (1.0 - p), reach[node] * p
    for high in range(16, 32):
        for bit in range(4, 8):
            low = high << (bit - 4)
            for node in range(low, low + (1 << (bit - 4))):
                p = _bit(store, scratch, node, bit, last)
                reach[2 * node], reach[2 * node + 1] = reach[node] * (1.0 - p), reach[node] * p
    for symbol in range(256):
        probability[symbol] = reach[256 + symbol]
