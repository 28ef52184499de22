"""The passes of `ContextClassifier` after the sample, on which trees were grown: counts and class moments of all rows;
then what rows beyond the sample tell of walks and pool, each predicted without itself. All of it adds up.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats, Ints, UInts
from coverwalk._kernels.forest.class_walk import WEIGH
from coverwalk._kernels.forest.discriminant import Rows
from coverwalk.forest.class_forest import ClassForest
from coverwalk.forest.class_pool import HeldOut, pool_rows
from coverwalk.forest.class_rows import ClassRows
from coverwalk.forest.class_tree import ClassGrowth, ClassTree, add_rows, empty_moments, leaf_counts, with_moments
from coverwalk.forest.passes import Columns, SamplePass
from coverwalk.forest.statistics import TreeStatistics
from coverwalk.forest.threads import in_threads, one_by_one
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
    forest: ClassForest
    kept: ClassRows  # some rows of the sample, as the classifier keeps rows
    second_pass: bool
    bound: int  # rows up to this code are in the sample
    last: int  # rows above it and up to this code fit the pool
    n_jobs: int

    @property
    def trees(self) -> list[tuple[ClassGrowth, ClassTree]]:
        """All trees, with how each was grown."""
        return [(growth, tree) for growth, trees in self.forest.kinds for tree in trees]

    def coded(self, X: Floats, y: NDArray[Any]) -> Rows:
        """Rows X, categories as digests, in the forest's units; classes by number; weights."""
        Z = self.forest.inputs.forward(category_codes(X, self.model._mixed))
        return Z, np.searchsorted(self.classes, y[:, 0]), np.ones(len(y))

    def with_trees(self, trees: list[ClassTree]) -> ClassForest:
        """The forest with these in place of its own."""
        left = iter(trees)
        return replace(self.forest, kinds=[(growth, [next(left) for _ in of]) for growth, of in self.forest.kinds])

    def finished(self, trees: list[ClassTree], n_rows: int, pool: HeldOut) -> Any:
        """The fitted classifier, of so many rows."""
        model, forest = self.model, replace(self.with_trees(trees), held_out_rows=pool)
        model._forest, model.classes_, model._declared = forest.ready(), self.classes, True
        model._rows, model._rows_grown, model._n_summed = [self.kept], len(self.kept.y), n_rows
        return model


