"""
Importances and explanations
============================

Which inputs change the prediction, and which ones change its uncertainty.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from coverwalk import ConditionalDensity
from coverwalk.evaluation import plot_dependence, plot_importance

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(-1, 1, size=(600, 3)), columns=["dose", "noise", "idle"])
y = 2 * (X["dose"] > 0) + np.where(X["noise"] > 0, 0.5, 0.05) * rng.standard_normal(600)
model = ConditionalDensity(8).fit(X[:400], y[:400])

# %%
# The permutation importance of a feature is the increase in log loss when the feature is shuffled among held-out rows.
# ``noise`` does not change the mean, but it is important: it decides how wide the distribution is.

importance = model.importance(X[400:], y[400:])
print(importance)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 3.6), layout="constrained")
plot_importance(importance, ax=left)
plot_dependence(model.partial_dependence(X[400:], "dose"), ax=middle)
plot_dependence(model.partial_dependence(X[400:], "noise"), ax=right)

# %%
# An explanation of one prediction, in the names and units of the inputs.

print(model.explain(X[400:401]))

# %%
# Model-agnostic explainers take any function of the rows. Here shap, if it is installed, explains the width of the 90 %
# interval.

try:
    with warnings.catch_warnings(action="ignore"):  # of its own use of matplotlib
        import shap
except ImportError:
    print("pip install shap to run this part")
else:

    def width(rows):
        """Width of the 90 % interval in each row."""
        low, high = model.predict_dist(pd.DataFrame(rows, columns=X.columns)).interval(0.9)
        return high - low

    explainer = shap.explainers.Permutation(width, X[:10].to_numpy(), feature_names=list(X.columns), seed=0)
    values = explainer(X[400:403].to_numpy())
    for name, mean in zip(X.columns, np.abs(values.values).mean(axis=0)):
        print(f"{name}: changes the width of the interval by {mean:.3f} on average")
