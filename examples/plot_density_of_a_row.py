"""
The density of one row
======================

Two branches diverge as x grows. A point prediction lies between them, where there are no rows. The density has two
modes.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity
from coverwalk.evaluation import plot_contexts

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 800)
y = rng.choice([-1.0, 1.0], 800) * x + 0.1 * rng.standard_normal(800)
model = ConditionalDensity().fit(x[:, None], y)

# %%
# The distribution of y at three places, as one vectorised object with SciPy's names.

places = np.array([0.1, 0.5, 0.9])
dist = model.predict_dist(places[:, None])
grid = np.linspace(-1.5, 1.5, 400)
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for place, density in zip(places, dist.pdf(grid[None, :])):
    ax.plot(grid, density, label=f"x = {place}")
ax.set(xlabel="y", ylabel="p(y | x)", title="Predicted densities")
ax.legend(frameon=False)

# %%
# What is the prediction based on? The contexts and local models for x = 0.9, those with the largest weights first.

plot_contexts(dist[2])
