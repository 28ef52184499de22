"""The double pseudo-tree: one row down a kd-tree over x, a Normal-Wishart and a tree density in each context.

In a context, with log odds e = log(v_normal / v_tree) and softplus s(t) = log(1 + exp t),

    log phi = log phi_tree + s(e') - s(e),        e' = e + log phi_normal - log phi_tree,

and along the path, with log odds o = log(w / (1 - w)) and `before` the psi of the context the walk would go on to
(the parent when coarsening, the child when refining),

    log psi = log psi_before + s(o') - s(o),      o' = o + log phi - log psi_before.

s(o) is kept beside o, so that a context costs one softplus for each, and o' is both the answer's part and the new weight.
"""

from math import exp, log, log1p, sqrt

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.normal_wishart import learn_normal, predict_normal
from coverwalk._kernels.real_line import log_slope, morton
from coverwalk._kernels.tree_density import copy_tree, new_tree, observe_tree, predict_tree

__all__ = ["ask", "learn"]

_CUT, _O, _SOFT_O, _E, _SOFT_E, _LOG_Z, _LOG_DET, _MEAN = 0, 1, 2, 3, 4, 5, 6, 8
_LEFT, _RIGHT, _DIM, _DEPTH, _SEEN, _FIRST, _LAST, _TREE, _PARENT, _HELD, _NODES = range(11)
_CONTEXTS, _Y_NODES, _ROWS, _WAITING = range(4)
_LOG_2 = log(2.0)


@kernel
def _softplus(t):  # type: ignore[no-untyped-def]
    return t + log1p(exp(-t)) if t > 0.0 else log1p(exp(t))


