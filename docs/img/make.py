"""Draws the README's pictures: ``python docs/img/make.py [folder]``; a test sees to it that they are not stale."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity
from coverwalk.datasets import make_ring
from coverwalk.evaluation import plot_conditional


def draw_ring(path: Path) -> None:
    """Rows around a ring, and the conditional density fitted to them."""
    x, y = make_ring(3000, seed=0)
    grid = np.linspace(-1.6, 1.6, 160)
    dist = ConditionalDensity().fit(x, y).predict_dist(grid[:, None])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True, sharey=True, layout="constrained")
    left.plot(x[:, 0], y, ".", markersize=2, color="0.35")
    left.set(title="3,000 rows", xlabel="x", ylabel="y", xlim=(-1.6, 1.6), ylim=(-1.8, 1.8))
    plot_conditional(dist, grid, ax=right)
    right.set_title("", loc="left")
    right.set(title="p(y | x) and its quantiles, fitted with default parameters", xlabel="x", ylabel="")
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    draw_ring(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / "ring.png")
