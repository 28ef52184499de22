"""The whole state of a double tree: flat arrays, made and grown here, filled by the kernels of `walk`."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.double_tree.normal_wishart import log_normalisers
from coverwalk.files.schema import Flag, Real, Whole, stored

MAX_X_DEPTH = 511  # alpha >= 1.05 keeps the depth below 380 for 2^31 rows

# columns of xf: split, odds of w, odds of v (normal against tree), log evidence of phi; then see `normal_wishart`
SPLIT_AT, O_ODDS, V_ODDS, LOG_Z = range(4)
# columns of xi: children, split dimension, depth, rows learned, first and last row, root of the tree density, parent,
# rows held, nodes of the tree density, exponents of w and v
LEFT, RIGHT, DIM, DEPTH, SEEN, FIRST, LAST, TREE, PARENT, HELD, NODES, O_EXPONENT, V_EXPONENT = range(13)
POINTS, CELL, EXPONENT = 2, 4, 6  # columns of yi, of the left half
EMPTY = -1  # a cell without points
CONTEXTS, Y_NODES, ROWS, WAITING = range(4)  # places of counts

_BY_CONTEXT = ("xf", "xi")
_BY_ROW = ("row_x", "row_z", "row_code", "row_log_psi", "row_stop", "row_next")


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
                             of the box of its rows
    xi (n, 16)               a context's integers: the columns above
    yf (m, 4), yi (m, 8)     nodes of the tree densities, two views of one memory (see `tree_density`)
    row_*                    the rows learned: x (N, p), z (N, q), cell path, log psi - log slope of the map of the leaf
                             that held it when it was learned, predictives of that leaf's tree by depth (N, y_depth; or
                             N, 0 where priors do not flow), next row of the same leaf
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
    p, nodes = len(scale), np.zeros((64, 4))
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
        scale=scale,
        counts=np.zeros(4, dtype=np.int64),
        **_tables(q, c, 4),
    )


def _tables(q: int, c: Settings, rows: int) -> dict[str, Any]:
    """What the settings make of it: by number of rows, by depth of a context, and room for leaves that wait."""
    k = np.arange(MAX_X_DEPTH + 1)
    with np.errstate(over="ignore"):
        theta = c.alpha ** k.astype(float)
    theta[-1] = np.inf
    w = np.full(len(k), c.w) if c.w > 0 else np.exp2(-np.maximum(k, 1.0))
    y_depth = np.full(len(k), c.y_depth)
    if c.flow:  # finer cells than these are left to the coarser contexts, which have the rows for them
        y_depth = np.maximum(c.y_depth - k, min(c.y_depth, 4 * q))
    return {
        "log_c": log_normalisers(rows + 4, q, c.lam, c.nu0),
        "theta": theta,
        "prior": w / (1 - w),
        "y_depth": y_depth.astype(np.int32),
        "waiting": np.zeros(len(k), np.int32),
    }


def _resized(array: NDArray[Any], n: int) -> NDArray[Any]:
    """The array with n rows: grown in place where the system can, so that old and new never stand side by side."""
    owned = array if array.flags.owndata else array.copy()  # a loaded model's arrays may belong to its file
    owned.resize((n, *array.shape[1:]), refcheck=False)
    return owned


def grow(state: State, c: Settings, contexts: int, nodes: int, rows: int) -> State:
    """Capacity for so many contexts, y nodes and rows, and a quarter more; the old state must not be used again."""
    new: dict[str, NDArray[Any]] = state._asdict()
    if contexts > len(state.xf):
        for name in _BY_CONTEXT:
            new[name] = _resized(new[name], contexts + contexts // 4)
    if nodes > len(state.yf):
        new["yf"] = _resized(new["yf"], nodes + nodes // 4)
        new["yi"] = new["yf"].view(np.int32)
    if rows > len(state.row_x):
        n = rows + rows // 4
        for name in _BY_ROW:
            new[name] = _resized(new[name], n)
        new["log_c"] = log_normalisers(n + 4, state.row_z.shape[1], c.lam, c.nu0)
    return State(**new)


def widened(state: State, extra: int) -> State:
    """The state with further inputs that were 0 in all rows: what it would be had they been there from the start."""
    p = state.row_x.shape[1]
    high = state.xf.shape[1] - p  # where the high corners of the boxes begin
    by_context, by_row = np.zeros((len(state.xf), extra)), np.zeros((len(state.row_x), extra))
    return state._replace(
        xf=np.hstack([state.xf[:, :high], by_context, state.xf[:, high:], by_context]),
        row_x=np.hstack([state.row_x, by_row]),
        scale=np.append(state.scale, np.ones(extra)),
    )


def pack(state: State) -> dict[str, NDArray[Any]]:
    """Copies of what is in use, each memory once, without what is made again: what is pickled and written to disk."""
    contexts, nodes, rows, _ = (int(n) for n in state.counts)
    boxes = state.xf.shape[1] - 2 * state.row_x.shape[1]
    used = {
        "scale": state.scale,
        "counts": state.counts,
        "xi": state.xi[:contexts],
        "xf": state.xf[:contexts, :boxes],
        "yf": state.yf[:nodes].view(np.int64),  # half of it are integers, which no text of a double would keep
        **{name: getattr(state, name)[:rows] for name in _BY_ROW if name != "row_next"},
    }
    return {name: array.copy() for name, array in used.items()}


def unpack(used: dict[str, NDArray[Any]], c: Settings) -> State:
    """The state from its packed form, where no leaf holds its rows yet: `walk.hold_rows`."""
    used = {name: np.require(array, requirements="W") for name, array in used.items()}  # a file's may be read-only
    (rows, q), p = used["row_z"].shape, len(used["scale"])
    made: dict[str, Any] = {
        "xf": np.hstack([used["xf"], np.zeros((len(used["xf"]), 2 * p))]),
        "yf": used["yf"].view(np.float64),
        "yi": used["yf"].view(np.int32),
        "row_next": np.zeros(rows, np.int32),
        **_tables(q, c, rows),
    }
    return State(**{**used, **made})
