"""The suffix tree as an engine of SequenceModel: any alphabet, both walks, memory bounded by forgetting the oldest.

An engine is a module of functions on a store; `lattice_engine` has the same. Those that learn return the store, which
may have moved to larger arrays; those that read change a `Place` and nothing else.
"""

from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.sequences import suffix_learn, suffix_sample, suffix_store, suffix_tree, suffix_walk
from coverwalk._kernels.sequences.suffix_store import SuffixStore

__all__ = ["Place", "after", "beginning", "distribution", "draw", "here", "learn", "prime", "read", "start_document"]

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
    done, window = 0, int(store.settings[suffix_walk.WINDOW])
    while done < len(codes):
        if store.size[suffix_store.HISTORY] >= window:
            store = _newest(store, window // 2)
        end = min(done + CHUNK, len(codes), done + window - int(store.size[suffix_store.HISTORY]))
        store = _with_capacity(store, end - done)
        done = suffix_learn.learn(store, codes[:end], done, losses)
    return store


def _with_capacity(store: SuffixStore, symbols: int) -> SuffixStore:
    """The store with room to learn; where that would take more memory than allowed, without the older half."""
    larger = suffix_tree.with_capacity(store, depth_of(store), symbols)
    if nbytes(larger) <= store.settings[suffix_walk.MEMORY] or store.size[suffix_store.HISTORY] < _MIN_HISTORY:
        return larger
    half = int(store.size[suffix_store.HISTORY]) - int(store.size[suffix_store.HISTORY]) // 2
    return suffix_tree.with_capacity(_newest(store, half), depth_of(store), symbols)


def _newest(store: SuffixStore, n: int) -> SuffixStore:
    """A tree that has learned the newest n symbols alone, with the tied priors of all."""
    end, begin = int(store.size[suffix_store.HISTORY]), int(store.size[suffix_store.BEGIN])
    history = store.history[end - n : end]
    borders = int(store.size[suffix_store.START]) > 1
    tied = store.tied.copy()
    unbounded = store.settings.copy()
    unbounded[[suffix_walk.MEMORY, suffix_walk.WINDOW]] = np.inf, suffix_store.MOST_SYMBOLS
    half = suffix_store.new_tree(unbounded, tied.copy(), int(store.size[suffix_store.ALPHABET]), depth_of(store))
    cuts = np.flatnonzero(history == suffix_store.BORDER)
    documents = np.split(history, cuts)
    for i, document in enumerate(documents):
        if i == 0 and len(document) == 0:
            continue
        half = start_document(half, borders and i > 0)
        codes = document[document != suffix_store.BORDER]
        half = learn(half, codes, np.empty(len(codes)))
    if begin == end:
        half = start_document(half, borders)
    half.tied[:] = tied
    half.settings[:] = store.settings
    return half


def nbytes(store: SuffixStore) -> int:
    """Memory in bytes."""
    return sum(array.nbytes for array in store)


def here(store: SuffixStore) -> Place:
    """After the present document."""
    lengths = np.array([store.size[suffix_store.PATH], suffix_walk.longest_path(store)], np.int64)
    return Place(store.path.copy(), lengths)


def after(store: SuffixStore, codes: Ints32) -> Place:
    """After these symbols; what came before them is not known."""
    place = Place(np.zeros(depth_of(store) + 2, np.int64), np.ones(2, np.int64))
    suffix_walk.follow(store, *place, codes[max(len(codes) - depth_of(store), 0) :], np.empty(0))
    return place


def beginning(store: SuffixStore, borders: bool) -> Place:
    """The beginning of a new document."""
    path = np.zeros(depth_of(store) + 2, np.int64)
    path[1] = 1
    return Place(path, np.full(2, min(1 + int(borders), depth_of(store) + 1), np.int64))


def distribution(store: SuffixStore, place: Place) -> Floats:
    """The probability of every symbol, and of one never seen where the alphabet grows."""
    probability = np.empty(int(suffix_walk.alphabet_size(store)))
    level = np.empty((depth_of(store) + 2, suffix_walk.LEVEL_COLUMNS))
    suffix_walk.distribution(store, place.path, *place.lengths, level, probability)
    return probability


def read(store: SuffixStore, place: Place, codes: Ints32, losses: Floats) -> None:
    """-log p of each symbol without learning them."""
    if len(codes):
        suffix_walk.follow(store, *place, codes, losses)


def tail_scores(store: SuffixStore, place: Place, codes: Ints32, scores: Floats) -> None:
    """-log of the probability of a symbol no likelier than the one there, for each."""
    suffix_sample.tail_scores(store, *place, codes, scores)


def draw(store: SuffixStore, place: Place, power: float, uniforms: Floats, symbols: Ints32, entropies: Floats) -> None:
    """Draw symbols from probabilities raised to a power; moves the place on."""
    suffix_sample.draw(store, *place, power, uniforms, symbols, entropies)


def newest(store: SuffixStore) -> Ints32:
    """The newest symbols of the present document, at most as many as the depth."""
    end, begin = int(store.size[suffix_store.HISTORY]), int(store.size[suffix_store.BEGIN])
    return store.history[max(begin, end - depth_of(store)) : end]


def copied(store: SuffixStore) -> SuffixStore:
    """A copy that shares nothing."""
    return SuffixStore._make(array.copy() for array in store)
