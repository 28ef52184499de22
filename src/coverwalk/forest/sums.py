"""A forest from sums: rows are read in passes, added to the leaves of trees planned on a sample, and forgotten.

A pass is a state that adds up: ``empty`` makes one without rows, ``accumulate`` takes rows in, ``merge`` adds what
another took in, ``finish`` gives the state of the next pass, or the forest. The first pass (`ForestSums`) sums moments,
from which regressions, priors and evidence follow; the second (`ForestShapes`) counts residuals in bins, for the kernel
densities. Neither sees the order of rows, nor how they were divided, but for rounding.

Everything that is chosen comes with the plan: the groups of trees with their degrees and stopping priors, the trend
about which some of them regress, the global kernel, the scale factor and the cells of y.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, isqrt
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.components import MAX_PLANE, RIDGE
from coverwalk._kernels.forest.contexts import N_SHAPES, Grid, Layout
from coverwalk._kernels.forest.kernel_density import N_BINS
from coverwalk._kernels.forest.polynomial import n_features, places_of
from coverwalk._kernels.forest.residual_bins import bin_residuals, bin_scales, density_scores
from coverwalk._kernels.forest.sums import Regressions, add_leaves, empty_regressions, packing, regress_moments
from coverwalk.forest.fitting import tables, weighted_tree
from coverwalk.forest.forest import MAX_LEAVES, PLAN_ROWS, Forest
from coverwalk.forest.local_columns import Fill, fill_of, local_columns
from coverwalk.forest.members import FittedTree, Part
from coverwalk.forest.settings import MAX_FEATURES, Settings, usual_rows
from coverwalk.forest.statistics import S, TreeStatistics
from coverwalk.forest.threads import in_threads
from coverwalk.forest.tree import Tree
from coverwalk.preparation.row_codes import canonical_order

Rows = tuple[Floats, Floats]

STATE_BYTES = 2**28  # of the sums of one forest: they are what travels
ROWS_AT_ONCE = 2**16  # bounds the memory of a chunk's copies
KEPT_ROWS = 10_000  # of the sample, in the finished forest: for baselines and summaries
MIN_LEAVES = 32
ROWS_A_TERM = 1.0  # from which on a degree is tried: with fewer, what a row adds depends on where it is
FARTHEST = 1e100  # of a y, in units of the sample's: squares must stay finite


class Capacity(NamedTuple):
    """What bounds a plan that is made on a sample."""

    state_bytes: int  # of a forest's sums, and of its bins
    n_rows: int  # that there are
    n_kept: int  # of which the trend is made


@dataclass
class ForestStatistics(TreeStatistics[S]):
    """Statistics of a planned forest; every tree is given rows sorted by leaf."""

    forest: Forest  # the plan, with some rows of the sample
    fills: list[Fill]  # of each tree: where missing values stand, whichever rows come

    @property
    def planned(self) -> list[Tree]:
        """The trees of the plan."""
        return self.forest.trees

    @abstractmethod
    def add(self, k: int, rows: Rows, layout: Layout, degree: int) -> None:
        """Add rows to tree k."""

    def accumulate(self, X: Floats, y: Floats, seen: Any = None) -> None:
        """Take rows X (n, p), y (n,) in; seen (n,): those to which the trend was fitted, none by default."""
        if len(y):
            self.make_room()
            self.n_rows += len(y)
        X, y, *known = usual_rows(self.forest.settings, X, y, *([] if seen is None else [seen]))
        seen = known[0] if known else None
        _to_trees(self.forest, self.fills, (X, y, seen), self.add)


class Moments(NamedTuple):
    """Of the leaves of a tree."""

    moments: Floats  # (leaves, m)
    low: Floats  # (leaves, p), of the columns that local models see
    high: Floats

    @property
    def arrays(self) -> tuple[Floats, ...]:
        """What adds up."""
        return tuple(self)


@dataclass
class ForestSums(ForestStatistics[Moments]):
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
    >>> shapes.finish().predict_dist(X[:5])
    PredictiveDistribution(5 rows, ... components per row)
    """

    joins = np.add, np.minimum, np.maximum

    @classmethod
    def plan(cls, X: Floats, y: Floats, settings: Settings, capacity: Capacity | None = None) -> "ForestSums":
        """Everything from one sample X (n, p), y (n,) of all rows; see `plan_on_sample` and `over`."""
        capacity = capacity or Capacity(STATE_BYTES, len(y), len(y))
        return cls.over(plan_on_sample(X, y, settings, None, capacity), (X, y))

    @classmethod
    def over(cls, forest: Forest, rows: Rows, with_missing: tuple[int, ...] = ()) -> "ForestSums":
        """Sums for a planned forest; what is no sum (trend and global kernel) comes from some rows X (n, p), y (n,).

        with_missing: columns that have missing values in some row, of these or not; they stand at the means of these.
        """
        order = canonical_order(*rows)
        X, y = (part[order] for part in rows)
        forest = replace(forest, X=X[:KEPT_ROWS], y=y[:KEPT_ROWS])
        Z, _, _ = forest.fit_experts(*usual_rows(forest.settings, X, y))
        missing = set(with_missing) | set(np.flatnonzero(np.isnan(X).any(axis=0)).tolist())
        return cls(forest, [fill_of(tree, Z, forest.settings.n_categories, tuple(missing)) for tree in forest.trees])

    def zeros(self, k: int) -> Moments:
        """Of a tree without rows."""
        n = int((self.forest.trees[k].left < 0).sum())
        p = len(_seen(self.forest.settings, self.forest.X.shape[1]))
        moments = np.zeros((n, len(packing(_grids(self.forest)[k].degree, p).row)))
        return Moments(moments, np.full((n, p), np.inf), np.full((n, p), -np.inf))

    def add(self, k: int, rows: Rows, layout: Layout, degree: int) -> None:
        """Add rows to the moments of tree k."""
        packed = packing(degree, rows[0].shape[1])
        add_leaves(*rows, layout, _places(self.forest.trees[k]), degree, packed, *self.sums[k])

    def finish(self) -> "ForestShapes":
        """Sums upwards, regressions and priors downwards: what the second pass needs; its ``finish`` makes the forest,
        without densities if it has not been given rows.
        """
        if self.n_rows == 0:
            raise ValueError("no rows were accumulated: nothing to learn from")
        forest = replace(self.forest, n_summed=self.n_rows)
        grids = _grids(forest)

        def fit(k: int) -> _Contexts:
            tree, grid = forest.trees[k], grids[k]
            moments, low, high = (tree.joined_upwards(part, join) for part, join in zip(self.sums[k], self.joins))
            regressions = empty_regressions(len(tree.left), grid, low.shape[1])
            place = packing(grid.degree, low.shape[1]).place
            regress_moments(moments, place, tree.parent, grid, low.shape[1], regressions)
            n = np.ascontiguousarray(moments[:, 0])
            for child in np.flatnonzero(n == 0).tolist():  # parents come first
                low[child], high[child] = low[tree.parent[child]], high[tree.parent[child]]
            scale = np.zeros((len(n), N_SHAPES))
            bin_scales(n, regressions, grid.min_scale, scale)
            return _Contexts(
                n.round().astype(np.int64), low, high, scale, regressions, _planes(moments, place, low.shape[1])
            )

        contexts = in_threads(fit, range(len(grids)), forest.settings.n_threads)
        return ForestShapes(forest, self.fills, contexts)


