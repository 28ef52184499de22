"""A kernel density of y given x, for few inputs: bandwidths by leave-one-out densities, and a table of its answers.

    p(y | x) = [sum_j K(x - x_j) k(y - y_j) + a m(y)] / [sum_j K(x - x_j) + a]
    m(y) = [sum_j k(y - y_j) + base(y)] / (n + 1)

with normal kernels, K(0) = 1: far from all rows m predicts, the density of all y, with the weight a of a part of a row.
"""

import math

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.kernel_density import base_density

FAR_ROWS = 0.05  # a
REACH = 5.0  # bandwidths beyond which a row says nothing at a node


@kernel
def judge_bandwidths(X: Floats, y: Floats, n_judges: int, hx: Floats, hy: Floats, score: Floats) -> None:
    """Add the leave-one-out log densities of the first rows to score (len(hx), len(hy)).

    Bandwidths fall by a fixed ratio; where that is the root of two, the next kernel is the square of the last.
    """
    n, p, A, B = len(y), X.shape[1], len(hx), len(hy)
    squares = abs(hx[1] / hx[0] - math.sqrt(0.5)) < 1e-9
    ky, marginal = np.empty(B), np.empty(B)
    top, bottom = np.empty((A, B)), np.empty(A)
    for i in range(n_judges):
        top[:], bottom[:], marginal[:] = 0.0, 0.0, base_density(y[i])
        for j in range(n):
            if j == i:
                continue
            dx, dy = 0.0, -0.5 * (y[i] - y[j]) ** 2
            for a in range(p):
                dx -= 0.5 * (X[i, a] - X[j, a]) ** 2
            for b in range(B):
                ky[b] = ky[b - 1] ** 2 if squares and b > 0 else math.exp(dy / (hy[b] * hy[b]))
                marginal[b] += ky[b] / (hy[b] * math.sqrt(2.0 * math.pi))
            kx = 1.0
            for a in range(A):
                kx = kx * kx if squares and a > 0 else math.exp(dx / (hx[a] * hx[a]))
                if kx < 1e-12:
                    break  # narrower kernels are smaller still
                bottom[a] += kx
                for b in range(B):
                    top[a, b] += kx * ky[b]
        for a in range(A):
            for b in range(B):
                density = top[a, b] / (hy[b] * math.sqrt(2.0 * math.pi)) + FAR_ROWS * marginal[b] / n
                score[a, b] += math.log(density / (bottom[a] + FAR_ROWS))


@kernel
def _axis(x: float, low: float, step: float, size: int, h: float, weight: Floats) -> tuple[int, int]:
    """Kernel weights of one coordinate at the nodes within reach; the first of them and one past the last."""
    first = max(math.ceil((x - REACH * h - low) / step), 0)
    last = min(math.floor((x + REACH * h - low) / step) + 1, size)
    for g in range(first, last):
        z = (low + g * step - x) / h
        weight[g] = math.exp(-0.5 * z * z)
    return first, last


@kernel
def node_masses(
    X: Floats,
    y: Floats,
    w: Floats,
    nodes: tuple[Floats, Floats, Ints],
    h: float,
    bins: tuple[float, float, int],
    mass: Floats,
) -> None:
    """Write the masses of p(y | x) at each node to mass (nodes, 1 + bins), zeros before: of the base, then of the
    kernels at the places of y.

    nodes: lowest, step and number (p,) on each axis, one or two of them; bins: the same of y. A y between two places is
    shared by them; one beyond all of them counts for the base. w: weights (n,) of mean one, or none.
    """
    low, step, size = nodes
    y_low, y_step, n_bins = bins
    n, p = X.shape
    n_first, n_second = size[0], size[1] if p > 1 else 1
    all_rows, total = np.zeros(1 + n_bins), np.full(n_first * n_second, FAR_ROWS)
    all_rows[0] = 1.0
    first_weight, second_weight = np.ones(n_first), np.ones(n_second)
    for i in range(n):
        t = (y[i] - y_low) / y_step
        inside = 0.0 <= t <= n_bins - 1
        place = min(int(t), n_bins - 2) if inside else 0
        upper = t - place if inside else 0.0
        left, right = (1 + place, 2 + place) if inside else (0, 0)
        own = 1.0 if len(w) == 0 else w[i]
        all_rows[left] += own * (1.0 - upper)
        all_rows[right] += own * upper
        s, e = _axis(X[i, 0], low[0], step[0], n_first, h, first_weight)
        u, v = _axis(X[i, 1], low[1], step[1], n_second, h, second_weight) if p > 1 else (0, 1)
        for a in range(s, e):
            for b in range(u, v):
                k, weight = a * n_second + b, own * first_weight[a] * second_weight[b]
                mass[k, left] += weight * (1.0 - upper)
                mass[k, right] += weight * upper
                total[k] += weight
    for k in range(len(mass)):
        for b in range(1 + n_bins):
            mass[k, b] = (mass[k, b] + FAR_ROWS * all_rows[b] / (n + 1.0)) / total[k]


@kernel
def surround(X: Floats, low: Floats, step: Floats, size: Ints, node: Ints, weight: Floats) -> None:
    """The 2^p nodes around each row and their shares, linear between nodes; rows beyond are at the edge."""
    n, p = X.shape
    for i in range(n):
        node[i, 0], weight[i, 0] = 0, 1.0
        corners = 1
        for a in range(p):
            t = min(max((X[i, a] - low[a]) / step[a], 0.0), size[a] - 1.0)
            g = min(int(t), max(size[a] - 2, 0))
            above = min(g + 1, size[a] - 1)
            for c in range(corners):
                node[i, corners + c] = node[i, c] * size[a] + above
                weight[i, corners + c] = weight[i, c] * (t - g)
                node[i, c] = node[i, c] * size[a] + g
                weight[i, c] *= 1.0 - (t - g)
            corners *= 2
