"""What the schema of a double tree cannot say: its trees are trees, and every row stands in its leaf."""

from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints32
from coverwalk._kernels.double_tree import state as at
from coverwalk._kernels.double_tree.normal_wishart import LOG_DET, MEAN
from coverwalk._kernels.double_tree.state import MAX_X_DEPTH, new_state
from coverwalk._kernels.odds import FAR
from coverwalk.files.schema import Scope, require

_CELLS = slice(at.CELL, at.CELL + 2)  # of a node of y, seen as 32-bit integers
_MAX_EXPONENT = 2**24


def check_engine(engine: Any, scope: Scope) -> None:
    """Raise SchemaError for arrays that no stream has made."""
    s, p, q = engine.state, scope["p"], scope["q"]
    require("q", q >= 1)
    c = engine.settings
    require("nu0", c.nu0 > q - 1)
    contexts, nodes, rows, waiting = s["counts"].tolist()
    require("counts", (contexts, nodes, rows, waiting) == (len(s["xi"]), len(s["yf"]), scope["n_rows"], 0))
    require("predictives", scope["flowing"] == (c.y_depth if c.flow else 0) or rows == 0)
    require("missing values", not engine.missing or p % 2 == 0)
    scope["inputs"] = p // 2 if engine.missing else p
    _check_contexts(s["xf"], s["xi"], p, q, engine.units, c)
    yi = s["yf"].view(np.int32)
    odds = s["yf"].view(np.float64)[:, 0]
    require("odds", (odds >= 1 / FAR) & (odds <= FAR))
    require("points", (yi[:, at.POINTS : at.POINTS + 2] >= 0) & (yi[:, at.POINTS : at.POINTS + 2] <= rows))
    require("exponents", np.abs(yi[:, at.EXPONENT].astype(np.int64)) < _MAX_EXPONENT)
    _check_trees_of_y(s["xi"], yi, rows, c.y_depth)
    _check_rows(s, yi, new_state(q, c, np.ones(p)).y_depth)


def _check_contexts(xf: Floats, xi: Ints32, p: int, q: int, units: Any, c: Any) -> None:
    """Children know their parents and are one deeper; factors are possible."""
    left, parent, depth = (xi[:, k].astype(np.int64) for k in (at.LEFT, at.PARENT, at.DEPTH))
    inner = np.flatnonzero(left != -1)
    child = left[inner]
    require("right", xi[inner, at.RIGHT] == child + 1)
    require(
        "parent", parent[0] == -1 and np.array_equal(parent[child], inner) and np.array_equal(parent[child + 1], inner)
    )
    require("depth", depth[0] == 0)
    require("depth", depth[1:] == depth[parent[1:]] + 1)
    require("depth", (left == -1) | (depth < MAX_X_DEPTH))
    require("dimension", (xi[inner, at.DIM] >= 0) & (xi[inner, at.DIM] < p))
    require("means", np.isfinite(xf[:, MEAN : MEAN + q] * units.scale + units.loc))
    factors = xf[:, MEAN + q + np.array([k * (k + 3) // 2 for k in range(q)])]
    require("factors", factors > 0)
    n = xi[:, at.SEEN].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = factors * np.sqrt((c.lam + n + 1.0) / ((c.lam + n) * (c.nu0 + n)))[:, None] * units.scale
    require("scales", np.isfinite(scales) & (scales > 0))
    log_det = 2.0 * np.log(factors).sum(axis=1)
    require("determinants", np.abs(xf[:, LOG_DET] - log_det) <= 1e-3 * (1.0 + np.abs(log_det)))


def _check_trees_of_y(xi: Ints32, yi: Ints32, n_rows: int, y_depth: int) -> None:
    """Every node of y stands in just one tree, of a context that knows its number of nodes, after its parent."""
    nodes, cells, roots = len(yi), yi[:, _CELLS].astype(np.int64), xi[:, at.TREE].astype(np.int64)
    require("trees of y", (roots >= 0) & (roots < nodes))
    require("cells", (cells < nodes) & (cells >= -1 - n_rows))
    require("cells", (cells < 0) | (cells > np.arange(nodes)[:, None]))
    all_once = np.sort(np.concatenate([roots, cells[cells >= 0]]))
    require("cells", np.array_equal(all_once, np.arange(nodes)))
    owner = np.full(nodes, -1)
    owner[roots] = np.arange(len(xi))
    level = roots
    for _ in range(y_depth):
        below = cells[level]
        owner[below[below >= 0]] = np.repeat(owner[level], 2).reshape(-1, 2)[below >= 0]
        level = below[below >= 0]
        if not len(level):
            break
    require("depth of y", len(level) == 0)
    require("nodes", np.bincount(owner, minlength=len(xi)) == xi[:, at.NODES])


def _check_rows(s: dict[str, Any], yi: Ints32, y_depths: Ints32) -> None:
    """Every row stands in the tree of y of its leaf.

    A new context then finds no more cells than its parent has, which is the room that a split asks for.
    """
    xi, codes = s["xi"], s["row_code"]
    leaf, rows = np.zeros(len(codes), np.int64), np.arange(len(codes))
    while len(rows := rows[xi[leaf[rows], at.LEFT] >= 0]):
        m = leaf[rows]
        leaf[rows] = xi[m, at.LEFT] + ~(s["row_x"][rows, xi[m, at.DIM]] <= s["xf"][m, at.SPLIT_AT])
    node, rows, deepest = xi[leaf, at.TREE].astype(np.int64), np.arange(len(codes)), y_depths[xi[leaf, at.DEPTH]]
    require("depth of y", deepest >= 1)
    for depth in range(64):
        on = depth + 1 < deepest[rows]
        rows, node = rows[on], node[on]
        if not len(rows):
            return
        node = yi[node, _CELLS.start + ((codes[rows] >> (63 - depth)) & 1)].astype(np.int64)
        require("cells of rows", (node >= 0) | (-2 - node == rows))
        rows, node = rows[node >= 0], node[node >= 0]
