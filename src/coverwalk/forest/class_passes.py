"""The pass of `ContextClassifier` after the sample: counts and class moments of all rows, which add up.

The trees, how far their walks go and how they are pooled come from the sample.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.class_walk import Rows
from coverwalk._kernels.forest.discriminant import moments
from coverwalk.forest.class_forest import ClassForest
from coverwalk.forest.class_tree import ClassGrowth, ClassTree, _Kind, arranged, counted, needed_kinds, with_moments
from coverwalk.forest.passes import Columns, SamplePass
from coverwalk.forest.statistics import TreeStatistics
from coverwalk.forest.threads import in_threads
from coverwalk.forest.tree import Tree
from coverwalk.preparation.category_counts import category_codes

LEAVES = (64, 4096)  # of a tree, at least and at most
ROWS_AT_ONCE = 2**16
KEPT_ROWS = 10_000  # of the sample, in the fitted classifier


class ClassPlan(NamedTuple):
    """What the sample has settled."""

    model: Any
    columns: Columns
    classes: NDArray[Any]
    forest: ClassForest
    kept: Any  # some rows of the sample, as the classifier keeps rows
    n_jobs: int

    @property
    def trees(self) -> list[tuple[ClassGrowth, ClassTree]]:
        """All trees, with how each was grown."""
        return [(growth, tree) for growth, trees in self.forest.kinds for tree in trees]

    def coded(self, X: Floats, y: NDArray[Any]) -> Rows:
        """Rows X, categories as digests, in the forest's units; classes by number; weights."""
        Z = self.forest.inputs.forward(category_codes(X, self.model._mixed))
        return Z, np.searchsorted(self.classes, y[:, 0]), np.ones(len(y))


def plan_classes(model: Any, kinds: list[tuple[ClassGrowth, int]], n_jobs: int, drawn: SamplePass) -> "ClassSums":
    """Grow the trees on the sample; ``kinds``: growths, and trees of each."""
    sample, classes = drawn.sample.lowest(drawn.options.sample_rows), np.array(sorted(drawn.classes))
    y, weight = np.searchsorted(classes, sample.Y[:, 0]), sample.times()
    leaves = int(np.clip(drawn.options.state_bytes // (32 * len(classes) * sum(n for _, n in kinds)), *LEAVES))
    least = math.ceil(len(y) / leaves)
    kinds = [(replace(growth, min_rows=max(growth.min_rows, least)), n) for growth, n in kinds]
    X = category_codes(sample.X, model._mixed)
    forest = ClassForest.grow((X, y, weight), len(classes), kinds, model.held_out, model._seed, n_jobs)
    kept = model._as_rows(*(rows[:KEPT_ROWS] for rows in (X, y, weight)))
    return ClassSums(ClassPlan(model, drawn.columns, classes, forest, kept, n_jobs))


class _TreeSums(NamedTuple):
    """Of one tree: class counts (N, C) of its contexts, and the moments of those with discriminants."""

    counts: Floats
    shared: _Kind
    own: _Kind

    @property
    def arrays(self) -> tuple[Floats, ...]:
        """What adds up."""
        return self.counts, *self.shared.total, *self.own.total


@dataclass
class ClassSums(TreeStatistics[_TreeSums]):
    """Counts and class moments of the contexts of a planned forest."""

    plan: ClassPlan

    @property
    def columns(self) -> Columns:
        """What every chunk must have."""
        return self.plan.columns

    @property
    def planned(self) -> list[Tree]:
        """The trees of the plan."""
        return [tree.tree for _, tree in self.plan.trees]

    def zeros(self, k: int) -> _TreeSums:
        """Of a tree without rows."""
        tree = self.plan.trees[k][1]
        return _TreeSums(np.zeros_like(tree.local[0]), *needed_kinds(tree))

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Take rows X (n, p) with labels y (n, 1) in."""
        self.n_rows += len(y)
        if len(y):
            self.make_room()
        for start in range(0, len(y), ROWS_AT_ONCE):
            rows = self.plan.coded(X[start : start + ROWS_AT_ONCE], y[start : start + ROWS_AT_ONCE])
            jobs = zip((tree for _, tree in self.plan.trees), self.sums)
            in_threads(partial(_add_rows, rows), jobs, self.plan.n_jobs)

    def finish(self) -> Any:
        """Discriminants from the moments of all rows; and the fitted classifier."""
        if not self.n_rows:
            raise ValueError("no rows were accumulated: nothing to learn from")
        plan, model = self.plan, self.plan.model
        trees = iter([_relearned(tree, growth, sums) for (growth, tree), sums in zip(plan.trees, self.sums)])
        kinds = [(growth, [next(trees) for _ in of_kind]) for growth, of_kind in plan.forest.kinds]
        forest = replace(plan.forest, kinds=kinds, held_out_rows=deepcopy(plan.forest.held_out_rows))
        model._forest, model.classes_, model._declared = forest, plan.classes, True
        model._rows, model._rows_grown, model._n_summed = [plan.kept], len(plan.kept[1]), self.n_rows
        return model


def _add_rows(rows: Rows, job: tuple[ClassTree, _TreeSums]) -> None:
    class_tree, sums = job
    tree = class_tree.tree
    perm, span = arranged(rows[0], np.arange(len(rows[1])), tree)
    sums.counts[:] += counted(rows, sums.counts.shape[1], perm, tree, span)
    for kind in (sums.shared, sums.own):
        moments(rows, perm, span, tree.parent, tree.left, kind.place, class_tree.local[5], kind.total)


def _relearned(class_tree: ClassTree, growth: ClassGrowth, sums: _TreeSums) -> ClassTree:
    walk = (class_tree.walk[0].copy(), class_tree.walk[1].copy())  # the plan's own stay as they are
    made = with_moments(class_tree, (sums.shared, sums.own), growth)
    return made._replace(local=(sums.counts.copy(), *made.local[1:]), walk=walk)
