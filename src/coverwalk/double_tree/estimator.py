"""DoubleTree: the paper's conditional density estimator, as a stream."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from coverwalk._arrays import Floats
from coverwalk.distributions.predicting import Predicting
from coverwalk.double_tree.engine import DoubleTreeEngine, Plan
from coverwalk.double_tree.weights import counts_of
from coverwalk.files.estimators import Saved
from coverwalk.files.objects import schema_of
from coverwalk.files.schema import Absent, Array, Flag, List, Names, Object, Plain, Schema, Scope, Text, Whole, require
from coverwalk.locks import adopt, alone, reads, twin, unfitted, writes
from coverwalk.preparation.checked_rows import as_outputs, as_row, refuse_nonfinite
from coverwalk.preparation.columns import MixedInputs, read_inputs
from coverwalk.preparation.stream_inputs import StreamInputs

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution

__all__ = ["DoubleTree"]


def _check(state: Any, scope: Scope) -> None:
    if hasattr(state, "_engine"):
        require("the fitted parts", hasattr(state, "_flat") and hasattr(state, "n_outputs_"))
        require("inputs", scope["_engine"].inputs == getattr(state, "n_features_in_", None))
        mixed = getattr(state, "_mixed", MixedInputs([]))
        require("categorical", len(mixed.categories) in (0, state.n_features_in_))


class DoubleTree(Saved, Predicting, StreamInputs, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """p(y | x) by a halting walk over an online kd-tree, with a Normal-Wishart and a tree density in each context.

    The "double pseudo-tree" of the paper's Section 5: one tree over x, in each of its contexts another over y.
    It learns row by row in a few microseconds, never looks ahead, and gives every y in R^q a positive density.
    `ConditionalDensity` predicts better and learns more slowly. With X=None there are no inputs: the model is then a
    stream for the density of y alone.

    Parameters
    ----------
    walk : {"coarsen", "refine"}
        Fine to coarse, as in the paper, or coarse to fine. With ``priors="fixed"`` and ``children="replay"`` the
        refining walk is the exact Bayesian posterior over the prunings of the present tree.
    alpha : float
        A leaf at depth k splits once it holds more than alpha^k rows: more means fewer contexts.
    stop : float, optional
        Prior probability w to stop in a context. By default 2^-k at depth k (coarsen), 1/2 (refine).
    children : {"replay", "parent"}
        New children replay their part of the rows that made them, or start from copies of the parent's posterior.
    priors : {"parent", "fixed"}
        "parent": a context's normal is centred on its parent's mean at the time of the split, and the cells of its
        tree density stop in the parent's cells instead of the uniform density, so that only what differs from the
        parent has to be learned. "fixed": every context has the root's prior, as in the paper.
    max_depth : int, optional
        Maximum depth of a tree density, at most 64; depth j halves output j mod q. By default 8 q + 4, at most 64.
        With ``priors="parent"`` a context at depth k has that less k: finer cells are left to its ancestors.
    a : float
        The probabilities of the two halves of a cell have a Beta(a, a) prior.
    halve : float
        Prior probability that a cell is halved.
    ridge : float
        lambda of the Normal-Wishart: the prior mean counts as this many rows.
    nu : float, optional
        Its prior degrees of freedom, above q - 1; by default q + 2.
    scatter : float
        Its Psi_0 = scatter * I, in standardised units.
    settle : int
        Units of y, and of x for the choice of the widest side, are set anew at 1, 2, 4, ... rows up to this many, by
        building the model again from the rows seen; then they stay. 0 takes the data as they are.
    categorical_features : "from_dtype", None, or sequence of columns
        Inputs that are categories, by name, number or mask; by default those of a frame that hold categories or text.
        Categories are numbered as they come, and these numbers are split like other inputs. Missing values are NaN.

    Attributes
    ----------
    n_features_in_, n_outputs_ : int
        Columns of X and of y.
    feature_names_in_ : array of str
        Names of the inputs, where X was a frame with names.
    target_names_ : list of str
        Names of the outputs, where y was a frame or a named column.
    n_rows_ : int
        Rows learned.
    n_contexts_, depth_ : int
        Size of the kd-tree, inner contexts included, and depth of its finest one.

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

    n_features_in_: int
    _engine: DoubleTreeEngine

    _schema = Schema(
        **schema_of(Plan).fields,
        categorical_features=Plain(),
        n_features_in_=Absent(Whole(0, 10**6)),
        n_outputs_=Absent(Whole(1, 10**6)),
        feature_names_in_=Absent(Names("n_features_in_")),
        target_names_=Absent(List(Text(), "n_outputs_")),
        calibration_=Absent(Array(float, "held_out", "n_outputs_", low=0, high=1)),
        _flat=Absent(Flag()),
        _mixed=Absent(Object(MixedInputs)),
        _engine=Absent(Object(DoubleTreeEngine, q="n_outputs_")),
        check=_check,
    )

    def __init__(
        self,
        *,
        walk: Literal["coarsen", "refine"] = "coarsen",
        alpha: float = 2.0,
        stop: float | None = None,
        children: Literal["replay", "parent"] = "replay",
        priors: Literal["parent", "fixed"] = "parent",
        max_depth: int | None = None,
        a: float = 0.5,
        halve: float = 0.5,
        ridge: float = 1.0,
        nu: float | None = None,
        scatter: float = 1.0,
        settle: int = 4096,
        categorical_features: Any = "from_dtype",
    ) -> None:
        self.walk = walk
        self.alpha = alpha
        self.stop = stop
        self.children = children
        self.priors = priors
        self.max_depth = max_depth
        self.a = a
        self.halve = halve
        self.ridge = ridge
        self.nu = nu
        self.scatter = scatter
        self.settle = settle
        self.categorical_features = categorical_features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    # -- learning -----------------------------------------------------------------------------------------------------

    @writes
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, then learn rows X (n, p), y (n,) or (n, q) in order; X=None for no inputs.

        ``sample_weight`` (n,), optional, counts rows: 2 is the row twice, 0 a row that is not there. Fractions are
        carried over to the next rows.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows of inputs: an array, or a pandas, Polars or Arrow frame.
        y : array-like of shape (n,) or (n, q)
            Their outputs.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, relative to each other; 0 leaves a row out.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._learn_rows(X, y, begun=False, sample_weight=sample_weight)
        return self

    @writes
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn further rows in order. All are checked first: a bad one leaves the model as it was.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows of inputs: an array, or a pandas, Polars or Arrow frame.
        y : array-like of shape (n,) or (n, q)
            Their outputs.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        self._learn_rows(X, y, begun=hasattr(self, "_engine"))
        return self

    @writes
    def prequential(self, X: Any, y: Any) -> Floats:
        """Learn further rows in order; returns the log density (n,) that each had just before it was learned.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows of inputs: an array, or a pandas, Polars or Arrow frame.
        y : array-like of shape (n,) or (n, q)
            Their outputs.

        Returns
        -------
        ndarray of shape (n,)
            Log densities in nats, each before its row was learned.
        """
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
            counts = counts_of(weight, np.arange(len(weight)))
            X, Y = np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0)
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
        """Learn one row, x (p,) or a number and y (q,) or a number; returns its log density before it was learned.

        Parameters
        ----------
        x : float or array-like of shape (p,)
            Inputs of one row.
        y : float or array-like of shape (q,)
            Its output, or outputs.

        Returns
        -------
        float
            Log density of the row, in nats, before it was learned.
        """
        if x is None:
            return float(self._learn_rows(None, [y], begun=hasattr(self, "_engine"))[0])
        begun = "_engine" in self.__dict__
        model = self if begun else twin(self)
        mixed = self._with_categories(x, begun) if any(self._mixed.categories) or not begun else self._mixed
        row = as_row(mixed.row(x), "x", self.n_features_in_ if begun else None, with_missing=True)
        outputs = as_row(y, "y", self.n_outputs_ if begun else None)
        if not begun:
            model._engine, model._mixed = self._new_engine(row.shape[1], outputs.shape[1]), mixed
            model.n_features_in_, model.n_outputs_, model._flat = row.shape[1], outputs.shape[1], np.ndim(y) == 0
            log_density = float(model._engine.learn(row, outputs)[0])
            adopt(self, model)
            return log_density
        with alone(self):
            self._mixed = mixed
            self.__dict__.pop("calibration_", None)
            log_density = float(self._engine.learn(row, outputs)[0])
        return log_density

    def _plan(self) -> Plan:
        return Plan(*(getattr(self, name) for name in Plan._fields)).check()

    def _new_engine(self, p: int, q: int) -> DoubleTreeEngine:
        return DoubleTreeEngine(self._plan(), p, q)

    def _outputs(self, y: Any, n: int, begun: bool) -> tuple[Floats, bool]:
        """Y (n, q) of finite numbers, and whether it came as a vector (n,)."""
        Y, flat = as_outputs(y, n)
        if begun and Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns as in the rows before, got {Y.shape[1]}")
        return Y, flat

    # -- predictions --------------------------------------------------------------------------------------------------

    @reads
    def logpdf(self, X: Any, y: Any) -> Floats:
        """Log density (n,) of y (n,) or (n, q) given X (n, p); X=None for a model without inputs.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows of inputs: an array, or a pandas, Polars or Arrow frame.
        y : array-like of shape (n,) or (n, q)
            The rows' own y.

        Returns
        -------
        ndarray of shape (n,)
            Log densities in nats.
        """
        X = self._check(X, len(y))
        Y, _ = self._outputs(y, len(X), begun=True)
        if "calibration_" in self.__dict__:
            return np.asarray(self._calibrated(self._dist(X)).logpdf(Y[:, 0]))
        return self._engine.logpdf(X, Y)

    @reads
    def component_weights(self, X: Any) -> tuple[Floats, Floats]:
        """For each x the weight (n,) of the normals, against tree densities, and the mean depth (n,) of stopping.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows to predict.

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
        return self._engine.n_contexts

    @property
    def depth_(self) -> int:
        """Depth of the finest context; the root has 0."""
        check_is_fitted(self, "_engine")
        return self._engine.depth
