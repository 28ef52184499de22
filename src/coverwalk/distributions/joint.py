"""JointDistribution: n distributions of a vector y by the chain rule, p(y) = prod_j p(y_j given y_1 .. y_{j-1})."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats, Ints
from coverwalk.distributions.base import Distribution, RandomState
from coverwalk.distributions.calibrated import CalibratedDistribution
from coverwalk.distributions.mixture import PredictiveDistribution, make_uniform
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.files.schema import Whole
from coverwalk.locks import cached

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Conditional", "JointDistribution"]

_BLOCK = 4096  # conditionals asked at once: a row with hundreds of components takes some 10 kB
_PAIRS_AT_ONCE = 2**21  # distances between draws, of the energy score

Conditional = Callable[[int, Ints, Floats], PredictiveDistribution]


class JointDistribution(Distribution):
    """The distributions of q outputs in n rows, each a chain of one-output mixtures.

    `logpdf` and `rvs` are exact. What needs an integral over earlier outputs (`mean`, `var`, `marginal`, `cdf`,
    `entropy`) is an average over ``n_draws`` draws of them, made once: a Latin hypercube of uniform numbers from
    ``seed``, the same in every row, so that slices agree with the whole. Given the earlier outputs everything is exact
    (Rao-Blackwell), and the first output needs no draw at all. `mean` can tell its standard error.

    Parameters
    ----------
    conditional : callable
        ``conditional(j, rows, before)`` is the distribution of output j in rows (k,) (indices of this distribution's
        rows, each any number of times) given the earlier outputs before (k, j): a `PredictiveDistribution` of k rows.
    n_rows, n_outputs : int
        How many rows and outputs there are.
    n_draws : int
        Draws of the earlier outputs.
    seed : int
        Fixes the draws.
    names : sequence of str, optional
        Names of the outputs, for `marginal` and tables; y0, y1, ... if not given.

    Examples
    --------
    y_1 is standard normal, and y_2 is normal around twice y_1:

    >>> from coverwalk.distributions.shapes import Shapes
    >>> def conditional(j, rows, before):
    ...     k = len(rows)
    ...     loc = 2 * before[:, 0] if j else np.zeros(k)
    ...     return PredictiveDistribution(range(k + 1), [1.0] * k, loc, [1.0] * k, [0] * k, Shapes.student(np.inf))
    >>> dist = JointDistribution(conditional, n_rows=3, n_outputs=2, n_draws=1000)
    >>> dist
    JointDistribution(3 rows, 2 outputs)
    >>> dist.logpdf([[0.0, 0.0], [1.0, 2.0], [1.0, 0.0]]).round(3).tolist()
    [-1.838, -2.338, -4.338]
    >>> dist[0].var().round(1).tolist()
    [1.0, 5.0]
    >>> dist.marginal(1)
    PredictiveDistribution(3 rows, 1000 components per row)
    """

    def __init__(
        self,
        conditional: Conditional,
        n_rows: int,
        n_outputs: int,
        *,
        n_draws: int = 64,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> None:
        if n_rows < 0 or n_outputs < 1 or n_draws < 2:
            raise ValueError(
                f"need n_rows >= 0, n_outputs >= 1 and n_draws >= 2, got {n_rows}, {n_outputs} and {n_draws}"
            )
        self.conditional = conditional
        self.n_outputs, self.n_draws, self.seed = n_outputs, n_draws, seed
        self.names = [f"y{j}" for j in range(n_outputs)] if names is None else list(names)
        self.calibration: Floats | None = None  # sorted F(y) of held-out rows (m, q): then marginals are calibrated
        self._rows = np.arange(n_rows)

    @property
    def _n(self) -> int:
        return self._rows.size

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, q), or (q,) for the distribution of one row."""
        return (*super().shape, self.n_outputs)

    def __getitem__(self, key: Any) -> "JointDistribution | UnivariateDistribution":
        """``dist[rows]`` is the distribution of those rows; ``dist[rows, j]`` that of their output j alone."""
        if isinstance(key, tuple):
            if len(key) != 2:
                raise IndexError(f"a joint distribution has two axes, rows and outputs; got {len(key)} indices")
            part = self if self._one and key[0] == slice(None) else self._select(key[0])
            return part.marginal(key[1])
        return self._select(key)

    def _select(self, key: Any) -> "JointDistribution":
        rows, part = self._rows_at(key), copy(self)
        part._rows, part._one = self._rows[np.atleast_1d(rows)], rows.ndim == 0
        if "_draws" in self.__dict__:
            part.__dict__["_draws"] = self._draws[np.atleast_1d(rows)]
        return part

    def __repr__(self) -> str:
        rows = "one row" if self._one else f"{self._rows.size} row{'s' * (self._rows.size != 1)}"
        return f"JointDistribution({rows}, {self.n_outputs} outputs)"

    def _number(self, output: int | str) -> int:
        """The number of an output given by number or by name."""
        if isinstance(output, str):
            if output not in self.names:
                raise KeyError(f"there is no output {output!r}; the outputs are {', '.join(self.names)}")
            return self.names.index(output)
        if not -self.n_outputs <= output < self.n_outputs:
            raise IndexError(f"there is no output {output}; the outputs are 0 to {self.n_outputs - 1}")
        return range(self.n_outputs)[output]

    def _vectors(self, y: ArrayLike) -> Floats:
        """One vector for each row, checked."""
        y = np.asarray(y, dtype=np.float64)
        if y.shape != self.shape:
            axes = "(n_outputs,)" if len(self.shape) == 1 else "(n_rows, n_outputs)"
            raise ValueError(
                f"y must have shape {self.shape}, {axes}: one number for each output; got shape {y.shape}. For one "
                "output alone use dist.marginal(number or name)"
            )
        return y

    def _stack(self, parts: list[Any]) -> Any:
        """Answers of each output: the axis of outputs comes after that of rows."""
        return np.stack(parts, axis=len(self.shape) - 1)

    # -- exact --------------------------------------------------------------------------------------------------------

    def logpdf(self, Y: ArrayLike) -> Any:
        """Log density of the vectors Y (n, q), one for each row; (n,)."""
        table = self._vectors(Y).reshape(-1, self.n_outputs)
        total = np.zeros(self._rows.size)
        for j in range(self.n_outputs):
            total += self.conditional(j, self._rows, table[:, :j]).logpdf(table[:, j])
        return total[0] if self._one else total

    def rvs(self, size: int | None = None, random_state: RandomState = None) -> Floats:
        """Exact draws of whole vectors: (n, q), or (n, size, q)."""
        k = 1 if size is None else size
        u = make_uniform(random_state, (self.n_outputs, 2, self._rows.size, k))
        draws = self._chain(u)
        draws = draws[:, 0] if size is None else draws
        return draws[0] if self._one else draws

    # -- by draws of the earlier outputs ------------------------------------------------------------------------------

    def _chain(self, u: Floats) -> Floats:
        """Vectors (n, k, q) from uniform numbers (q, 2, n, k), output by output."""
        q, _, n, k = u.shape
        drawn = np.empty((n, k, q))
        for block in _blocks(n, k):
            rows = np.repeat(self._rows[block], k)
            part = drawn[block].reshape(-1, q)  # a view: drawn is contiguous
            for j in range(q):
                given = self.conditional(j, rows, part[:, :j])
                part[:, j] = given.draw(u[j, 0, block].reshape(-1, 1), u[j, 1, block].reshape(-1, 1))[:, 0]
        return drawn

    @cached
    def _draws(self) -> Floats:
        """Draws (n, n_draws, q - 1) of all outputs but the last, from one Latin hypercube for all rows."""
        rng = np.random.default_rng(self.seed)
        d = (self.n_outputs - 1, 2, 1, self.n_draws)
        strata = rng.permuted(np.broadcast_to(np.arange(self.n_draws), d), axis=-1)
        u = (strata + rng.random(d)) / self.n_draws
        return self._chain(np.broadcast_to(u, (d[0], 2, self._rows.size, self.n_draws)))

    def _given_draws(self, j: int, block: slice = slice(None)) -> PredictiveDistribution:
        """Output j given every draw of the earlier ones: n * n_draws rows, the draws of a row side by side."""
        draws = self._draws[block]
        before = draws.reshape(len(draws) * self.n_draws, self.n_outputs - 1)[:, :j]
        return self.conditional(j, np.repeat(self._rows[block], self.n_draws), before)

    def marginal(self, output: int | str) -> UnivariateDistribution:
        """The distribution of one output alone, by number or by name.

        It is exact for the first output; for the others their conditionals are mixed over the draws.
        """
        j = self._number(output)
        if j == 0:
            dist = self.conditional(0, self._rows, np.empty((self._rows.size, 0)))
        else:
            dist = self._given_draws(j).pool(self.n_draws)
        dist = dist[0] if self._one else dist
        return dist if self.calibration is None else CalibratedDistribution(dist, self.calibration[:, j])

    def _moments(self) -> tuple[Floats, Floats, Floats]:
        """Means, variances and standard errors of the means, (n, q) each."""
        n = self._rows.size
        mean, var, error = (np.zeros((n, self.n_outputs)) for _ in range(3))
        first = self.conditional(0, self._rows, np.empty((n, 0)))
        mean[:, 0], var[:, 0] = first.mean(), first.var()
        for j in range(1, self.n_outputs):
            for block in _blocks(n, self.n_draws):
                given = self._given_draws(j, block)
                means = given.mean().reshape(-1, self.n_draws)
                mean[block, j] = means.mean(axis=1)
                var[block, j] = given.var().reshape(-1, self.n_draws).mean(axis=1) + means.var(axis=1)
                error[block, j] = means.std(axis=1, ddof=1) / np.sqrt(self.n_draws)
        return mean, var, error

    def mean(self, return_error: bool = False) -> Any:
        """Mean of each output, estimated by draws.

        Parameters
        ----------
        return_error : bool
            Also return the standard errors of the estimates. They are upper bounds, and 0 for the first output.

        Returns
        -------
        ndarray of shape (n, q)
            Means; with ``return_error`` a pair of arrays.
        """
        mean, _, error = self._moments()
        if self._one:
            mean, error = mean[0], error[0]
        return (mean, error) if return_error else mean

    def var(self) -> Floats:
        """Variances (n, q): the mean conditional variance plus the variance of conditional means."""
        var = self._moments()[1]
        return var[0] if self._one else var

    def _together(self, Y: ArrayLike, upper: bool) -> Any:
        """The probability that all outputs lie below Y (n, q), or all above: the last given draws of the others."""
        table = self._vectors(Y).reshape(-1, self.n_outputs)
        total = np.empty(self._rows.size)
        for block in _blocks(self._rows.size, self.n_draws):
            given = self._given_draws(self.n_outputs - 1, block)
            last = np.repeat(table[block, -1], self.n_draws)
            tail = (given.sf(last) if upper else given.cdf(last)).reshape(-1, self.n_draws)
            before, earlier = self._draws[block], table[block, None, :-1]
            total[block] = np.mean(tail * ((before > earlier) if upper else (before <= earlier)).all(axis=2), axis=1)
        return total[0] if self._one else total

    def cdf(self, Y: ArrayLike) -> Any:
        """P(all outputs <= Y) for vectors Y (n, q), estimated by the draws; (n,)."""
        return self._together(Y, upper=False)

    def sf(self, Y: ArrayLike) -> Any:
        """P(all outputs > Y) for vectors Y (n, q), estimated by the draws; (n,)."""
        return self._together(Y, upper=True)

    def entropy(self) -> Any:
        """Differential entropy in nats, by the chain rule; conditional entropies are averaged over the draws."""
        total = self.conditional(0, self._rows, np.empty((self._rows.size, 0))).entropy()
        for j in range(1, self.n_outputs):
            for block in _blocks(self._rows.size, self.n_draws):
                total[block] += self._given_draws(j, block).entropy().reshape(-1, self.n_draws).mean(axis=1)
        return total[0] if self._one else total

    def energy_score(self, y: ArrayLike, n_draws: int = 200, random_state: RandomState = 0) -> Any:
        """Energy score ``E|Y - y| - E|Y - Y'|/2`` of each row, estimated by draws. Lower is better.

        With one output it is the CRPS. Distances are Euclidean: bring outputs of different units to one scale first.
        """
        y = self._vectors(y).reshape(-1, self.n_outputs)
        Whole(2).check("n_draws", n_draws)
        draws = np.asarray(self.rvs(n_draws, random_state)).reshape(len(y), n_draws, self.n_outputs)
        score = np.linalg.norm(draws - y[:, None, :], axis=2).mean(axis=1)
        step = max(1, _PAIRS_AT_ONCE // (n_draws * n_draws * self.n_outputs))
        for first in range(0, len(y), step):
            some = draws[first : first + step]
            apart = np.linalg.norm(some[:, :, None, :] - some[:, None, :, :], axis=3)
            score[first : first + step] -= apart.sum(axis=(1, 2)) / (2 * n_draws * (n_draws - 1))
        return score if len(self.shape) == 2 else score[0]

    # -- of each output alone -----------------------------------------------------------------------------------------

    def ppf(self, q: ArrayLike) -> Any:
        """Quantiles of each output alone: (n, q) for a number, (n, q, k) for k levels."""
        return self._stack([self.marginal(j).ppf(q) for j in range(self.n_outputs)])

    def interval(self, confidence: ArrayLike) -> tuple[Any, Any]:
        """Both ends (n, q) of the central interval of each output alone."""
        ends = [self.marginal(j).interval(confidence) for j in range(self.n_outputs)]
        return self._stack([low for low, _ in ends]), self._stack([high for _, high in ends])

    def crps(self, y: ArrayLike) -> Any:
        """CRPS (n, q) of each output alone, in its own units; see `energy_score` for one number for each row."""
        vectors = self._vectors(y)
        return self._stack([self.marginal(j).crps(vectors[..., j]) for j in range(self.n_outputs)])

    def contexts(self, top: int | None = None) -> list[Any]:
        """The heaviest components of each output alone: a list for each output, each as `marginal` gives it."""
        return [self.marginal(j).contexts(top) for j in range(self.n_outputs)]

    def to_frame(self, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Any:
        """A pandas DataFrame: mean, standard deviation and quantiles of each output, as ``name_mean`` and so on."""
        import pandas as pd

        parts = [self.marginal(j).to_frame(quantiles).add_prefix(f"{name}_") for j, name in enumerate(self.names)]
        return pd.concat(parts, axis=1)

    def plot(self, output: int | str = 0, **options: Any) -> "Axes":
        """Draw the densities of one output."""
        return self.marginal(output).plot(**options)

    def _repr_html_(self) -> str:
        """For notebooks: the table of each output."""
        tables = [f"<h4>{name}</h4>{self.marginal(j)._repr_html_()}" for j, name in enumerate(self.names)]
        return "".join(tables)

    log_prob = logpdf
    sample = rvs


def _blocks(n: int, draws: int) -> Iterator[slice]:
    """Slices of n rows, each of as many rows as make about _BLOCK conditionals with this many draws a row."""
    size = max(1, _BLOCK // max(1, draws))
    return (slice(first, min(first + size, n)) for first in range(0, n, size))
