"""The double tree: rows down a kd-tree over x, a Normal-Wishart and a tree density in each context.

Along the path of x, with T and N the densities of y under a context's two local models,

    phi = (T + v N) / (1 + v)                  v: odds of the normal against the tree
    psi = (psi_before + o phi) / (1 + o)       o: odds of stopping; psi_before is that of the context the walk would
                                               go on to, the parent when coarsening, the child when refining

both with the step of `odds.py`. Densities are relative to the map of `real_line.py`, so that they stay near one.
"""

from math import exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.real_line import log_slope, morton
from coverwalk._kernels.double_tree import state as at
from coverwalk._kernels.double_tree.normal_wishart import LOG_DET, MEAN, learn_normal, predict_normal
from coverwalk._kernels.double_tree.state import Settings, State
from coverwalk._kernels.double_tree.tree_density import new_tree, predict_tree
from coverwalk._kernels.odds import FAIR, log_mixture, log_odds, mixture, odds_from_log, updated

_LOG_FAIR = log(FAIR)


class Scratch(NamedTuple):
    """Working memory of one call: contexts of x, y nodes; tree predictives by depth; T, log N by context; residuals."""

    x_path: Any
    y_path: Any
    stop: Any
    tree: Any
    log_normal: Any
    r: Any


@kernel
def _scratch(s: State, c: Settings) -> Scratch:
    depths = s.theta.shape[0]
    return Scratch(
        np.empty(depths, np.int64),
        np.empty(c.y_depth + 1, np.int32),
        np.ones(c.y_depth + 1),
        np.empty(depths),
        np.empty(depths),
        np.empty(s.row_z.shape[1]),
    )


