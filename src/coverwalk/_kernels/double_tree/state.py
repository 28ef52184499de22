"""The whole state of a double tree: flat arrays, made and grown here, filled by the kernels of `walk`."""

from typing import Annotated, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.double_tree.normal_wishart import log_normalisers
from coverwalk.files.schema import Flag, Real, Whole, stored

MAX_X_DEPTH = 511  # alpha >= 1.05 keeps the depth below 380 for 2^31 rows

# columns of xf: split, odds of w, odds of v (normal against tree), log evidence of phi; then see `normal_wishart`
SPLIT_AT, O_ODDS, V_ODDS, LOG_Z = range(4)
# columns of xi: left child (the right one is the next), split dimension, depth, rows learned, first and last row, root
# of the tree density, parent, rows held, nodes of the tree density, exponents of w and v
LEFT, DIM, DEPTH, SEEN, FIRST, LAST, TREE, PARENT, HELD, NODES, O_EXPONENT, V_EXPONENT = range(12)
POINTS, CELL, EXPONENT = 2, 4, 6  # columns of yi, of the left half
EMPTY = -1  # a cell without points
CONTEXTS, Y_NODES, ROWS, WAITING = range(4)  # places of counts


@stored()
class Settings(NamedTuple):
    """The numbers of the prior: scalars, fixed for the life of a state."""

    refine: Annotated[bool, Flag()]  # the walk: coarse to fine, else fine to coarse
    flow: Annotated[bool, Flag()]  # a child's priors are its parent's posterior: mean of the normal, cells of the tree
    alpha: Annotated[float, Real(low=1.05, high=1e6)]  # a leaf at depth k splits above alpha^k rows
    w: Annotated[float, Real(low=0, below=1)]  # prior probability of stopping; 0: 2^-k at depth k
    y_depth: Annotated[int, Whole(1, 64)]  # greatest depth of a tree density
    a: Annotated[float, Real(low=1e-100, high=1e100)]  # Beta(a, a) prior of a halving
    g0: Annotated[float, Real(low=1e-100, high=1e17)]  # prior odds that a cell is halved
    lam: Annotated[float, Real(low=1e-100, high=1e100)]
    nu0: Annotated[float, Real(above=0, high=1e9)]
    psi0: Annotated[float, Real(low=1e-100, high=1e100)]


class State(NamedTuple):
    """Arrays of one double tree. All are owned by the estimator and changed in place by `learn`.

    xf (n, 6 + q + q(q+1)/2 + 2p)  a context's floats: the columns above, log|Psi|, spare; mean, L; low and high corner
                             of the box of its rows, inf and -inf where it has none
    xi (n, 16)               a context's integers: the columns above
    yf (m, 4), yi (m, 8)     nodes of the tree densities, two views of one memory (see `tree_density`)
    row_*                    the rows learned, and x and z of those that come: x (N, p), z (N, q), cell path, log
                             psi - log slope of the map of the leaf that held it when it was learned, predictives of
                             that leaf's tree by depth (N, y_depth; or N, 0 where priors do not flow), next row of the
                             same leaf
    log_c (N + 4,)           normalisers of Student's t by rows seen
    theta, prior (512,)      by depth of the context: rows above which a leaf splits; prior odds of stopping
    y_depth (512,)           by depth of the context: greatest depth of its tree density
    scale (p,)               units in which the sides of a box are compared
    counts (4,)              contexts, y nodes, rows, leaves waiting to be split
    waiting (512,)           the leaves that wait; splits are made before the next row is learned
    """

    xf: Floats
    xi: Ints32
    yf: Floats
    yi: Ints32
    row_x: Floats
    row_z: Floats
    row_code: Ints
    row_log_psi: Floats
    row_stop: Floats
    row_next: Ints32
    log_c: Floats
    theta: Floats
    prior: Floats
    y_depth: Ints32
    scale: Floats
    counts: Ints
    waiting: Ints32


def new_state(q: int, c: Settings, scale: Floats) -> State:
    """A state without contexts: `walk.learn` makes the root with the first row."""
    p, nodes, k = len(scale), np.zeros((64, 4)), np.arange(MAX_X_DEPTH + 1)
    with np.errstate(over="ignore"):
        theta = c.alpha ** k.astype(float)
    theta[-1] = np.inf
    w = np.full(len(k), c.w) if c.w > 0 else np.exp2(-np.maximum(k, 1.0))
    y_depth = np.full(len(k), c.y_depth)
    if c.flow:  # finer cells than these are left to the coarser contexts, which have the rows for them
        y_depth = np.maximum(c.y_depth - k, min(c.y_depth, 4 * q))
    return State(
        xf=np.zeros((4, 6 + q + q * (q + 1) // 2 + 2 * p)),
        xi=np.zeros((4, 16), dtype=np.int32),
        yf=nodes,
        yi=nodes.view(np.int32),
        row_x=np.zeros((4, p)),
        row_z=np.zeros((4, q)),
        row_code=np.zeros(4, dtype=np.int64),
        row_log_psi=np.zeros(4),
        row_stop=np.zeros((4, c.y_depth if c.flow else 0)),
        row_next=np.zeros(4, dtype=np.int32),
        log_c=log_normalisers(8, q, c.lam, c.nu0),
        theta=theta,
        prior=w / (1 - w),
        y_depth=y_depth.astype(np.int32),
        scale=scale,
        counts=np.zeros(4, dtype=np.int64),
        waiting=np.zeros(len(k), np.int32),
    )


def grow(state: State, c: Settings, contexts: int, nodes: int, rows: int) -> State:
    """Capacity for so many contexts, y nodes and rows, and a quarter more; the old state must not be used again.

    Arrays grow in place where the system can, so that old and new never stand side by side.
    """
    for n, arrays in (
        (contexts, (state.xf, state.xi)),
        (nodes, (state.yf,)),
        (rows, (state.row_x, state.row_z, state.row_code, state.row_log_psi, state.row_stop, state.row_next)),
    ):
        if n > len(arrays[0]):
            for array in arrays:
                array.resize((n + n // 4, *array.shape[1:]), refcheck=False)
    if len(state.log_c) < len(state.row_x) + 4:
        log_c = log_normalisers(len(state.row_x) + 4, state.row_z.shape[1], c.lam, c.nu0)
        state = state._replace(log_c=log_c)
    return state._replace(yi=state.yf.view(np.int32))


def widened(state: State, extra: int) -> State:
    """The state with further inputs that were 0 in all rows: what it would be had they been there from the start."""
    p = state.row_x.shape[1]
    high = state.xf.shape[1] - p  # where the high corners of the boxes begin
    by_row = np.zeros((len(state.row_x), extra))
    side = np.repeat(np.where(state.xi[:, [SEEN]] > 0, 0.0, np.inf), extra, axis=1)  # without rows, no box
    return state._replace(
        xf=np.hstack([state.xf[:, :high], side, state.xf[:, high:], 0.0 - side]),
        row_x=np.hstack([state.row_x, by_row]),
        scale=np.append(state.scale, np.ones(extra)),
    )


def copied(state: State) -> State:
    """The same state in memory of its own."""
    copies = {name: array.copy() for name, array in state._asdict().items()}
    return State(**{**copies, "yi": copies["yf"].view(np.int32)})
