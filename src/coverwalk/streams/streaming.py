"""What ConditionalDensity can do beside `fit` when its covers grow with the rows: covers="kd"."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from coverwalk._sound import check_names, hold
from coverwalk.streams.double_tree import DoubleTree

__all__ = ["KdStream"]

Floats = NDArray[np.float64]


def _streams(model: Any) -> bool:
    if model.covers != "kd":
        raise AttributeError(f'only covers="kd" learns row by row, this model has covers={model.covers!r}: use fit')
    return True


class KdStream:
    """The verbs of a stream, answered by a `DoubleTree`."""

    covers: str
    walk: Any
    alpha: float
    stop: float | str

    def _begin_stream(self) -> DoubleTree:
        stop = None if isinstance(self.stop, str) else self.stop
        self.double_tree_ = DoubleTree(walk=self.walk, alpha=self.alpha, stop=stop)
        return self.double_tree_

    def _streamed(self) -> Self:
        """Show what the stream knows of its rows, as after `fit`."""
        for name in ("n_features_in_", "feature_names_in_", "n_outputs_", "_flat"):
            if hasattr(self.double_tree_, name):
                setattr(self, name, getattr(self.double_tree_, name))
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn further rows in order. All are checked first: a bad one leaves the model as it was."""
        self.prequential(X, y)
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def prequential(self, X: Any, y: Any) -> Floats:
        """Learn further rows in order; returns the log density (n,) that each had just before it was learned."""
        tree = self.double_tree_ if hasattr(self, "n_outputs_") else self._begin_stream()
        log_density = tree.prequential(X, y)
        self._streamed()
        return log_density

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def learn_one(self, x: Any, y: Any) -> float:
        """Learn one row, x (p,) or a number and y (q,) or a number; returns its log density before it was learned."""
        if hasattr(self, "n_outputs_"):
            return self.double_tree_.learn_one(x, y)
        log_density = self._begin_stream().learn_one(x, y)
        self._streamed()
        return log_density

    def _check_loaded_stream(self) -> None:
        """Refuse a file whose parts do not fit together; the tree checks itself."""
        if not hasattr(self, "double_tree_"):  # saved before its first row
            return
        tree = self.double_tree_
        hold("the stream", isinstance(tree, DoubleTree))
        for name in ("n_features_in_", "n_outputs_", "_flat"):
            hold(name, getattr(self, name, None) == getattr(tree, name, None))
        check_names(self)
