"""The passes of `ContextClassifier` after the sample, on which trees were grown: counts and class moments of all rows;
then what rows beyond the sample tell of walks and pool, each predicted without itself. All of it adds up.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats, Ints, UInts
from coverwalk._kernels.forest.class_walk import PREDICT, WEIGH
from coverwalk._kernels.forest.discriminant import Rows
from coverwalk.forest.class_forest import ClassForest
from coverwalk.forest.class_pool import HeldOut, pool_rows
from coverwalk.forest.class_rows import ClassRows
from coverwalk.forest.class_tree import (
    ClassGrowth,
    ClassTree,
    add_rows,
    empty_moments,
    leaf_counts,
    with_evidence,
    with_moments,
)
from coverwalk.forest.passes import Columns, SamplePass
from coverwalk.forest.statistics import TreeStatistics
from coverwalk.forest.threads import in_threads
from coverwalk.forest.tree import Tree
from coverwalk.preparation.category_counts import category_codes
from coverwalk.preparation.row_codes import row_codes
from coverwalk.preparation.row_sample import label_numbers

LEAVES = (64, 4096)  # of a tree, at least and at most
KEPT_ROWS = 10_000  # of the sample, in the fitted classifier


class ClassPlan(NamedTuple):
    """What the sample has settled."""

    model: Any
    columns: Columns
    classes: NDArray[Any]
    fitted: ClassForest  # to the sample
    kinds: list[tuple[ClassGrowth, list[ClassTree]]]  # the trees in which rows are counted
    kept: ClassRows  # some rows of the sample, as the classifier keeps rows
    second_pass: bool
    bound: int  # rows up to this code are in the sample
    last: int  # rows above it and up to this code fit the pool
    n_jobs: int

    @property
    def trees(self) -> list[tuple[ClassGrowth, ClassTree]]:
        """All trees, with how each was grown."""
        return [(growth, tree) for growth, trees in self.kinds for tree in trees]

    def coded(self, X: Floats, y: NDArray[Any]) -> Rows:
        """Rows X, categories as digests, in the forest's units; classes by number; weights."""
        Z = self.fitted.inputs.forward(category_codes(X, self.model._mixed))
        return Z, np.searchsorted(self.classes, y[:, 0]), np.ones(len(y))

    def finished(self, trees: list[ClassTree], pool: HeldOut, n_rows: int) -> Any:
        """The fitted classifier, of so many rows."""
        model, left = self.model, iter(trees)
        kinds = [(growth, [next(left) for _ in of]) for growth, of in self.kinds]
        model._forest = replace(self.fitted, kinds=kinds, held_out_rows=pool).ready()
        model.classes_, model._declared = self.classes, True
        model._rows, model._rows_grown, model._n_summed = [self.kept], len(self.kept.y), n_rows
        return model


