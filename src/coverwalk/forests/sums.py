"""A forest from sums: rows are read in passes, added to the leaves of trees planned on a sample, and forgotten.

A pass is a state that adds up: ``empty`` makes one without rows, ``accumulate`` takes rows in, ``merge`` adds what
another took in, ``finish`` gives the state of the next pass, or the forest. The first pass (`ForestSums`) sums moments,
from which regressions, priors and evidence follow; the second (`ForestShapes`) counts residuals in bins, for the kernel
densities. Neither sees the order of rows, nor how they were divided, but for rounding.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.contexts import N_BINNED, N_SHAPES, Fit, Layout
from coverwalk._kernels.kernel_density import N_BINS, kernel_tables
from coverwalk._kernels.polynomial import n_features
from coverwalk._kernels.residual_bins import bin_residuals, bin_scales, density_scores
from coverwalk._kernels.sums import Regressions, add_moments, n_moments, regress_moments, sum_upwards
from coverwalk.covers.adaptive import AdaptiveTree
from coverwalk.forests.forest import (
    MAX_FEATURES,
    MAX_LEAVES,
    FittedTree,
    Forest,
    Settings,
    _same_plan,
    heard_tree,
    in_threads,
    routed,
)
from coverwalk.forests.local_columns import Fill, fill_of, local_columns
from coverwalk.forests.scaling import canonical_order

__all__ = ["STATE_BYTES", "ForestShapes", "ForestSums"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STATE_BYTES = 2**28  # of the sums of one forest: they are what travels
ROWS_AT_ONCE = 2**16  # bounds the memory of a chunk's copies
KEPT_ROWS = 10_000  # of the sample, in the finished forest: for baselines and summaries
LEAST_LEAVES = 32
FARTHEST = 1e100  # of a y, in units of the sample's: squares must stay finite


@dataclass
class ForestSums:
    """The moments of the leaves of a planned forest: n, F'F, F'y, y'y and the range of x.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(3000, 2))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(3000)
    >>> sums = ForestSums.plan(X[:500], y[:500], Settings(n_trees=4))
    >>> other = sums.empty()
    >>> sums.accumulate(X[:1000], y[:1000])
    >>> other.accumulate(X[1000:], y[1000:])
    >>> sums.merge(other)
    >>> shapes = sums.finish()
    >>> shapes.accumulate(X, y)
    >>> shapes.finish().ask(X[:5])
    PredictiveDistribution(5 rows, ... voices a row)
    """

    forest: Forest  # the plan, with some rows of the sample
    moments: list[Floats] = field(default_factory=list)  # of each tree (leaves, m); nothing before the first row
    low: list[Floats] = field(default_factory=list)  # of each tree (leaves, p)
    high: list[Floats] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)  # of each tree: where missing values stand, whichever rows come

    @classmethod
    def plan(
        cls,
        X: Floats,
        y: Floats,
        settings: Settings,
        names: list[str] | None = None,
        state_bytes: int = STATE_BYTES,
        gaps: tuple[int, ...] = (),
    ) -> "ForestSums":
        """Units and trees from a sample of rows X (n, p), y (n,); as many leaves as ``state_bytes`` have room for.

        gaps: columns that have missing values in some row, of the sample or not; they stand at the sample's means.
        """
        degree = settings.degree
        while degree > 0 and n_features(degree, X.shape[1]) > MAX_FEATURES:
            degree -= 1
        leaf_bytes = 8 * (n_moments(degree, X.shape[1]) + 2 * X.shape[1])
        leaves = int(np.clip(state_bytes // (settings.n_trees * leaf_bytes), LEAST_LEAVES, MAX_LEAVES))
        coarse = replace(settings, min_rows=max(settings.min_rows, math.ceil(len(y) / leaves)))
        forest = Forest.plan(X, y, coarse, names)
        forest.settings = settings
        kept = canonical_order(X, y)[:KEPT_ROWS]
        forest.accumulate(X[kept], y[kept])
        Z = routed(forest.inputs, X, settings)
        missing = set(gaps) | set(np.flatnonzero(np.isnan(X).any(axis=0)).tolist())
        return cls(forest, fills=[fill_of(tree, Z, settings.n_levels, tuple(missing)) for tree in forest.trees])

    def empty(self) -> "ForestSums":
        """The same plan without rows."""
        return ForestSums(self.forest, fills=self.fills)

    @property
    def n_rows(self) -> int:
        """How many rows were taken in."""
        return round(float(self.moments[0][:, 0].sum())) if self.moments else 0

    @property
    def n_bytes(self) -> int:
        """The size of what travels."""
        return sum(array.nbytes for part in (self.moments, self.low, self.high) for array in part)

    def accumulate(self, X: Floats, y: Floats) -> None:
        """Take rows X (n, p), y (n,) in."""
        degree = self.forest.grid.degree
        if len(y):
            self._make_room()

        def add(k: int) -> None:
            tree = self.forest.trees[k]
            perm, layout = tree.arrange(Z)
            sums = (self.moments[k], self.low[k], self.high[k])
            seen = local_columns(tree, Z, self.fills[k], self.forest.settings.n_levels)
            add_moments(seen[perm], r[perm], layout, _places(tree), degree, *sums)

        for start in range(0, len(y), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            Z, r = _scaled(self.forest, X[rows], y[rows])
            in_threads(add, range(len(self.moments)), self.forest.settings.n_threads)

    def _make_room(self) -> None:
        if not self.moments:
            p = self.forest.X.shape[1]
            sizes = [(int((tree.left < 0).sum()), n_moments(self.forest.grid.degree, p)) for tree in self.forest.trees]
            self.moments = [np.zeros(size) for size in sizes]
            self.low = [np.full((leaves, p), np.inf) for leaves, _ in sizes]
            self.high = [np.full((leaves, p), -np.inf) for leaves, _ in sizes]

    def merge(self, other: "ForestSums") -> None:
        """Take in what another state of the same plan took in."""
        _check_same_plan(self.forest, other.forest)
        if other.moments:
            self._make_room()
        for k in range(len(other.moments)):
            self.moments[k] += other.moments[k]
            np.minimum(self.low[k], other.low[k], out=self.low[k])
            np.maximum(self.high[k], other.high[k], out=self.high[k])

    def finish(self) -> "ForestShapes":
        """Sums upwards, regressions and priors downwards: what the second pass needs; its ``finish`` makes the forest,
        without densities if it has not been given rows.
        """
        if self.n_rows == 0:
            raise ValueError("no rows were accumulated: nothing to learn from")
        forest = replace(self.forest, n_summed=self.n_rows)

        def fit(k: int) -> _Contexts:
            tree = forest.trees[k]
            moments, low, high = sum_upwards(tree.left, _places(tree), self.moments[k], self.low[k], self.high[k])
            regressions = regress_moments(moments, tree.parent, forest.grid, low.shape[1])
            n = np.ascontiguousarray(moments[:, 0])
            for child in np.flatnonzero(n == 0).tolist():  # parents come first
                low[child], high[child] = low[tree.parent[child]], high[tree.parent[child]]
            scale = bin_scales(n, regressions, forest.grid.least_scale)
            return _Contexts(n.round().astype(np.int64), low, high, scale, regressions)

        contexts = in_threads(fit, range(len(self.moments)), forest.settings.n_threads)
        return ForestShapes(forest, contexts, self.fills)


@dataclass(frozen=True)
class _Contexts:
    """What the sums of a tree tell of its N contexts."""

    n: Ints
    low: Floats
    high: Floats
    scale: Floats
    regressions: Regressions


@dataclass
class ForestShapes:
    """Residuals and y of every context, counted in bins: the second pass, after `ForestSums`."""

    forest: Forest
    contexts: list[_Contexts]
    fills: list[Fill]
    counts: list[Ints] = field(default_factory=list)  # of each tree (N, N_BINNED, N_BINS + 1); as in ForestSums
    log_outside: list[Floats] = field(default_factory=list)  # of each tree (N, N_SHAPES)
    n_rows: int = 0  # that were counted

    def empty(self) -> "ForestShapes":
        """The same regressions without counts."""
        return ForestShapes(self.forest, self.contexts, self.fills)

    def _make_room(self) -> None:
        if not self.counts:
            self.counts = [np.zeros((len(tree.n), N_BINNED, N_BINS + 1), np.int64) for tree in self.contexts]
            self.log_outside = [np.zeros((len(tree.n), N_SHAPES)) for tree in self.contexts]

    @property
    def n_bytes(self) -> int:
        """The size of what travels."""
        return sum(array.nbytes for array in (*self.counts, *self.log_outside))

    def accumulate(self, X: Floats, y: Floats) -> None:
        """Count rows X (n, p), y (n,)."""
        degree = self.forest.grid.degree
        if len(y):
            self._make_room()
            self.n_rows += len(y)

        def add(k: int) -> None:
            perm, layout = self.forest.trees[k].arrange(Z)
            regressions = self.contexts[k].regressions
            lines = (regressions.gain, regressions.loo, regressions.mean)
            known, bins = (self.contexts[k].n, self.contexts[k].scale), (self.counts[k], self.log_outside[k])
            seen = local_columns(self.forest.trees[k], Z, self.fills[k], self.forest.settings.n_levels)
            bin_residuals(seen[perm], r[perm], layout, degree, lines, known, bins)

        for start in range(0, len(y), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            Z, r = _scaled(self.forest, X[rows], y[rows])
            in_threads(add, range(len(self.counts)), self.forest.settings.n_threads)

    def merge(self, other: "ForestShapes") -> None:
        """Take in what another state of the same regressions counted."""
        _check_same_plan(self.forest, other.forest)
        self.n_rows += other.n_rows
        if other.counts:
            self._make_room()
        for k in range(len(other.counts)):
            self.counts[k] += other.counts[k]
            self.log_outside[k] += other.log_outside[k]

    def finish(self) -> Forest:
        """Evidence upwards, and the forest that answers."""
        if self.n_rows not in (0, self.forest.n_summed):
            raise ValueError(
                f"the second pass counted {self.n_rows} rows, the first {self.forest.n_summed}: "
                "both must read the same rows, or the second none"
            )
        self._make_room()
        forest, tables = replace(self.forest), kernel_tables()
        forest.fitted = in_threads(
            lambda k: self._fitted(forest.trees[k], k, tables), range(len(self.counts)), forest.settings.n_threads
        )
        forest.join_shapes()
        return forest

    def _fitted(self, tree: AdaptiveTree, k: int, tables: tuple[Floats, Floats]) -> FittedTree:
        known, found, p = self.contexts[k], self.contexts[k].regressions, self.forest.X.shape[1]
        scale = known.scale if self.n_rows else np.zeros_like(known.scale)
        score, width = density_scores(scale, self.counts[k], self.log_outside[k], tables)
        shaped = np.where(scale[:, 0] > 0, np.arange(len(scale)), -1)
        fit = Fit(
            found.centre,
            np.hstack([found.log_score, score]),
            found.psi,
            found.best,
            found.s2,
            np.zeros((0, 0), np.int64),
            np.zeros(0),
            np.hstack([scale, scale[:, 1:]]),  # the tree density is one of y
            width,
            found.mean,
            shaped,
            self.counts[k][:, :, :N_BINS],  # type: ignore[arg-type]  # 32 bits hold no 10^10 rows
        )
        layout = Layout(np.zeros_like(known.n), known.n, tree.left, tree.parent)
        grid = self.forest.grid._replace(many=1.0)  # every regression that was fitted has its mean leverage
        heard = heard_tree(np.empty((0, p)), layout, grid, fit, (self.forest.settings.stop,))
        seated = heard.records.seat >= 0
        records = heard.records._replace(low=known.low[seated], high=known.high[seated])
        return heard._replace(records=records, fill=self.fills[k])


def _places(tree: AdaptiveTree) -> Ints:
    leaf = tree.left < 0
    return np.where(leaf, np.cumsum(leaf) - 1, -1)


def _scaled(forest: Forest, X: Floats, y: Floats) -> tuple[Floats, Floats]:
    # equal rows lie at one place of their cell: so it does not matter how rows are divided into chunks
    t = forest.settings.rounding.latent(X, y) if forest.settings.rounding else y
    r = forest.output.forward(t[:, None])[:, 0]
    if len(r) and np.abs(r).max() > FARTHEST:
        raise ValueError(
            f"y = {y[np.argmax(np.abs(r))]:g} is more than {FARTHEST:g} times as far out as the sample, which set the "
            "units: its square is lost in sums; leave such rows out, or transform y"
        )
    return routed(forest.inputs, X, forest.settings), r


def _check_same_plan(a: Forest, b: Forest) -> None:
    if a.trees is not b.trees and not _same_plan(a, b):
        raise ValueError("only states of one plan can be merged: make both with `empty` of the same state")
