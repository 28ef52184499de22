"""A forest of trees of contexts for classes: its inputs, which tree holds which rows out, and how trees are pooled."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.class_walk import LEARN, PREDICT
from coverwalk._kernels.forest.discriminant import Rows
from coverwalk._kernels.forest.node import MAX_CATEGORIES
from coverwalk.files.schema import Array, Limits, List, Object, Scope, Tuple, Whole, require, stored
from coverwalk.forest.class_pool import HeldOut, held_out_means, pool_rows
from coverwalk.forest.class_rows import ClassRows, DuplicateRows
from coverwalk.forest.class_tree import ClassGrowth, ClassTree, grow_class_tree, joined
from coverwalk.forest.experts.additive import FOLDS, Additive, held_out_additive
from coverwalk.forest.stored_class_tree import StoredClassTree, restored_trees, trees_to_store
from coverwalk.forest.threads import in_threads, one_blas_thread, one_by_one
from coverwalk.preparation.scaling import Scaling

CHUNK = 4096  # rows that a thread predicts at a time
REFITS = 4  # of the additive expert, while each tree of a stream grows again


@stored(check=lambda state, scope: require("categories", len(state.n_categories) in (0, scope["p"])))
@dataclass(frozen=True)
class ClassInputs:
    """Inputs in units of order one. Categories keep their numbers, for splits.

    Behind all columns come indicators of categories that some rows have and some have not, for discriminants, with mean
    0 and variance 1 and NaN where one is missing.
    """

    scaling: Annotated[Scaling, Object(Scaling, p="p")]
    # of each column, 0 for numbers; empty where all are numbers
    n_categories: Annotated[tuple[int, ...], List(Whole(0, MAX_CATEGORIES), kind=tuple)]
    indicators: Annotated[Ints, Array(np.int64, "m", 2, columns={0: Limits(index="p")})]  # column and category
    shares: Annotated[Floats, Array(float, "m", above=0, below=1)]  # of the rows that have a value

    @classmethod
    def of(cls, X: Floats, weight: Floats, n_categories: tuple[int, ...]) -> "ClassInputs":
        """From rows X (n, p) with weights (n,)."""
        indicators, shares = [], []
        for a in np.flatnonzero(n_categories).tolist():
            counts = np.bincount(X[~np.isnan(X[:, a]), a].astype(np.int64), weight[~np.isnan(X[:, a])])
            for category, share in enumerate((counts / max(counts.sum(), 1e-300)).tolist()):
                if 0.0 < share < 1.0:
                    indicators.append((a, category))
                    shares.append(share)
        return cls(Scaling.of(X), n_categories, np.array(indicators, np.int64).reshape(-1, 2), np.array(shares))

    def forward(self, X: Floats) -> Floats:
        """Rows X (n, p) as the trees see them, (n, p + m)."""
        Z, _ = self.scaling.rows(X, self.n_categories)
        if not len(self.shares):
            return Z
        column, category = self.indicators.T
        has = np.where(np.isnan(X[:, column]), np.nan, X[:, column] == category)
        return np.hstack([Z, (has - self.shares) / np.sqrt(self.shares * (1.0 - self.shares))])


def next_turn(n: int, grown: int, n_trees: int) -> tuple[int, int]:
    """The number of the tree that is to grow again after n rows, and at how many, where all grew from ``grown`` rows.

    Each has one turn until these have doubled, when all grow again; where they are too few for that, none has.

    >>> next_turn(100, 100, 3), next_turn(119, 100, 3), next_turn(199, 100, 3), next_turn(3, 3, 3)
    ((0, 119), (1, 142), (3, 200), (3, 6))
    """
    turns = n_trees + 1
    if grown * math.log(2.0) < turns:
        return n_trees, 2 * grown
    turn = int(turns * math.log2(n / grown))
    while math.ceil(grown * 2.0 ** (turn / turns)) <= n:
        turn += 1
    return turn - 1, math.ceil(grown * 2.0 ** (turn / turns))


_STORED = Object(StoredClassTree, p="p", columns="p + m", C="C")


def _check_splits(state: Any, scope: Scope) -> None:
    """Splits between categories where there are some, and only there."""
    for growth, trees in state.kinds:
        require("categories", len(growth.n_categories) in (0, scope["p"]))
        counts = growth.categories(scope["p"])
        for tree in trees:
            inner = tree.tree.left >= 0
            require("split", np.isnan(tree.tree.split[inner]) == (counts[tree.tree.feature[inner]] > 0))


@stored(check=_check_splits)
@dataclass
class ClassForest:
    """Some kinds of trees (a growth and its trees), an additive expert or none, and the pool of them."""

    inputs: Annotated[ClassInputs, Object(ClassInputs, p="p", m="m")]
    kinds: Annotated[
        list[tuple[ClassGrowth, list[ClassTree]]],
        List(Tuple(Object(ClassGrowth), List(_STORED, low=1, high=10_000)), low=1, high=2),
    ]
    additive: Annotated[list[Additive], List(Object(Additive, p="p", m="m", C="C"), high=1)]
    held_out_rows: Annotated[HeldOut, Object(HeldOut, n_kinds="len(kinds) + len(additive)", C="C")]
    n_classes: Annotated[int, Whole("C", "C")]
    _joined: list[ClassTree] = field(default_factory=list, compare=False, repr=False)  # the trees of each kind in one

    @classmethod
    def grow(
        cls,
        data: ClassRows,
        n_classes: int,
        kinds: list[tuple[ClassGrowth, int]],
        held_out: int,
        seed: int,
        n_jobs: int,
        progress: Callable[[], Any] = lambda: None,
    ) -> "ClassForest":
        """Grow a forest on rows, some of which have weight; ``kinds``: growths, and trees of each."""
        duplicates = DuplicateRows.of(data, held_out)
        X, y, weight, _ = duplicates
        inputs = ClassInputs.of(X, weight, kinds[0][0].n_categories)
        rows = (inputs.forward(X), y, weight)
        rng = np.random.default_rng(seed)
        jobs = [
            (kind, outside, int(rng.integers(2**62)))
            for kind, (_, n) in enumerate(kinds)
            for outside in duplicates.folds(n, held_out, rng)
        ]

        def grown(job: tuple[int, Ints, int]) -> tuple[ClassTree, Ints, Floats]:
            kind, outside, tree_seed = job
            return _grown(rows, n_classes, outside, tree_seed, kinds[kind][0])

        n_pool = min(len(y), pool_rows(n_classes))  # the order of the rows is random: the first are a sample
        total, n_trees = np.zeros((2, len(kinds), n_pool, n_classes)), np.zeros((2, len(kinds), n_pool))
        trees: list[list[ClassTree]] = [[] for _ in kinds]
        for (kind, _, _), (tree, order, psi) in zip(jobs, one_by_one(grown, jobs, n_jobs)):
            half, here = len(trees[kind]) // held_out % 2, order < n_pool
            total[half, kind, order[here]] += psi[here]
            n_trees[half, kind, order[here]] += 1.0
            trees[kind].append(tree)
            progress()
        known, means = held_out_means(total, n_trees)
        judged = (rows[0][:n_pool][known], y[:n_pool][known], weight[:n_pool][known])
        place = np.cumsum(known) - 1
        folds = [place[fold[known[fold]]] for fold in (f[f < n_pool] for f in duplicates.folds(FOLDS, FOLDS, rng))]
        columns = kinds[0][0].categories(X.shape[1]), inputs.indicators[:, 0]
        with one_blas_thread():
            found = held_out_additive(judged, means, 1.0 - 1.0 / held_out, *columns, folds, n_jobs)
        every = np.concatenate([means[0], found[1][:, :, None]], axis=2) if found else means[0]
        held_out_rows = HeldOut(every.shape[2])
        held_out_rows.add(every, *judged[1:])
        grown_kinds = [(growth, of) for (growth, _), of in zip(kinds, trees)]
        return cls(inputs, grown_kinds, [found[0]] if found else [], held_out_rows, n_classes).ready()

    def ready(self, only: int | None = None) -> "ClassForest":
        """The same with arrays of its own, in which all trees of a kind predict and learn at once.

        only: the kind that has other trees than before; the others share their arrays with this forest.
        """
        every = enumerate(trees for _, trees in self.kinds)
        parts = [joined(trees) if only in (None, kind) else (self._joined[kind], trees) for kind, trees in every]
        kinds = [(growth, trees) for (growth, _), (_, trees) in zip(self.kinds, parts)]
        return replace(self, kinds=kinds, held_out_rows=self.held_out_rows.copy(), _joined=[one for one, _ in parts])

    def regrown(
        self, turn: int, data: ClassRows, n_categories: tuple[int, ...], held_out: int, seed: int
    ) -> "ClassForest":
        """The same with one tree grown again, from rows as `grow` takes them: that whose turn it is, all in rotation;
        at some turns the additive expert is fitted to them too.

        n_categories: of each column, as they are now: there may be new ones. Other parameters wait for the next `grow`.
        """
        kinds = list(self.kinds)
        places = [
            (place / len(trees), kind, place) for kind, (_, trees) in enumerate(kinds) for place in range(len(trees))
        ]
        _, kind, place = sorted(places)[turn]
        duplicates = DuplicateRows.of(data, held_out)
        rows = (self.inputs.forward(duplicates.X), duplicates.y, duplicates.weight)
        rng = np.random.default_rng([seed, turn, len(data.y)])
        outside = next(duplicates.folds(1, held_out, rng))
        growth, trees = replace(kinds[kind][0], n_categories=n_categories), list(kinds[kind][1])
        tree, _, _ = _grown(rows, self.n_classes, outside, int(rng.integers(2**62)), growth)
        trees[place] = tree._replace(alone=True)
        kinds[kind] = (growth, trees)
        additive = self.additive
        if (turn + 1) % math.ceil(len(places) / REFITS) == 0:
            with one_blas_thread():
                additive = [expert.refitted(*rows) for expert in additive]
        return replace(self, kinds=kinds, additive=additive).ready(kind)

    def grown_on_all(
        self, data: ClassRows, held_out: int, seed: int, n_jobs: int
    ) -> list[tuple[ClassGrowth, list[ClassTree]]]:
        """As many trees of each kind, grown on all its rows: none weighs their walks."""
        X, y, weight, _ = DuplicateRows.of(data, held_out)
        rows, rng = (self.inputs.forward(X), y, weight), np.random.default_rng([seed, len(y)])

        def kind(growth: ClassGrowth, trees: list[ClassTree]) -> list[ClassTree]:
            seeds, none = rng.integers(2**62, size=len(trees)).tolist(), np.empty(0, np.int64)
            return in_threads(lambda seed: _grown(rows, self.n_classes, none, seed, growth)[0], seeds, n_jobs)

        return [(growth, kind(growth, trees)) for growth, trees in self.kinds]

    @property
    def counts(self) -> Floats:
        """The rows of each class (C,) that were learned: what the root of any tree has counted."""
        counts: Floats = self.kinds[0][1][0].flat.counts[0]
        return counts

    def log_proba(self, X: Floats, n_jobs: int = 1) -> Floats:
        """Log probabilities (n, C) of the classes of rows in the user's units."""
        Z = self.inputs.forward(X)

        def pooled(start: int) -> Floats:
            part = Z[start : start + CHUNK]
            return self.held_out_rows.log_proba(self.means((part, np.zeros(len(part), np.int64), part[:, 0]), PREDICT))

        return np.concatenate(in_threads(pooled, range(0, len(Z), CHUNK), n_jobs))

    def learn(self, data: ClassRows, n_jobs: int) -> None:
        """Learn rows one by one: the counts and walks of all trees, and the pool.

        Splits, discriminants and the additive expert stay as they are until the next growth.

        Each tree predicts a row before it learns it, so the rows weigh the pool as held-out rows do.
        """
        X, y, weight = data.part(data.weight > 0.0)
        self.held_out_rows.add(self.means((self.inputs.forward(X), y, weight), LEARN, n_jobs), y, weight)

    def means(self, rows: Rows, mode: int, n_jobs: int = 1) -> Floats:
        """The mean prediction of each kind of tree, and that of the additive expert (n, C, kinds)."""
        order, jobs = np.arange(len(rows[0])), zip(self._joined, self.kinds)
        means = in_threads(lambda job: job[0].visit(rows, order, job[1][0], mode) / len(job[1][1]), jobs, n_jobs)
        return self.with_additive(means, rows[0])

    def with_additive(self, means: list[Floats], Z: Floats) -> Floats:
        """The mean predictions (n, C) of each kind of tree for rows Z, with that of the additive expert: together."""
        return np.stack([*means, *(expert.psi(expert.functions(Z)) for expert in self.additive)], axis=2)

    def stored(self, data: ClassRows | None, held_out: int) -> "ClassForest":
        """What a file holds; data: the rows on which it was grown, if they are known."""
        return replace(self, kinds=trees_to_store(self.kinds, self._as_grown(data, held_out)), _joined=[])

    def restored(self, data: ClassRows | None, held_out: int) -> "ClassForest":
        """The forest of which this is `stored`."""
        return replace(self, kinds=restored_trees(self.kinds, self._as_grown(data, held_out))).ready()

    def _as_grown(self, data: ClassRows | None, held_out: int) -> Rows | None:
        """Rows as `grow` gave them to the trees."""
        if data is None:
            return None
        require("weights", data.weight.any())
        X, y, weight, _ = DuplicateRows.of(data, held_out)
        return self.inputs.forward(X), y, weight

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_joined"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _joined=[])
        if isinstance(self.kinds[0][1][0], ClassTree):  # others are to be restored
            self.__dict__.update(vars(self.ready()))


def _grown(rows: Rows, n_classes: int, outside: Ints, seed: int, growth: ClassGrowth) -> tuple[ClassTree, Ints, Floats]:
    inside = np.delete(np.arange(len(rows[1])), outside)
    if not len(inside):  # a single row is both what there is to grow on and all there is to learn
        inside, outside = outside, inside
    return grow_class_tree(rows, n_classes, inside, outside, seed, growth)
