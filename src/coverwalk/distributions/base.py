"""Distribution: what `predict_dist` returns, for one output or several, with the method names of SciPy."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coverwalk._docstrings import Documented

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from coverwalk.distributions.univariate import UnivariateDistribution

__all__ = ["Distribution", "RandomState", "probabilities", "quantile_crps"]

Floats = NDArray[np.float64]
RandomState = int | np.random.Generator | np.random.RandomState | None


def probabilities(q: ArrayLike) -> Floats:
    """Numbers in [0, 1] as an array; NaN is let through.

    >>> probabilities([5, 95])
    Traceback (most recent call last):
    ...
    ValueError: probabilities are in [0, 1], got 5.0: for percentages divide by 100
    """
    checked = np.asarray(q, dtype=np.float64)
    outside = np.abs(checked - 0.5) > 0.5
    if outside.any():
        wrong = checked[outside]
        raise ValueError(f"probabilities are in [0, 1], got {wrong.flat[0]}: for percentages divide by 100")
    return checked


class Distribution(Documented, ABC):
    """The distributions of y for n rows, as one vectorised object.

    The first axis of every result is that of the rows. With one output, results have shape (n,), or (n, k) for k points
    or levels. With q outputs, they have shape (n, q) or (n, q, k): `ppf`, `median`, `interval`, `mean`, `var`, `std`
    and `crps` are computed for each output alone, while `logpdf`, `pdf`, `cdf`, `sf`, `entropy` and `rvs` are for the
    whole vector. ``dist[i]`` is the distribution of one row, whose results have no axis of rows. ``dist[rows]`` is the
    distribution of some rows.
    """

    n_outputs: int

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the mean: (n,) or (n, q); () or (q,) for one row."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> "Iterator[Distribution]": ...

    @abstractmethod
    def __getitem__(self, key: Any) -> "Distribution": ...

    @abstractmethod
    def logpdf(self, y: ArrayLike) -> Any:
        """Log density at y.

        Parameters
        ----------
        y : array-like
            One output: a number, (n,), or (n, k). Several outputs: (n, q), one vector for each row.

        Returns
        -------
        float or ndarray
            Log densities in nats, (n,) or (n, k) as y is.
        """

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Any:
        """P(Y <= y); of several outputs the probability that all are, estimated by draws.

        Parameters
        ----------
        y : float or array-like
            Values: one for all rows, (n,) for one in each row, or (n, k) for k in each row.

        Returns
        -------
        float or ndarray
            Probabilities, (n,) or (n, k) as y is.
        """

    @abstractmethod
    def sf(self, y: ArrayLike) -> Any:
        """P(Y > y); of several outputs the probability that all are, estimated by draws.

        Parameters
        ----------
        y : float or array-like
            Values: one for all rows, (n,) for one in each row, or (n, k) for k in each row.

        Returns
        -------
        float or ndarray
            Probabilities, (n,) or (n, k) as y is.
        """

    @abstractmethod
    def ppf(self, q: ArrayLike) -> Any:
        """Quantiles, of each output alone; q a number or (k,).

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Levels between 0 and 1.

        Returns
        -------
        float or ndarray
            Quantiles, (n,) or (n, k); with several outputs (n, q) or (n, q, k).
        """

    @abstractmethod
    def interval(self, confidence: ArrayLike) -> tuple[Any, Any]:
        """Both ends of the central interval with this probability, of each output alone.

        Parameters
        ----------
        confidence : float or array-like of shape (k,)
            Probability inside the interval.

        Returns
        -------
        low, high : float or ndarray
            Its ends, (n,) or (n, k); (n, q) for several outputs.
        """

    @abstractmethod
    def mean(self) -> Any:
        """Expectation of each output.

        Returns
        -------
        float or ndarray of shape (n,)
            One number for each row; (n, q) for several outputs.
        """

    @abstractmethod
    def var(self) -> Any:
        """Variance of each output.

        Returns
        -------
        float or ndarray of shape (n,)
            One number for each row; (n, q) for several outputs.
        """

    @abstractmethod
    def entropy(self) -> Any:
        """Differential entropy in nats.

        Returns
        -------
        float or ndarray of shape (n,)
            Entropies in nats.
        """

    @abstractmethod
    def rvs(self, size: Any = None, random_state: RandomState = None) -> Any:
        """Random draws: one for each row, or ``size`` of them.

        Parameters
        ----------
        size : int or tuple of int, optional
            Draws for each row; by default one.
        random_state : int, RandomState, Generator or None
            Seed of the draws.

        Returns
        -------
        ndarray
            Draws, (n,) or (n, size); with several outputs (n, q) or (n, size, q).
        """

    @abstractmethod
    def contexts(self, top: int | None = None) -> list[Any]:
        """The components with the largest weights: of each row, and of each output where there are several.

        Parameters
        ----------
        top : int, optional
            Number of components at most, those with the largest weights first; by default all.

        Returns
        -------
        list
            Of one row a list of components; of several rows a list of such lists.
        """

    @abstractmethod
    def marginal(self, output: int | str) -> "UnivariateDistribution":
        """The distribution of one output alone, by number or by name.

        Parameters
        ----------
        output : int or str
            Number or name of the output.

        Returns
        -------
        UnivariateDistribution
            Of the same rows.
        """

    @abstractmethod
    def crps(self, y: ArrayLike) -> Any:
        """Continuous ranked probability score of each row (and output), in the units of y: less is better.

        Parameters
        ----------
        y : array-like of shape (n,)
            One value for each row; (n, q) for several outputs.

        Returns
        -------
        float or ndarray of shape (n,)
            Scores; (n, q) for several outputs.
        """

    @abstractmethod
    def to_frame(self, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Any:
        """A pandas DataFrame with mean, standard deviation and quantiles of every row.

        Parameters
        ----------
        quantiles : array-like of shape (k,)
            Levels between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            One row for each row.
        """

    @abstractmethod
    def plot(self, **options: Any) -> "Axes":
        """Draw the densities; needs matplotlib.

        Parameters
        ----------
        **options : dict
            Options of `coverwalk.evaluation.plot_density`.

        Returns
        -------
        matplotlib Axes
            With the densities.
        """

    def pdf(self, y: ArrayLike) -> Any:
        """Density at y; shapes as for `logpdf`.

        Parameters
        ----------
        y : float or array-like
            Values: one for all rows, (n,) for one in each row, or (n, k) for k in each row.

        Returns
        -------
        ndarray
            Densities, of the shape of `logpdf`.
        """
        return np.exp(self.logpdf(y))

    def median(self) -> Any:
        """The quantile at one half.

        Returns
        -------
        float or ndarray of shape (n,)
            Medians; (n, q) for several outputs.
        """
        return self.ppf(0.5)

    def std(self) -> Any:
        """Standard deviation; inf where the variance is.

        Returns
        -------
        float or ndarray of shape (n,)
            One number for each row; (n, q) for several outputs.
        """
        return np.sqrt(self.var())


def quantile_crps(quantiles: Any, y: Floats, n_levels: int = 100) -> Floats:
    """CRPS of y (n,) under ``quantiles(q)``, which returns (n, k) for levels q (k,): twice the mean pinball loss.

    The levels of the midpoint rule are denser in both tails (sin²), so that the error falls as 1/n_levels² even if the
    tails are heavy.
    """
    angle = (np.arange(n_levels) + 0.5) * (np.pi / 2 / n_levels)
    q, weight = np.sin(angle) ** 2, np.sin(2 * angle) * (np.pi / 2 / n_levels)
    over = quantiles(q) - y[..., None]
    score: Floats = (2 * ((over > 0) - q) * over) @ weight
    return score
