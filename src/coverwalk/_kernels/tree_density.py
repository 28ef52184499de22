"""The Bayes tree density on (0, 1)^q: cells halved for ever, a stop weight in each, one cache line a node.

For a cell with n points, relative to the uniform law on it,

    Z = w + (1 - w) B(nl + a, nr + a) / B(a, a) 2^n Z_left Z_right,        Z = 1 for n <= 1 and at the greatest depth.

The predictive of y is the ratio of the Z's with and without y. Kept sequentially, with the odds g = Pr(go) / Pr(stop):

    r = 2 (n_side + a) / (n + 2 a) * predictive of the child,    predictive = (1 + g r) / (1 + g),    g' = g r.

The ratio r lies within a few powers of two, so g needs no logarithms; where it outgrows a double, whole powers of
2^332 are set aside in an exponent and brought back when the data turn.

A node is 32 bytes, seen through two views of the same memory:
    yf (m, 4) float64   [0] g
    yi (m, 8) int32     [2], [3] points left and right;  [4], [5] cells left and right;  [6] exponent of g
A cell is -1 (empty), -2 - row (one point, known by its row), or the index of a node.
"""

from coverwalk._kernels._compile import kernel

__all__ = ["copy_tree", "new_tree", "observe_tree", "predict_tree"]

_POINTS, _CELL, _EXPONENT = 2, 4, 6
_EMPTY = -1
_STEP = 2.0**332
_FAR = 2.0**664


@kernel
def new_tree(s, g0):  # type: ignore[no-untyped-def]
    """A node without points; returns its index. The caller has made sure of room."""
    node = s.counts[1]
    s.counts[1] = node + 1
    s.yf[node, 0] = g0
    s.yi[node, 2] = 0
    s.yi[node, 3] = 0
    s.yi[node, 4] = _EMPTY
    s.yi[node, 5] = _EMPTY
    s.yi[node, 6] = 0
    return node


@kernel
def _mix(g, exponent, r):  # type: ignore[no-untyped-def]
    """(1 + g r) / (1 + g), with the odds g 2^(332 exponent); written so that the chain over r is one product and a sum."""
    if exponent == 0:
        stop = 1.0 / (1.0 + g)
        return stop + (g * stop) * r
    return r if exponent > 0 else 1.0


@kernel
def observe_tree(s, root, row, code, max_depth, a, g0):  # type: ignore[no-untyped-def]
    """The predictive of a row's cell path relative to the uniform law, before learning it; then learns it."""
    yf, yi, path = s.yf, s.yi, s.y_path
    node = root
    depth = 0
    while True:
        path[depth] = node
        side = (code >> (63 - depth)) & 1
        depth += 1
        if depth == max_depth:
            break
        cell = yi[node, _CELL + side]
        if cell == _EMPTY:
            yi[node, _CELL + side] = -2 - row
            break
        if cell < _EMPTY:  # a second point: the cell becomes a node that holds the first
            other_side = (s.row_code[-2 - cell] >> (63 - depth)) & 1
            fresh = new_tree(s, g0)
            yi[fresh, _POINTS + other_side] = 1
            yi[fresh, _CELL + other_side] = cell
            yi[node, _CELL + side] = fresh
            cell = fresh
        node = cell
    predictive = 1.0
    for j in range(depth - 1, -1, -1):
        node = path[j]
        side = (code >> (63 - j)) & 1
        here = yi[node, _POINTS + side]
        r = 2.0 * (here + a) / (here + yi[node, _POINTS + 1 - side] + 2.0 * a) * predictive
        yi[node, _POINTS + side] = here + 1
        g = yf[node, 0]
        exponent = yi[node, _EXPONENT]
        predictive = _mix(g, exponent, r)
        g *= r
        if exponent >= 0 and g > _FAR:
            yi[node, _EXPONENT] = exponent + 1
            g /= _STEP
        elif exponent <= 0 and g < 1.0 / _FAR:
            yi[node, _EXPONENT] = exponent - 1
            g *= _STEP
        elif exponent > 0 and g < 1.0:
            yi[node, _EXPONENT] = exponent - 1
            g *= _STEP
        elif exponent < 0 and g > 1.0:
            yi[node, _EXPONENT] = exponent + 1
            g /= _STEP
        yf[node, 0] = g
    return predictive


@kernel
def predict_tree(yf, yi, path, root, code, max_depth, a):  # type: ignore[no-untyped-def]
    """The predictive of a cell path relative to the uniform law; changes nothing but the scratch path."""
    node = root
    depth = 0
    while node >= 0 and depth < max_depth:
        path[depth] = node
        node = yi[node, _CELL + ((code >> (63 - depth)) & 1)]
        depth += 1
    predictive = 1.0
    for j in range(depth - 1, -1, -1):
        node = path[j]
        side = (code >> (63 - j)) & 1
        here = yi[node, _POINTS + side]
        r = 2.0 * (here + a) / (here + yi[node, _POINTS + 1 - side] + 2.0 * a) * predictive
        predictive = _mix(yf[node, 0], yi[node, _EXPONENT], r)
    return predictive


@kernel
def copy_tree(s, root, g0):  # type: ignore[no-untyped-def]
    """A copy of the whole tree under a node; returns its root. The new nodes follow each other, so they are the stack."""
    yf, yi = s.yf, s.yi
    first = new_tree(s, g0)
    yf[first] = yf[root]
    todo = first
    while todo < s.counts[1]:
        for side in range(2):
            old = yi[todo, _CELL + side]
            if old >= 0:
                fresh = new_tree(s, g0)
                yf[fresh] = yf[old]
                yi[todo, _CELL + side] = fresh
        todo += 1
    return first
