"""What ConditionalDensity can do beside `fit`: learn row by row, with either kind of covers."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from coverwalk._sound import check_names, hold
from coverwalk.forests.forest import Forest, Settings
from coverwalk.streams.chain import StreamChain
from coverwalk.streams.checked_rows import as_outputs, as_row, numbers_only, refuse_nonfinite
from coverwalk.streams.double_tree import DoubleTree
from coverwalk.streams.growth import StreamSettings

__all__ = ["Streaming"]

Floats = NDArray[np.float64]

N_TREES = 10  # of a stream that began as one: every row is learned by each of them


class Streaming:
    """The verbs of a stream, answered by a `StreamChain`, or by a `DoubleTree` for covers="kd"."""

    n_trees: int | None
    covers: str
    walk: Any
    alpha: float
    stop: float | str
    max_rows: int
    max_contexts: int
    forget: float
    stream_: StreamChain
    forests_: list[Forest]
    n_features_in_: int
    n_outputs_: int
    _flat: bool

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn further rows in order. All are checked first: a bad one leaves the model as it was."""
        self.prequential(X, y)
        return self

    def prequential(self, X: Any, y: Any) -> Floats:
        """Learn further rows in order; returns the log density (n,) that each had just before it was learned."""
        if self.covers == "kd":
            tree = self.double_tree_ if hasattr(self, "n_outputs_") else self._begin_stream()
            with numbers_only():
                log_density = tree.prequential(X, y)
            self._streamed()
            return log_density
        begun = hasattr(self, "n_outputs_")
        if y is None:
            raise ValueError("This ConditionalDensity estimator requires y to be passed, but the target y is None.")
        settings = self._stream_settings()  # a parameter's mistake is told before one of the rows
        Y, flat = as_outputs(y)
        if begun and Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns as in the rows before, got {Y.shape[1]}")
        before = dict(self.__dict__)
        try:
            with numbers_only():
                X = validate_data(self, X, reset=not begun, dtype=np.float64, order="C", ensure_all_finite=False)
            refuse_nonfinite(X, "X")
            if len(X) != len(Y):
                raise ValueError(f"X and y must have the same number of rows, got {len(X)} and {len(Y)}")
        except ValueError:
            self.__dict__ = before  # names and number of inputs, which a refused first table has left
            raise
        X = np.require(X, requirements=["C", "W"])  # kernels are compiled for nothing else
        return self._chain(settings, X.shape[1], Y.shape[1], flat).learn(X, np.require(Y, requirements="W"))

    def learn_one(self, x: Any, y: Any) -> float:
        """Learn one row, x (p,) or a number and y (q,) or a number; returns its log density before it was learned."""
        if self.covers == "kd":
            if hasattr(self, "n_outputs_"):
                return self.double_tree_.learn_one(x, y)
            log_density = self._begin_stream().learn_one(x, y)
            self._streamed()
            return log_density
        stream = self.__dict__.get("stream_")
        begun = "n_outputs_" in self.__dict__
        row = as_row(x, "x", self.n_features_in_ if begun else None)
        outputs = as_row(y, "y", self.n_outputs_ if begun else None)
        if stream is None:
            settings = self._stream_settings()
            if not begun:
                self.n_features_in_ = row.shape[1]
            stream = self._chain(settings, row.shape[1], outputs.shape[1], np.ndim(y) == 0)
        return stream.learn_one(row, outputs)

    def _learn_row(self, row: Floats, y: float) -> float:
        """As `learn_one`, for a checked row (1, p) of one output."""
        stream = self.__dict__.get("stream_")
        return self.learn_one(row, y) if stream is None else stream.streams[0].learn_one(row, y)

    def _mean_of_row(self, row: Floats) -> float:
        """As `predict`, for a checked row (1, p) of one output."""
        stream = self.__dict__.get("stream_")
        if stream is None:
            return float(self.predict(row)[0])  # type: ignore[attr-defined]
        mean: float = stream.streams[0].predict_mean_one(row)
        return mean

    # -- a forest's stream --------------------------------------------------------------------------------------------

    def _stream_settings(self) -> StreamSettings:
        """The parameters, checked, as a stream takes them."""
        chosen: Settings = self._settings(0)  # type: ignore[attr-defined]
        return StreamSettings(
            n_trees=N_TREES if self.n_trees is None else chosen.n_trees,
            degree=chosen.degree,
            ridges=chosen.ridges,
            stop=chosen.stop,
            min_rows=chosen.min_rows,
            n_candidates=chosen.n_candidates,
            seed=chosen.seed,
            max_rows=int(self.max_rows),
            max_contexts=int(self.max_contexts),
            forget=float(self.forget),
        )

    def _chain(self, settings: StreamSettings, p: int, q: int, flat: bool) -> StreamChain:
        """The streams of the outputs: those that are there, or going on from what was fitted, or new."""
        if "stream_" in self.__dict__:
            return self.stream_
        if "forests_" in self.__dict__:
            if any(forest.n_summed for forest in self.forests_):
                raise ValueError("a model of chunks kept sums, not rows, to go on from: use fit_chunks with all chunks")
            if any(forest.settings.n_levels or np.isnan(forest.X).any() for forest in self.forests_):
                raise ValueError(
                    "streams take finite numbers, and this model was fitted to categories or gaps: use fit"
                )
            fitted = [forest.settings for forest in self.forests_]
            each = [replace(settings, n_trees=s.n_trees, seed=s.seed, stop=s.stop) for s in fitted]
            self.stream_ = StreamChain.of(self.forests_, each)
            del self.forests_  # it does not know the rows to come
        else:
            names = list(getattr(self, "feature_names_in_", [f"x{a}" for a in range(p)]))
            self.stream_ = StreamChain.new(settings, names, q)
            self.n_outputs_, self._flat = q, flat
        return self.stream_

    # -- the paper's stream, covers="kd" ------------------------------------------------------------------------------

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

    def _check_loaded_stream(self) -> None:
        """Refuse a file whose parts do not fit together; the tree checks itself."""
        if not hasattr(self, "double_tree_"):  # saved before its first row
            return
        tree = self.double_tree_
        hold("the stream", isinstance(tree, DoubleTree))
        for name in ("n_features_in_", "n_outputs_", "_flat"):
            hold(name, getattr(self, name, None) == getattr(tree, name, None))
        check_names(self)
