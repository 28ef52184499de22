"""
Calibration
===========

The noise grows with x. Two plots check the predicted distributions on held-out rows: the histogram of F(y), which
should be flat, and the coverage of central intervals, which should follow the diagonal.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity
from coverwalk.evaluation import coverage, log_loss, plot_pit, plot_reliability

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (2000, 2))
y = np.sin(6 * X[:, 0]) + (0.05 + 0.5 * X[:, 0]) * rng.standard_normal(2000)
model = ConditionalDensity().fit(X[:1000], y[:1000])
dist = model.predict_dist(X[1000:])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
plot_pit(y[1000:], dist, ax=left)
plot_reliability(y[1000:], dist, ax=right)

# %%
# In numbers:

print(f"log loss {log_loss(y[1000:], dist):.3f} nats, 90 % intervals cover {coverage(y[1000:], dist, 0.9):.1%}")
