"""What any model should beat: one normal for all rows, and a straight line with normal noise."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes


def normals(loc: ArrayLike, scale: ArrayLike) -> PredictiveDistribution:
    """A normal distribution for each row, with these means and standard deviations (n,).

    >>> normals([0, 5], 2).mean()
    array([0., 5.])
    """
    n = np.size(loc)
    scale = np.full(n, scale, np.float64)
    return PredictiveDistribution(np.arange(n + 1), np.ones(n), loc, scale, np.zeros(n), Shapes.student(np.inf))


class RowScores(NamedTuple):
    """Of one output in each row, (n,) each: the scores of its prediction."""

    log_density: Floats
    crps: Floats
    error: Floats  # of the mean
    inside: Bools  # whether the central interval has y


@dataclass(frozen=True)
class Line:
    """Least squares on columns of order one, with normal noise of one standard deviation; without columns, one normal.

    Missing values are replaced by the mean of their column.

    Examples
    --------
    >>> X = np.arange(5.0)[:, None]
    >>> line = Line.fit(X, 2 * X[:, 0] + 1 + np.array([0.1, -0.1, 0.0, -0.1, 0.1]))
    >>> line.mean(np.array([[10.0]])).round(6).tolist(), round(line.std, 4)
    ([21.0], 0.1155)
    """

    columns: Ints  # of X that are used
    centre: Floats
    scale: Floats
    coefficients: Floats
    std: float

    @classmethod
    def fit(cls, X: Floats, y: Floats, columns: Ints | None = None) -> Self:
        """To some columns of rows X (n, p), by default all, and y (n,); variance over the degrees of freedom left."""
        columns = np.arange(X.shape[1]) if columns is None else columns
        used, known = X[:, columns], ~np.isnan(X[:, columns])
        centre = np.where(known, used, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        scale = np.where(known, used, centre).std(axis=0)
        scale[scale == 0] = 1.0
        F = np.column_stack([np.ones(len(y)), np.where(known, (used - centre) / scale, 0.0)])
        coefficients, _, rank, _ = np.linalg.lstsq(F, y, rcond=1e-10)
        square = float(np.sum((y - F @ coefficients) ** 2))
        min_std = float(np.spacing(np.abs(y).max(initial=1.0)))  # of a y that the line explains whole
        std = max(float(np.sqrt(square / max(len(y) - int(rank), 1))), min_std)
        return cls(columns, centre, scale, coefficients, std)

    def mean(self, X: Floats) -> Floats:
        """Expectations (n,) in rows X."""
        used = X[:, self.columns]
        Z = np.where(np.isnan(used), 0.0, (used - self.centre) / self.scale)
        values: Floats = self.coefficients[0] + Z @ self.coefficients[1:]
        return values

    def logpdf(self, X: Floats, y: Floats) -> Floats:
        """Log densities (n,) of y in rows X."""
        values: Floats = -0.5 * ((y - self.mean(X)) / self.std) ** 2 - np.log(self.std) - 0.5 * np.log(2 * np.pi)
        return values

    def scores(self, X: Floats, y: Floats, confidence: float) -> RowScores:
        """How well it predicts y in rows X.

        >>> line = Line.fit(np.empty((2, 0)), np.array([-1.0, 1.0]) / 2**0.5)  # a standard normal
        >>> line.scores(np.empty((1, 0)), np.array([0.0]), 0.9).crps.round(4).tolist()
        [0.2337]
        """
        error, log_density = y - self.mean(X), self.logpdf(X, y)
        z = error / self.std
        crps = self.std * (z * (2 * ndtr(z) - 1) + 2 * self.std * np.exp(log_density) - 1 / np.sqrt(np.pi))
        return RowScores(log_density, crps, error, np.abs(z) <= ndtri(0.5 + confidence / 2))


def fit_baselines(X: Floats, y: Floats, n_categories: tuple[int, ...]) -> dict[str, Line]:
    """Both baselines of rows X (n, p) and y (n,), by name; categories are not used.

    n_categories: of each column more than 0 where it is a category; or empty.
    """
    numbers = np.flatnonzero(np.array(n_categories or [0] * X.shape[1]) == 0)
    return {"one normal": Line.fit(X, y, numbers[:0]), "linear regression": Line.fit(X, y, numbers)}
