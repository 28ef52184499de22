"""Whole distributions of a lattice, which stays as it is."""

import numpy as np

from coverwalk._arrays import Bytes, Floats, UInts
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences.covers import contexts, find_match
from coverwalk._kernels.sequences.lattice import Scratch, new_scratch, open_slots, predict_bit
from coverwalk._kernels.sequences.store import COVERS, LAST8, PERIOD, SMALL_PERIOD, LatticeStore


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
def spread(store: LatticeStore, past: UInts, ring: Bytes, known: int, extra: UInts, probability: Floats) -> None:
    """The probability of each of the 256 symbols to come next: two bits' worth of a tree of 255 nodes.

    probability (256,)   written
    """
    scratch = new_scratch(store)
    period = store.counters[PERIOD] if store.counters[PERIOD] > 0 else SMALL_PERIOD
    contexts(past, ring, known, min(known, len(ring)), period, scratch.hashes)
    for k in range(len(extra)):
        scratch.hashes[COVERS + k] = extra[k]
    if store.use[len(store.use) - 1, 2] == 0.0:
        find_match(store.matches, store.history, ring, known, min(known, len(ring)), scratch.found)
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
