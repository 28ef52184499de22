"""The Bayes tree density on (0, 1)^q: cells halved again and again, odds in each, half a cache line a node.

For a cell with n points, relative to the uniform distribution on it,

    Z = w + (1 - w) B(nl + a, nr + a) / B(a, a) 2^n Z_left Z_right,        Z = 1 for n <= 1 and at the greatest depth.

The predictive of y is the ratio of the Z's with and without y. Sequentially, with the odds g = Pr(go on) / Pr(stop) and
going = 2 (n_side + a) / (n + 2 a) * (predictive of the child), it is the mixture of 1 and `going` of `odds.py`.

A context may also stop in its parent's cell instead of the uniform distribution: `stop[j]` is the predictive of the
parent's tree in the cell of depth j, 1 for the root. It is overwritten with this tree's, for a child to read in turn.

A node is 32 bytes, seen through two views of the same memory:
    yf (m, 4) float64   [0] g
    yi (m, 8) int32     [2], [3] points left and right;  [4], [5] cells left and right;  [6] exponent of g
A cell is -1 (empty), -2 - row (one point, known by its row), or the index of a node.
"""

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import inlined_kernel, kernel
from coverwalk._kernels.double_tree import state as at
from coverwalk._kernels.odds import mixture, updated


@kernel
def new_tree(yf: Floats, yi: Ints32, counts: Ints, g0: float) -> int:
    """A node without points; returns its index. The caller has made sure of room, all of it zero."""
    node = counts[at.Y_NODES]
    counts[at.Y_NODES] = node + 1
    yf[node, 0] = g0
    yi[node, 4] = yi[node, 5] = at.EMPTY
    return node


@inlined_kernel
def predict_tree(
    yf: Floats,
    yi: Ints32,
    counts: Ints,
    codes: Ints,
    root: int,
    code: int,
    row: int,
    max_depth: int,
    a: float,
    g0: float,
    path: Ints32,
    stop: Floats,
) -> float:
    """The predictive of a cell path relative to the uniform distribution; then learns it as that of row, if >= 0."""
    learning = row >= 0
    node = root
    depth = 0
    while node >= 0 and depth < max_depth:
        path[depth] = node
        side = (code >> (63 - depth)) & 1
        depth += 1
        cell = yi[node, at.CELL + side]
        if learning and depth < max_depth:
            if cell == at.EMPTY:
                yi[node, at.CELL + side] = -2 - row
            elif cell < at.EMPTY:  # a second point: the cell becomes a node that holds the first
                other_side = (codes[-2 - cell] >> (63 - depth)) & 1
                fresh = new_tree(yf, yi, counts, g0)
                yi[fresh, at.POINTS + other_side] = 1
                yi[fresh, at.CELL + other_side] = cell
                yi[node, at.CELL + side] = fresh
                cell = fresh
        node = cell
    nodes = depth
    parting = code
    if node < at.EMPTY:  # a lone point: the nodes it would share with this one, down to where they part
        parting = code ^ codes[-2 - node]
        while depth < max_depth:
            depth += 1
            if (parting >> (64 - depth)) & 1:
                break
    predictive = stop[depth]
    for j in range(depth - 1, nodes - 1, -1):
        here = 1 - ((parting >> (63 - j)) & 1)
        predictive = mixture(g0, 0, stop[j], 2.0 * (here + a) / (1.0 + 2.0 * a) * predictive)
        stop[j] = predictive
    for j in range(nodes - 1, -1, -1):
        node = path[j]
        side = (code >> (63 - j)) & 1
        here = yi[node, at.POINTS + side]
        going = 2.0 * (here + a) / (here + yi[node, at.POINTS + 1 - side] + 2.0 * a) * predictive
        g, exponent, base = yf[node, 0], yi[node, at.EXPONENT], stop[j]
        predictive = mixture(g, exponent, base, going)
        stop[j] = predictive
        if learning:
            yi[node, at.POINTS + side] = here + 1
            yf[node, 0], yi[node, at.EXPONENT] = updated(g, exponent, going / base)
    return predictive
