"""Scorers for `cross_val_score`, `GridSearchCV` and other searches of scikit-learn. Higher is better.

Each is called as ``scorer(estimator, X, y)``. The estimator is one of coverwalk's, a search over one, or a scikit-learn
`Pipeline` that ends in one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coverwalk._docstrings import SCORES, document
from coverwalk.distributions.base import Distribution
from coverwalk.evaluation import metrics

__all__ = [
    "IntervalScorer",
    "PinballScorer",
    "crps_scorer",
    "interval_scorer",
    "nll_scorer",
    "pinball_scorer",
    "predictive_distribution",
]


def predictive_distribution(estimator: Any, X: Any) -> Distribution:
    """The distributions that an estimator predicts, also inside a search or a pipeline."""
    if hasattr(estimator, "predict_dist"):
        dist: Distribution = estimator.predict_dist(X)
        return dist
    if hasattr(estimator, "best_estimator_"):
        return predictive_distribution(estimator.best_estimator_, X)
    if hasattr(estimator, "steps"):
        return predictive_distribution(estimator[-1], estimator[:-1].transform(X) if len(estimator.steps) > 1 else X)
    raise TypeError(
        f"{type(estimator).__name__} does not predict distributions: score a ConditionalDensity, or a pipeline that "
        "ends in one"
    )


def nll_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Mean log density of the rows: the negated log loss (NLL).

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from coverwalk import ConditionalDensity
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = X[:, 0] + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> cross_val_score(ConditionalDensity(4, stop=0.5), X, y, cv=3, scoring=nll_scorer).shape
    (3,)
    """
    return -metrics.log_loss(_like(y), predictive_distribution(estimator, X))


def crps_scorer(estimator: Any, X: Any, y: Any) -> float:
    """The negated mean CRPS; with several outputs, the mean over them."""
    return -metrics.crps(_like(y), predictive_distribution(estimator, X))


@dataclass(frozen=True)
class IntervalScorer:
    """The negated mean interval (Winkler) score.

    Parameters
    ----------
    confidence : float
        Confidence of the central interval.
    """

    confidence: float = 0.9

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The score of a fitted estimator on rows X and y."""
        return -metrics.interval_score(_like(y), predictive_distribution(estimator, X), self.confidence)


@dataclass(frozen=True)
class PinballScorer:
    """The negated mean pinball loss of one quantile.

    Parameters
    ----------
    quantile : float
        Level of the quantile.
    """

    quantile: float = 0.5

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The score of a fitted estimator on rows X and y."""
        return -metrics.pinball_loss(_like(y), predictive_distribution(estimator, X), self.quantile)


def _like(y: Any) -> Any:
    """A column (n, 1) as (n,), as `fit` takes it."""
    y = np.asarray(y, dtype=np.float64)
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


interval_scorer = IntervalScorer()
pinball_scorer = PinballScorer()
document(globals(), SCORES)
