"""Density: p(y) without an x, the same engine with a single context."""

import os
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from coverwalk.streams.checked_rows import as_outputs, as_row
from coverwalk.streams.kd_engine import KdEngine, Plan
from coverwalk.streams.kd_soundness import check_stream

if TYPE_CHECKING:
    from coverwalk.distribution import PredictiveDistribution

__all__ = ["Density"]

Floats = NDArray[np.float64]


class Density(BaseEstimator):  # type: ignore[misc]
    """The density of a stream of points in R^q: a Normal-Wishart and a Bayes tree density, weighed by their evidence.

    The root context of `DoubleTree`, on its own: order-free but for the units, which settle as described there.

    Parameters
    ----------
    max_depth : int, optional
        Greatest depth of the tree, at most 64; depth j halves output j mod q. By default 8 q + 4, at most 64.
    a : float
        The shares of the two halves of a cell have a Beta(a, a) prior.
    halve : float
        Prior probability that a cell is halved.
    ridge, nu, scatter : float
        Prior of the Normal-Wishart, as in `DoubleTree`.
    settle : int
        Rows after which the units of y stay.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = Density().fit(np.concatenate([rng.normal(-2, 0.1, 500), rng.normal(2, 0.1, 500)]))
    >>> left, middle, right = np.exp(model.logpdf([-2.0, 0.0, 2.0]))
    >>> bool(left > 1 > 0.01 > middle), bool(right > 1)
    (True, True)
    """

    def __init__(
        self,
        *,
        max_depth: int | None = None,
        a: float = 0.5,
        halve: float = 0.5,
        ridge: float = 1.0,
        nu: float | None = None,
        scatter: float = 1.0,
        settle: int = 4096,
    ) -> None:
        self.max_depth = max_depth
        self.a = a
        self.halve = halve
        self.ridge = ridge
        self.nu = nu
        self.scatter = scatter
        self.settle = settle

    def fit(self, y: Any, _: Any = None) -> Self:
        """Forget everything, then learn the points (n,) or (n, q) in order."""
        Y, _ = as_outputs(y)
        self._begin(Y.shape[1])
        self._engine.learn(np.empty((len(Y), 0)), Y)
        return self

    def partial_fit(self, y: Any, _: Any = None) -> Self:
        """Learn further points. All are checked first: a bad one leaves the model as it was."""
        self.prequential(y)
        return self

    def prequential(self, y: Any) -> Floats:
        """Learn further points in order; returns the log density (n,) each had just before it was learned."""
        Y, _ = as_outputs(y)
        if not hasattr(self, "_engine"):
            self._begin(Y.shape[1])
        self._check_width(Y)
        return self._engine.learn(np.empty((len(Y), 0)), Y)

    def learn_one(self, y: Any) -> float:
        """Learn one point; returns its log density before it was learned."""
        row = as_row(y, "y", self.n_outputs_ if hasattr(self, "_engine") else None)
        if not hasattr(self, "_engine"):
            self._begin(row.shape[1])
        return float(self._engine.learn(np.empty((1, 0)), row)[0])

    def logpdf(self, y: Any) -> Floats:
        """Log density (n,) of points (n,) or (n, q)."""
        check_is_fitted(self, "_engine")
        Y, _ = as_outputs(y)
        self._check_width(Y)
        return self._engine.ask(np.empty((len(Y), 0)), Y)

    def predict_dist(self) -> "PredictiveDistribution":
        """The law of the next point, for one output, with the names of a frozen SciPy distribution."""
        from coverwalk.streams.kd_distribution import predict_dist

        check_is_fitted(self, "_engine")
        if self.n_outputs_ > 1:
            raise ValueError(f"predict_dist is for one output, this model has {self.n_outputs_}: ask logpdf instead")
        return predict_dist(self._engine, np.empty((1, 0)))[0]

    def score(self, y: Any, _: Any = None) -> float:
        """Mean log density, in nats."""
        return float(self.logpdf(y).mean())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `coverwalk.load` reads; see `coverwalk.persistence`."""
        from coverwalk.persistence import save

        save(self, path)

    def _check_loaded(self) -> None:
        """Refuse a file whose parts do not fit together."""
        self._plan().check()
        if hasattr(self, "_engine"):
            check_stream(self, 0)

    def _plan(self) -> Plan:
        return Plan(
            walk="refine",
            alpha=2.0,
            stop=None,
            children="replay",
            priors="fixed",
            max_depth=self.max_depth,
            a=self.a,
            halve=self.halve,
            ridge=self.ridge,
            nu=self.nu,
            scatter=self.scatter,
            settle=self.settle,
        )

    def _begin(self, q: int) -> None:
        self._engine = KdEngine(self._plan().check(), 0, q)
        self.n_outputs_ = q

    def _check_width(self, Y: Floats) -> None:
        if Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns as in the points before, got {Y.shape[1]}")
