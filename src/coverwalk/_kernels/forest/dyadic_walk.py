"""The walk over the cells of an optional Polya tree: its evidence, its posterior, and the density it predicts.

For a cell with n points, relative to the uniform distribution on it (Z = 1 where it is not split),

    Z = w + (1 - w) sum_b v_b B(n_below + a, n_above + a) / B(a, a) 2^n Z_below Z_above,        v_b = 1 / moves.

The predictive density is a sum over all cells that hold a place: the probability that the walk stops there, divided
by the volume. That is `height` (N,) of a cell, and `edge` (M, 2) of the halves of a move that are not split any more.
"""

import math

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.dyadic_cells import AXIS, BITS, CHILD, HALVINGS, POINTS, Cells, half

# What is left for those who ask, as a tree: first move (N + 1,), moves (M, 4): axis, its halvings before, cells below
# and above (-1: none, or visited by another way); height (N,) and edge (M, 2)
WeighedCells = tuple[Ints, Ints, Floats, Floats]


@kernel
def _evidence(cells: Cells, log_Z: Floats, log_go: Floats, stop: float, a: float) -> None:
    """Fill log Z (N,) of the cells, and log of (1 - w) v B / B 2^n Z Z of the moves (M,), from the finest up."""
    first, move = cells
    N = len(first) - 1
    n = move[0, POINTS] + move[0, POINTS + 1] if len(move) else 0
    one, both = np.zeros(n + 1), np.zeros(n + 1)  # log of gamma(i + a) / gamma(a) and gamma(i + 2a) / gamma(2a)
    for i in range(n):
        one[i + 1], both[i + 1] = one[i] + math.log(i + a), both[i] + math.log(i + 2.0 * a)
    for k in range(N - 1, -1, -1):
        if first[k] == first[k + 1]:
            continue
        here = move[first[k], POINTS] + move[first[k], POINTS + 1]
        base = math.log1p(-stop) + here * math.log(2.0) - math.log(first[k + 1] - first[k]) - both[here]
        top = math.log(stop)
        for m in range(first[k], first[k + 1]):
            log_go[m] = base + one[move[m, POINTS]] + one[move[m, POINTS + 1]]
            for side in range(2):
                if move[m, CHILD + side] >= 0:
                    log_go[m] += log_Z[move[m, CHILD + side]]
            top = max(top, log_go[m])
        total = math.exp(math.log(stop) - top)
        for m in range(first[k], first[k + 1]):
            total += math.exp(log_go[m] - top)
        log_Z[k] = top + math.log(total)


@kernel
def _descend(
    cells: Cells, log_Z: Floats, log_go: Floats, settings: tuple[float, float, float], kept: Ints
) -> tuple[Floats, Floats, Floats]:
    """Reach (probability over volume) and height of the cells (N,), edge (M, 2); kept[m] = 1 for moves that stay."""
    stop, a, faint = settings
    first, move = cells
    N = len(first) - 1
    mass, reach, height, edge = np.zeros(N), np.zeros(N), np.zeros(N), np.zeros((len(move), 2))
    mass[0] = reach[0] = 1.0
    for k in range(N):
        if mass[k] == 0.0:
            continue
        if first[k] == first[k + 1]:
            height[k] = reach[k]
            continue
        height[k] = reach[k] * math.exp(math.log(stop) - log_Z[k])
        here = move[first[k], POINTS] + move[first[k], POINTS + 1]
        for m in range(first[k], first[k + 1]):
            go = math.exp(log_go[m] - log_Z[k])
            if go * mass[k] < faint:  # the walk stops here instead: nothing is lost
                height[k] += go * reach[k]
                continue
            kept[m] = 1
            for side in range(2):
                share = (move[m, POINTS + side] + a) / (here + 2.0 * a)
                child = move[m, CHILD + side]
                if child >= 0:
                    reach[child] += 2.0 * share * go * reach[k]
                    mass[child] += share * go * mass[k]
                else:
                    edge[m, side] = 2.0 * share * go * reach[k]
    return reach, height, edge


