"""The suffix tree as the engine of a SequenceModel: any alphabet, both walks, memory bounded by forgetting the oldest.

`LatticeEngine` has the same methods. Those that read change a place, where a reader stands, and nothing else.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Bytes, Floats, Ints, Ints32
from coverwalk._kernels.sequences import suffix_learn, suffix_read, suffix_tree, suffix_walk
from coverwalk._kernels.sequences import suffix_store as at
from coverwalk._kernels.sequences.suffix_store import SuffixStore
from coverwalk.files.schema import Object, Schema

_NONE = np.empty(0)
CHUNK = 1 << 14  # symbols per call of a kernel
_MIN_HISTORY = 4096  # symbols that are kept whatever the memory: depths of 64 with no symbol twice need that much


class SuffixPlace(NamedTuple):
    """Where a reader stands: the contexts of the next symbol, how many there are, and how many there could be."""

    path: Ints
    lengths: Ints


class ContextWeight(NamedTuple):
    """What one context has to say about the next symbol."""

    order: int  # its length
    context: tuple[Hashable, ...]  # its symbols, old to new
    visits: int  # how often it was met
    stop: float  # w: the probability that the walk stops here if it comes by
    weight: float  # the probability that it stops here and nowhere else
    tables: float  # v of the Pitman-Yor process with fractional tables
    full_counts: float  # v of the Dirichlet
    repeat: float  # v of the newest symbol again


class SuffixEngine:
    """A suffix tree that learns and reads codes of symbols."""

    _schema = Schema(store=Object(SuffixStore, A="A", grows="grows"))
    functions = ()  # covers of the user's own

    def __init__(self, store: SuffixStore) -> None:
        self.store = store

    def __deepcopy__(self, memo: Any) -> "SuffixEngine":
        return SuffixEngine(SuffixStore._make(array.copy() for array in self.store))

    def __getstate__(self) -> dict[str, Any]:
        return {"store": at.trimmed(self.store)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        store = (np.require(array, requirements="W") for array in state["store"])  # a file's may be read-only
        self.store = suffix_tree.linked(SuffixStore._make(store))

    @property
    def depth(self) -> int:
        """The length of the longest context."""
        return len(self.store.path) - 2

    @property
    def n_contexts(self) -> int:
        """Contexts that are stored."""
        return int(self.store.size[at.NODES])

    # ---- learning ---------------------------------------------------------------------------------------------------

    def start_document(self, borders: bool) -> None:
        """End the present document: what comes next does not follow from it."""
        self._make_room(1)
        suffix_tree.start_document(self.store, int(borders))

    def prime(self, codes: Ints32 | Bytes) -> None:
        """Put symbols behind without learning them."""
        for symbol in codes[max(len(codes) - self.depth, 0) :]:
            self._make_room(1)
            suffix_learn.prime(self.store, int(symbol))

    def learn(self, codes: Ints32 | Bytes, losses: Floats) -> None:
        """Learn symbols; ``losses`` (n,) are written, in nats; or (0,), and they are not kept."""
        codes, losses = codes.astype(np.int32, copy=False), losses if len(losses) else np.empty(len(codes))
        done, window = 0, int(self.store.settings[at.WINDOW])
        while done < len(codes):
            if self.store.size[at.HISTORY] >= window:
                self._keep_newest(window // 2)
            end = min(done + CHUNK, len(codes), done + window - int(self.store.size[at.HISTORY]))
            self._make_room(end - done)
            done = suffix_learn.learn(self.store, codes[:end], done, losses)

    def _make_room(self, symbols: int) -> None:
        """Room to learn; where that would take more memory than allowed, without the older half."""
        larger, learned = suffix_tree.with_capacity(self.store, symbols), int(self.store.size[at.HISTORY])
        if learned >= _MIN_HISTORY and sum(array.nbytes for array in larger) > self.store.settings[at.MEMORY]:
            self._keep_newest(learned - learned // 2)
            larger = suffix_tree.with_capacity(self.store, symbols)
        self.store = larger

    def _keep_newest(self, n: int) -> None:
        """Be a tree that has learned the newest n symbols alone, with the tied priors of all."""
        store = self.store
        end, begin = int(store.size[at.HISTORY]), int(store.size[at.BEGIN])
        history = store.history[end - n : end]
        borders = int(store.size[at.START]) > 1
        unbounded = store.settings.copy()
        unbounded[[at.MEMORY, at.WINDOW]] = np.inf, at.MOST_SYMBOLS
        half = SuffixEngine(at.new_tree(unbounded, store.tied.copy(), int(store.size[at.ALPHABET]), self.depth))
        for i, document in enumerate(np.split(history, np.flatnonzero(history == at.BORDER))):
            if i == 0 and len(document) == 0:
                continue
            half.start_document(borders and i > 0)
            half.learn(document[document != at.BORDER], _NONE)
        if begin == end:
            half.start_document(borders)
        half.store.tied[:] = store.tied
        half.store.settings[:] = store.settings
        self.store = half.store

    # ---- reading ----------------------------------------------------------------------------------------------------

    def here(self) -> SuffixPlace:
        """After the present document."""
        lengths = np.array([self.store.size[at.PATH], suffix_walk.longest_path(self.store)], np.int64)
        return SuffixPlace(self.store.path.copy(), lengths)

    def beginning(self, borders: bool) -> SuffixPlace:
        """The beginning of a new document; without borders, where nothing is known of what came before."""
        path = np.zeros(self.depth + 2, np.int64)
        path[1] = 1
        return SuffixPlace(path, np.full(2, min(1 + int(borders), self.depth + 1), np.int64))

    def distribution(self, place: SuffixPlace) -> Floats:
        """The probability of every symbol, and of one never seen where the alphabet grows."""
        probability = np.empty(int(suffix_walk.alphabet_size(self.store)))
        level = np.empty((self.depth + 2, at.LEVEL_COLUMNS))
        suffix_walk.distribution(self.store, place.path, *place.lengths, level, probability)
        return probability

    def read(
        self,
        place: SuffixPlace,
        what: int,
        codes: Ints32 | Bytes,
        out: Floats,
        uniforms: Floats = _NONE,
        power: float = 1.0,
    ) -> None:
        """Go along symbols without learning; the place moves on. See `suffix_read.read`."""
        if what == suffix_read.MOVE:
            codes = codes[max(len(codes) - self.depth, 0) :]  # older ones do not matter
        suffix_read.read(self.store, *place, what, codes.astype(np.int32, copy=False), out, uniforms, power)

    def newest(self) -> Ints32:
        """The newest symbols of the present document, at most as many as the depth."""
        end, begin = int(self.store.size[at.HISTORY]), int(self.store.size[at.BEGIN])
        return self.store.history[max(begin, end - self.depth) : end]

    def context_weights(self, place: SuffixPlace, past: Sequence[Hashable]) -> list[ContextWeight]:
        """The contexts at a place from the empty one on; ``past`` are the symbols before, old to new."""
        path, (length, longest) = place.path, place.lengths.tolist()
        level = np.empty((len(path), at.LEVEL_COLUMNS))
        suffix_walk.weigh(self.store, path, length, longest, level)
        mode = self.store.settings[at.MODE]
        w = level[:length, at.W]
        outward = slice(None, None, 1 if mode == at.REFINE else -1)  # in the order of the walk
        weights = (w[outward] * np.cumprod(np.append(1.0, 1.0 - w[outward][:-1])))[outward]
        rows = []
        for order in range(length):
            q, r = level[order, [at.REPEAT, at.R]] if mode == at.COARSEN_MIXED else (0.0, 1.0)
            visits = self.store.node_value[path[order], at.N] if path[order] >= 0 else path[order] != at.FRESH
            v = (float((1 - q) * (1 - r)), float((1 - q) * r), float(q))
            context = tuple(past[len(past) - order :])
            rows.append(ContextWeight(order, context, int(visits), float(w[order]), float(weights[order]), *v))
        return rows
