"""DoubleTree: the paper's conditional density estimator, as a stream."""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.double_tree.state import CONTEXTS, DEPTH, Settings
from coverwalk.distributions.predicting import Predicting
from coverwalk.double_tree.engine import DoubleTreeEngine
from coverwalk.files import schema as file
from coverwalk.files.estimators import Saved
from coverwalk.locks import adopt, alone, reads, twin, unfitted, writes
from coverwalk.preparation.checked_rows import as_outputs, as_row, refuse_nonfinite
from coverwalk.preparation.columns import MixedInputs, read_inputs
from coverwalk.preparation.stream_inputs import StreamInputs
from coverwalk.preparation.weights import copies

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution

_CHECKED = ("walk", "alpha", "stop", "priors", "max_depth", "a", "halve", "ridge", "nu", "scatter", "settle")
MAX_COPIES = 2**26  # of all rows together: weights are counts, and so many rows would not fit


def _check(state: Any, scope: file.Scope) -> None:
    if hasattr(state, "_engine"):
        file.require("the fitted parts", hasattr(state, "_flat") and hasattr(state, "n_outputs_"))
        file.require("inputs", scope["_engine"].inputs == getattr(state, "n_features_in_", None))
        mixed = getattr(state, "_mixed", MixedInputs([]))
        file.require("categorical", len(mixed.categories) in (0, state.n_features_in_))
        _, means, scales = state._engine.normals()
        file.require("means", np.isfinite(means))
        file.require("scales", np.isfinite(scales) & (scales > 0))


def _copies(weight: Floats) -> Ints:
    """How often each row is learned."""
    total = float(weight.sum())
    if not 0.0 < total < MAX_COPIES:
        raise ValueError(
            f"sample weights are counts of rows: their sum must be positive and below {MAX_COPIES}, got {total:g}. "
            "Divide relative weights by their mean"
        )
    taken = copies(weight)
    if not taken.any():
        raise ValueError(f"sample weights are counts of rows, and all of these together make none: {total:g}")
    return taken


