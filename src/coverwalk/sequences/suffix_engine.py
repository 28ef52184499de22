"""The suffix tree as an engine of SequenceModel: any alphabet, both walks, memory bounded by forgetting the oldest.

An engine is a module of functions on a store; `lattice_engine` has the same. Those that learn return the store, which
may have moved to larger arrays; those that read change a `Place` and nothing else.
"""

from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.sequences import suffix_learn, suffix_read, suffix_tree, suffix_walk
from coverwalk._kernels.sequences import suffix_store as at
from coverwalk._kernels.sequences.suffix_store import SuffixStore

_NONE = np.empty(0)
CHUNK = 1 << 14  # symbols per call of a kernel
_MIN_HISTORY = 4096  # symbols that are kept whatever the memory: depths of 64 with no symbol twice need that much


class Place(NamedTuple):
    """Where a reader stands: the contexts of the next symbol, how many there are, and how many there could be."""

    path: Ints
    lengths: Ints


def depth_of(store: SuffixStore) -> int:
    """The length of the longest context."""
    return len(store.path) - 2


def start_document(store: SuffixStore, borders: bool) -> SuffixStore:
    """End the present document: what comes next does not follow from it."""
    store = _with_capacity(store, 1)
    suffix_tree.start_document(store, int(borders))
    return store


def prime(store: SuffixStore, codes: Ints32) -> SuffixStore:
    """Put symbols behind without learning them."""
    for symbol in codes[max(len(codes) - depth_of(store), 0) :]:
        store = _with_capacity(store, 1)
        suffix_learn.prime(store, np.array([symbol], np.int32))
    return store


def learn(store: SuffixStore, codes: Ints32, losses: Floats) -> SuffixStore:
    """Learn symbols; ``losses`` (n,) are written, in nats; or (0,), and they are not kept."""
    losses = losses if len(losses) else np.empty(len(codes))
    done, window = 0, int(store.settings[at.WINDOW])
    while done < len(codes):
        if store.size[at.HISTORY] >= window:
            store = _newest(store, window // 2)
        end = min(done + CHUNK, len(codes), done + window - int(store.size[at.HISTORY]))
        store = _with_capacity(store, end - done)
        done = suffix_learn.learn(store, codes[:end], done, losses)
    return store


def _with_capacity(store: SuffixStore, symbols: int) -> SuffixStore:
    """The store with room to learn; where that would take more memory than allowed, without the older half."""
    larger, learned = suffix_tree.with_capacity(store, depth_of(store), symbols), int(store.size[at.HISTORY])
    if learned < _MIN_HISTORY or sum(array.nbytes for array in larger) <= store.settings[at.MEMORY]:
        return larger
    half = learned - learned // 2
    return suffix_tree.with_capacity(_newest(store, half), depth_of(store), symbols)


def _newest(store: SuffixStore, n: int) -> SuffixStore:
    """A tree that has learned the newest n symbols alone, with the tied priors of all."""
    end, begin = int(store.size[at.HISTORY]), int(store.size[at.BEGIN])
    history = store.history[end - n : end]
    borders = int(store.size[at.START]) > 1
    tied = store.tied.copy()
    unbounded = store.settings.copy()
    unbounded[[at.MEMORY, at.WINDOW]] = np.inf, at.MOST_SYMBOLS
    half = at.new_tree(unbounded, tied.copy(), int(store.size[at.ALPHABET]), depth_of(store))
    for i, document in enumerate(np.split(history, np.flatnonzero(history == at.BORDER))):
        if i == 0 and len(document) == 0:
            continue
        half = start_document(half, borders and i > 0)
        codes = document[document != at.BORDER]
        half = learn(half, codes, np.empty(len(codes)))
    if begin == end:
        half = start_document(half, borders)
    half.tied[:] = tied
    half.settings[:] = store.settings
    return half


def here(store: SuffixStore) -> Place:
    """After the present document."""
    lengths = np.array([store.size[at.PATH], suffix_walk.longest_path(store)], np.int64)
    return Place(store.path.copy(), lengths)


def after(store: SuffixStore, codes: Ints32) -> Place:
    """After these symbols; what came before them is not known."""
    place = Place(np.zeros(depth_of(store) + 2, np.int64), np.ones(2, np.int64))
    read(store, place, suffix_read.MOVE, codes[max(len(codes) - depth_of(store), 0) :], np.empty(0))
    return place


def beginning(store: SuffixStore, borders: bool) -> Place:
    """The beginning of a new document."""
    path = np.zeros(depth_of(store) + 2, np.int64)
    path[1] = 1
    return Place(path, np.full(2, min(1 + int(borders), depth_of(store) + 1), np.int64))


def distribution(store: SuffixStore, place: Place) -> Floats:
    """The probability of every symbol, and of one never seen where the alphabet grows."""
    probability = np.empty(int(suffix_walk.alphabet_size(store)))
    level = np.empty((depth_of(store) + 2, at.LEVEL_COLUMNS))
    suffix_walk.distribution(store, place.path, *place.lengths, level, probability)
    return probability


def read(
    store: SuffixStore,
    place: Place,
    what: int,
    codes: Ints32,
    out: Floats,
    *,
    uniforms: Floats = _NONE,
    power: float = 1,
) -> None:
    """Go along symbols without learning; the place moves on. See `suffix_read.read`."""
    suffix_read.read(store, *place, what, codes, out, uniforms, float(power))


def newest(store: SuffixStore) -> Ints32:
    """The newest symbols of the present document, at most as many as the depth."""
    end, begin = int(store.size[at.HISTORY]), int(store.size[at.BEGIN])
    return store.history[max(begin, end - depth_of(store)) : end]