@dataclass(frozen=True)
class _Contexts:
    """What the sums of a tree tell of its N contexts, by the columns that local models see."""

    n: Ints
    low: Floats
    high: Floats
    scale: Floats
    regressions: Regressions
    planes: Floats  # (N, t) triangles of the sums of (1, x)(1, x)', with which a stream goes on


class Bins(NamedTuple):
    """Of the contexts of a tree."""

    counts: Ints  # (N, N_SHAPES, N_BINS + 1)
    log_outside: Floats  # (N, N_SHAPES)

    @property
    def arrays(self) -> tuple[Ints, Floats]:
        """What adds up."""
        return self.counts, self.log_outside


@dataclass
class ForestShapes(ForestStatistics[Bins]):
    """Residuals and y of every context, counted in bins: the second pass, after `ForestSums`."""

    contexts: list[_Contexts]

    def zeros(self, k: int) -> Bins:
        """Of a tree without rows."""
        N = len(self.contexts[k].n)
        return Bins(np.zeros((N, N_SHAPES, N_BINS + 1), np.int64), np.zeros((N, N_SHAPES)))

    def add(self, k: int, rows: Rows, layout: Layout, degree: int) -> None:
        """Count rows in the bins of tree k."""
        regressions = self.contexts[k].regressions
        lines = regressions.gain, regressions.loo, regressions.fit.mean
        bin_residuals(*rows, layout, degree, lines, self.contexts[k].scale, self.sums[k].arrays)

    def finish(self) -> Forest:
        """Evidence upwards, and the fitted forest."""
        if self.n_rows not in (0, self.forest.n_summed):
            raise ValueError(
                f"the second pass counted {self.n_rows} rows, the first {self.forest.n_summed}: "
                "both must read the same rows, or the second none"
            )
        self.make_room()
        forest, parts = replace(self.forest), self.forest.settings.part_of_trees()
        forest.fitted = in_threads(lambda k: self._fitted(k, parts[k]), range(len(parts)), forest.settings.n_threads)
        forest._table = None
        return forest

    def _fitted(self, k: int, part: Part) -> FittedTree:
        counts, log_outside = self.sums[k]
        tree, known = self.forest.trees[k], self.contexts[k]
        found = known.regressions
        scale = known.scale if self.n_rows else np.zeros_like(known.scale)
        score, width = np.empty((len(scale), N_SHAPES)), np.empty((len(scale), N_SHAPES), np.int64)
        density_scores(scale, counts, log_outside, tables(), score, width)
        shaped = np.where(scale[:, 0] > 0, np.arange(len(scale)), -1)
        p, grid = self.forest.X.shape[1], _grids(self.forest)[k]
        seen = _seen(self.forest.settings, p)
        fit = found.fit._replace(
            centre=_spread(found.fit.centre, places_of(seen, grid.degree, p), n_features(grid.degree, p)),
            log_score=np.hstack([found.fit.log_score[:, :-N_SHAPES], score]),
            scale=scale,
            width=width,
            shaped=shaped,
            counts=counts[:, :, :N_BINS],  # type: ignore[arg-type]  # 32 bits hold no 10^10 rows
        )
        layout = Layout(np.zeros_like(known.n), known.n, tree.left, tree.parent)
        ranges = _spread(known.low, seen, p), _spread(known.high, seen, p)
        nonzero = weighted_tree(layout, grid, fit, (part.stop,), ranges)
        has_slot = nonzero.records.slot >= 0
        C, m = nonzero.learned.plane.shape
        precision = (known.n[has_slot, None, None] + RIDGE) * np.eye(
            m
        )  # where sums tell nothing: as of a unit variance
        side = _side(known.planes.shape[1]) if m > 1 else 1
        row, column = places_of(seen, 1, p)[np.array(np.triu_indices(side))]
        precision[:, row, column] = precision[:, column, row] = known.planes[has_slot][:, : len(row)]
        precision[:, row[row == column], row[row == column]] += RIDGE
        inverse: Floats = np.linalg.inv(precision).astype(np.float64)
        learned = nonzero.learned._replace(inverse=inverse, seen=np.full(C, self.forest.n_summed))
        return nonzero._replace(learned=learned, fill=self.fills[k])


