"""A scikit-learn `Pipeline` that also predicts distributions."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline, _final_estimator_has, _name_estimators
from sklearn.utils.metaestimators import available_if

from coverwalk._docstrings import EVENTS, ROWS, Documented
from coverwalk.distributions.base import Distribution

__all__ = ["DensityPipeline", "make_density_pipeline"]


class DensityPipeline(Documented, Pipeline):  # type: ignore[misc]
    """A scikit-learn `Pipeline` with `predict_dist`, `logpdf` and `prob`, if its last step has them.

    Parameters
    ----------
    steps : list of (name, estimator)
        As in `sklearn.pipeline.Pipeline`. The last step is an estimator with `predict_dist`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from coverwalk import ConditionalDensity
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = X[:, 0] + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> model = make_density_pipeline(StandardScaler(), ConditionalDensity(4, stop=0.5)).fit(X, y)
    >>> low, high = model.predict_dist(X[:3]).interval(0.9)
    >>> bool((low < high).all())
    True
    """

    _words = {**ROWS, **EVENTS}  # noqa: RUF012

    def _inner(self, X: Any) -> Any:
        """Rows as the last step sees them."""
        return self[:-1].transform(X) if len(self.steps) > 1 else X

    @available_if(_final_estimator_has("predict_dist"))  # type: ignore[untyped-decorator]
    def predict_dist(self, X: Any) -> Distribution:
        """Predict the distribution of y for each row."""
        dist: Distribution = self._final_estimator.predict_dist(self._inner(X))
        return dist

    @available_if(_final_estimator_has("logpdf"))  # type: ignore[untyped-decorator]
    def logpdf(self, X: Any, y: ArrayLike) -> Any:
        """Log density of each row's y."""
        return self._final_estimator.logpdf(self._inner(X), y)

    @available_if(_final_estimator_has("prob"))  # type: ignore[untyped-decorator]
    def prob(self, X: Any, low: Any = float("-inf"), high: Any = float("inf")) -> Any:
        """P(low < y <= high) for each row."""
        return self._final_estimator.prob(self._inner(X), low, high)


def make_density_pipeline(*steps: Any) -> DensityPipeline:
    """Make a `DensityPipeline`, with names for its steps, as `sklearn.pipeline.make_pipeline` does.

    Parameters
    ----------
    *steps : estimators
        Transformers, and as the last step an estimator with `predict_dist`.

    Returns
    -------
    DensityPipeline
        It is not fitted.
    """
    return DensityPipeline(_name_estimators(steps))
