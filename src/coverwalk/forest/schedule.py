"""When the trees of a stream grow, and work on a thread of its own."""

import _thread
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from coverwalk.files.schema import Flag, Object, Real, Whole, stored
from coverwalk.forest.settings import FEW_TREES, Settings

T = TypeVar("T")

NEVER = 2**62  # rows
FIRST_CHOICE = 64  # rows at which the parts of a forest are chosen first
CHOOSE_AGAIN = 1.9  # by how much rows grow until the next choice: it is made before they have doubled
LOOK_AGAIN = 2**0.75  # by how much many rows grow until the next look at y: it is over before they have doubled
RESTARTS = (1, 2, 4, 8)  # rows at which all trees are grown
AWAITED = 256  # rows up to which a growth of one tree is awaited: a thread would take longer
AT_ONCE = 1024  # rows up to which a growth of all trees is
MAX_WAIT = 0.003  # seconds that one call waits for a growth that is not needed yet
MEAN_WAIT = 0.001  # seconds that a call is expected to, so that some are left where a growth takes longer
SLOWEST = 0.95  # the slowest growth counts less with every other


@stored()
@dataclass(frozen=True)
class StreamSettings:
    """What a stream is made of; `ConditionalDensity` documents each."""

    forest: Annotated[Settings, Object(Settings, p="p")]
    choose: Annotated[bool, Flag()] = True  # the parts of the forest, on held-out rows
    max_rows: Annotated[int, Whole(1)] = 2**17
    max_contexts: Annotated[int, Whole(1)] = 2**12
    decay: Annotated[float, Real(low=0, high=0.1)] = 0.0

    @property
    def last_choice(self) -> int:
        """Rows from which on the parts of the forest stay as they were chosen."""
        return 256 if self.forest.n_trees < FEW_TREES else 4096

    def next_choice(self, chosen_at: int) -> int:
        """Rows at which the parts of the forest are chosen again, after the choice at ``chosen_at`` rows."""
        if not self.choose or chosen_at >= self.last_choice:
            return NEVER
        growth = 4.0 if self.forest.n_trees < FEW_TREES else CHOOSE_AGAIN
        return max(math.ceil(growth * chosen_at), FIRST_CHOICE)

    def next_look(self, looked_at: int) -> int:
        """Rows at which the rounding and the scale of y are looked for again, after that at ``looked_at`` rows."""
        few = self.forest.n_trees < FEW_TREES
        if few and looked_at >= self.last_choice:
            return NEVER
        growth = 4.0 if few else LOOK_AGAIN if looked_at >= AT_ONCE else 2**0.5
        return max(math.ceil(growth * looked_at), FIRST_CHOICE)

    @property
    def plan_again(self) -> float:
        """By how much the rows must have grown since units, and the frequencies of the trend, were found."""
        return 8.0 if self.forest.n_trees < FEW_TREES else 1.0

    @property
    def window(self) -> int:
        """The last rows, from which trees are grown."""
        return min(math.ceil(1 / self.decay), self.max_rows) if self.decay else NEVER


def next_turn(n: int, n_trees: int, window: int = NEVER) -> int:
    """Rows at which the next tree's turn to grow comes, after that at n rows: each grows when its rows have doubled.

    Small sets grow more often: from 64 to 2048 rows four times, up to 8192 twice in a doubling. In a forest of few
    trees each grows when its rows have tripled, twice as often up to 512 rows. A stream that forgets has a turn as
    often as each tree has one while half of the window passes.

    >>> next_turn(100_000, 16), next_turn(1000, 16), next_turn(1000, 16, window=500)
    (104428, 1011, 1016)
    >>> next_turn(50, 16), next_turn(100, 16), next_turn(300, 3), next_turn(1000, 3)
    (53, 102, 361, 1443)
    """
    if n >= window:
        return n + max(math.ceil(0.5 * window / n_trees), 1)
    often = 1 if n < FIRST_CHOICE else 4 if n < 2048 else 2 if n < 8192 else 1
    if n_trees < FEW_TREES:
        often = 2 if 256 <= n < 512 else 1
    growth: float = (3.0 if n_trees < FEW_TREES else 2.0) ** (1 / (often * n_trees))
    return max(math.ceil(n * growth - 1e-9), n + 1)


def installed_at(begun: int, following: int, chosen: int = 0) -> int:
    """Rows at which a tree that began to grow is there: it may take most of the time to the ``following`` turn.

    chosen: from how many rows parts are chosen, or the scale of y is looked for again, if they are: that takes longer.
    """
    if begun <= (AT_ONCE if chosen else AWAITED):
        return begun
    return begun + int(chosen / 8 if chosen else min(0.9 * (following - begun), begun / 16))


class Job(Generic[T]):
    """A pure function of its own, called on a thread; its result may be asked for more than once.

    A thread does not survive a fork, or a file: `result` then does the work itself, and also where it is ``awaited``.
    """

    def __init__(self, work: Callable[[], T], *, awaited: bool = False) -> None:
        self._work = work
        self._found: list[T] = []
        self.took = 0.0  # seconds of the work, once it is done
        self._process = os.getpid()
        self._busy = _thread.allocate_lock()
        if not awaited:
            self._busy.acquire()
            # threading.Thread.start would wait until the thread runs: milliseconds where all cores are busy
            _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self._do()
        finally:
            self._busy.release()

    def _do(self) -> None:
        begin = time.perf_counter()
        found = self._work()
        self.took = time.perf_counter() - begin
        self._found.append(found)

    def wait(self, seconds: float) -> None:
        """Wait until the work is done, at most so long."""
        if self._process == os.getpid() and self._busy.acquire(timeout=seconds):
            self._busy.release()

    def result(self) -> T:
        """Wait until the work is done."""
        if self._process == os.getpid():
            with self._busy:
                pass
        if not self._found:
            self._do()
        return self._found[0]


class Pace:
    """Spreads the wait for growths: where rows come faster than trees grow, some wait a little and none for long.

    It tells from the last growths how long the next one takes. Only the clock knows of it: what is learned is the same.
    """

    def __init__(self) -> None:
        self._growth: Job[Any] | None = None
        self._rows, self._kind, self._expected = 1, "", 0.0
        self._per_row: dict[str, float] = {}  # seconds of a growth of some kind for each of its rows

    def begin(self, growth: Job[Any], n: int, kind: str) -> None:
        """A growth at n rows has begun."""
        self._growth, self._rows, self._kind = growth, n, kind
        per_row = self._per_row.get(kind, max(self._per_row.values(), default=0.0))
        self._expected = time.perf_counter() + per_row * n

    def end(self) -> None:
        """The growth is installed. Trees differ: the slowest of the last ones tells how long to expect."""
        if self._growth is not None:
            last, before = self._growth.took / self._rows, self._per_row.get(self._kind, 0.0)
            self._per_row[self._kind] = max(last, SLOWEST * before)
            self._growth = None

    def wait(self, left: int) -> None:
        """Wait a little where the rows ``left`` until the growth is needed could else not wait for all of it."""
        if self._growth is not None and self._expected - time.perf_counter() > MEAN_WAIT * left:
            self._growth.wait(MAX_WAIT)
