"""ForestStream: a forest for one output that learns row by row, and is the forest that `fit` makes.

Between growths a row updates what the contexts on its way have learned, in every tree
(`_kernels.forest.learned`), and the weights of the pool. A tree grows again, by the code that `fit` uses, when its
rows have doubled, the trees in rotation. A growth begins at one number of rows, on a thread of its own, and is
installed at a later one, whatever the clock says: what is learned never depends on time, threads or chunks.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.files.schema import Array, List, Maybe, Object, Schema, Text, Whole
from coverwalk.forest.context import Context
from coverwalk.forest.forest import Forest
from coverwalk.forest.growth import Base, Due, Growth, catch_up, categories_seen, grow, learned_since, ready
from coverwalk.forest.members import Frame, Member
from coverwalk.forest.schedule import (
    AT_ONCE,
    NEVER,
    RESTARTS,
    Job,
    Pace,
    StreamSettings,
    installed_at,
    next_turn,
)
from coverwalk.forest.settings import usual_rows
from coverwalk.forest.stored_stream import StoredMember, check_stream, restored_state, stream_state
from coverwalk.forest.tree_table import STUDENT, TreeTable

HELD_OUT = 0.25  # of the rows of a fit have weighted its pool
MAX_HELD_OUT = 500.0


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
        Which of them are categories: rows have their numbers there.

    Examples
    --------
    >>> from coverwalk.forest.settings import Settings
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 2))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(500)
    >>> stream = ForestStream(StreamSettings(Settings(n_trees=4), choose=False), 2, ["a", "b"])
    >>> log_density = stream.learn(X, y)
    >>> bool(log_density[400:].mean() > 0.5)
    True
    >>> len(stream.predict_dist(X[:3]))
    3
    """

    _schema = Schema(
        settings=Object(StreamSettings, p="p"),
        p=Whole("p", "p"),
        names=List(Text(), "p"),
        categories=List(List(Text())),
        categorical=Array(bool, "p"),
        X=Array(float, "n", "p", nan=True, any_unit=True),
        y=Array(float, "n", any_unit=True),
        learned=Array(np.int64, 1, low=0, high=10**15),
        first_row=Whole(0),
        frames=List(Object(Frame, p="p")),
        base=Maybe(Object(Base, p="p")),
        members=List(Object(StoredMember, p="p", F="len(frames)"), high=10_000),
        counts=Array(float, "len(members)", above=0),
        turn=Whole(0),
        turn_at=Whole(1),
        chosen_at=Whole(1),
        looked_at=Whole(1),
        next_event=Whole(1),
        grown_base=Maybe(Object(Base, p="p")),
        grown=List(Object(StoredMember, p="p", F="len(frames)"), high=10_000),
        check=lambda state, scope: check_stream(state),
    )

    def __init__(self, settings: StreamSettings, p: int, names: list[str], categorical: Bools | None = None) -> None:
        self.settings, self.p, self.names = settings, p, names
        self.categorical = np.zeros(p, bool) if categorical is None else categorical
        self.categories: list[list[str]] = []  # names of the categories, for people
        self.X, self.y = np.empty((0, p)), np.empty(0)  # the rows to grow from, with capacity for more
        self.filled = [0]  # rows in these arrays, which copies of the stream share until they learn other rows
        self.first_row = 0  # number of the first of them
        self.learned = np.zeros(1, np.int64)  # how many rows, where kernels count
        self.base: Base | None = None
        self.members: list[Member] = []
        self.counts = np.empty(0)  # (K,) what each tree has predicted, in rows
        self.turn, self.turn_at = 0, RESTARTS[-1]  # whose turn to grow is next, and at how many rows
        self.chosen_at = 1  # rows on which the parts of the forest were last chosen
        self.looked_at = 1  # rows on which the rounding and the scale of y were last looked for
        self.growing: Job[Growth] | None = None
        self.pace = Pace()
        self.next_event = 1

    @classmethod
    def of(cls, forest: Forest, settings: StreamSettings) -> "ForestStream":
        """Go on from a fitted forest: it predicts what the forest predicts, until the first row is learned.

        Later choices begin from the settings, and not from what was chosen for the forest.

        A forest of sums has no rows to grow from: its contexts learn, and its trees stay.
        """
        fitted, n_categories = forest.settings, forest.settings.n_categories
        given = replace(settings.forest, n_trees=fitted.n_trees, limits=fitted.limits, find_limits=fitted.find_limits)
        settings = replace(settings, forest=given)
        stream = cls(settings, forest.X.shape[1], forest.names, np.array(n_categories, bool) if n_categories else None)
        stream.categories = forest.categories
        members, base = [member.copy() for member in forest.members()], Base.of(forest)
        if forest.n_summed:
            stream._begin(base, members, forest.n_rows)
            stream.learned[0] = stream.first_row = forest.n_rows
            stream.next_event = NEVER
            return stream
        Z = forest.frame.rows(usual_rows(fitted, forest.X, forest.y)[0]).Z
        stream._begin(base, [ready(member, Z, forest.n_rows) for member in members], forest.n_rows)
        stream.chosen_at = stream.looked_at = max(forest.n_rows, 1)
        stream.learned[0] = stream.first_row = max(forest.n_rows - settings.window, 0)
        stream._keep(forest.X[stream.first_row :], forest.y[stream.first_row :])
        stream.learned[0] = forest.n_rows
        stream.next_event = stream._find_event()
        return stream

    def copy(self) -> "ForestStream":
        """A stream that learns on its own: what this one knows stays as it is."""
        other = object.__new__(ForestStream)
        other.__dict__.update(self.__dict__)
        other.counts, other.learned = self.counts.copy(), self.learned.copy()
        other.members = [member.copy() for member in self.members]
        if other.members:
            other._join(self.table.shapes)
        return other

    # -- learning -----------------------------------------------------------------------------------------------------

    def learn(self, X: Floats, y: Floats, *, scored: bool = True) -> Floats:
        """Learn rows X (n, p), y (n,) in order; returns the log density (n,) that each had just before.

        Not ``scored``: where that takes long, the log densities may be those of the trees alone.
        """
        out = np.empty(len(y))
        at = 0
        if self.growing is not None:
            self.pace.wait(self._growth_ends()[1] - self.n_rows)
        while at < len(y):
            until = min(len(y), at + self.next_event - self.n_rows)
            if self.next_event < NEVER:
                self._keep(X[at:until], y[at:until])
            if scored and self._has_experts:
                for i in range(at, until):
                    out[i] = self.predict_dist(X[i : i + 1]).logpdf(y[i : i + 1])[0]
                    self._learn(X[i : i + 1], y[i : i + 1])
            else:
                out[at:until] = self._learn(X[at:until], y[at:until])
            at = until
            while self.n_rows == self.next_event:
                self._grow()
                self.next_event = self._find_event()
        return out

    def learn_one(self, x: Floats, y: float, *, scored: bool = True) -> float:
        """Learn one row x (1, p), y; returns the log density that it had just before, as `learn` does."""
        return float(self.learn(x, np.array([y]), scored=scored)[0])

    @property
    def _has_experts(self) -> bool:
        """Whether anything but trees predicts, or y is rounded: a density is then a mass over the width of a cell."""
        if self.base is None:
            return False
        settings = self.base.settings
        return bool(self.base.global_kernel or settings.y_cells or settings.rounding)

    def _learn(self, X: Floats, y: Floats) -> Floats:
        """Learn rows between growths."""
        if self.base is None:  # the very first row
            self.learned[0] += len(y)
            log_density: Floats = PredictiveDistribution([0, 1], [1.0], [0.0], [1.0], [0], STUDENT).logpdf(y)
            return log_density
        return self._learn_after(X, y, self.learned)

    def _learn_after(self, X: Floats, y: Floats, learned: Ints) -> Floats:
        """Learn rows after so many others (1,), which are counted on. Atoms that trees do not learn have NaN."""
        assert self.base is not None
        plan = self.base.settings
        if plan.atoms is None or plan.rounding is None:
            latent = plan.rounding.latent(X, y) if plan.rounding else y
            return self.table.learn(X, latent, self.counts, learned, self.settings.decay)
        until, out, atom = int(learned[0]) + len(y), np.full(len(y), np.nan), plan.rounding.is_atom(y)
        if not atom.all():
            X, y = X[~atom], y[~atom]
            out[~atom] = self.table.learn(X, plan.rounding.latent(X, y), self.counts, learned, self.settings.decay)
        learned[0] = until
        return out

    @property
    def n_rows(self) -> int:
        """Rows learned."""
        return int(self.learned[0])

    def _keep(self, X: Floats, y: Floats) -> None:
        """Keep rows to grow from. Old arrays are never written to where a growth, or a copy, may be reading."""
        n, m = self.n_rows - self.first_row, len(y)
        if n + m > len(self.y) or self.filled[0] > n:
            gone = max(self.n_rows - 2 * self.settings.window - self.first_row, 0)
            size = max(2 * (n - gone), n - gone + m, 64)
            X_old, y_old = self.X, self.y
            self.X, self.y = np.zeros((size, self.p)), np.zeros(size)
            self.X[: n - gone], self.y[: n - gone] = X_old[gone:n], y_old[gone:n]
            self.first_row += gone
            n -= gone
            self.filled = [n]
        self.X[n : n + m], self.y[n : n + m] = X, y
        self.filled[0] = n + m

    def _kept(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Rows by their numbers."""
        first, last = first - self.first_row, last - self.first_row
        return self.X[first:last], self.y[first:last]

    # -- growths ------------------------------------------------------------------------------------------------------

    def _find_event(self) -> int:
        """Rows at which something has to be done next; the rows can go when nothing is left to grow."""
        if self.growing is not None:
            grown, installed = self._growth_ends()
            return grown if self.n_rows < grown else installed
        if self.n_rows < RESTARTS[-1]:
            return next(size for size in RESTARTS if size > self.n_rows)
        size = max(self.turn_at, self.n_rows)
        if self.settings.decay or size <= self.settings.max_rows:
            return size
        self.X, self.y = self.X[:0].copy(), self.y[:0].copy()
        return NEVER

    def _grow(self) -> None:
        """Begin a growth, or install it."""
        if self.growing is not None:
            grown, installed = self._growth_ends()
            if self.n_rows == grown < installed:
                rows = *self._kept(self.turn_at, grown), self.turn_at, self.settings.decay
                k = self.turn % len(self.members)
                self.growing = Job(partial(catch_up, self.growing, *rows, self.members, k))
            else:
                self._install(self.growing.result(), grown if grown < installed else self.turn_at)
            return
        n = self.turn_at = self.n_rows
        due = self._due(n)
        self.chosen_at = n if due.chosen else self.chosen_at
        self.looked_at = n if due.looked else self.looked_at
        self.growing = Job(self._work(n, due), awaited=self._growth_ends()[0] == n)
        self.pace.begin(self.growing, n, due.kind)

    def _due(self, n: int) -> Due:
        """What a growth at n rows has to do."""
        settings, begins = self.settings, self.turn % self.settings.forest.n_trees == 0
        if n in RESTARTS:
            return Due(whole=True, looked=settings.forest.limited)
        chosen = n >= settings.next_choice(self.chosen_at)
        if chosen and n <= AT_ONCE:
            return Due(whole=True, chosen=True, looked=True)
        return Due(fresh=begins, chosen=chosen and begins, looked=n >= settings.next_look(self.looked_at))

    def _following(self) -> int:
        """Rows at which a growth begins that follows the one at ``turn_at``."""
        return next_turn(self.turn_at, self.settings.forest.n_trees, self.settings.window)

    def _begin(self, base: Base, members: list[Member], n: int) -> None:
        """Trees that were all grown from n rows."""
        self.base, self.members, self.turn = base, members, 0
        self.turn_at = next_turn(n, len(members), self.settings.window)
        self.counts = np.full(len(members), max(min(HELD_OUT * n, MAX_HELD_OUT), 1.0) / len(members))
        self._join()

    def _seed(self, k: int) -> int:
        turn = (self.n_rows.bit_length() * 64 + self.turn) * 1024 + k
        return (self.settings.forest.seed * 2**20 + turn) % 2**62

    def _work(self, n: int, due: Due) -> Callable[[], Growth]:
        """A growth at n rows."""
        X, y = self._kept(max(n - self.settings.window, 0), n)
        given, K = self.settings.forest, self.settings.forest.n_trees
        if self.categorical.any():
            given = replace(given, n_categories=categories_seen(X, tuple(self.categorical.astype(int).tolist())))
        k, seeds = self.turn % K, [self._seed(k) for k in range(K)]
        return partial(grow, X, y, n, due, self.base, given, self.settings, self.names, k, seeds)

    def _growth_ends(self) -> tuple[int, int]:
        """Rows at which the growth is there and begins to learn the rows since, and at which it is installed."""
        long = self.turn_at in (self.looked_at, self.chosen_at)
        grown = installed_at(self.turn_at, self._following(), min(self.turn_at, self.settings.window) if long else 0)
        return grown, grown + (0 if long else (grown - self.turn_at) // 16)

    def _install(self, growth: Growth, learned: int) -> None:
        """Have what began to grow some rows ago, and has learned all rows up to ``learned``."""
        X, y = self._kept(learned, self.n_rows)
        decay = self.settings.decay
        if growth.whole:
            self._begin(growth.base, [member.copy() for member in growth.members], learned)
            self.chosen_at, self.looked_at = max(self.chosen_at, learned), max(self.looked_at, learned)
            if len(y):
                self._learn_after(X, y, np.array([learned]))
        else:
            growth = learned_since(growth, X, y, learned, decay)
            self.base, self.members = growth.base, list(self.members)
            self.members[self.turn % len(self.members)] = growth.members[0]
            self.turn, self.turn_at = self.turn + 1, self._following()
            self._join(growth.shapes)
        self.turn_at = max(self.turn_at, self.n_rows)
        self.growing = None
        self.pace.end()

    def _join(self, shapes: Shapes | None = None) -> None:
        """Put all trees in one table; shapes: theirs, where they are known."""
        assert self.base is not None
        plan, kernel = self.base.settings, self.base.global_kernel
        self.table = TreeTable(
            self.members,
            kernel,
            plan.kernel,
            plan.y_cells,
            shapes,
            outliers=plan.outliers,
            atoms=(plan.atoms, plan.rounding) if plan.atoms and plan.rounding else None,
            learns=True,
        )
        self.members = self.table.members

    # -- predictions --------------------------------------------------------------------------------------------------

    def logpdf(self, X: Floats, y: Floats) -> Floats:
        """Log densities (n,) of y (n,) given X (n, p)."""
        log_density: Floats = self.predict_dist(X).logpdf(y)
        return log_density

    def predict_dist(self, X: Floats) -> PredictiveDistribution:
        """The distributions of y in rows X (n, p)."""
        table, n_rows = self.table, self.n_rows

        def describe(label: int) -> Context | None:
            return table.describe(label, n_rows, self.names, self.categories)

        dist = table.predict_dist(X, n_rows, describe, self.counts)
        dist.rounding = self.base.settings.rounding if self.base else None
        return dist

    def mean_one(self, x: Floats) -> float:
        """The mean of y in a row x (1, p)."""
        if self.base is None:
            return float(self.predict_dist(x).mean()[0])
        rounding, table = self.base.settings.rounding, self.table
        if table.y_cells or table.global_kernel or (rounding and not rounding.is_grid):
            return float(self.predict_dist(x).mean()[0])
        grid = (rounding.origin, rounding.step) if rounding else (0.0, 0.0)
        return float(table.means(x, self.n_rows, self.counts, grid)[0])

    @property
    def n_contexts(self) -> int:
        """Contexts of all trees."""
        return sum(len(member.tree.left) for member in self.members)

    # -- files --------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return stream_state(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(restored_state(state))
        if self.members:
            self._join()
