"""Who speaks for a row in a streaming forest: the local models of the contexts on its way, with their weights."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.polynomial import features
from coverwalk._kernels.shapes import CELLS, STUDENT
from coverwalk._kernels.stream_local import TAIL_DF, TAIL_SCALE
from coverwalk._kernels.stream_mixed import MixedState, has_gap, side_of
from coverwalk._kernels.stream_state import (
    CHOICE,
    CUT,
    DIM,
    LEFT,
    N_BINS,
    NU,
    NU_0,
    ODDS,
    OUTLIER_ROWS,
    PSI,
    REACH,
    SCALE,
    SEAT,
    TERMS,
    StreamState,
    columns,
    degree_of,
    most_terms,
)
from coverwalk._kernels.stream_walk import approach, clamp, dot, gain

__all__ = ["TAIL", "means_of", "shapes_of", "speak_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_WEIGHT = 1e-7  # voices below it, in their tree, are left out
TAIL = -1  # code of a voice with the heavy tail; k >= 0 is the regression of context k, -2 - s the cells of seat s


@kernel
def _cells(counts: Floats, seat: int, mass: Floats, at: int) -> None:
    """Probabilities of a histogram's bins into mass[at:at + N_BINS], halving by halving, as in `cell_share`."""
    mass[at] = 1.0
    width, level = N_BINS, 1.0
    here = np.empty(N_BINS)
    here[0] = counts[seat, 0]
    while width > 1:
        half, a = width // 2, 0.25 * level
        for place in range(0, N_BINS, width):
            n, left = here[place], counts[seat, N_BINS // width + place // width]
            share = mass[at + place] / (n + 2.0 * a)
            mass[at + place], mass[at + place + half] = share * (left + a), share * (n - left + a)
            here[place], here[place + half] = left, n - left
        width, level = half, level + 1.0


@kernel
def shapes_of(contexts: Floats, counts: Floats, codes: Ints) -> tuple[NDArray[np.int32], Floats, Ints, Floats]:
    """Kind, degrees of freedom, first atom and all atoms' masses of the shapes with these codes."""
    kind, df, start = np.empty(len(codes), np.int32), np.empty(len(codes)), np.zeros(len(codes) + 1, np.int64)
    for s in range(len(codes)):
        cells = codes[s] < TAIL
        kind[s] = CELLS if cells else STUDENT
        df[s] = contexts[codes[s], NU] if codes[s] >= 0 else TAIL_DF
        start[s + 1] = start[s] + (N_BINS if cells else 0)
    atoms = np.empty(start[-1])
    for s in range(len(codes)):
        if codes[s] < TAIL:
            _cells(counts, -2 - codes[s], atoms, start[s])
    return kind, df, start, atoms


@kernel
def means_of(counts: Floats, offsets: Ints, weight: Floats, loc: Floats, scale: Floats, code: Ints) -> Floats:
    """Means (n,) of the rows' mixtures."""
    mass, mean = np.empty(N_BINS), np.zeros(len(offsets) - 1)
    for row in range(len(mean)):
        for m in range(offsets[row], offsets[row + 1]):
            middle = 0.0
            if code[m] < TAIL:
                _cells(counts, -2 - code[m], mass, 0)
                for b in range(N_BINS):
                    middle += mass[b] * (b + 0.5 - 0.5 * N_BINS)
                middle *= 2.0 * REACH / N_BINS
            mean[row] += weight[m] * (loc[m] + scale[m] * middle)
    return mean


@kernel
def speak_rows(
    state: StreamState,
    mixed: MixedState | None,
    slots: Ints,
    X: Floats,
    first: int,
    offsets: Ints,
    out: tuple[Floats, Floats, Floats, Ints, Ints],
) -> int:
    """Write the voices of rows from ``first`` on, as far as there is room; returns the row that found none.

    A row with a missing value where the stream is one of numbers alone: returns -1 - row.
    offsets (n + 1,): row i gets the voices offsets[i]:offsets[i + 1]. out: weight, loc, scale, code, context.
    """
    links, contexts, counts, units = state
    weight, loc, scale, code, context = out
    K, S, p = len(slots), len(units), X.shape[1]
    room, seats = len(links) // S, len(counts) // S
    d_max = most_terms(contexts, p)
    theta, centre, low, high, at_P = columns(d_max, p)
    top = degree_of(d_max, p)
    Z, leaves, x, F, k = np.empty((K, p)), np.empty(K, np.int64), np.empty(p), np.empty((2, d_max)), np.empty(d_max)
    R = Z if mixed is None else np.empty((K, p))
    for row in range(first, len(X)):
        m = offsets[row]
        total = 0.0
        if mixed is None and has_gap(X, row):
            return -1 - row
        approach(state, mixed, slots, X, row, R, Z, leaves)
        for t in range(K):
            slot, z = slots[t], Z[t]
            base, shift, unit = slot * room, units[slot, 0, p], units[slot, 1, p]
            if m + 1 > len(weight):
                return row
            outlier = OUTLIER_ROWS / (contexts[base, NU] - NU_0 + 1.0)
            weight[m], loc[m], scale[m], code[m], context[m] = outlier, shift, TAIL_SCALE * unit, TAIL, -1
            total += outlier
            m += 1
            features(z, top, F[0])
            i, log_reach = base, math.log(1.0 - outlier)
            while True:
                odds = contexts[i, ODDS]
                # softplus(L) = log(1 + e^L): log w = L - it, log(1 - w) = -it
                stop, go = 1.0, 0.0
                if links[i, LEFT] >= 0:
                    ratio = math.exp(-abs(odds))
                    stop = 1.0 / (1.0 + ratio) if odds > 0.0 else ratio / (1.0 + ratio)
                    go = ratio / (1.0 + ratio) if odds > 0.0 else 1.0 / (1.0 + ratio)
                w = math.exp(log_reach) * stop
                if w >= LEAST_WEIGHT:
                    if m + 3 > len(weight):
                        return row
                    q = clamp(z, contexts, i, low, high, top, x, F)
                    v = 1.0
                    if links[i, SEAT] >= 0:
                        ratio = math.exp(-abs(contexts[i, CHOICE]))
                        v = 1.0 / (1.0 + ratio) if contexts[i, CHOICE] > 0.0 else ratio / (1.0 + ratio)
                        rest = ratio / (1.0 + ratio) if contexts[i, CHOICE] > 0.0 else 1.0 / (1.0 + ratio)
                        if w * rest >= LEAST_WEIGHT:
                            seat = slot * seats + links[i, SEAT]
                            n, inside = contexts[i, NU] - NU_0, counts[seat, 0]
                            middle = shift + unit * dot(contexts, i, centre, d_max, F, q)
                            size = unit * contexts[i, SCALE]
                            weight[m], weight[m + 1] = (
                                w * rest * (inside + 1.0) / (n + 2.0),
                                w * rest * (n - inside + 1.0) / (n + 2.0),
                            )
                            loc[m], loc[m + 1] = middle, middle
                            scale[m], scale[m + 1] = size, TAIL_SCALE * size
                            code[m], code[m + 1] = -2 - seat, TAIL
                            context[m], context[m + 1] = i, i
                            total += w * rest
                            m += 2
                    if w * v >= LEAST_WEIGHT:
                        h = gain(contexts, i, at_P, links[i, TERMS], F, q, k)
                        weight[m], code[m], context[m] = w * v, i, i
                        loc[m] = shift + unit * dot(contexts, i, theta, d_max, F, q)
                        scale[m] = unit * math.sqrt(contexts[i, PSI] * (1.0 + h) / contexts[i, NU])
                        total += w * v
                        m += 1
                left = links[i, LEFT]
                if left < 0 or go == 0.0:
                    break
                log_reach += math.log(go)
                if log_reach < math.log(LEAST_WEIGHT):
                    break
                i = base + left + side_of(mixed, R[t, links[i, DIM]], contexts[i, CUT], i)
        for q in range(offsets[row], m):
            weight[q] /= total
        offsets[row + 1] = m
    return len(X)
