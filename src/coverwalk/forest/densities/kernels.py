"""Kernel densities of many rows as few: rows that lie together share one kernel, widened by their own scatter."""

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.forest.densities.normal_tree import Normals
from coverwalk.preparation.scaling import Scaling

MAX_KERNELS = 256
KERNEL_DF = 30.0  # the kernel is a Student t, all but normal
_FARTHEST = 1e6  # scales, as for the normals


def bandwidths(n: int, q: int) -> Floats:
    """The grid: from what suits one normal down, in units of the columns."""
    return np.asarray(n ** (-1.0 / (q + 4.0)) * 1.5 ** -np.arange(7.0))


def kernel_mixture(Y: Floats, units: Scaling, step: Floats, widths: Floats) -> list[Normals]:
    """A kernel density of rows Y (n, q) for each of the widths."""
    Z = np.clip(units.forward(Y), -_FARTHEST, _FARTHEST)
    n, q = Z.shape
    order, start = _together(Z)
    Z, size = Z[order], np.diff(start)
    mean = np.add.reduceat(Z, start[:-1]) / size[:, None]
    away = Z - np.repeat(mean, size, axis=0)
    scatter = np.add.reduceat(away[:, :, None] * away[:, None, :], start[:-1]) / size[:, None, None]
    own = scatter + np.diag((step / units.scale) ** 2 / 12.0)
    dists = []
    for h in widths:
        U = np.linalg.cholesky(own + h**2 * np.eye(q)).transpose(0, 2, 1)
        df = np.full(len(size), KERNEL_DF)
        dists.append(Normals(units.centre, units.scale, size / n, df, mean, U[:, *np.triu_indices(q)]))
    return dists


def _together(Z: Floats) -> tuple[Ints, Ints]:
    """An order of the rows in which neighbours stand together, and where each of at most MAX_KERNELS groups begins.

    Groups are halved at their medians, along their widest side.
    """
    n = len(Z)
    order, start = np.arange(n), np.array([0, n])
    while len(start) - 1 < MAX_KERNELS and 2 * (len(start) - 1) <= n:
        size = np.diff(start)
        sides = np.maximum.reduceat(Z[order], start[:-1]) - np.minimum.reduceat(Z[order], start[:-1])
        group = np.repeat(np.arange(len(size)), size)
        along = Z[order, sides.argmax(axis=1)[group]]
        order = order[np.lexsort((along, group))]
        start = np.unique(np.concatenate([start, start[:-1] + size // 2]))
    return order, start
