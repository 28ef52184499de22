"""When the trees of a stream grow, and work on a thread of its own."""

import _thread
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from coverwalk.forests.forest import Settings

__all__ = ["NEVER", "Job", "Schedule", "StreamSettings"]

T = TypeVar("T")

NEVER = 2**62  # rows
RESTARTS = (1, 2, 4, 8)  # rows at which all trees are grown
AT_ONCE = 1024  # rows up to which a growth is awaited: a thread would take longer


@dataclass(frozen=True)
class StreamSettings:
    """What a stream is made of; `ConditionalDensity` documents each."""

    forest: Settings
    choose: bool = True  # the parts of the forest, on held-out rows
    max_rows: int = 2**17
    max_contexts: int = 2**12
    decay: float = 0.0

    @property
    def window(self) -> int:
        """The last rows, from which trees are grown."""
        return min(math.ceil(1 / self.decay), self.max_rows) if self.decay else NEVER


@dataclass(frozen=True)
class Schedule:
    """Rows at which trees grow: one after the other, each when its rows have doubled.

    Parameters
    ----------
    n_trees : int
        How many take turns.
    base : int
        Rows from which all trees were grown together.
    window : int
        Rows that are remembered: from there on, a turn comes as often as half of them have passed.

    Examples
    --------
    >>> [Schedule(4, 8).size(turn) for turn in range(8)]
    [10, 12, 14, 16, 20, 23, 27, 32]
    >>> [Schedule(4, 8, window=16).size(turn) for turn in range(8)]
    [10, 12, 14, 16, 18, 20, 22, 24]
    """

    n_trees: int
    base: int
    window: int = NEVER

    def size(self, turn: int) -> int:
        """Rows at which a turn comes; tree ``turn % n_trees`` has it."""
        doubled = self.base * 2 ** ((turn + 1) / self.n_trees)
        if doubled <= self.window:
            return math.ceil(doubled - 1e-9)
        turns = max(math.floor(math.log2(self.window / self.base) * self.n_trees + 1e-9), 0)
        start = max(self.window, self.base)
        return math.ceil(start + 0.5 * start * (turn + 1 - turns) / self.n_trees - 1e-9)

    def install(self, turn: int) -> int:
        """Rows at which the tree that grew is there: it may take most of the time to the next turn."""
        begun = self.size(turn)
        spare = min(0.9 * (self.size(turn + 1) - begun), begun / 16)
        return begun + (int(spare) if begun > AT_ONCE else 0)


class Job(Generic[T]):
    """A pure function of its own, called on a thread; its result may be asked for more than once.

    A thread does not survive a fork, or a file: `result` then does the work itself.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: list[T] = []
        self._process = os.getpid()
        self._busy = _thread.allocate_lock()
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
