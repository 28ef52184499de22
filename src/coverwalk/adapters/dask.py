"""coverwalk on Dask: estimators that fit and predict Dask arrays and dataframes, partition by partition.

    pip install 'dask[distributed]'

Workers take partitions in, states are merged in a tree, and the client plans and finalizes: the four functions of
`coverwalk.forest.passes`. All that a worker holds can be made again, so one that dies costs time and nothing else.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from copy import deepcopy
from functools import partial
from math import ceil
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

import coverwalk
from coverwalk._arrays import Bools, Floats
from coverwalk.classifier import ContextClassifier
from coverwalk.conditional_density import ConditionalDensity
from coverwalk.forest.passes import Columns, Options, accumulate_all, finalize, is_pass, plan

try:
    import dask
    import dask.array
    from dask.delayed import Delayed, delayed
    from distributed import Client, Future, get_client
    from distributed.comm.core import CommClosedError
except ImportError as error:
    raise ImportError("this adapter needs Dask: pip install 'dask[distributed]'") from error

__all__ = ["DaskConditionalDensity", "DaskContextClassifier"]

MERGED_AT_ONCE = 8  # states
GROUPS_A_THREAD = 4  # a group of partitions shares one state; more groups are more even, and more states to merge
GROUP_BYTES = 2**28  # of rows that a group may hold in memory at once
LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "4GiB"}  # states are meant to travel


_OWN = ("client", "sample_rows", "second_pass", "state_bytes")  # parameters that the local estimators have not


class _DaskEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share; parameters other than its own are those of the local estimator."""

    _local: type[Any]

    def __init__(
        self,
        *,
        client: Client | None = None,
        sample_rows: int = Options.sample_rows,
        second_pass: bool = Options.second_pass,
        state_bytes: int = Options.state_bytes,
        **parameters: Any,
    ) -> None:
        self.client = client
        self.sample_rows = sample_rows
        self.second_pass = second_pass
        self.state_bytes = state_bytes
        self.local = self._local(**parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its own parameters and those of the local estimator."""
        return {**{name: getattr(self, name) for name in _OWN}, **self.local.get_params(deep)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, its own or those of the local estimator."""
        self.local.set_params(**{name: value for name, value in params.items() if name not in _OWN})
        for name in params.keys() & set(_OWN):
            setattr(self, name, params[name])
        return self

    def __sklearn_clone__(self) -> Self:
        """The same parameters, unfitted; the same client, since a connection cannot be copied."""
        return type(self)(**{**self.get_params(deep=False), **clone(self.local).get_params(deep=False)})

    def __getstate__(self) -> dict[str, Any]:
        """A client is a connection: it stays behind, and the one at hand is taken instead."""
        state = dict(super().__getstate__())
        state.pop("_remote", None)
        return {**state, "client": None}

    @property
    def client_(self) -> Client:
        """The client that was given, or else the one at hand."""
        return self.client if self.client is not None else get_client()

    def to_local(self) -> Any:
        """The fitted estimator without Dask: all its methods, in memory."""
        return deepcopy(self._fitted)

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, "fitted_")
        return self.fitted_

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to all rows of a Dask array or dataframe X and an array, series or dataframe y of the same partitions.

        They are read up to three times; where memory allows, ``persist`` them before.
        """
        client = self.client_
        _check_versions(client)
        pairs = _beside(X, _divided_as(X, y))
        head = _head(X), _head(y)
        options = {name: getattr(self, name) for name in _OWN[1:]}
        state: Any = plan(self.local, *head, **options)
        groups = [[i] for i in range(len(pairs))]
        with tqdm(desc="passes", disable=None, leave=False) as bar:
            while is_pass(state):
                total = _computed(client, _reduced(state, pairs, groups))
                groups = _groups(len(pairs), total.n_rows, state.columns, client)
                state = finalize(total)
                bar.update()
        self.fitted_ = state  # nothing has changed before
        self.n_features_in_ = state.n_features_in_
        self._remote: Future[Any] | None = None
        return self

    def _evaluate(
        self, function: Callable[..., Any], X: Any, *others: Any, tail: tuple[int, ...] = (), dtype: Any = float
    ) -> Any:
        """A Dask array (n, *tail) of what a function of the fitted estimator and rows returns, by partitions."""
        model, none, evaluate = self._model(), np.empty((0, *tail), dtype), delayed(_evaluated, pure=False)
        evaluated = [evaluate(model, function, none, *blocks) for blocks in _beside(X, *others)]
        lengths = X.chunks[0] if isinstance(X, dask.array.Array) else [np.nan] * len(evaluated)
        arrays = [dask.array.from_delayed(part, (n, *tail), dtype) for part, n in zip(evaluated, lengths)]
        return dask.array.concatenate(arrays, allow_unknown_chunksizes=True)

    def _mean(self, function: Callable[..., Any], X: Any, y: Any, **options: Any) -> Any:
        """The mean over all rows of what `_evaluate` gives; computed at once."""
        return _computed(self.client_, self._evaluate(function, X, _divided_as(X, y), **options).mean(axis=0))

    def _model(self) -> Any:
        """The fitted estimator on the cluster, sent once."""
        if getattr(self, "_remote", None) is None:
            with dask.config.set(LARGE_GRAPH):
                self._remote = self.client_.submit(_itself, self._fitted, key=f"coverwalk-{uuid4()}")
        return self._remote


class DaskConditionalDensity(_DaskEstimator):
    """`coverwalk.ConditionalDensity` on Dask arrays and dataframes.

    Parameters
    ----------
    client : distributed.Client, optional
        Where to compute; by default the client at hand.
    sample_rows, second_pass, state_bytes
        Of `coverwalk.forest.passes.Options`.
    **parameters
        Of `coverwalk.ConditionalDensity`; ``n_jobs`` are the threads of one task.

    Attributes
    ----------
    fitted_ : ConditionalDensity
        The fitted estimator; `to_local` gives a copy.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from coverwalk.adapters.dask import DaskConditionalDensity
    >>> X = da.random.default_rng(0).uniform(size=(10_000, 2), chunks=(2_000, 2))
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    ...     model = DaskConditionalDensity(client=client, n_estimators=2, sample_rows=1000).fit(X, X[:, 0])
    ...     error = abs(model.predict(X) - X[:, 0]).mean().compute()
    >>> bool(error < 0.05)
    True
    """

    _local = ConditionalDensity

    def predict(self, X: Any, quantiles: ArrayLike | None = None) -> Any:
        """Means of y, or quantiles (n, k), as a Dask array."""
        levels = () if quantiles is None else (np.size(quantiles),)
        outputs = () if self._fitted._flat else (self.fitted_.n_outputs_,)
        return self._evaluate(partial(ConditionalDensity.predict, quantiles=quantiles), X, tail=outputs + levels)

    def logpdf(self, X: Any, y: Any) -> Any:
        """Log densities of the rows' own y, as a Dask array."""
        return self._evaluate(ConditionalDensity.logpdf, X, y)

    def log_likelihood(self, X: Any, y: Any) -> float:
        """Mean log density of the rows; computed at once."""
        return float(self._mean(ConditionalDensity.logpdf, X, y))

    def score(self, X: Any, y: Any) -> float:
        """R², the fraction of variance explained, averaged over outputs; computed at once."""
        error, first, second = self._mean(_squares, X, y, tail=(3, self._fitted.n_outputs_))
        return float(np.mean(1.0 - error / (second - first**2)))