@kernel
def weigh_cells(cells: Cells, stop: float, a: float, faint: float, weighed: WeighedCells, sizes: Ints) -> float:
    """Log evidence of the points in (0, 1)^q; the predictive density without moves less probable than faint.

    The density is written to the first of ``weighed``, which has room for all cells and moves; sizes (2,): how many.
    """
    first, move = cells
    N, M = len(first) - 1, len(move)
    log_Z, log_go, kept = np.zeros(N), np.empty(M), np.zeros(M, np.int64)
    _evidence(cells, log_Z, log_go, stop, a)
    reach, height, edge = _descend(cells, log_Z, log_go, (stop, a, faint), kept)
    number, n_cells, n_moves = np.full(N, -1, np.int64), 0, 0
    for k in range(N):
        if reach[k] > 0.0:
            number[k] = n_cells
            n_cells += 1
            for m in range(first[k], first[k + 1]):
                n_moves += kept[m]
    new_first, new_move, new_height, new_edge = weighed
    sizes[0], sizes[1], new_first[0], at = n_cells, n_moves, 0, 0
    for k in range(N):
        if number[k] < 0:
            continue
        new_height[number[k]] = height[k]
        for m in range(first[k], first[k + 1]):
            if kept[m] == 0:
                continue
            new_move[at, AXIS], new_move[at, HALVINGS] = move[m, AXIS], move[m, HALVINGS]
            for side in range(2):
                child = move[m, CHILD + side]
                new_edge[at, side] = edge[m, side]
                new_move[at, CHILD + side] = -1
                if child >= 0 and reach[child] > 0.0:
                    new_move[at, CHILD + side] = number[child]
                    reach[child] = -1.0  # visited from here; those who ask come by once
            at += 1
        new_first[number[k] + 1] = at
    return log_Z[0]


@kernel
def cell_density(codes: Ints, weighed: WeighedCells, out: Floats) -> None:
    """Density of places codes (n, q) in (0, 1)^q."""
    first, move, height, edge = weighed
    stack = np.empty(len(first) + 1, np.int64)
    for r in range(len(codes)):
        total, depth = 0.0, 1
        stack[0] = 0
        while depth > 0:
            depth -= 1
            k = stack[depth]
            total += height[k]
            for m in range(first[k], first[k + 1]):
                side = half(codes[r, move[m, AXIS]], move[m, HALVINGS])
                total += edge[m, side]
                if move[m, CHILD + side] >= 0:
                    stack[depth] = move[m, CHILD + side]
                    depth += 1
        out[r] = total


@kernel
def boxes(weighed: WeighedCells, low: Floats, width: Floats) -> None:
    """Write lower corner and width (N + 2 M, q) in (0, 1)^q of all cells, then of the halves of all moves.

    They come as those of the root: 0 and 1.
    """
    first, move, height, _ = weighed
    N, q = len(height), low.shape[1]
    for k in range(N):
        for m in range(first[k], first[k + 1]):
            axis = move[m, AXIS]
            for side in range(2):
                end, child = N + 2 * m + side, move[m, CHILD + side]
                for a in range(q):
                    low[end, a], width[end, a] = low[k, a], width[k, a]
                width[end, axis] *= 0.5
                low[end, axis] += side * width[end, axis]
                if child >= 0:
                    for a in range(q):
                        low[child, a], width[child, a] = low[end, a], width[end, a]


@kernel
def slice_cells(
    code: Ints, known: Bools, target: int, weighed: WeighedCells, low: Ints, high: Ints, density: Floats
) -> int:
    """The density along one axis of the cells that agree with the known axes of a place, the others integrated out.

    Fills low, high (in units of 2^-BITS) and density of at most len(low) pieces; returns how many there are.
    """
    first, move, height, edge = weighed
    q = len(code)
    stack = np.empty(len(first) + 1, np.int64)
    corner, halvings = np.zeros((len(first) + 1, q), np.int64), np.zeros((len(first) + 1, q), np.int64)
    here, split = np.zeros(q, np.int64), np.zeros(q, np.int64)
    stack[0], depth, n = 0, 1, 0
    while depth > 0:
        depth -= 1
        k = stack[depth]
        for a in range(q):
            here[a], split[a] = corner[depth, a], halvings[depth, a]
        if height[k] > 0.0:
            n = _piece(here, split, known, target, height[k], low, high, density, n)
        for m in range(first[k], first[k + 1]):
            axis, before = move[m, AXIS], move[m, HALVINGS]
            for side in range(2):
                if known[axis] and half(code[axis], before) != side:
                    continue
                start = here[axis]
                here[axis] = start + side * (1 << (BITS - 1 - before))
                split[axis] += 1
                if edge[m, side] > 0.0:
                    n = _piece(here, split, known, target, edge[m, side], low, high, density, n)
                if move[m, CHILD + side] >= 0:
                    stack[depth] = move[m, CHILD + side]
                    for a in range(q):
                        corner[depth, a], halvings[depth, a] = here[a], split[a]
                    depth += 1
                here[axis] = start
                split[axis] -= 1
    return n


@kernel
def _piece(
    corner: Ints, halvings: Ints, known: Bools, target: int, height: float,
    low: Ints, high: Ints, density: Floats, n: int
) -> int:  # fmt: skip
    """Add one piece where there is room; how many there are now."""
    if n < len(low):
        for a in range(len(corner)):
            if a != target and not known[a]:
                height *= 0.5 ** halvings[a]
        low[n], density[n] = corner[target], height
        high[n] = corner[target] + (1 << (BITS - halvings[target]))
    return n + 1
