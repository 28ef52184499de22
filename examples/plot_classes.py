"""
Classes, and how sure to be of them
===================================

Two moons: the probability of a class over the plane, sharp where rows tell and open where they do not.
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
temperature = ax.pcolormesh(a, b, p, cmap="coolwarm", vmin=0, vmax=1, shading="auto", rasterized=True)
ax.scatter(*X.T, c=y, cmap="coolwarm", edgecolor="white", s=18)
figure.colorbar(temperature, label="P(class 1 | x)")

# %%
# Log loss of rows that it has not seen:

X_new, y_new = make_moons(2000, noise=0.25, random_state=1)
print(round(float(-model.predict_log_proba(X_new)[np.arange(2000), y_new].mean()), 3), "nats")
