"""
A fan of quantiles
==================

Rows around a ring: no function, no noise around a line. The density over a grid of x, with its quantiles.
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
# The same as plain numbers: quantiles never cross, since they come from one distribution.

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
fan = model.predict(grid[:, None], quantiles=levels)
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for low, high, shade in ((0, 4, 0.25), (1, 3, 0.5)):
    ax.fill_between(grid, fan[:, low], fan[:, high], alpha=shade, color="tab:blue", linewidth=0)
ax.plot(grid, fan[:, 2], color="black", linewidth=1)
ax.set(xlabel="x", ylabel="y", title="5, 25, 50, 75 and 95 %")
