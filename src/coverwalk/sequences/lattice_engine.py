"""The lattice of covers as an engine of SequenceModel, for bytes; see `suffix_engine` for what an engine is."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Bools, Bytes, Floats, Ints, Ints32, UInts
from coverwalk._kernels.sequences import binary_coder, lattice_read, lattice_run
from coverwalk._kernels.sequences import store as at
from coverwalk._kernels.sequences.covers import NAMES
from coverwalk._kernels.sequences.store import COVERS, LatticeStore, new_store, with_capacity
from coverwalk._kernels.sequences.suffix_read import DRAW, LOSSES, MOVE

Cover = Callable[..., int]

FAMILIES = ("suffix", "word", "sparse", "record", "image", "match")
_NONE = np.empty(0)
BLOCK = 1 << 14  # symbols from one look at memory and at sleeping covers to the next
_FIXED = 13 << 18  # bytes that a lattice takes whatever it has learned
_SLOT_BYTES = 44  # of slots per symbol learned, while memory allows
_MIN_SLOTS = 8 << 20  # bytes: small files may have more, for what they learn first is worth most
_LONGEST = 5  # the suffix of order 8, left to the match where speed counts
_RING = 1 << 12  # symbols of the past that a reader keeps
_SEEN_BY_FUNCTIONS = 256  # symbols of the past that covers of the user's own are given
_ASLEEP_FOR = 7  # blocks
_MIN_USE = 0.003  # part of the log-odds below which a cover falls asleep


class Place(NamedTuple):
    """Where a reader stands: the last symbols and words, the past as a ring, its position there, how many are known."""

    past: UInts
    ring: Bytes
    known: Ints


def new_lattice(
    families: Sequence[str], functions: int, memory: int, effort: int, expected: int = 0, forget: float = 0.0
) -> LatticeStore:
    """An empty lattice with these families of covers, in arrays that will do for ``expected`` symbols."""
    chosen = [c for c, name in enumerate(NAMES) if name in families and (effort > 1 or c != _LONGEST)]
    covers = np.array(chosen + list(range(COVERS, COVERS + functions)), np.uint64)
    store = new_store(covers, *_capacity(memory, max(expected, 1)))
    store.counters[at.MEMORY], store.counters[at.EFFORT] = memory, effort
    store.counters[at.DECAY] = round(forget / math.log(2.0) / at.DECAY_UNIT)
    store.use[-1, 2] = "match" not in families
    return store


def _power(n: float) -> int:
    """The largest power of two that is not larger."""
    return 1 << max(int(n).bit_length() - 1, 8)


def _capacity(memory: int, symbols: int) -> tuple[int, int, int]:
    """Buckets, history and matches for so many symbols, within the memory."""
    history = max(min(_power(2 * symbols), _power((memory - _FIXED) // 16)), _RING)
    slots = min(max(_SLOT_BYTES * symbols, _MIN_SLOTS), _max_slots(memory))
    return slots // at.BUCKET, history, history // 4


def _max_slots(memory: int) -> int:
    """Bytes for slots: what is left by the longest history, with two matches of four bytes for each four symbols."""
    return memory - _FIXED - 3 * max(_power((memory - _FIXED) // 16), _RING)


def _with_capacity(store: LatticeStore) -> LatticeStore:
    """The store, in larger arrays where it has learned more than these are good for and the memory allows."""
    position, memory = int(store.counters[at.POSITION]) + BLOCK, int(store.counters[at.MEMORY])
    buckets, history, matches = _capacity(memory, position)
    now = len(store.slots) // at.BUCKET - 1
    grown = now
    while 20 * grown < 11 * buckets and 2 * grown * at.BUCKET <= _max_slots(memory):
        grown *= 2
    history, matches = max(history, len(store.history)), max(matches, store.matches.shape[1])
    if (grown, history, matches) == (now, len(store.history), store.matches.shape[1]):
        return store
    return with_capacity(store, grown, history, matches)


def has_grown(store: LatticeStore) -> bool:
    """Whether the history is as long as that of so many symbols: no file makes a small lattice grow at will."""
    position, memory = int(store.counters[at.POSITION]), int(store.counters[at.MEMORY])
    return _capacity(memory, max(position - 2 * BLOCK, 1))[1] <= len(store.history)


def start_document(store: LatticeStore, borders: bool) -> LatticeStore:
    """End the present document: what comes next does not follow from it."""
    store.past[:] = 0
    store.counters[at.DOCUMENT] = 0
    return store


def learn(
    store: LatticeStore,
    codes: Ints32 | Bytes,
    losses: Floats,
    functions: Sequence[Cover] = (),
    *,
    mode: int = lattice_run.LEARN,
    coder: UInts | None = None,
    data: Bytes | None = None,
) -> LatticeStore:
    """Learn symbols; with a coder they are coded, or decoded into ``codes``.

    losses (n,)   written, in nats; or (0,), and they are not kept
    """
    coder = binary_coder.start_coder() if coder is None else coder
    data = np.empty(0, np.uint8) if data is None else data
    done, unkept = 0, np.empty(0 if len(losses) else min(BLOCK, len(codes)))
    while done < len(codes):
        position = int(store.counters[at.POSITION])
        if position % BLOCK == 0:
            store = _with_capacity(store)
            _choose_sleepers(store)
        end = min(done + BLOCK - position % BLOCK, len(codes))
        place = here(store) if functions else None
        block = codes[done:end].astype(np.int32)
        extra = _extra(place, block, functions)
        kept = losses[done:end] if len(losses) else unkept
        lattice_run.run(store, *_own_place(store), block, extra, kept, mode, coder, data)
        if mode == lattice_run.DECODE:
            codes[done:end] = block
        done = end
    return store


def _choose_sleepers(store: LatticeStore) -> None:
    """Covers without use sleep for some blocks, then get another chance: cost follows use."""
    block, use = int(store.counters[at.POSITION]) // BLOCK, store.use
    total = use[:, 0].sum()
    use[:, 1] += use[:, 0]
    if store.counters[at.EFFORT] == 2 and block > 0:
        if block % (_ASLEEP_FOR + 1) == 0:
            use[:-2, 2] = 0
        elif block % (_ASLEEP_FOR + 1) == 1:
            use[:-2, 2] = use[:-2, 0] < _MIN_USE * total
        if store.counters[at.PERIOD] == 0:
            use[:-2, 2][_needs_period(store)] = 1
    use[:, 0] = 0


def _needs_period(store: LatticeStore) -> Bools:
    return np.array([c < COVERS and NAMES[int(c)] in ("record", "image") for c in store.covers], np.bool_)


def _extra(place: Place | None, codes: Ints32, functions: Sequence[Cover]) -> UInts:
    """The contexts of the user's own covers before each symbol, as numbers; a function of the past alone."""
    out = np.empty((len(codes), len(functions)), np.uint64)
    if place is None or not functions:
        return out
    known, begun = _newest(place), int(place.known[at.DOCUMENT])
    text = known + codes.astype(np.uint8).tobytes()
    calls = [(function, _takes_position(function)) for function in functions]
    for i in range(len(codes)):
        past = text[max(len(known) + i - _SEEN_BY_FUNCTIONS, 0) : len(known) + i]
        for k, (function, takes_position) in enumerate(calls):
            out[i, k] = _number(function(past, begun + i) if takes_position else function(past), k)
    return out


