"""The state of a forest that learns row by row: flat arrays, a slot of contexts for every tree and one to grow in."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.polynomial import n_features
from coverwalk.files.schema import Array, stored

__all__ = [
    "LEAST_SCALE",
    "NU_0",
    "N_BINS",
    "StreamState",
    "all_finite",
    "blank_state",
    "columns",
    "degree_of",
    "scale_row",
    "stride_of",
    "to_units",
    "top_degree",
    "width_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

U = np.uint64

LEFT, DIM, TERMS, SEAT = range(4)  # columns of `links`
# First columns of `contexts`, and of what follows them: counted without a sign, as no place is counted from the end.
CUT, NU, PSI, ODDS, ODDS_STEPS, CHOICE, CHOICE_STEPS, SCALE, RIDGE, SEEN, HEAD = (np.uint64(k) for k in range(11))

NU_0 = 2.0  # a context's variance starts at its parent's, with the weight of this many rows
LEAST_SCALE = 1e-4  # of a residual, in units of y's scale
OUTLIER_ROWS = 0.1  # weight, in rows, of a heavy-tailed law over all of y
N_BINS = 64  # of a histogram of residuals: a power of two
REACH = 4.0  # it spans [-REACH, REACH] scales
FARTHEST = 1e70  # distances beyond it, in units, count as this: their fourth powers must not overflow
BULK = 4.0  # units up to which inputs are taken as they are; logarithms beyond, as in `forests.scaling`


@stored(
    units=Array(float, "slots", 2, "p + 1"),
    links=Array(np.int64, "slots * room", 4),
    contexts=Array(float, "slots * room", "width", nan=True),
    counts=Array(float, "slots * seats", N_BINS, low=0),
)
class StreamState(NamedTuple):
    """Slot s holds the contexts of one tree at s * room : s * room + N, parents first, siblings side by side.

    What a row touches of a context lies in one run of memory, a row of ``contexts``: the cut; nu and psi of the
    regression; odds to stop and those of the regression against the histogram, each with its steps (`odds`); scale of
    the histogram; ridge; number of the last row that came; then centre (d), the coefficients at the growth; low (p) and
    high (p), the range of the rows; and [P theta] (terms, stride): the inverse of ridge + F'F with the coefficients as
    a further column, because one product with f gives P f and f'theta, and one step updates both.
    """

    links: Ints  # (slots * room, 4) left child or -1, the input that is cut, terms of the polynomial, seat or -1
    contexts: Floats  # (slots * room, width_of(d, p))
    counts: Floats  # (slots * seats, N_BINS) residuals in the left half of each dyadic cell; [0]: in all bins
    units: Floats  # (slots, 2, p + 1) centre and scale of the inputs and of y


def blank_state(slots: int, room: int, seats: int, p: int, d: int) -> StreamState:
    """Trees of one context that holds nothing."""
    links = np.full((slots * room, 4), -1, np.int64)
    links[:, TERMS] = 1
    contexts = np.zeros((slots * room, width_of(d, p)))
    # A Student t with three degrees and scale one; the first row replaces it.
    for column, value in ((NU, NU_0 + 1.0), (PSI, NU_0 + 1.0), (SCALE, 1.0), (ODDS, 1.0), (CHOICE, 1.0)):
        contexts[::room, column] = value
    units = np.ones((slots, 2, p + 1))
    units[:, 0] = 0.0
    return StreamState(links, contexts, np.zeros((slots * seats, N_BINS)), units)


@kernel
def all_finite(row: Floats) -> bool:
    """Whether a row (1, p) has finite numbers only; NumPy takes five times as long for a few."""
    finite = True
    for a in range(row.shape[1]):
        finite &= abs(row[0, a]) < math.inf
    return finite


@kernel
def stride_of(terms: int) -> int:
    """Columns of [P theta]: whole blocks of four, the rest zero."""
    return (terms + 4) // 4 * 4


@kernel
def width_of(d: int, p: int) -> int:
    """Numbers of a context."""
    return int(HEAD) + d + 2 * p + d * stride_of(d)


@kernel
def columns(d: int, p: int) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Where centre, low, high and [P theta] begin in a row of contexts."""
    return HEAD, HEAD + U(d), HEAD + U(d + p), HEAD + U(d + 2 * p)


@kernel
def top_degree(contexts: Floats, p: int) -> int:
    """The degree that polynomials may have, from the width of a context."""
    degree = 0
    while degree < 2 and width_of(n_features(degree, p), p) != contexts.shape[1]:
        degree += 1
    return degree


@kernel
def degree_of(d: int, p: int) -> int:
    """The degree of polynomials with d terms."""
    if d == 1:
        return 0
    return 1 if d == p + 1 else 2


@kernel
def to_units(x: float, centre: float, scale: float) -> float:
    """X in units; by halves, because a difference of two numbers of opposite sign may overflow."""
    z = (0.5 * x - 0.5 * centre) / (0.5 * scale)
    return min(max(z, -FARTHEST), FARTHEST)


@kernel
def squash(z: float) -> float:
    """The logarithmic tails of inputs."""
    if abs(z) <= BULK:
        return z
    far = BULK + math.log(abs(z) - (BULK - 1.0))
    return far if z > 0.0 else -far


@kernel
def scale_row(X: Floats, row: int, units: Floats, slot: int, z: Floats) -> None:
    """A row of inputs in a tree's units, as `Scaling.forward`."""
    for a in range(len(z)):
        z[a] = squash(to_units(X[row, a], units[slot, 0, a], units[slot, 1, a]))
