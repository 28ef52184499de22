"""Split conformal calibration on the probability integral transform: coverage that needs no assumption on the model.

Rows that the model has not seen give u_i = F(y_i | x_i). For a further row that is exchangeable with them, u is equally
likely to fall into each of the m + 1 gaps between the sorted u_i, whatever F is. So the interval of y whose u lies
between two of them, k gaps apart, holds y with probability k/(m + 1), or more where u_i are tied.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk.distributions.base import RandomState, even_levels, probabilities
from coverwalk.distributions.univariate import UnivariateDistribution

__all__ = ["CalibratedDistribution", "recalibration"]

_N_LEVELS = 200  # of the quadrature for moments and entropy
_MIN_ATOM = 1e-9  # mass over which a mean slope is told: of less it is the slope at one point


def recalibration(u: Floats) -> tuple[Floats, Floats]:
    """Knots (u, level) of the piecewise linear map from F(y) to calibrated probability, from sorted u (m,).

    About 2 m^(1/3) knots at even levels: a finer map would follow the noise of the rows, and the density with it. At
    its knots the map has the guarantee of `CalibratedDistribution.interval`.

    >>> x, level = recalibration(np.linspace(0.05, 0.95, 19))
    >>> x.round(2).tolist(), level.round(2).tolist()
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    m = len(u)
    n_missing = max(1, min(m + 1, int(2 * m ** (1 / 3))))
    rank = np.unique(np.round(np.linspace(0, m + 1, n_missing + 1)).astype(np.int64))
    x = np.concatenate([[0.0], u, [1.0]])[rank]
    kept = np.diff(x, append=2.0) > 0  # of tied knots the last, so that the map is a function
    kept[x == 0] = False
    kept[0] = True  # and it begins at zero
    return x[kept], (rank / (m + 1))[kept]


class CalibratedDistribution(UnivariateDistribution):
    """A distribution of one output whose probabilities were corrected on held-out rows.

    `interval` is the split conformal interval: over rows exchangeable with the m calibration rows it covers y with at
    least the stated probability, on average over x, whatever the model. Its ends are infinite where m is too small for
    the confidence, that is below 2/(1 - confidence) - 1. All other answers are those of one smooth correction of the
    model's cdf, which has the same guarantee at its knots; moments and entropy are integrals over its quantiles.

    Parameters
    ----------
    base : UnivariateDistribution
        What the model predicted, before the correction.
    u : (m,) float
        Sorted F(y) of the calibration rows.
    """

    def __init__(self, base: UnivariateDistribution, u: Floats) -> None:
        self.base, self.u, self._one = base, u, base._one
        self._x, self._level = recalibration(u)

    @property
    def _n(self) -> int:
        return self.base._n

    def __getitem__(self, key: Any) -> "CalibratedDistribution":
        return CalibratedDistribution(self.base[key], self.u)

    def __repr__(self) -> str:
        return f"CalibratedDistribution({self.base!r}, {len(self.u)} calibration rows)"

    def logpdf(self, y: ArrayLike) -> Any:
        """Log density at y: the model's, plus the log of the correction's slope at F(y), or over F's jump there."""
        below, mass = self.base.cdf(y), self.base.pmf(y)
        slope = np.diff(self._level) / np.diff(self._x)
        gap = np.clip(np.searchsorted(self._x, below, side="right") - 1, 0, len(slope) - 1)
        jump = self._mapped(below) - self._mapped(below - mass)
        atom = mass > _MIN_ATOM
        return self.base.logpdf(y) + np.log(np.where(atom, jump / np.where(atom, mass, 1.0), slope[gap]))

    def _mapped(self, u: Any) -> Any:
        """The calibrated probability of F(y) = u."""
        return np.interp(u, self._x, self._level)

    def cdf(self, y: ArrayLike) -> Any:
        """P(Y <= y)."""
        return self._mapped(self.base.cdf(y))

    def pmf(self, y: ArrayLike) -> Any:
        """P(Y = y): by how much the calibrated cdf jumps at an atom, and 0 where y is continuous."""
        below = self.base.cdf(y)
        return self._mapped(below) - self._mapped(below - self.base.pmf(y))

    def sf(self, y: ArrayLike) -> Any:
        """P(Y > y), exact in the upper tail."""
        return np.interp(self.base.sf(y), (1 - self._x)[::-1], (1 - self._level)[::-1])

    def ppf(self, q: ArrayLike) -> Any:
        """Quantiles: q a number gives (n,), q (k,) gives (n, k)."""
        return self.base.ppf(np.interp(probabilities(q), self._level, self._x))

    def interval(self, confidence: ArrayLike) -> tuple[Any, Any]:
        """Both ends of the conformal central interval: it covers y with at least this probability."""
        confidence = np.asarray(confidence, dtype=np.float64)
        if not np.all((confidence >= 0) & (confidence <= 1)):
            raise ValueError(f"confidence must lie in [0, 1], got {confidence}: for percentages divide by 100")
        m = len(self.u)
        # the widest of the intervals between order statistics that may be needed; rounding must not move a rank
        low = np.floor((m + 1) * (1 - confidence) / 2 + 1e-9).astype(np.int64)
        ends = np.concatenate([[0.0], self.u, [1.0]])
        return self.base.ppf(ends[low]), self.base.ppf(ends[m + 1 - low])

    def _integral(self, of: Any) -> Any:
        q, weight = even_levels(_N_LEVELS)
        return of(self.ppf(q)) @ weight

    def mean(self) -> Any:
        """Expectation, by quadrature over quantiles."""
        return self._integral(lambda y: y)

    def var(self) -> Any:
        """Variance, by quadrature over quantiles; that of the tails beyond the outermost ones is left out."""
        return self._integral(lambda y: y * y) - self.mean() ** 2

    def entropy(self) -> Any:
        """Differential entropy in nats, by quadrature over quantiles."""
        return self._integral(lambda y: -self.logpdf(y))

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: RandomState = None) -> Any:
        """Draws: one for each row, (n,), or of shape ``(n, size)`` or ``(n, *size)``."""
        from coverwalk.distributions.mixture import make_uniform

        shape = () if size is None else tuple(np.atleast_1d(size).tolist())
        u = make_uniform(random_state, self.shape + shape)
        if not self.shape:
            return self.ppf(u.ravel()).reshape(shape)[()]
        flat = u.reshape(len(self), -1)
        return np.stack([self[i].ppf(levels) for i, levels in enumerate(flat)]).reshape(u.shape)

    def contexts(self, top: int | None = None) -> list[Any]:
        """The components of the prediction before the correction."""
        return self.base.contexts(top)
