"""The state of a lattice of covers as flat arrays, and how it grows. See docs/sequences.md."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bytes, Floats, Ints, Ints32, UInts
from coverwalk._kernels.sequences.logistic import HISTORY_P, SQUASH
from coverwalk.files.schema import Array, Limits, Scope, require, stored

BUCKET = 64  # bytes: four slots, one line of the processor's cache
SUFFIXES = 6  # orders 1, 2, 3, 4, 6 and 8
COVERS = 17  # that hash: see covers.NAMES
SETS = 4  # of weights
SET_BEGINS = (0, 256, 512, 608)  # they have 256, 256, 96 and 2048 rows
WEIGHT_ROWS = 2656
APM_ROWS1, APM_MASK2 = np.uint64(1 << 16), np.uint64((1 << 14) - 1)
APM_STEPS = 16  # values of the log-odds: two rows are one line of the processor's cache
MAX_PERIOD = 1024
SMALL_PERIOD = 4  # where none is found: much data comes in words of four bytes
# places of counters
POSITION, DOCUMENT, PERIOD, MEMORY, EFFORT, DECAY = 0, 1, 2, 3, 4, 5
DECAY_UNIT = 2.0**-40
# places of past: the last eight symbols, hashes of the current word and of the one before
LAST8, WORD, PREVIOUS = 0, 1, 2

_COUNTERS = {
    POSITION: Limits(low=0, high=2**62),
    DOCUMENT: Limits(low=0, high=2**62),
    PERIOD: Limits(low=0, high=MAX_PERIOD),
    MEMORY: Limits(low=8 << 20, high=2**62),
    EFFORT: Limits(low=1, high=3),
    DECAY: Limits(low=0, high=2**34),
}


# Bit histories, maps, weights and the table of matches may hold any values of their types: kernels use them through
# masks and tables that cover the whole type. What must fit are sizes, and the few numbers by which kernels index.
@stored(read_first=("covers",), check=lambda state, scope: _check_store(state, scope))
class LatticeStore(NamedTuple):
    """Everything a lattice has learned; the kernels own and change all of it.

    slots (64 b + 64,)    b buckets of four slots, and an empty one: a check byte, and the bit histories of the 15 nodes
                          of four bits
    maps (256 inputs,)    by cover and bit history: P(1) in 22 bits, times 1024, plus how often it was met
    weights (2656 i,)     of the mixer: rows by the four small contexts; i = 2 inputs + 3, up to a multiple of 8
    finals (256, 4)       how the four sets are mixed, by the bits so far
    refined (16 rows,)    the final adaptive step: P(1) by context and by 16 values of the log-odds
    zero (256,)           bit histories of order zero
    history (2^k,)        the newest symbols, a ring
    matches (2, m)        by a hash of the last 12 and of the last 6 symbols: 1 + the place of the symbol that followed
    hits (64,)            by length of match: the probability that it goes on, in 22 bits
    differences (1025,)   how periods are found: see `find_period`
    use (inputs + 1, 3)   by cover: its part in the log-odds in this block, in all, and 1 if it sleeps; order zero
                          and the match come last
    past (3,)             of the present document: last eight symbols, current word, previous word
    counters (6,)         symbols learned, symbols of this document, period; memory in bytes and effort, as set; how
                          often counts halve per symbol, times 2^40
    covers (n,)           which of the hashing covers this model has: below 17 built in, then the user's own
    """

    slots: Annotated[Bytes, Array(np.uint8, "capacity")]
    maps: Annotated[NDArray[np.uint32], Array(np.uint32, "256 * (n + 1)")]
    weights: Annotated[Ints32, Array(np.int32, "n_weights")]
    finals: Annotated[Ints32, Array(np.int32, 256, SETS)]
    refined: Annotated[NDArray[np.uint16], Array(np.uint16, (int(APM_ROWS1 + APM_MASK2) + 1) * APM_STEPS)]
    zero: Annotated[Bytes, Array(np.uint8, 256)]
    history: Annotated[Bytes, Array(np.uint8, "length")]
    matches: Annotated[Ints32, Array(np.int32, 2, "n_matches")]
    hits: Annotated[Ints, Array(np.int64, 64, low=0, below=1 << 22)]
    differences: Annotated[Ints, Array(np.int64, MAX_PERIOD + 1, low=0, below=1 << 40)]
    use: Annotated[Floats, Array(float, "n + 2", 3)]
    past: Annotated[UInts, Array(np.uint64, 3)]
    counters: Annotated[Ints, Array(np.int64, len(_COUNTERS), columns=_COUNTERS)]
    covers: Annotated[UInts, Array(np.uint64, "n", below=COVERS)]  # functions, which the others are, cannot be stored


def n_inputs(covers: int) -> int:
    """Inputs of the mixer for so many hashing covers: two each, order zero and the match, one constant; padded."""
    return (2 * (covers + 1) + 3 + 7) // 8 * 8


def _aligned(size: int) -> Bytes:
    """Zeros that begin at a line of the processor's cache."""
    capacity = np.zeros(size + BUCKET, np.uint8)
    start = -capacity.ctypes.data % BUCKET
    return capacity[start : start + size]


