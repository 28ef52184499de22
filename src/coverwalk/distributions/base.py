"""Distribution: what `predict_dist` returns, for one output or several, with the method names of SciPy."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats, Ints
from coverwalk._docstrings import EVENTS, Documented

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from coverwalk.distributions.univariate import UnivariateDistribution

__all__ = ["Distribution", "RandomState", "even_levels", "probabilities", "quantile_crps"]

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

    _words = {  # noqa: RUF012
        **EVENTS,
        "y": "float or array-like\n    One value for all rows, (n,) for one in each row, or (n, k) for k in each row; "
        "(n, q) for q outputs.",
        "crps.y": "array-like of shape (n,)\n    One value for each row; (n, q) for several outputs.",
        **dict.fromkeys(("Y", "energy_score.y"), "array-like of shape (n, q)\n    One vector for each row."),
        "q": "float or array-like of shape (k,)\n    Levels between 0 and 1.",
        "quantiles": "array-like of shape (k,)\n    Levels between 0 and 1.",
        "confidence": "float or array-like of shape (k,)\n    Probability inside the interval.",
        "top": "int, optional\n    Maximum number of components, those with the largest weights first; by default all.",
        "output": "int or str\n    Number or name of the output.",
        "size": "int or tuple of int, optional\n    Number of draws for each row; by default one.",
        "random_state": "int, RandomState, Generator or None\n    Seed of the draws.",
        "n_draws": "int\n    Number of draws for each row.",
        "options": "\n    Options of `coverwalk.evaluation.plot_density`: y, rows, confidence, labels, ax.",
        "pdf ->": "ndarray\n    Densities, with the shape of `logpdf`.",
        "plot ->": "matplotlib Axes\n    With the densities.",
        "to_frame ->": "pandas.DataFrame\n    One row for each row.",
        **dict.fromkeys(("cdf ->", "sf ->", "pmf ->"), "float or ndarray\n    Probabilities, (n,) or (n, k)."),
        "energy_score ->": "ndarray of shape (n,)\n    Scores.",
        **dict.fromkeys(
            ("mean ->", "var ->", "std ->", "median ->", "crps ->"),
            "float or ndarray of shape (n,)\n    One number for each row; (n, q) for several outputs.",
        ),
    }
    n_outputs: int
    _one = False  # the distribution of one row: its results have no axis of rows

    @property
    @abstractmethod
    def _n(self) -> int:
        """How many rows there are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the mean: (n,) or (n, q); () or (q,) for one row."""
        return () if self._one else (self._n,)

    def __len__(self) -> int:
        if self._one:
            raise TypeError("the distribution of one row has no length")
        return self._n

    @abstractmethod
    def __getitem__(self, key: Any) -> "Distribution": ...

    def _rows_at(self, key: Any) -> Ints:
        """Numbers of the rows that an index selects, an array of one axis; of none for one row."""
        if self._one:
            raise IndexError("the distribution of one row cannot be indexed by rows")
        rows = np.arange(self._n)[key]
        if rows.ndim > 1:
            raise IndexError(f"a distribution has one axis of rows; the index selects an array of shape {rows.shape}")
        return np.asarray(rows)

    def __iter__(self) -> Iterator[Self]:
        return (cast(Self, self[i]) for i in range(len(self)))

    @abstractmethod
    def logpdf(self, y: ArrayLike) -> Any:
        """Log density at y.

        Returns
        -------
        float or ndarray
            Log densities in nats, (n,) or (n, k) as y is.
        """

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Any:
        """P(Y <= y). With several outputs, the probability that all of them are, estimated by draws."""

    @abstractmethod
    def sf(self, y: ArrayLike) -> Any:
        """P(Y > y). With several outputs, the probability that all of them are, estimated by draws."""

    @abstractmethod
    def ppf(self, q: ArrayLike) -> Any:
        """Quantiles of each output alone.

        Returns
        -------
        float or ndarray
            Quantiles, (n,) or (n, k); with several outputs (n, q) or (n, q, k).
        """

    @abstractmethod
    def interval(self, confidence: ArrayLike) -> tuple[Any, Any]:
        """Ends of the central interval of each output alone.

        Returns
        -------
        low, high : float or ndarray
            Its ends, (n,) or (n, k); (n, q) for several outputs.
        """

    @abstractmethod
    def mean(self) -> Any:
        """Expectation of each output."""

    @abstractmethod
    def var(self) -> Any:
        """Variance of each output."""

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

        Returns
        -------
        ndarray
            Draws, (n,) or (n, size); with several outputs (n, q) or (n, size, q).
        """

    @abstractmethod
    def contexts(self, top: int | None = None) -> list[Any]:
        """The components of each row, and of each output if there are several.

        Returns
        -------
        list
            The components of one row, or for several rows a list of such lists.
        """

    @abstractmethod
    def marginal(self, output: int | str) -> "UnivariateDistribution":
        """The distribution of one output alone, by number or by name.

        Returns
        -------
        UnivariateDistribution
            Its distribution in the same rows.
        """

    @abstractmethod
    def crps(self, y: ArrayLike) -> Any:
        """Continuous ranked probability score of each row and output, in the units of y. Lower is better."""

    @abstractmethod
    def to_frame(self, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Any:
        """A pandas DataFrame with mean, standard deviation and quantiles of every row."""

    @abstractmethod
    def plot(self, **options: Any) -> "Axes":
        """Draw the densities; needs matplotlib."""

    def pdf(self, y: ArrayLike) -> Any:
        """Density at y."""
        return np.exp(self.logpdf(y))

    def median(self) -> Any:
        """The quantile at one half."""
        return self.ppf(0.5)

    def std(self) -> Any:
        """Standard deviation of each output; infinite if the variance is."""
        return np.sqrt(self.var())


def even_levels(n: int) -> tuple[Floats, Floats]:
    """Levels (n,) in (0, 1) and their weights, for integrals over quantiles.

    The levels of the midpoint rule are denser in both tails (sin²), so that the error falls as 1/n² even if the tails
    are heavy.
    """
    angle = (np.arange(n) + 0.5) * (np.pi / 2 / n)
    return np.sin(angle) ** 2, np.sin(2 * angle) * (np.pi / 2 / n)


def quantile_crps(quantiles: Any, y: Floats) -> Floats:
    """CRPS of y (n,) under ``quantiles(q)``, which returns (n, k) for levels q (k,): twice the mean pinball loss."""
    q, weight = even_levels(100)
    over = quantiles(q) - y[..., None]
    score: Floats = (2 * ((over > 0) - q) * over) @ weight
    return score
