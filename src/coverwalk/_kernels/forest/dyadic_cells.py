"""The cells of an optional Polya tree over (0, 1)^q: a lattice of halvings near the top, a tree below each of its ends.

A cell is halved along an axis of choice; one reached by the same halvings in another order is the same cell. That is
kept up for ``levels`` halvings (a lattice grows too wide for more); below, each cell is halved along the one axis whose
halves differ most in their points. A cell of fewer than two points is not split.

A point is a row of codes (q,) int64: its place in (0, 1) in units of 2^-BITS. Cells come parents first; the moves of
cell k, one for each axis it may be halved along, are first[k]:first[k+1].
"""

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.real_line import from_unit, log_slope, to_unit

# first move (N + 1,) and moves (M, 6): axis, its halvings before, cells below and above (-1: not split), points in them
Cells = tuple[Ints, Ints]

BITS = 50
AXIS, HALVINGS, CHILD, POINTS = 0, 1, 2, 4  # columns of a move
_FIRST, _BEGIN, _END, _HOME, _SHAPE = 0, 1, 2, 3, 4  # columns of a cell while it grows; its halvings come last
_LEAST = 2  # points of a cell that is split


@kernel
def places(Z: Floats, codes: Ints, slope: Floats) -> None:
    """Codes (n, q) of points Z (n, q) on the real line, and the log density (n,) of the map."""
    for r in range(len(Z)):
        slope[r] = 0.0
        for a in range(Z.shape[1]):
            codes[r, a] = min(int(to_unit(Z[r, a]) * 2.0**BITS), (1 << BITS) - 1)
            slope[r] += log_slope(Z[r, a])


@kernel
def from_places(U: Floats, out: Floats) -> None:
    """Points (n, q) on the real line from places U (n, q) in (0, 1)."""
    for r in range(len(U)):
        for a in range(U.shape[1]):
            out[r, a] = from_unit(U[r, a])


@kernel
def half(code: int, halvings: int) -> int:
    """1 if a place is in the upper half of its cell of 2^-halvings: the one place that knows what a halving means."""
    return (code >> (BITS - 1 - halvings)) & 1


@kernel
def _last(shape: Ints) -> int:
    """The last axis that was halved."""
    last = 0
    for a in range(len(shape)):
        if shape[a] > 0:
            last = a
    return last


@kernel
def _shapes(q: int, levels: int) -> tuple[Ints, Ints]:
    """All numbers of halvings (S, q) with a sum of at most ``levels``, by sum; where each sum begins (levels + 2,)."""
    count, start = 1, np.zeros(levels + 2, np.int64)
    for k in range(levels + 1):
        start[k + 1] = start[k] + count
        count = count * (k + q) // (k + 1)
    shapes = np.zeros((start[levels + 1], q), np.int64)
    for k in range(levels):
        at = start[k + 1]
        for s in range(start[k], start[k + 1]):
            for a in range(_last(shapes[s]), q):  # in this order each is made once
                for j in range(q):
                    shapes[at, j] = shapes[s, j]
                shapes[at, a] += 1
                at += 1
    return shapes, start


@kernel
def _next_shape(shapes: Ints, begin: int, end: int, shape: Ints, axis: int) -> int:
    """The place, among shapes begin:end, of the one with one halving more along an axis."""
    for s in range(begin, end):
        equal = True
        for a in range(len(shape)):
            equal = equal and shapes[s, a] == shape[a] + (1 if a == axis else 0)
        if equal:
            return s - begin
    return -1


@kernel
def _deep_axis(codes: Ints, rows: Ints, s: int, e: int, halvings: Ints, most: Ints) -> int:
    """The axis whose halves differ most in the number of rows[s:e], and of such the one halved least so far; -1 where
    none can be halved any more.
    """
    best, apart = -1, 0
    for a in range(len(most)):
        if halvings[a] < most[a]:
            difference = 0
            for i in range(s, e):
                difference += 2 * half(codes[rows[i], a], halvings[a]) - 1
            difference = abs(difference)
            if best < 0 or difference > apart or (difference == apart and halvings[a] < halvings[best]):
                best, apart = a, difference
    return best


@kernel
def _longer(old: Ints, capacity: int) -> Ints:
    new = np.empty((capacity, old.shape[1]), np.int64)
    for i in range(len(old)):
        for j in range(old.shape[1]):
            new[i, j] = old[i, j]
    return new


@kernel
def _divide(codes: Ints, axis: int, halvings: int, rows: Ints, s: int, e: int, out: Ints) -> int:
    """Write rows[s:e] to out[s:e], those in the lower half first, each side in order; where the upper half begins."""
    middle = s
    for i in range(s, e):
        middle += 1 - half(codes[rows[i], axis], halvings)
    low, high = s, middle
    for i in range(s, e):
        if half(codes[rows[i], axis], halvings) == 0:
            out[low] = rows[i]
            low += 1
        else:
            out[high] = rows[i]
            high += 1
    return middle


