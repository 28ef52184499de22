"""One bit of the next symbol: what every cover says, the mixture, the final step; and how all of it learns the bit.

A symbol is eight bits, the first the highest; ``node`` is 1 followed by the bits so far. A context keeps two kinds of
slots: for the first four bits, and for the last four given the first.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bytes, Ints, Ints32, UInts
from coverwalk._kernels._compile import inlined_kernel, kernel
from coverwalk._kernels.linalg.prefetch import prefetch
from coverwalk._kernels.sequences import store as at
from coverwalk._kernels.sequences.covers import contexts, find_match, hash2
from coverwalk._kernels.sequences.logistic import HISTORY_NEXT, MAX_ODDS, RATES, STRETCH
from coverwalk._kernels.sequences.mixing import bucket_of, dot, find_slot, squash, train
from coverwalk._kernels.sequences.store import LatticeStore

_MAP_LIMIT = 1000  # a map forgets what is older than so many visits
_FINAL_RATE, _REFINED_RATE = 12, 60  # out of 1024
_CONSTANT = 256


class Scratch(NamedTuple):
    """A symbol's working arrays; covers that sleep are not among the awake ones, and their inputs stay zero.

    hashes (h,)               the contexts of all covers that there are
    awake (a,)                which of this model's are awake
    places, states (a + 1,)   where their slots begin, and their bit histories at this bit; order zero comes last
    x (inputs,)               what the mixer mixes: two inputs per cover, order zero, the match, a constant
    numbers (16,)             of the mixer: see the places below
    found (4,)                the match: see `find_match`
    """

    hashes: UInts
    awake: UInts
    places: UInts
    states: UInts
    x: Ints32
    numbers: Ints
    found: Ints


# places of the mixer's numbers: log-odds and weights' rows of the four sets, then these, two of the final step
_ODDS, _ROWS, _P, _REFINED, _EXPECTED, _LENGTH = 0, 4, 8, 9, 11, 12


@kernel
def new_scratch(store: LatticeStore) -> Scratch:
    """Working arrays for one call of a kernel."""
    covers = len(store.covers)
    awake = np.empty(covers, np.uint64)
    n = 0
    for c in range(covers):
        if store.use[c, 2] == 0.0:
            awake[n] = c
            n += 1
    x = np.zeros(len(store.weights) // at.WEIGHT_ROWS, np.int32)
    x[2 * covers + 4] = _CONSTANT
    return Scratch(
        np.zeros(at.COVERS + covers, np.uint64),
        awake[:n].copy(),
        np.zeros(n, np.uint64),
        np.zeros(n + 1, np.uint64),
        x,
        np.zeros(16, np.int64),
        np.full(4, -1, np.int64),  # without the match cover it stays so
    )


@inlined_kernel
def open_symbol(
    store: LatticeStore, scratch: Scratch, past: UInts, ring: Bytes, position: int, known: int, extra: UInts
) -> None:
    """The contexts of the next symbol, ``extra`` those of the user's own covers, and its longest match."""
    counters, hashes = store.counters, scratch.hashes
    period = counters[at.PERIOD] if counters[at.PERIOD] > 0 else at.SMALL_PERIOD
    contexts(past, ring, position, min(known, len(ring)), period, hashes)
    for k in range(len(extra)):
        hashes[at.COVERS + k] = extra[k]
    if store.use[len(store.use) - 1, 2] == 0.0:
        find_match(store.matches, store.history, ring, position, min(known, len(ring)), scratch.found)


@inlined_kernel
def open_slots(store: LatticeStore, scratch: Scratch, node: int, learning: bool) -> None:
    """The slots of all covers at the first or the fifth bit."""
    slots, covers, hashes, awake, places = store.slots, store.covers, scratch.hashes, scratch.awake, scratch.places
    salt = np.uint64(node) * np.uint64(0xA24BAED4963EE407)
    for a in range(np.uint64(len(awake))):
        places[a] = hash2(hashes[covers[awake[a]]], salt)
        prefetch(slots, bucket_of(slots, places[a]))
    for a in range(np.uint64(len(awake))):
        places[a] = find_slot(slots, places[a], learning)


@inlined_kernel
def _put(x: Ints32, maps: NDArray[np.uint32], cover: np.uint64, state: np.uint64) -> None:
    """The two inputs of a cover: its log-odds, and its probability. A new history has p = 1/2 and so nothing to say."""
    p = maps[(cover << np.uint64(8)) + state] >> np.uint64(16)
    x[cover + cover] = STRETCH[p >> np.uint64(4)]
    x[cover + cover + np.uint64(1)] = np.int32((np.int64(p) - 32768) >> 5)