def new_store(covers: UInts, buckets: int, history: int, matches: int) -> LatticeStore:
    """A lattice that has learned nothing; ``history`` and ``matches`` are powers of two."""
    n = len(covers)
    width = n_inputs(n)
    weights = np.zeros((WEIGHT_ROWS, width), np.int32)
    first = (10_000 << 9) * COVERS // max(n, 6)
    weights[:, 0 : 2 * n + 2 : 2] = first
    weights[:, 2 * n + 2] = 10_000 << 9
    rows = int(APM_ROWS1 + APM_MASK2) + 1
    refined = _aligned(2 * rows * APM_STEPS).view(np.uint16).reshape(rows, APM_STEPS)
    refined[:] = SQUASH[np.clip(np.arange(APM_STEPS) * 4096 // (APM_STEPS - 1) - 2048, -2047, 2047) + 3072]
    hits = np.array([(1 - 1 / (length + 1.5)) * (1 << 22) for length in range(64)])
    return LatticeStore(
        slots=_aligned(BUCKET * (buckets + 1)),
        maps=np.tile((HISTORY_P << 10).astype(np.uint32), n + 1),
        weights=weights.reshape(-1),
        finals=np.full((256, SETS), 65536 // SETS, np.int32),
        refined=refined.reshape(-1),
        zero=np.zeros(256, np.uint8),
        history=np.zeros(history, np.uint8),
        matches=np.zeros((2, matches), np.int32),
        hits=hits.astype(np.int64),
        differences=np.zeros(MAX_PERIOD + 1, np.int64),
        use=np.zeros((n + 2, 3)),
        past=np.zeros(3, np.uint64),
        counters=np.zeros(len(_COUNTERS), np.int64),
        covers=covers,
    )


def with_capacity(store: LatticeStore, buckets: int, history: int, matches: int) -> LatticeStore:
    """The same lattice in larger arrays, each a power of two times as large as before.

    A bucket's number is the top of a hash: twice as many buckets split each in two. Both halves get a copy of it; the
    copies that nobody looks for are the first to be replaced.
    """
    slots, place, history_now, found = store.slots, store.counters[POSITION], store.history, store.matches
    now = len(slots) // BUCKET - 1
    if buckets > now:
        larger = _aligned(BUCKET * (buckets + 1))
        larger[:-BUCKET].reshape(now, buckets // now, BUCKET)[:] = slots[:-BUCKET].reshape(now, 1, BUCKET)
        slots = larger
    if history > len(history_now):  # before the ring is full for the first time its places are those of the symbols
        history_now = np.zeros(history, np.uint8)
        kept = min(int(place), len(store.history))
        history_now[:kept] = store.history[:kept]
    if matches > found.shape[1]:
        found = np.repeat(found, matches // found.shape[1], axis=1)
    return store._replace(slots=slots, history=history_now, matches=found)


def _check_store(state: Any, scope: Scope) -> None:
    """Sizes that kernels take for granted."""
    require("covers", len(np.unique(state.covers)) == scope["n"])
    require("weights", scope["n_weights"] == WEIGHT_ROWS * n_inputs(scope["n"]))
    require("slots", scope["capacity"] % BUCKET == 0 and scope["capacity"] >= 2 * BUCKET)
    require("history", scope["length"] >= 4096 and scope["length"].bit_count() == 1)
    require("matches", scope["n_matches"] > 0)
    require("counters", state.counters[DOCUMENT] <= state.counters[POSITION])
