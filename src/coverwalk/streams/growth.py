"""Growing one tree of a streaming forest: when, from which rows, and on a thread of its own."""

import _thread
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.fill import fill_rows, leaf_means
from coverwalk._kernels.stream_grow import settle_tree
from coverwalk._kernels.stream_mixed import MixedState
from coverwalk._kernels.stream_state import StreamState
from coverwalk._kernels.stream_units import codes_of, in_units, pick, rows_of, units_of
from coverwalk.covers.adaptive import AdaptiveTree, grow_tree
from coverwalk.forests.scaling import Scaling

__all__ = [
    "NEVER",
    "Growth",
    "Job",
    "Place",
    "StreamSettings",
    "grow",
    "growth_size",
    "least_rows",
    "levels_seen",
    "put_units",
    "settle",
]

Floats = NDArray[np.float64]

FIRST_SIZES = (1, 2, 4)  # rows at which all trees are grown; then in rotation
ROTATION_FROM = 8
NEVER = 2**62  # rows
AT_ONCE = 1024  # rows below which a tree grows in some milliseconds: a thread would take longer
N_JUDGED = 400  # rows on which candidate cuts are judged, where a context has more


@dataclass(frozen=True)
class StreamSettings:
    """What a streaming forest is made of; `ConditionalDensity` documents each."""

    n_trees: int = 16
    degree: int = 1
    ridges: tuple[float, ...] = (0.03, 0.3, 3.0)
    stop: float = 0.5
    min_rows: int = 3
    n_candidates: int = 20
    seed: int = 0
    max_rows: int = 2**17
    max_contexts: int = 2**12
    forget: float = 0.0
    trust: float = 0.3  # share of the left-one-out evidence that the odds to stop start from

    @property
    def window(self) -> int:
        """The last rows, from which trees are grown."""
        return min(math.ceil(1 / self.forget), self.max_rows) if self.forget else NEVER


def growth_size(tree: int, generation: int, settings: StreamSettings) -> int:
    """Rows at which a tree is grown for the n-th time: doubling, the trees spread evenly between.

    A stream that forgets goes on in steps of half of the rows that it remembers.

    >>> four = StreamSettings(n_trees=4)
    >>> [growth_size(0, g, four) for g in range(6)], [growth_size(3, g, four) for g in range(6)]
    ([1, 2, 4, 8, 16, 32], [1, 2, 4, 14, 27, 54])
    >>> [growth_size(3, g, StreamSettings(n_trees=4, forget=0.05)) for g in range(7)]
    [1, 2, 4, 14, 28, 38, 48]
    """
    if generation < len(FIRST_SIZES):
        return FIRST_SIZES[generation]
    turn, generation = tree / settings.n_trees, generation - len(FIRST_SIZES)
    most = settings.window
    doublings = math.floor(math.log2(max(most / ROTATION_FROM, 1.0)) - turn) if most < NEVER else generation
    if generation <= doublings:
        return math.ceil(ROTATION_FROM * 2 ** (generation + turn))
    return math.ceil(max(most, 2 * ROTATION_FROM) * (1 + (turn + generation - doublings - 1) / 2))