def plan_classes(model: Any, kinds: list[tuple[ClassGrowth, int]], n_jobs: int, drawn: SamplePass) -> "ClassSums":
    """Grow the trees on the sample; ``kinds``: growths, and trees of each.

    Where more rows are beyond the sample than are held out in it, they weigh the walks: trees with counts alone then
    hold no rows out.
    """
    sample, classes, second_pass = drawn.sample, np.array(sorted(drawn.classes)), drawn.options.second_pass
    sample = sample.lowest(drawn.options.sample_rows)
    X = category_codes(sample.X, model._mixed)
    rows = ClassRows(X, np.searchsorted(classes, sample.Y[:, 0]), sample.times())
    leaves = int(np.clip(drawn.options.state_bytes // (32 * len(classes) * sum(n for _, n in kinds)), *LEAVES))
    min_rows = math.ceil(len(rows.y) / leaves)
    kinds = [(replace(growth, min_rows=max(growth.min_rows, min_rows)), n) for growth, n in kinds]
    fitted = ClassForest.grow(rows, len(classes), kinds, model.held_out, model._seed, n_jobs)
    beyond = drawn.n_rows - int(sample.count.sum())
    whole = second_pass and beyond * model.held_out >= len(rows.y)
    planned = fitted.grown_on_all(rows, model.held_out, model._seed, n_jobs) if whole else fitted.kinds
    last = min(sample.bound + int(2**64 * min(pool_rows(len(classes)) / drawn.n_rows, 1.0)), 2**64 - 1)
    settled = rows.part(slice(KEPT_ROWS)), second_pass, sample.bound, last, n_jobs
    return ClassSums(ClassPlan(model, drawn.columns, classes, fitted, planned, *settled))


class _Arrays(tuple[Floats, ...]):
    """Of one tree: arrays that add up."""

    @property
    def arrays(self) -> Self:
        """All of them."""
        return self


@dataclass
class ClassSums(TreeStatistics[_Arrays]):
    """Counts of classes (N, C) in the leaves of planned trees, and moments in the deepest contexts that need them; and
    predictions of some rows beyond the sample by the forest that was fitted to it.
    """

    plan: ClassPlan
    pool: list[tuple[UInts, Floats, Ints]] = field(default_factory=list, kw_only=True)  # codes, means, classes

    @property
    def columns(self) -> Columns:
        """What every chunk must have."""
        return self.plan.columns

    @property
    def planned(self) -> list[Tree]:
        """The trees of the plan."""
        return [tree.tree for _, tree in self.plan.trees]

    def zeros(self, k: int) -> _Arrays:
        """Of a tree without rows."""
        tree = self.plan.trees[k][1]
        return _Arrays((np.zeros_like(tree.flat.counts), *empty_moments(tree)))

    def empty(self) -> Self:
        """The same plan without rows."""
        return replace(super().empty(), pool=[])

    def merge(self, other: Self) -> None:
        """Take in what another state of the same plan took in."""
        super().merge(other)
        self.pool = [*self.pool, *other.pool]

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Take rows X (n, p) with labels y (n, 1) in."""
        self.n_rows += len(y)
        if not len(y):
            return
        self.make_room()
        rows, codes = self.plan.coded(X, y), _codes(X, y)

        def add(job: tuple[tuple[ClassGrowth, ClassTree], _Arrays]) -> None:
            (_, tree), (counts, *moments) = job
            leaf = tree.tree.leaves(rows[0])
            counts[:] += leaf_counts(len(tree.tree), counts.shape[1], leaf, *rows[1:])
            add_rows(tree, rows, leaf, moments)

        in_threads(add, zip(self.plan.trees, self.sums), self.plan.n_jobs)
        some = (codes > self.plan.bound) & (codes <= self.plan.last) & self.plan.second_pass
        if some.any():
            means = self.plan.fitted.means((rows[0][some], rows[1][some], rows[2][some]), PREDICT, self.plan.n_jobs)
            self.pool = [*self.pool, (codes[some], means, rows[1][some])]

    def finish(self) -> Any:
        """Trees with counts of all rows, and with discriminants of them: the next pass, or the fitted classifier."""
        if not self.n_rows:
            raise ValueError("no rows were accumulated: nothing to learn from")
        plan, trees, counted, pool = self.plan, [], [], self.plan.fitted.held_out_rows.copy()
        for (_, tree), sums in zip(plan.trees, self.sums):
            counts, *moments = (part.copy() for part in sums)
            counted.append(tree.with_arrays(counts=tree.tree.sum_upwards(counts)))
            trees.append(with_moments(counted[-1], moments))
        if not plan.second_pass:
            return plan.finished(trees, pool, self.n_rows)
        if self.pool:
            codes, means, y = (np.concatenate(parts) for parts in zip(*self.pool))
            order = np.argsort(codes, kind="stable")
            pool.add(means[order], y[order], np.ones(len(y)))
        return ClassEvidence(plan, trees, counted, pool)


@dataclass
class ClassEvidence(TreeStatistics[_Arrays]):
    """Sums of log phi (N, J) of the local models in each tree, for the classes of rows beyond the sample."""

    plan: ClassPlan
    trees: list[ClassTree]  # with counts and discriminants of all rows
    # Rows can be left out of counts, and not of discriminants: these have those of the sample, and judge rows beyond it
    judges: list[ClassTree]
    weighed: HeldOut

    columns = ClassSums.columns
    planned = ClassSums.planned

    def zeros(self, k: int) -> _Arrays:
        """Of a tree without rows."""
        return _Arrays((np.zeros_like(self.trees[k].flat.log_v),))

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Take rows X (n, p) with labels y (n, 1) in."""
        self.n_rows += len(y)
        new = _codes(X, y) > self.plan.bound
        if not new.any():
            return
        self.make_room()
        rows, order = self.plan.coded(X[new], y[new]), np.arange(new.sum())

        def weigh(job: tuple[tuple[ClassGrowth, ClassTree], ClassTree, _Arrays]) -> None:
            (growth, _), judge, (log_phi,) = job
            judge.visit(rows, order, growth, WEIGH, log_phi)

        in_threads(weigh, zip(self.plan.trees, self.judges, self.sums), self.plan.n_jobs)

    def finish(self) -> Any:
        """The fitted classifier, with the evidence of these rows."""
        trees = [with_evidence(tree, log_phi) for tree, (log_phi,) in zip(self.trees, self.sums)]
        return self.plan.finished(trees or self.trees, self.weighed, self.n_rows)


def _codes(X: Floats, y: NDArray[Any]) -> UInts:
    return row_codes(X, label_numbers(y)[:, 0].copy())
