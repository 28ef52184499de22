"""Statistics of planned trees that add up: what a pass over chunks holds, whatever it counts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from coverwalk.forest.tree import Tree


class Arrays(Protocol):
    """Of one tree: arrays that add up."""

    @property
    def arrays(self) -> Sequence[NDArray[Any]]:
        """All of them."""
        ...


S = TypeVar("S", bound=Arrays)


@dataclass
class TreeStatistics(ABC, Generic[S]):
    """The arrays of every tree of a plan.

    There are none before the first row: an empty state is small when it travels. Two states of one plan become one
    array by array, by the functions ``joins``; one function alone is that of all arrays.
    """

    joins: ClassVar[tuple[np.ufunc, ...]] = (np.add,)

    n_rows: int = field(default=0, kw_only=True)  # that were taken in
    sums: list[S] = field(default_factory=list, kw_only=True)  # of each tree; nothing before the first row

    @property
    @abstractmethod
    def planned(self) -> list[Tree]:
        """The trees of the plan."""

    @abstractmethod
    def zeros(self, k: int) -> S:
        """The arrays of tree k without rows."""

    def empty(self) -> Self:
        """The same plan without rows."""
        return replace(self, n_rows=0, sums=[])

    @property
    def n_bytes(self) -> int:
        """The size of what travels."""
        return sum(array.nbytes for tree in self.sums for array in tree.arrays)

    def make_room(self) -> None:
        """Have arrays to add to."""
        if not self.sums:
            self.sums = [self.zeros(k) for k in range(len(self.planned))]

    def merge(self, other: Self) -> None:
        """Take in what another state of the same plan took in."""
        check_same_plan(self.planned, other.planned)
        self.n_rows += other.n_rows
        if other.sums:
            self.make_room()
        for tree, more in zip(self.sums, other.sums):
            for k, (array, another) in enumerate(zip(tree.arrays, more.arrays)):
                self.joins[k % len(self.joins)](array, another, out=array)


def check_same_plan(trees: list[Tree], others: list[Tree]) -> None:
    """ValueError where the trees are not the same."""
    if trees is not others and not (len(trees) == len(others) and all(a.same(b) for a, b in zip(trees, others))):
        raise ValueError("only states of one plan can be merged: make both with `empty` of the same state")