def plan_classes(model: Any, kinds: list[tuple[ClassGrowth, int]], n_jobs: int, drawn: SamplePass) -> "ClassSums":
    """Grow the trees on the sample; ``kinds``: growths, and trees of each."""
    sample, classes = drawn.sample.lowest(drawn.options.sample_rows), np.array(sorted(drawn.classes))
    X = category_codes(sample.X, model._mixed)
    rows = ClassRows(X, np.searchsorted(classes, sample.Y[:, 0]), sample.times())
    leaves = int(np.clip(drawn.options.state_bytes // (32 * len(classes) * sum(n for _, n in kinds)), *LEAVES))
    min_rows = math.ceil(len(rows.y) / leaves)
    kinds = [(replace(growth, min_rows=max(growth.min_rows, min_rows)), n) for growth, n in kinds]
    forest = ClassForest.grow(rows, len(classes), kinds, model.held_out, model._seed, n_jobs)
    last = sample.bound + int(2**64 * min(pool_rows(len(classes)) / drawn.n_rows, 1.0))
    settled = rows.part(slice(KEPT_ROWS)), drawn.options.second_pass, sample.bound, min(last, 2**64 - 1), n_jobs
    return ClassSums(ClassPlan(model, drawn.columns, classes, forest, *settled))


class _Arrays(tuple[Floats, ...]):
    """Of one tree: arrays that add up."""

    @property
    def arrays(self) -> Self:
        """All of them."""
        return self


@dataclass
class ClassSums(TreeStatistics[_Arrays]):
    """Counts of classes (N, C) in the leaves of planned trees, and moments in the deepest contexts that need them."""

    plan: ClassPlan

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

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Take rows X (n, p) with labels y (n, 1) in."""
        self.n_rows += len(y)
        if not len(y):
            return
        self.make_room()
        rows, C = self.plan.coded(X, y), self.plan.forest.n_classes

        def add(job: tuple[tuple[ClassGrowth, ClassTree], _Arrays]) -> None:
            (_, tree), (counts, *moments) = job
            leaf = tree.tree.leaves(rows[0])
            counts[:] += leaf_counts(len(tree.tree), C, leaf, *rows[1:])
            add_rows(tree, rows, leaf, moments)

        in_threads(add, zip(self.plan.trees, self.sums), self.plan.n_jobs)

    def finish(self) -> Any:
        """Trees with counts of all rows, and with discriminants of them: the next pass, or the fitted classifier."""
        if not self.n_rows:
            raise ValueError("no rows were accumulated: nothing to learn from")
        plan, trees, counted = self.plan, [], []
        for (_, tree), sums in zip(plan.trees, self.sums):
            counts, *moments = (part.copy() for part in sums)
            counted.append(tree.with_arrays(counts=tree.tree.sum_upwards(counts)))
            trees.append(with_moments(counted[-1], moments))
        if not plan.second_pass:
            return plan.finished(trees, self.n_rows, plan.forest.held_out_rows)
        # A row can be left out of counts, and not of discriminants: those of the sample judge rows beyond it.
        return ClassEvidence(plan._replace(forest=plan.with_trees(counted)), trees)


@dataclass
class ClassEvidence(ClassSums):
    """What rows beyond the sample tell of the local models (N, J) and the odds to stop (N,) of each tree; and
    predictions of some of them, which fit the pool.
    """

    trees: list[ClassTree]  # with counts and discriminants of all rows; those of the plan have the sample's
    pool: list[tuple[UInts, Floats, Ints]] = field(default_factory=list, kw_only=True)  # codes, means, classes

    def zeros(self, k: int) -> _Arrays:
        """Of a tree without rows."""
        return _Arrays(tuple(np.zeros_like(part) for part in self.plan.trees[k][1].walk))

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
        codes = row_codes(X, label_numbers(y)[:, 0].copy())
        new = codes > self.plan.bound
        if not new.any():
            return
        self.make_room()
        rows, order, forest = self.plan.coded(X[new], y[new]), np.arange(new.sum()), self.plan.forest
        some = codes[new] <= self.plan.last

        def weigh(job: tuple[tuple[ClassGrowth, ClassTree], _Arrays]) -> Floats:
            (growth, tree), (log_v, log_odds) = job
            return tree.visit(rows, order, growth, WEIGH, (log_v, log_odds))[some]

        psi = one_by_one(weigh, zip(self.plan.trees, self.sums), self.plan.n_jobs)
        of_kinds = [np.asarray(sum(next(psi) for _ in of)) / len(of) for _, of in forest.kinds]
        means = forest.with_additive(of_kinds, rows[0][some])
        self.pool = [*self.pool, (codes[new][some], means, rows[1][some])]

    def finish(self) -> Any:
        """The fitted classifier, with the evidence of these rows."""
        trees, pool = [], self.plan.forest.held_out_rows.copy()
        for tree, evidence in zip(self.trees, self.sums):
            log_v, log_odds = (prior + added for prior, added in zip(tree.walk, evidence))
            log_v -= np.logaddexp.reduce(log_v, axis=1, keepdims=True)
            trees.append(tree.with_arrays(log_v=log_v, log_odds=log_odds))
        if self.pool:
            codes, means, y = (np.concatenate(parts) for parts in zip(*self.pool))
            order = np.argsort(codes, kind="stable")
            pool.add(means[order], y[order], np.ones(len(y)))
        return self.plan.finished(trees or self.trees, self.n_rows, pool)
