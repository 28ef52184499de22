"""Plots of predictive distributions; needs matplotlib."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk._docstrings import SCORES, document
from coverwalk.distributions.base import Distribution
from coverwalk.distributions.plotting import BLUE, GREY, INK, ORANGE, axes_to_draw_on, grid_of, plot_density
from coverwalk.evaluation.metrics import calibration_error, coverage_noise, pit_band, pit_histogram, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from coverwalk.forest.explain import Dependence, Importance

__all__ = [
    "plot_conditional",
    "plot_contexts",
    "plot_density",
    "plot_dependence",
    "plot_importance",
    "plot_pit",
    "plot_reliability",
]


def plot_conditional(
    dist: Distribution,
    x: ArrayLike,
    *,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    quantiles: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95),
    ax: "Axes | None" = None,
) -> "Axes":
    """The density of y over a grid of x, as a heat map with quantile lines.

    The colours are relative to the highest density at each x.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> x = np.linspace(0, 1, 5)
    >>> len(plot_conditional(normals(x, 0.1 + x), x).lines)
    5
    """
    x = np.asarray(x, dtype=np.float64)
    if x.shape != dist.shape or x.size < 2:
        raise ValueError(f"x must be a grid with one value for each row, of shape {dist.shape}; got {x.shape}")
    order = np.argsort(x)
    x, dist = x[order], dist[order]
    title = "predicted density of y given x, and its quantiles"
    ax = axes_to_draw_on(ax, title, 6.8, 4.2, xlabel="x", ylabel="y")
    _heat_map(ax, x, dist)
    quantiles = np.sort(np.atleast_1d(np.asarray(quantiles, dtype=np.float64)))
    lines = dist.ppf(quantiles)
    for q, line in zip(quantiles.tolist(), lines.T):
        middle = abs(q - 0.5) < 1e-12
        ax.plot(
            x, line, color=ORANGE if middle else INK, linewidth=1.8 if middle else 0.8, alpha=0.9 if middle else 0.6
        )
        ax.annotate(f"{q:.0%}", (x[-1], line[-1]), xytext=(4, 0), textcoords="offset points", fontsize=7, va="center")
    if data is not None:
        ax.scatter(*data, s=6, color=INK, alpha=0.35, linewidths=0, zorder=3, label="rows")
        ax.legend(loc="upper left", fontsize=8)
    ax.set_xlim(float(x[0]), float(x[-1]))
    return ax


def _heat_map(ax: "Axes", x: Floats, dist: Distribution) -> None:
    """An image of the densities over x, ascending; between two x they are interpolated."""
    grid = grid_of(dist, points=160)
    density = dist.pdf(grid[None, :])
    density /= density.max(axis=1, keepdims=True)
    even = np.linspace(x[0], x[-1], 200)
    after = np.clip(np.searchsorted(x, even), 1, len(x) - 1)
    near = ((even - x[after - 1]) / np.maximum(x[after] - x[after - 1], np.finfo(float).tiny))[:, None]
    shade = (1 - near) * density[after - 1] + near * density[after]
    dx, dy = 0.5 * (even[1] - even[0]), 0.5 * (grid[1] - grid[0])  # the middle of a pixel is its value
    ends = (even[0] - dx, even[-1] + dx, grid[0] - dy, grid[-1] + dy)
    ax.imshow(shade.T, extent=ends, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=1.25)


def plot_pit(y_true: ArrayLike, dist: Distribution, *, bins: int = 20, ax: "Axes | None" = None) -> "Axes":
    """Histogram of F(y): flat if the model is calibrated, a U shape if overconfident, a hump if underconfident.

    The band contains 95 % of the bars of a calibrated model.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> len(plot_pit([-1.0, -0.5, 0.5, 1.0], normals([0, 0, 0, 0], 1), bins=4).patches) >= 4
    True
    """
    heights, edges = pit_histogram(y_true, dist, bins)
    title = f"PIT histogram; calibration error {calibration_error(y_true, dist):.3f}"
    ax = axes_to_draw_on(ax, title, xlabel="F(y), the probability integral transform", ylabel="density", xlim=(0, 1))
    ax.axhspan(*pit_band(len(dist), bins), color=GREY, alpha=0.25, linewidth=0, label="95 % of bars when calibrated")
    ax.axhline(1, color=GREY, linewidth=1)
    ax.bar(edges[:-1], heights, width=np.diff(edges), align="edge", color=BLUE, alpha=0.8, edgecolor="white")
    ax.legend(loc="lower center", fontsize=8)
    return ax


def plot_reliability(y_true: ArrayLike, dist: Distribution, *, ax: "Axes | None" = None) -> "Axes":
    """Coverage of central intervals against their confidence: on the diagonal if the model is calibrated.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> len(plot_reliability([-1.0, -0.5, 0.5, 1.0], normals([0, 0, 0, 0], 1)).lines)
    2
    """
    levels = np.linspace(0.01, 0.99, 99)
    covered = reliability(y_true, dist, levels)
    ax = axes_to_draw_on(ax, "coverage of central intervals", 4.2, 4.2)
    noise = coverage_noise(levels, len(dist))
    ax.fill_between(
        levels, levels - noise, levels + noise, color=GREY, alpha=0.25, linewidth=0, label="95 % range if calibrated"
    )
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    ax.plot(levels, covered, color=BLUE, linewidth=2, label="coverage")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence of the interval", ylabel="coverage", aspect="equal")
    ax.legend(loc="upper left", fontsize=8)
    return ax


def plot_contexts(dist: Distribution, *, top: int = 12, ax: "Axes | None" = None) -> "Axes":
    """The components of one row's density with the largest weights, each with its centre, width and weight.

    Examples
    --------
    >>> from coverwalk.distributions.mixture import PredictiveDistribution, Shapes
    >>> two = PredictiveDistribution([0, 2], [0.3, 0.7], [0.0, 1.0], [1.0, 2.0], [0, 0], Shapes.student(3.0))
    >>> len(plot_contexts(two[0]).patches)
    2
    """
    if dist.shape:
        raise ValueError(f"plot_contexts shows one row, this distribution has {len(dist)}: index it first, dist[i]")
    components = dist.contexts(top)
    title = "components with the largest weights: centre and width"
    ax = axes_to_draw_on(ax, title, 6.4, 0.6 + 0.3 * len(components), xlabel="y")
    for k, component in enumerate(components):
        ax.barh(
            -k,
            2 * component.scale,
            left=component.loc - component.scale,
            height=0.55,
            color=BLUE,
            alpha=0.25 + 0.7 * component.weight,
        )
        ax.plot(component.loc, -k, "|", color=INK, markersize=9)
    names = [f"{v.weight:.1%}" if v.context is None else f"{v.context}  {v.weight:.1%}" for v in components]
    ax.set_yticks([-k for k in range(len(components))], names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    return ax


def plot_importance(importance: "Importance", *, top: int = 20, ax: "Axes | None" = None) -> "Axes":
    """Bars of permutation importances, as `ConditionalDensity.importance` gives them, the largest first.

    Examples
    --------
    >>> from coverwalk.forest.explain import Importance
    >>> two = Importance(np.array([0.1, 0.5]), np.array([0.0, 0.1]), np.zeros((2, 1)), ["age", "dose"])
    >>> [label.get_text() for label in plot_importance(two).get_yticklabels()]
    ['dose', 'age']
    """
    order = np.argsort(-importance.importances_mean)[:top]
    ax = axes_to_draw_on(ax, "permutation importance", 6.4, 0.8 + 0.28 * len(order))
    places = -np.arange(len(order))
    mean, std = importance.importances_mean[order], importance.importances_std[order]
    ax.barh(places, mean, xerr=std, color=BLUE, ecolor=INK, height=0.6)
    ax.set_yticks(places, [importance.names[a] for a in order])
    ax.set_xlabel("increase in log loss when shuffled, nats per row")
    return ax


def plot_dependence(dependence: "Dependence", *, ax: "Axes | None" = None) -> "Axes":
    """Average mean and average 90 % interval over one feature, as `partial_dependence` gives them.

    Examples
    --------
    >>> from coverwalk.forest.explain import Dependence
    >>> x = np.linspace(0, 1, 5)
    >>> plot_dependence(Dependence("dose", x, x, x, x - 1, x + 1)).get_xlabel()
    'dose'
    """
    ax = axes_to_draw_on(ax, "partial dependence", xlabel=dependence.feature, ylabel="y")
    numbers = dependence.grid.dtype.kind in "iuf"
    x = dependence.grid if numbers else np.arange(len(dependence.grid))
    ax.fill_between(x, dependence.low, dependence.high, color=BLUE, alpha=0.2, linewidth=0, label="90 % interval")
    ax.plot(x, dependence.mean, color=ORANGE, linewidth=2, label="mean")
    if not numbers:
        ax.set_xticks(x, [str(value) for value in dependence.grid])
    ax.legend(loc="upper left", fontsize=8)
    return ax


document(globals(), SCORES)
