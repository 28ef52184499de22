"""The predictive of a double tree taken apart: which local models of which contexts predict, and the cells of y."""

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.double_tree import state as at
from coverwalk._kernels.double_tree.state import Settings, State
from coverwalk._kernels.double_tree.tree_density import predict_tree
from coverwalk._kernels.double_tree.walk import find
from coverwalk._kernels.odds import mixture

_SHALLOWEST = 3  # cells this deep lie on one side of an edge of the map's core


@kernel
def leaves(s: State, X: Floats, path: Ints, out: Ints) -> None:
    """Write the finest context of each row of X to out (n,); path is scratch."""
    for t in range(X.shape[0]):
        out[t] = path[find(s, X, t, path)]


@kernel
def finest_cells(s: State, c: Settings, code: Ints, depth: Ints) -> int:
    """Write the cells, left to right, within which every context's tree density is flat; returns how many there are.

    A child's nodes are among the root's, so these are the leaves of the root's tree. Where there are more than code
    (m,) and depth (m,) hold, the rest is counted only. code: the turns from the root, from bit 63 down.
    """
    yi, codes = s.yi, s.row_code
    cells = np.empty(2 * (c.y_depth + _SHALLOWEST) + 2, np.int64)
    depths = np.empty_like(cells)
    prefixes = np.empty_like(cells)
    cells[0], depths[0], prefixes[0] = s.xi[0, at.TREE], 0, 0
    waiting, found = 1, 0
    while waiting > 0:
        waiting -= 1
        cell, d, prefix = cells[waiting], depths[waiting], prefixes[waiting]
        if d >= c.y_depth:
            cell = at.EMPTY
        if cell == at.EMPTY and d >= _SHALLOWEST:
            if found < code.shape[0]:
                code[found], depth[found] = prefix, d
            found += 1
            continue
        for side in (1, 0):  # the left half is taken next
            inside = np.int64(at.EMPTY)
            if cell >= 0:
                inside = np.int64(yi[cell, at.CELL + side])
            elif cell < at.EMPTY and ((codes[-2 - cell] >> (63 - d)) & 1) == side:
                inside = cell
            cells[waiting], depths[waiting], prefixes[waiting] = inside, d + 1, prefix | (side << (63 - d))
            waiting += 1
    return found


@kernel
def context_weights(s: State, c: Settings, X: Floats, t: int, path: Ints, normal: Floats, tree: Floats) -> int:
    """Write the contexts of X[t] and the weights of their normals and trees; returns the depth of the finest."""
    deepest = find(s, X, t, path)
    reach = 1.0
    for j in range(deepest + 1):
        k = j if c.refine else deepest - j
        m = path[k]
        stop = 1.0 if j == deepest else mixture(s.xf[m, at.O_ODDS], s.xi[m, at.O_EXPONENT], 0.0, 1.0)
        # each weight from the odds, not from the other: 1 - v would lose a small one
        normal[k] = reach * stop * mixture(s.xf[m, at.V_ODDS], s.xi[m, at.V_EXPONENT], 0.0, 1.0)
        tree[k] = reach * stop * mixture(s.xf[m, at.V_ODDS], s.xi[m, at.V_EXPONENT], 1.0, 0.0)
        reach *= mixture(s.xf[m, at.O_ODDS], s.xi[m, at.O_EXPONENT], 1.0, 0.0)
    return deepest


@kernel
def component_weights(s: State, c: Settings, X: Floats, weight: Floats, depth: Floats) -> None:
    """Write the weight of the normals (n,) and the mean depth of stopping (n,) of rows X."""
    depths = s.theta.shape[0]
    path, normal, tree = np.empty(depths, np.int64), np.empty(depths), np.empty(depths)
    for t in range(X.shape[0]):
        deepest = context_weights(s, c, X, t, path, normal, tree)
        weight[t] = depth[t] = 0.0
        for k in range(deepest + 1):
            weight[t] += normal[k]
            depth[t] += k * (normal[k] + tree[k])


@kernel
def cell_masses(s: State, c: Settings, path: Ints, tree: Floats, code: Ints, depth: Ints, mass: Floats) -> None:
    """Write the mass that the trees of the contexts in path (k,), weighted by tree (k,), give each cell."""
    yf, yi, counts, codes, xi, y_depth = s.yf, s.yi, s.counts, s.row_code, s.xi, s.y_depth
    y_path, stop = np.empty(c.y_depth + 1, np.int32), np.empty(c.y_depth + 1)
    for i in range(code.shape[0]):
        stop[:] = 1.0
        total = 0.0
        for k in range(path.shape[0]):
            if not c.flow:
                stop[:] = 1.0
            m = path[k]
            total += tree[k] * predict_tree(
                yf, yi, counts, codes, xi[m, at.TREE], code[i], np.int64(-1), y_depth[k], c.a, c.g0, y_path, stop
            )
        mass[i] = total * 2.0 ** -depth[i]
