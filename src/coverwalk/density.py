"""Density: p(y) for y in R^q, with scikit-learn's contract for densities."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from coverwalk._arrays import Floats, Ints
from coverwalk._docstrings import ROWS
from coverwalk.distributions.joint import JointDistribution
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.files import schema as file
from coverwalk.files.estimators import Saved
from coverwalk.forest.densities.density_forest import DensityForest, rounding_step
from coverwalk.forest.densities.slices import slices
from coverwalk.locks import fits, reads
from coverwalk.preparation.checked_rows import refuse_nonfinite
from coverwalk.preparation.columns import refuse_equal_names
from coverwalk.preparation.parameters import N_JOBS, n_threads, seed_of

__all__ = ["Density"]


def _check(state: Any, scope: file.Scope) -> None:
    file.require("columns", not hasattr(state, "forest_") or hasattr(state, "n_features_in_"))


@file.stored(
    n_features_in_=file.Absent(file.Whole(1, 10**6)),
    feature_names_in_=file.Absent(file.Names("n_features_in_")),
    forest_=file.Absent(file.Object(DensityForest, q="n_features_in_")),
    check=_check,
)
@dataclass(eq=False, repr=False)
class Density(Saved, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """The density of points in one or more dimensions, estimated by a forest.

    The forest has two kinds of trees. In optional Pólya trees, a cell has uniform density or is halved along one of the
    axes; each tree places its cells differently. In the other trees, each context has a Normal-Wishart model. Both
    kinds are pooled with kernel densities, with weights estimated on held-out rows. You can usually keep the defaults.
    See ``docs/density.md``. For a stream of points, use `DoubleTree` with ``X=None``.

    Parameters
    ----------
    n_estimators : int
        Number of trees of each kind.
    a : float
        Parameter of the Beta(a, a) prior of the probabilities of the two halves of a cell.
    halve : float
        Prior probability that a cell, or a context of normals, is divided.
    resolution : float or sequence of floats, optional
        Resolution of each column: cells are not made narrower. By default, the smallest difference between distinct
        values. It bounds the density at values that occur many times.
    n_jobs : int, optional
        Number of threads: None for one, -1 for all processors. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the covers. The result does not depend on the order of the points.

    Attributes
    ----------
    forest_ : DensityForest
        The trees.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of str
        Their names, if X was a frame with names.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = Density().fit(np.concatenate([rng.normal(-2, 0.1, 500), rng.normal(2, 0.1, 500)]))
    >>> left, middle, right = np.exp(model.logpdf([-2.0, 0.0, 2.0]))
    >>> bool(left > 1 > 0.01 > middle), bool(right > 1)
    (True, True)
    >>> bool(abs(model.cdf(0.0) - 0.5) < 0.01)
    True

    Two columns, and the distribution of one given the other:

    >>> t = rng.standard_normal(1000)
    >>> both = Density().fit(np.column_stack([t, t + 0.1 * rng.standard_normal(1000)]))
    >>> dist = both.conditional({0: 1.5})
    >>> bool(abs(dist.mean() - 1.5) < 0.1)
    True
    """

    _words = {  # noqa: RUF012
        "X": "array-like of shape (n, q)\n    Points, or (n,) for one column.",
        "y": "None\n    Ignored.",
        "score_samples ->": ROWS["logpdf ->"],
        "n_samples": "int\n    Number of points.",
        "random_state": "int, RandomState, Generator or None\n    Seed of the draws.",
        "sample ->": "ndarray of shape (n_samples, q)\n    Points.",
        "predict_dist ->": "PredictiveDistribution or JointDistribution\n    Of one row.",
        "x": "float or array-like\n    Values.",
        "cdf ->": "float or ndarray\n    Probabilities, of the shape of x.",
        "q": "float or array-like\n    Levels between 0 and 1.",
        "ppf ->": "float or ndarray\n    Quantiles, of the shape of q.",
        "given": "mapping\n    Values of columns, by name or by number.",
        "conditional ->": "PredictiveDistribution or JointDistribution\n    Of the other columns, in their order.",
    }
    n_estimators: Annotated[int, file.Whole(1, 10_000)] = 12
    _: KW_ONLY
    a: Annotated[float, file.Real(low=1e-100, high=1e100, whole=True)] = 0.5
    halve: Annotated[float, file.Real(above=0, below=1)] = 0.5
    resolution: Annotated[float | ArrayLike | None, file.Plain()] = None
    n_jobs: Annotated[int | None, N_JOBS] = None
    random_state: Annotated[Any, file.Random()] = 0

    # -- fit ----------------------------------------------------------------------------------------------------------

    @fits
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to points. Anything learned before is discarded."""
        self._schema.check_parameters(vars(self), "n_estimators", "a", "halve")
        if y is not None and np.ndim(X) == 1:
            raise ValueError(
                "Expected 2D array, got 1D array instead: with a y beside it X must have two axes. A density of "
                "numbers (n,) takes no y; for y given x use ConditionalDensity"
            )
        Y = self._points(X, reset=True)
        self.forest_ = DensityForest.grow(
            Y,
            n_trees=int(self.n_estimators),
            stop=1.0 - self.halve,
            a=float(self.a),
            step=self._step(Y),
            seed=seed_of(self.random_state),
            n_threads=n_threads(self.n_jobs),
        )
        return self

    def _step(self, Y: Floats) -> Floats:
        """What each column is rounded to."""
        if self.resolution is None:
            return rounding_step(Y)
        given = np.asarray(self.resolution, dtype=np.float64)
        if given.shape not in ((), (1,), (Y.shape[1],)):
            raise ValueError(f"resolution must be one number, or one for each column; got {self.resolution!r}")
        step = np.broadcast_to(given, Y.shape[1]).copy()
        if not (np.isfinite(step) & (step > 0)).all():
            raise ValueError(f"resolution must be positive, got {self.resolution!r}")
        return step

    def _points(self, X: Any, *, reset: bool) -> Floats:
        """X as an array (n, q) of finite numbers."""
        if np.ndim(X) == 1 and not hasattr(X, "columns"):
            if not reset and self.n_features_in_ != 1:
                raise ValueError(
                    f"X must have {self.n_features_in_} columns as in fit, got numbers (n,): {np.shape(X)}"
                )
            X = np.asarray(X).reshape(-1, 1)
        refuse_equal_names(X)
        try:
            checked: Floats = validate_data(self, X, dtype=np.float64, order="C", reset=reset, ensure_all_finite=False)
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            raise ValueError(
                f"a density is over numbers, and a column has text ({error}): fit one Density for the rows of each "
                "category, or a ConditionalDensity, which takes categories as inputs"
            ) from error
        return refuse_nonfinite(checked, "X")

    # -- predictions --------------------------------------------------------------------------------------------------

    @reads
    def score_samples(self, X: Any) -> Floats:
        """Log density of each point."""
        check_is_fitted(self)
        return self.forest_.logpdf(self._points(X, reset=False))

    logpdf = score_samples

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the points, in nats.

        Returns
        -------
        float
            In nats.
        """
        return float(self.score_samples(X).mean())

    @reads
    def sample(self, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw random points."""
        check_is_fitted(self)
        file.Whole(1).check("n_samples", n_samples)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        return self.forest_.sample(int(n_samples), rng)

    def predict_dist(self) -> PredictiveDistribution | JointDistribution:
        """The distribution of the next point, with the methods of a frozen SciPy distribution."""
        return self.conditional({})

    def cdf(self, x: ArrayLike) -> Any:
        """P(Y <= x), for a model of one column."""
        return self._line("cdf").cdf(x)

    def ppf(self, q: ArrayLike) -> Any:
        """Quantiles, for a model of one column."""
        return self._line("ppf").ppf(q)

    def _line(self, method: str) -> PredictiveDistribution:
        dist = self.predict_dist()
        if isinstance(dist, JointDistribution):
            raise ValueError(
                f"{method} is for one column, this model has {self.n_features_in_}: condition on the others"
            )
        return dist

    @reads
    def conditional(self, given: Mapping[Any, float]) -> PredictiveDistribution | JointDistribution:
        """The distribution of the other columns given the values of some."""
        check_is_fitted(self)
        q = self.n_features_in_
        values, known = np.zeros(q), np.zeros(q, bool)
        for name, value in given.items():
            j = self._column(name)
            values[j], known[j] = float(value), True
            if not np.isfinite(values[j]):
                raise ValueError(f"the given value of {name!r} must be finite, got {value!r}")
        left = np.flatnonzero(~known)
        if not len(left):
            raise ValueError(f"all {q} columns are given: use logpdf for their density")
        forest = self.forest_
        if len(left) == 1:
            return slices(forest, values[None, :], known, int(left[0]))[0]

        def chain(j: int, rows: Ints, before: Floats) -> PredictiveDistribution:
            Y, also = np.tile(values, (len(rows), 1)), known.copy()
            Y[:, left[:j]], also[left[:j]] = before, True
            return slices(forest, Y, also, int(left[j]))

        joint = JointDistribution(chain, 1, len(left))[0]
        assert isinstance(joint, JointDistribution)
        return joint

    def _column(self, name: Any) -> int:
        """The number of a column given by name or number."""
        names = list(getattr(self, "feature_names_in_", []))
        if name in range(self.n_features_in_):
            return int(name)
        if name not in names:
            known = names or f"0 to {self.n_features_in_ - 1}"
            raise ValueError(f"there is no column {name!r}; the columns are {known}")
        return names.index(name)

    # -- files --------------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")
