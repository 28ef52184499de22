"""The lattice of covers as the engine of a SequenceModel, for bytes; it has the methods of `SuffixEngine`."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from coverwalk._arrays import Bytes, Floats, Ints, Ints32, UInts
from coverwalk._kernels.sequences import lattice_run
from coverwalk._kernels.sequences import store as at
from coverwalk._kernels.sequences.covers import NAMES
from coverwalk._kernels.sequences.store import COVERS, LatticeStore, new_store, with_capacity
from coverwalk._kernels.sequences.suffix_read import LOSSES, MOVE, judge
from coverwalk.files.schema import List, Object, Plain, Schema, require

Cover = Callable[..., int]

FAMILIES = ("suffix", "word", "sparse", "record", "image", "match")
_NONE = np.empty(0)
_NO_CODER = np.empty(0, np.uint64), np.empty(0, np.uint8)
BLOCK = 1 << 14  # symbols from one look at memory and at sleeping covers to the next
_FIXED = 13 << 18  # bytes that a lattice takes whatever it has learned
_SLOT_BYTES = 44  # of slots per symbol learned, while memory allows
_MIN_SLOTS = 8 << 20  # bytes: small files may have more, for what they learn first is worth most
_LONGEST = 5  # the suffix of order 8, left to the match where speed counts
_RING = 1 << 12  # symbols of the past that a reader keeps
_SEEN_BY_FUNCTIONS = 256  # symbols of the past that covers of the user's own are given
_ASLEEP_FOR = 7  # blocks
_MIN_USE = 0.003  # part of the log-odds below which a cover falls asleep


class LatticePlace(NamedTuple):
    """Where a reader stands: the last symbols and words, the past as a ring, its position there and in the document."""

    past: UInts
    ring: Bytes
    known: Ints

    def newest(self) -> bytes:
        """The past, as much of it as covers of the user's own are given."""
        position, known = self.known.tolist()
        n = min(known, len(self.ring), _SEEN_BY_FUNCTIONS)
        return bytes(self.ring[(position - n + np.arange(n)) % len(self.ring)])


def _power(n: float) -> int:
    """The largest power of two that is not larger."""
    return 1 << max(int(n).bit_length() - 1, 8)


