"""
Two outputs together
====================

A robot arm can reach a point with its elbow up or down. Both angles are uncertain, and they depend on each other. The
joint distribution keeps them together; two separate models would not.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity

rng = np.random.default_rng(0)
elbow = rng.choice([-1.0, 1.0], 900) * rng.uniform(0.4, 1.6, 900)
shoulder = rng.uniform(-0.5, 0.5, 900) - 0.5 * elbow
reach = np.stack([np.cos(shoulder) + np.cos(shoulder + elbow), np.sin(shoulder) + np.sin(shoulder + elbow)], axis=1)
angles = np.stack([shoulder, elbow], axis=1) + 0.03 * rng.standard_normal((900, 2))
model = ConditionalDensity(8).fit(reach, angles)

# %%
# On the left, draws of both angles for one position of the hand: two clusters, and almost nothing in between. On the
# right, the arms that these angles make: all end near the target.

target = np.array([[1.5, 0.0]])
draws = model.predict_dist(target).rvs(400, random_state=0)[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(*angles.T, ".", markersize=2, color="0.8", label="rows")
left.plot(*draws.T, ".", markersize=4, color="tab:blue", label="drawn for one reach")
left.set(xlabel="shoulder, rad", ylabel="elbow, rad", title="Angles")
left.legend(frameon=False)

for a, b in draws[:40]:
    right.plot(
        np.cumsum([0, np.cos(a), np.cos(a + b)]), np.cumsum([0, np.sin(a), np.sin(a + b)]), color="tab:blue", alpha=0.2
    )
right.plot(*target[0], "x", color="black", markersize=9, label="target")
right.set(title="Forty drawn arms", aspect="equal", xlabel="metres", ylabel="metres")
right.legend(frameon=False)
