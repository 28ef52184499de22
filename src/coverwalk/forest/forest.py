"""A forest of adaptive covers for one output, in three steps; `coverwalk.forest.sums` has those of data beyond memory.

``plan`` grows the trees from (a sample of) the rows; ``accumulate`` takes rows in; ``finalize`` sends priors down and
evidence up. What is taken in is the set of rows, in an order of their own. So the result does not depend on the order,
the chunks or the number of threads.
"""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.contexts import Grid
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.files.schema import Array, List, Maybe, Object, Text, Whole, stored
from coverwalk.forest.check import check_forest
from coverwalk.forest.context import Context
from coverwalk.forest.experts.global_kernel import NO_WEIGHT, KernelContext
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.fitting import fit_tree
from coverwalk.forest.members import FittedTree, Frame, Member
from coverwalk.forest.settings import Settings, grid_of, latent, usual_rows
from coverwalk.forest.threads import in_threads
from coverwalk.forest.tree import Tree, grow_tree
from coverwalk.forest.tree_table import TreeTable
from coverwalk.preparation.row_codes import canonical_order
from coverwalk.preparation.scaling import Scaling

MAX_LEAVES = 2**12  # of a tree
PLAN_ROWS = 2**17  # from which trees are grown


@stored(check=check_forest)
@dataclass
class Forest:
    """One output's forest; see the module for its three steps.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(300)
    >>> forest = Forest.plan(X, y, Settings(n_trees=4))
    >>> forest.accumulate(X, y)
    >>> forest.finalize()
    >>> forest.predict_dist(X[:5])
    PredictiveDistribution(5 rows, ... components per row)
    """

    settings: Annotated[Settings, Object(Settings, p="p")]
    inputs: Annotated[Scaling, Object(Scaling, p="p")]
    output: Annotated[Scaling, Object(Scaling, p=1)]
    trees: Annotated[list[Tree], List(Object(Tree, p="p"), low=1)]
    X: Annotated[Floats, Array(float, "n", "p", nan=True, any_unit=True)]
    y: Annotated[Floats, Array(float, "n", any_unit=True)]
    names: Annotated[list[str], List(Text(), "p")]
    # their names, of each column
    categories: Annotated[list[list[str]], List(List(Text()))] = field(default_factory=list)
    fitted: Annotated[list[FittedTree], List(Object(FittedTree, N="trees[i].N", p="p"), "len(trees)")] = field(
        default_factory=list
    )
    trend: Annotated[Trend | None, Maybe(Object(Trend, p="p"))] = None  # from which the trees of smooth parts start
    # a component beside the trees with the weight `Settings.kernel`
    global_kernel: Annotated[KernelContext | None, Maybe(Object(KernelContext, p="p"))] = None
    _table: TreeTable | None = field(default=None, compare=False, repr=False)  # made from the rest when it is needed
    # rows that came as sums (`coverwalk.forest.sums`): X and y are then a sample of them
    n_summed: Annotated[int, Whole(0, 10**15)] = 0
    # of the rows, of mean one; empty: all have weight one
    weight: Annotated[Floats, Array(float, "weights", above=0)] = field(default_factory=lambda: np.empty(0))

    # -- the three steps ----------------------------------------------------------------------------------------------

    @classmethod
    def plan(
        cls,
        X: Floats,
        y: Floats,
        settings: Settings,
        names: list[str] | None = None,
        min_rows: list[int] | None = None,
        n_rows: int = 0,
        *,
        grown: bool = True,
        shown: bool = False,
    ) -> "Forest":
        """Units and trees from rows X (n, p) and y (n,), or a sample of them; takes no rows in.

        min_rows: of each tree, on either side of a split, in place of that of the settings; n_rows: to how many rows
        the trend will be fitted, if these are a sample. Not ``grown``: without trees. ``shown``: progress on
        a terminal.
        """
        order = canonical_order(X, y)[:PLAN_ROWS]
        share = len(order) / len(y)
        X, y = usual_rows(settings, X[order], y[order])
        y = latent(X, y, settings)
        inputs = Scaling.of(X).without(settings.unused)
        output = Scaling.of(y[:, None], squash=False)
        rows = Frame(inputs, output, None, settings.n_categories, settings.scale_factor).rows(X)
        Z, r = rows.Z, output.forward(y[:, None])[:, 0]
        parts = settings.part_of_trees()
        least = max(settings.min_rows, math.ceil(len(y) / MAX_LEAVES)) if share == 1 else len(y) // MAX_LEAVES
        sides = min_rows or [least] * len(parts)
        smooth = any(part.smooth for part in parts)
        trend, left = Trend.plan(rows, r, settings.seed, settings.n_categories, n_rows) if smooth else (None, r)

        def one(k: int) -> Tree:
            y, seed = left if parts[k].smooth else r, (settings.seed * 2**20 + k) % 2**62
            return grow_tree(
                Z,
                y,
                seed,
                min_rows=sides[k],
                n_candidates=settings.n_candidates,
                n_judged=settings.n_judged,
                n_categories=settings.n_categories,
            )

        trees: list[Tree] = []
        if grown:
            trees = in_threads(one, range(len(parts)), settings.n_threads, "growing trees" if shown else "")
        names = names or [f"x{a}" for a in range(X.shape[1])]
        return cls(settings, inputs, output, trees, np.empty((0, X.shape[1])), np.empty(0), names, trend=trend)

    def accumulate(self, X: Floats, y: Floats, weight: Floats | None = None) -> None:
        """Take rows in, all with weights or all without."""
        if len(self.y) and (weight is None) != (len(self.weight) == 0) and len(y):
            raise ValueError("either all rows of a forest have weights or none has")
        self.X, self.y = np.concatenate([self.X, X]), np.concatenate([self.y, y])
        self.weight = self.weight if weight is None else np.concatenate([self.weight, weight])

    def learned_rows(self) -> tuple[Floats, Floats, Floats]:
        """X (n, p), y (n,) and weights of the rows to which the trees are fitted, in canonical order."""
        order = canonical_order(self.X, self.y)
        X = np.take(self.X, order, axis=0)  # in half the time of self.X[order]
        X, y, *weight = usual_rows(self.settings, X, self.y[order], *([self.weight[order]] if len(self.weight) else []))
        return X, y, weight[0] if weight else self.weight

    def finalize(self, stops: tuple[float, ...] | None = None, *, shown: bool = False) -> None:
        """Priors downwards, evidence upwards, and what predictions need; under one or more stopping
        probabilities. ``shown``: progress on a terminal.
        """
        X, y, weight = self.learned_rows()
        parts, n_categories = self.settings.part_of_trees(), self.settings.n_categories
        Z, r, left = self.fit_experts(X, y, weight)
        del X  # a copy of all rows, which the trees need not find in memory

        def one(k: int) -> FittedTree:
            part = parts[k]
            y, grid = left if part.smooth else r, self.grid_of(part.degree)
            return fit_tree(self.trees[k], Z, y, grid, stops or (part.stop,), n_categories, weight)

        name = "fitting contexts" if shown else ""
        self.fitted = in_threads(one, range(len(parts)), self.settings.n_threads, name)
        self._table = None

    def fit_experts(self, X: Floats, y: Floats, weight: Floats = NO_WEIGHT) -> tuple[Floats, Floats, Floats]:
        """Fit the trend and the global kernel to rows X (n, p), y (n,) in canonical order, with weights or none.

        Returns the rows as splits read them, y in units, and what the trend leaves of it: for the rows to which it was
        fitted its leave-one-out residuals.
        """
        rows = self.frame.rows(X)
        left = r = self.targets(X, y)
        if self.trend:
            self.trend, left = self.trend.fit(
                rows, r, weight if len(weight) else None, n_threads=self.settings.n_threads
            )
        self.global_kernel = KernelContext.fit(rows.plain, r, weight) if self.settings.kernel > 0 else None
        return rows.Z, r, left

    def targets(self, X: Floats, y: Floats, apart: bool = True) -> Floats:
        """What the trees are fitted to in rows X (n, p), y (n,): `latent` y in units of order one."""
        return self.output.forward(latent(X, y, self.settings, apart)[:, None])[:, 0]

    @property
    def n_rows(self) -> int:
        """How many rows were taken in."""
        return self.n_summed or len(self.y)

    def grid_of(self, degree: int) -> Grid:
        """The local regressions that every context of a tree of this degree tries."""
        return grid_of(self.settings, degree, self.X.shape[1], self.n_rows)

    # -- predictions --------------------------------------------------------------------------------------------------

    def predict_dist(self, X: Floats) -> PredictiveDistribution:
        """The distributions of y in rows X (n, p), under the first prior of `finalize`."""
        dist = self.table.predict_dist(X, self.n_rows, self.describe)
        dist.rounding = self.settings.rounding
        return dist

    def predict_dists(self, X: Floats, some: slice = slice(None)) -> list[PredictiveDistribution]:
        """The distributions of y in rows X (n, p) under each prior of `finalize`, from all or some trees.

        They have the same components in other weights, and no cells of y.
        """
        beside = self.global_kernel, self.settings.kernel
        table = TreeTable(self.members()[some], *beside, outliers=self.settings.outliers)
        components, context = table.components(X, self.n_rows)
        dists = [PredictiveDistribution.trusted(each, table.shapes, context, self.describe) for each in components]
        for dist in dists:
            dist.rounding = self.settings.rounding
        return dists

    @property
    def table(self) -> TreeTable:
        """The trees as the kernels read them."""
        table, settings = self._table, self.settings
        if table is None or table.kernel != settings.kernel or table.y_cells is not settings.y_cells:
            beside = self.global_kernel, settings.kernel, settings.y_cells
            apart = (settings.atoms, settings.rounding) if settings.atoms and settings.rounding else None
            table = self._table = TreeTable(self.members(), *beside, outliers=settings.outliers, atoms=apart)
        return table

    @property
    def frame(self) -> Frame:
        """What the trees are fitted in."""
        return Frame(self.inputs, self.output, self.trend, self.settings.n_categories, self.settings.scale_factor)

    def members(self) -> list[Member]:
        """The trees as members of a pool."""
        frame, parts = self.frame, self.settings.part_of_trees()
        return [
            Member(frame, tree, fitted, part, self.grid_of(part.degree).degree)
            for tree, fitted, part in zip(self.trees, self.fitted, parts)
        ]

    def describe(self, label: int) -> Context | None:
        """What a context is, in the units and names of the inputs; None for the distribution of outliers."""
        return self.table.describe(label, self.n_rows, self.names, self.categories)

    # -- files --------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_table"}  # made again where needed

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _table=None)
