"""What the schema of a double tree cannot say: its trees are trees, and every row stands in its leaf."""

from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels.double_tree import state as at
from coverwalk._kernels.double_tree.normal_wishart import LOG_DET, MEAN
from coverwalk._kernels.double_tree.state import MAX_X_DEPTH
from coverwalk._kernels.odds import FAR
from coverwalk.files.schema import Scope, require

_CELLS = slice(at.CELL, at.CELL + 2)  # of a node of y, seen as 32-bit integers
_MAX_EXPONENT = 2**24


def check_engine(engine: Any, scope: Scope) -> None:
    """Raise SchemaError for arrays that no stream has made."""
    s, p, q = engine.state, scope["p"], scope["q"]
    require("q", q >= 1)
    c = engine.plan.settings(q)
    contexts, nodes, rows, waiting = s["counts"].tolist()
    require("counts", (contexts, nodes, rows, waiting) == (len(s["xi"]), len(s["yf"]), engine.n_rows, 0))
    require("predictives", scope["flowing"] == (c.y_depth if c.flow else 0) or rows == 0)
    require("missing values", not engine.missing or p % 2 == 0)
    scope["inputs"] = p // 2 if engine.missing else p
    made = engine.plan.empty_state(q, np.ones(p))
    for name in ("theta", "prior"):  # what the plan makes of them, but for rounding
        require(name, np.isclose(s[name], getattr(made, name), rtol=1e-9, atol=0.0))
    require("y_depth", s["y_depth"] == made.y_depth)
    _check_contexts(s["xf"], s["xi"], p, q, engine.units, c)
    yi = s["yf"].view(np.int32)
    odds = s["yf"].view(np.float64)[:, 0]
    require("odds", (odds >= 1 / FAR) & (odds <= FAR))
    require("points", (yi[:, at.POINTS : at.POINTS + 2] >= 0) & (yi[:, at.POINTS : at.POINTS + 2] <= rows))
    require("exponents", np.abs(yi[:, at.EXPONENT].astype(np.int64)) < _MAX_EXPONENT)
    _check_trees_of_y(s["xi"], yi, rows, c.y_depth)
    _check_rows(s["xi"], yi, s["row_next"], s["row_code"], s["y_depth"])


def _check_contexts(xf: Floats, xi: Ints32, p: int, q: int, units: Any, c: Any) -> None:
    """Children know their parents and are one deeper; factors and boxes are possible."""
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
    require("rows held", (xi[inner, at.FIRST] == -1) & (xi[inner, at.LAST] == -1) & (xi[inner, at.HELD] == 0))
    box = MEAN + q + q * (q + 1) // 2
    low, high = xf[:, box : box + p], xf[:, box + p :]
    require("contexts", np.isfinite(xf[:, :box]))
    require("means", np.isfinite(xf[:, MEAN : MEAN + q] * units.scale + units.loc))
    factors = xf[:, MEAN + q + np.array([k * (k + 3) // 2 for k in range(q)])]
    require("factors", factors > 0)
    n = xi[:, at.SEEN].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = factors * np.sqrt((c.lam + n + 1.0) / ((c.lam + n) * (c.nu0 + n)))[:, None] * units.scale
    require("scales", np.isfinite(scales) & (scales > 0))
    log_det = 2.0 * np.log(factors).sum(axis=1)
    require("determinants", np.abs(xf[:, LOG_DET] - log_det) <= 1e-3 * (1.0 + np.abs(log_det)))
    require("boxes", (low <= high) | (np.isnan(low) & np.isnan(high)))


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


def _check_rows(xi: Ints32, yi: Ints32, row_next: Ints32, codes: Ints, y_depths: Ints32) -> None:
    """Every row stands in the list of just one leaf, in order, and in the tree of y of that leaf.

    A new context then finds no more cells than its parent has, which is the room that a split asks for.
    """
    n, after, first = len(row_next), row_next.astype(np.int64), xi[:, at.FIRST].astype(np.int64)
    require("lists of rows", (after == -1) | (after > np.arange(n)))
    reached = np.sort(np.concatenate([first[first >= 0], after[after >= 0]]))
    require("lists of rows", np.array_equal(reached, np.arange(n)))
    start = np.arange(n)
    start[after[after >= 0]] = np.flatnonzero(after >= 0)
    while not np.array_equal(start, start[start]):  # twice as far back each time
        start = start[start]
    leaf_of = np.full(n, -1)
    leaf_of[first[first >= 0]] = np.flatnonzero(first >= 0)
    leaf = leaf_of[start]
    require("rows held", np.bincount(leaf, minlength=len(xi)) == xi[:, at.HELD])
    last = np.full(len(xi), -1)
    last[leaf[after == -1]] = np.flatnonzero(after == -1)
    require("last rows", last == xi[:, at.LAST])
    node, rows, deepest = xi[leaf, at.TREE].astype(np.int64), np.arange(n), y_depths[xi[leaf, at.DEPTH]]
    require("depth of y", deepest >= 1)
    for depth in range(64):
        on = depth + 1 < deepest[rows]
        rows, node = rows[on], node[on]
        if not len(rows):
            return
        node = yi[node, _CELLS.start + ((codes[rows] >> (63 - depth)) & 1)].astype(np.int64)
        require("cells of rows", (node >= 0) | (-2 - node == rows))
        rows, node = rows[node >= 0], node[node >= 0]