class DaskContextClassifier(_DaskEstimator):
    """`coverwalk.ContextClassifier` on Dask arrays and dataframes; parameters as in `DaskConditionalDensity`.

    Attributes
    ----------
    fitted_ : ContextClassifier
        The fitted estimator; `to_local` gives a copy.
    classes_ : array
        The labels, sorted.
    """

    _local = ContextClassifier

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted: the order of the columns of `predict_proba`."""
        return np.asarray(self._fitted.classes_)

    def predict(self, X: Any) -> Any:
        """The most probable label of each row, as a Dask array."""
        return self._evaluate(ContextClassifier.predict, X, dtype=self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (n, n_classes), as a Dask array."""
        return self._evaluate(ContextClassifier.predict_proba, X, tail=(len(self.classes_),))

    def predict_log_proba(self, X: Any) -> Any:
        """Log probabilities (n, n_classes), as a Dask array."""
        return self._evaluate(ContextClassifier.predict_log_proba, X, tail=(len(self.classes_),))

    def score(self, X: Any, y: Any) -> float:
        """Accuracy; computed at once."""
        return float(self._mean(_right, X, y, dtype=bool))


# -- partitions -----------------------------------------------------------------------------------------------------


def _blocks(part: Any) -> list[Delayed]:
    """The partitions of a Dask collection, whole rows each."""
    if isinstance(part, dask.array.Array):
        whole = part.rechunk({1: -1}) if part.ndim == 2 else part
        return list(whole.to_delayed().ravel())
    if hasattr(part, "to_delayed"):
        # fully optimised, the columns of X and of y in one Parquet file may come in different numbers of partitions
        return list(part.simplify().to_delayed(optimize_graph=False))
    raise TypeError(
        f"expected a Dask array, dataframe or series, got {type(part).__name__}: make one with dask.array.from_array "
        "or dask.dataframe.from_pandas, or use the estimator without Dask"
    )


