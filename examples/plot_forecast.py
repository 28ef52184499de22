"""
A forecast with its uncertainty
===============================

The noise of this series depends on its level. The model predicts the next value from the last two. Drawing from it step
by step gives paths, and the quantiles of many paths are the forecast.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity

rng = np.random.default_rng(1)
series = np.zeros(600)
for t in range(2, 600):
    level = 1.5 * series[t - 1] - 0.8 * series[t - 2]
    series[t] = level + (0.15 + 0.25 * (series[t - 1] > 0)) * rng.standard_normal()
lags = np.stack([series[1:-1], series[:-2]], axis=1)
model = ConditionalDensity(8).fit(lags[:550], series[2:552])

# %%
# Two hundred paths of 24 steps, starting from the last known values.

state = np.tile(series[[551, 550]], (200, 1))
paths = []
for step in range(24):
    drawn = model.predict_dist(state).rvs(random_state=step)
    state = np.column_stack([drawn, state[:, 0]])
    paths.append(drawn)
fan = np.quantile(paths, [0.05, 0.25, 0.5, 0.75, 0.95], axis=1)

# %%
# The forecast, and the values observed later.

ahead = np.arange(552, 576)
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.plot(np.arange(510, 552), series[510:552], color="black", label="known")
ax.fill_between(ahead, fan[0], fan[4], alpha=0.2, color="tab:blue", linewidth=0, label="90 %")
ax.fill_between(ahead, fan[1], fan[3], alpha=0.4, color="tab:blue", linewidth=0, label="50 %")
ax.plot(ahead, fan[2], color="tab:blue", label="median")
ax.plot(ahead, series[552:576], "--", color="black", label="observed later")
ax.set(xlabel="time", ylabel="value", title="24 steps ahead")
ax.legend(frameon=False, ncols=3)
covered = np.mean((fan[0] <= series[552:576]) & (series[552:576] <= fan[4]))
print(f"The 90 % intervals cover {covered:.0%} of the 24 values.")
