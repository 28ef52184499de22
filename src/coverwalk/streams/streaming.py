"""What ConditionalDensity can do beside `fit`: learn row by row, with either kind of covers."""

from copy import deepcopy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from coverwalk.forest.schedule import StreamSettings
from coverwalk.forests.forest import Forest, Settings
from coverwalk.locks import adopt, alone, reads, twin, writes
from coverwalk.mixed_inputs import MixedInputs, read_inputs
from coverwalk.streams.chain import StreamChain
from coverwalk.streams.checked_rows import as_outputs, as_row, numbers_only, refuse_nonfinite
from coverwalk.streams.double_tree import DoubleTree

__all__ = ["Streaming"]

Floats = NDArray[np.float64]

N_TREES = 16  # of a stream that began as one: every row is learned by each of them


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
    categorical_features: Any
    _mixed: MixedInputs
    stream_: StreamChain
    forests_: list[Forest]
    n_features_in_: int
    n_outputs_: int
    _flat: bool

    @writes
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn further rows in order. A bad row, or an interrupt, leaves the model as it was.

        To that end the rows are learned by a copy of what the model has learned since its trees grew. For single rows,
        `learn_one` is faster: it learns in place.
        """
        self._learn_rows(X, y, scored=False)
        return self

    @writes
    def prequential(self, X: Any, y: Any) -> Floats:
        """Learn further rows in order; returns the log density (n,) that each had just before it was learned."""
        return self._learn_rows(X, y, scored=True)

    def _learn_rows(self, X: Any, y: Any, *, scored: bool) -> Floats:
        if y is None:
            raise ValueError("This ConditionalDensity estimator requires y to be passed, but the target y is None.")
        self._check_covers()
        begun, model = hasattr(self, "n_outputs_"), twin(self)  # all that changes is the twin's until all is learned
        if self.covers == "kd":
            return self._streamed(X, y, begun)
        model.__dict__.pop("calibration_", None)  # it was measured on the model as it was
        settings = self._stream_settings()  # a parameter's mistake is told before one of the rows
        Y, flat = as_outputs(y)
        if begun and Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns as in the rows before, got {Y.shape[1]}")
        X = model._read(X, begun)
        if len(X) != len(Y):
            raise ValueError(f"X and y must have the same number of rows, got {len(X)} and {len(Y)}")
        X = np.require(X, requirements=["C", "W"])  # kernels are compiled for nothing else
        chain = model._next_chain(settings, X.shape[1], Y.shape[1])
        chain.name_levels(model._mixed.level_names)
        log_density = chain.learn(X, np.require(Y, requirements="W"), scored=scored)
        model._show_chain(chain, Y.shape[1], flat)
        adopt(self, model)
        return log_density

    def _check_covers(self) -> None:
        learned = {"stream_", "forests_"} if self.covers == "kd" else {"double_tree_"}
        if learned & vars(self).keys():
            raise ValueError(f"covers={self.covers!r} was set after the model had learned with other covers: use fit")

    @writes
    def learn_one(self, x: Any, y: Any) -> float:
        """Learn one row, x (p,) or a number and y (q,) or a number; returns its log density before it was learned."""
        self._check_covers()
        if "stream_" in self.__dict__ or "double_tree_" in self.__dict__:
            return self._learn_one(x, y)
        model = twin(self)
        log_density = model._learn_one(x, y)
        adopt(self, model)
        return log_density

    def _learn_one(self, x: Any, y: Any) -> float:
        """As `learn_one`, in place."""
        stream = self.__dict__.get("stream_")
        begun = "n_outputs_" in self.__dict__
        mixed = self._mixed
        if any(mixed.levels) or not begun:
            mixed = self._with_levels(x, begun)
        if self.covers == "kd":
            tree = self.double_tree_ if begun else self._new_tree()
            row, outputs = tree._checked_row(mixed.row(x), y)
            with alone(self):
                log_density = float(tree._learn(row, outputs, np.ndim(y) == 0)[0])
                self._mixed = mixed
                self._show(tree)
                self.__dict__.pop("calibration_", None)
            return log_density
        row = as_row(mixed.row(x), "x", self.n_features_in_ if begun else None, gaps=True)
        outputs = as_row(y, "y", self.n_outputs_ if begun else None)
        if stream is None:
            settings = self._stream_settings()
            if not begun:
                self.n_features_in_ = row.shape[1]
            self._mixed = mixed
            stream = self._next_chain(settings, row.shape[1], outputs.shape[1])
            stream.name_levels(mixed.level_names)
            self._show_chain(stream, outputs.shape[1], np.ndim(y) == 0)
        with alone(self):
            self.__dict__.pop("calibration_", None)
            if mixed is not self._mixed:
                self._mixed = mixed
                stream.name_levels(mixed.level_names)
            log_density = stream.learn_one(row, outputs)
        return log_density

    @writes
    def _learn_row(self, row: Floats, y: float) -> float:
        """As `learn_one`, for a checked row (1, p) of one output, of numbers."""
        stream = self.__dict__.get("stream_")
        if stream is None:
            return self.learn_one(row, y)
        with alone(self):
            self.__dict__.pop("calibration_", None)
            log_density: float = stream.streams[0].learn_one(row, y)
        return log_density

    @reads
    def _mean_of_row(self, row: Floats) -> float:
        """As `predict`, for a checked row (1, p) of one output."""
        stream = self.__dict__.get("stream_")
        if stream is None or any(self._mixed.levels):
            return float(self.predict(row)[0])  # type: ignore[attr-defined]
        mean: float = stream.streams[0].predict_mean_one(row)
        return mean

    def _read(self, X: Any, begun: bool) -> Floats:
        """A table of inputs as numbers; new levels of its categories have numbers from here on."""
        mixed = self._mixed if begun else MixedInputs.begun(X, self.categorical_features)
        with numbers_only():
            table: Floats = read_inputs(
                self, X, reset=not begun, mixed=mixed.grown(X), order="C", ensure_all_finite=False
            )
        return refuse_nonfinite(table, "X", gaps=True)

    def _with_levels(self, x: Any, begun: bool) -> MixedInputs:
        """What is known of the categories once the levels of one row x are."""
        x = np.asarray(x, dtype=object).reshape(-1) if np.ndim(x) != 1 else x  # a number, or a row of a table
        if begun and self._mixed.knows(x):
            return self._mixed
        values = np.empty((1, len(x)), dtype=object)
        values[0, :] = list(x)
        return (self._mixed if begun else MixedInputs.begun(values, self.categorical_features)).grown(values)

    # -- a forest's stream --------------------------------------------------------------------------------------------

    def _stream_settings(self) -> StreamSettings:
        """The parameters, checked, as a stream takes them."""
        chosen: Settings = self._settings(0)  # type: ignore[attr-defined]
        n_trees = N_TREES if self.n_trees is None else chosen.n_trees
        return StreamSettings(
            replace(chosen, n_trees=n_trees),
            choose=self.stop == "auto",
            max_rows=int(self.max_rows),
            max_contexts=int(self.max_contexts),
            decay=float(self.forget),
        )

    def _next_chain(self, settings: StreamSettings, p: int, q: int) -> StreamChain:
        """The streams of the outputs to learn with: a copy of those that are there, or going on from `fit`, or new."""
        if "stream_" in self.__dict__:
            return self.stream_.copy()
        if "forests_" in self.__dict__:
            if any(forest.n_summed for forest in self.forests_):
                raise ValueError("a model of chunks kept sums, not rows, to go on from: use fit_chunks with all chunks")
            each = [replace(settings, forest=forest.settings) for forest in self.forests_]
            return StreamChain.of(self.forests_, each)
        names = list(getattr(self, "feature_names_in_", [f"x{a}" for a in range(p)]))
        return StreamChain.new(settings, names, q, self._mixed.n_levels)

    def _show_chain(self, chain: StreamChain, q: int, flat: bool) -> None:
        """Have the model be a stream."""
        if "n_outputs_" not in self.__dict__:
            self.n_outputs_, self._flat = q, flat
        self.stream_ = chain
        self.__dict__.pop("forests_", None)  # it does not know the rows to come

    # -- the paper's stream, covers="kd" ------------------------------------------------------------------------------

    def _new_tree(self) -> DoubleTree:
        stop = None if isinstance(self.stop, str) else self.stop
        return DoubleTree(walk=self.walk, alpha=self.alpha, stop=stop)

    def _streamed(self, X: Any, y: Any, begun: bool) -> Floats:
        """Rows learned by the tree that is there or, where none has ``begun``, by a new one; their log densities."""
        tree, model = self.double_tree_ if begun else self._new_tree(), twin(self)
        model.__dict__.pop("calibration_", None)
        Z, Y, flat = tree._checked(model._read(X, begun), y, reset=not begun)
        if begun and not tree._engine.wants_copy(len(Z)):
            with alone(self):
                log_density = tree._learn(Z, Y, flat)
                self.__dict__ = model.__dict__
            return log_density
        tree = deepcopy(tree)
        log_density = tree._learn(Z, Y, flat)
        model._show(tree)
        adopt(self, model)
        return log_density

    def _show(self, tree: DoubleTree) -> None:
        """Show what the tree knows of its rows, as after `fit`."""
        self.double_tree_, self.n_features_in_ = tree, tree.n_features_in_
        self.n_outputs_, self._flat = tree.n_outputs_, tree._flat
