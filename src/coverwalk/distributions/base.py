"""Distribution: what `predict_dist` answers, for one output or several; the names are those of a SciPy distribution."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    wrong = checked[(checked < 0) | (checked > 1)]
    if wrong.size:
        raise ValueError(f"probabilities are in [0, 1], got {wrong.flat[0]}: for percentages divide by 100")
    return checked


class Distribution(ABC):
    """The distributions of y in n rows, as one vectorised object.

    Rows come first in every answer. With one output an answer has shape (n,), or (n, k) for k points or levels. With
    q outputs it is (n, q) or (n, q, k): `ppf`, `median`, `interval`, `mean`, `var`, `std` and `crps` are those of each
    output alone, while `logpdf`, `pdf`, `cdf`, `sf`, `entropy` and `rvs` are of the whole vector. ``dist[i]`` is the
    distribution of one row, whose answers have no axis of rows; ``dist[rows]`` is the distribution of some rows.
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
        """

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Any:
        """P(Y <= y); of several outputs the probability that all are, estimated by draws."""

    @abstractmethod
    def sf(self, y: ArrayLike) -> Any:
        """P(Y > y); of several outputs the probability that all are, estimated by draws."""

    @abstractmethod
    def ppf(self, q: ArrayLike) -> Any:
        """Quantiles, of each output alone; q a number or (k,)."""

    @abstractmethod
    def interval(self, confidence: ArrayLike) -> tuple[Any, Any]:
        """Both ends of the central interval with this probability, of each output alone."""

    @abstractmethod
    def mean(self) -> Any:
        """Expectation of each output."""

    @abstractmethod
    def var(self) -> Any:
        """Variance of each output."""

    @abstractmethod
    def entropy(self) -> Any:
        """Differential entropy in nats."""

    @abstractmethod
    def rvs(self, size: Any = None, random_state: RandomState = None) -> Any:
        """Random draws: one for each row, or ``size`` of them."""

    @abstractmethod
    def contexts(self, top: int | None = None) -> list[Any]:
        """The components with the largest weights: of each row, and of each output where there are several."""

    @abstractmethod
    def marginal(self, output: int | str) -> "UnivariateDistribution":
        """The distribution of one output alone, by number or by name."""

    @abstractmethod
    def crps(self, y: ArrayLike) -> Any:
        """Continuous ranked probability score of each row (and output), in the units of y: less is better."""

    @abstractmethod
    def to_frame(self, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Any:
        """A pandas DataFrame with mean, standard deviation and quantiles of every row."""

    @abstractmethod
    def plot(self, **options: Any) -> "Axes":
        """Draw the densities; needs matplotlib."""

    def pdf(self, y: ArrayLike) -> Any:
        """Density at y; shapes as for `logpdf`."""
        return np.exp(self.logpdf(y))

    def median(self) -> Any:
        """The quantile at one half."""
        return self.ppf(0.5)

    def std(self) -> Any:
        """Standard deviation; inf where the variance is."""
        return np.sqrt(self.var())


def quantile_crps(quantiles: Any, y: Floats, n_categories: int = 100) -> Floats:
    """CRPS of y (n,) under ``quantiles(q)``, which answers (n, k) for levels q (k,): twice the mean pinball loss.

    The levels of a midpoint rule stand closer in both tails (sin²), so that the error falls as 1/n_levels² also where
    tails are heavy.
    """
    angle = (np.arange(n_categories) + 0.5) * (np.pi / 2 / n_categories)
    q, weight = np.sin(angle) ** 2, np.sin(2 * angle) * (np.pi / 2 / n_categories)
    over = quantiles(q) - y[..., None]
    score: Floats = (2 * ((over > 0) - q) * over) @ weight
    return score
