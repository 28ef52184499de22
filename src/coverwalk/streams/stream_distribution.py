"""The answers of a streaming forest as a `PredictiveDistribution`, by the shortest way: a stream asks every row."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.mixture import Voices
from coverwalk._kernels.stream_mixed import MixedState
from coverwalk._kernels.stream_state import CUT, DIM, LEFT, N_BINS, REACH, StreamState
from coverwalk._kernels.stream_voices import means_of, shapes_of, speak_rows
from coverwalk.covers.adaptive import AdaptiveTree
from coverwalk.distribution import PredictiveDistribution
from coverwalk.shapes import Shapes

__all__ = ["predict_dist", "predict_mean", "tree_of", "voices_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROOM = 160  # voices a row for which there is room at first
_WIDTH = 2.0 * REACH / N_BINS
_EDGES = np.tile(np.arange(N_BINS) * _WIDTH - REACH, 512)  # for as many histograms; more are a call of many rows
_WIDTHS = np.full(len(_EDGES), _WIDTH)
Spoken = tuple[Ints, Floats, Floats, Floats, Ints, Ints]


def voices_of(state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats) -> Spoken | None:
    """offsets, weight, loc, scale, code and context of the voices of rows X (n, p); None where one has a gap that a
    stream of numbers alone cannot take.
    """
    offsets = np.zeros(len(X) + 1, np.int64)
    size = ROOM * max(len(X), 4)
    out = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)
    row = 0
    while True:
        row = speak_rows(state, mixed, slots, X, row, offsets, out)
        if row < 0:
            return None
        if row == len(X):
            break
        weight, loc, scale, code, context = (np.concatenate([column, np.empty_like(column)]) for column in out)
        out = weight, loc, scale, code, context
    m = int(offsets[-1])
    weight, loc, scale, code, context = out
    return offsets, weight[:m], loc[:m], scale[:m], code[:m], context[:m]


def predict_mean(state: StreamState, spoken: Spoken) -> Floats:
    """Means (n,) of y."""
    means: Floats = means_of(state.counts, *spoken[:5])
    return means


def predict_dist(state: StreamState, spoken: Spoken, describe: Callable[[int], Any]) -> PredictiveDistribution:
    """The law of y of each row. What the kernel wrote is known to be sound, and is not checked again."""
    offsets, weight, loc, scale, code, context = spoken
    if len(offsets) == 2:
        codes, shape = code, np.arange(len(code), dtype=np.int32)
    else:
        codes, inverse = np.unique(code, return_inverse=True)
        shape = inverse.astype(np.int32)
    kind, df, start, atoms = shapes_of(state.contexts, state.counts, codes)
    shapes = object.__new__(Shapes)
    shapes.__dict__.update(kind=kind, df=df, start=start, atom_weight=atoms)
    edges, widths = (
        (table[: len(atoms)] if len(atoms) <= len(table) else np.resize(table, len(atoms)))
        for table in (_EDGES, _WIDTHS)
    )
    shapes.__dict__.update(atom_center=edges, atom_width=widths)
    dist = object.__new__(PredictiveDistribution)
    dist.voices = Voices(offsets, weight, loc, scale, shape)
    dist.shapes, dist.context, dist.describe, dist._one = shapes, context, describe, False
    return dist


def tree_of(state: StreamState, masks: Ints, slot: int) -> AdaptiveTree:
    """The cover that lives in a slot."""
    room = len(state.links) // len(state.units)
    rows = slice(slot * room, (slot + 1) * room)
    left, parent = state.links[rows, LEFT], np.full(room, -1)
    inner = np.flatnonzero(left >= 0)
    parent[left[inner]] = parent[left[inner] + 1] = inner
    return AdaptiveTree(state.links[rows, DIM], left, parent, state.contexts[rows, CUT], masks[rows])