@kernel
def _new_context(s: State, c: Settings, parent: int) -> int:
    """A leaf without rows; its local models are at their prior."""
    p, q = s.row_x.shape[1], s.row_z.shape[1]
    m = s.counts[at.CONTEXTS]
    s.counts[at.CONTEXTS] = m + 1
    f, i = s.xf[m], s.xi[m]  # zero so far
    f[f.shape[0] - 2 * p : f.shape[0] - p], f[f.shape[0] - p :] = np.inf, -np.inf
    i[at.LEFT] = i[at.DIM] = i[at.FIRST] = i[at.LAST] = -1
    i[at.PARENT] = parent
    i[at.DEPTH] = 0 if parent < 0 else s.xi[parent, at.DEPTH] + 1
    f[at.O_ODDS] = s.prior[i[at.DEPTH]]
    f[at.V_ODDS] = 1.0
    i[at.TREE] = new_tree(s.yf, s.yi, s.counts, c.g0)
    i[at.NODES] = 1
    for k in range(q):
        f[MEAN + q + (k * (k + 3)) // 2] = sqrt(c.psi0)
        if parent >= 0 and c.flow:
            f[MEAN + k] = s.xf[parent, MEAN + k]
    f[LOG_DET] = q * log(c.psi0)
    return m


@kernel
def _predict(
    s: State, c: Settings, Z: Floats, t: int, code: int, slope: float, row: int, depth: int, b: Scratch
) -> None:
    """T and log N of Z[t] in x_path[0 .. depth]; then the local models learn it as that of ``row``, if >= 0."""
    # Arrays are taken out of their tuples once, here: each taking counts a reference, as dear as a logarithm.
    xf, xi, yf, yi, counts, codes, log_c, y_depth = s.xf, s.xi, s.yf, s.yi, s.counts, s.row_code, s.log_c, s.y_depth
    x_path, y_path, stop, tree, log_normal, r = b.x_path, b.y_path, b.stop, b.tree, b.log_normal, b.r
    learning = row >= 0
    for k in range(depth + 1):
        m = x_path[k]
        if not c.flow:
            stop[:] = 1.0
        nodes, y_max, n = counts[at.Y_NODES], y_depth[xi[m, at.DEPTH]], xi[m, at.SEEN]
        tree[k] = predict_tree(yf, yi, counts, codes, xi[m, at.TREE], code, row, y_max, c.a, c.g0, y_path, stop)
        log_normal[k] = 0.0
        if not learning and xi[m, at.V_EXPONENT] < 0 and log_c[n] - 0.5 * xf[m, LOG_DET] - slope < 0.5 * _LOG_FAIR:
            continue  # even the normal's peak is nothing beside the tree, at odds below 2^-332: any value will do
        log_n, growth = predict_normal(xf, m, n, Z, t, r, log_c, c.lam, c.nu0)
        log_normal[k] = log_n - slope
        if learning:
            learn_normal(xf, m, n, Z, t, r, growth, c.lam)
            xi[m, at.SEEN] = n + 1
            xi[m, at.NODES] += counts[at.Y_NODES] - nodes


@kernel
def _walk(s: State, c: Settings, depth: int, log_before: float, learning: bool, slope: float, b: Scratch) -> float:
    """log psi - slope along x_path[0 .. depth], in the walk's direction; where learning, v and w are updated.

    log_before: psi of the context before the first; NaN if the walk starts here, and stops here for sure.
    """
    f, i, x_path, tree, log_normal = s.xf, s.xi, b.x_path, b.tree, b.log_normal
    low, high = 1e300, -1e300
    for k in range(depth + 1):
        low = min(low, log_normal[k])
        high = max(high, log_normal[k])
    # T lies within a few powers of ten of 1; so must N and psi_before for a step without logarithms
    if low < -0.5 * _LOG_FAIR or high > 0.5 * _LOG_FAIR or abs(log_before) > 0.5 * _LOG_FAIR:
        return _walk_in_logs(s, c, depth, log_before, learning, slope, b)
    psi = exp(log_before)
    for j in range(depth + 1):
        k = depth - j if c.refine else j
        m = x_path[k]
        T, N = tree[k], exp(log_normal[k])
        phi = mixture(f[m, at.V_ODDS], i[m, at.V_EXPONENT], T, N)
        if learning:
            f[m, at.V_ODDS], i[m, at.V_EXPONENT] = updated(f[m, at.V_ODDS], i[m, at.V_EXPONENT], N / T)
        if j == 0 and log_before != log_before:
            psi = phi
            if learning and c.refine:
                f[m, at.LOG_Z] += log(phi) + slope
        else:
            before = psi
            psi = mixture(f[m, at.O_ODDS], i[m, at.O_EXPONENT], before, phi)
            if learning:
                f[m, at.O_ODDS], i[m, at.O_EXPONENT] = updated(f[m, at.O_ODDS], i[m, at.O_EXPONENT], phi / before)
    return log(psi)


@kernel
def _walk_in_logs(
    s: State, c: Settings, depth: int, log_before: float, learning: bool, slope: float, b: Scratch
) -> float:
    """The same for a y so far out that densities or their ratios would leave the range of a double."""
    f, i, x_path, tree, log_normal = s.xf, s.xi, b.x_path, b.tree, b.log_normal
    log_psi = log_before
    for j in range(depth + 1):
        k = depth - j if c.refine else j
        m = x_path[k]
        log_T, log_N = log(tree[k]), log_normal[k]
        v = log_odds(f[m, at.V_ODDS], i[m, at.V_EXPONENT])
        log_phi = log_mixture(v, log_T, log_N)
        if learning:
            f[m, at.V_ODDS], i[m, at.V_EXPONENT] = odds_from_log(v + log_N - log_T)
        if j == 0 and log_before != log_before:
            log_psi = log_phi
            if learning and c.refine:
                f[m, at.LOG_Z] += log_phi + slope
        else:
            o = log_odds(f[m, at.O_ODDS], i[m, at.O_EXPONENT])
            if learning:
                f[m, at.O_ODDS], i[m, at.O_EXPONENT] = odds_from_log(o + log_phi - log_psi)
            log_psi = log_mixture(o, log_psi, log_phi)
    return log_psi


@kernel
def _hold(s: State, m: int, row: int) -> None:
    """A leaf takes a row: at the end of its list, and into its box."""
    xf, xi, row_x, row_next = s.xf, s.xi, s.row_x, s.row_next
    p = row_x.shape[1]
    low = xf.shape[1] - 2 * p
    row_next[row] = -1
    if xi[m, at.HELD] == 0:
        xi[m, at.FIRST] = row
    else:
        row_next[xi[m, at.LAST]] = row
    for d in range(p):
        x = row_x[row, d]
        if x < xf[m, low + d]:
            xf[m, low + d] = x
        if x > xf[m, low + p + d]:
            xf[m, low + p + d] = x
    xi[m, at.LAST] = row
    xi[m, at.HELD] += 1


@kernel
def _wait_if_full(s: State, m: int) -> None:
    """A leaf of depth k with more than theta_k rows waits to be split across its widest side, if its rows differ."""
    if not s.xi[m, at.HELD] > s.theta[s.xi[m, at.DEPTH]]:
        return
    p = s.row_x.shape[1]
    f, i = s.xf[m], s.xi[m]
    low = f.shape[0] - 2 * p
    widest = -1
    width = 0.0
    for d in range(p):
        side = f[low + p + d] / s.scale[d] - f[low + d] / s.scale[d]
        if side > width:
            widest, width = d, side
    if widest < 0:
        return
    split = 0.5 * f[low + widest] + 0.5 * f[low + p + widest]
    if not f[low + widest] <= split < f[low + p + widest]:  # neighbouring doubles: nothing lies between them
        return
    f[at.SPLIT_AT] = split
    i[at.DIM] = widest
    s.waiting[s.counts[at.WAITING]] = m
    s.counts[at.WAITING] += 1


@kernel
def _split(s: State, c: Settings, m: int, b: Scratch) -> None:
    """Two children for a leaf: its rows are handed to them in order, as if they had been there when the rows came."""
    f, i, stop, row_stop = s.xf[m], s.xi[m], b.stop, s.row_stop
    only = np.int64(0)  # a typed zero: a literal would compile everything below it once more
    left = _new_context(s, c, m)
    right = _new_context(s, c, m)
    row = np.int64(i[at.FIRST])
    while row >= 0:
        following = np.int64(s.row_next[row])
        child = left if s.row_x[row, i[at.DIM]] <= f[at.SPLIT_AT] else right
        _hold(s, child, row)
        for j in range(row_stop.shape[1]):
            stop[j] = row_stop[row, j]
        b.x_path[0] = child
        _learn_row(s, c, row, only, np.nan if c.refine else s.row_log_psi[row], b)
        row = following
    i[at.LEFT] = left
    i[at.FIRST] = i[at.LAST] = -1
    i[at.HELD] = 0
    if c.refine:
        _credit(s, m, s.xf[left, at.LOG_Z] + s.xf[right, at.LOG_Z])
    _wait_if_full(s, right)
    _wait_if_full(s, left)


@kernel
def _credit(s: State, m: int, log_z_children: float) -> None:
    """Refining: after a split Z_m = w0 Z_phi + (1 - w0) Z_left Z_right; what changed is told to all above.

    With log odds o = log(w0 / (1 - w0)) + log Z_phi - log Z_children, Z = Z_children (1 - w0) / Pr(go on).
    """
    f, i = s.xf[m], s.xi[m]
    change = log_z_children - f[at.LOG_Z]
    o = log_odds(f[at.O_ODDS], i[at.O_EXPONENT])
    change = log_mixture(o, change, 0.0)
    f[at.O_ODDS], i[at.O_EXPONENT] = odds_from_log(o + f[at.LOG_Z] - log_z_children)
    above = i[at.PARENT]
    while above >= 0:
        f, i = s.xf[above], s.xi[above]
        o = log_odds(f[at.O_ODDS], i[at.O_EXPONENT])
        f[at.O_ODDS], i[at.O_EXPONENT] = odds_from_log(o - change)
        change = log_mixture(o, change, 0.0)
        above = i[at.PARENT]


@kernel
def find(s: State, X: Floats, t: int, path: Ints) -> int:
    """Write the contexts that hold X[t] to path, coarse to fine; returns the depth of the finest."""
    xf, xi = s.xf, s.xi
    m = 0
    depth = 0
    path[0] = 0
    while xi[m, at.LEFT] >= 0:
        m = xi[m, at.LEFT] + (0 if X[t, xi[m, at.DIM]] <= xf[m, at.SPLIT_AT] else 1)
        depth += 1
        path[depth] = m
    return depth


@kernel
def _slope(Z: Floats, t: int) -> float:
    """The log slope of the map at Z[t]."""
    slope = 0.0
    for d in range(Z.shape[1]):
        slope += log_slope(Z[t, d])
    return slope


@kernel
def _learn_row(s: State, c: Settings, row: int, depth: int, log_before: float, b: Scratch) -> float:
    """One row along x_path[0 .. depth], after ``log_before``, as `_walk` has it; the log density before it was learned.

    ``stop`` holds the predictives of the tree of the context before, by depth.
    """
    slope = _slope(s.row_z, row)
    _predict(s, c, s.row_z, row, s.row_code[row], slope, row, depth, b)
    log_psi = _walk(s, c, depth, log_before, True, slope, b)
    s.row_log_psi[row] = log_psi
    stop, row_stop = b.stop, s.row_stop
    for j in range(row_stop.shape[1]):
        row_stop[row, j] = stop[j]
    return log_psi + slope


@kernel
def learn(s: State, c: Settings, end: int, log_psi: Floats, wanted: Ints) -> bool:
    """Learn the rows that stand in ``row_x`` and ``row_z`` up to ``end``; False where capacity ran out.

    log_psi (n,)    written: log psi(z | x) of each of the n rows before ``end`` before it was learned
    wanted (2,)     written: contexts and y nodes that are wanted

    Call again with more capacity. Splits wait in the state and are made before the next row.
    """
    b = _scratch(s, c)
    contexts, nodes = s.xf.shape[0], s.yf.shape[0]
    if s.counts[at.CONTEXTS] == 0:
        _new_context(s, c, np.int64(-1))
    while s.counts[at.ROWS] < end or s.counts[at.WAITING] > 0:
        used, used_nodes = s.counts[at.CONTEXTS], s.counts[at.Y_NODES]
        if s.counts[at.WAITING] > 0:
            m = np.int64(s.waiting[s.counts[at.WAITING] - 1])
            wanted[0], wanted[1] = used + 2, used_nodes + 2 * s.xi[m, at.NODES] + 2  # a child's cells are its parent's
            if wanted[0] > contexts or wanted[1] > nodes:
                return False
            s.counts[at.WAITING] -= 1
            _split(s, c, m, b)
            continue
        row = s.counts[at.ROWS]
        depth = find(s, s.row_x, row, b.x_path)
        wanted[0], wanted[1] = used, used_nodes + (depth + 1) * c.y_depth
        if wanted[1] > nodes:
            return False
        s.counts[at.ROWS] = row + 1
        s.row_code[row] = morton(s.row_z, row, c.y_depth)
        b.stop[:] = 1.0
        log_psi[len(log_psi) - end + row] = _learn_row(s, c, row, depth, np.nan, b)
        _hold(s, b.x_path[depth], row)
        _wait_if_full(s, b.x_path[depth])
    return True


@kernel
def logpdf(s: State, c: Settings, X: Floats, Z: Floats, log_psi: Floats) -> None:
    """Write log psi(z | x) of rows X (n, p), Z (n, q) to log_psi (n,); changes nothing in the state."""
    b = _scratch(s, c)
    for t in range(X.shape[0]):
        depth = find(s, X, t, b.x_path)
        slope = _slope(Z, t)
        b.stop[:] = 1.0
        _predict(s, c, Z, t, morton(Z, t, c.y_depth), slope, np.int64(-1), depth, b)
        log_psi[t] = _walk(s, c, depth, np.nan, False, slope, b) + slope
