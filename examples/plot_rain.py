"""
Rain: many zeros and a long tail
================================

Half of the days are dry. The model finds that the value zero is frequent and gives it a probability of its own.
``bounds`` keeps all predictions at or above zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity

rng = np.random.default_rng(0)
pressure = rng.uniform(-2, 2, size=(800, 1))
wet = rng.random(800) < 1 / (1 + np.exp(2 * pressure[:, 0]))
rain = np.where(wet, rng.gamma(2.0, 3.0 * np.exp(-0.4 * pressure[:, 0])), 0.0)
model = ConditionalDensity(8, bounds=(0, None)).fit(pressure, rain)

# %%
# The probability of a dry day, and the quantiles of the rain, over the pressure.

grid = np.linspace(-2, 2, 60)
dist = model.predict_dist(grid[:, None])
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(grid, dist.pmf(0.0), color="tab:blue", label="predicted")
left.plot(grid, 1 - 1 / (1 + np.exp(2 * grid)), "--", color="0.5", label="true")
left.set(xlabel="pressure", ylabel="P(rain = 0)", ylim=(0, 1), title="A dry day")
left.legend(frameon=False)
right.plot(pressure[:, 0], rain, ".", markersize=2, color="0.6")
for level, style in ((0.5, "-"), (0.9, "--"), (0.99, ":")):
    right.plot(grid, dist.ppf(level), style, color="tab:blue", label=f"{level:.0%} quantile")
right.set(xlabel="pressure", ylabel="rain, mm", title="How much it may be")
right.legend(frameon=False)

# %%
# Events have probabilities: dry, some rain, more than 10 mm.

for p in (-1.5, 0.0, 1.5):
    day = model.predict_dist([[p]])
    print(f"pressure {p:4.1f}: dry {day.pmf(0.0)[0]:.0%}, more than 10 mm {day.exceedance(10.0)[0]:.0%}")
