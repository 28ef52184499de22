"""What any model should beat: one normal for all rows, and a straight line with normal noise."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from coverwalk._arrays import Floats

__all__ = ["Line", "normal_crps", "plain_inputs"]


def plain_inputs(X: Floats, learned: Floats, n_categories: tuple[int, ...]) -> Floats:
    """Inputs X (n, p) for a line: missing values at the mean of the rows learned (m, p), categories left out.

    n_levels: of each column more than 0 where it is a category; or empty.
    """
    plain, missing = X, np.isnan(X)
    if missing.any():
        known = ~np.isnan(learned)
        mean = np.where(known, learned, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        plain = np.where(missing, mean, X)
    if n_categories:
        plain = plain.copy()
        plain[:, np.flatnonzero(n_categories)] = 0.0
    return plain


@dataclass(frozen=True)
class Line:
    """Least squares on columns of order one, with normal noise of one standard deviation; without columns, one normal.

    Examples
    --------
    >>> X = np.arange(5.0)[:, None]
    >>> line = Line.fit(X, 2 * X[:, 0] + 1 + np.array([0.1, -0.1, 0.0, -0.1, 0.1]))
    >>> line.mean(np.array([[10.0]])).round(6).tolist(), round(line.std, 4)
    ([21.0], 0.1155)
    """

    centre: Floats
    scale: Floats
    coefficients: Floats
    std: float

    @classmethod
    def fit(cls, X: Floats, y: Floats) -> Self:
        """To rows X (n, p), p = 0 for one normal, and y (n,); variance over the degrees of freedom left."""
        centre = X.mean(axis=0)
        scale = X.std(axis=0)
        scale[scale == 0] = 1.0
        F = np.column_stack([np.ones(len(y)), (X - centre) / scale])
        coefficients, _, rank, _ = np.linalg.lstsq(F, y, rcond=1e-10)
        square = float(np.sum((y - F @ coefficients) ** 2))
        least = float(np.spacing(np.abs(y).max(initial=1.0)))  # of a y that the line explains whole
        return cls(centre, scale, coefficients, max(float(np.sqrt(square / max(len(y) - int(rank), 1))), least))

    def mean(self, X: Floats) -> Floats:
        """Expectations (n,) in rows X."""
        values: Floats = self.coefficients[0] + ((X - self.centre) / self.scale) @ self.coefficients[1:]
        return values

    def crps(self, X: Floats, y: Floats) -> Floats:
        """CRPS (n,) of y in rows X."""
        return normal_crps(y - self.mean(X), np.array(self.std))

    def logpdf(self, X: Floats, y: Floats) -> Floats:
        """Log densities (n,) of y in rows X."""
        values: Floats = -0.5 * ((y - self.mean(X)) / self.std) ** 2 - np.log(self.std) - 0.5 * np.log(2 * np.pi)
        return values


def normal_crps(error: Floats, std: Floats) -> Floats:
    """CRPS of normals with these standard deviations whose mean is this far from y.

    >>> normal_crps(np.array([0.0]), np.array([1.0])).round(4).tolist()
    [0.2337]
    """
    from scipy.stats import norm

    z = error / std
    values: Floats = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return values
