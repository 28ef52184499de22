"""The standard shapes of what a tree's contexts say: Student's t, kernel densities, and cells of a tree density."""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.binned_tree import BOXES, CENTRE, box_widths, tree_density
from coverwalk._kernels.contexts import Fit, Grid
from coverwalk._kernels.kernel_density import BASE_WEIGHT, BASE_WIDTH, N_BINS, bandwidths, bin_centres
from coverwalk._kernels.voices import REGRESSION, TREE_OF_Y, Records
from coverwalk.shapes import CELLS, KERNELS, Shapes

__all__ = ["OUTLIER_DF", "shapes_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OUTLIER_DF = 3.0  # the fewest degrees of freedom whose variance is finite
_SAME = 1e-12  # relative difference of heights below which neighbouring cells are one


def shapes_of(records: Records, fit: Fit, grid: Grid) -> tuple[NDArray[np.int32], Shapes]:
    """The table of standard shapes of a tree's records, and which is whose (R,)."""
    context = np.repeat(np.arange(len(records.seat)), np.diff(records.first))
    n = records.n_rows[records.seat[context]]
    student, tree = records.kind == REGRESSION, records.kind == TREE_OF_Y
    kernels = ~student & ~tree
    df, place = np.unique(np.maximum(grid.nu_0 + n[student], OUTLIER_DF), return_inverse=True)
    shape = np.empty(len(n), np.int32)
    shape[student] = place
    shape[kernels] = len(df) + np.arange(kernels.sum())
    shape[tree] = len(df) + kernels.sum() + np.arange(tree.sum())
    which = records.kind[kernels] - 1
    counts = fit.counts[fit.shaped[context[kernels]], which].astype(np.float64)
    widths = bandwidths()[fit.width[context[kernels], which]]
    of_y = np.ascontiguousarray(fit.counts[fit.shaped[context[tree]], 1])
    return shape, Shapes.join([Shapes.student(df), _kernels(counts, widths, n[kernels]), _cells(of_y, n[tree])])


def _kernels(counts: Floats, widths: Floats, n: Ints) -> Shapes:
    """Normals at the centres of the bins, over a base with the weight of one row and of the rows beyond the bins."""
    base = (n + 1 - counts.sum(axis=1))[:, None] * BASE_WEIGHT
    mass = np.hstack([base, counts]) / (n + 1)[:, None]
    centre = np.broadcast_to(np.concatenate([np.zeros(3), bin_centres()]), mass.shape)
    width = np.hstack([np.tile(BASE_WIDTH, (len(n), 1)), np.repeat(widths[:, None], N_BINS, 1)])
    return _table(KERNELS, mass, centre, width)


def _cells(counts: NDArray[np.int32], n: Ints) -> Shapes:
    """Cells of equal height side by side are one; over three boxes, which have the same weight as that base."""
    edges, heights = np.empty((len(n), N_BINS + 7)), np.empty((len(n), N_BINS + 6))
    inner, box = np.empty(N_BINS), np.array(BOXES)
    for k in range(len(n)):
        tree_density(counts[k], inner)
        n_in, half = int(counts[k].sum()), np.array(box_widths(int(n[k])))
        rings = np.cumsum((box / (2.0 * half))[::-1])  # heights of the boxes, from the widest inwards
        base = np.concatenate([rings[[0, 0, 1]], np.full(N_BINS, rings[2]), rings[[1, 0, 0]]])
        inside = np.concatenate([np.zeros(3), inner, np.zeros(3)])
        heights[k] = (n_in * inside + (n[k] + 1 - n_in) * base) / (n[k] + 1)
        outer = np.array([half[2], 4.0 * half[0], half[1]])
        edges[k] = CENTRE + np.concatenate([-outer, np.linspace(-half[0], half[0], N_BINS + 1), outer[::-1]])
    starts = np.ones(heights.shape, bool)
    starts[:, 1:] = np.abs(np.diff(heights, axis=1)) > _SAME * heights[:, 1:]
    first = np.flatnonzero(starts)
    row, column = np.divmod(first, heights.shape[1])
    last = np.append(column[1:], 0)
    last[last == 0] = heights.shape[1]  # the next cell begins another row
    left, right = edges[row, column], edges[row, last]
    kept = right > left
    row, left, width = row[kept], left[kept], (right - left)[kept]
    mass = heights[row, column[kept]] * width
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(n)))])
    total = np.bincount(row, mass, minlength=len(n))
    return Shapes(np.full(len(n), CELLS, np.int32), np.full(len(n), np.nan), start, mass / total[row], left, width)


def _table(kind: int, mass: Floats, centre: Floats, width: Floats) -> Shapes:
    """One shape a row, of the atoms that have a mass."""
    start = np.concatenate([[0], np.cumsum((mass > 0).sum(axis=1))])
    there = mass > 0
    empty = np.full(len(mass), np.nan)
    return Shapes(np.full(len(mass), kind, np.int32), empty, start, mass[there], centre[there], width[there])
