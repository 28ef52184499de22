"""Draws docs/img/ring.png, the picture of the README: python docs/picture.py."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity
from coverwalk.datasets import make_ring
from coverwalk.evaluation import plot_conditional

x, y = make_ring(3000, seed=0)
grid = np.linspace(-1.6, 1.6, 240)
dist = ConditionalDensity().fit(x, y).predict_dist(grid[:, None])
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True, sharey=True, layout="constrained")
left.plot(x[:, 0], y, ".", markersize=2, color="0.35")
left.set(title="3,000 rows", xlabel="x", ylabel="y", xlim=(-1.6, 1.6), ylim=(-1.8, 1.8))
plot_conditional(dist, grid, ax=right)
right.set(title="p(y | x), fitted without tuning", xlabel="x", ylabel="")
figure.savefig(Path(__file__).parent / "img" / "ring.png", dpi=110)
