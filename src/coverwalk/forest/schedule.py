"""When the trees of a stream grow, and work on a thread of its own."""

import _thread
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from coverwalk.files.schema import Flag, Object, Real, Schema, Whole
from coverwalk.forest.forest import Settings

__all__ = ["NEVER", "Job", "StreamSettings", "installed_at", "next_turn"]

T = TypeVar("T")

NEVER = 2**62  # rows
FIRST_CHOICE = 64  # rows at which the parts of a forest are chosen first
RESTARTS = (1, 2, 4, 8)  # rows at which all trees are grown
FEW_TREES = 4  # a forest of fewer is meant to be fast: it grows, plans and chooses less often
AWAITED = 256  # rows up to which a growth of one tree is awaited: a thread would take longer
AT_ONCE = 1024  # rows up to which a growth of all trees is


@dataclass(frozen=True)
class StreamSettings:
    """What a stream is made of; `ConditionalDensity` documents each."""

    forest: Settings
    choose: bool = True  # the parts of the forest, on held-out rows
    max_rows: int = 2**17
    max_contexts: int = 2**12
    decay: float = 0.0

    _schema = Schema(
        forest=Object(Settings),
        choose=Flag(),
        max_rows=Whole(1),
        max_contexts=Whole(1),
        decay=Real(low=0, high=0.1),
    )

    @property
    def last_choice(self) -> int:
        """Rows from which on the parts of the forest stay as they were chosen."""
        return 256 if self.forest.n_trees < FEW_TREES else 4096

    def next_choice(self, chosen_at: int) -> int:
        """Rows at which the parts of the forest are chosen again, after the choice at ``chosen_at`` rows."""
        if not self.choose or chosen_at >= self.last_choice:
            return NEVER
        return max((4 if self.forest.n_trees < FEW_TREES else 2) * chosen_at, FIRST_CHOICE)

    def next_look(self, looked_at: int) -> int:
        """Rows at which the rounding and the scale of y are looked for again, after that at ``looked_at`` rows."""
        few = self.forest.n_trees < FEW_TREES
        if few and looked_at >= self.last_choice:
            return NEVER
        growth = 4.0 if few else 2.0 if looked_at >= AT_ONCE else 2**0.5
        return max(math.ceil(growth * looked_at), FIRST_CHOICE)

    @property
    def plan_again(self) -> float:
        """By how much the rows must have grown since units, and the frequencies of the trend, were found."""
        return 4.0 if self.forest.n_trees < FEW_TREES else 1.0

    @property
    def window(self) -> int:
        """The last rows, from which trees are grown."""
        return min(math.ceil(1 / self.decay), self.max_rows) if self.decay else NEVER


def next_turn(n: int, n_trees: int, window: int = NEVER) -> int:
    """Rows at which the next tree's turn to grow comes, after that at n rows: each grows when its rows have doubled.

    Small sets grow more often: from 256 to 2048 rows four times, up to 8192 twice in a doubling; a forest of few trees
    twice up to 512 rows. A stream that forgets has a turn as often as each tree has one while half of the window
    passes.

    >>> next_turn(100_000, 16), next_turn(1000, 16), next_turn(1000, 16, window=500)
    (104428, 1011, 1016)
    >>> next_turn(300, 3), next_turn(1000, 3)
    (337, 1260)
    """
    if n >= window:
        return n + max(math.ceil(0.5 * window / n_trees), 1)
    often = 1 if n < 256 else 4 if n < 2048 else 2 if n < 8192 else 1
    if n_trees < FEW_TREES:
        often = 2 if 256 <= n < 512 else 1
    return max(math.ceil(n * 2 ** (1 / (often * n_trees)) - 1e-9), n + 1)


def installed_at(begun: int, following: int, looked: int = 0) -> int:
    """Rows at which a tree that began to grow is there: it may take most of the time to the ``following`` turn.

    looked: from how many rows the scale of y is looked for again, if it is, since all trees may have to grow then.
    """
    if begun <= (AT_ONCE if looked else AWAITED):
        return begun
    return begun + int(looked / 8 if looked else min(0.9 * (following - begun), begun / 16))


class Job(Generic[T]):
    """A pure function of its own, called on a thread; its result may be asked for more than once.

    A thread does not survive a fork, or a file: `result` then does the work itself, and also where it is ``awaited``.
    """

    def __init__(self, work: Callable[[], T], *, awaited: bool = False) -> None:
        self._work = work
        self._found: list[T] = []
        self._process = os.getpid()
        self._busy = _thread.allocate_lock()
        if not awaited:
            self._busy.acquire()
            # threading.Thread.start would wait until the thread runs: milliseconds where all cores are busy
            _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        finally:
            self._busy.release()

    def result(self) -> T:
        """Wait until the work is done."""
        if self._process == os.getpid():
            with self._busy:
                pass
        if not self._found:
            self._found.append(self._work())
        return self._found[0]
