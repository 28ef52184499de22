"""Draws the plots of the README and of "How it works": ``python docs/img/make.py [folder]``.

A test draws them again and compares, so that they cannot become stale.
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import CoverModel
from coverwalk.cli import demo
from coverwalk.covers import DyadicBoxes
from coverwalk.local import Polynomial

COLOURS = ["#6c757d", "#2a9d8f", "#c77f12", "#c8553d"]  # of the contexts, coarse to fine


def draw_faithful(path: Path) -> None:
    """What ``coverwalk demo`` draws."""
    demo.draw(*demo.fit_models(), str(path))


def draw_walk(path: Path) -> None:
    """Four covers of [0, 1], the contexts of one x, the walk over them, and the mixture that it predicts."""
    rng = np.random.default_rng(3)
    X = rng.random(40)
    Y = np.where(X < 0.5, 0.2, np.where(X < 0.75, 1.0, 1.7)) + 0.25 * rng.standard_normal(40)
    x, depth = 0.65, 3
    cover = DyadicBoxes(0, 1, depth=depth)
    model = CoverModel(cover, Polynomial(0), walk="refine", stop=0.5)
    model.update_many(X, Y)
    weight = {component.context: component for component in model.posterior(x)}
    figure, axes = plt.subplot_mosaic(
        [["rows", "densities"], ["covers", "densities"]],
        figsize=(11, 6.2),
        height_ratios=[1, 1.25],
        width_ratios=[1.5, 1],
        layout="constrained",
    )
    _draw_rows(axes["rows"], X, Y, x)
    _draw_covers(axes["covers"], cover, x, [weight[level[0]].weight for level in cover.contexts([x])])
    _draw_densities(axes["densities"], model, x, [weight[level[0]] for level in cover.contexts([x])])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_rows(ax, X, Y, x) -> None:  # noqa: ANN001
    ax.plot(X, Y, "o", markersize=3, color="0.35")
    ax.axvline(x, color="black", linewidth=1, linestyle=":")
    ax.text(x, 2.55, " a new x", fontsize=9)
    ax.set(xlim=(0, 1.16), ylim=(-0.3, 2.8), ylabel="y", xticks=[])
    ax.set_title("Rows", loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_covers(ax, cover, x, weights) -> None:  # noqa: ANN001
    for k, weight in enumerate(weights):
        n, here = 2**k, int(x * 2**k)
        for i in range(n):
            colour = COLOURS[k] if i == here else "#eceff1"
            ax.add_patch(plt.Rectangle((i / n + 0.003, -k), 1 / n - 0.006, 0.5, color=colour, linewidth=0))
        ax.text(-0.015, -k + 0.25, f"cover {k + 1}", ha="right", va="center", fontsize=9)
        label = f"stops here: {weight:.0%}"
        place = (here + 0.5) / n if k else 0.5 * x  # beside the line of x
        ax.text(place, -k + 0.25, label if k < 2 else f"{weight:.0%}", ha="center", va="center",
                fontsize=9, color="white")  # fmt: skip
    ax.axvline(x, color="black", linewidth=1, linestyle=":")
    low, high = -len(weights) + 1.25, 0.25
    for place, name, (start, end) in ((1.04, "refine", (high, low)), (1.12, "coarsen", (low, high))):
        ax.annotate("", (place, end), (place, start), arrowprops={"arrowstyle": "->", "lw": 1.6})
        ax.text(place - 0.012, (low + high) / 2, name, rotation=90, ha="right", va="center", fontsize=9)
    ax.set(xlim=(0, 1.16), ylim=(-len(weights) + 0.85, 0.6), xlabel="x", yticks=[], xticks=[0, 0.25, 0.5, 0.75, 1])
    ax.set_title("Covers: each box is a context; the coloured ones contain x", loc="left", fontsize=11)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_densities(ax, model, x, components) -> None:  # noqa: ANN001
    grid = np.linspace(-0.5, 2.6, 300)
    psi = [np.exp(model.log_predict(x, y)) for y in grid]
    ax.fill_betweenx(grid, psi, color="0.88", linewidth=0)
    ax.plot(psi, grid, color="black", linewidth=3, label="prediction: their mixture")
    for k, component in enumerate(components):
        phi = [np.exp(component.posterior.logpdf(np.array([x]), np.array([y]))) for y in grid]
        ax.plot(
            phi, grid, color=COLOURS[k], linewidth=1.6, label=f"local model of cover {k + 1}, {component.weight:.0%}"
        )
    ax.set(xlabel="density of y given x", ylim=(-0.5, 2.6), xlim=(0, None), ylabel="y")
    ax.set_title("What their local models predict for x", loc="left", fontsize=11)
    ax.legend(frameon=False, fontsize=9, loc="upper right")
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    draw_faithful(folder / "faithful.png")
    draw_walk(folder / "walk.png")
