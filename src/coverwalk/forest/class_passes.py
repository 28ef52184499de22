"""The passes of `ContextClassifier` after the sample, on which trees were grown: counts and class moments of all rows;
then what rows beyond the sample tell of walks and pool, each predicted without itself. All of it adds up. Some rows
beyond the sample are kept, to fit the additive expert and the pool.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Bools, Floats, UInts
from coverwalk._kernels.forest.class_walk import LEAVE_OUT, WEIGH
from coverwalk._kernels.forest.discriminant import Rows
from coverwalk.forest.class_forest import ClassForest
from coverwalk.forest.class_pool import POOL_ROWS, HeldOut, pool_rows
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
from coverwalk.forest.experts.additive import Additive
from coverwalk.forest.passes import Columns, SamplePass
from coverwalk.forest.statistics import TreeStatistics
from coverwalk.forest.threads import in_threads, one_blas_thread
from coverwalk.forest.tree import Tree
from coverwalk.preparation.category_counts import category_codes
from coverwalk.preparation.row_codes import row_codes
from coverwalk.preparation.row_sample import RowSample, label_numbers

LEAVES = (64, 4096)  # of a tree, at least and at most
KEPT_ROWS = 10_000  # of the sample, in the fitted classifier


class ClassPlan(NamedTuple):
    """What the sample has settled."""

    model: Any
    columns: Columns
    classes: NDArray[Any]
    fitted: ClassForest  # to the sample
    kinds: list[tuple[ClassGrowth, list[ClassTree]]]  # the trees in which rows are counted
    kept: ClassRows  # some rows of the sample
    second_pass: bool
    bound: int  # rows up to this code are in the sample
    n_jobs: int

    @property
    def trees(self) -> list[tuple[ClassGrowth, ClassTree]]:
        """All trees, with how each was grown."""
        return [(growth, tree) for growth, trees in self.kinds for tree in trees]

    def coded(self, X: Floats, y: NDArray[Any]) -> Rows:
        """Rows X, categories as digests, in the forest's units; classes by number; weights."""
        Z = self.fitted.inputs.forward(category_codes(X, self.model._mixed))
        return Z, np.searchsorted(self.classes, y[:, 0]), np.ones(len(y))

    def kept_beyond(self, beyond: RowSample) -> Rows:
        """Rows that were kept beyond the sample, coded, with weights like those of the sample."""
        return *self.coded(beyond.X, beyond.Y)[:2], beyond.times()

    def additive(self, beyond: Rows) -> list[Additive]:
        """The additive expert of the sample, fitted to some rows beyond it too."""
        Z, y, weight = self.fitted.inputs.forward(self.kept.X), self.kept.y, self.kept.weight
        every = [np.concatenate(parts) for parts in zip((Z, y, weight), beyond)]
        with one_blas_thread():
            return [expert.refitted(*every) for expert in self.fitted.additive]

    def forest(self, trees: list[ClassTree], additive: list[Additive], pool: HeldOut) -> ClassForest:
        """The forest of the sample with other parts."""
        left = iter(trees)
        kinds = [(growth, [next(left) for _ in of]) for growth, of in self.kinds]
        return replace(self.fitted, kinds=kinds, additive=additive, held_out_rows=pool).ready()

    def finished(self, forest: ClassForest, n_rows: int) -> Any:
        """The fitted classifier, of so many rows."""
        model, kept = self.model, self.kept.part(slice(KEPT_ROWS))
        model._forest, model.classes_, model._declared = forest, self.classes, True
        model._rows, model._rows_grown, model._n_summed = [kept], len(kept.y), n_rows
        return model


