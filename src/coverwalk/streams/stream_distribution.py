"""The answers of a streaming forest as a `PredictiveDistribution`, made by the shortest way: a stream asks every row."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.mixture import Voices
from coverwalk._kernels.stream_local import TAIL_DF
from coverwalk._kernels.stream_state import N_BINS, NU, REACH, StreamState
from coverwalk._kernels.stream_voices import TAIL, cell_weights, speak_rows
from coverwalk.distribution import PredictiveDistribution
from coverwalk.shapes import CELLS, STUDENT, Shapes

__all__ = ["Spoken", "predict_dist", "predict_mean", "voices_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROOM = 160  # voices a row for which there is room at first
_WIDTH = 2.0 * REACH / N_BINS
_EDGES = np.arange(N_BINS) * _WIDTH - REACH
Spoken = tuple[Ints, Floats, Floats, Floats, Floats, Ints, Ints]


def voices_of(state: StreamState, slots: Ints, X: Floats, outlier_rows: float) -> Spoken:
    """offsets, weight, loc, scale, mean, code and context of the voices of rows X (n, p)."""
    offsets = np.zeros(len(X) + 1, np.int64)
    size = ROOM * max(len(X), 4)
    out = tuple(np.empty(size, kind) for kind in (float, float, float, float, np.int64, np.int64))
    row = 0
    while True:
        row = speak_rows(state, slots, X, row, outlier_rows, offsets, out)
        if row == len(X):
            break
        out = tuple(np.concatenate([column, np.empty_like(column)]) for column in out)
    m = offsets[-1]
    weight, loc, scale, mean, code, context = (column[:m] for column in out)
    return offsets, weight, loc, scale, mean, code, context


def predict_mean(spoken: Spoken) -> Floats:
    """Means (n,) of y."""
    offsets, weight, _, _, mean, _, _ = spoken
    means: Floats = np.add.reduceat(weight * mean, offsets[:-1])
    return means


def predict_dist(state: StreamState, spoken: Spoken, describe: Callable[[int], Any]) -> PredictiveDistribution:
    """The law of y of each row. What the kernel wrote is known to be sound, and is not checked again."""
    offsets, weight, loc, scale, _, code, context = spoken
    codes, shape = np.unique(code, return_inverse=True)
    n_cells, n_regressions = int(np.searchsorted(codes, TAIL)), int((codes >= 0).sum())
    df = np.full(len(codes), TAIL_DF)
    df[len(codes) - n_regressions :] = state.contexts[codes[len(codes) - n_regressions :], NU]
    kind = np.full(len(codes), STUDENT, np.int32)
    kind[:n_cells] = CELLS
    start = np.minimum(np.arange(len(codes) + 1), n_cells) * N_BINS
    shapes = object.__new__(Shapes)
    shapes.__dict__.update(
        kind=kind,
        df=df,
        start=start,
        atom_weight=cell_weights(state.counts, -2 - codes[:n_cells]).ravel(),
        atom_center=np.tile(_EDGES, n_cells),
        atom_width=np.full(n_cells * N_BINS, _WIDTH),
    )
    dist = object.__new__(PredictiveDistribution)
    dist.voices = Voices(offsets, weight, loc, scale, shape.astype(np.int32))
    dist.shapes, dist.context, dist.describe, dist._one = shapes, context, describe, False
    return dist