def _beside(*parts: Any) -> list[tuple[Delayed, ...]]:
    """The partitions of collections of the same rows, side by side."""
    blocks = [_blocks(part) for part in parts]
    if len({len(each) for each in blocks}) > 1:
        counts = " and ".join(str(len(each)) for each in blocks)
        raise ValueError(f"X and y must be partitioned alike, they have {counts} partitions: repartition one of them")
    return list(zip(*blocks))


def _divided_as(X: Any, y: Any) -> Any:
    """y in the partitions of X, where the rows of both are known."""
    known = [isinstance(part, dask.array.Array) and not any(np.isnan(part.chunks[0])) for part in (X, y)]
    if not all(known):
        return y
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} rows and y {len(y)}: they must be those of the same rows")
    return y.rechunk({0: X.chunks[0]})


def _head(part: Any) -> Any:
    """Something of the same columns without rows."""
    if isinstance(part, dask.array.Array):
        return np.empty((0, *part.shape[1:]), part.dtype)
    return part._meta


def _groups(n_partitions: int, n_rows: int, columns: Columns, client: Client) -> list[list[int]]:
    """Partitions that are taken in by one task, into one state."""
    threads = sum(client.nthreads().values())
    n_bytes = 8 * n_rows * (columns.n_inputs + max(columns.n_outputs, 1))
    n_groups = min(max(GROUPS_A_THREAD * threads, ceil(n_bytes / GROUP_BYTES), 1), n_partitions)
    return [part.tolist() for part in np.array_split(np.arange(n_partitions), n_groups)]


# -- what travels ---------------------------------------------------------------------------------------------------


def _reduced(state: Any, pairs: list[tuple[Delayed, ...]], groups: list[list[int]]) -> Delayed:
    """The graph of one pass: every group of partitions into a state, states merged in a tree."""
    sent = delayed(state, name=f"coverwalk-state-{uuid4()}", traverse=False)
    take, merge = delayed(_take, pure=False), delayed(_merge, pure=False)
    version = coverwalk.__version__
    states = [take(version, sent, group, *(block for i in group for block in pairs[i])) for group in groups]
    while len(states) > 1:
        states = [merge(*states[k : k + MERGED_AT_ONCE]) for k in range(0, len(states), MERGED_AT_ONCE)]
    total: Delayed = states[0]
    return total


def _computed(client: Client, task: Delayed) -> Any:
    """The result of a task; an error if the cluster has gone."""
    try:
        with dask.config.set(LARGE_GRAPH):
            return client.compute(task).result()
    except (CancelledError, CommClosedError, TimeoutError) as error:
        raise ConnectionError(
            "the Dask scheduler went away, or the computation was cancelled: nothing was learned, and the estimator is "
            "as it was"
        ) from error


def _take(version: str, state: Any, numbers: list[int], *blocks: Any) -> Any:
    if version != coverwalk.__version__:
        raise RuntimeError(f"this worker has coverwalk {coverwalk.__version__}, the client {version}: install one")
    chunks: Iterable[tuple[Any, Any]] = zip(blocks[::2], blocks[1::2])
    return accumulate_all(state, chunks, (f"partition {i}" for i in numbers))


def _merge(*states: Any) -> Any:
    total = states[0].empty()
    for state in states:
        total.merge(state)
    return total


def _itself(thing: Any) -> Any:
    return thing


def _evaluated(model: Any, function: Callable[..., Any], none: NDArray[Any], X: Any, *others: Any) -> Any:
    """What a function says of a partition; ``none``, if it has no rows, which scikit-learn refuses."""
    return function(model, X, *(np.asarray(part) for part in others)) if len(X) else none


def _squares(model: Any, X: Any, y: Any) -> Floats:
    """Of each row and output (n, 3, q): squared error, y and its square about the middle of the forest's units."""
    Y = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
    centred = Y - [forest.output.centre[0] for forest in model.forests_]
    return np.stack([(Y - model.predict(X).reshape(Y.shape)) ** 2, centred, centred**2], axis=1)


def _right(model: Any, X: Any, y: Any) -> Bools:
    return np.asarray(model.predict(X) == y)


def _check_versions(client: Client) -> None:
    """Sums of different versions would not fit together."""
    if client.status != "running":
        raise ConnectionError(f"the Dask client is {client.status}: connect to a scheduler first; nothing was learned")
    try:
        found = client.run(_version)
    except ImportError as error:
        raise RuntimeError(f"workers have no coverwalk: install {coverwalk.__version__} on all of them") from error
    if not found:
        raise RuntimeError("the cluster has no workers: start some, or wait for them with client.wait_for_workers")
    others = {worker: version for worker, version in found.items() if version != coverwalk.__version__}
    if others:
        listed = ", ".join(f"{worker} has {version}" for worker, version in sorted(others.items()))
        raise RuntimeError(f"all workers must have coverwalk {coverwalk.__version__}, as the client has; {listed}")


def _version() -> str:
    return coverwalk.__version__