def plan_classes(model: Any, kinds: list[tuple[ClassGrowth, int]], n_jobs: int, drawn: SamplePass) -> "ClassSums":
    """Grow the trees on the sample; ``kinds``: growths, and trees of each.

    Where more rows are beyond the sample than are held out in it, they weigh the walks: the trees then hold no rows
    out.
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
    settled = rows.part(slice(POOL_ROWS)), second_pass, sample.bound, n_jobs
    plan = ClassPlan(model, drawn.columns, classes, fitted, planned, *settled)
    return ClassSums(plan, RowSample(pool_rows(len(classes))))


class _Arrays(tuple[Floats, ...]):
    """Of one tree: arrays that add up."""

    @property
    def arrays(self) -> Self:
        """All of them."""
        return self


@dataclass
class ClassSums(TreeStatistics[_Arrays]):
    """Counts of classes (N, C) in the leaves of planned trees, and moments in the deepest contexts that need them; and
    some rows beyond the sample.
    """

    plan: ClassPlan
    beyond: RowSample

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
        return replace(super().empty(), beyond=RowSample(self.beyond.most))

    def merge(self, other: Self) -> None:
        """Take in what another state of the same plan took in."""
        super().merge(other)
        self.beyond.merge(other.beyond)

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Take rows X (n, p) with labels y (n, 1) in."""
        self.n_rows += len(y)
        if not len(y):
            return
        self.make_room()
        rows, new = self.plan.coded(X, y), _codes(X, y) > self.plan.bound
        self.beyond.accumulate(X[new], y[new])

        def add(job: tuple[tuple[ClassGrowth, ClassTree], _Arrays]) -> None:
            (_, tree), (counts, *moments) = job
            leaf = tree.tree.leaves(rows[0])
            counts[:] += leaf_counts(len(tree.tree), counts.shape[1], leaf, *rows[1:])
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
        some = len(self.beyond.codes) > 0
        if some and plan.second_pass:
            return ClassEvidence(plan, trees, counted, self.beyond)
        additive = plan.additive(plan.kept_beyond(self.beyond)) if some else plan.fitted.additive
        return plan.finished(plan.forest(trees, additive, plan.fitted.held_out_rows), self.n_rows)


@dataclass
class ClassEvidence(TreeStatistics[_Arrays]):
    """Sums of log phi (2, N, J) of the local models in each tree, for the classes of rows beyond the sample.

    These rows are in two halves: each is predicted by what the other tells, and all of them fit the pool.
    """

    plan: ClassPlan
    trees: list[ClassTree]  # with counts and discriminants of all rows
    # Rows can be left out of counts, and not of discriminants: these have those of the sample, and judge rows beyond it
    judges: list[ClassTree]
    beyond: RowSample

    columns = ClassSums.columns
    planned = ClassSums.planned

    def zeros(self, k: int) -> _Arrays:
        """Of a tree without rows."""
        return _Arrays((np.zeros((2, *self.trees[k].flat.log_v.shape)),))

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Take rows X (n, p) with labels y (n, 1) in."""
        self.n_rows += len(y)
        codes = _codes(X, y)
        new = codes > self.plan.bound
        if not new.any():
            return
        self.make_room()
        rows, odd = self.plan.coded(X[new], y[new]), _odd(codes[new])

        def weigh(job: tuple[tuple[ClassGrowth, ClassTree], ClassTree, _Arrays]) -> None:
            (growth, _), judge, (log_phi,) = job
            for half in range(2):
                judge.visit(rows, np.flatnonzero(odd == half), growth, WEIGH, log_phi[half])

        in_threads(weigh, zip(self.plan.trees, self.judges, self.sums), self.plan.n_jobs)

    def finish(self) -> Any:
        """The fitted classifier, with the evidence of these rows."""
        if not self.sums:
            raise ValueError("no rows were accumulated: nothing to learn from")
        plan, rows, odd = self.plan, self.plan.kept_beyond(self.beyond), _odd(self.beyond.codes)
        trees = [with_evidence(tree, log_phi.sum(axis=0)) for tree, (log_phi,) in zip(self.trees, self.sums)]
        pool, predicted = plan.fitted.held_out_rows.copy(), []
        if len(odd) * plan.model.held_out >= len(plan.kept.y):  # more than the sample has held out, from other trees
            pool = HeldOut(len(pool.weights))
        for half in range(2):
            Z, y, weight = _of(rows, odd == half)
            judges = [with_evidence(judge, log_phi[1 - half]) for judge, (log_phi,) in zip(self.judges, self.sums)]
            forest = plan.forest(judges, plan.additive(_of(rows, odd != half)), pool)
            predicted.append((forest.means((Z, y, np.ones(len(y))), LEAVE_OUT, plan.n_jobs), y, weight))
        pool.add(*(np.concatenate(parts) for parts in zip(*predicted)))
        return plan.finished(plan.forest(trees, plan.additive(rows), pool), self.n_rows)


def _codes(X: Floats, y: NDArray[Any]) -> UInts:
    return row_codes(X, label_numbers(y)[:, 0].copy())


def _odd(codes: UInts) -> Bools:
    return np.asarray(codes % np.uint64(2) == 1)


def _of(rows: Rows, some: Bools) -> Rows:
    Z, y, weight = rows
    return Z[some], y[some], weight[some]
