"""The densities of contexts as atoms of a table of shapes: normals at the centres of bins."""

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.kernel_density import BASE_WEIGHT, BASE_WIDTH, BIN, MIDDLE, N_BINS

__all__ = ["kernel_atoms"]

Atoms = tuple[Ints, Floats, Floats, Floats]


@kernel
def kernel_atoms(counts: Ints32, widths: Floats, n_rows: Ints, atoms: Atoms) -> None:
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
