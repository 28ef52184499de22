"""Kernel density of the residuals of one context, binned; its bandwidth is chosen by leave-one-out evidence."""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import fused_kernel, kernel

N_BINS, H = 128, 8  # bins, bandwidths
BIN = 1.0 / 16.0  # in units of the context's own scale: the bins reach four scales to either side
# The place of zero, in bins: in the middle of one, so that residuals that are zero but for rounding stand together and
# the density of a value that all rows have is even about it.
MIDDLE = 0.5 * N_BINS + 0.5
GIVE_UP = 2.0  # nats that a finer bandwidth may lose before the search ends
# Under the kernels, with the weight of one row and of the rows beyond the bins: three wide normals.
BASE_WEIGHT, BASE_WIDTH = (0.6, 0.3, 0.1), (1.0, 3.0, 9.0)


def bandwidths() -> Floats:
    """The grid h = 2^(-0.6 k), in units of the context's scale."""
    return np.asarray(2.0 ** (-0.6 * np.arange(H)))


def bin_centres() -> Floats:
    """The middles of the bins, in units of the context's scale."""
    return np.asarray((np.arange(N_BINS) + 0.5 - MIDDLE) * BIN)


def kernel_tables() -> tuple[Floats, Floats]:
    """Normal kernels by difference in bins, 0 in the middle, (2 N_BINS - 1, H), and the base density at the bins'
    centres (N_BINS,).
    """
    h, apart = bandwidths(), np.arange(1 - N_BINS, N_BINS)[:, None] * BIN
    kernels = np.exp(-0.5 * (apart / h) ** 2) / (h * math.sqrt(2.0 * math.pi))
    return kernels, np.array([base_density(e) for e in bin_centres()])


@kernel
def base_density(e: float) -> float:
    """The base's density; at least the least normal number, which is that of 340 scales."""
    total = 0.0
    for j in range(3):
        t = e / BASE_WIDTH[j]
        total += BASE_WEIGHT[j] / BASE_WIDTH[j] * math.exp(-0.5 * t * t)
    return max(total / math.sqrt(2.0 * math.pi), 1e-300)


@fused_kernel
def weighted_sums(e: Floats, w: Floats) -> tuple[float, float, float]:
    """The sums of w, w e and w e^2; w (n,), or none: all are one."""
    total, first, square = 0.0, 0.0, 0.0
    for q in range(len(e)):
        own = 1.0 if len(w) == 0 else w[q]
        total += own
        first += own * e[q]
        square += own * e[q] * e[q]
    return total, first, square


@kernel
def _bin(e: Floats, w: Floats, scale: float, counts: Ints32) -> tuple[int, int, float]:
    """Count e into bins: how many rows there are, how many of them are beyond the bins, and the sum of their log
    densities under the base.

    Bins hold whole numbers of rows: those of weights w (n,) add up to any bin to the sum of the weights, within one
    half; what is beyond the bins has the mean log density of its weights.
    """
    mass, total, beyond, log_beyond = np.zeros(N_BINS), 0.0, 0.0, 0.0
    for q in range(len(e)):
        own = 1.0 if len(w) == 0 else w[q]
        total += own
        place = e[q] / (scale * BIN) + MIDDLE
        if 0.0 <= place < N_BINS:
            mass[int(place)] += own
        else:
            beyond += own
            log_beyond += own * math.log(base_density(e[q] / scale))
    n, below, inside = max(int(total + 0.5), 1), 0.0, 0
    for b in range(N_BINS):
        below += mass[b]
        counts[b] = min(int(below + 0.5), n) - inside
        inside += counts[b]
    mean = log_beyond / beyond if beyond > 0.0 else math.log(base_density(4.0))
    return n, n - inside, (n - inside) * mean