def _max_slots(memory: int) -> int:
    """Bytes for slots: what is left by the longest history, with two matches of four bytes for each four symbols."""
    return memory - _FIXED - 3 * max(_power((memory - _FIXED) // 16), _RING)


def _capacity(memory: int, symbols: int) -> tuple[int, int, int]:
    """Buckets, history and matches for so many symbols, within the memory."""
    history = max(min(_power(2 * symbols), _power((memory - _FIXED) // 16)), _RING)
    slots = min(max(_SLOT_BYTES * symbols, _MIN_SLOTS), _max_slots(memory))
    return slots // at.BUCKET, history, history // 4


def _check_growth(state: Any) -> None:
    """The history is as long as that of so many symbols: no file makes a small lattice grow at will."""
    position, memory = int(state.store.counters[at.POSITION]), int(state.store.counters[at.MEMORY])
    _, history, _ = _capacity(memory, max(position - 2 * BLOCK, 1))
    require("the length of the history", history <= len(state.store.history))


class LatticeEngine:
    """A lattice of covers that learns and reads bytes; ``functions`` are covers of the user's own."""

    _schema = Schema(
        store=Object(LatticeStore),
        functions=List(Plain(), high=0, kind=tuple),  # they cannot be stored
        check=lambda state, scope: _check_growth(state),
    )

    def __init__(self, store: LatticeStore, functions: Sequence[Cover] = ()) -> None:
        self.store, self.functions = store, tuple(functions)

    @classmethod
    def new(
        cls,
        effort: int,
        memory: int,
        expected: int = 0,
        *,
        covers: Sequence[str | Cover] | None = None,
        forget: float = 0.0,
    ) -> Self:
        """An empty lattice with these covers, or those of its effort, in arrays for ``expected`` symbols."""
        if covers is None:
            covers = ("suffix", "match") if effort == 1 else FAMILIES
        families = [cover for cover in covers if isinstance(cover, str)]
        functions = [cover for cover in covers if not isinstance(cover, str)]
        chosen = [c for c, name in enumerate(NAMES) if name in families and (effort > 1 or c != _LONGEST)]
        numbers = np.array([*chosen, *range(COVERS, COVERS + len(functions))], np.uint64)
        store = new_store(numbers, *_capacity(memory, max(expected, 1)))
        store.counters[at.MEMORY], store.counters[at.EFFORT] = memory, effort
        store.counters[at.DECAY] = round(forget / math.log(2.0) / at.DECAY_UNIT)
        store.use[-1, 2] = "match" not in families
        return cls(store, functions)

    @property
    def n_contexts(self) -> int:
        """Slots in use."""
        return int(np.count_nonzero(self.store.slots[1::16]))

    # ---- learning ---------------------------------------------------------------------------------------------------

    def start_document(self, borders: bool) -> None:
        """End the present document: what comes next does not follow from it."""
        self.store.past[:] = 0
        self.store.counters[at.DOCUMENT] = 0

    def prime(self, codes: Ints32 | Bytes) -> None:
        """Put symbols behind without learning them."""
        self._grow()
        self.store.past[:] = 0
        self.read(self._own_place(), MOVE, codes[max(len(codes) - _RING, 0) :], _NONE)

    def learn(
        self,
        codes: Ints32 | Bytes,
        losses: Floats,
        *,
        mode: int = lattice_run.LEARN,
        coder: tuple[UInts, Bytes] = _NO_CODER,
    ) -> None:
        """Learn symbols; with a coder, its state and its bytes, they are coded, or decoded into ``codes``.

        losses (n,)   written, in nats; or (0,), and they are not kept
        """
        done, unkept = 0, np.empty(0 if len(losses) else min(BLOCK, len(codes)))
        while done < len(codes):
            position = int(self.store.counters[at.POSITION])
            if position % BLOCK == 0:
                self._grow()
                self._choose_sleepers()
            end = min(done + BLOCK - position % BLOCK, len(codes))
            block = codes[done:end].astype(np.int32)
            place, kept = self._own_place(), losses[done:end] if len(losses) else unkept
            lattice_run.run(self.store, *place, block, self._extra(place, block), kept, mode, *coder)
            if mode == lattice_run.DECODE:
                codes[done:end] = block
            done = end

    def _grow(self) -> None:
        """Larger arrays, where it has learned more than these are good for and the memory allows."""
        store, memory = self.store, int(self.store.counters[at.MEMORY])
        buckets, history, matches = _capacity(memory, int(store.counters[at.POSITION]) + BLOCK)
        grown = len(store.slots) // at.BUCKET - 1
        while 20 * grown < 11 * buckets and 2 * grown * at.BUCKET <= _max_slots(memory):
            grown *= 2
        self.store = with_capacity(store, grown, history, matches)

    def _choose_sleepers(self) -> None:
        """Covers without use sleep for some blocks, then get another chance: cost follows use."""
        counters, use = self.store.counters, self.store.use
        block, total = int(counters[at.POSITION]) // BLOCK, use[:, 0].sum()
        use[:, 1] += use[:, 0]
        if counters[at.EFFORT] == 2 and block > 0:
            if block % (_ASLEEP_FOR + 1) == 0:
                use[:-2, 2] = 0
            elif block % (_ASLEEP_FOR + 1) == 1:
                use[:-2, 2] = use[:-2, 0] < _MIN_USE * total
            if counters[at.PERIOD] == 0:
                needs_period = [c < COVERS and NAMES[int(c)] in ("record", "image") for c in self.store.covers]
                use[:-2, 2][needs_period] = 1
        use[:, 0] = 0

    def _extra(self, place: LatticePlace, codes: Ints32) -> UInts:
        """The contexts of the user's own covers before each symbol, as numbers; a function of the past alone."""
        out = np.empty((len(codes), len(self.functions)), np.uint64)
        if not self.functions:
            return out
        known, begun = place.newest(), int(place.known[at.DOCUMENT])
        text = known + codes.astype(np.uint8).tobytes()
        calls = [(function, _takes_position(function)) for function in self.functions]
        for i in range(len(codes)):
            past = text[max(len(known) + i - _SEEN_BY_FUNCTIONS, 0) : len(known) + i]
            for k, (function, takes_position) in enumerate(calls):
                out[i, k] = _number(function(past, begun + i) if takes_position else function(past), k)
        return out

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _own_place(self) -> LatticePlace:
        """Where the store itself stands: what moves on there is the present document."""
        return LatticePlace(self.store.past, self.store.history, self.store.counters[: at.DOCUMENT + 1])

    def here(self) -> LatticePlace:
        """After the present document."""
        store = self.store
        position, known = int(store.counters[at.POSITION]), int(store.counters[at.DOCUMENT])
        ring = np.zeros(_RING, np.uint8)
        back = np.arange(1, min(known, _RING, len(store.history)) + 1)
        ring[(known - back) % _RING] = store.history[(position - back) % len(store.history)]
        return LatticePlace(store.past.copy(), ring, np.array([known, known], np.int64))

    def beginning(self, borders: bool) -> LatticePlace:
        """The beginning of a new document."""
        return LatticePlace(np.zeros(3, np.uint64), np.zeros(_RING, np.uint8), np.zeros(2, np.int64))

    def distribution(self, place: LatticePlace) -> Floats:
        """The probability of every symbol."""
        probability = np.empty(256)
        extra = self._extra(place, np.zeros(1, np.int32))[0]
        lattice_run.spread(self.store, place.past, place.ring, int(place.known[at.DOCUMENT]), extra, probability)
        return probability

    def read(
        self,
        place: LatticePlace,
        what: int,
        codes: Ints32 | Bytes,
        out: Floats,
        uniforms: Floats = _NONE,
        power: float = 1.0,
    ) -> None:
        """Go along symbols without learning; the place moves on. See `suffix_read.read`."""
        codes = codes.astype(np.int32, copy=False)
        if what in (MOVE, LOSSES):
            lattice_run.run(self.store, *place, codes, self._extra(place, codes), out, lattice_run.READ, *_NO_CODER)
            return
        for i in range(len(codes)):
            judge(self.distribution(place), 256, what, i, codes, out, uniforms, power)
            self.read(place, MOVE, codes[i : i + 1], _NONE)

    def contributions(self) -> dict[str, float]:
        """Each family's part of the log-odds so far: they sum to one."""
        parts = self.store.use[:, 0] + self.store.use[:, 1]
        known = [*NAMES, *(getattr(function, "__name__", "function") for function in self.functions)]
        names = [*(known[int(c)] for c in self.store.covers), "suffix", "match"]
        total = max(float(parts.sum()), 1e-300)
        summed: dict[str, float] = {}
        for name, part in zip(names, parts):
            summed[name] = summed.get(name, 0.0) + float(part) / total
        return {name: part for name, part in summed.items() if part > 0}


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
