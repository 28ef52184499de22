"""What distributions of several outputs share: answers for each output alone, and those that draws estimate."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk.distributions.base import Distribution, RandomState
from coverwalk.files.schema import Whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MultivariateDistribution"]

_PAIRS_AT_ONCE = 2**21  # distances between draws, of the energy score


class MultivariateDistribution(Distribution):
    """The distributions of q outputs in n rows; see `Distribution` for shapes."""

    names: list[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, q), or (q,) for the distribution of one row."""
        return (*super().shape, self.n_outputs)

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
