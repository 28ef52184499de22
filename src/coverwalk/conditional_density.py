"""ConditionalDensity: given x, the whole distribution of y, with scikit-learn's contract."""

from dataclasses import KW_ONLY, dataclass
from time import perf_counter
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from coverwalk._arrays import Floats
from coverwalk.distributions.joint import JointDistribution
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.predicting import Predicting
from coverwalk.files import schema as file
from coverwalk.files.estimators import Saved
from coverwalk.forest.category_choice import choose_categories
from coverwalk.forest.chain import StreamChain, chain_dist, chain_inputs, chain_logpdf
from coverwalk.forest.explain import Explaining
from coverwalk.forest.forest import Forest
from coverwalk.forest.passes import Chunks, fit_chunks
from coverwalk.forest.settings import Settings
from coverwalk.forest.streaming import Streaming
from coverwalk.forest.tuning import choose_for_output
from coverwalk.locks import fits, reads, writes
from coverwalk.preparation.checked_rows import as_row, refuse_lossy, usable_outputs
from coverwalk.preparation.columns import MixedInputs, input_names, read_inputs, recoded
from coverwalk.preparation.find_rounding import find_rounding
from coverwalk.preparation.parameters import N_JOBS, n_threads, seed_of
from coverwalk.preparation.weights import distinct_rows

__all__ = ["ConditionalDensity"]

_CHECKED = ["n_estimators", "degree", "stop", "min_samples_leaf", "n_candidates", "max_rows", "max_contexts", "forget"]


