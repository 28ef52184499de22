"""Differential entropy of rows of mixtures, by adaptive Gauss-Kronrod quadrature that checks itself against the cdf."""

import math

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.density import row_density, row_log_density
from coverwalk._kernels.distributions.mixture import Components, row_tails
from coverwalk._kernels.distributions.quantile import row_quantile, row_spread
from coverwalk._kernels.distributions.shapes import Table

_TAILS = 22  # panels end at the quantiles 4^-1 ... 4^-22: what lies beyond has mass 6e-14
_TOLERANCE = 1e-8  # of one piece, in nats; discontinuities are halved down to it
_MOST = 1000  # pieces of one panel; only hundreds of histograms in one row need more

# Gauss-Kronrod 7-15 on [-1, 1], the half from the end to the centre: nodes, their Kronrod weights, and Gauss weights
_NODES = np.array([
    0.991455371120812639206854697526329, 0.949107912342758524526189684047851, 0.864864423359769072789712788640926,
    0.741531185599394439863864773280788, 0.586087235467691130294144691258330, 0.405845151377397166906606412076961,
    0.207784955007898467600689403773245, 0.0,
])  # fmt: skip
_KRONROD = np.array([
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204, 0.104790010322250183839876322541518,
    0.140653259715525918745189590510238, 0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
])  # fmt: skip
_GAUSS = np.array([
    0.0, 0.129484966168869693270611432679082, 0.0, 0.279705391489276667901467771423780,
    0.0, 0.381830050505118944950369775488975, 0.0, 0.417959183673469387755102040816327,
])  # fmt: skip


@kernel
def panel(components: Components, table: Table, i: int, a: float, b: float) -> tuple[float, float, float]:
    """The integral of -p log p over [a, b] (Kronrod), how far Gauss is from it, and the integral of p."""
    middle, half = 0.5 * a + 0.5 * b, 0.5 * b - 0.5 * a
    value, gauss, mass = 0.0, 0.0, 0.0
    for k in range(15):
        node = min(k, 14 - k)
        y = middle - half * _NODES[node] if k < 7 else middle + half * _NODES[node]
        p = row_density(components, table, i, y)
        log_p = math.log(p) if 0.0 < p < math.inf else row_log_density(components, table, i, y)
        # half * p may be finite where p is not
        weight = math.exp(log_p + math.log(half)) if log_p > -math.inf else 0.0
        if weight > 0.0:
            value -= _KRONROD[node] * weight * log_p
            gauss -= _GAUSS[node] * weight * log_p
            mass += _KRONROD[node] * weight
    return value, abs(value - gauss), mass


@kernel
def panel_entropy(
    components: Components, table: Table, i: int, a: float, b: float, lefts: Floats, rights: Floats
) -> float:
    """Minus the integral of p log p over [a, b]; ``lefts`` and ``rights`` are room for the pieces.

    A piece is halved while Gauss and Kronrod disagree, or while its mass is not the difference of the cdf: so a narrow
    mode between the nodes is not missed. Pieces wait in a queue: when room runs out all are equally fine.
    """
    lefts[0], rights[0] = a, b
    total, size, k = 0.0, 1, 0
    while k < size:
        a, b = lefts[k], rights[k]
        k += 1
        value, error, mass = panel(components, table, i, a, b)
        middle = 0.5 * a + 0.5 * b
        good = error < _TOLERANCE
        if good:
            lower_a, upper_a = row_tails(components, table, i, a)
            lower_b, upper_b = row_tails(components, table, i, b)
            good = abs(mass - (lower_b - lower_a if lower_a < 0.5 else upper_a - upper_b)) < _TOLERANCE
        if good or size + 2 > lefts.size or not a < middle < b:
            total += value
        else:
            lefts[size], rights[size] = a, middle
            lefts[size + 1], rights[size + 1] = middle, b
            size += 2
    return total


@kernel
def mixture_entropy(components: Components, table: Table, out: Floats) -> None:
    """Fill out (n,): differential entropy of every row, in nats."""
    edges = np.empty(2 * _TAILS + 1)
    lefts, rights = np.empty(_MOST), np.empty(_MOST)
    for i in range(out.size):
        center, spread = row_spread(components, i)
        low = -math.inf
        for j in range(2 * _TAILS + 1):
            k = abs(j - _TAILS)
            q = 0.5 if k == 0 else 0.25**k
            if j > _TAILS:
                q = 1.0 - q
            start = center + spread * (q**0.135 - (1.0 - q) ** 0.135) / 0.1975
            low = row_quantile(components, table, i, q, low, start, spread)
            edges[j] = low
        out[i] = 0.0
        for j in range(edges.size - 1):
            if edges[j] < edges[j + 1]:
                out[i] += panel_entropy(components, table, i, edges[j], edges[j + 1], lefts, rights)
