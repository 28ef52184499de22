"""Units: columns of any scale become numbers of order one, by a strictly rising map that tames heavy tails."""

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk._kernels.distributions.real_line import CORE
from coverwalk._kernels.forest.scaling import frame_rows, scale_rows
from coverwalk.files.schema import Array, Flag, stored

_BULK = 4.0  # deviations up to which the map is linear; logarithmic beyond
_SPIKE = 16.0  # the scale is never less than the standard deviation over this: columns that are mostly one value
_OUTLYING = 16.0  # robust deviations beyond which a range is taken for outliers: the bulk keeps 1/16 of the cells
_QUARTILES = 1.349  # interquartile range of a normal distribution, in standard deviations
_TINY = float(np.finfo(np.float64).tiny)


class ScaledRows(NamedTuple):
    """Rows in units of order one."""

    Z: Floats  # (n, p) as splits read them: categories keep their numbers
    plain: Floats  # (n, p) without missing values and categories

    def some(self, rows: slice) -> "ScaledRows":
        """Some of them."""
        return ScaledRows(self.Z[rows], self.plain[rows])


@stored()
@dataclass(frozen=True)
class Scaling:
    """x -> z = (x - centre) / scale, and beyond four of its units sign(z) (4 + log(|z| - 3)).

    Examples
    --------
    >>> scaling = Scaling.of(np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [1e6]]))
    >>> z = scaling.forward(np.array([[2.5], [1e300]]))
    >>> bool(abs(z[0, 0]) < 1 and z[1, 0] < 1000)
    True
    >>> scaling.backward(z[:, 0], 0)
    array([2.5e+000, 1.0e+300])
    """

    centre: Annotated[Floats, Array(float, "p", any_unit=True)]
    scale: Annotated[Floats, Array(float, "p", above=0, any_unit=True, inf=True)]  # infinite: zero everywhere
    squash: Annotated[bool, Flag()] = True

    @classmethod
    def of(cls, X: Floats, *, squash: bool = True) -> "Scaling":
        """From rows X (n, p); a constant column has scale one. Missing values (NaN) are passed over."""
        if np.isnan(X).any():
            present = [column[~np.isnan(column)] for column in X.T]
            parts = [cls.of(column[:, None] if len(column) else np.zeros((1, 1))) for column in present]
            centre, scale = (np.concatenate([getattr(part, name) for part in parts]) for name in ("centre", "scale"))
            return cls(centre, scale, squash)
        unit = np.abs(X).max(axis=0, initial=0.0)
        unit[unit == 0] = 1.0
        Z = X / unit  # so that no square overflows or vanishes
        bulk = np.clip(Z, *np.quantile(Z, [0.01, 0.99], axis=0))
        deviation = Z.std(axis=0)
        scale = np.maximum(bulk.std(axis=0), deviation / _SPIKE)
        scale = np.where(deviation > 1e-14, scale, 1.0) * unit
        return cls(bulk.mean(axis=0) * unit, np.maximum(scale, _TINY), squash)

    def without(self, columns: tuple[int, ...]) -> "Scaling":
        """The same, but for columns that are zero everywhere, categories and missing values too."""
        scale = self.scale.copy()
        scale[list(columns)] = np.inf
        return replace(self, scale=scale)

    def forward(self, X: Floats) -> Floats:
        """To units of order one."""
        Z = np.empty(X.shape)
        X = np.require(X, np.float64, ["C", "W"])  # a kernel for each kind of array would have to be compiled
        scale_rows(X, self.centre, self.scale, self.squash, Z)
        return Z

    def rows(self, X: Floats, n_categories: tuple[int, ...]) -> ScaledRows:
        """Rows X (n, p) with their missing values and categories, and without: one array where there are none.

        n_categories: of each column, 0 for numbers; empty where all are numbers.
        """
        Z = np.empty(X.shape)
        plain = np.empty(X.shape) if n_categories or np.isnan(X).any() else Z
        category = np.array(n_categories, np.int64) if n_categories else np.zeros(X.shape[1], np.int64)
        X = np.require(X, np.float64, ["C", "W"])  # as in `forward`
        frame_rows(X, self.centre, self.scale, category, Z, plain)
        return ScaledRows(Z, plain)

    def backward(self, z: ArrayLike, column: int | slice = slice(None)) -> Floats:
        """From units of order one to those of a column, or of all."""
        z = np.array(z, dtype=np.float64)
        if self.squash:
            far = np.isfinite(z) & (np.abs(z) > _BULK)
            z[far] = np.sign(z[far]) * (_BULK - 1 + np.exp(np.abs(z[far]) - _BULK))
        with np.errstate(over="ignore"):
            return np.asarray(self.centre[column] + self.scale[column] * z)

    @property
    def log_scale(self) -> float:
        """What a log density in units of order one exceeds that in the columns' own by, where nothing is squashed."""
        return float(np.log(self.scale).sum())

    def bound(self, split: float, column: int) -> float:
        """A split of a column in its own units: of the floats about it the largest that a tree sends left.

        >>> X = np.array([[0.1], [0.2], [0.7]])
        >>> scaling = Scaling.of(X)
        >>> [scaling.bound(float(z), 0) for z in scaling.forward(X)[:, 0]]
        [0.1..., 0.2..., 0.7...]
        """
        if np.isinf(split):
            return split
        x = self.backward(split, column)
        near = x + np.spacing(x) * np.arange(-8.0, 9.0)
        one = Scaling(self.centre[[column]], self.scale[[column]], self.squash)
        left = near[one.forward(near[:, None])[:, 0] <= split]
        return float(left.max() if len(left) else x)


def units_of(Y: Floats) -> Scaling:
    """Units in which the range of the rows Y (n, q), and a little more, is the core [-CORE, CORE] of the cells.

    The range grows by 1/n of itself, what one more row is expected to add to a uniform sample. A column far wider than
    its quartiles is centred on its median instead; a constant column takes 1/n of its own size for its scale.

    >>> units_of(np.array([[0.0], [6.0], [3.0], [2.0]])).scale
    array([1.25])
    """
    n = len(Y)
    if n == 0:
        return Scaling(np.zeros(Y.shape[1]), np.ones(Y.shape[1]), squash=False)
    ranked = np.sort(Y, axis=0)
    low, middle, high = ranked[0], ranked[n // 2], ranked[-1]
    with np.errstate(over="ignore"):
        half = (0.5 * high - 0.5 * low) * (1.0 + 1.0 / n)
        bulk = (0.5 * ranked[(3 * n) // 4] - 0.5 * ranked[n // 4]) * (2.0 * _OUTLYING / _QUARTILES)
        outlying = (bulk > 0) & (half > bulk)
        half = np.minimum(np.where(outlying, bulk, half), np.finfo(np.float64).max)
    loc = np.where(outlying, middle, 0.5 * low + 0.5 * high)
    constant = half == 0
    scale = np.where(constant, np.where(loc == 0, 1.0, np.abs(loc)) / n, half / CORE)
    return Scaling(loc, np.maximum(scale, _TINY), squash=False)
