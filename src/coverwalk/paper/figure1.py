"""Figure 1: the ring. What the estimator says after 10^3 to 10^6 rows, and which local model says it."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from coverwalk import DoubleTree
from coverwalk.datasets import MIXTURES
from coverwalk.distributions.plotting import BLUE, INK, ORANGE
from coverwalk.paper.page import Claim, Result, figure, label

_GRID = np.linspace(-2.0, 2.0, 241)
_COLUMNS = ("rows", "contexts", "depth", "holdout loss", "true loss", "weight of normals, |x| < 1", "weight, |x| > 1.2")


def figure1(sizes: Sequence[int], step: Callable[[str], Any]) -> Result:
    """One model, shown four times as it learns."""
    ring = MIXTURES["ring"]
    X, y = ring.make(max(sizes), 0)
    X_holdout, y_holdout = ring.make(10_000, 1000)
    truth = -float(ring.log_density(X_holdout, y_holdout).mean())
    x = X_holdout[:, 0]
    model, panels, rows = DoubleTree(), [], []
    for start, end in zip((0, *sizes), sizes):
        step(f"Figure 1: {end:,} rows")
        model.partial_fit(X[start:end], y[start:end])
        normal, _ = model.component_weights(X_holdout)
        loss = -model.log_likelihood(X_holdout, y_holdout)
        near, far = float(normal[np.abs(x) < 1].mean()), float(normal[np.abs(x) > 1.2].mean())
        rows.append((end, model.n_contexts_, model.depth_, loss, truth, near, far))
        panels.append((end, _density(model), model.component_weights(_GRID[:, None])[0], loss))
    return Result(
        "figure1",
        "Figure 1. A Gaussian on a ring",
        "p(y | x) as a shade, dark where likely; below, the probability that a normal predicts for x (orange) "
        "and not a tree density (blue).",
        _COLUMNS,
        rows,
        _claims(rows),
        _draw(panels),
    )


def _density(model: DoubleTree) -> Any:
    grid_x, grid_y = np.meshgrid(_GRID, _GRID)
    return np.exp(model.logpdf(grid_x.reshape(-1, 1), grid_y.ravel())).reshape(grid_x.shape)


def _claims(rows: Sequence[tuple[Any, ...]]) -> list[Claim]:
    contexts, losses = [row[1] for row in rows], [row[3] for row in rows]
    return [
        Claim(
            "It settles on a Gaussian near the edges, and uses a pseudo-tree distribution near the ring.",
            all(row[6] > row[5] for row in rows),
            "weight of normals beyond |x| = 1.2 against within 1: "
            + "; ".join(f"{row[6]:.2f} against {row[5]:.2f} at {row[0]:,}" for row in rows),
        ),
        Claim(
            "The structure is refined with subsequent observations.",
            all(a < b for a, b in pairwise(contexts)) and all(a > b for a, b in pairwise(losses)),
            f"contexts {', '.join(f'{n:,}' for n in contexts)}; loss {', '.join(f'{v:.3f}' for v in losses)} "
            f"(truth {rows[0][4]:.3f})",
        ),
    ]


def _draw(panels: Sequence[tuple[int, Any, Any, float]]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("ink", ["#ffffff", "#cfe0ea", BLUE, INK])
    components = LinearSegmentedColormap.from_list("components", [BLUE, "#f4f1ec", ORANGE])
    fig, axes = figure(2, len(panels), 3.1 * len(panels), 3.7, sharex=True, height_ratios=[12, 1])
    for ax, strip, (n, density, normal, loss) in zip(axes[0], axes[1], panels):
        ax.pcolormesh(_GRID, _GRID, density**0.6, cmap=shades, shading="nearest", rasterized=True)
        strip.imshow(normal[None, :], aspect="auto", extent=(-2, 2, 0, 1), cmap=components, vmin=0, vmax=1)
        label(ax, "", "y", f"{n:,} observations, loss {loss:.3f}")
        label(strip, "x", "")
        strip.set_yticks([])
        for each in (ax, strip):
            each.grid(False)
            each.label_outer()
    return fig