@kernel
def _new_context(s, c, parent):  # type: ignore[no-untyped-def]
    """A leaf without rows; its local models are at their prior, or copies of the parent's where children inherit."""
    q = s.row_z.shape[1]
    m = s.counts[_CONTEXTS]
    s.counts[_CONTEXTS] = m + 1
    f, i = s.xf[m], s.xi[m]
    f[:] = 0.0
    depth = 0 if parent < 0 else s.xi[parent, _DEPTH] + 1
    i[_LEFT], i[_RIGHT], i[_DIM], i[_DEPTH], i[_SEEN] = -1, -1, -1, depth, 0
    i[_FIRST], i[_LAST], i[_PARENT], i[_HELD] = -1, -1, parent, 0
    f[_O] = s.prior[depth]
    f[_SOFT_O] = _softplus(f[_O])
    if parent >= 0 and c.inherit:
        f[_E : _SOFT_E + 1] = s.xf[parent, _E : _SOFT_E + 1]
        f[_LOG_DET:] = s.xf[parent, _LOG_DET:]
        i[_SEEN], i[_NODES] = s.xi[parent, _SEEN], s.xi[parent, _NODES]
        i[_TREE] = copy_tree(s, s.xi[parent, _TREE], c.g0)
        return m
    f[_SOFT_E] = _LOG_2
    i[_TREE] = new_tree(s, c.g0)
    i[_NODES] = 1
    if parent >= 0 and c.flow:  # Psi0 = the share of nu0 in the parent's Psi
        shrink = sqrt(c.nu0 / (c.nu0 + s.xi[parent, _SEEN]))
        for k in range(_MEAN, _MEAN + q):
            f[k] = s.xf[parent, k]
        for k in range(_MEAN + q, _MEAN + q + (q * (q + 1)) // 2):
            f[k] = s.xf[parent, k] * shrink
        f[_LOG_DET] = s.xf[parent, _LOG_DET] + 2.0 * q * log(shrink)
    else:
        for k in range(q):
            f[_MEAN + q + (k * (k + 3)) // 2] = sqrt(c.psi0)
        f[_LOG_DET] = q * log(c.psi0)
    return m


@kernel
def _observe(s, c, m, row):  # type: ignore[no-untyped-def]
    """log phi_m of a row before the local models learn it; then they do, and v with them."""
    f, i, z = s.xf[m], s.xi[m], s.row_z[row]
    n = i[_SEEN]
    before = s.counts[_Y_NODES]
    log_tree = log(observe_tree(s, i[_TREE], row, s.row_code[row], c.y_depth, c.a, c.g0)) + s.row_log_slope[row]
    i[_NODES] += s.counts[_Y_NODES] - before
    log_normal, growth = predict_normal(f, _MEAN, _LOG_DET, n, z, s.r, s.log_c, c.lam, c.nu0)
    learn_normal(f, _MEAN, _LOG_DET, n, z, s.r, growth, c.lam)
    i[_SEEN] = n + 1
    e = f[_E] + log_normal - log_tree
    soft = _softplus(e)
    log_phi = log_tree + soft - f[_SOFT_E]
    f[_E] = e
    f[_SOFT_E] = soft
    return log_phi


@kernel
def _stop_or_go(f, log_phi, log_before):  # type: ignore[no-untyped-def]
    """log psi = log(w phi + (1 - w) psi_before); then w' = w phi / psi."""
    o = f[_O] + log_phi - log_before
    soft = _softplus(o)
    log_psi = log_before + soft - f[_SOFT_O]
    f[_O] = o
    f[_SOFT_O] = soft
    return log_psi


@kernel
def _hold(s, c, m, row):  # type: ignore[no-untyped-def]
    """A leaf takes a row: the end of its list, and its box."""
    p = s.row_x.shape[1]
    f, i = s.xf[m], s.xi[m]
    low = f.shape[0] - 2 * p
    s.row_next[row] = -1
    if i[_HELD] == 0:
        i[_FIRST] = row
        for d in range(p):
            f[low + d] = f[low + p + d] = s.row_x[row, d]
    else:
        s.row_next[i[_LAST]] = row
        for d in range(p):
            x = s.row_x[row, d]
            if x < f[low + d]:
                f[low + d] = x
            elif x > f[low + p + d]:
                f[low + p + d] = x
    i[_LAST] = row
    i[_HELD] += 1


@kernel
def _wait_if_full(s, m):  # type: ignore[no-untyped-def]
    """A leaf of depth k with more than theta_k rows waits for its split, along its widest side, unless its rows coincide."""
    p = s.row_x.shape[1]
    f, i = s.xf[m], s.xi[m]
    if not i[_HELD] > s.theta[i[_DEPTH]]:
        return
    low = f.shape[0] - 2 * p
    widest = -1
    width = 0.0
    for d in range(p):
        side = f[low + p + d] / s.scale[d] - f[low + d] / s.scale[d]
        if side > width and f[low + p + d] > f[low + d]:
            widest, width = d, side
    if widest < 0:
        return
    cut = 0.5 * f[low + widest] + 0.5 * f[low + p + widest]
    # between neighbouring doubles the middle may round up; the low end always parts them
    f[_CUT] = cut if cut < f[low + p + widest] else f[low + widest]
    i[_DIM] = widest
    s.waiting[s.counts[_WAITING]] = m
    s.counts[_WAITING] += 1


@kernel
def _split(s, c, m):  # type: ignore[no-untyped-def]
    """Two children for a leaf; its rows are handed to them in order, and replayed unless children inherit."""
    f, i = s.xf[m], s.xi[m]
    dim, cut = i[_DIM], f[_CUT]
    left = _new_context(s, c, m)
    right = _new_context(s, c, m)
    row = i[_FIRST]
    while row >= 0:
        following = s.row_next[row]
        child = left if s.row_x[row, dim] <= cut else right
        _hold(s, c, child, row)
        if not c.inherit:
            log_phi = _observe(s, c, child, row)
            if c.refine:
                s.xf[child, _LOG_Z] += log_phi
            else:
                s.row_log_psi[row] = _stop_or_go(s.xf[child], log_phi, s.row_log_psi[row])
        row = following
    i[_LEFT], i[_RIGHT] = left, right
    i[_FIRST], i[_LAST], i[_HELD] = -1, -1, 0
    if c.refine and not c.inherit:
        _credit(s, m, s.xf[left, _LOG_Z] + s.xf[right, _LOG_Z])
    _wait_if_full(s, right)
    _wait_if_full(s, left)


@kernel
def _credit(s, m, log_z_children):  # type: ignore[no-untyped-def]
    """After a split, log Z_m = log(w0 Z_phi + (1 - w0) Z_left Z_right); what changed is told to all above.

    Of a context above, Z = (1 - w0) Z_children exp(s(o)) with o = log(w0 / (1 - w0)) + log Z_phi - log Z_children.
    """
    f = s.xf[m]
    log_z = f[_LOG_Z]
    soft0 = f[_SOFT_O]
    f[_O] += log_z - log_z_children
    f[_SOFT_O] = _softplus(f[_O])
    change = log_z_children - log_z + f[_SOFT_O] - soft0
    m = s.xi[m, _PARENT]
    while m >= 0:
        f = s.xf[m]
        soft0 = f[_SOFT_O]
        f[_O] -= change
        f[_SOFT_O] = _softplus(f[_O])
        change += f[_SOFT_O] - soft0
        m = s.xi[m, _PARENT]


@kernel
def _learn_row(s, c, row, depth):  # type: ignore[no-untyped-def]
    """One row along x_path[0 .. depth]; returns log psi, what was said of y before it was seen."""
    path, log_phi = s.x_path, s.log_phi
    for k in range(depth + 1):
        log_phi[k] = _observe(s, c, path[k], row)
    leaf = path[depth]
    if c.refine:
        log_psi = log_phi[depth]
        s.xf[leaf, _LOG_Z] += log_psi
        for k in range(depth - 1, -1, -1):
            log_psi = _stop_or_go(s.xf[path[k]], log_phi[k], log_psi)
    else:
        log_psi = log_phi[0]
        for k in range(1, depth + 1):
            log_psi = _stop_or_go(s.xf[path[k]], log_phi[k], log_psi)
        s.row_log_psi[row] = log_psi
    _hold(s, c, leaf, row)
    _wait_if_full(s, leaf)
    return log_psi


@kernel
def _find(s, x):  # type: ignore[no-untyped-def]
    """Write the contexts that hold x to x_path, coarse to fine; returns the depth of the finest."""
    m = 0
    depth = 0
    s.x_path[0] = 0
    while s.xi[m, _LEFT] >= 0:
        m = s.xi[m, _LEFT] if x[s.xi[m, _DIM]] <= s.xf[m, _CUT] else s.xi[m, _RIGHT]
        depth += 1
        s.x_path[depth] = m
    return depth


@kernel
def learn(s, c, X, Z, start, log_psi):  # type: ignore[no-untyped-def]
    """Learn the rows from `start`; returns (rows done, contexts, y nodes wanted): fewer rows mean that room ran out.

    X (n, p), Z (n, q)   rows, Z in standardised units
    log_psi (n,)         written: log psi(z | x) of each row before it was learned

    Call again with more room and start = rows done. Splits wait in the state and are made before the next row.
    """
    p, q = X.shape[1], Z.shape[1]
    t = start
    contexts, nodes = s.xf.shape[0], s.yf.shape[0]
    while t < X.shape[0] or s.counts[_WAITING] > 0:
        used, used_nodes = s.counts[_CONTEXTS], s.counts[_Y_NODES]
        if s.counts[_WAITING] > 0:
            m = s.waiting[s.counts[_WAITING] - 1]
            wanted = used_nodes + 2 * s.xi[m, _NODES] + 2  # a child's cells are among its parent's
            if used + 2 > contexts or wanted > nodes:
                return t, used + 2, wanted
            s.counts[_WAITING] -= 1
            _split(s, c, m)
            continue
        row = s.counts[_ROWS]
        if used == 0:
            _new_context(s, c, -1)
        depth = _find(s, X[t])
        wanted = used_nodes + (depth + 1) * c.y_depth + 1
        if row >= s.row_x.shape[0] or wanted > nodes:
            return t, used, wanted
        for d in range(p):
            s.row_x[row, d] = X[t, d]
        slope = 0.0
        for d in range(q):
            s.row_z[row, d] = Z[t, d]
            slope += log_slope(Z[t, d])
        s.row_code[row] = morton(Z[t], c.y_depth)
        s.row_log_slope[row] = slope
        s.counts[_ROWS] = row + 1
        log_psi[t] = _learn_row(s, c, row, depth)
        t += 1
    return t, s.counts[_CONTEXTS], s.counts[_Y_NODES]


@kernel
def _log_phi(s, c, m, z, code, slope):  # type: ignore[no-untyped-def]
    """log phi_m(z), nothing learned."""
    f, i = s.xf[m], s.xi[m]
    log_tree = log(predict_tree(s.yf, s.yi, s.y_path, i[_TREE], code, c.y_depth, c.a)) + slope
    log_normal, _ = predict_normal(f, _MEAN, _LOG_DET, i[_SEEN], z, s.r, s.log_c, c.lam, c.nu0)
    return log_tree + _softplus(f[_E] + log_normal - log_tree) - f[_SOFT_E]


@kernel
def ask(s, c, X, Z, log_psi):  # type: ignore[no-untyped-def]
    """Write log psi(z | x) of rows X (n, p), Z (n, q) to log_psi (n,); changes only scratch."""
    for t in range(X.shape[0]):
        z = Z[t]
        depth = _find(s, X[t])
        code = morton(z, c.y_depth)
        slope = 0.0
        for d in range(z.shape[0]):
            slope += log_slope(z[d])
        here = 0.0
        for j in range(depth + 1):
            k = depth - j if c.refine else j
            m = s.x_path[k]
            log_phi = _log_phi(s, c, m, z, code, slope)
            if j == 0:
                here = log_phi
            else:
                f = s.xf[m]
                here += _softplus(f[_O] + log_phi - here) - f[_SOFT_O]
        log_psi[t] = here