def least_rows(n: int, settings: StreamSettings) -> int:
    """Rows on either side of a cut, so that a tree of n rows has no more contexts than it may."""
    return max(settings.min_rows, math.ceil(n / ((settings.max_contexts + 1) // 2)))


class Growth(NamedTuple):
    """A tree that is growing, and the numbers of rows at which it begins, learns what came meanwhile, and is there."""

    tree: int
    begun: int
    replay: int
    install: int

    @classmethod
    def at(cls, tree: int, n: int, n_trees: int, size: int | None = None) -> "Growth":
        """A growth at n rows, from the last so many: it may take most of the time to the next tree's turn.

        >>> Growth.at(3, 100_000, 16)
        Growth(tree=3, begun=100000, replay=103735, install=103984)
        """
        size = n if size is None else size
        # a stream that forgets has its trees' turns half a window over n_trees apart
        turn = 2 ** (1 / n_trees) - 1 if size == n else 0.5 / n_trees
        spare = int(size * min(0.9 * turn, 1 / 16)) if size >= AT_ONCE else 0
        # the last of these rows are learned when the tree is installed: at least one, or the others would be forgotten
        return cls(tree, n, n + spare - min(max(spare // 16, 1), spare), n + spare)


class Job:
    """Work on a thread of its own. Its result is what it writes; it may be lost, and is then done again.

    A thread does not survive a fork: `finish` then does the work itself. Where work that was begun must not be done
    twice, ``again`` is what to do instead.
    """

    def __init__(self, work: Callable[[], None], again: Callable[[], None] | None = None) -> None:
        self._work, self._again = work, again or work
        self._done, self._process = False, os.getpid()
        self._busy = _thread.allocate_lock()
        self._busy.acquire()
        # threading.Thread.start would wait until the thread runs: milliseconds where all cores are busy
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self._work()
            self._done = True
        finally:
            self._busy.release()

    def finish(self) -> None:
        """Wait until the work is done."""
        if self._process == os.getpid():
            with self._busy:
                pass
        if not self._done:
            self._again()
            self._done = True


class Place(NamedTuple):
    """Where a tree grows: a slot of the arrays of a stream."""

    state: StreamState
    masks: NDArray[np.int64]
    mixed: MixedState | None
    slot: int

    @property
    def contexts(self) -> slice:
        """The slot's rows of contexts."""
        room = len(self.state.links) // len(self.state.units)
        return slice(self.slot * room, (self.slot + 1) * room)


def settle(place: Place, tree: AdaptiveTree, Z: Floats, r: Floats, now: int, settings: StreamSettings) -> None:
    """Put a tree and its rows, in the tree's units and as its cuts read them, into a slot; now: rows that have come."""
    state, masks, mixed, slot = place
    masks[place.contexts][: len(tree.levels)] = tree.levels
    perm, layout = tree.arrange(Z)
    if mixed is not None:
        leaf, p = tree.leaves(Z), Z.shape[1]
        mean, count = np.zeros((2, len(tree.parent), p))
        leaf_means(Z, leaf, tree.parent, np.arange(p), mean, count)
        mixed.means[place.contexts][: len(mean)] = np.hstack([mean, count])
        filled = np.zeros_like(Z)
        fill_rows(Z, leaf, mean, mixed.categories, filled)
        Z = filled
    kinds = (tree.dim, tree.parent, tree.cut)
    ridges = np.array(settings.ridges)
    sorted_Z, sorted_r = np.empty(Z.shape), np.empty(len(r))
    rows_of(Z, r, perm, sorted_Z, sorted_r)
    settle_tree(state, slot, kinds, layout, sorted_Z, sorted_r, ridges, settings.stop, settings.trust, float(now))


def grow(place: Place, X: Floats, y: Floats, now: int, seed: int, settings: StreamSettings) -> None:
    """Grow a tree from rows X (n, p), y (n,) in a slot: a function of what it is given and of nothing else.

    Every long step is a kernel or a sort, and holds no lock: the thread that learns rows never waits for one.
    """
    codes = np.zeros(len(X), np.uint64)
    codes_of(X.view(np.uint64), y.view(np.uint64), codes)
    order = np.argsort(codes, kind="stable")
    Z, r = np.empty(X.shape), np.empty(len(y))
    units, mixed = place.state.units[place.slot], place.mixed
    n_levels: tuple[int, ...] = ()
    if mixed is None:
        columns, unit = np.empty((X.shape[1] + 1, len(y))), np.zeros(X.shape[1] + 1)
        pick(X, y, order, columns, unit)
        units_of(columns, unit, _ends(columns), units)
        in_units(X, y, order, units, Z, r)
    else:
        put_units(place, Scaling.of(X[order]), Scaling.of(y[order, None], squash=False))
        in_units(X, y, order, units, Z, r)
        raw = X[order]
        Z = np.where(mixed.categories | np.isnan(raw), raw, Z)
        n_levels = levels_seen(raw, mixed.categories)
    tree = grow_tree(
        Z,
        r,
        seed,
        min_rows=least_rows(len(y), settings),
        n_candidates=settings.n_candidates,
        n_judged=N_JUDGED,
        n_levels=n_levels,
    )
    settle(place, tree, Z, r, now, settings)


def levels_seen(X: Floats, categories: NDArray[np.bool_]) -> tuple[int, ...]:
    """How many levels each category needs numbers for in rows X (n, p), 0 for numbers.

    It decides nothing else: levels that no row has change no cut, so a stream need not know how many are to come.
    """
    most = np.where(np.isnan(X), 0.0, X).max(axis=0, initial=0.0)
    return tuple(np.where(categories, most + 1, 0).astype(np.int64).tolist())


def _ends(columns: Floats) -> Floats:
    """The quantiles 0.01 and 0.99 (2, p) of columns (p, n), as `numpy.quantile` in a tenth of its time.

    >>> columns = np.random.default_rng(0).standard_normal((3, 1234))
    >>> bool(np.allclose(_ends(columns), np.quantile(columns, [0.01, 0.99], axis=1), rtol=1e-14))
    True
    """
    last = columns.shape[1] - 1
    places = 0.01 * last, 0.99 * last
    below = [math.floor(place) for place in places]
    above = [min(k + 1, last) for k in below]
    ordered = np.partition(columns, sorted({*below, *above}), axis=1)
    return np.array(
        [ordered[:, k] + (place - k) * (ordered[:, j] - ordered[:, k]) for place, k, j in zip(places, below, above)]
    )


def put_units(place: Place, inputs: Scaling, output: Scaling) -> None:
    """The units of a slot's tree."""
    units = place.state.units[place.slot]
    units[0] = np.append(inputs.centre, output.centre)
    units[1] = np.append(inputs.scale, output.scale)
