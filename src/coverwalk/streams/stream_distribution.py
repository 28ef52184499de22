"""The answers of a streaming forest as a `PredictiveDistribution`, by the shortest way: a stream asks every row."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.mixture import Voices
from coverwalk._kernels.stream_mixed import MixedState
from coverwalk._kernels.stream_state import CUT, DIM, LEFT, N_BINS, REACH, StreamState
from coverwalk._kernels.stream_voices import ROOM, TAIL, fill_cells, speak, speak_one
from coverwalk.covers.adaptive import AdaptiveTree
from coverwalk.distribution import PredictiveDistribution
from coverwalk.shapes import CELLS, STUDENT, Shapes

__all__ = ["OneLaw", "predict_dist", "tree_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_WIDTH = 2.0 * REACH / N_BINS
_EDGES = np.arange(N_BINS) * _WIDTH - REACH


class OneLaw(PredictiveDistribution):
    """The law of y in one row, as the kernel left it. Its parts are put together when something is asked of it.

    The voices' numbers and the counts of their histograms are copies: what the stream learns later does not show.
    """

    def __init__(self, spoken: tuple[Floats, Ints, Floats], describe: Callable[[int], Any]) -> None:
        self._spoken, self.describe, self._one = spoken, describe, False

    def __getattr__(self, name: str) -> Any:
        if name not in ("voices", "shapes", "context"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        numbers, labels, counts = self._spoken
        m = len(numbers)
        _put_parts(self, np.array([0, m]), numbers, np.arange(m, dtype=np.int32), labels[:, 1])
        self.shapes = _shapes(counts, labels[:, 0].copy(), numbers[:, 3].copy(), own=True)
        return self.__dict__[name]


def predict_dist(
    state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats, describe: Callable[[int], Any]
) -> PredictiveDistribution | None:
    """The law of y of each row. What the kernel wrote is known to be sound, and is not checked again.

    None where a value is missing and the stream is one of numbers alone.
    """
    if len(X) == 1:
        spoken = _speak_one(state, mixed, slots, X)
        return OneLaw(spoken, describe) if len(spoken[0]) else None
    offsets, room = np.zeros(len(X) + 1, np.int64), ROOM * len(X)
    while True:
        numbers, labels = np.empty((room, 4)), np.empty((room, 2), np.int64)
        m = speak(state, mixed, slots, X, offsets, numbers, labels)
        if m <= room:
            break
        room = m
    if m == 0 and len(X):
        return None
    numbers, labels = numbers[:m], labels[:m]
    codes, first, inverse = np.unique(labels[:, 0], return_index=True, return_inverse=True)
    dist = object.__new__(PredictiveDistribution)
    dist.describe, dist._one = describe, False
    _put_parts(dist, offsets, numbers, inverse.astype(np.int32), labels[:, 1])
    dist.shapes = _shapes(state.counts, codes, numbers[first, 3], own=False)
    return dist


def _speak_one(state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats) -> tuple[Floats, Ints, Floats]:
    room = 4 * ROOM
    while True:
        numbers, labels, copies = np.empty((room, 4)), np.empty((room, 2), np.int64), np.empty((room, N_BINS))
        m = speak_one(*state, mixed, slots, X, numbers, labels, copies)
        if m <= room:
            n_cells = np.count_nonzero(labels[:m, 0] < TAIL)
            return numbers[:m].copy(), labels[:m].copy(), copies[:n_cells].copy()
        room = m


def _put_parts(
    dist: PredictiveDistribution, offsets: Ints, numbers: Floats, shape: NDArray[np.int32], context: Ints
) -> None:
    weight, loc, scale = (numbers[:, column].copy() for column in range(3))
    dist.voices, dist.context = Voices(offsets, weight, loc, scale, shape), context.copy()


def _shapes(counts: Floats, codes: Ints, df: Floats, *, own: bool) -> Shapes:
    cells = codes < TAIL
    kind = np.where(cells, np.int32(CELLS), np.int32(STUDENT))
    start = np.concatenate([[0], np.cumsum(N_BINS * cells)])
    atoms = np.empty(start[-1])
    fill_cells(counts, codes, own, start, atoms)
    shapes = object.__new__(Shapes)
    shapes.__dict__.update(kind=kind, df=df, start=start, atom_weight=atoms)
    shapes.__dict__.update(atom_center=np.resize(_EDGES, len(atoms)), atom_width=np.full(len(atoms), _WIDTH))
    return shapes


def tree_of(state: StreamState, masks: Ints, slot: int) -> AdaptiveTree:
    """The cover that lives in a slot."""
    room = len(state.links) // len(state.units)
    rows = slice(slot * room, (slot + 1) * room)
    left, parent = state.links[rows, LEFT], np.full(room, -1)
    inner = np.flatnonzero(left >= 0)
    parent[left[inner]] = parent[left[inner] + 1] = inner
    return AdaptiveTree(state.links[rows, DIM], left, parent, state.contexts[rows, CUT], masks[rows])