@file.stored(
    n_features_in_=file.Absent(file.Whole(0, 10**6)),
    n_outputs_=file.Absent(file.Whole(1, 10**6)),
    feature_names_in_=file.Absent(file.Names("n_features_in_")),
    target_names_=file.Absent(file.List(file.Text(), "n_outputs_")),
    calibration_=file.Absent(file.Array(float, "held_out", "n_outputs_", low=0, high=1)),
    _flat=file.Absent(file.Flag()),
    _mixed=file.Absent(file.Object(MixedInputs)),
    _engine=file.Absent(file.Object(DoubleTreeEngine, q="n_outputs_")),
    check=_check,
)
@dataclass(eq=False, repr=False)
class DoubleTree(Saved, Predicting, StreamInputs, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The paper's conditional density estimator: an online kd-tree over x, with a tree over y in each context.

    This is the "double pseudo-tree" of Section 5 of the paper. Each context has a Normal-Wishart model and a tree
    density. The model learns a row in a few microseconds, and every y has a positive density. `ConditionalDensity`
    predicts better and learns more slowly. With ``X=None`` there are no inputs, and the model estimates the density of
    y alone.

    Parameters
    ----------
    walk : {"coarsen", "refine"}
        From fine to coarse, as in the paper, or from coarse to fine. With ``priors="fixed"``, the refining walk gives
        the exact Bayesian posterior over the prunings of the tree.
    alpha : float
        A leaf at depth k is split when it has more than alpha^k rows. Larger values make fewer contexts.
    stop : float, optional
        Prior probability w of stopping in a context. By default 2^-k at depth k for "coarsen", and 1/2 for "refine".
    priors : {"parent", "fixed"}
        "parent" centres the prior of a context on its parent: its normal on the parent's mean, and the cells of its
        tree density on the parent's cells. "fixed" gives every context the prior of the root, as in the paper.
    max_depth : int, optional
        Maximum depth of a tree density, at most 64. By default 8 q + 4. With ``priors="parent"``, a context at depth k
        has k levels fewer.
    a : float
        Parameter of the Beta(a, a) prior of the probabilities of the two halves of a cell.
    halve : float
        Prior probability that a cell is halved.
    ridge : float
        Number of rows that the prior mean of the Normal-Wishart counts as.
    nu : float, optional
        Prior degrees of freedom of the Normal-Wishart, above q - 1; by default q + 2.
    scatter : float
        Prior scatter of the Normal-Wishart, in standardised units.
    settle : int
        The data are standardised again after 1, 2, 4, ... rows, up to this number. 0 uses the data as they are.
    categorical_features : "from_dtype", None, or sequence of columns
        Categorical inputs, by name, number or mask; by default the categorical and text columns of a frame. Categories
        are numbered in the order in which they come. Missing values are NaN.

    Attributes
    ----------
    n_features_in_, n_outputs_ : int
        Number of inputs and outputs.
    feature_names_in_ : array of str
        Names of the inputs, if X was a frame with names.
    target_names_ : list of str
        Names of the outputs, if y was a frame or a named column.
    n_rows_ : int
        Number of rows learned.
    n_contexts_, depth_ : int
        Number of contexts of the kd-tree, and the depth of the finest one.

    Examples
    --------
    >>> from coverwalk.datasets import load_faithful
    >>> X, y = load_faithful()
    >>> model = DoubleTree().fit(X[:200], y[:200])
    >>> short, long = model.logpdf([[2.0], [4.5]], [55.0, 55.0])  # a short wait follows a short eruption
    >>> bool(short > long + 4)
    True

    As a stream, each row predicted before it is learned:

    >>> model = DoubleTree()
    >>> log_density = model.prequential(X, y)
    >>> log_density.shape, model.n_rows_
    ((272,), 272)
    """

    _: KW_ONLY
    walk: Annotated[Literal["coarsen", "refine"], file.Text("coarsen", "refine")] = "coarsen"
    alpha: Annotated[float, file.Real(low=1.05, high=1e6, whole=True)] = 2.0
    stop: Annotated[float | None, file.Maybe(file.Real(low=1e-100, below=1))] = None
    priors: Annotated[Literal["parent", "fixed"], file.Text("parent", "fixed")] = "parent"
    max_depth: Annotated[int | None, file.Maybe(file.Whole(1, 64))] = None
    a: Annotated[float, file.Real(low=1e-100, high=1e100, whole=True)] = 0.5
    halve: Annotated[float, file.Real(low=1e-100, below=1)] = 0.5
    ridge: Annotated[float, file.Real(low=1e-100, high=1e100, whole=True)] = 1.0
    nu: Annotated[float | None, file.Maybe(file.Real(above=0, high=1e9, whole=True))] = None
    scatter: Annotated[float, file.Real(low=1e-100, high=1e100, whole=True)] = 1.0
    settle: Annotated[int, file.Whole(0)] = 4096
    categorical_features: Annotated[Any, file.Plain()] = "from_dtype"
    _engine: DoubleTreeEngine = field(init=False)

    # -- learning -----------------------------------------------------------------------------------------------------

    @writes
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows in order. Anything learned before is discarded. Use ``X=None`` if there are no inputs.

        Sample weights are counts: a row with weight 2 is learned twice. Fractions are carried over to the next rows.
        """
        self._learn_rows(X, y, begun=False, sample_weight=sample_weight)
        return self

    @writes
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn more rows, in order. An invalid row leaves the model unchanged."""
        self._learn_rows(X, y, begun=hasattr(self, "_engine"))
        return self

    @writes
    def prequential(self, X: Any, y: Any) -> Floats:
        """Learn more rows, in order, and return the log density of each row before it was learned."""
        return self._learn_rows(X, y, begun=hasattr(self, "_engine"))

    def _learn_rows(self, X: Any, y: Any, begun: bool, sample_weight: Any = None) -> Floats:
        """Rows learned by the engine that is there or, where none has ``begun``, by a new one."""
        if y is None:
            raise ValueError("This DoubleTree estimator requires y to be passed, but the target y is None.")
        model = twin(self) if begun else unfitted(self)  # all that changes is its own until all is learned
        if X is None and not begun:
            model._mixed, model.n_features_in_ = MixedInputs([]), 0
        no_inputs = X is None and model.n_features_in_ == 0
        X = np.empty((len(y), 0)) if no_inputs else model._read(X, begun)
        Y, flat = self._outputs(y, len(X), begun)
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            taken = _copies(weight)
            X, Y = np.repeat(X, taken, axis=0), np.repeat(Y, taken, axis=0)
        engine = self._engine if begun else model._new_engine(X.shape[1], Y.shape[1])
        model.__dict__.pop("calibration_", None)  # it was measured on the model as it was
        if begun and not engine.wants_copy(len(X)):
            with alone(self):
                log_density = engine.learn(X, Y)
                self.__dict__ = model.__dict__
            return log_density
        engine = deepcopy(engine) if begun else engine
        log_density = engine.learn(X, Y)
        model._engine = engine
        if not begun:
            model.n_outputs_, model._flat = Y.shape[1], flat
            model._name_targets(y)
        adopt(self, model)
        return log_density

    @writes
    def learn_one(self, x: Any, y: Any) -> float:
        """Learn one row, and return its log density before it was learned."""
        begun = "_engine" in self.__dict__
        if x is None or not begun:
            rows = x if x is None or np.ndim(x) == 2 else [x] if np.ndim(x) else [[x]]
            return float(self._learn_rows(rows, [y], begun)[0])
        mixed = self._with_categories(x, begun) if any(self._mixed.categories) else self._mixed
        row = as_row(mixed.row(x), "x", self.n_features_in_, with_missing=True)
        outputs = as_row(y, "y", self.n_outputs_)
        with alone(self):
            self._mixed = mixed
            self.__dict__.pop("calibration_", None)
            log_density = float(self._engine.learn(row, outputs)[0])
        return log_density

    def _new_engine(self, p: int, q: int) -> DoubleTreeEngine:
        self._schema.check_parameters(vars(self), *_CHECKED)
        nu = q + 2.0 if self.nu is None else float(self.nu)
        if not nu > q - 1:
            raise ValueError(f"nu must be above q - 1 = {q - 1} for a proper prior, got {self.nu!r}")
        settings = Settings(
            refine=self.walk == "refine",
            flow=self.priors == "parent",
            alpha=float(self.alpha),
            w=(0.5 if self.walk == "refine" else 0.0) if self.stop is None else float(self.stop),
            y_depth=min(8 * q + 4, 64) if self.max_depth is None else int(self.max_depth),
            a=float(self.a),
            g0=float(self.halve / (1 - self.halve)),
            lam=float(self.ridge),
            nu0=nu,
            psi0=float(self.scatter),
        )
        return DoubleTreeEngine(settings, int(self.settle), p, q)

    def _outputs(self, y: Any, n: int, begun: bool) -> tuple[Floats, bool]:
        """Y (n, q) of finite numbers, and whether it came as a vector (n,)."""
        Y, flat = as_outputs(y, n)
        if begun and Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns as in the rows before, got {Y.shape[1]}")
        return Y, flat

    # -- predictions --------------------------------------------------------------------------------------------------

    @reads
    def logpdf(self, X: Any, y: Any) -> Floats:
        """Log density of each row's y. Use ``X=None`` for a model without inputs."""
        X = self._check(X, len(y))
        Y, _ = self._outputs(y, len(X), begun=True)
        if "calibration_" in self.__dict__:
            return np.asarray(self._calibrated(self._dist(X)).logpdf(Y[:, 0]))
        return self._engine.logpdf(X, Y)

    @reads
    def component_weights(self, X: Any) -> tuple[Floats, Floats]:
        """For each row, the weight of the normals against the tree densities, and the mean depth of stopping.

        Returns
        -------
        weight : ndarray of shape (n,)
            Of the normals.
        depth : ndarray of shape (n,)
            Mean depth at which the walk stops.
        """
        X = self._check(X)
        return self._engine.component_weights(X)

    def _check(self, X: Any, n: int = 1) -> Floats:
        """Rows to predict for as numbers; n rows where there are no inputs."""
        check_is_fitted(self, "_engine")
        if X is None and self.n_features_in_ == 0:
            return np.empty((n, 0))
        return refuse_nonfinite(
            read_inputs(self, X, reset=False, order="C", ensure_all_finite=False), "X", with_missing=True
        )

    def _dist(self, X: Floats) -> "PredictiveDistribution":
        from coverwalk.double_tree.distribution import predict_dist

        if self.n_outputs_ > 1:
            raise ValueError(
                f"a DoubleTree predicts one output, this one has {self.n_outputs_}: for these it has logpdf; "
                "ConditionalDensity predicts several"
            )
        return predict_dist(self._engine, X)

    @property
    def n_rows_(self) -> int:
        """Rows learned."""
        check_is_fitted(self, "_engine")
        return self._engine.n_rows

    @property
    def n_contexts_(self) -> int:
        """Contexts of the kd-tree, inner ones included."""
        check_is_fitted(self, "_engine")
        return int(self._engine.state.counts[CONTEXTS])

    @property
    def depth_(self) -> int:
        """Depth of the finest context; the root has 0."""
        check_is_fitted(self, "_engine")
        return int(self._engine.state.xi[: self.n_contexts_, DEPTH].max())
