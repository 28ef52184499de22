"""A picture of predicted densities; needs matplotlib, the ``plot`` extra."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk.distributions.base import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUE", "GREY", "INK", "ORANGE", "axes_to_draw_on", "grid_of", "plot_density"]

INK, BLUE, ORANGE, GREY = "#1b2a41", "#2a6f97", "#e07a3f", "#8d99ae"


def axes_to_draw_on(
    ax: "Axes | None", title: str, width: float = 6.4, height: float = 3.8, **properties: Any
) -> "Axes":
    """The axes to draw on, made if none are given; a clear word when matplotlib is not there."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plots need matplotlib: pip install matplotlib") from error
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_title(title, fontsize=10, loc="left", color=INK)
    ax.set(**properties)
    return ax


def grid_of(dist: Distribution, tail: float = 0.002, points: int = 400) -> Floats:
    """A grid over what all rows together may show."""
    ends = dist.ppf([tail, 1 - tail])
    low, high = float(ends[..., 0].min()), float(ends[..., 1].max())
    margin = 0.02 * (high - low)
    return np.linspace(low - margin, high + margin, points)


def plot_density(
    dist: Distribution,
    y: ArrayLike | None = None,
    *,
    rows: Any = slice(0, 8),
    confidence: float = 0.9,
    labels: list[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Densities of the first rows (or ``rows``) as a ridge: one row below another, the central interval filled.

    ``y`` marks what was seen, one for each row of ``dist``.

    Parameters
    ----------
    dist : Distribution
        What was predicted.
    y : array-like of shape (n,), optional
        What was observed, marked in each row.
    rows : slice or sequence of int
        Rows to draw.
    confidence : float
        Probability that the central interval claims.
    labels : list of str, optional
        Names of the rows.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        With the plot.

    Examples
    --------
    >>> from coverwalk.distributions.mixture import PredictiveDistribution, Shapes
    >>> two = PredictiveDistribution([0, 1, 2], [1.0, 1.0], [0.0, 1.0], [1.0, 2.0], [0, 0], Shapes.student(3.0))
    >>> len(plot_density(two, [0.5, 0.5]).lines)
    4
    """
    ax = axes_to_draw_on(ax, f"predicted density, {confidence:.0%} interval in dark", xlabel="y")
    seen = None if y is None else np.atleast_1d(np.asarray(y, dtype=np.float64))
    if dist.shape:
        dist, seen = dist[rows], seen if seen is None else seen[rows]
    parts = list(dist) if dist.shape else [dist]
    grid = grid_of(dist)
    for k, part in enumerate(parts):
        height = part.pdf(grid)
        height = 0.9 * height / height.max()
        low, high = part.interval(confidence)
        inside = (low <= grid) & (grid <= high)
        ax.fill_between(grid, -k, height - k, color=BLUE, alpha=0.15, linewidth=0)
        ax.fill_between(grid, -k, height - k, where=inside.tolist(), color=BLUE, alpha=0.45, linewidth=0)
        ax.plot(grid, height - k, color=INK, linewidth=1.2)
        if seen is not None:
            ax.plot(seen[k], -k, "o", color=ORANGE, markersize=6, zorder=3, clip_on=False)
    if seen is not None:
        ax.lines[-1].set_label("observed y")
        ax.legend(loc="upper right", fontsize=8, frameon=False)
    names = [f"row {k}" for k in range(len(parts))] if dist.shape else [""]
    ax.set_yticks([-k for k in range(len(parts))], labels or names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    return ax