def _seen(settings: Settings, p: int) -> Ints:
    """The columns that local models see: to them categories are zero, and so are inputs that are left out."""
    return np.setdiff1d(np.arange(p), [*np.flatnonzero(settings.n_categories), *settings.unused])


def _spread(values: Floats, places: Ints, size: int) -> Floats:
    """Columns of values (N, .) put in these places of so many, the others zero."""
    out = np.zeros((len(values), size))
    out[:, places] = values
    return out


def _side(size: int) -> int:
    """Of a square whose upper triangle has this many numbers."""
    return (isqrt(8 * size + 1) - 1) // 2


def _planes(moments: Floats, place: Ints, p: int) -> Floats:
    """The triangles of (1, x)(1, x)', or of 1, from all moments (N, .), which have a place in the triangle of g g'."""
    D = _side(len(place))
    row, column = np.triu_indices(p + 1 if p + 1 < D and p < MAX_PLANE else 1)
    return moments[:, place[row * D - row * (row - 1) // 2 + column - row]]


def _places(tree: Tree) -> Ints:
    leaf = tree.left < 0
    return np.where(leaf, np.cumsum(leaf) - 1, -1)


def _grids(forest: Forest) -> list[Grid]:
    """Of each tree; every regression has its mean leverage."""
    return [forest.grid_of(part.degree)._replace(many=ROWS_A_TERM) for part in forest.settings.part_of_trees()]


def plan_on_sample(X: Floats, y: Floats, settings: Settings, names: list[str] | None, capacity: Capacity) -> Forest:
    """Units and trees from a sample X (n, p), y (n,) of all rows; as many leaves as there is room for.

    A side of a split needs as many rows of the sample as tell of ``min_rows`` of all rows, and at least one.
    """
    n, p = min(len(y), PLAN_ROWS), len(_seen(settings, X.shape[1]))
    least = max(int(settings.min_rows * n / max(capacity.n_rows, n)), 1)

    def min_rows(degree: int) -> int:
        while degree > 0 and n_features(degree, X.shape[1]) > MAX_FEATURES:
            degree -= 1
        numbers: int = max(
            len(packing(degree, p).row) + 2 * p, 2 * (N_SHAPES * (N_BINS + 1) + N_SHAPES)
        )  # of each pass, a leaf
        leaves = min(max(capacity.state_bytes // (8 * settings.n_trees * numbers), MIN_LEAVES), MAX_LEAVES)
        return max(least, ceil(n / leaves))

    sides = [min_rows(part.degree) for part in settings.part_of_trees()]
    return Forest.plan(X, y, settings, names, sides, capacity.n_kept)


def scaled(forest: Forest, X: Floats, y: Floats) -> Floats:
    """What the trees are fitted to, in units of order one; an error where a square would be lost.

    Of rounded y equal rows lie at one place of their cell: so it does not matter how rows are divided into chunks.
    """
    r = forest.targets(X, y, apart=False)
    if len(r) and np.abs(r).max() > FARTHEST:
        raise ValueError(
            f"y = {y[np.argmax(np.abs(r))]:g} is more than {FARTHEST:g} times as far out as the sample, which set the "
            "units: its square is lost in sums; leave such rows out, or transform y"
        )
    return r


def _to_trees(
    forest: Forest, fills: list[Fill], rows: tuple[Floats, Floats, Any], add: Callable[[int, Rows, Layout, int], None]
) -> None:
    """Give every tree rows X (n, p) and y (n,), some at a time and sorted by leaf: y, or what the trend leaves of it.

    The errors of rows that the trend has seen are those it would make if it had not, by the mean leverage.
    """
    X, y, seen = rows
    settings, grids, parts = forest.settings, _grids(forest), forest.settings.part_of_trees()
    columns = _seen(settings, X.shape[1])
    for start in range(0, len(y), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        at, r = forest.frame.rows(X[block]), scaled(forest, X[block], y[block])
        keep = forest.trend.keep if forest.trend and seen is not None else 1.0
        left = (r - forest.frame.origin(at)) / (np.where(seen[block], keep, 1.0) if keep < 1.0 else 1.0)

        def one(k: int, Z: Floats = at.Z, r: Floats = r, left: Floats = left) -> None:
            tree, part = forest.trees[k], parts[k]
            perm, layout = tree.arrange(Z)
            inputs = local_columns(tree, Z, fills[k], settings.n_categories)[:, columns]
            add(k, (inputs[perm], (left if part.smooth else r)[perm]), layout, grids[k].degree)

        in_threads(one, range(len(parts)), settings.n_threads)
