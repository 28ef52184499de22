"""DoubleTree: the paper's conditional density estimator, as a stream."""

import os
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from coverwalk.files.objects import schema_of
from coverwalk.files.schema import Absent, Flag, Names, Object, Schema, Scope, Whole, require
from coverwalk.streams.checked_rows import as_outputs, as_row, refuse_nonfinite
from coverwalk.streams.kd_engine import KdEngine, Plan

if TYPE_CHECKING:
    from coverwalk.distribution import PredictiveDistribution

__all__ = ["DoubleTree"]

Floats = NDArray[np.float64]


def _check(state: Any, scope: Scope) -> None:
    if hasattr(state, "_engine"):
        require("the fitted parts", hasattr(state, "_flat") and hasattr(state, "n_outputs_"))
        require("inputs", scope["_engine"].inputs == getattr(state, "n_features_in_", None))


class DoubleTree(BaseEstimator):  # type: ignore[misc]
    """p(y | x) by a halting walk over an online kd-tree, with a Normal-Wishart and a tree density in each context.

    The "double pseudo-tree" of the paper's Section 5: one tree over x, in each of its contexts another over y.
    It learns row by row in a few microseconds, never looks ahead, and gives every y in R^q a positive density.

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
        New children replay their share of the rows that made them, or start from copies of the parent's posterior.
    priors : {"parent", "fixed"}
        "parent": a context's normal is centred on its parent's mean at the time of the split, and the cells of its
        tree density stop in the parent's cells instead of the uniform law, so that only what differs from the parent
        has to be learned. "fixed": every context has the root's prior, as in the paper.
    max_depth : int, optional
        Greatest depth of a tree density, at most 64; depth j halves output j mod q. By default 8 q + 4, at most 64.
        With ``priors="parent"`` a context at depth k has that less k: finer cells are its ancestors' business.
    a : float
        The shares of the two halves of a cell have a Beta(a, a) prior.
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

    Attributes
    ----------
    n_features_in_, n_outputs_ : int
        Columns of X and of y.
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

    _schema = Schema(
        **schema_of(Plan).fields,
        n_features_in_=Absent(Whole(0, 10**6)),
        n_outputs_=Absent(Whole(1, 10**6)),
        feature_names_in_=Absent(Names("n_features_in_")),
        _flat=Absent(Flag()),
        _engine=Absent(Object(KdEngine, q="n_outputs_")),
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # Learning

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn the rows in order."""
        X, Y, flat = self._checked(X, y, reset=True)
        self._begin(X.shape[1], Y.shape[1], flat)
        self._engine.learn(X, Y)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn further rows in order. All are checked first: a bad one leaves the model as it was."""
        self.prequential(X, y)
        return self

    def prequential(self, X: Any, y: Any) -> Floats:
        """Learn further rows in order; returns the log density (n,) that each had just before it was learned."""
        X, Y, flat = self._checked(X, y, reset=not hasattr(self, "_engine"))
        if not hasattr(self, "_engine"):
            self._begin(X.shape[1], Y.shape[1], flat)
        return self._engine.learn(X, Y)

    def learn_one(self, x: Any, y: Any) -> float:
        """Learn one row, x (p,) or a number and y (q,) or a number; returns its log density before it was learned."""
        fitted = hasattr(self, "_engine")
        row = as_row(x, "x", self.n_features_in_ if fitted else None, gaps=True)
        outputs = as_row(y, "y", self.n_outputs_ if fitted else None)
        if not fitted:
            self.n_features_in_ = row.shape[1]
            self._begin(row.shape[1], outputs.shape[1], np.ndim(y) == 0)
        return float(self._engine.learn(row, outputs)[0])

    def _begin(self, p: int, q: int, flat: bool) -> None:
        names = Plan._fields
        self._engine = KdEngine(Plan(*(getattr(self, name) for name in names)).check(), p, q)
        self.n_outputs_, self._flat = q, flat

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Floats, Floats, bool]:
        if y is None:
            raise ValueError("This DoubleTree estimator requires y to be passed, but the target y is None.")
        X = validate_data(self, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False)
        refuse_nonfinite(X, "X", gaps=True)
        Y, flat = as_outputs(y, len(X))
        if not reset and Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns as in the rows before, got {Y.shape[1]}")
        return X, Y, flat

    # Answering

    def logpdf(self, X: Any, y: Any) -> Floats:
        """Log density (n,) of y (n,) or (n, q) given X (n, p)."""
        check_is_fitted(self, "_engine")
        X, Y, _ = self._checked(X, y, reset=False)
        return self._engine.ask(X, Y)

    def score(self, X: Any, y: Any) -> float:
        """Mean log density, in nats."""
        return float(self.logpdf(X, y).mean())

    def predict_dist(self, X: Any) -> "PredictiveDistribution":
        """The whole law of y for each row of X, for one output: the names of a frozen SciPy distribution.

        >>> from coverwalk.datasets import make_ring
        >>> dist = DoubleTree().fit(*make_ring(2000)).predict_dist([[0.0], [1.3]])
        >>> inside, outside = dist.interval(0.9)[1] - dist.interval(0.9)[0]
        >>> bool(inside > outside)  # two branches of the ring against its edge
        True
        """
        check_is_fitted(self, "_engine")
        X = validate_data(self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=False)
        return self._law(refuse_nonfinite(X, "X", gaps=True))

    def _law(self, X: Floats) -> "PredictiveDistribution":
        """`predict_dist` of rows that have been checked."""
        from coverwalk.streams.kd_distribution import predict_dist

        if self.n_outputs_ > 1:
            raise ValueError(f"predict_dist is for one output, this model has {self.n_outputs_}: ask logpdf instead")
        return predict_dist(self._engine, X)

    def voices(self, X: Any) -> tuple[Floats, Floats]:
        """Who speaks for each x: the probability that it is a normal, not a tree density, and the mean depth (n,)."""
        check_is_fitted(self, "_engine")
        X = validate_data(self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=False)
        return self._engine.voices(refuse_nonfinite(X, "X", gaps=True))

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

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `coverwalk.load` reads; see `coverwalk.files`."""
        from coverwalk.files import save

        save(self, path)
