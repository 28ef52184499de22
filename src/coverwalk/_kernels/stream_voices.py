"""Who speaks for a row in a streaming forest: the local models of the contexts on its way, with their weights."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels import stream_state as at
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.polynomial import features, n_features
from coverwalk._kernels.stream_local import TAIL_DF, TAIL_SCALE
from coverwalk._kernels.stream_mixed import MixedState, has_gap
from coverwalk._kernels.stream_state import N_BINS, NU_0, REACH, StreamState, columns
from coverwalk._kernels.stream_walk import approach, child_of, clamp, gain, polynomial, room_to_work

__all__ = ["ROOM", "TAIL", "fill_cells", "mean_of", "means_of", "speak", "speak_one"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# voices: numbers (m, 4) weight, loc, scale and degrees of freedom; labels (m, 2) code and context
Spoken = tuple[Floats, Ints]

LEAST_WEIGHT = 1e-7  # voices below it, in their tree, are left out
TAIL = -1  # code of a voice with the heavy tail; k >= 0 is the regression of context k, -2 - s the cells of seat s
ROOM = 160  # voices a row for which there is room at first

U = np.uint64
U0 = U(0)


@kernel
def _shares(g: float, steps: float) -> tuple[float, float]:
    """g / (1 + g) and 1 / (1 + g) of odds with steps."""
    if steps != 0.0:
        return (1.0, 0.0) if steps > 0.0 else (0.0, 1.0)
    rest = 1.0 / (1.0 + g)
    return g * rest, rest


@kernel
def _put(spoken: Spoken, m: int, weight: float, loc: float, scale: float, df: float, code: int, context: int) -> None:
    numbers, labels = spoken
    numbers[m, 0], numbers[m, 1], numbers[m, 2], numbers[m, 3] = weight, loc, scale, df
    labels[m, 0], labels[m, 1] = code, context


@kernel
def _speak_rows(
    state: StreamState,
    mixed: MixedState | None,
    slots: Ints,
    X: Floats,
    first: int,
    offsets: Ints,
    spoken: Spoken,
) -> int:
    """Write the voices of rows from ``first`` on, as far as there is room; returns the row that found none.

    offsets (n + 1,): row i gets the voices offsets[i]:offsets[i + 1].
    """
    links, contexts, counts, units = state
    K, S, p = len(slots), len(units), X.shape[1]
    room, seats = len(links) // S, len(counts) // S
    top = at.top_degree(contexts, p)
    d = n_features(top, p)
    c, width = contexts.reshape(-1), U(contexts.shape[1])
    centre, low, _, M = columns(d, p)
    Z, F, k = room_to_work(K, p, d)
    R, leaf = Z if mixed is None else np.empty((K, p)), np.empty(K, np.int64)
    numbers = spoken[0]
    for row in range(first, len(X)):
        m, total = offsets[row], 0.0
        approach(state, mixed, slots, X, row, R, Z, leaf)
        for t in range(K):
            slot = slots[t]
            base, shift, unit = slot * room, units[slot, 0, p], units[slot, 1, p]
            if m + 1 > len(numbers):
                return row
            outlier = at.OUTLIER_ROWS / (contexts[base, at.NU] - NU_0 + 1.0)
            _put(spoken, m, outlier, shift, TAIL_SCALE * unit, TAIL_DF, TAIL, -1)
            total += outlier
            m += 1
            features(Z[t], top, F)
            i, reach = base, 1.0 - outlier
            while i >= 0 and reach >= LEAST_WEIGHT:
                o, terms, seat = U(i) * width, U(links[i, at.TERMS]), links[i, at.SEAT]
                stop, go = 1.0, 0.0
                if links[i, at.LEFT] >= 0:
                    stop, go = _shares(c[o + at.ODDS], c[o + at.ODDS_STEPS])
                w = reach * stop
                reach *= go
                if w >= LEAST_WEIGHT:
                    if m + 3 > len(numbers):
                        return row
                    f = clamp(c, o + low, p, Z, t, top, F)
                    rest = polynomial(c, o + centre, terms, U(d), F, f)
                    v, other, n = 1.0, 0.0, c[o + at.NU] - NU_0
                    if seat >= 0:
                        v, other = _shares(c[o + at.CHOICE], c[o + at.CHOICE_STEPS])
                    if w * other >= LEAST_WEIGHT:
                        inside = counts[slot * seats + seat, 0]
                        middle = shift + unit * (polynomial(c, o + centre, U0, terms, F, f) + rest)
                        size, each = unit * c[o + at.SCALE], w * other / (n + 2.0)
                        _put(spoken, m, each * (inside + 1.0), middle, size, TAIL_DF, -2 - (slot * seats + seat), i)
                        _put(spoken, m + 1, each * (n - inside + 1.0), middle, TAIL_SCALE * size, TAIL_DF, TAIL, i)
                        total += w * other
                        m += 2
                    if w * v >= LEAST_WEIGHT:
                        h = gain(c, o + M, terms, F, f, k)
                        size = unit * math.sqrt(c[o + at.PSI] * (1.0 + h) / c[o + at.NU])
                        _put(spoken, m, w * v, shift + unit * (k[terms] + rest), size, c[o + at.NU], i, i)
                        total += w * v
                        m += 1
                i = child_of(state, mixed, base, i, R, t)
        for q in range(offsets[row], m):
            numbers[q, 0] /= total
        offsets[row + 1] = m
    return len(X)


@kernel
def _speak(state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats) -> tuple[Ints, Floats, Ints]:
    """Offsets (n + 1,), numbers (m, 4) and labels (m, 2) of the voices of rows X (n, p).

    None of them where a value is missing and the stream is one of numbers alone.
    """
    offsets, row = np.zeros(len(X) + 1, np.int64), 0
    if mixed is None:
        for i in range(len(X)):
            if has_gap(X, i):
                return offsets[:0], np.empty((0, 4)), np.empty((0, 2), np.int64)
    size = ROOM * max(len(X), 4)
    numbers, labels = np.empty((size, 4)), np.empty((size, 2), np.int64)
    while True:
        row = _speak_rows(state, mixed, slots, X, row, offsets, (numbers, labels))
        if row == len(X):
            return offsets, numbers[: offsets[-1]], labels[: offsets[-1]]
        more_numbers, more_labels = np.empty((2 * len(numbers), 4)), np.empty((2 * len(labels), 2), np.int64)
        for m in range(offsets[row]):
            for column in range(4):
                more_numbers[m, column] = numbers[m, column]
            for column in range(2):
                more_labels[m, column] = labels[m, column]
        numbers, labels = more_numbers, more_labels


@kernel
def speak(
    state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats, offsets: Ints, numbers: Floats, labels: Ints
) -> int:
    """Write the voices of rows X (n, p): offsets (n + 1,), and the first m of numbers and labels if they have room.

    Returns m, the number of voices; 0 where a value is missing and the stream is one of numbers alone.
    """
    own_offsets, own_numbers, own_labels = _speak(state, mixed, slots, X)
    if len(own_offsets) == 0 or len(own_numbers) > len(numbers):
        return len(own_numbers)
    for i in range(len(own_offsets)):
        offsets[i] = own_offsets[i]
    for m in range(len(own_numbers)):
        for column in range(4):
            numbers[m, column] = own_numbers[m, column]
        for column in range(2):
            labels[m, column] = own_labels[m, column]
    return len(own_numbers)


@kernel
def speak_one(
    links: Ints,
    contexts: Floats,
    counts: Floats,
    units: Floats,
    mixed: MixedState | None,
    slots: Ints,
    X: Floats,
    numbers: Floats,
    labels: Ints,
    copies: Floats,
) -> int:
    """As `speak` for one row; and the counts of the histograms among the voices, into the first of copies (m, N_BINS).

    The state comes as its arrays, as in `learn_row`.
    """
    offsets = np.empty(2, np.int64)
    n_voices = speak(StreamState(links, contexts, counts, units), mixed, slots, X, offsets, numbers, labels)
    size = 0
    for m in range(n_voices if n_voices <= len(numbers) else 0):
        if labels[m, 0] < TAIL:
            seat = -2 - labels[m, 0]
            for b in range(N_BINS):
                copies[size, b] = counts[seat, b]
            size += 1
    return n_voices


@kernel
def _cells(counts: Floats, seat: int, mass: Floats, first: int) -> None:
    """Probabilities of a histogram's bins into mass[first:first + N_BINS], halving by halving, as `histogram` does."""
    mass[first] = 1.0
    width, level = N_BINS, 1.0
    here = np.empty(N_BINS)
    here[0] = counts[seat, 0]
    while width > 1:
        half, a = width // 2, 0.25 * level
        for place in range(0, N_BINS, width):
            n, left = here[place], counts[seat, N_BINS // width + place // width]
            share = mass[first + place] / (n + 2.0 * a)
            mass[first + place], mass[first + place + half] = share * (left + a), share * (n - left + a)
            here[place], here[place + half] = left, n - left
        width, level = half, level + 1.0


@kernel
def fill_cells(counts: Floats, codes: Ints, own: bool, start: Ints, atoms: Floats) -> None:
    """Masses of the atoms of shapes by their codes, start (s + 1,) the first of each; own: counts of `speak_one`."""
    for s in range(len(codes)):
        if codes[s] < TAIL:
            _cells(counts, start[s] // N_BINS if own else -2 - codes[s], atoms, start[s])


@kernel
def _middle(counts: Floats, seat: int, here: Floats, mass: Floats) -> float:
    """The mean of a histogram in units of its scale: each halving moves its cell's mass by how unequal the halves are.

    here, mass (N_BINS / 2,): room to work.
    """
    here[0], mass[0], total = counts[seat, 0], 1.0, 0.0
    nodes, a, width = 1, 0.25, 2.0 * REACH
    while True:
        shift = 0.0
        last = 2 * nodes == N_BINS
        for q in range(nodes - 1, -1, -1):  # backwards: a cell's halves are written over what has been read
            n, left, share = here[q], counts[seat, nodes + q], mass[q] / (here[q] + 2.0 * a)
            shift += share * (n - 2.0 * left)
            if not last:
                here[2 * q], here[2 * q + 1] = left, n - left
                mass[2 * q], mass[2 * q + 1] = share * (left + a), share * (n - left + a)
        total += 0.25 * width * shift
        if last:
            return total
        nodes, a, width = 2 * nodes, a + 0.25, 0.5 * width


@kernel
def means_of(state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats, mean: Floats) -> bool:
    """Write the means (n,) of y in rows X (n, p), zeros before; False where `speak` says nothing."""
    offsets, numbers, labels = _speak(state, mixed, slots, X)
    here, mass = np.empty(N_BINS // 2), np.empty(N_BINS // 2)
    for row in range(len(offsets) - 1):
        for m in range(offsets[row], offsets[row + 1]):
            loc = numbers[m, 1]
            if labels[m, 0] < TAIL:
                loc += numbers[m, 2] * _middle(state.counts, -2 - labels[m, 0], here, mass)
            mean[row] += numbers[m, 0] * loc
    return len(offsets) > 0


@kernel
def mean_of(
    links: Ints, contexts: Floats, counts: Floats, units: Floats, mixed: MixedState | None, slots: Ints, X: Floats
) -> float:
    """The mean of y in one row X (1, p), NaN where `speak` says nothing; the state comes as its arrays, as in
    `learn_row`.
    """
    means = np.zeros(1)
    told = means_of(StreamState(links, contexts, counts, units), mixed, slots, X, means)
    return means[0] if told else math.nan