@kernel
def _new_cell(
    codes: Ints,
    rows: Ints,
    table: tuple[Ints, Ints],
    sizes: Ints,
    shape: Ints,
    span: tuple[int, int, int],
    most: Ints,
    levels: int,
) -> tuple[tuple[Ints, Ints], int]:
    """Add a cell of rows[span[0]:span[1]], those of the order span[2], with its moves; its number, or -1 if it is not
    split.
    """
    cell, move = table
    q, total = len(most), 0
    for a in range(q):
        total += shape[a]
    end = span[1] if total >= levels else span[0]  # in the lattice any axis will do
    axis = _deep_axis(codes, rows, span[0], end, shape, most)
    if span[1] - span[0] < _LEAST or axis < 0:
        return (cell, move), -1
    k, m = sizes[0], sizes[1]
    if k + 2 > len(cell):
        cell = _longer(cell, 2 * len(cell))
    if m + q > len(move):
        move = _longer(move, 2 * len(move) + q)
    cell[k, _FIRST], cell[k, _BEGIN], cell[k, _END], cell[k, _HOME] = m, span[0], span[1], span[2]
    for a in range(q):
        cell[k, _SHAPE + a] = shape[a]
        if (a == axis and total >= levels) or (total < levels and shape[a] < most[a]):
            move[m, AXIS], move[m, HALVINGS] = a, shape[a]
            move[m, CHILD] = move[m, CHILD + 1] = -1
            move[m, POINTS] = move[m, POINTS + 1] = 0
            m += 1
    sizes[0], sizes[1] = k + 1, m
    return (cell, move), k


@kernel
def _grow_level(
    codes: Ints, table: tuple[Ints, Ints], sizes: Ints, order: Ints, shapes: Ints, start: Ints, k: int, most: Ints
) -> tuple[tuple[Ints, Ints], Ints]:
    """The cells of level k + 1 of the lattice, and the moves to them; their rows, in an order for each shape."""
    n, q = codes.shape
    levels = len(start) - 2
    first, end, width = sizes[2], sizes[0], start[k + 2] - start[k + 1]
    rows, of = np.empty((width, n), np.int64), np.full((width, n), -1, np.int64)
    for c in range(first, end):
        cell = table[0]
        s, e, home = cell[c, _BEGIN], cell[c, _END], cell[c, _HOME]
        shape = shapes[start[k] + home]
        for a in range(_last(shape), q):
            if shape[a] < most[a]:
                j = _next_shape(shapes, start[k + 1], start[k + 2], shape, a)
                middle = _divide(codes, a, shape[a], order[home], s, e, rows[j])
                below = shapes[start[k + 1] + j]
                for side in range(2):
                    span = (s, middle, j) if side == 0 else (middle, e, j)
                    table, child = _new_cell(codes, rows[j], table, sizes, below, span, most, levels)
                    for i in range(span[0], span[1]):
                        of[j, rows[j, i]] = child
    cell, move = table
    for c in range(first, end):
        home = cell[c, _HOME]
        shape = shapes[start[k] + home]
        for m in range(cell[c, _FIRST], cell[c + 1, _FIRST] if c + 1 < sizes[0] else sizes[1]):
            a = move[m, AXIS]
            j = _next_shape(shapes, start[k + 1], start[k + 2], shape, a)
            for i in range(cell[c, _BEGIN], cell[c, _END]):
                r = order[home, i]
                side = half(codes[r, a], shape[a])
                move[m, CHILD + side] = of[j, r]
                move[m, POINTS + side] += 1
    sizes[2] = end
    return table, rows


@kernel
def _grow_deep(
    codes: Ints, table: tuple[Ints, Ints], sizes: Ints, order: Ints, levels: int, most: Ints
) -> tuple[Ints, Ints]:
    """Cells with one move each, from the first of the last level of the lattice to the last that is split."""
    spare, shape = np.empty(order.shape[1], np.int64), np.zeros(len(most), np.int64)
    k = sizes[2]
    while k < sizes[0]:
        cell, move = table
        m, s, e, home = cell[k, _FIRST], cell[k, _BEGIN], cell[k, _END], cell[k, _HOME]
        axis = move[m, AXIS]
        middle = _divide(codes, axis, move[m, HALVINGS], order[home], s, e, spare)
        for i in range(s, e):
            order[home, i] = spare[i]
        for a in range(len(most)):
            shape[a] = cell[k, _SHAPE + a] + (1 if a == axis else 0)
        for side in range(2):
            span = (s, middle, home) if side == 0 else (middle, e, home)
            table, child = _new_cell(codes, order[home], table, sizes, shape, span, most, levels)
            table[1][m, CHILD + side], table[1][m, POINTS + side] = child, span[1] - span[0]
        k += 1
    return table


@kernel
def grow_cells(codes: Ints, most: Ints, levels: int, cells: Cells, sizes: Ints) -> None:
    """Split (0, 1)^q for points codes (n, q), axis a at most most[a] <= BITS times.

    Writes the numbers of cells and moves to sizes (3,) and, where there is room for them, the cells to the first of
    ``cells``.
    """
    n, q = codes.shape
    shapes, start = _shapes(q, levels)
    table = (np.empty((2 * n + 2, _SHAPE + q), np.int64), np.empty((2 * n + q, 6), np.int64))
    sizes[:] = 0  # cells, moves, and the first cell of the level at hand
    order = np.empty((1, n), np.int64)
    for i in range(n):
        order[0, i] = i
    table, _ = _new_cell(codes, order[0], table, sizes, shapes[0], (0, n, 0), most, levels)
    for k in range(levels):
        table, order = _grow_level(codes, table, sizes, order, shapes, start, k, most)
    cell, move = _grow_deep(codes, table, sizes, order, levels, most)
    n_split, sizes[0] = sizes[0], max(sizes[0], 1)  # where nothing is split there is still the root
    if sizes[0] >= len(cells[0]) or sizes[1] > len(cells[1]):
        return
    for k in range(sizes[0] + 1):
        cells[0][k] = cell[k, _FIRST] if k < n_split else sizes[1]
    for m in range(sizes[1]):
        for column in range(6):
            cells[1][m, column] = move[m, column]
