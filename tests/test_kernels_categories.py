"""Categories that come after the trees have grown: kernels that index by them find room for each.

CI runs this with bounds checks, without which such a mistake reads or writes somewhere else in silence.
"""

import numpy as np
import pandas as pd
import pytest

from coverwalk import ConditionalDensity, ContextClassifier, DoubleTree

LATER = [["w"], ["w", "x", "y", "z"], [f"level {i}" for i in range(70)]]  # more than have a bit of their own


def rows(categories, n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(categories, n)}), rng.normal(size=n)


@pytest.mark.parametrize("begin", ["fit", "partial_fit", "fit_chunks"])
@pytest.mark.parametrize(
    "model", [ContextClassifier(2, 2, random_state=0), ConditionalDensity(2, stop=0.5, degree=1), DoubleTree()]
)
def test_new_categories_of_further_rows(model, begin):
    if not hasattr(model, begin):
        pytest.skip("a double tree has no chunks")
    labels = isinstance(model, ContextClassifier)

    def target(y):
        return y > 0 if labels else y

    X, y = rows(["u", "v"], 120, 0)
    if begin == "fit_chunks":
        model.fit_chunks([(X[:60], target(y[:60])), (X[60:], target(y[60:]))], sample_rows=50)
    else:
        getattr(model, begin)(X, target(y))
    for seed, categories in enumerate(LATER, 1):
        X, y = rows(categories, 150 if seed == 3 else 20, seed)  # the last make all trees grow again
        model.partial_fit(X, target(y))
        told = model.predict_proba(X) if labels else model.predict(X)
        assert np.isfinite(told).all()
