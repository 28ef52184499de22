"""
A fan of quantiles
==================

Rows around a ring: y is not a function of x plus noise. The plot shows the density of y over a grid of x, with
quantiles.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity
from coverwalk.datasets import make_ring
from coverwalk.evaluation import plot_conditional

x, y = make_ring(2000, seed=0)
model = ConditionalDensity().fit(x, y)
grid = np.linspace(-1.6, 1.6, 160)
ax = plot_conditional(model.predict_dist(grid[:, None]), grid, data=(x[:, 0], y))
ax.set(xlabel="x", ylabel="y")

# %%
# The same quantiles as numbers. They never cross, because they come from one distribution.

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
fan = model.predict(grid[:, None], quantiles=levels)
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for low, high, shade, words in ((0, 4, 0.25, "90 % interval"), (1, 3, 0.5, "50 % interval")):
    ax.fill_between(grid, fan[:, low], fan[:, high], alpha=shade, color="tab:blue", linewidth=0, label=words)
ax.plot(grid, fan[:, 2], color="black", linewidth=1, label="median")
ax.set(xlabel="x", ylabel="y", title="Central intervals and median")
ax.legend(loc="upper right")
