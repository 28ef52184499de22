"""The two local models of a context on a stream: a Student t about a regression, and a histogram of residuals."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.stream_state import N_BINS, REACH
from coverwalk._kernels.student import log1p

__all__ = ["TAIL_DF", "TAIL_SCALE", "add_count", "bin_of", "histogram", "put_counts", "share_of", "student", "tail"]

Floats = NDArray[np.float64]

TAIL_DF, TAIL_SCALE = 3.0, 2.0  # the law of residuals beyond the bins, in units of their scale
TAIL_HEIGHT = math.exp(math.lgamma(2.0) - math.lgamma(1.5)) / math.sqrt(3.0 * math.pi) / TAIL_SCALE

U = np.uint64


@kernel
def student(e: float, nu: float, spread: float) -> tuple[float, float]:
    """Density of a Student t with nu degrees at distance e, its squared scale being spread / nu, as (root, power).

    It is root * exp(power), whose power may be far below what exp can hold. Gamma((nu+1)/2) / Gamma(nu/2) by its series
    in 2/nu, after steps to where that is exact to rounding.
    """
    a, above, below = 0.5 * nu, 1.0, 1.0
    while a < 8.0:
        above *= a
        below *= a + 0.5
        a += 1.0
    steps = above / below
    b = 1.0 / a
    c = b * b
    series = -b * (1 / 8 - c * (1 / 192 - c * (1 / 640 - c * (17 / 14336 - c * 31 / 18432))))
    root = steps * math.sqrt(a / (math.pi * spread))
    return root, series - 0.5 * (nu + 1.0) * log1p(e * e / spread)


@kernel
def tail(e: float) -> float:
    """Density of the heavy-tailed law of residuals: a Student t with three degrees, without a logarithm."""
    height = 1.0 + e * e * (1.0 / (TAIL_SCALE * TAIL_SCALE * TAIL_DF))
    return TAIL_HEIGHT / (height * height)


@kernel
def bin_of(e: float) -> int:
    """The bin of a residual; -1 for none."""
    place = (e + REACH) * (0.5 * N_BINS / REACH)
    return int(place) if 0.0 <= place < N_BINS else -1


@kernel
def add_count(bins: Floats, seat: np.uint64, b: int, weight: float) -> None:
    """Count a residual in bin b; the counts begin at place `seat`.

    Halves are chosen by arithmetic, here and in `share_of`: a branch that goes either way as often costs more.
    """
    bins[seat] += weight
    node, half = 1, N_BINS // 2
    while half > 0:
        right = (b // half) & 1
        bins[seat + U(node)] += weight * (1 - right)
        node = 2 * node + right
        half //= 2


@kernel
def put_counts(cells: Floats, bins: Floats, seat: np.uint64) -> None:
    """Counts from those of the single bins, cells (N_BINS,), which are lost."""
    half = N_BINS // 2
    while half > 0:
        for q in range(half):
            left = cells[2 * q]
            bins[seat + U(half + q)] = left
            cells[q] = left + cells[2 * q + 1]
        half //= 2
    bins[seat] = cells[0]


@kernel
def share_of(bins: Floats, seat: np.uint64, b: int, without: float) -> float:
    """Probability of bin b among the bins, times their number.

    A Polya tree: the share of a half at level l is Beta(a, a) with a = l / 4, so that finer halves are taken for more
    equal; a = l^2 / 2 was too smooth for laws of several modes, by 0.01 to 0.1 nats. `without` rows of this bin do not
    count.
    """
    here = bins[seat]
    above, below, node, half, a = 1.0, 1.0, 1, N_BINS // 2, 0.25
    while half > 0:
        left = bins[seat + U(node)]
        right = (b // half) & 1
        side = left + right * (here - 2.0 * left)
        node = 2 * node + right
        above *= 2.0 * (side - without + a)
        below *= here - without + 2.0 * a
        here = side
        half //= 2
        a += 0.25
    return above / below


@kernel
def histogram(bins: Floats, seat: np.uint64, n: float, e: float) -> float:
    """Density of a residual e given n rows.

    In the bins with the weight of their rows and one, and everywhere, with that of the others and one, the heavy tail.
    """
    b = bin_of(e)
    inside = bins[seat]
    outside = n - inside
    height = (outside + 1.0) * tail(e)
    if b >= 0:
        height += (inside + 1.0) * (0.5 / REACH) * share_of(bins, seat, b, 0.0)
    return height / (n + 2.0)
