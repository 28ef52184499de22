"""The standard shapes of what a tree's contexts say: Student's t, kernel densities, and cells of a tree density."""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.distributions.shape_atoms import N_CELLS, cell_atoms, kernel_atoms
from coverwalk._kernels.forest.components import REGRESSION, TREE_OF_Y, Records
from coverwalk._kernels.forest.contexts import Fit, Grid, Layout
from coverwalk._kernels.forest.kernel_density import bandwidths
from coverwalk.distributions.shapes import CELLS, KERNELS, STUDENT, Shapes

__all__ = ["OUTLIER_DF", "shapes_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OUTLIER_DF = 3.0  # the fewest degrees of freedom whose variance is finite


def shapes_of(records: Records, fit: Fit, grid: Grid, layout: Layout) -> tuple[NDArray[np.int32], Shapes]:
    """The table of standard shapes of a tree's records, and which is whose (R,)."""
    context = np.repeat(np.arange(len(records.slot)), np.diff(records.first))
    n = records.n_rows[records.slot[context]]
    if len(layout.weight):  # what the rows of a context weigh together, as in its bins
        below = np.concatenate([[0.0], np.cumsum(layout.weight)])
        n = np.maximum((below[layout.end] - below[layout.start] + 0.5).astype(np.int64), 1)[context]
    student, tree = records.kind == REGRESSION, records.kind == TREE_OF_Y
    kernels = ~student & ~tree
    df, place = np.unique(np.maximum(grid.nu_0 + n[student], OUTLIER_DF), return_inverse=True)
    shape = np.empty(len(n), np.int32)
    shape[student] = place
    shape[kernels] = len(df) + np.arange(kernels.sum())
    shape[tree] = len(df) + kernels.sum() + np.arange(tree.sum())
    which = records.kind[kernels] - 1
    counts = fit.counts[fit.shaped[context[kernels]], which]
    widths = bandwidths()[fit.width[context[kernels], which]]
    of_y = np.ascontiguousarray(fit.counts[fit.shaped[context[tree]], 1])
    start = np.concatenate([[0], np.cumsum(3 + (counts > 0).sum(axis=1))])
    atoms = [np.empty(start[-1]) for _ in range(3)]
    kernel_atoms(counts, widths, n[kernels], (start, *atoms))
    cells_start = np.empty(len(of_y) + 1, np.int64)
    cells = [np.empty(len(of_y) * N_CELLS) for _ in range(3)]
    n_cells = cell_atoms(of_y, n[tree], (cells_start, *cells))
    cells = [part[:n_cells] for part in cells]
    kind = np.repeat(np.array([STUDENT, KERNELS, CELLS], np.int32), [len(df), len(counts), len(of_y)])
    starts = np.concatenate([np.zeros(len(df), np.int64), start, start[-1] + cells_start[1:]])
    df = np.concatenate([df, np.full(len(counts) + len(of_y), np.nan)])
    return shape, Shapes.trusted(kind, df, starts, *(np.concatenate(pair) for pair in zip(atoms, cells)))
