"""What must hold of a stream that came from a file, before kernels that check nothing may read and grow it."""

from typing import Any

import numpy as np

from coverwalk._kernels.double_tree import sound
from coverwalk._kernels.double_tree.normal_wishart import MEAN
from coverwalk._kernels.double_tree.state import MAX_X_DEPTH, Settings
from coverwalk._sound import check_array, check_with_nan, hold, is_real, is_whole
from coverwalk.double_tree.engine import Plan
from coverwalk.preparation.units import Units

__all__ = ["check_packed", "check_stream"]

_ARRAYS = {"xf", "xi", "yf", "row_x", "row_z", "row_code", "row_log_slope", "row_log_psi", "row_stop", "row_next"}
_ARRAYS |= {"theta", "prior", "y_depth", "scale", "counts", "waiting"}
_CUT, _O_ODDS, _V_ODDS = range(3)
_LEFT, _RIGHT, _DIM, _DEPTH, _SEEN, _FIRST, _LAST, _TREE, _PARENT, _HELD, _NODES, _O_EXPONENT, _V_EXPONENT = range(13)
_MAX_EXPONENT = 2**24  # powers of 2^332 in odds: no stream comes near


def check_stream(engine: Any, p: int, q: int) -> None:
    """Raise ValueError unless this is a `DoubleTreeEngine` of p inputs and q outputs; it checks the rest itself."""
    from coverwalk.double_tree.engine import DoubleTreeEngine

    hold("the stream", isinstance(engine, DoubleTreeEngine) and is_whole(p, 0) and is_whole(q, 1))
    packed = vars(engine)  # its own check, which unpacks it, comes after this one
    hold("the stream", isinstance(packed["units"], Units) and np.shape(packed["units"].loc) == (q,))
    hold("the stream", np.shape(packed["state"]["row_x"])[1:] == (2 * p if packed["missing"] else p,))


def check_packed(engine: dict[str, Any]) -> None:
    """Raise ValueError for the packed parts of an engine that no stream has made."""
    hold("the stream", engine.keys() == {"plan", "units", "n_rows", "missing", "_early", "state"})
    hold("the stream", isinstance(engine["missing"], bool))
    plan, units, s = engine["plan"], engine["units"], engine["state"]
    hold("the stream", isinstance(plan, Plan) and isinstance(units, Units) and isinstance(s, dict))
    hold("the stream", s.keys() == _ARRAYS and all(isinstance(array, np.ndarray) for array in s.values()))
    _check_plan(plan)
    q = int(np.size(units.loc))
    hold("units", q >= 1)
    for name, array in zip(("loc", "scale"), units):
        check_array(name, array, (q,))
    hold("scale", units.scale > 0)
    p, c = int(np.size(s["scale"])), plan.settings(q)
    check_array("counts", s["counts"], (4,), np.int64)
    contexts, nodes, rows, waiting = (int(n) for n in s["counts"])
    hold("counts", 1 <= contexts <= len(s["xf"]) and 1 <= nodes <= len(s["yf"]) and 0 <= rows <= len(s["row_z"]))
    hold("counts", waiting == 0 and is_whole(engine["n_rows"]) and engine["n_rows"] == rows)
    _check_early(engine["_early"], rows, p, q)
    _check_by_depth(plan, s, q)
    _check_rows(s, c, rows, p, q)
    _check_contexts(s, contexts, nodes, rows, p, q)
    _check_cells(s, c, nodes, rows)


def _check_plan(plan: Plan) -> None:
    plan.check()
    numbers = (plan.alpha, plan.a, plan.halve, plan.ridge, plan.scatter)
    hold("the plan", all(is_real(number) for number in numbers) and plan.halve > 0)
    hold("the plan", all(number is None or is_real(number) for number in (plan.stop, plan.nu)))
    hold("the plan", plan.max_depth is None or is_whole(plan.max_depth))


def _check_early(early: Any, rows: int, p: int, q: int) -> None:
    if early is None:
        return
    X, Y = early
    check_with_nan("early rows", X, (rows, p))
    check_array("early rows", Y, (rows, q))


