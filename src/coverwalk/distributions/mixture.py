"""PredictiveDistribution: n distributions of one y, each a mixture of local models, with SciPy's names."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk._kernels.distributions.crps import mixture_crps
from coverwalk._kernels.distributions.density import cell_logpdf
from coverwalk._kernels.distributions.draws import draw_components, draw_rows
from coverwalk._kernels.distributions.mixture import Components, mixture_cdf
from coverwalk._kernels.distributions.quantile import mixture_ppf, rowwise_ppf
from coverwalk._kernels.distributions.rounded import grid_moments
from coverwalk._kernels.distributions.warped import piece_moments
from coverwalk.distributions.base import RandomState, probabilities
from coverwalk.distributions.entropy import row_entropy
from coverwalk.distributions.mixture_rows import SUM_TOLERANCE, Component, MixtureRows
from coverwalk.distributions.shapes import Shapes
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.preparation.rounding import Rounding

__all__ = ["Component", "PredictiveDistribution", "Shapes"]

_HAIR = 0.01  # of a cell


class PredictiveDistribution(MixtureRows):
    """The distributions of y for n rows, each a mixture of components y = loc + scale * e.

    **Shapes.** The first axis is that of the rows. ``logpdf``, ``pdf``, ``cdf`` and ``sf`` broadcast y against it: a
    number is evaluated in every row, y (n,) in its own row, and y (n, k) at k points in each row. So ``grid[None, :]``
    evaluates one grid in all rows. ``ppf`` and ``interval`` return (n,) for one level, and (n, k) for k levels.
    ``rvs(k)`` draws (n, k). ``dist[i]`` is the distribution of one row, and its results have no axis of rows.
    ``dist[rows]`` takes a slice, a mask or a list of rows.

    **Moments** are exact. If a component has no mean or an infinite variance, neither has the row. Use `interval` then.

    Parameters
    ----------
    offsets : (n + 1,) int
        Row i has the components offsets[i]:offsets[i+1], at least one.
    weight, loc, scale : (m,) float
        Weights sum to one in each row; scales are positive.
    shape : (m,) int
        The shape of a component, an index into ``shapes``.
    shapes : Shapes
        The table of standard shapes.
    context : (m,) int, optional
        A label of the context of the component.
    describe : callable, optional
        ``describe(label)`` is what `contexts` shows for a label.

    Examples
    --------
    Two rows; the first is bimodal.

    >>> normal = Shapes.student(np.inf)
    >>> dist = PredictiveDistribution([0, 2, 3], [0.5, 0.5, 1.0], [-2.0, 2.0, 1.0], [1.0, 1.0, 3.0], [0, 0, 0], normal)
    >>> dist
    PredictiveDistribution(2 rows, 1.5 components per row)
    >>> dist.mean().tolist(), dist.var().tolist()
    ([0.0, 1.0], [5.0, 9.0])
    >>> dist.logpdf([0.0, 1.0]).round(4).tolist()  # row by row
    [-2.9189, -2.0176]
    >>> dist.cdf(np.array([[-2.0, 0.0, 2.0]])).round(4).tolist()  # three points in every row
    [[0.25, 0.5, 0.75], [0.1587, 0.3694, 0.6306]]
    >>> dist.ppf([0.05, 0.95]).round(3).tolist()
    [[-3.282, 3.282], [-3.935, 5.935]]
    >>> dist[1]
    PredictiveDistribution(one row, 1 component)
    >>> round(float(dist[1].entropy()), 6), round(float(0.5 * np.log(2 * np.pi * np.e * 9)), 6)
    (2.517551, 2.517551)
    """

    # -- densities ----------------------------------------------------------------------------------------------------

    def logpdf(self, y: ArrayLike) -> Any:
        """Log density at y. Finite far out in Student and kind 2 tails; NaN only where y is.

        Where y is rounded to a grid it is the log of the mass of y's cell over the step: a density of the rounded
        quantity, the same wherever in the cell y is. At a single value with a mass of its own, beside a continuous
        part, it is the log of that mass, as in the likelihood of hurdle and Tobit models.
        """
        points, shape = self._points(y)
        out = np.empty_like(points)
        low, high = (points, points) if self.rounding is None else self.rounding.cells(points)
        cell_logpdf(self.components, self.shapes.table, low, high, out)
        if self.rounding is not None:
            out += self.rounding.log_unit(points)
        return self._answer(out, shape)

    def _tails(self, y: ArrayLike) -> tuple[Any, Any]:
        """P(Y <= y) and P(Y > y)."""
        points, shape = self._points(y)
        if self.rounding is not None:
            points = self.rounding.below(points)
        lower, upper = np.empty_like(points), np.empty_like(points)
        mixture_cdf(self.components, self.shapes.table, points, lower, upper)
        return self._answer(lower, shape), self._answer(upper, shape)

    def cdf(self, y: ArrayLike) -> Any:
        """P(Y <= y), exact in the lower tail; it jumps by `pmf` at an atom."""
        return self._tails(y)[0]

    def sf(self, y: ArrayLike) -> Any:
        """P(Y > y), exact in the upper tail."""
        return self._tails(y)[1]

    def pmf(self, y: ArrayLike) -> Any:
        """P(Y = y): the mass of an atom, and 0 where y is continuous."""
        points, shape = self._points(y)
        out = np.zeros_like(points)
        if self.rounding is not None:
            low, high = self.rounding.cells(points)
            cell_logpdf(self.components, self.shapes.table, low, high, out)
            with np.errstate(invalid="ignore"):
                out = np.where(self.rounding.is_atom(points) & (low < high), np.exp(out) * (high - low), 0.0)
        return self._answer(out, shape)

    def atoms(self, mass: float = 1.0 - 1e-6) -> tuple[Floats, Any]:
        """Values (k,) that have a mass of their own, and these masses, (n, k), or (k,) for one row.

        Of a grid, which has no end: the values between the quantiles that leave out (1 - ``mass``) / 2 on either side.

        Parameters
        ----------
        mass : float
            Values are listed until they have this probability together.

        Returns
        -------
        values : ndarray of shape (k,)
            The atoms.
        probabilities : ndarray of shape (n, k)
            Their masses; (k,) for one row.
        """
        if self.rounding is None:
            values = np.empty(0)
        elif self.rounding.step:
            low, high = self.interval(mass)
            values = self.rounding.between(float(np.min(low)), float(np.max(high)))
        else:
            values = self.rounding.values.copy()
        return values, self.pmf(values if self._one else values[None, :])

    def ppf(self, q: ArrayLike) -> Any:
        """Quantiles, the least y with P(Y <= y) >= q: q a number gives (n,), q (k,) gives (n, k).

        They never cross. Between 0.001 and 0.999 cdfs are read from tables, with an error of at most 1e-7 of a
        probability, in the tests below 2e-9; beyond, the tail is met to 1e-12 of itself.
        """
        q = probabilities(q)
        levels = q.ravel()
        if (levels[1:] >= levels[:-1]).all():
            return self._answer(self._quantiles(levels), self.shape + q.shape)
        order, out = np.argsort(levels), np.empty((self._n, q.size))
        out[:, order] = self._quantiles(levels[order])
        return self._answer(out, self.shape + q.shape)

    def _quantiles(self, q: Floats) -> Floats:
        """Quantiles (n, k) at q (k,), ascending."""
        out = np.empty((self._n, len(q)))
        mixture_ppf(self.components, self.shapes.table, self.shapes.cdf_tables, q, out)
        return out if self.rounding is None else self._rounded_quantiles(out, q)

    def _rounded_quantiles(self, latent: Floats, q: Floats) -> Floats:
        """The values of latent quantiles (n, k) at q (k,); a quantile that is a hair too high is not the next value."""
        assert self.rounding is not None
        if not self.rounding.step:
            return self.rounding.value(latent)
        values, near = self.rounding.value_and_near(latent, _HAIR)
        if near.any():
            rows = np.flatnonzero(near.any(axis=1))
            lower = self.rounding.value_before(values[rows])
            below = self.cdf(lower[0])[None] if self._one else self[rows].cdf(lower)
            values[rows] = np.where(near[rows] & (below >= q - SUM_TOLERANCE), lower, values[rows])
        return values

    def interval(self, confidence: ArrayLike) -> tuple[Any, Any]:
        """Both ends of the central interval that holds this much probability."""
        one: Any = confidence
        if isinstance(one, float) and 0.0 <= one <= 1.0:  # of one row after the other: in half the time
            ends = self._quantiles(np.array([0.5 - 0.5 * one, 0.5 + 0.5 * one]))
            return (ends[0, 0], ends[0, 1]) if self._one else (ends[:, 0], ends[:, 1])
        half = 0.5 * np.asarray(confidence, dtype=np.float64)
        if not (np.abs(half - 0.25) <= 0.25).all():
            raise ValueError(f"confidence must lie in [0, 1], got {2.0 * half}: for percentages divide by 100")
        ends = self.ppf(np.array([0.5 - half, 0.5 + half]))
        return (ends[0], ends[1]) if self._one else (ends[:, 0], ends[:, 1])

    def crps(self, y: ArrayLike) -> Any:
        """Continuous ranked probability score of each row's y, in the units of y. Lower is better.

        Good to 1e-6 of a row's spread. In rows whose tails are so heavy that means are infinite, and of 2^15 and more
        values of a grid with narrow components, it is computed from quantiles, and good to some 1e-3 of itself.
        """
        y, rounding = np.asarray(y, dtype=np.float64), self.rounding or Rounding()
        if y.shape != self.shape:
            return super().crps(y)
        points, out = np.atleast_1d(y).clip(rounding.low, rounding.high), np.empty(self._n)
        outside = np.abs(y - points)
        if rounding.step:  # the next value of the grid, where it is none
            points = rounding.origin + np.ceil((points - rounding.origin) / rounding.step - _HAIR) * rounding.step
        latent = points if rounding.step else rounding.below(points)
        shapes = self.shapes
        mixture_crps(
            self.components, shapes.table, shapes.cdf_tables, points, latent, rounding.pieces, rounding.grid, out
        )
        out += outside
        others = np.flatnonzero(np.isnan(out))
        if others.size:
            out[others] = super().crps(y) if self._one else UnivariateDistribution.crps(self[others], y[others])
        return self._answer(out, self.shape)

    # -- summaries ----------------------------------------------------------------------------------------------------

    def _moments(self, squares: bool) -> tuple[Any, Any]:
        """Means and variances; without squares these are not always worked out."""
        mean, var = self._latent_moments()
        if self.rounding is not None:
            self._rounded_moments(self.rounding, squares, mean, var)
        return self._answer(mean, self.shape), self._answer(var, self.shape)

    def _latent_moments(self) -> tuple[Floats, Floats]:
        """Sums over components; the variance about the mean by a second pass. Components of no weight count nothing."""
        offsets, weight, loc, scale, shape = self.components
        first, any_weight, table = offsets[:-1], weight > 0.0, self.shapes.table
        with np.errstate(all="ignore"):
            at, own = loc + scale * table.mean[shape], table.var[shape]
            mean = np.add.reduceat(np.where(any_weight, weight * at, 0.0), first)
            # 0 * inf is NaN: a component whose scale^2 underflows still has no variance if its shape has none
            own = np.where(np.isinf(own), own, scale * scale * own)
            away = at - np.repeat(mean, np.diff(offsets))
            var = np.add.reduceat(np.where(any_weight, weight * (own + away * away), 0.0), first)
        return mean, var

    def _rounded_moments(self, rounding: Rounding, squares: bool, mean: Floats, var: Floats) -> None:
        """Those of y in place of those of the latent y."""
        if rounding.step and not rounding.limited:
            grid_moments(self.components, self.shapes.table, rounding.origin, rounding.step, mean, var)
        else:
            tables, h = (self.shapes.table, self.shapes.cdf_tables), (rounding.pieces, rounding.grid)
            piece_moments(self.components, *tables, *h, squares, mean, var)

    def mean(self) -> Any:
        """Expectation; NaN where a component has none."""
        return self._moments(squares=False)[0]

    def var(self) -> Any:
        """Variance; inf where a component's is."""
        return self._moments(squares=True)[1]

    def entropy(self) -> Any:
        """Differential entropy in nats, by adaptive quadrature between quantiles.

        Good to 1e-7; to about 1e-4 where hundreds of histograms put thousands of steps into one density. Where y has
        atoms it is the mean of -logpdf.
        """
        rows = [self] if self._one else self
        return self._answer(np.array([row_entropy(row) for row in rows]), self.shape)

    # -- samples ------------------------------------------------------------------------------------------------------

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: RandomState = None) -> Any:
        """Exact draws: one a row, (n,), or of shape ``(n, size)`` or ``(n, *size)``."""
        shape = () if size is None else tuple(np.atleast_1d(size).tolist())
        u = make_uniform(random_state, (3, self._n, int(np.prod(shape, dtype=np.int64))))
        out = np.empty(u.shape[1:])
        draw_rows(self.components, self.shapes.table, u, out)
        if self.rounding is not None:
            out = self.rounding.value(out)
        return self._answer(out, self.shape + shape)

    def draw(self, u_component: Floats, u_value: Floats) -> Floats:
        """Draws (n, k) from uniform numbers: u_component (n, k) choose components, u_value (n, k) their quantiles.

        Parameters
        ----------
        u_component : ndarray of shape (n, k)
            Uniform numbers that choose components.
        u_value : ndarray of shape (n, k)
            Uniform numbers that choose the quantiles within them.

        Returns
        -------
        ndarray of shape (n, k)
            Draws.
        """
        chosen = np.empty(u_component.shape, np.int64)
        draw_components(self.components, np.ascontiguousarray(u_component), chosen)
        _, _, loc, scale, shape = self.components
        picked = chosen.ravel()
        alone = Components(np.arange(picked.size + 1), np.ones(picked.size), loc[picked], scale[picked], shape[picked])
        out = np.empty(picked.size)
        # generators give multiples of 2^-53, and 0 too, whose quantile would be -inf
        rowwise_ppf(alone, self.shapes.table, np.maximum(u_value.ravel(), 2.0**-54), out)
        if self.rounding is not None:
            out = self.rounding.value(out)
        return out.reshape(u_component.shape)

    def to_scipy(self) -> Any:
        """The distribution of one row as a frozen `scipy.stats` distribution.

        Returns
        -------
        rv_frozen
            A frozen SciPy distribution.
        """
        if self._n != 1:
            raise ValueError(
                f"to_scipy takes one row, this distribution has {self._n}: index it first, dist[i].to_scipy()"
            )
        from coverwalk.distributions.scipy import ScipyDistribution

        return ScipyDistribution(self if self._one else self[0]).freeze()

    log_prob = logpdf
    icdf = ppf
    quantile = ppf
    sample = rvs


def make_uniform(random_state: RandomState, shape: tuple[int, ...]) -> Floats:
    """Uniform numbers in [0, 1) from a seed, a Generator, SciPy's older RandomState, or fresh."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.random_sample(shape)
    return np.random.default_rng(random_state).random(shape)
