"""The distribution of one row as a `scipy.stats` distribution, for code that takes nothing else."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rv_continuous

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution

__all__ = ["freeze"]


class _Law(rv_continuous):
    """Every method SciPy would work out by quadrature or root finding is answered by the distribution itself."""

    def __init__(self, dist: "PredictiveDistribution") -> None:
        super().__init__(name="coverwalk")
        self.dist = dist

    def _updated_ctor_param(self) -> dict[str, Any]:
        return {"dist": self.dist}  # freezing makes a copy of the distribution through its constructor

    def _logpdf(self, x: Any) -> Any:  # type: ignore[override]
        return self.dist.logpdf(x)

    def _pdf(self, x: Any) -> Any:  # type: ignore[override]
        return self.dist.pdf(x)

    def _cdf(self, x: Any) -> Any:  # type: ignore[override]
        return self.dist.cdf(x)

    def _sf(self, x: Any) -> Any:  # type: ignore[override]
        return self.dist.sf(x)

    def _ppf(self, q: Any) -> Any:  # type: ignore[override]
        return self.dist.ppf(q)

    def _isf(self, q: Any) -> Any:  # type: ignore[override]
        return self.dist.ppf(1 - np.asarray(q))

    def _rvs(self, size: Any = None, random_state: Any = None) -> Any:  # type: ignore[override]
        return self.dist.rvs(size, random_state)

    def _stats(self) -> Any:  # type: ignore[override]
        return self.dist.mean(), self.dist.var(), None, None

    def _entropy(self) -> Any:
        return self.dist.entropy()


def freeze(dist: "PredictiveDistribution") -> Any:
    """A frozen SciPy distribution with the distribution of a one-row ``dist``."""
    return _Law(dist).freeze()
