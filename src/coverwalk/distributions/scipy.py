"""The distribution of one row as a `scipy.stats` distribution, for code that takes nothing else."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rv_continuous

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution

__all__ = ["ScipyDistribution"]


class ScipyDistribution(rv_continuous):
    """Every method SciPy would work out by quadrature or root finding is answered by the distribution itself."""

    def __init__(self, dist: "PredictiveDistribution") -> None:
        super().__init__(name="coverwalk")
        self.dist = dist
        for name in ("logpdf", "pdf", "cdf", "sf", "ppf", "rvs"):
            setattr(self, f"_{name}", getattr(dist, name))

    def _updated_ctor_param(self) -> dict[str, Any]:
        return {"dist": self.dist}  # freezing makes a copy of the distribution through its constructor

    def _isf(self, q: Any) -> Any:  # type: ignore[override]
        return self.dist.ppf(1 - np.asarray(q))

    def _stats(self) -> Any:  # type: ignore[override]
        return self.dist.mean(), self.dist.var(), None, None

    def _entropy(self) -> Any:
        return self.dist.entropy()
