"""The densities of contexts as atoms of a table of shapes: normals at the centres of bins, cells of equal height."""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.binned_tree import BOXES, CENTRE, REACH, box_widths, gamma_tables, tree_density
from coverwalk._kernels.forest.kernel_density import BASE_WEIGHT, BASE_WIDTH, BIN, MIDDLE, N_BINS

__all__ = ["N_CELLS", "cell_atoms", "kernel_atoms"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counts = NDArray[np.int32]
Atoms = tuple[Ints, Floats, Floats, Floats]

SAME = 1e-12  # relative difference of heights below which neighbouring cells are one
N_CELLS = N_BINS + 4  # those between the ends of the boxes are outside the bins


@kernel
def kernel_atoms(counts: Counts, widths: Floats, n_rows: Ints, atoms: Atoms) -> None:
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


@kernel
def _fill_cells(counts: Counts, n_rows: int, gammas: tuple[Floats, Floats], height: Floats, edge: Floats) -> None:
    """Heights (N_CELLS,) and edges (N_CELLS + 1,) of the tree density over its boxes."""
    inside = 0
    for b in range(N_BINS):
        inside += counts[b]
    first, second, third = box_widths(n_rows)
    low = BOXES[2] / (2.0 * third)
    middle = low + BOXES[1] / (2.0 * second)
    top = middle + BOXES[0] / (2.0 * first)
    tree_density(counts, gammas, height[2 : 2 + N_BINS])
    share, rest = inside / (n_rows + 1.0), (n_rows + 1.0 - inside) / (n_rows + 1.0)
    for b in range(N_BINS):
        height[2 + b] = share * height[2 + b] + rest * top
        edge[2 + b] = 2.0 * REACH * b / N_BINS - REACH
    height[0] = height[N_CELLS - 1] = rest * low
    height[1] = height[N_CELLS - 2] = rest * middle
    edge[0], edge[1], edge[N_CELLS - 2], edge[N_CELLS - 1], edge[N_CELLS] = -third, -second, first, second, third
    for b in range(N_CELLS + 1):
        edge[b] += CENTRE


@kernel
def cell_atoms(counts: Counts, n_rows: Ints, atoms: Atoms) -> int:
    """Cells of equal height side by side are one; as `kernel_atoms`, with left edges for centres.

    There is capacity for N_CELLS atoms a context; fills start (K + 1,) too, and returns how many there are.
    """
    K, most = len(counts), 1
    for k in range(K):
        most = max(most, n_rows[k])
    gammas = gamma_tables(most)
    start, mass, left, width = atoms
    start[0] = n = 0
    height, edge = np.empty(N_CELLS), np.empty(N_CELLS + 1)
    for k in range(K):
        _fill_cells(counts[k], n_rows[k], gammas, height, edge)
        total, b = 0.0, 0
        while b < N_CELLS:
            e = b + 1
            while e < N_CELLS and abs(height[e] - height[e - 1]) <= SAME * height[e]:
                e += 1
            left[n], width[n] = edge[b], edge[e] - edge[b]
            mass[n] = height[b] * width[n]
            total += mass[n]
            n += 1
            b = e
        for i in range(start[k], n):
            mass[i] /= total
        start[k + 1] = n
    return n
