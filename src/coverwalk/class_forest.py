"""A forest of trees of contexts for classes: who leaves which rows out, and how the trees are pooled."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.class_grow import Rows
from coverwalk.covers.classes import ClassTree, Planting, plant
from coverwalk.pooling import Pools, Unseen, log_softmax, pool_rows

__all__ = ["ClassForest", "Standard", "merge_rows", "n_threads"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNK = 4096  # rows that a thread predicts at a time


@dataclass(frozen=True)
class Standard:
    """Columns with mean 0 and variance 1, computed so that neither 1e300 nor 1e-300 overflows; a constant one is 0."""

    size: Floats
    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, X: Floats, weight: Floats) -> "Standard":
        """The standard of weighted rows."""
        size = np.abs(X).max(axis=0)
        size[size == 0.0] = 1.0
        unit = X / size
        share = weight / weight.sum()
        mean = share @ unit
        deviation = np.sqrt(share @ (unit - mean) ** 2)
        constant = unit.min(axis=0) == unit.max(axis=0)
        return cls(size, np.where(constant, unit[0], mean), np.where(constant | (deviation == 0.0), 1.0, deviation))

    def __call__(self, X: Floats) -> Floats:
        """Rows in these units. Beyond 1e100 deviations all x are equally far out, and squares stay finite."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(np.clip((X / self.size - self.mean) / self.deviation, -1e100, 1e100))

    def back(self, axis: int, z: float) -> float:
        """A value of one column in the user's units."""
        return float((z * self.deviation[axis] + self.mean[axis]) * self.size[axis])


def merge_rows(X: Floats, y: Integers, weight: Floats) -> tuple[Floats, Integers, Floats]:
    """Rows in an order that depends on their values alone, equal rows as one with the sum of their weights.

    So the order in which rows are given does not matter, a row twice is a row of weight two, and no row that a tree
    has left out has a twin inside.
    """
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # + 0.0: -0.0 is 0.0
    name = y.astype(np.uint64)
    for column in bits.T:
        name = (name ^ column) * np.uint64(0x9E3779B97F4A7C15)
        name ^= name >> np.uint64(29)
        name = name * np.uint64(0xBF58476D1CE4E5B9)
        name ^= name >> np.uint64(32)
    order = np.argsort(name, kind="stable")
    X, y, weight, name = X[order], y[order], weight[order], name[order]
    twin = (name[1:] == name[:-1]) & (y[1:] == y[:-1]) & (X[1:] == X[:-1]).all(axis=1)
    first = np.flatnonzero(np.concatenate([[True], ~twin]))
    return X[first], y[first], np.add.reduceat(weight, first)


def n_threads(n_jobs: int | None) -> int:
    """scikit-learn's ``n_jobs`` as a number of threads: None is 1, -1 all processors, -2 all but one."""
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: None is one thread, -1 all processors")
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    return max((os.cpu_count() or 1) + 1 + n_jobs, 1)


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> Iterator[Result]:
    """Results in the order of the items, whatever the number of threads."""
    if n_jobs == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        yield from pool.map(function, items)


def _folds(y: Integers, n_trees: int, left_out: int, rng: np.random.Generator) -> Iterator[Integers]:
    """For each tree the rows it leaves out: every ``left_out`` trees leave out every row once, classes evenly."""
    for k in range(n_trees):
        if k % left_out == 0:
            part = np.empty(len(y), np.int64)
            by_class = np.lexsort((rng.random(len(y)), y))
            part[by_class] = (np.arange(len(y)) + rng.integers(left_out)) % left_out
        yield np.flatnonzero(part == k % left_out)


@dataclass
class ClassForest:
    """Some kinds of trees (a planting and its trees), each pooled linearly and log-linearly."""

    standard: Standard
    kinds: list[tuple[Planting, list[ClassTree]]]
    unseen: Unseen
    n_classes: int

    @classmethod
    def grow(
        cls,
        data: tuple[Floats, Integers, Floats],
        n_classes: int,
        kinds: list[tuple[Planting, int]],
        left_out: int,
        seed: int,
        n_jobs: int,
        progress: Callable[[], Any] = lambda: None,
    ) -> "ClassForest":
        """Grow a forest on rows (X, y, weight) as `merge_rows` gives them; ``kinds``: plantings, and trees of each."""
        X, y, weight = data
        standard = Standard.of(X, weight)
        rows = (standard(X), y, weight)
        rng = np.random.default_rng(seed)
        jobs = [
            (kind, outside, int(rng.integers(2**62)))
            for kind, (_, n_trees) in enumerate(kinds)
            for outside in _folds(y, n_trees, left_out, rng)
        ]

        def grown(job: tuple[int, Integers, int]) -> tuple[ClassTree, Integers, Floats]:
            kind, outside, tree_seed = job
            inside = np.delete(np.arange(len(y)), outside)
            if not len(inside):  # a single row is both what there is to grow on and all there is to learn
                inside, outside = outside, inside
            return plant(rows, n_classes, inside, outside, tree_seed, kinds[kind][0])

        n_pool = min(len(y), pool_rows(n_classes))  # the order of the rows is random: the first are a sample
        pools = Pools(n_pool, n_classes, len(kinds))
        trees: list[list[ClassTree]] = [[] for _ in kinds]
        for (kind, _, _), (tree, order, psi) in zip(jobs, in_threads(grown, jobs, n_jobs)):
            trees[kind].append(tree)
            progress()
            pools.add(kind, order[order < n_pool], psi[order < n_pool])
        unseen = Unseen(len(kinds))
        unseen.add(pools.log(), y[:n_pool][pools.known], weight[:n_pool][pools.known])
        return cls(standard, [(p, t) for (p, _), t in zip(kinds, trees)], unseen, n_classes)

    @property
    def powers(self) -> Floats:
        """Of the linear and of the log-linear pool of each kind (2 * kinds,)."""
        return self.unseen.powers

    def log_proba(self, X: Floats, n_jobs: int = 1) -> Floats:
        """Log probabilities (n, C) of the classes of rows in the user's units."""
        Z = self.standard(X)

        def pooled(start: int) -> Floats:
            part = Z[start : start + CHUNK]
            pools = Pools(len(part), self.n_classes, len(self.kinds))
            for kind, (planting, trees) in enumerate(self.kinds):
                for tree in trees:
                    pools.add(kind, slice(None), tree.predict(part, planting))
            return log_softmax(pools.log() @ self.powers)

        return np.concatenate(list(in_threads(pooled, range(0, len(Z), CHUNK), n_jobs)))

    def learn(self, X: Floats, y: Integers, weight: Floats, n_jobs: int) -> None:
        """Learn rows one by one: the counts and walks of all trees, and the powers; cuts and discriminants stay.

        Each tree says what it thinks of a row before it learns it, so the rows weigh the pools as rows left out do.
        """
        rows: Rows = (self.standard(X), y, weight)
        jobs = [(kind, planting, tree) for kind, (planting, trees) in enumerate(self.kinds) for tree in trees]
        order = np.arange(len(y))
        pools = Pools(len(y), self.n_classes, len(self.kinds))
        said = in_threads(lambda job: job[2].learn(rows, order, job[1]), jobs, n_jobs)
        for (kind, _, _), psi in zip(jobs, said):
            pools.add(kind, slice(None), psi)
        self.unseen.add(pools.log(), y, weight)