def _takes_position(function: Cover) -> bool:
    """Whether it wants two arguments, the past and the position; what has no signature gets the past alone."""
    try:
        inspect.signature(function).bind(b"", 0)
    except (TypeError, ValueError):
        return False
    return True


def _number(value: object, which: int) -> int:
    if not isinstance(value, int | np.integer):
        raise ValueError(
            f"a cover of your own must return an integer for a past, got {value!r}: return the context's number, "
            "such as hash((a, b)) of small integers"
        )
    return ((int(value) + which + 1) * 0x9E3779B97F4A7C15) % 2**64


def _newest(place: Place) -> bytes:
    known = int(place.known[at.DOCUMENT])
    n = min(known, len(place.ring), _SEEN_BY_FUNCTIONS)
    return bytes(place.ring[(known - n + np.arange(n)) % len(place.ring)].tobytes())


def prime(store: LatticeStore, codes: Ints32) -> LatticeStore:
    """Put symbols behind without learning them."""
    store = _with_capacity(store)
    store.past[:] = 0
    read(store, _own_place(store), MOVE, codes[max(len(codes) - _RING, 0) :], _NONE)
    return store


def _own_place(store: LatticeStore) -> Place:
    """Where the store itself stands: what moves on there is the present document."""
    return Place(store.past, store.history, store.counters[: at.DOCUMENT + 1])


