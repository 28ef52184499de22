"""A stream of points in R^q: the root context of `DoubleTree` on its own, as the engine of Density(covers="kd")."""

from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from coverwalk.locks import adopt, alone, twin, writes
from coverwalk.streams.checked_rows import as_row
from coverwalk.streams.kd_engine import KdEngine, Plan

__all__ = ["PointStream"]

Floats = NDArray[np.float64]


def _streams(model: Any) -> bool:
    if model.covers != "kd":
        raise AttributeError(f'only covers="kd" learns point by point, this model has covers={model.covers!r}: use fit')
    return True


class PointStream:
    """The verbs of a stream of points."""

    covers: str
    max_depth: int | None
    a: float
    halve: float
    ridge: float
    nu: float | None
    scatter: float
    settle: int
    n_features_in_: int

    def _points(self, X: Any, *, reset: bool) -> Floats:
        raise NotImplementedError

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @writes
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn further points in order. All are checked first: a bad one leaves the model as it was."""
        self.prequential(X)
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @writes
    def prequential(self, X: Any, y: Any = None) -> Floats:
        """Learn further points in order; returns the log density (n,) each had just before it was learned."""
        if hasattr(self, "_engine") and not self._engine.wants_copy(len(X)):
            Y = self._points(X, reset=False)
            with alone(self):
                return self._engine.learn(np.empty((len(Y), 0)), Y)
        model = twin(self)
        Y = model._points(X, reset=not hasattr(self, "_engine"))
        if hasattr(self, "_engine"):
            model._engine = deepcopy(self._engine)
        else:
            model._begin(Y.shape[1])
        log_density = model._engine.learn(np.empty((len(Y), 0)), Y)
        adopt(self, model)
        return log_density

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @writes
    def learn_one(self, x: Any) -> float:
        """Learn one point, a number or a vector; returns its log density before it was learned."""
        begun = hasattr(self, "_engine")
        row = as_row(x, "y", self.n_features_in_ if begun else None)
        with alone(self):
            if not begun:
                self.n_features_in_ = row.shape[1]
                self._begin(row.shape[1])
            return float(self._engine.learn(np.empty((1, 0)), row)[0])

    def _begin(self, q: int) -> None:
        plan = Plan(
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
        self._engine = KdEngine(plan.check(), 0, q)