@inlined_kernel
def predict_bit(store: LatticeStore, scratch: Scratch, node: int, bit: int, last: np.uint64) -> int:
    """P(the next bit is 1), from 1 to 65535 out of 65536; writes states, inputs and the mixer's numbers."""
    slots, maps, weights, finals, refined = store.slots, store.maps, store.weights, store.finals, store.refined
    zero, hits = store.zero, store.hits
    places, states, x, numbers, found, awake = (
        scratch.places, scratch.states, scratch.x, scratch.numbers, scratch.found, scratch.awake,
    )  # fmt: skip
    covers = np.uint64(len(maps) // 256 - 1)
    local = np.uint64(node if bit < 4 else (1 << (bit - 4)) | (node & ((1 << (bit - 4)) - 1)))
    c1, c2 = np.int64(last & np.uint64(0xFF)), np.int64((last >> np.uint64(8)) & np.uint64(0xFF))
    row2 = at.APM_ROWS1 + ((hash2(np.uint64(node), last & np.uint64(0xFFFFFF)) >> np.uint64(20)) & at.APM_MASK2)
    rows = (np.uint64(node | (c1 << 8)) * np.uint64(at.APM_STEPS), row2 * np.uint64(at.APM_STEPS))
    for row in rows:
        prefetch(refined, row)
    numbers[_ROWS] = at.SET_BEGINS[0] + node
    numbers[_ROWS + 1] = at.SET_BEGINS[1] + c1
    known = 0
    n = np.uint64(len(awake))
    for a in range(n):
        s = np.uint64(slots[places[a] + local])
        states[a] = s
        _put(x, maps, awake[a], s)
        known += (s > 0) & (awake[a] < at.SUFFIXES)
    states[n] = np.uint64(zero[node])
    _put(x, maps, covers, states[n])
    m = 2 * np.int64(covers) + 2
    expected, length = np.int64(0), np.int64(0)
    x[m] = 0
    x[m + 1] = 0
    if found[0] >= 0 and (found[0] | 256) >> (8 - bit) == node:
        expected, length = (found[0] >> (7 - bit)) & 1, found[1]
        sign = 2 * expected - 1
        x[m] = np.int32(sign * np.int64(STRETCH[np.uint64(min(hits[length] >> 10, 4095))]))
        x[m + 1] = np.int32(sign * length * 16)
    numbers[_EXPECTED], numbers[_LENGTH] = expected, length
    numbers[_ROWS + 2] = at.SET_BEGINS[2] + (0 if length == 0 else 1 + 2 * length + expected)
    numbers[_ROWS + 3] = at.SET_BEGINS[3] + bit * 256 + known * 32 + (c1 >> 5) + 8 * (c2 >> 6)
    total = np.int64(0)
    for k in range(at.SETS):
        numbers[_ODDS + k] = dot(weights, np.uint64(numbers[_ROWS + k] * len(x)), x)
        total += np.int64(finals[node, k]) * numbers[_ODDS + k]
    final = min(max(int(total >> 16), -MAX_ODDS), MAX_ODDS)
    mixed = squash(final)
    numbers[_P] = mixed
    position = (min(max(final, -2047), 2047) + 2048) * (at.APM_STEPS - 1)
    part, four_p = position & 4095, 2 * mixed + 2
    for k in range(len(rows)):
        place = rows[k] + np.uint64(position >> 12)
        four_p += (np.int64(refined[place]) * (4096 - part) + np.int64(refined[place + np.uint64(1)]) * part) >> 12
        numbers[_REFINED + k] = np.int64(place) + (part >> 11)
    return min(max(four_p >> 2, 1), 65535)


@inlined_kernel
def learn_bit(store: LatticeStore, scratch: Scratch, node: int, bit: int, y: int, rate: int) -> None:
    """Learn the bit that came, right after `predict_bit`: weights, final step, maps, histories, match."""
    slots, maps, weights, finals, refined = store.slots, store.maps, store.weights, store.finals, store.refined
    zero, hits = store.zero, store.hits
    places, states, x, numbers, awake = scratch.places, scratch.states, scratch.x, scratch.numbers, scratch.awake
    covers = np.uint64(len(maps) // 256 - 1)
    one = y << 16
    for k in range(at.SETS):
        error = ((one - squash(numbers[_ODDS + k])) * rate + 4096) >> 13
        train(weights, np.uint64(numbers[_ROWS + k] * len(x)), x, error)
    error = ((one - numbers[_P]) * _FINAL_RATE) >> 10
    for k in range(at.SETS):
        finals[node, k] = np.int32(np.int64(finals[node, k]) + ((numbers[_ODDS + k] * error + 8192) >> 14))
    target = y * 65535
    for k in range(2):
        place = np.uint64(numbers[_REFINED + k])
        now = np.int64(refined[place])
        refined[place] = np.uint16(now + ((target - now) * _REFINED_RATE >> 10))
    local = np.uint64(node if bit < 4 else (1 << (bit - 4)) | (node & ((1 << (bit - 4)) - 1)))
    n = np.uint64(len(awake))
    came = np.uint64(y)
    for a in range(n):
        s = states[a]
        _learn_map(maps, (awake[a] << np.uint64(8)) + s, s, y)
        slots[places[a] + local] = HISTORY_NEXT[s + s + came]
    s = states[n]
    _learn_map(maps, (covers << np.uint64(8)) + s, s, y)
    zero[node] = HISTORY_NEXT[s + s + came]
    if numbers[_LENGTH] > 0:
        hit = np.int64(numbers[_EXPECTED] == y)
        now = hits[numbers[_LENGTH]]
        hits[numbers[_LENGTH]] = now + ((hit * ((1 << 22) - 1) - now) >> 6)


@inlined_kernel
def _learn_map(maps: NDArray[np.uint32], place: np.uint64, state: np.uint64, y: int) -> None:
    """The mean of the bits that followed this history, over at most ``_MAP_LIMIT`` of them; a new one stays at 1/2."""
    value = np.int64(maps[place])
    n, p = value & 1023, value >> 10
    step = ((y * ((1 << 22) - 1) - p) * RATES[np.uint64(n)]) >> 16
    met = np.int64(state > np.uint64(0))
    maps[place] = np.uint32(((p + met * step) << 10) | min(n + met, _MAP_LIMIT))
