"""How ConditionalDensity learns row by row."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._docstrings import ROWS, Documented
from coverwalk.forest.chain import StreamChain
from coverwalk.forest.forest import Forest
from coverwalk.forest.schedule import StreamSettings
from coverwalk.forest.settings import Settings
from coverwalk.forest.target_choice import bounded
from coverwalk.locks import adopt, alone, reads, twin, writes
from coverwalk.preparation.checked_rows import as_outputs, as_row, refuse_lossy, usable_outputs
from coverwalk.preparation.columns import input_names
from coverwalk.preparation.stream_inputs import StreamInputs

N_TREES = 16  # of a stream that began as one: every row is learned by each of them


class Streaming(StreamInputs, Documented):
    """How `ConditionalDensity` learns row by row; a `StreamChain` does the work."""

    _words = ROWS

    n_estimators: int | None
    stop: float | str
    max_rows: int
    max_contexts: int
    forget: float
    bounds: Any
    stream_: StreamChain
    forests_: list[Forest]
    n_features_in_: int
    n_outputs_: int
    _flat: bool

    @writes
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn more rows, in order. An invalid row, or an interrupt, leaves the model unchanged.

        For single rows, `learn_one` is faster: it learns in place, while this method learns in a copy.
        """
        self._learn_rows(X, y, scored=False)
        return self

    @writes
    def prequential(self, X: Any, y: Any) -> Floats:
        """Learn more rows, in order, and return the log density of each row before it was learned."""
        return self._learn_rows(X, y, scored=True)

    def _learn_rows(self, X: Any, y: Any, *, scored: bool) -> Floats:
        if y is None:
            raise ValueError("This ConditionalDensity estimator requires y to be passed, but the target y is None.")
        begun, model = hasattr(self, "n_outputs_"), twin(self)  # all that changes is the twin's until all is learned
        model.__dict__.pop("calibration_", None)  # it was measured on the model as it was
        settings = self._stream_settings()  # a wrong parameter is reported before a wrong row
        refuse_lossy(y)
        Y, flat = as_outputs(y)
        usable_outputs(Y)
        if begun and Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns as in the rows before, got {Y.shape[1]}")
        X = model._read(X, begun)
        if len(X) != len(Y):
            raise ValueError(f"X and y must have the same number of rows, got {len(X)} and {len(Y)}")
        X = np.require(X, requirements=["C", "W"])  # kernels are compiled for nothing else
        chain = model._next_chain(settings, Y.shape[1])
        chain.name_categories(model._mixed.category_names)
        chain.check_limits(Y)
        log_density = chain.learn(X, np.require(Y, requirements="W"), scored=scored)
        model._show_chain(chain, Y.shape[1], flat)
        adopt(self, model)
        return log_density

    @writes
    def learn_one(self, x: Any, y: Any) -> float:
        """Learn one row, and return its log density before it was learned."""
        if "stream_" in self.__dict__:
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
        if any(mixed.categories) or not begun:
            mixed = self._with_categories(x, begun)
        row = as_row(mixed.row(x), "x", self.n_features_in_ if begun else None, with_missing=True)
        refuse_lossy(y)
        outputs = as_row(y, "y", self.n_outputs_ if begun else None)
        if stream is None:
            settings = self._stream_settings()
            if not begun:
                self.n_features_in_ = row.shape[1]
            self._mixed = mixed
            stream = self._next_chain(settings, outputs.shape[1])
            stream.name_categories(mixed.category_names)
            self._show_chain(stream, outputs.shape[1], np.ndim(y) == 0)
        stream.check_limits(outputs)
        with alone(self):
            self.__dict__.pop("calibration_", None)
            if mixed is not self._mixed:
                self._mixed = mixed
                stream.name_categories(mixed.category_names)
            log_density = stream.learn_one(row, outputs)
        return log_density

    @writes
    def _learn_row(self, row: Floats, y: float) -> None:
        """As `learn_one`, for a checked row (1, p) of one output, of numbers; nobody asks for its log density."""
        stream = self.__dict__.get("stream_")
        if stream is None:
            self.learn_one(row, y)
            return
        stream.check_limits([[y]])
        with alone(self):
            self.__dict__.pop("calibration_", None)
            stream.streams[0].learn_one(row, y, scored=False)

    @reads
    def _mean_of_row(self, row: Floats) -> float:
        """As `predict`, for a checked row (1, p) of one output."""
        stream = self.__dict__.get("stream_")
        if stream is None or self._mixed.coded:
            return float(self.predict(row)[0])  # type: ignore[attr-defined]
        mean: float = stream.streams[0].mean_one(row)
        return mean

    # -- a forest's stream --------------------------------------------------------------------------------------------

    def _stream_settings(self) -> StreamSettings:
        """The parameters, checked, as a stream takes them."""
        chosen: Settings = self._settings(0)  # type: ignore[attr-defined]
        n_trees = N_TREES if self.n_estimators is None else chosen.n_trees
        return StreamSettings(
            replace(chosen, n_trees=n_trees),
            choose=self.stop == "auto",
            max_rows=int(self.max_rows),
            max_contexts=int(self.max_contexts),
            decay=float(self.forget),
        )

    def _next_chain(self, settings: StreamSettings, q: int) -> StreamChain:
        """The streams of the outputs to learn with: a copy of those that are there, or going on from `fit`, or new."""
        if "stream_" in self.__dict__:
            return self.stream_.copy()
        if "forests_" in self.__dict__:
            return StreamChain.of(self.forests_, settings)
        each = [replace(settings, forest=bounded(settings.forest, self.bounds, j, q)) for j in range(q)]
        return StreamChain.new(each, input_names(self), self._mixed.n_categories)

    def _show_chain(self, chain: StreamChain, q: int, flat: bool) -> None:
        """Have the model be a stream."""
        if "n_outputs_" not in self.__dict__:
            self.n_outputs_, self._flat = q, flat
        self.stream_ = chain
        self.__dict__.pop("forests_", None)  # it does not know the rows to come
