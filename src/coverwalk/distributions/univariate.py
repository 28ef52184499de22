"""What distributions of one output share: probabilities of intervals, CRPS, tables and pictures."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk.distributions.base import Distribution, quantile_crps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["UnivariateDistribution"]

_HTML_ROWS = 20


class UnivariateDistribution(Distribution):
    """The distributions of one output in n rows; see `Distribution` for shapes."""

    n_outputs = 1

    @abstractmethod
    def __getitem__(self, key: Any) -> "UnivariateDistribution": ...

    def marginal(self, output: int | str = 0) -> "UnivariateDistribution":
        """Itself: there is one output."""
        if not isinstance(output, str) and output not in (0, -1):
            raise IndexError(f"there is one output, number 0; got {output!r}")
        return self

    @abstractmethod
    def pmf(self, y: ArrayLike) -> Any:
        """P(Y = y): the mass of an atom, and 0 where y is continuous."""

    def prob(self, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> Any:
        """P(low < Y <= high) for each row."""
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        if not np.all(low <= high):
            raise ValueError(f"low must not exceed high (and neither may be NaN); got {low} and {high}")
        below, above = np.isneginf(low), np.isposinf(high)
        if np.all(above):  # exact in the upper tail
            return np.where(below, 1.0, self.sf(low))[()]
        upper = np.where(above, 1.0, self.cdf(high))
        return (upper - np.where(below, 0.0, self.cdf(low)))[()]

    def exceedance(self, threshold: ArrayLike) -> Any:
        """P(Y > threshold) for each row: another name of the survival function `sf`."""
        return self.sf(threshold)

    def crps(self, y: ArrayLike) -> Any:
        """Continuous ranked probability score of each row's y (n,), in the units of y. Lower is better."""
        y = np.asarray(y, dtype=np.float64)
        if y.shape != self.shape:
            raise ValueError(f"y must have one entry for each row, shape {self.shape}; got shape {y.shape}")
        return quantile_crps(self.ppf, y)[()]

    def to_frame(self, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Any:
        """A pandas DataFrame with the mean, standard deviation and quantiles ``q0.05``, ``q0.5``, ... of every row."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        levels = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        values = np.atleast_2d(self.ppf(levels))
        columns = {"mean": np.atleast_1d(self.mean()), "std": np.atleast_1d(self.std())}
        columns |= {f"q{level:g}": values[:, k] for k, level in enumerate(levels.tolist())}
        return pd.DataFrame(columns)

    def plot(self, **options: Any) -> "Axes":
        """Draw the density of one row, or of the first rows, one below the other. It needs matplotlib."""
        from coverwalk.distributions.plotting import plot_density

        return plot_density(self, **options)

    def _repr_html_(self) -> str:
        """A table for notebooks: each row with its mean, its 90 % interval and a small picture of its density."""
        from html import escape

        part = self[:_HTML_ROWS] if self.shape else self
        mean, (low, high) = np.atleast_1d(part.mean()), (np.atleast_1d(end) for end in part.interval(0.9))
        lines = [
            f"<tr><td>{'' if not self.shape else i}</td><td>{m:.4g}</td><td>{a:.4g} to {b:.4g}</td><td>{svg}</td></tr>"
            for i, (m, a, b, svg) in enumerate(zip(mean, low, high, _sparklines(part)))
        ]
        more = f"<p>and {len(self) - _HTML_ROWS} more rows</p>" if self.shape and len(self) > _HTML_ROWS else ""
        head = "<tr><th>row</th><th>mean</th><th>90 % interval</th><th>density</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{''.join(lines)}</table>{more}"


def _sparklines(dist: Distribution, width: int = 160, height: int = 28) -> list[str]:
    """One small SVG picture for each row, all over the same range of y."""
    ends = np.atleast_2d(dist.ppf([0.005, 0.995]))
    if not len(ends):
        return []
    grid = np.linspace(ends[:, 0].min(), ends[:, 1].max(), width // 2)
    density: Floats = np.atleast_2d(dist.pdf(grid[None, :]) if dist.shape else dist.pdf(grid))
    x = np.linspace(0, width, len(grid))
    rounding = getattr(getattr(dist, "base", dist), "rounding", None)
    spikes = np.zeros(len(grid), bool) if rounding is None or rounding.step else rounding.is_atom(grid)
    pictures = []
    for row in density:
        most = row[~spikes].max(initial=0.0) or row.max() or 1.0
        y = height - 1 - (height - 3) * np.minimum(row / most, 1.0)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        pictures.append(
            f'<svg width="{width}" height="{height}" role="img" aria-label="density">'
            f'<polygon points="0,{height} {points} {width},{height}" fill="#2a6f97" fill-opacity="0.35" '
            'stroke="#2a6f97"/></svg>'
        )
    return pictures
