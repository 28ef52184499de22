"""The standard shapes of what a tree's contexts say: Student's t and kernel densities."""

import numpy as np

from coverwalk._arrays import Ints32
from coverwalk._kernels.forest.components import REGRESSION, Records
from coverwalk._kernels.forest.contexts import Fit, Grid, Layout
from coverwalk._kernels.forest.kernel_density import bandwidths
from coverwalk._kernels.forest.shape_atoms import kernel_atoms
from coverwalk.distributions.shapes import KERNELS, STUDENT, Shapes

__all__ = ["OUTLIER_DF", "shapes_of"]

OUTLIER_DF = 3.0  # the fewest degrees of freedom whose variance is finite


def shapes_of(records: Records, fit: Fit, grid: Grid, layout: Layout) -> tuple[Ints32, Shapes]:
    """The table of standard shapes of a tree's records, and which is whose (R,)."""
    context = np.repeat(np.arange(len(records.slot)), np.diff(records.first))
    n = records.n_rows[records.slot[context]]
    if len(layout.weight):  # what the rows of a context weigh together, as in its bins
        below = np.concatenate([[0.0], np.cumsum(layout.weight)])
        n = np.maximum((below[layout.end] - below[layout.start] + 0.5).astype(np.int64), 1)[context]
    student = records.kind == REGRESSION
    df, place = np.unique(np.maximum(grid.nu_0 + n[student], OUTLIER_DF), return_inverse=True)
    shape = np.empty(len(n), np.int32)
    shape[student] = place
    shape[~student] = len(df) + np.arange((~student).sum())
    which = records.kind[~student] - 1
    counts = fit.counts[fit.shaped[context[~student]], which]
    widths = bandwidths()[fit.width[context[~student], which]]
    start = np.concatenate([[0], np.cumsum(3 + (counts > 0).sum(axis=1))])
    atoms = [np.empty(start[-1]) for _ in range(3)]
    kernel_atoms(counts, widths, n[~student], (start, *atoms))
    kind = np.repeat(np.array([STUDENT, KERNELS], np.int32), [len(df), len(counts)])
    starts = np.concatenate([np.zeros(len(df), np.int64), start])
    return shape, Shapes.trusted(kind, np.concatenate([df, np.full(len(counts), np.nan)]), starts, *atoms)
