"""What must hold of the arrays of a forest that came from a file, before kernels that check nothing may read them."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.cut import MOST_LEVELS
from coverwalk._kernels.polynomial import n_features
from coverwalk._kernels.voices import REGRESSION, TREE_OF_Y, Records
from coverwalk._sound import check_array as _array
from coverwalk._sound import check_with_nan as _with_nan
from coverwalk._sound import hold as _hold
from coverwalk.covers.adaptive import AdaptiveTree
from coverwalk.forests.cells import MOST_CELLS, Cells
from coverwalk.forests.kernel_context import MOST_INPUTS, MOST_NODES, KernelContext
from coverwalk.forests.steps import Steps
from coverwalk.forests.trend import Trend
from coverwalk.shapes import KERNELS, STUDENT, Shapes

if TYPE_CHECKING:
    from coverwalk.forests.forest import FittedTree, Forest, Settings

__all__ = ["check_forest"]

_ROUNDING = 1e-9


def check_forest(forest: "Forest") -> None:
    """Raise ValueError for a forest that no fit has made."""
    _check_settings(forest.settings)
    p = forest.inputs.centre.size
    n = forest.y.shape[0]
    _with_nan("X", forest.X, (n, p))
    n_levels = _checked_levels(forest)
    _array("y", forest.y, (n,))
    _hold("n_summed", isinstance(forest.n_summed, int) and forest.n_summed >= 0)
    for name, scaling, width in (("inputs", forest.inputs, p), ("output", forest.output, 1)):
        _array(f"{name}.centre", scaling.centre, (width,))
        _array(f"{name}.scale", scaling.scale, (width,))
        _hold(f"{name}.scale", scaling.scale > 0)
        _hold(f"{name}.squash", isinstance(scaling.squash, bool))
    _hold("names", len(forest.names) == p and all(isinstance(name, str) for name in forest.names))
    _hold("trees", len(forest.trees) == len(forest.fitted) >= 1)
    parts = forest.settings.part_of_trees()
    _hold("parts", len(parts) == len(forest.trees))
    _check_trend(forest.trend, p, any(part.smooth for part in parts))
    for part, tree, fitted in zip(parts, forest.trees, forest.fitted):
        _check_tree(tree, p, n_levels)
        _check_fitted(tree, fitted, p, forest.grid_of(part.degree).degree)
    _check_whole(forest, p)
    _check_steps(forest)


def _check_steps(forest: "Forest") -> int:
    """Cells one after the other, each with its support, where there are any; returns how many shapes they need."""
    steps = forest.settings.steps
    if steps is None:
        return 0
    _hold("steps", isinstance(steps, Steps) and isinstance(steps.cells, Cells))
    _hold("steps", type(steps.share) is type(steps.power) is float and 0 < steps.share < 1 and 1 <= steps.power <= 2)
    left, right, low, high = steps.cells
    _hold("cells", 1 <= len(left) <= MOST_CELLS)
    for name, ends in zip(Cells._fields, steps.cells):
        _array(name, ends, left.shape)
    _hold("cells", (left <= low) & (low < high) & (high <= right) & np.isfinite(high - low))
    _hold("cells", right[:-1] <= left[1:])
    return 1


def _check_whole(forest: "Forest", p: int) -> int:
    """The kernel density over all rows, where there is one: a shape for every node of its grid; returns how many."""
    whole, share = forest.whole, forest.settings.kernel
    _hold("kernel", isinstance(share, float) and 0 <= share <= 1 and (whole is None) == (share == 0))
    if whole is None:
        return 0
    _hold("whole", isinstance(whole, KernelContext) and 1 <= p <= MOST_INPUTS)
    _array("low", whole.low, (p,))
    _array("step", whole.step, (p,))
    _array("size", whole.size, (p,), np.int64)
    _hold("step", whole.step > 0)
    _hold("size", (whole.size >= 2) & (whole.size <= MOST_NODES[p]))
    _hold("whole", len(whole.shapes) == np.prod(whole.size) and np.all(whole.shapes.kind == KERNELS))
    return len(whole.shapes)


def _check_settings(settings: "Settings") -> None:
    """Kernels take some of them as they are."""
    whole = (settings.degree, settings.n_trees, settings.min_rows, settings.n_candidates, settings.seed)
    _hold("settings", all(isinstance(number, int) for number in whole) and isinstance(settings.n_threads, int))
    _hold("degree", 0 <= settings.degree <= 2)
    _hold("n_threads", settings.n_threads >= 1)
    _hold("stop", isinstance(settings.stop, float) and 0 < settings.stop < 1)
    _hold("spread", isinstance(settings.spread, float) and 0 < settings.spread < np.inf)
    _hold("parts", isinstance(settings.parts, tuple))
    for part in settings.parts:
        _hold("parts", type(part).__name__ == "Part" and len(part) == 4)
        _hold("parts", type(part.n_trees) is type(part.degree) is int and 1 <= part.n_trees <= 10_000)
        _hold("parts", 0 <= part.degree <= 2 and isinstance(part.smooth, bool))
        _hold("parts", isinstance(part.stop, float) and 0 < part.stop < 1)
    _hold("ridges", len(settings.ridges) > 0 and all(isinstance(r, float) and r > 0 for r in settings.ridges))


def _checked_levels(forest: "Forest") -> NDArray[np.int64]:
    """How many levels each column has, all of them within the bits of a mask, and named."""
    p, counts, names = forest.inputs.centre.size, forest.settings.n_levels, forest.levels
    _hold("n_levels", len(counts) in (0, p) and all(type(c) is int and 0 <= c <= MOST_LEVELS for c in counts))
    _hold("levels", isinstance(names, list) and len(names) <= p and bool(names) == bool(counts))
    _hold("levels", all(len(level) == count for level, count in zip(names, counts)))
    n_levels = np.array(counts or (0,) * p, np.int64)
    codes = forest.X[:, n_levels > 0]
    _hold("X", np.isnan(codes) | ((codes >= 0) & (codes < n_levels[n_levels > 0]) & (codes == np.floor(codes))))
    return n_levels


def _check_trend(trend: Trend | None, p: int, wanted: bool) -> None:
    _hold("trend", isinstance(trend, Trend) if wanted else trend is None)
    if trend is not None:
        D = len(trend.phase)
        _array("turns", trend.turns, (p, D))
        _array("phase", trend.phase, (D,))
        _array("coefficients", trend.coefficients, (1 + p + D,))
        _array("low", trend.low, (p,))
        _array("high", trend.high, (p,))
        _hold("ridge", isinstance(trend.ridge, float) and trend.ridge > 0)


def _check_tree(tree: AdaptiveTree, p: int, n_levels: NDArray[np.int64]) -> None:
    """Parents stand before their children, so that every descent ends; every context but the root has one parent."""
    N = len(tree.dim)
    for name in ("dim", "left", "parent", "levels"):
        _array(name, getattr(tree, name), (N,), np.int64)
    _with_nan("cut", tree.cut, (N,))
    inner = np.flatnonzero(tree.left != -1)
    left = tree.left[inner]
    _hold("left", (left > inner) & (left + 1 < N))
    _hold("left", np.array_equal(np.sort(np.concatenate([left, left + 1])), np.arange(1, N)))
    _hold("dim", (tree.dim[inner] >= 0) & (tree.dim[inner] < p))
    _hold("cut", np.isnan(tree.cut[inner]) == (n_levels[tree.dim[inner]] > 0))
    _hold("parent", tree.parent[0] == -1)
    _hold("parent", (tree.parent[left] == inner) & (tree.parent[left + 1] == inner))


def _check_fitted(tree: AdaptiveTree, fitted: "FittedTree", p: int, degree: int) -> None:
    _check_records(fitted.records, len(tree.dim), p, n_features(degree, p), degree)
    _check_paths(tree, fitted.records)
    _check_shapes(fitted.records, fitted.shape, fitted.shapes)
    m = len(fitted.fill.column)
    _array("fill", fitted.fill.column, (m,), np.int64)
    _hold("fill", (fitted.fill.column >= 0) & (fitted.fill.column < p))
    _array("fill", fitted.fill.mean, (len(tree.dim), m) if m else (0, 0))


def _check_records(records: Records, N: int, p: int, d: int, degree: int) -> None:
    R, C, T = len(records.kind), len(records.mean), len(records.rows)
    _array("first", records.first, (N + 1,), np.int64)
    voices = np.diff(records.first)
    _hold("first", records.first[0] == 0 and records.first[-1] == R and np.all(voices >= 0))
    _hold("first", (records.first >= 0) & (records.first <= R))  # differences may overflow
    _array("kind", records.kind, (R,), np.int64)
    _hold("kind", (records.kind >= REGRESSION) & (records.kind <= TREE_OF_Y))
    _array("weight", records.weight, (len(records.weight), R))
    _hold("weight", len(records.weight) >= 1)
    _hold("weight", (records.weight >= 0) & (records.weight <= 1 + _ROUNDING))
    _array("s2", records.s2, (R,))
    _hold("s2", records.s2 > 0)
    _array("seat", records.seat, (N,), np.int64)
    _hold("seat", (records.seat >= -1) & (records.seat < C) & ((records.seat >= 0) == (voices > 0)))
    for name in ("low", "high"):
        _array(name, getattr(records, name), (C, p))
    _array("centre", records.centre, (C, d))
    _array("rows", records.rows, (T, p))
    for name in ("mean", "ridge", "leverage"):
        _array(name, getattr(records, name), (C,))
    for name in ("degree", "n_rows", "rows_at", "factor_at"):
        _array(name, getattr(records, name), (C,), np.int64)
    _hold("degree", (records.degree >= 0) & (records.degree <= degree))
    _hold("ridge", records.ridge > 0)
    _hold("n_rows", records.n_rows >= 0)
    _check_factors(records, p, d)


def _check_paths(tree: AdaptiveTree, records: Records) -> None:
    """What was summed up on the way from the root is what stands there: kernels count on it for room."""
    S, N, parent = len(records.weight), len(tree.dim), tree.parent[1:]
    voices = np.diff(records.first)
    for name in ("n_voices", "above"):
        _array(name, getattr(records, name), (N,), np.int64)
    _array("total", records.total, (S, N))
    _hold("n_voices", voices[0] > 0 and records.n_voices[0] == voices[0])
    _hold("n_voices", records.n_voices[1:] == records.n_voices[parent] + voices[1:])
    sums = np.concatenate([np.zeros((S, 1)), np.cumsum(records.weight, axis=1)], axis=1)
    own = sums[:, records.first[1:]] - sums[:, records.first[:-1]]
    _hold("total", records.total[:, tree.left < 0] > 0)  # higher up it may underflow
    _hold("total", np.abs(records.total[:, 0] - own[:, 0]) < _ROUNDING)
    _hold("total", np.abs(records.total[:, 1:] - records.total[:, parent] - own[:, 1:]) < 1e-6)
    _hold("above", records.above[0] == -1)
    _hold("above", records.above[1:] == np.where(records.seat[parent] >= 0, parent, records.above[parent]))


def _check_factors(records: Records, p: int, d: int) -> None:
    """Packed triangles, of as many rows as the context has or as its polynomial has terms, with positive pivots."""
    solved_in_rows = records.rows_at >= 0
    room = len(records.rows) - np.where(solved_in_rows, records.n_rows, 0)  # a sum may overflow
    _hold("rows_at", ~solved_in_rows | ((records.n_rows <= d) & (records.rows_at <= room)))
    _hold("leverage", (records.leverage >= 0) | (records.leverage == -1))
    terms = np.array([n_features(g, p) for g in range(3)])[records.degree]
    has = records.leverage < 0
    size = np.where(solved_in_rows, records.n_rows, terms)[has]
    start = records.factor_at[has]
    _array("factors", records.factors, (len(records.factors),))
    _hold("factor_at", (start >= 0) & (start <= len(records.factors) - size * (size + 1) // 2))
    k = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)  # row of the triangle
    pivot = np.repeat(start, size) + k * np.repeat(size, size) - k * (k - 1) // 2
    _hold("factors", records.factors[pivot] > 0)


def _check_shapes(records: Records, shape: NDArray[np.int32], shapes: Shapes) -> None:
    _array("shape", shape, records.kind.shape, np.int32)
    _hold("shape", (shape >= 0) & (shape < len(shapes)))
    _hold("shape", (shapes.kind[shape] == STUDENT) == (records.kind == REGRESSION))
