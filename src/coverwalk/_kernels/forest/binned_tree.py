"""The Bayes tree density over the bins of one context: cells halved again and again, each uniform or two halves.

For a cell with n rows, relative to the uniform law on it, and halves with l and r rows,

    Z = 1/2 + 1/2 B(l + 1/2, r + 1/2) / B(1/2, 1/2) 2^n Z_left Z_right,        Z = 1 for n <= 1 and for a single bin

The density of a row given the others is the ratio of Z with and without it: a walk up one path. With stop = 1 / (2 Z),
the posterior of a uniform cell, it needs no logarithm: Z' being without a row of the left half,

    Z' / Z = stop + (1 - stop) n / (2 l - 1) Z'_left / Z_left.

Cells are numbered as in a heap: 1 is all bins, 2 k and 2 k + 1 are the halves of k, N_BINS + b is bin b.
"""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.kernel_density import BIN, MIDDLE, N_BINS

__all__ = [
    "BOXES",
    "CENTRE",
    "base_height",
    "box_widths",
    "gamma_tables",
    "tree_bins_evidence",
    "tree_density",
    "tree_evidence",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]

REACH = 0.5 * N_BINS * BIN
CENTRE = (0.5 * N_BINS - MIDDLE) * BIN  # of all bins, and of the boxes under them
TABLED = 2**14  # rows up to which log Gamma is looked up
FEW = 64  # rows of a cell up to which Z, at most 128^64, and what follows stay within the range of floats
ODD_PRODUCT = np.cumprod([1.0, *range(1, 2 * FEW, 2)])  # 2^l Gamma(l + 1/2) / Gamma(1/2)
FACTORIAL = np.cumprod([1.0, *range(1, FEW + 1)])
BOXES = (0.9, 0.08, 0.02)  # shares of three uniform boxes under the cells, with the weight of one row


@kernel
def box_widths(n: int) -> tuple[float, float, float]:
    """Half widths of the boxes, in root mean squares: of n rows none is beyond sqrt(n) of them, up to rounding."""
    return REACH, 2.0 * REACH, max(4.0 * REACH, 1.001 * math.sqrt(n) - CENTRE)


@kernel
def gamma_tables(n: int) -> tuple[Floats, Floats]:
    """log Gamma(k + 1/2) and log Gamma(k + 1), k = 0..n, or up to TABLED."""
    n = min(n, TABLED)
    half, whole = np.empty(n + 1), np.empty(n + 1)
    half[0], whole[0] = 0.5 * math.log(math.pi), 0.0
    for k in range(1, n + 1):
        half[k] = half[k - 1] + math.log(k - 0.5)
        whole[k] = whole[k - 1] + math.log(k)
    return half, whole


@kernel
def _looked_up(table: Floats, k: int, offset: float) -> float:
    """log Gamma(k + offset)."""
    found: float = table[k] if k < len(table) else math.lgamma(k + offset)
    return found


@kernel
def _cells(counts: Counts, gammas: tuple[Floats, Floats]) -> tuple[NDArray[np.int64], Floats]:
    """Rows of every cell, and the posterior probability that it is uniform."""
    half, whole = gammas
    # z is Z in cells of few rows, as most are, and log Z in others: logarithms would be most of the work
    n, z, stop = np.zeros(2 * N_BINS, np.int64), np.ones(2 * N_BINS), np.ones(2 * N_BINS)
    for b in range(N_BINS):
        n[N_BINS + b] = counts[b]
        if counts[b] > FEW:
            z[N_BINS + b] = 0.0
    for k in range(N_BINS - 1, 0, -1):
        l, r = n[2 * k], n[2 * k + 1]
        n[k] = l + r
        if n[k] == 0:
            continue
        if n[k] <= FEW:
            go = ODD_PRODUCT[l] * ODD_PRODUCT[r] / FACTORIAL[n[k]] * z[2 * k] * z[2 * k + 1]
            z[k] = 0.5 + 0.5 * go
            stop[k] = 0.5 / z[k]
            continue
        log_go = _looked_up(half, l, 0.5) + _looked_up(half, r, 0.5) - _looked_up(whole, n[k], 1.0)
        log_go += n[k] * math.log(2.0) - math.log(math.pi)
        log_go += math.log(z[2 * k]) if l <= FEW else z[2 * k]
        log_go += math.log(z[2 * k + 1]) if r <= FEW else z[2 * k + 1]
        t = math.exp(-abs(log_go))
        z[k] = math.log(0.5) + max(log_go, 0.0) + math.log1p(t)
        stop[k] = (1.0 if log_go < 0.0 else t) / (1.0 + t)
    return n, stop


@kernel
def base_height(e: float, n_rows: int) -> float:
    """Density of the three boxes."""
    total = 0.0
    widths = box_widths(n_rows)
    for j in range(3):
        if abs(e - CENTRE) <= widths[j]:
            total += BOXES[j] / (2.0 * widths[j])
    return total


@kernel
def tree_evidence(e: Floats, scale: float, counts: Counts, gammas: tuple[Floats, Floats]) -> float:
    """Leave-one-out log density of rows e (n,), counted into bins of scale / 16 already."""
    n_rows, n_out, log_outside = len(e), 0, 0.0
    for q in range(n_rows):
        place = e[q] / (scale * BIN) + MIDDLE
        if not 0.0 <= place < N_BINS:
            n_out += 1
            log_outside += math.log(base_height(e[q] / scale, n_rows))
    score: float = tree_bins_evidence(counts, n_rows, n_out, log_outside, scale, gammas)
    return score


@kernel
def tree_bins_evidence(
    counts: Counts, n_rows: int, n_out: int, log_outside: float, scale: float, gammas: tuple[Floats, Floats]
) -> float:
    """Leave-one-out log density of n rows, of which n_out are beyond the bins, with log densities of the base that sum
    to log_outside.

    Of a row given the others: ((n_in - 1) tree + (1 + n_out) base) / n for a row in the bins; n_out base / n beyond.
    """
    n, stop = _cells(counts, gammas)
    score = log_outside + n_out * math.log(max(n_out, 1)) - n_rows * math.log(n_rows * scale)
    base = (1 + n_out) * base_height(0.0, n_rows)
    for b in range(N_BINS):
        if counts[b] == 0:
            continue
        without, k = 1.0, N_BINS + b
        while k > 1:
            up = k // 2
            without = stop[up] + (1.0 - stop[up]) * n[up] / (2.0 * n[k] - 1.0) * without
            k = up
        score += counts[b] * math.log((n[1] - 1) / (2.0 * REACH * without) + base)
    return score


@kernel
def tree_density(counts: Counts, gammas: tuple[Floats, Floats], height: Floats) -> None:
    """Fill height (N_BINS,): the density of the next row in each bin, given the rows counted."""
    n, stop = _cells(counts, gammas)
    reach, uniform = np.zeros(2 * N_BINS), np.zeros(2 * N_BINS)
    reach[1] = 1.0
    width = 2.0 * REACH
    first = 1
    while first < N_BINS:
        for k in range(first, 2 * first):
            for child in range(2 * k, 2 * k + 2):
                uniform[child] = uniform[k] + reach[k] * stop[k] / width
                reach[child] = reach[k] * (1.0 - stop[k]) * (n[child] + 0.5) / (n[k] + 1.0)
        first *= 2
        width *= 0.5
    for b in range(N_BINS):
        height[b] = uniform[N_BINS + b] + reach[N_BINS + b] / width
