"""Rounded y: how a model of continuous y becomes one of the values that y really takes; `find_rounding` finds it.

y rounded to steps of delta says that the truth lies in [y - delta/2, y + delta/2]. A value that repeats on its own,
like 0 in rainfall, gets a cell of its own, which is opened for it: greater y move up by the width of the cell. Models
are fitted to a *latent* y, spread evenly over its cell (of an opened cell, over its middle half). The distribution of y
is that of the latent y with the mass of each cell put on its value. Both directions are here, see `Rounding`.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.distributions.pieces import CONSTANT, LINEAR
from coverwalk._kernels.forest.row_hash import spread_on_grid
from coverwalk.files.schema import Array, Maybe, Object, Real, Whole, require, stored
from coverwalk.locks import cached
from coverwalk.preparation.bounds import Bounds
from coverwalk.preparation.row_codes import row_codes, uniform_of

MAX_DECIMALS = 12
MAX_STEPS = 1e7  # from the lowest to the highest value of a grid that is not one of decimals
MARGIN = 0.25  # of an opened cell, at either end, where no latent y lies: local models blur
_FARTHEST = 300.0  # of a latent y beside a bound: e^-300 of the way; its square, of widths beyond a limit
_SNAP = 1e-6  # of a step: y so near to a value of the grid is that value


@stored(check=lambda state, scope: _check_rounding(state))
@dataclass(frozen=True, eq=False)
class Rounding:
    """A grid, or single values with cells of their own; and the map between y and the latent y.

    Parameters
    ----------
    step, origin : float
        y lies at origin + k step; a step of 0 means no grid.
    decimals : int
        Values of the grid are rounded to so many decimals, so that 3 steps of 0.1 make 0.3; -1 for other grids.
    values : (a,) float
        Where there is no grid: values that repeat on their own, sorted.
    width : (a,) float
        Of the cell that is opened at each of them.
    low, high : float
        Limits of y, infinite where open. A latent y beyond a limit means the limit itself, if that is an atom.
    bounds : Bounds, optional
        Where a limit is no atom: the cells lie within these bounds, and the latent y is mapped to the whole line.

    Examples
    --------
    >>> tenths = Rounding(step=0.1, decimals=1)
    >>> left, right = tenths.cells(0.3)
    >>> float(left.round(9)), float(right.round(9)), float(tenths.value(0.32))
    (0.25, 0.35, 0.3)
    >>> rain = Rounding(values=np.array([0.0]), width=np.array([0.5]))
    >>> [ends.tolist() for ends in rain.cells([-1.0, 0.0, 1.0])]
    [[-1.0, 0.0, 1.5], [-1.0, 0.5, 1.5]]
    >>> rain.value([-1.0, 0.2, 1.5]).tolist()
    [-1.0, 0.0, 1.0]
    """

    step: Annotated[float, Real(low=0, any_unit=True)] = 0.0
    origin: Annotated[float, Real(any_unit=True)] = 0.0
    decimals: Annotated[int, Whole(-1, MAX_DECIMALS)] = -1
    values: Annotated[Floats, Array(float, "atoms", any_unit=True)] = field(default_factory=lambda: np.empty(0))
    width: Annotated[Floats, Array(float, "atoms", above=0, any_unit=True)] = field(default_factory=lambda: np.empty(0))
    low: Annotated[float, Real(inf=True, any_unit=True)] = -np.inf
    high: Annotated[float, Real(inf=True, any_unit=True)] = np.inf
    bounds: Annotated[Bounds | None, Maybe(Object(Bounds))] = None

    # -- from y to the latent y ---------------------------------------------------------------------------------------

    def _index(self, y: Floats) -> Floats:
        """Which step of the grid y is at; a whole number where y is on the grid."""
        z = (y - self.origin) / self.step
        near = np.rint(z)
        with np.errstate(invalid="ignore"):  # infinity less infinity
            return np.asarray(np.where(np.abs(z - near) <= _SNAP, near, z))

    @property
    def is_grid(self) -> bool:
        """Whether y lies on a grid, and nothing else is known of it."""
        return bool(self.step) and not self.limited

    def is_atom(self, y: ArrayLike) -> Bools:
        """Whether y is a value that has a mass of its own."""
        y = np.asarray(y, dtype=np.float64)
        if self.step:
            z = self._index(y)
            return np.asarray(z == np.rint(z))
        return np.isin(y, self.values)

    def cells(self, y: ArrayLike) -> tuple[Floats, Floats]:
        """Ends of the latent cells that hold y; both the same where y is continuous, infinite beyond the limits.

        On a grid a y between two values has the cell of the nearer one. The cell of an atom at a limit has no end, but
        one that is far enough.
        """
        y = np.asarray(y, dtype=np.float64)
        left, right = self._cells(y)
        if not self.limited:
            return left, right
        start, end = self._to_line(left), self._to_line(right)
        with np.errstate(invalid="ignore"):
            outside = (y < self.low) | (y > self.high)
            lowest = left < self.low if self.step else y == self.low  # a y in the cell of the limit, too
            highest = right > self.high if self.step else y == self.high
            width = np.where(np.isfinite(end - start), _FARTHEST**2 * (end - start), 0.0)
            first = np.where(np.isneginf(start), -_FARTHEST, start - width)
            last = np.where(np.isposinf(end), _FARTHEST, end + width)
        start, end = np.where(lowest & (left < right), first, start), np.where(highest & (left < right), last, end)
        return np.where(outside, np.inf, start), np.where(outside, np.inf, end)

    def log_unit(self, y: ArrayLike) -> Any:
        """What turns the mean log density over a latent cell into the log density of y.

        On a grid that is the mass of the cell over the step; at a single value the mass itself, as in the likelihood of
        hurdle and Tobit models; elsewhere the density, with the slope of the map to the whole line.
        """
        if self.step and not self.limited:
            return 0.0
        (left, right), (start, end) = self._cells(y), self.cells(y)
        slope = 0.0 if self.bounds is None else self.bounds.log_slope(left)
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.where(left < right, np.log((end - start) / (self.step or 1.0)), slope)
        return np.where(np.isfinite(start) & np.isfinite(end), unit, 0.0)

    def _cells(self, y: ArrayLike) -> tuple[Floats, Floats]:
        """Ends of the cells, before they are mapped to the whole line."""
        y = np.asarray(y, dtype=np.float64)
        if self.step:
            k = np.ceil(self._index(y) - 0.5)
            return self.origin + (k - 0.5) * self.step, self.origin + (k + 0.5) * self.step
        return self._moved(y, "left"), self._moved(y, "right")

    def _moved(self, y: Floats, side: Literal["left", "right"]) -> Floats:
        """y with the widths of all cells that are opened below it, or at it too."""
        opened = np.concatenate([[0.0], np.cumsum(self.width)])
        return np.asarray(y + opened[np.searchsorted(self.values, y, side=side)])

    def latent(self, X: Floats, y: Floats, rank: Ints | int = 0) -> Floats:
        """y (n,) spread evenly over its cells: a hash of each row X (n, p), y says where it lies.

        rank: the how-manieth of rows that are equal, which then lie apart. Neither the order of rows nor threads
        matter.
        """
        u = uniform_of(row_codes(X, y), rank)
        if self.step:
            t = np.empty(len(y))
            spread_on_grid(np.ascontiguousarray(y), u, self.origin, self.step, _SNAP, t)
        else:
            left, right = self._cells(y)
            t = left + (MARGIN + (1.0 - 2.0 * MARGIN) * u) * (right - left)
        return t if self.bounds is None else np.clip(self.bounds.forward(t), -_FARTHEST, _FARTHEST)

    def _to_line(self, t: Floats) -> Floats:
        """From between the bounds to the whole line."""
        return t if self.bounds is None else self.bounds.forward(t)

    # -- and back -----------------------------------------------------------------------------------------------------

    def value(self, latent: ArrayLike) -> Floats:
        """The y of a latent y; rising, and constant in a cell, which owns its upper end."""
        return self._limited(self._rounded(self._from_line(latent)))

    def unrounded(self, latent: ArrayLike) -> Floats:
        """The y of a latent y before it was rounded to a grid: in the units of y, within the limits."""
        t = self._from_line(latent)
        return self._limited(t if self.step else self._rounded(t))

    def _from_line(self, latent: ArrayLike) -> Floats:
        """From the whole line to between the bounds."""
        t = np.asarray(latent, dtype=np.float64)
        return t if self.bounds is None else self.bounds.backward(t)

    def _limited(self, y: Floats) -> Floats:
        return np.clip(y, self.low, self.high) if self.limited else y

    def _rounded(self, t: Floats) -> Floats:
        """The y of a t in cells, before they are mapped to the whole line."""
        if self.step:
            return self.at_steps(np.ceil((t - self.origin) / self.step - 0.5 - _SNAP))
        if not len(self.values):
            return t
        start, end = self._cells(self.values)
        below = np.searchsorted(start, t, side="right")
        last = np.maximum(below - 1, 0)
        y = t - np.concatenate([[0.0], np.cumsum(self.width)])[below]
        inside = (below > 0) & (t <= end[last] + _SNAP * self.width[last])
        return np.where(inside, self.values[last], y)

    def value_and_near(self, latent: Floats, near: float) -> tuple[Floats, Bools]:
        """On a grid: the y of a latent y, and whether that is so near, in steps, to the lower end of its cell."""
        z = (self._from_line(latent) - self.origin) / self.step
        k = np.ceil(z - (0.5 + _SNAP))
        return self._limited(self.at_steps(k)), z + (0.5 - near) < k

    def value_before(self, y: Floats) -> Floats:
        """The value of the grid before each y of it."""
        return self._rounded(y - self.step)

    def below(self, y: ArrayLike) -> Floats:
        """The latent y up to which all lies at or below y: P(Y <= y) is the latent distribution's cdf there."""
        y = np.asarray(y, dtype=np.float64)
        if self.step:
            t = np.asarray(self.origin + (np.floor(self._index(y)) + 0.5) * self.step)
        else:
            t = self._moved(y, "right")
        if not self.limited:
            return t
        return np.where(y < self.low, -np.inf, np.where(y >= self.high, np.inf, self._to_line(t)))

    @cached
    def pieces(self) -> tuple[Floats, Ints, Floats]:
        """What y is of the latent y, for kernels: edges, kinds and forms; see `_kernels.distributions.pieces`.

        Of a grid the cells of its limits are constant; between them y is taken for continuous.
        """
        values = np.array([end for end in (self.low, self.high) if np.isfinite(end)]) if self.step else self.values
        edges, forms = self.bounds.pieces() if self.bounds else ([-np.inf, np.inf], [(LINEAR, 0.0, 1.0, 0.0, 0.0)])
        start, end = self.ends(values)
        marks = np.unique(np.concatenate([edges, start, end]))
        low, high = marks[:-1], marks[1:]
        with np.errstate(invalid="ignore"):  # infinity times zero, in branches that are not taken
            near = np.where(low > -np.inf, low, np.where(high < np.inf, np.minimum(2.0 * high, -1.0), -1.0))
            middle = 0.5 * near + 0.5 * np.where(high < np.inf, high, np.maximum(2.0 * near, 1.0))
        form = np.array(forms)[np.searchsorted(edges, middle) - 1]
        kind, form = form[:, 0].astype(np.int64), form[:, 1:].copy()
        if len(values):
            opened = np.concatenate([[0.0], np.cumsum(np.zeros(len(values)) if self.step else self.width)])
            form[:, 0] -= opened[np.searchsorted(end, middle)]
            cell = np.maximum(np.searchsorted(start, middle) - 1, 0)
            inside = (start[cell] <= middle) & (middle <= end[cell])
            kind[inside], form[inside] = CONSTANT, 0.0
            form[inside, 0] = values[cell[inside]]
        return marks, kind, form

    @property
    def grid(self) -> tuple[float, float, float, float]:
        """Origin, step and limits, for kernels."""
        return float(self.origin), float(self.step), float(self.low), float(self.high)

    def between(self, low: float, high: float) -> Floats:
        """The values of the grid from low to high."""
        first, last = np.rint((low - self.origin) / self.step), np.rint((high - self.origin) / self.step)
        if not last - first < MAX_STEPS:
            raise ValueError(f"between {low:g} and {high:g} are more than {MAX_STEPS:g} steps of {self.step:g}")
        return self.at_steps(np.arange(first, last + 1))

    def within(self, low: float, high: float) -> tuple[float, float]:
        """The first and the last value of the grid between two limits, either of which may be infinite."""
        first = float(self.at_steps(np.ceil(self._index(np.array(low))))) if low > -np.inf else low
        return first, float(self.at_steps(np.floor(self._index(np.array(high))))) if high < np.inf else high

    def value_at(self, y: Floats) -> Floats:
        """The value of the grid in whose cell a y lies, within the limits."""
        return self._limited(self._rounded(y))

    def steps_of(self, latent: Floats) -> tuple[Ints, Ints]:
        """The steps of the grid at which the y of latent y lie, and how many do."""
        return np.unique(np.rint((self.value(latent) - self.origin) / self.step).astype(np.int64), return_counts=True)

    def at_steps(self, k: NDArray[Any]) -> Floats:
        """The values of the grid at these whole numbers of steps."""
        y = self.origin + k * self.step
        return np.asarray(y.round(self.decimals) if self.decimals >= 0 else y)

    def ends(self, values: Floats) -> tuple[Floats, Floats]:
        """Ends of the latent cells of these values; infinite where nothing lies beyond a limit."""
        start, end = self.cells(values)
        return np.where(values == self.low, -np.inf, start), np.where(values == self.high, np.inf, end)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "pieces"}  # worked out where needed

    # -- words --------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        parts = [f"rounded to steps of {self.step:.6g}"] if self.step else []
        parts += [self._atoms_in_words()] if len(self.values) else []
        parts += [f"at least {self.low:.6g}"] if self.low > -np.inf else []
        parts += [f"at most {self.high:.6g}"] if self.high < np.inf else []
        if self.bounds is not None and self.bounds.b:
            anchor = self.bounds.low if self.bounds.low > -np.inf else self.bounds.high
            parts += [f"on a logarithmic scale from {anchor:.6g}"]
        return ", ".join(parts)

    @property
    def limited(self) -> bool:
        """Whether y has limits, or is mapped to another scale."""
        return self.low > -np.inf or self.high < np.inf or self.bounds is not None

    def _atoms_in_words(self) -> str:
        shown = ", ".join(f"{value:.6g}" for value in self.values[:8].tolist())
        return f"continuous, with atoms at {shown}" + (", ..." if len(self.values) > 8 else "")


def _check_rounding(state: Any) -> None:
    limits = [end for end in (state.low, state.high) if np.isfinite(end)]
    one = len(state.values) == 0 if state.step else len(state.values) > 0 or limits or state.bounds is not None
    require("limits", state.low < state.high)
    if state.bounds is not None:  # a scale without bounds of its own leaves nothing but atoms at the limits
        kept = state.step > 0 or bool(np.all(np.isin(limits, state.values)))
        require("limits", kept if state.bounds.b else len(limits) > 0)
    require("rounding", bool(one) and bool(np.all(np.diff(state.values) > 0)))
