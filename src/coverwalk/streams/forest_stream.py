"""ForestStream: a forest of adaptive covers for one output that learns row by row."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.polynomial import n_features
from coverwalk._kernels.stream_state import blank_state
from coverwalk._kernels.stream_walk import learn_rows
from coverwalk.streams.growth import Job, StreamSettings, grow, growth_size, spare_rows

__all__ = ["ForestStream"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OUTLIER_ROWS = 0.1  # weight, in rows, of a heavy-tailed law over all of y
MAX_TERMS = 6  # of a polynomial: a rank-one step takes the square of it


class ForestStream:
    """One output's forest on a stream."""

    def __init__(self, settings: StreamSettings, p: int) -> None:
        self.settings = settings
        self.p = p
        degree = settings.degree
        while degree > 1 and n_features(degree, p) > MAX_TERMS:
            degree -= 1
        self.degree = degree
        self.X, self.y = np.empty((64, p)), np.empty(64)
        self.n_rows = 0
        self.room, self.seats = 1, 1
        K = settings.n_trees
        self.state = blank_state(K + 1, 1, 1, p, n_features(degree, p))
        self.slots = np.arange(K)
        self.free = K
        self.generation = np.zeros(K, np.int64)
        self.pending: tuple[int, int, int, int] | None = None  # tree, rows it grows from, replay, install
        self._job: Job | None = None
        self._next = 1

    def learn(self, X: Floats, y: Floats) -> Floats:
        """Learn rows in order; their log densities just before."""
        out = np.empty(len(y))
        at = 0
        while at < len(y):
            until = min(len(y), at + self._next - self.n_rows)
            self._keep(X[at:until], y[at:until])
            learn_rows(self.state, self.slots, X, y, at, until, OUTLIER_ROWS, True, out)
            self.n_rows += until - at
            at = until
            if self.n_rows == self._next:
                self._grow_on()
        return out

    def ask(self, X: Floats, y: Floats) -> Floats:
        out = np.empty(len(y))
        learn_rows(self.state, self.slots, X, y, 0, len(y), OUTLIER_ROWS, False, out)
        return out

    def _keep(self, X: Floats, y: Floats) -> None:
        n = self.n_rows
        if n >= self.settings.max_rows:
            return
        m = min(len(y), self.settings.max_rows - n)
        if n + m > len(self.y):
            size = min(max(2 * len(self.y), n + m), self.settings.max_rows)
            X_old, y_old = self.X, self.y
            self.X, self.y = np.empty((size, self.p)), np.empty(size)
            self.X[:n], self.y[:n] = X_old[:n], y_old[:n]
        self.X[n : n + m], self.y[n : n + m] = X[:m], y[:m]

    def _grow_on(self) -> None:
        while self.n_rows == self._next:
            if self.pending is None:
                self._begin()
            elif self.n_rows < self.pending[3]:
                self._replay()
            else:
                self._install()
            self._next = self._next_event()

    def _sizes(self) -> Ints:
        K = self.settings.n_trees
        return np.array([growth_size(k, K, int(g)) for k, g in enumerate(self.generation)])

    def _next_event(self) -> int:
        if self.pending is not None:
            _, _, replay, install = self.pending
            return replay if replay > self.n_rows else install
        size = max(int(self._sizes().min()), self.n_rows)
        return size if size <= self.settings.max_rows else 2**62

    def _begin(self) -> None:
        sizes = self._sizes()
        tree = int(np.argmin(sizes))
        n, K = self.n_rows, self.settings.n_trees
        spare = spare_rows(n, K)
        self._enlarge(n)
        seed = (self.settings.seed * 2**20 + int(self.generation[tree]) * K + tree) % 2**62
        self.generation[tree] += 1
        state, slot, X, y, settings = self.state, self.free, self.X[:n], self.y[:n], self.settings

        def work() -> None:
            grow(state, slot, X, y, seed, settings)

        if spare == 0:
            work()
            self._swap(tree)
            return
        self.pending = (tree, n, n + spare - spare // 16, n + spare)
        self._job = Job(work)

    def _replay(self) -> None:
        pass

    def _install(self) -> None:
        tree, n, _, install = self.pending
        self._job.finish()
        X, y = self.X[n:install], self.y[n:install]
        learn_rows(self.state, np.array([self.free]), X, y, 0, len(y), OUTLIER_ROWS, True, np.empty(len(y)))
        self._swap(tree)
        self.pending, self._job = None, None

    def _swap(self, tree: int) -> None:
        self.slots[tree], self.free = self.free, self.slots[tree]

    def _enlarge(self, n: int) -> None:
        settings = self.settings
        min_rows = max(settings.min_rows, math.ceil(n / ((settings.max_contexts + 1) // 2)))
        need = 2 * (n // min_rows) + 1
        seats = min(need, max(16, n // 16))
        if need <= self.room and seats <= self.seats:
            return
        room = self.room if need <= self.room else min(2 * need, max(settings.max_contexts, need))
        seats = self.seats if seats <= self.seats else 2 * seats
        S = settings.n_trees + 1
        new = blank_state(S, room, seats, self.p, n_features(self.degree, self.p))
        for old, fresh in zip(self.state, new):
            each = len(old) // S
            old, fresh = (a.reshape(S, -1, *a.shape[1:]) for a in (old, fresh))
            fresh[:, :each] = old
        self.state, self.room, self.seats = new, room, seats
