"""The whole state of a double pseudo-tree: flat arrays, made and grown here, filled by the kernels of `kd_walk`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.normal_wishart import log_normalisers

__all__ = ["MAX_X_DEPTH", "KdState", "Settings", "grow", "new_state", "trim"]

MAX_X_DEPTH = 511  # alpha >= 1.05 keeps the depth below 380 for 2^31 rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class Settings(NamedTuple):
    """The numbers of the prior; every field is a scalar, fixed for the life of a state."""

    refine: bool  # the walk: coarse to fine, else fine to coarse
    inherit: bool  # new children start from the parent's posterior, else they replay their rows
    flow: bool  # a child's Normal-Wishart prior is centred on its parent's posterior, else all have the root's
    y_depth: int  # greatest depth of a tree density
    a: float  # Beta(a, a) prior of a halving
    g0: float  # prior odds that a cell is halved
    lam: float
    nu0: float
    psi0: float


class KdState(NamedTuple):
    """Arrays of one double pseudo-tree. All are owned by the estimator and changed in place by `learn`.

    xf (n, 8 + q + q(q+1)/2 + 2p)  a context's floats: cut, log odds of w and their softplus, log odds of v (normal
                             against tree) and their softplus, log evidence, log|Psi|, spare; mean, L; box low, box high
    xi (n, 12)               a context's integers: left, right, dimension, depth, rows learned, first row, last row,
                             root of its tree density, parent, rows held, nodes of its tree density, spare
    yf (m, 4), yi (m, 8)     nodes of the tree densities, two views of one memory (see `tree_density`)
    row_*                    the rows learned: x (N, p), z (N, q), cell path, log slope of the map, log psi of the
                             leaf that held it when it was learned, next row of the same leaf
    log_c (N + 2,)           normalisers of Student's t by rows seen
    theta, prior (512,)      by depth: rows above which a leaf splits; prior log odds of stopping
    scale (p,)               units in which the sides of a box are compared
    counts (4,)              contexts, y nodes, rows, leaves waiting to be split
    waiting, x_path, y_path, log_phi, r      scratch
    """

    xf: Floats
    xi: Ints
    yf: Floats
    yi: Ints
    row_x: Floats
    row_z: Floats
    row_code: Longs
    row_log_slope: Floats
    row_log_psi: Floats
    row_next: Ints
    log_c: Floats
    theta: Floats
    prior: Floats
    scale: Floats
    counts: Longs
    waiting: Ints
    x_path: Ints
    y_path: Ints
    log_phi: Floats
    r: Floats


def new_state(p: int, q: int, settings: Settings, theta: Floats, prior: Floats, scale: Floats) -> KdState:
    """A state without contexts: `kd_walk.learn` makes the root with its first row."""
    nodes = np.zeros((64, 4))
    width = 8 + q + q * (q + 1) // 2 + 2 * p
    depths = MAX_X_DEPTH + 1
    return KdState(
        xf=np.zeros((4, width)),
        xi=np.zeros((4, 12), dtype=np.int32),
        yf=nodes,
        yi=nodes.view(np.int32),
        row_x=np.zeros((4, p)),
        row_z=np.zeros((4, q)),
        row_code=np.zeros(4, dtype=np.int64),
        row_log_slope=np.zeros(4),
        row_log_psi=np.zeros(4),
        row_next=np.zeros(4, dtype=np.int32),
        log_c=log_normalisers(8, q, settings.lam, settings.nu0),
        theta=theta,
        prior=prior,
        scale=scale,
        counts=np.zeros(4, dtype=np.int64),
        waiting=np.zeros(depths, dtype=np.int32),
        x_path=np.zeros(depths, dtype=np.int32),
        y_path=np.zeros(65, dtype=np.int32),
        log_phi=np.zeros(depths),
        r=np.zeros(q),
    )


def _resized(array: NDArray[np.generic], n: int) -> NDArray[np.generic]:
    """The array with n rows: grown in place where the system can, so that old and new never stand side by side."""
    array.resize((n, *array.shape[1:]), refcheck=False)
    return array


def grow(state: KdState, settings: Settings, contexts: int, nodes: int, rows: int) -> KdState:
    """Room for at least so many contexts, y nodes and rows, with a third more where an array has to move."""
    new = state._asdict()
    if contexts > len(state.xf):
        for name in ("xf", "xi"):
            new[name] = _resized(new[name], contexts + contexts // 3)
    if nodes > len(state.yf):
        del new["yi"]
        new["yf"] = _resized(new["yf"], nodes + nodes // 3)
        new["yi"] = new["yf"].view(np.int32)
    if rows > len(state.row_x):
        n = rows + rows // 3
        for name in ("row_x", "row_z", "row_code", "row_log_slope", "row_log_psi", "row_next"):
            new[name] = _resized(new[name], n)
        new["log_c"] = log_normalisers(n + 4, state.row_z.shape[1], settings.lam, settings.nu0)
    return KdState(**new)


def trim(state: KdState) -> dict[str, NDArray[np.generic]]:
    """Only what is in use, and each memory once: what is written to disk."""
    contexts, nodes, rows, _ = (int(n) for n in state.counts)
    used = state._asdict()
    del used["yi"]
    used["yf"] = state.yf[:nodes].copy()
    for name in ("xf", "xi"):
        used[name] = used[name][:contexts].copy()
    for name in ("row_x", "row_z", "row_code", "row_log_slope", "row_log_psi", "row_next"):
        used[name] = used[name][:rows].copy()
    used["log_c"] = state.log_c[: rows + 2].copy()
    return used