def _check_by_depth(plan: Plan, s: dict[str, Any], q: int) -> None:
    """Tables over the depth of a context: what the plan makes of them, but for rounding."""
    made = plan.empty_state(q, np.ones(np.size(s["scale"])))
    n = MAX_X_DEPTH + 1
    for name in ("theta", "prior"):
        check_array(name, s[name], (n,), finite=False)
        hold(name, np.isclose(s[name], getattr(made, name), rtol=1e-9, atol=0.0))
    check_array("y_depth", s["y_depth"], (n,), np.int32)
    hold("y_depth", s["y_depth"] == made.y_depth)
    check_array("waiting", s["waiting"], (n,), np.int32)


def _check_rows(s: dict[str, Any], c: Settings, rows: int, p: int, q: int) -> None:
    check_with_nan("row_x", s["row_x"], (rows, p))
    for name, width in (("row_z", q), ("row_stop", c.y_depth if c.flow else 0)):
        check_array(name, s[name], (rows, width))
    hold("row_stop", s["row_stop"] > 0)
    for name in ("row_log_slope", "row_log_psi"):
        check_array(name, s[name], (rows,))
    check_array("row_code", s["row_code"], (rows,), np.int64)
    check_array("row_next", s["row_next"], (rows,), np.int32)
    check_array("scale", s["scale"], (p,))
    hold("scale", s["scale"] > 0)


def _check_contexts(s: dict[str, Any], contexts: int, nodes: int, rows: int, p: int, q: int) -> None:
    """Children come in pairs after their parent, so that every descent ends, and are one deeper than it."""
    xf, xi = s["xf"], s["xi"]
    box = MEAN + q + q * (q + 1) // 2
    check_with_nan("xf", xf, (contexts, box + 2 * p))
    low, high = xf[:, box : box + p], xf[:, box + p :]
    hold("xf", np.isfinite(xf[:, :box]))
    check_array("xi", xi, (contexts, 16), np.int32)
    left, parent, depth = (xi[:, k].astype(np.int64) for k in (_LEFT, _PARENT, _DEPTH))
    inner = np.flatnonzero(left != -1)
    child = left[inner]
    hold("left", (child > inner) & (child + 1 < contexts) & (xi[inner, _RIGHT] == child + 1))
    hold("left", np.array_equal(np.sort(np.concatenate([child, child + 1])), np.arange(1, contexts)))
    hold("parent", parent[0] == -1)
    hold("parent", (parent[child] == inner) & (parent[child + 1] == inner))
    hold("depth", depth[0] == 0)
    hold("depth", (depth[1:] == depth[parent[1:]] + 1) & (depth[1:] <= MAX_X_DEPTH))
    hold("dimension", (xi[inner, _DIM] >= 0) & (xi[inner, _DIM] < p))
    hold("rows seen", (xi[:, _SEEN] >= 0) & (xi[:, _SEEN] <= rows))
    hold("rows held", (xi[inner, _FIRST] == -1) & (xi[inner, _LAST] == -1) & (xi[inner, _HELD] == 0))
    hold("exponents", np.abs(xi[:, [_O_EXPONENT, _V_EXPONENT]].astype(np.int64)) < _MAX_EXPONENT)
    hold("odds", xf[:, [_O_ODDS, _V_ODDS]] > 0)
    pivot = MEAN + q + np.array([k * (k + 3) // 2 for k in range(q)])
    hold("factors", xf[:, pivot] > 0)
    hold("boxes", (low <= high) | (np.isnan(low) & np.isnan(high)))


def _check_cells(s: dict[str, Any], c: Settings, nodes: int, rows: int) -> None:
    """The trees over y, and that each row stands in that of its leaf."""
    check_array("cells", s["yf"], (nodes, 4), np.int64)
    odds, yi = s["yf"].view(np.float64)[:, 0], s["yf"].view(np.int32)
    hold("odds", np.isfinite(odds) & (odds > 0))
    hold("points", (yi[:, 2:4] >= 0) & (yi[:, 2:4] <= rows))
    hold("exponents", np.abs(yi[:, 6].astype(np.int64)) < _MAX_EXPONENT)
    hold("cells", sound.trees_are_sound(s["xi"], yi, rows, c.y_depth))
    hold("lists of rows", sound.lists_are_sound(s["xi"], yi, s["row_next"], s["row_code"], s["y_depth"]))
