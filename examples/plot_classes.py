"""
Class probabilities
===================

Two moons. The predicted probability is close to 0 or 1 where the rows agree, and close to 1/2 where there are none.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from coverwalk import ContextClassifier

X, y = make_moons(400, noise=0.25, random_state=0)
model = ContextClassifier(random_state=0).fit(X, y)

a, b = np.meshgrid(np.linspace(-2, 3, 120), np.linspace(-1.5, 2, 90))
p = model.predict_proba(np.stack([a.ravel(), b.ravel()], axis=1))[:, 1].reshape(a.shape)
figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
probability = ax.pcolormesh(a, b, p, cmap="coolwarm", vmin=0, vmax=1, shading="auto", rasterized=True)
for label, colour in ((0, "tab:blue"), (1, "tab:red")):
    ax.scatter(*X[y == label].T, color=colour, edgecolor="white", s=18, label=f"class {label}")
ax.set(xlabel="x0", ylabel="x1", title="Probability of class 1, and the rows")
ax.legend()
figure.colorbar(probability, label="P(class 1 | x)")

# %%
# The log loss on held-out rows:

X_new, y_new = make_moons(2000, noise=0.25, random_state=1)
print(round(float(-model.predict_log_proba(X_new)[np.arange(2000), y_new].mean()), 3), "nats")
