"""Bayes tree density on R^q: Hutter's tree over dyadic cells, stretched to all of R^q; docs/math.md, Section 6.2."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.special import betaln

from coverwalk.base import Floats, LocalModel, Posterior, RealPosterior, as_vector
from coverwalk.files.schema import Link, Real, Schema, Scope, Table, Text, Whole, require, stored
from coverwalk.local._heavy_tails import HEAVY_TAILED

__all__ = ["TreeDensity"]

_Cell = tuple[int, int]  # depth, and the turns taken from the root as bits


@stored()
@dataclass(eq=False)
class TreeDensity(LocalModel):
    """A tree of cells: each is uniform with probability ``stop``, or else halved, with a Beta(a, a) prior.

    y is first mapped to (0, 1)^q by the cdf of a fixed heavy-tailed distribution around ``loc`` with ``scale``,
    so that every y has a positive density. Depth j halves output j mod q.

    Parameters
    ----------
    q : int
        Number of outputs.
    max_depth : int
        Cells at this depth are uniform.
    a : float
        Prior count of each half.
    stop : float
        Prior probability that a cell is uniform.
    loc, scale : float
        Expected location and scale of y, before any data.
    dist : {"student2", "flat"}
        The distribution of the map: Student's t with 2 degrees of freedom, or one that is flat within 3 scales of
        ``loc``, with the tails of that t beyond.

    Examples
    --------
    >>> density = TreeDensity().start()
    >>> for y in (0.1, 0.2, 0.15, 0.12): density.update(None, np.array([y]))
    >>> density.logpdf(None, np.array([0.14])) > density.logpdf(None, np.array([-0.14]))
    True
    """

    q: Annotated[int, Whole(1, 1000)] = 1
    max_depth: Annotated[int, Whole(0, "50 * q")] = 12
    a: Annotated[float, Real(low=1e-100, high=1e100, whole=True)] = 0.5
    stop: Annotated[float, Real(above=0, below=1)] = 0.5
    loc: Annotated[float, Real(low=-1e300, high=1e300, whole=True)] = 0.0
    scale: Annotated[float, Real(low=1e-300, high=1e300, whole=True)] = 1.0
    dist: Annotated[Literal["student2", "flat"], Text(*HEAVY_TAILED)] = "student2"

    def __post_init__(self) -> None:
        self._schema.check_parameters(vars(self))

    def start(self, parent: Posterior | None = None) -> "TreeDensityPosterior":
        """The tree of no rows. A parent changes nothing: cells must be the same for statistics to add up."""
        return TreeDensityPosterior(self)

    def check(self, x: Any, y: Any) -> tuple[Any, Floats]:
        """Q finite numbers."""
        return x, as_vector(y, "y", self.q)


def _check_cells(state: Any, scope: Scope) -> None:
    """Every row is counted in one cell of each depth, and every cell that holds one has its evidence."""
    count, deepest = state._count, scope["model"].max_depth
    for cell, n in count.items():
        require("cells", type(cell) is tuple and len(cell) == 2 and all(type(number) is int for number in cell))
        depth, turns = cell
        require("cells", 0 <= depth <= deepest and turns >= 0 and turns >> depth == 0)
        if depth < deepest:
            require("cells", sum(count.get(half, 0) for half in _halves(cell)) == n)
        require("cells", depth == 0 or (depth - 1, turns >> 1) in count)
    require("cells", state._log_split.keys() == {cell for cell in count if cell[0] < deepest})


class TreeDensityPosterior(RealPosterior):
    """How many rows lie in each cell, and each cell's evidence relative to the uniform density on it."""

    _schema = Schema(
        _model=Link(),
        _count=Table(Whole(1, 10**15), kind=Counter),
        _log_split=Table(Real()),
        _log_map=Real(),
        check=_check_cells,
    )

    def __init__(self, model: TreeDensity) -> None:
        self._model = model
        self._count: Counter[_Cell] = Counter()
        self._log_split: dict[_Cell, float] = {}  # log of (1-w) B(l+a, r+a)/B(a, a) 2^n Z_l Z_r, where n > 0
        self._log_map = 0.0  # log density of the map, summed over the rows

    def _path(self, y: Any) -> list[_Cell]:
        """The cells of y from the root to max_depth."""
        m = self._model
        u = HEAVY_TAILED[m.dist].cdf(np.atleast_1d(y), m.loc, m.scale).tolist()
        low, high = [0.0] * m.q, [1.0] * m.q
        cell = (0, 0)
        cells = [cell]
        for depth in range(m.max_depth):
            j = depth % m.q
            middle = 0.5 * (low[j] + high[j])
            right = u[j] >= middle
            (low if right else high)[j] = middle
            cell = (depth + 1, 2 * cell[1] + right)
            cells.append(cell)
        return cells

    def update(self, x: Any, y: Any) -> None:
        """Count along the path, then the evidence upwards."""
        path = self._path(y)
        self._count.update(path)
        for cell in reversed(path[:-1]):
            self._weigh(cell)
        self._log_map += self._log_map_density(y)

    def _log_map_density(self, y: Any) -> float:
        m = self._model
        return float(np.sum(HEAVY_TAILED[m.dist].logpdf(np.atleast_1d(y), m.loc, m.scale)))

    def _weigh(self, cell: _Cell) -> None:
        """Z = w + (1-w) B(l+a, r+a)/B(a, a) 2^n Z_l Z_r, of which the second part is kept."""
        m = self._model
        left, right = _halves(cell)
        counts = betaln(self._count[left] + m.a, self._count[right] + m.a) - betaln(m.a, m.a)
        halves = self._count[cell] * math.log(2) + self._log_Z(left) + self._log_Z(right)
        self._log_split[cell] = float(math.log1p(-m.stop) + counts + halves)

    def _log_Z(self, cell: _Cell) -> float:
        """Evidence of the rows in a cell relative to the uniform density on it; 1 for none and at max_depth."""
        if cell not in self._log_split:
            return 0.0
        return float(np.logaddexp(math.log(self._model.stop), self._log_split[cell]))

    def _log_stop_go(self, cell: _Cell) -> tuple[float, float]:
        """Log posterior probabilities that a cell is uniform, and that it is halved."""
        stop = self._model.stop
        if cell[0] == self._model.max_depth:
            return 0.0, -np.inf
        log_Z = self._log_Z(cell)
        return math.log(stop) - log_Z, self._log_split.get(cell, math.log1p(-stop)) - log_Z

    def _share(self, cell: _Cell, half: _Cell) -> float:
        """Posterior mean of a half's share of its cell."""
        a = self._model.a
        return (self._count[half] + a) / (self._count[cell] + 2 * a)

    def logpdf(self, x: Any, y: Any) -> float:
        """Uniform or halved, cell by cell from the finest up, times the density of the map."""
        path = self._path(y)
        log_psi = 0.0
        for cell, half in zip(reversed(path[:-1]), reversed(path[1:])):
            log_stop, log_go = self._log_stop_go(cell)
            log_psi = float(np.logaddexp(log_stop, log_go + math.log(2 * self._share(cell, half)) + log_psi))
        return log_psi + self._log_map_density(y)

    def log_evidence(self) -> float:
        """The root's Z times the map's densities."""
        return self._log_Z((0, 0)) + self._log_map

    def _cells(self) -> list[tuple[float, Floats, Floats]]:
        """The predictive as cells: mass, lower and upper corner in (0, 1)^q; uniform on each."""
        m = self._model
        cells: list[tuple[float, Floats, Floats]] = []
        stack = [((0, 0), 1.0, np.zeros(m.q), np.ones(m.q))]
        while stack:
            cell, mass, low, high = stack.pop()
            # an empty cell's prior predictive is uniform
            stop = float(np.exp(self._log_stop_go(cell)[0])) if self._count[cell] else 1.0
            cells.append((mass * stop, low, high))
            if stop == 1.0:
                continue
            j = cell[0] % m.q
            middle = 0.5 * (low[j] + high[j])
            left, right = _halves(cell)
            upper, lower = high.copy(), low.copy()
            upper[j] = lower[j] = middle
            stack.append((left, mass * (1 - stop) * self._share(cell, left), low, upper))
            stack.append((right, mass * (1 - stop) * self._share(cell, right), lower, high))
        return cells

    def cdf(self, x: Any, y: float) -> float:
        """Mass of the cells below y."""
        m = self._model
        if m.q > 1:
            raise ValueError(f"cdf is for one output, this model has q = {m.q}")
        u = HEAVY_TAILED[m.dist].cdf(np.atleast_1d(y), m.loc, m.scale)[0]
        return float(sum(p * np.clip((u - low[0]) / (high[0] - low[0]), 0.0, 1.0) for p, low, high in self._cells()))

    def mean(self, x: Any) -> Floats:
        """Cell by cell, by the integral of the map's quantile function."""
        m = self._model
        integral = HEAVY_TAILED[m.dist].ppf_integral
        total = np.zeros(m.q)
        for mass, low, high in self._cells():
            total += mass * (integral(high) - integral(low)) / (high - low)
        return m.loc + m.scale * total

    def var(self, x: Any) -> Floats:
        """Infinite: the outermost cells keep the tails of the map."""
        return np.full(self._model.q, np.inf)

    def sample(self, x: Any, rng: np.random.Generator) -> Floats:
        """Walk down the cells until one is uniform, then draw inside it."""
        m = self._model
        cell, low, high = (0, 0), np.zeros(m.q), np.ones(m.q)
        while self._count[cell] and np.log(rng.random()) >= self._log_stop_go(cell)[0]:
            left, right = _halves(cell)
            go_right = rng.random() >= self._share(cell, left)
            j = cell[0] % m.q
            (low if go_right else high)[j] = 0.5 * (low[j] + high[j])
            cell = right if go_right else left
        return HEAVY_TAILED[m.dist].ppf(rng.uniform(low, high), m.loc, m.scale)

    def merge(self, other: Self) -> None:
        """Add the counts and make the evidences again."""
        self._count.update(other._count)
        for cell in sorted(set(self._log_split) | set(other._log_split), reverse=True):  # the finest first
            self._weigh(cell)
        self._log_map += other._log_map


def _halves(cell: _Cell) -> tuple[_Cell, _Cell]:
    depth, turns = cell
    return (depth + 1, 2 * turns), (depth + 1, 2 * turns + 1)
