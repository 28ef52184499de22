"""A forest of trees of contexts for classes: who leaves which rows out, and how the trees are pooled."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.class_walk import Rows
from coverwalk._kernels.forest.node import MAX_CATEGORIES
from coverwalk.files.schema import Array, Limits, List, Object, Schema, Scope, Tuple, Whole, require
from coverwalk.forest.class_additive import FOLDS, held_out_additive
from coverwalk.forest.class_pool import HeldOut, Pools, pool_rows
from coverwalk.forest.class_tree import ClassGrowth, ClassTree, grow_class_tree
from coverwalk.forest.experts.additive import Additive
from coverwalk.forest.stored_class_tree import StoredClassTree, restored_trees, trees_to_store
from coverwalk.forest.threads import in_threads, one_by_one
from coverwalk.preparation.row_codes import row_codes
from coverwalk.preparation.scaling import Scaling

MANY_ROWS = 2**14  # distinct rows that need not come in more parts than folds
MANY_PARTS = 16  # nor, however many folds there are, in more than these
CHUNK = 4096  # rows that a thread predicts at a time


@dataclass(frozen=True)
class ClassInputs:
    """Inputs in units of order one. Categories keep the numbers of their levels, for splits.

    Behind all columns come indicators of levels that some rows have and some have not, for discriminants, with mean 0
    and variance 1 and NaN where one is missing.
    """

    scaling: Scaling
    n_categories: tuple[int, ...] = ()  # of each column, 0 for numbers; empty where all are numbers
    indicators: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))  # (m, 2) column and level
    shares: Floats = field(default_factory=lambda: np.empty(0))  # (m,) of the rows that have a value

    _schema = Schema(
        scaling=Object(Scaling, p="p"),
        n_categories=List(Whole(0, MAX_CATEGORIES), kind=tuple),
        indicators=Array(np.int64, "m", 2, columns={0: Limits(index="p")}),
        shares=Array(float, "m", above=0, below=1),
        check=lambda state, scope: require("categories", len(state.n_categories) in (0, scope["p"])),
    )

    @classmethod
    def of(cls, X: Floats, weight: Floats, n_categories: tuple[int, ...] = ()) -> "ClassInputs":
        """From rows X (n, p) with weights (n,)."""
        indicators, shares = [], []
        for a in np.flatnonzero(n_categories).tolist():
            counts = np.bincount(X[~np.isnan(X[:, a]), a].astype(np.int64), weight[~np.isnan(X[:, a])])
            for category, share in enumerate((counts / max(counts.sum(), 1e-300)).tolist()):
                if 0.0 < share < 1.0:
                    indicators.append((a, category))
                    shares.append(share)
        return cls(Scaling.of(X), n_categories, np.array(indicators, np.int64).reshape(-1, 2), np.array(shares))

    @property
    def categories(self) -> Ints:
        """How many each column has (p,), 0 for numbers."""
        return np.array(self.n_categories or (0,) * len(self.scaling.centre), np.int64)

    def forward(self, X: Floats) -> Floats:
        """Rows X (n, p) as the trees see them, (n, p + m)."""
        Z, _ = self.scaling.rows(X, self.n_categories)
        if not len(self.shares):
            return Z
        column, category = self.indicators.T
        has = np.where(np.isnan(X[:, column]), np.nan, X[:, column] == category)
        return np.hstack([Z, (has - self.shares) / np.sqrt(self.shares * (1.0 - self.shares))])


class DuplicateRows(NamedTuple):
    """Rows in an order that depends on their values alone; equal rows are bundled, and dealt out in few parts."""

    X: Floats
    y: Ints
    weight: Floats
    bundle: Ints  # (n,) equal rows have the same; parts of a bundle stand side by side

    @classmethod
    def of(cls, X: Floats, y: Ints, weight: Floats, held_out: int) -> "DuplicateRows":
        """Bundle rows by their values and divide the weight of each bundle: its units are dealt to the parts in turn.

        So the order in which rows are given does not matter, and a row of weight m is the same as m rows: a row of
        weight 1 is one part, and one of weight 6.5 dealt to four parts is 2, 2, 1.5 and 1. Few distinct rows come in
        many parts, as they would in a sample; many in as many as there are folds, up to 16, to save work.
        """
        X, y, weight = _bundled(X, y, weight)
        most_parts = max(min(held_out, MANY_PARTS), MANY_ROWS // len(y))
        parts = np.minimum(np.ceil(weight), most_parts).astype(np.int64)
        bundle = np.repeat(np.arange(len(y)), parts)
        part = np.arange(len(bundle)) - np.repeat(np.cumsum(parts) - parts, parts)
        whole = np.floor(weight)[bundle]
        turns, rest = np.divmod(whole, parts[bundle])
        units = turns + (part < rest) + np.where(part == rest, weight[bundle] - whole, 0.0)
        return cls(X[bundle], y[bundle], units, bundle)

    def folds(self, n_trees: int, held_out: int, rng: np.random.Generator) -> Iterator[Ints]:
        """For each tree the parts it leaves out: every ``held_out`` trees leave out each once, classes evenly.

        No fold has two parts of a bundle, if it has at most ``held_out`` of them.
        """
        n = len(self.y)
        for k in range(n_trees):
            if k % held_out == 0:
                fold, shuffle = np.empty(n, np.int64), rng.random(self.bundle[-1] + 1)
                fold[np.lexsort((shuffle[self.bundle], self.y))] = (np.arange(n) + rng.integers(held_out)) % held_out
            yield np.flatnonzero(fold == k % held_out)


def _bundled(X: Floats, y: Ints, weight: Floats) -> tuple[Floats, Ints, Floats]:
    """Equal rows as one with the sum of their weights, in the order of a hash of their values."""
    _, first, bundle = np.unique(row_codes(X, y.astype(np.float64)), return_index=True, return_inverse=True)
    return X[first], y[first], np.bincount(bundle, weight).astype(np.float64)


@dataclass
class ClassForest:
    """Some kinds of trees (a growth and its trees), an additive expert or none, and the pool of them."""

    inputs: ClassInputs
    kinds: list[tuple[ClassGrowth, list[ClassTree]]]
    additive: list[Additive]
    held_out_rows: HeldOut
    n_classes: int

    _schema = Schema(
        n_classes=Whole("C", "C"),
        inputs=Object(ClassInputs, p="p", m="m"),
        kinds=List(
            Tuple(
                Object(ClassGrowth),
                List(
                    Object(StoredClassTree, p="p", columns="p + m", C="C", temperatures="_0.temperatures"),
                    low=1,
                    high=10_000,
                ),
            ),
            low=1,
            high=2,
        ),
        additive=List(Object(Additive, p="p", m="m", C="C"), high=1),
        held_out_rows=Object(HeldOut, n_kinds="len(kinds) + len(additive)", C="C"),
        check=lambda state, scope: _check_splits(state, scope),
    )

    @classmethod
    def grow(
        cls,
        data: tuple[Floats, Ints, Floats],
        n_classes: int,
        kinds: list[tuple[ClassGrowth, int]],
        held_out: int,
        seed: int,
        n_jobs: int,
        progress: Callable[[], Any] = lambda: None,
    ) -> "ClassForest":
        """Grow a forest on rows (X, y, weight > 0); ``kinds``: growths, and trees of each."""
        duplicates = DuplicateRows.of(*data, held_out=held_out)
        X, y, weight, _ = duplicates
        inputs = ClassInputs.of(X, weight, kinds[0][0].n_categories)
        rows = (inputs.forward(X), y, weight)
        rng = np.random.default_rng(seed)
        jobs = [
            (kind, outside, int(rng.integers(2**62)))
            for kind, (_, n_trees) in enumerate(kinds)
            for outside in duplicates.folds(n_trees, held_out, rng)
        ]

        def grown(job: tuple[int, Ints, int]) -> tuple[ClassTree, Ints, Floats]:
            kind, outside, tree_seed = job
            inside = np.delete(np.arange(len(y)), outside)
            if not len(inside):  # a single row is both what there is to grow on and all there is to learn
                inside, outside = outside, inside
            return grow_class_tree(rows, n_classes, inside, outside, tree_seed, kinds[kind][0])

        n_pool = min(len(y), pool_rows(n_classes))  # the order of the rows is random: the first are a sample
        pools = Pools(n_pool, n_classes, len(kinds), halves=2)
        trees: list[list[ClassTree]] = [[] for _ in kinds]
        for (kind, _, _), (tree, order, psi) in zip(jobs, one_by_one(grown, jobs, n_jobs)):
            pools.add(kind, order[order < n_pool], psi[order < n_pool], half=len(trees[kind]) // held_out % 2)
            trees[kind].append(tree)
            progress()
        known, means = pools.known, pools.means()
        judged = (rows[0][:n_pool][known], y[:n_pool][known], weight[:n_pool][known])
        place = np.cumsum(known) - 1
        folds = [place[fold[known[fold]]] for fold in (f[f < n_pool] for f in duplicates.folds(FOLDS, FOLDS, rng))]
        said, gain = [means, *pools.halves()], 1.0 - 1.0 / held_out
        found = held_out_additive(judged, said, gain, inputs.categories, inputs.indicators[:, 0], folds, n_jobs)
        if found:
            means = np.concatenate([means, found[1][:, :, None]], axis=2)
        held_out_rows = HeldOut(means.shape[2])
        held_out_rows.add(means, *judged[1:])
        additive = [found[0]] if found else []
        return cls(inputs, [(p, t) for (p, _), t in zip(kinds, trees)], additive, held_out_rows, n_classes)

    @property
    def counts(self) -> Floats:
        """The rows of each class (C,) that were learned: what the root of any tree has counted."""
        counts: Floats = self.kinds[0][1][0].local[0][0]
        return counts

    def log_proba(self, X: Floats, n_jobs: int = 1) -> Floats:
        """Log probabilities (n, C) of the classes of rows in the user's units."""
        Z = self.inputs.forward(X)

        def pooled(start: int) -> Floats:
            part = Z[start : start + CHUNK]
            pools = self._pools(part)
            for kind, (growth, trees) in enumerate(self.kinds):
                for tree in trees:
                    pools.add(kind, slice(None), tree.predict(part, growth))
            return self.held_out_rows.log_proba(pools.means())

        return np.concatenate(in_threads(pooled, range(0, len(Z), CHUNK), n_jobs))

    def learn(self, X: Floats, y: Ints, weight: Floats, n_jobs: int) -> None:
        """Learn rows one by one: the counts and walks of all trees, and the pool.

        Splits, discriminants and the additive expert stay as they are until the next growth.

        Each tree says what it thinks of a row before it learns it, so the rows weigh the pools as held-out rows do.
        """
        rows: Rows = (self.inputs.forward(X), y, weight)
        jobs = [(kind, growth, tree) for kind, (growth, trees) in enumerate(self.kinds) for tree in trees]
        order = np.arange(len(y))
        pools = self._pools(rows[0])
        said = one_by_one(lambda job: job[2].learn(rows, order, job[1]), jobs, n_jobs)
        for (kind, _, _), psi in zip(jobs, said):
            pools.add(kind, slice(None), psi)
        self.held_out_rows.add(pools.means(), y, weight)

    def stored(self, data: tuple[Floats, Ints, Floats] | None, held_out: int) -> "ClassForest":
        """What a file holds; data: the rows on which it was grown, if they are known."""
        return replace(self, kinds=trees_to_store(self.kinds, self._as_grown(data, held_out)))

    def restored(self, data: tuple[Floats, Ints, Floats] | None, held_out: int) -> "ClassForest":
        """The forest of which this is `stored`."""
        return replace(self, kinds=restored_trees(self.kinds, self._as_grown(data, held_out)))

    def _as_grown(self, data: tuple[Floats, Ints, Floats] | None, held_out: int) -> Rows | None:
        """Rows as `grow` gave them to the trees."""
        if data is None:
            return None
        X, y, weight, _ = DuplicateRows.of(*data, held_out=held_out)
        return self.inputs.forward(X), y, weight

    def _pools(self, Z: Floats) -> Pools:
        """For rows Z, with what the additive expert says of them."""
        pools = Pools(len(Z), self.n_classes, len(self.kinds) + len(self.additive))
        for expert in self.additive:
            pools.add(len(self.kinds), slice(None), expert.psi(expert.functions(Z)))
        return pools

    def make_writable(self) -> None:
        """Copy what is read-only."""
        self.kinds = [(growth, [tree.writable() for tree in trees]) for growth, trees in self.kinds]


def _check_splits(state: Any, scope: Scope) -> None:
    """Cuts between levels where there are levels, and only there."""
    for growth, trees in state.kinds:
        require("categories", len(growth.n_categories) in (0, scope["p"]))
        counts = np.array(growth.n_categories or (0,) * scope["p"])
        for tree in trees:
            inner = tree.tree.left >= 0
            require("split", np.isnan(tree.tree.split[inner]) == (counts[tree.tree.feature[inner]] > 0))