def here(store: LatticeStore) -> Place:
    """After the present document."""
    position, known = int(store.counters[at.POSITION]), int(store.counters[at.DOCUMENT])
    ring = np.zeros(_RING, np.uint8)
    back = np.arange(1, min(known, _RING, len(store.history)) + 1)
    ring[(known - back) % _RING] = store.history[(position - back) % len(store.history)]
    return Place(store.past.copy(), ring, np.array([known, known], np.int64))


def beginning(store: LatticeStore, borders: bool = True) -> Place:
    """The beginning of a new document."""
    return Place(np.zeros(3, np.uint64), np.zeros(_RING, np.uint8), np.zeros(2, np.int64))


def after(store: LatticeStore, codes: Ints32) -> Place:
    """After these symbols, as if a document began with them."""
    place = beginning(store)
    read(store, place, MOVE, codes, _NONE)
    return place


def distribution(store: LatticeStore, place: Place, functions: Sequence[Cover] = ()) -> Floats:
    """The probability of every symbol."""
    probability = np.empty(256)
    extra = _extra(place, np.zeros(1, np.int32), functions)[0]
    lattice_read.spread(store, place.past, place.ring, int(place.known[at.DOCUMENT]), extra, probability)
    return probability


def read(
    store: LatticeStore,
    place: Place,
    what: int,
    codes: Ints32,
    out: Floats,
    functions: Sequence[Cover] = (),
    *,
    uniforms: Floats = _NONE,
    power: float = 1.0,
) -> None:
    """Go along symbols without learning; the place moves on. See `suffix_read.read`."""
    if what in (MOVE, LOSSES):
        unused = np.empty(0, np.uint64), np.empty(0, np.uint8)
        lattice_run.run(store, *place, codes, _extra(place, codes, functions), out, lattice_run.READ, *unused)
        return
    for i in range(len(codes)):
        p = distribution(store, place, functions)
        if what == DRAW:
            p **= power
            p /= p.sum()
            codes[i] = min(int(np.searchsorted(np.cumsum(p), uniforms[i], side="right")), 255)
            out[i] = -(p[p > 0] * np.log(p[p > 0])).sum()
        else:
            out[i] = -np.log(min(p[p <= p[codes[i]] * (1 + 1e-12)].sum(), 1.0))
        read(store, place, MOVE, codes[i : i + 1], _NONE)


def contributions(store: LatticeStore, functions: Sequence[Cover] = ()) -> dict[str, float]:
    """Each family's part of the log-odds so far: they sum to one."""
    parts = store.use[:, 0] + store.use[:, 1]
    known = [*NAMES, *(getattr(function, "__name__", "function") for function in functions)]
    names = [*(known[int(c)] for c in store.covers), "suffix", "match"]
    total = max(float(parts.sum()), 1e-300)
    summed: dict[str, float] = {}
    for name, part in zip(names, parts):
        summed[name] = summed.get(name, 0.0) + float(part) / total
    return {name: part for name, part in summed.items() if part > 0}
