"""ForestStream: a forest of adaptive covers for one output that learns row by row.

Between growths a row updates the statistics of the contexts on its way, in every tree. A tree is grown again when its
rows have doubled, the trees in rotation. A growth begins at one number of rows, on a thread of its own, and is
installed at a later one, whatever the clock says: what is learned never depends on time, threads or chunks.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.polynomial import n_features
from coverwalk._kernels.stream_mixed import MixedState
from coverwalk._kernels.stream_state import LEFT, NU, NU_0, SEAT, TERMS, StreamState, blank_state, degree_of
from coverwalk._kernels.stream_voices import mean_of, means_of
from coverwalk._kernels.stream_walk import learn_row, learn_rows
from coverwalk.covers.adaptive import grow_tree
from coverwalk.distribution import PredictiveDistribution
from coverwalk.forests.forest import Context, Forest, routed
from coverwalk.forests.scaling import Scaling, canonical_order
from coverwalk.streams import stream_distribution as answers
from coverwalk.streams.growth import (
    NEVER,
    Growth,
    Job,
    Place,
    StreamSettings,
    grow,
    growth_size,
    least_rows,
    put_units,
    settle,
)

__all__ = ["ForestStream"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALL = 128  # contexts of a tree
RESERVED = 2**28  # bytes up to which larger trees have the room they may come to need at once
MAX_TERMS = 6  # of a polynomial of degree two: a rank-one step takes the square of it


class ForestStream:
    """One output's forest on a stream; rows come checked, as contiguous arrays of numbers, NaN for missing values.

    Parameters
    ----------
    settings : StreamSettings
        What it is made of.
    p : int
        Number of inputs.
    names : list of str
        Their names.
    categories : array of bool, optional
        Which of them are categories: rows have the numbers of their levels there.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 2))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(500)
    >>> stream = ForestStream(StreamSettings(n_trees=4), 2, ["a", "b"])
    >>> log_density = stream.learn(X, y)
    >>> bool(log_density[400:].mean() > 0.5)
    True
    >>> stream.predict_dist(X[:3])
    PredictiveDistribution(3 rows, ... components per row)
    """

    def __init__(
        self, settings: StreamSettings, p: int, names: list[str], categories: NDArray[np.bool_] | None = None
    ) -> None:
        self.settings, self.p, self.names = settings, p, names
        self.categories = np.zeros(p, bool) if categories is None else categories
        self.levels: list[list[str]] = []  # their names, for people
        degree = settings.degree
        while degree > 1 and n_features(degree, p) > MAX_TERMS:
            degree -= 1
        self.degree = degree
        self.X, self.y = np.empty((0, p)), np.empty(0)  # the rows to grow from, with room for more
        self.kept_from = 0  # number of the first of them
        self.n_rows, self.n_growths = 0, 0
        K = settings.n_trees
        self.slots, self.free = np.arange(K), K  # where each tree lives, and where the next one grows
        self.generation = np.zeros(K, np.int64)
        self.pending: Growth | None = None
        self.room, self.seats = 1, 1
        self.state = blank_state(K + 1, 1, 1, p, n_features(degree, p))
        self.masks = np.zeros(K + 1, np.int64)  # of the cuts of all contexts
        self.means = np.empty((0, 2 * p))  # of the inputs in all contexts; none as long as nothing was missing
        self.next_event = 1
        self._job: Job | None = None
        if self.categories.any():
            self._take_gaps()

    @classmethod
    def of(cls, forest: Forest, settings: StreamSettings) -> "ForestStream":
        """Go on from a fitted forest: its units, rows and trees; those that start from a trend are grown from y."""
        n_levels = forest.settings.n_levels
        stream = cls(settings, forest.X.shape[1], forest.names, np.array(n_levels, bool) if n_levels else None)
        stream.levels = forest.levels
        if np.isnan(forest.X).any():
            stream._take_gaps()
        n = len(forest.y)
        Z, r = routed(forest.inputs, forest.X, forest.settings), forest.output.forward(forest.y[:, None])[:, 0]
        order, least = canonical_order(forest.X, forest.y), least_rows(n, settings)
        parts, trees = forest.settings.part_of_trees(), list(forest.trees)
        for k, part in enumerate(parts):
            if part.smooth:
                trees[k] = grow_tree(
                    Z[order], r[order], k, min_rows=least, n_candidates=settings.n_candidates, n_levels=n_levels
                )
        stream._make_room(max(len(tree.dim) for tree in trees))
        for slot, (tree, part) in enumerate(zip(trees, parts)):
            place = stream._place(slot)
            put_units(place, forest.inputs, forest.output)
            settle(place, tree, Z, r, n, replace(settings, stop=part.stop))
        if n <= settings.max_rows or settings.forget:
            kept = slice(max(n - settings.window, 0), n)
            stream.n_rows = stream.kept_from = kept.start
            stream._keep(forest.X[kept], forest.y[kept])
        stream.n_rows = n
        while (behind := stream._sizes() <= n).any():
            stream.generation[behind] += 1
        stream.next_event = stream._find_event()
        return stream

    # -- learning -----------------------------------------------------------------------------------------------------

    def learn(self, X: Floats, y: Floats) -> Floats:
        """Learn rows X (n, p), y (n,) in order; returns the log density (n,) that each had just before."""
        out = np.empty(len(y))
        at = 0
        while at < len(y):
            until = min(len(y), at + self.next_event - self.n_rows)
            if self.next_event < NEVER:
                self._keep(X[at:until], y[at:until])
            now, forget = self.n_rows, self.settings.forget
            done = learn_rows(self.state, self.mixed, self.slots, X, y, at, until, now, forget, True, out)
            if done < until:
                self._take_gaps()
                now += done - at
                learn_rows(self.state, self.mixed, self.slots, X, y, done, until, now, forget, True, out)
            self.n_rows += until - at
            at = until
            while self.n_rows == self.next_event:
                self._grow_on()
                self.next_event = self._find_event()
        return out

    def learn_one(self, x: Floats, y: float) -> float:
        """Learn one row x (1, p), y; returns the log density that it had just before. The same as `learn`, sooner."""
        n = self.n_rows - self.kept_from
        kept = self.next_event < NEVER
        if self.n_rows + 1 >= self.next_event or (kept and n >= len(self.y)):  # there is more to do than to learn it
            return float(self.learn(x, np.array([y]))[0])
        if kept:
            self.X[n], self.y[n] = x, y
        log_density: float = learn_row(*self.state, self.mixed, self.slots, x, y, self.n_rows, self.settings.forget)
        if log_density != log_density:  # the first gap of all
            return float(self.learn(x, np.array([y]))[0])
        self.n_rows += 1
        return log_density

    @property
    def mixed(self) -> MixedState | None:
        """What there is beside the state as soon as a value was missing, or there are categories."""
        return MixedState(self.masks, self.means, self.categories) if len(self.means) else None

    def _take_gaps(self) -> None:
        """Make ready for missing values: from here on, at this row, the means of all inputs are kept."""
        self._finish_job()  # it grows in arrays of numbers alone
        self.means = np.zeros((len(self.masks), 2 * self.p))

    def _place(self, slot: int) -> Place:
        return Place(self.state, self.masks, self.mixed, slot)

    def _keep(self, X: Floats, y: Floats) -> None:
        """Keep rows to grow from. Old arrays are never written to where a growth may be reading."""
        n, m = self.n_rows - self.kept_from, len(y)
        if n + m > len(self.y):
            needed = self.n_rows if self.pending is None else self.pending.begun
            gone = max(needed - self.settings.window - self.kept_from, 0)
            size = max(2 * (n - gone), n - gone + m, 64)
            X_old, y_old = self.X, self.y
            self.X, self.y = np.zeros((size, self.p)), np.zeros(size)
            self.X[: n - gone], self.y[: n - gone] = X_old[gone:n], y_old[gone:n]
            self.kept_from += gone
            n -= gone
        self.X[n : n + m], self.y[n : n + m] = X, y

    def _kept(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Rows by their numbers."""
        first, last = first - self.kept_from, last - self.kept_from
        return self.X[first:last], self.y[first:last]

    def _sizes(self) -> Ints:
        """Rows at which each tree's next growth begins."""
        return np.array([growth_size(k, int(g), self.settings) for k, g in enumerate(self.generation)])

    def _find_event(self) -> int:
        """The number of rows at which something has to be done next; the rows can go when nothing is left to grow."""
        if self.pending is not None:
            return self.pending.replay if self.pending.replay > self.n_rows else self.pending.install
        size = max(int(self._sizes().min()), self.n_rows)
        if self.settings.forget or Growth.at(0, size, self.settings.n_trees).install <= self.settings.max_rows:
            return size
        self.X, self.y = self.X[:0].copy(), self.y[:0].copy()
        return NEVER

    def _grow_on(self) -> None:
        """Begin a growth, have it learn the rows that came meanwhile, or install it."""
        if self.pending is None:
            self._begin(int(np.argmin(self._sizes())))
            return
        self._finish_job()
        begun, replay, install = self.pending.begun, self.pending.replay, self.pending.install
        if self.n_rows < install:
            growing, replaying = self._growing(self.pending), self._replay(begun, replay)

            def again() -> None:  # rows that were half learned would be learned twice
                growing()
                replaying()

            self._job = Job(replaying, again)
        else:
            self._replay(replay, install)()
            self._install(self.pending.tree)

    def _begin(self, tree: int) -> None:
        settings = self.settings
        n = min(self.n_rows, settings.window)
        self._make_room(2 * (n // least_rows(n, settings)) + 1)
        self.generation[tree] += 1
        self.pending = Growth.at(tree, self.n_rows, settings.n_trees, n)
        growing = self._growing(self.pending)
        if self.pending.install == self.n_rows:
            growing()
            self._install(tree)
        else:
            self._job = Job(growing)

    def _growing(self, growth: Growth) -> Callable[[], None]:
        """The rows from which a tree grows, to be settled in the free slot."""
        settings, tree, n = self.settings, growth.tree, growth.begun
        X, y = self._kept(max(n - settings.window, 0), n)
        turn = (int(self.generation[tree]) - 1) * settings.n_trees + tree
        return partial(grow, self._place(self.free), X, y, n, (settings.seed * 2**20 + turn) % 2**62, settings)

    def _replay(self, first: int, last: int) -> Callable[[], None]:
        """Kept rows first:last, to be learned by the new tree."""
        X, y = self._kept(first, last)
        slots, out = np.array([self.free]), np.empty(len(y))
        return partial(
            learn_rows, self.state, self.mixed, slots, X, y, 0, len(y), first, self.settings.forget, True, out
        )

    def _install(self, tree: int) -> None:
        self.slots[tree], self.free = self.free, int(self.slots[tree])
        self.pending = None
        self.n_growths += 1

    def _finish_job(self) -> None:
        if self._job is not None:
            self._job.finish()
            self._job = None

    def _make_room(self, contexts: int) -> None:
        """Room for a tree of so many contexts in every slot.

        Past SMALL contexts, where it fits RESERVED, for the largest tree at once: memory is taken from the system as
        it is written to, and rows do not have to wait again and again until all trees have moved.
        """
        if contexts <= min(self.room, self.seats):
            return
        settings = self.settings
        bytes_each = sum(table.itemsize * table.shape[1] for table in self.state[:3])
        fits = RESERVED // ((settings.n_trees + 1) * bytes_each) if contexts > SMALL else 0
        room = max(contexts, min(settings.max_contexts + 2, max(fits, 2 * contexts)))
        self.masks, self.means = self._moved_gaps(room)
        self.state, self.room, self.seats = self._moved(room, room), room, room

    def _moved(self, room: int, seats: int) -> StreamState:
        """The state in arrays of another size."""
        S = self.settings.n_trees + 1
        state = blank_state(S, room, seats, self.p, n_features(self.degree, self.p))
        for old, new in zip(self.state, state):
            was, fresh = (array.reshape(S, -1, *array.shape[1:]) for array in (old, new))
            used = min(was.shape[1], fresh.shape[1])
            fresh[:, :used] = was[:, :used]
        return state

    def _moved_gaps(self, room: int) -> tuple[Ints, Floats]:
        """The masks and means in arrays of another size."""
        masks = np.zeros((len(self.slots) + 1, room), np.int64)
        used = min(room, self.room)
        masks[:, :used] = self.masks.reshape(-1, self.room)[:, :used]
        if not len(self.means):
            return masks.ravel(), self.means
        means = np.zeros((*masks.shape, 2 * self.p))
        means[:, :used] = self.means.reshape(-1, self.room, 2 * self.p)[:, :used]
        return masks.ravel(), means.reshape(-1, 2 * self.p)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _for_gaps(self) -> MixedState:
        """To be asked about missing values where none was missing so far: those see the inputs' centres."""
        return MixedState(self.masks, np.zeros((len(self.masks), 2 * self.p)), self.categories)

    def logpdf(self, X: Floats, y: Floats) -> Floats:
        """Log densities (n,) of y (n,) given X (n, p)."""
        out = np.empty(len(y))
        done = learn_rows(self.state, self.mixed, self.slots, X, y, 0, len(y), self.n_rows, 0.0, False, out)
        if done < len(y):
            learn_rows(self.state, self._for_gaps(), self.slots, X, y, done, len(y), self.n_rows, 0.0, False, out)
        return out

    def predict_dist(self, X: Floats) -> PredictiveDistribution:
        """The laws of y in rows X (n, p)."""
        describe = partial(self.describe, self.n_growths)
        law = answers.predict_dist(self.state, self.mixed, self.slots, X, describe)
        if law is None:
            law = answers.predict_dist(self.state, self._for_gaps(), self.slots, X, describe)
        assert law is not None
        return law

    def predict_mean(self, X: Floats) -> Floats:
        """The means (n,) of y in rows X (n, p)."""
        means = np.zeros(len(X))
        if not means_of(self.state, self.mixed, self.slots, X, means):
            means_of(self.state, self._for_gaps(), self.slots, X, means)
        return means

    def predict_mean_one(self, x: Floats) -> float:
        """The mean of y in one row x (1, p)."""
        mean: float = mean_of(*self.state, self.mixed, self.slots, x)
        return mean if mean == mean else float(self.predict_mean(x)[0])

    def describe(self, n_growths: int, label: int) -> Context | None:
        """What a context is, in the units and names of the inputs; None for the law of outliers."""
        if label < 0:
            return None
        if n_growths != self.n_growths:
            raise ValueError("the forest has grown since this distribution was asked for: ask again")
        slot, k = divmod(label, self.room)
        units = Scaling(*self.state.units[slot, :, :-1])
        cover = answers.tree_of(self.state, self.masks, slot)
        box: dict[str, tuple[float, float] | list[str]] = {
            self.names[a]: (float(units.backward(low, a)), float(units.backward(high, a)))
            for a, (low, high) in cover.box(k).items()
        }
        for a, mask in cover.level_sets(k).items():
            box[self.names[a]] = [level for i, level in enumerate(self.levels[a]) if mask >> i & 1]
        tree = int(np.flatnonzero(self.slots == slot)[0])
        rows, terms = self.state.contexts[label, NU] - NU_0, int(self.state.links[label, TERMS])
        return Context(tree, k, round(rows), int(degree_of(terms, self.p)), box)

    @property
    def n_contexts(self) -> int:
        """Contexts of all trees."""
        left = self.state.links[:, LEFT].reshape(-1, self.room)[self.slots]
        return int(2 * (left >= 0).sum() + len(left))

    # -- files --------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        self._finish_job()  # what a growth will have written does not depend on when
        left, seat = self.state.links[:, [LEFT, SEAT]].max(axis=0).tolist()
        room, seats = min(left + 2, self.room), min(max(seat, 0) + 1, self.seats)  # the rest is empty
        masks, means = self._moved_gaps(room)
        moved = {"state": self._moved(room, seats), "masks": masks, "means": means, "room": room, "seats": seats}
        return {**self.__dict__, "_job": None, **moved}

    def _check_loaded(self) -> None:
        """Refuse a file whose arrays could lead a kernel astray."""
        from coverwalk.streams.soundness import check_stream

        check_stream(self)