@fused_kernel
def _masses(counts: Ints32, filled: Ints, kernels: Floats, mass: Floats) -> None:
    """Fill mass (filled, H): of the kernels of all rows at each bin that has some, under every bandwidth.

    One variable a bandwidth, not an array of them: they stay in registers.
    """
    for i in range(len(filled)):
        m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = 0.0
        middle = N_BINS - 1 - filled[i]
        for j in filled:
            n, k = float(counts[j]), kernels[middle + j]
            m0 += n * k[0]
            m1 += n * k[1]
            m2 += n * k[2]
            m3 += n * k[3]
            m4 += n * k[4]
            m5 += n * k[5]
            m6 += n * k[6]
            m7 += n * k[7]
        at = mass[i]
        at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7] = m0, m1, m2, m3, m4, m5, m6, m7


@kernel
def bins_evidence(
    counts: Ints32, n: int, n_outside: int, log_outside: float, scale: float, tables: tuple[Floats, Floats]
) -> tuple[float, int]:
    """Log evidence averaged over bandwidths, and the best bandwidth, of n rows counted into bins.

    Evidence of a bandwidth: sum_i log[(sum_{j != i} K_h(e_i - e_j) + base(e_i)) / n]; rows beyond the bins have the
    base for a kernel.
    """
    kernels, base = tables
    outside = log_outside + n_outside * math.log(max(n_outside, 1)) - n * math.log(scale * n)
    filled = np.flatnonzero(counts)
    mass = np.empty((len(filled), H))
    _masses(counts, filled, kernels, mass)
    best, best_score, previous, total = 0, -math.inf, -math.inf, 0.0
    for k in range(H):
        score, product = outside, 1.0
        for i in range(len(filled)):  # logarithms of products: fewer of them
            at = filled[i]
            t = max((1 + n_outside) * base[at] + (mass[i, k] - kernels[N_BINS - 1, k]), base[at])
            if counts[at] <= 2 and 1e-100 < t < 1e100:
                product *= t if counts[at] == 1 else t * t
                if not 1e-100 < product < 1e100:
                    score += math.log(product)
                    product = 1.0
            else:
                score += counts[at] * math.log(t)
        score += math.log(product)
        if score > best_score:
            total = total * math.exp(best_score - score) + 1.0
            best, best_score = k, score
        else:
            total += math.exp(score - best_score)
        if score < previous - GIVE_UP:  # finer ones are too fine
            break
        previous = score
    return best_score + math.log(total / H), best


@kernel
def density_evidence(
    e: Floats, w: Floats, min_scale: float, tables: tuple[Floats, Floats], counts: Ints32
) -> tuple[float, float, int]:
    """Bin e (n,), of rows with weights w (n,) or none, into counts (N_BINS,); returns log evidence averaged over
    bandwidths, scale, best bandwidth.
    """
    total, _, square = weighted_sums(e, w)
    scale = max(math.sqrt(square / total), min_scale)
    n, n_outside, log_outside = _bin(e, w, scale, counts)
    score, best = bins_evidence(counts, n, n_outside, log_outside, scale, tables)
    return score, scale, best


@kernel
def kernel_atoms(counts: Ints32, widths: Floats, n_rows: Ints, atoms: tuple[Ints, Floats, Floats, Floats]) -> None:
    """Normals at the centres of the bins, over a base with the weight of one row and of the rows beyond the bins.

    Of K contexts with counts (K, N_BINS), bandwidths (K,) and n_rows (K,): fills the atoms, start (K + 1,) of each
    context's given, with their masses, centres and widths. A context has 3, and one for each bin that is not empty.
    """
    start, mass, centre, width = atoms
    for k in range(len(counts)):
        at, inside, rows = start[k] + 3, 0, n_rows[k] + 1.0
        for b in range(N_BINS):
            if counts[k, b] > 0:
                inside += counts[k, b]
                mass[at], centre[at], width[at] = counts[k, b] / rows, (b + 0.5 - MIDDLE) * BIN, widths[k]
                at += 1
        for j in range(3):
            at = start[k] + j
            mass[at], centre[at], width[at] = (rows - inside) / rows * BASE_WEIGHT[j], 0.0, BASE_WIDTH[j]