@file.stored(
    n_features_in_=file.Absent(file.Whole(0, 10**6)),
    feature_names_in_=file.Absent(file.Names("n_features_in_")),
    n_outputs_=file.Absent(file.Whole(1, 10_000)),
    target_names_=file.Absent(file.List(file.Text(), "n_outputs_")),
    _flat=file.Absent(file.Flag()),
    _mixed=file.Absent(file.Object(MixedInputs)),
    forests_=file.Absent(file.List(file.Object(Forest, p="n_features_in_ + i"), "n_outputs_")),
    stream_=file.Absent(file.Object(StreamChain, p="n_features_in_", q="n_outputs_")),
    calibration_=file.Absent(file.Array(float, "held_out", "n_outputs_", low=0, high=1)),
    check=lambda state, scope: _check_parts(state),
)
@dataclass(eq=False, repr=False)
class ConditionalDensity(Saved, Predicting, Explaining, Streaming, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The distribution of y given x, predicted by a walk over a forest of covers.

    Each tree splits the space of x into contexts, from coarse to fine. Each context refines the polynomial of its
    parent, and has its own residual density. The leave-one-out evidence of the rows decides how deep the walk goes. The
    trees are pooled, with one or two inputs together with a kernel density over all rows, and with a histogram of y
    where the density of y has jumps common to all x. You can usually keep the defaults.

    Parameters
    ----------
    n_estimators : int, optional
        Number of trees. More trees improve predictions slowly. By default 24 for up to 4096 rows and 16 for more. There
        are more, up to 48 and up to 131,072 trees times rows, if held-out rows show that they gain 0.005 nats.
    degree : int
        Maximum degree of the local polynomials: 0, 1 or 2. If ``stop`` is "auto", trees of degree 1 and 2 are mixed.
        Polynomials with more than 256 terms are not used.
    ridges : sequence of float
        Strengths of the prior that ties a context to its parent's polynomial, in rows. Each context weights them by
        their evidence.
    stop : float or "auto"
        Prior probability w that the walk stops in a context. "auto" chooses it on held-out rows, together with the
        degree, a factor on all scales, the weight of the global kernel density, and the cells of y.
    min_samples_leaf : int
        Minimum number of rows on either side of a split. A tree has at most 4096 leaves.
    n_candidates : int
        Number of random candidate splits in each context: at least two for each input. The best one is used.
    bounds : pair (low, high), "auto" or None
        Bounds of y, with None for an open end. Predictions stay within the bounds. "auto" uses 0, 1 or 100 if y has a
        sharp edge there, and the smallest or largest y if values pile up there. A list has one entry per output.
    categorical_features : "from_dtype", None, or sequence of columns
        Categorical inputs, by name, number or mask; by default the categorical and text columns of a frame. Splits
        divide their categories into two sets; see docs/mixed_inputs.md. Missing values are NaN.
    max_rows : int
        For streams: maximum number of rows that are kept to grow trees from. Further rows are learned, but not kept.
    max_contexts : int
        For streams: maximum number of contexts per tree.
    forget : float
        For streams that change: the decay rate per row. The model remembers about the last 1/forget rows, and grows
        its trees again from them. 0 means no decay.
    n_jobs : int, optional
        Number of threads of `fit`: None means one, -1 all processors. The result does not depend on it.
    verbose : int
        1 prints how long each step of `fit` takes, and shows its progress on a terminal.
    random_state : int, RandomState or None
        Seed of the candidate splits. An int gives the same forest every time, whatever the order of the rows.

    Attributes
    ----------
    forests_ : list of Forest
        One for each output. Several outputs use the chain rule: each forest has the earlier outputs as additional
        inputs.
    stream_ : StreamChain
        After ``partial_fit``, ``learn_one`` or ``prequential``, in place of ``forests_``; see docs/streams.md.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : array of str
        Their names, if X was a frame with names.
    n_outputs_ : int
        Number of outputs.
    target_names_ : list of str
        Their names, if y was a frame or a named column.
    calibration_ : array of shape (m, q)
        After `calibrate`: the sorted values F(y) of the calibration rows.

    Examples
    --------
    >>> from coverwalk import ConditionalDensity
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(400, 2))
    >>> y = np.sign(X[:, 0]) + 0.1 * rng.standard_normal(400)
    >>> model = ConditionalDensity().fit(X, y)
    >>> dist = model.predict_dist([[0.5, 0.0], [-0.5, 0.0]])
    >>> bool(np.all(np.abs(dist.mean() - [1.0, -1.0]) < 0.1))
    True
    >>> low, high = dist.interval(0.9)
    >>> bool(np.all((high - low > 0.2) & (high - low < 0.6)))
    True
    """

    n_estimators: Annotated[int | None, file.Maybe(file.Whole(1, 10_000))] = None
    _: KW_ONLY
    degree: Annotated[int, file.Whole(0, 2)] = 2
    ridges: Annotated[tuple[float, ...], file.Plain()] = (0.03, 0.3, 3.0)
    stop: Annotated[float | str, file.Either(file.Text("auto"), file.Real(above=0, below=1))] = "auto"
    min_samples_leaf: Annotated[int, file.Whole(1)] = 3
    n_candidates: Annotated[int, file.Whole(1, 10**6)] = 20
    bounds: Annotated[Any, file.Plain()] = None
    categorical_features: Annotated[Any, file.Plain()] = "from_dtype"
    max_rows: Annotated[int, file.Whole(1)] = 2**17
    max_contexts: Annotated[int, file.Whole(1)] = 2**12
    forget: Annotated[float, file.Real(low=0, high=0.1, whole=True)] = 0.0
    n_jobs: Annotated[int | None, N_JOBS] = None
    verbose: Annotated[int, file.Whole(0)] = 0
    random_state: Annotated[Any, file.Random()] = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # -- fit ----------------------------------------------------------------------------------------------------------

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to rows X and y. Anything learned before is discarded.

        Only the ratios of sample weights matter: they are scaled to mean one. Copies of a row count as one row with
        their total weight, so repeating a table does not change the model. If y is rounded, however, equal rows are
        separate observations, unless all rows occur equally often.
        """
        self._check_parameters()  # an invalid parameter is reported before an invalid row
        y_given = y
        refuse_lossy(y)
        X, y = read_inputs(self, X, y, reset=True, every=True, multi_output=True, y_numeric=True)
        Y = usable_outputs(np.asarray(y, dtype=np.float64).reshape(len(y), -1))  # None among objects is NaN by now
        given = None
        if sample_weight is not None:
            given = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        X, Y = (np.require(part, requirements=["C", "W"]) for part in (X, Y))  # kernels are compiled for nothing else
        every, frequent = self._mixed, self._mixed.frequent(X)
        rounded = any(find_rounding(column) is not None for column in Y.T)
        rows, weight = distinct_rows(X, Y, given, rounded)
        if len(rows) < len(X):  # else the forests copy them anyway
            X, Y = X[rows], Y[rows]
        settings = self._settings(len(X))
        self._mixed = choose_categories(X, Y, weight, (every, frequent), settings, self.bounds)
        X, categories = recoded(X, every, self._mixed), self._mixed.category_names
        names = self._mixed.seen_as(input_names(self))
        forests = []
        for j in range(Y.shape[1]):
            clock = _Clock(f"output {j + 1} of {Y.shape[1]}, {len(X)} rows", self.verbose)
            inputs = chain_inputs(X, Y, j)
            chosen = choose_for_output(self, settings, inputs, Y[:, j], (j, Y.shape[1]), len(X), weight)
            if self.stop == "auto":
                clock.report("priors and experts chosen on held-out rows")
            named = names + [f"y{i}" for i in range(j)]
            forest = Forest.plan(inputs, Y[:, j], chosen, named, shown=self.verbose > 0)
            clock.report(f"{len(forest.trees)} trees grown")
            forest.categories = categories
            forest.accumulate(inputs, Y[:, j], weight)
            forest.finalize(shown=self.verbose > 0)
            clock.report("contexts fitted")
            forests.append(forest)
        self.forests_, self.n_outputs_, self._flat = forests, Y.shape[1], np.ndim(y) == 1
        self._name_targets(y_given)
        return self

    @writes
    def fit_chunks(self, chunks: Chunks, **options: Any) -> Self:
        """Fit the model to rows that come in chunks, with one chunk in memory at a time.

        The trees are grown from a sample, and then every row is added to the sums of their contexts; see
        ``docs/scale.md``. If there are at most ``sample_rows`` rows, or 131,072, the result is that of `fit`.

        Examples
        --------
        >>> def chunks():
        ...     for seed in range(5):
        ...         X = np.random.default_rng(seed).uniform(size=(1000, 2))
        ...         yield X, X[:, 0] + 0.1 * np.random.default_rng(seed + 100).standard_normal(1000)
        >>> model = ConditionalDensity(n_estimators=4).fit_chunks(chunks, sample_rows=1000)
        >>> bool(abs(model.predict([[0.5, 0.5]])[0] - 0.5) < 0.05)
        True
        """
        return fit_chunks(self, chunks, **options)

    def _check_parameters(self) -> None:
        self._settings(0)

    def _plan_chunks(self, drawn: Any) -> Any:
        from coverwalk.forest.density_passes import plan_density

        return plan_density(self, self._settings(drawn.n_rows), drawn)

    def _settings(self, n_rows: int) -> Settings:
        """The parameters, checked."""
        self._schema.check_parameters(vars(self), *_CHECKED)
        n_trees = self.n_estimators if self.n_estimators is not None else 24 if n_rows <= 4096 else 16
        return Settings(
            n_trees=int(n_trees),
            degree=int(self.degree),
            ridges=_ridges(self.ridges),
            stop=0.5 if isinstance(self.stop, str) else float(self.stop),
            min_rows=int(self.min_samples_leaf),
            n_candidates=int(self.n_candidates),
            seed=seed_of(self.random_state),
            n_threads=n_threads(self.n_jobs),
        )

    # -- predictions --------------------------------------------------------------------------------------------------

    @reads
    def logpdf(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log density of each row's y."""
        X = self._check(X)
        if "calibration_" in self.__dict__ and self.n_outputs_ == 1:
            return np.asarray(self._calibrated(self._dist(X)).logpdf(y))
        Y = np.asarray(y, dtype=np.float64)
        if len(Y) != len(X) or Y.size != len(X) * self.n_outputs_:
            wanted = (len(X),) if self.n_outputs_ == 1 else (len(X), self.n_outputs_)
            raise ValueError(f"y must have shape {wanted}, one entry for each row and output; got {Y.shape}")
        if not np.all(np.isfinite(Y)):
            raise ValueError("y contains NaN or infinity: log densities exist at finite values only")
        return chain_logpdf(self._parts, X, Y.reshape(len(X), self.n_outputs_))

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _check(self, X: Any) -> Floats:
        known = self.__dict__
        one_row = type(X) is np.ndarray and X.ndim == 2 and len(X) == 1
        if one_row and "stream_" in known and "feature_names_in_" not in known:  # in a third of the time, or less
            return as_row(self._mixed.row(X[0]), "X", self.n_features_in_, with_missing=True)
        if "n_outputs_" not in known:
            check_is_fitted(self, "n_outputs_")  # which takes as long as a tree's prediction
        checked: Floats = np.require(read_inputs(self, X, reset=False), requirements=["C", "W"])
        return checked

    def _dist(self, X: Floats) -> PredictiveDistribution | JointDistribution:
        return chain_dist(self._parts, X, self.__dict__.get("target_names_"))

    @property
    def _parts(self) -> list[Any]:
        """The forest of each output, as it was fitted or on a stream."""
        return self.stream_.streams if "stream_" in self.__dict__ else self.forests_


def _ridges(given: Any) -> tuple[float, ...]:
    """The parameter, checked."""
    ridges = np.asarray(given, np.float64)
    if ridges.ndim != 1 or not 0 < ridges.size < 1000 or not ((ridges >= 1e-30) & (ridges <= 1e30)).all():
        file.refuse("ridges", "positive numbers from 1e-30 to 1e30, at least one", given)
    return tuple(ridges.tolist())


def _check_parts(state: Any) -> None:
    """A fitted model has one of a forest for each output, a stream and a double tree, over the inputs that it names."""
    _ridges(state.ridges)
    fitted = [name for name in ("forests_", "stream_") if hasattr(state, name)]
    if not fitted:  # saved before it was fitted
        return
    file.require("the fitted part", len(fitted) == 1)
    file.require("inputs", all(hasattr(state, name) for name in ("n_features_in_", "n_outputs_", "_flat")))
    file.require("calibration", np.diff(getattr(state, "calibration_", np.zeros((1, 1))), axis=0) >= 0)
    mixed = getattr(state, "_mixed", MixedInputs([]))
    file.require("categorical", len(mixed.categories) in (0, state.n_features_in_))
    for forest in getattr(state, "forests_", []):
        file.require("categories", forest.categories == mixed.category_names)
    if hasattr(state, "stream_"):
        counts = [len(categories) > 0 for categories in mixed.categories] or [False] * state.n_features_in_
        for stream in state.stream_.streams:
            file.require("categories", stream.categories in ([], mixed.category_names))
            file.require("categorical", stream.categorical[: state.n_features_in_] == np.array(counts, bool))


class _Clock:
    """Prints how long steps took, if ``verbose``."""

    def __init__(self, what: str, verbose: int) -> None:
        self.what, self.verbose, self.start = what, verbose, perf_counter()

    def report(self, step: str) -> None:
        """Print a step that is done, and begin the next."""
        if self.verbose:
            print(f"[ConditionalDensity] {self.what}: {step} in {perf_counter() - self.start:.2f} s")
        self.start = perf_counter()
