"""Fit to more rows than memory holds, in passes over chunks of them; on one machine or many.

A pass is a state that adds up. Four functions are all that an engine for large data has to call, pass after pass,
until there is no further pass and the fitted estimator comes out::

    state = plan(model, X, y)                                            # X, y: any chunk, for its columns
    while is_pass(state):
        parts = (accumulate(state, X, y) for X, y in chunks)             # anywhere, in any order
        state = finalize(reduce(merge, parts))                           # in any tree
    model = state

The first pass draws a sample, and keeps all rows where they are few; the second sums statistics in the contexts that
were planned on the sample; the last, which may be left out, counts what sums cannot tell. ``docs/scale.md`` says what
is computed, and what travels.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier

from coverwalk._arrays import Floats
from coverwalk.files.schema import Whole
from coverwalk.locks import adopt
from coverwalk.preparation.category_counts import CategoryCounts, digests
from coverwalk.preparation.checked_rows import refuse_kinds
from coverwalk.preparation.columns import refuse_equal_names
from coverwalk.preparation.frames import categories_of, columns_of
from coverwalk.preparation.row_sample import RowSample

__all__ = [
    "Chunks",
    "Options",
    "Pass",
    "RowError",
    "accumulate",
    "accumulate_all",
    "finalize",
    "fit_chunks",
    "is_pass",
    "merge",
    "plan",
]

Chunks = Iterable[tuple[Any, Any]] | Callable[[], Iterable[tuple[Any, Any]]]
Model = TypeVar("Model", bound=BaseEstimator)

ROWS_KEPT = 2**17  # by the first pass, if there is room: a fit of so few takes about as long as their sums


@dataclass(frozen=True)
class Options:
    """How large data are read.

    Parameters
    ----------
    sample_rows : int
        Rows that plan the covers and choose what the model is made of.
    second_pass : bool
        Whether rows are read once more after they were summed: for the kernel densities of residuals, and for the
        walks and the pool of classes.
    state_bytes : int
        About what the sums may take: more make finer covers. Up to 131072 rows are kept in as many bytes. Where these
        are all rows, or where all are in the sample, the model is fitted in memory.
    """

    sample_rows: int = 2**17
    second_pass: bool = True
    state_bytes: int = 2**28

    def __post_init__(self) -> None:
        Whole(20).check("sample_rows", self.sample_rows)
        Whole(1).check("state_bytes", self.state_bytes)


class RowError(ValueError):
    """Rows that cannot be learned from; the message names the chunk and the row."""


@runtime_checkable
class Pass(Protocol):
    """One reading of all rows.

    ``merge`` is associative and commutative but for rounding, and what comes out does not depend on how rows were
    divided; a state without rows changes nothing.
    """

    @property
    def n_rows(self) -> int:
        """How many rows were taken in."""
        ...

    def empty(self) -> Self:
        """The same pass without rows."""
        ...

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Take checked rows in."""
        ...

    def merge(self, other: Self) -> None:
        """Take in what another state of the same pass took in."""
        ...

    def finish(self) -> Any:
        """The next pass, or the fitted estimator."""
        ...


class Columns(NamedTuple):
    """What every chunk must have."""

    names: list[str] | None
    n_inputs: int
    n_outputs: int  # 0: y has one dimension
    labels: bool  # y are labels of classes
    categorical: tuple[int, ...] = ()  # inputs that come as the digests of their values

    @classmethod
    def of(cls, X: Any, y: Any, labels: bool, categorical: Any = None) -> "Columns":
        """Those of a chunk, which may have no rows; ``categorical``: which are categories, as in estimators."""
        X_shape, y_shape = np.shape(X), np.shape(y)
        if len(X_shape) != 2 or X_shape[1] == 0:
            raise RowError(f"X must have two dimensions, rows and at least one column; got shape {X_shape}")
        if len(y_shape) not in (1, 2) or (len(y_shape) == 2 and (labels or y_shape[1] == 0)):
            raise RowError(
                f"y must have one dimension{'' if labels else ', or two for several outputs'}; got {y_shape}"
            )
        refuse_equal_names(X)
        if not labels:
            refuse_kinds(y)
        chosen = tuple(sorted(categories_of(X, categorical) or ()))
        return cls(_names(X), X_shape[1], y_shape[1] if len(y_shape) == 2 else 0, labels, chosen)

    def checked(self, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
        """A chunk as arrays X (n, p), Y (n, q); RowError names the row that is wrong."""
        found = Columns.of(X, y, self.labels)
        if found.n_inputs != self.n_inputs:
            raise RowError(f"rows have {found.n_inputs} inputs, expected {self.n_inputs}")
        if found.n_outputs != self.n_outputs:
            raise RowError(f"y has {found.n_outputs or 'no'} columns, expected {self.n_outputs or 'one dimension'}")
        if found.names is not None and self.names is not None and found.names != self.names:
            raise RowError(f"columns are {found.names}, expected {self.names}: put them in one order")
        if np.shape(X)[0] != np.shape(y)[0]:
            raise RowError(f"X has {np.shape(X)[0]} rows and y {np.shape(y)[0]}: they must be those of the same rows")
        names = self.names or [f"x{a}" for a in range(self.n_inputs)]
        inputs = self._inputs(X, names)
        if self.labels:
            return inputs, _labels(y)
        outputs = _numbers(np.asarray(y).reshape(len(inputs), max(self.n_outputs, 1)), _targets(self.n_outputs))
        return inputs, outputs

    def _inputs(self, X: Any, names: list[str]) -> Floats:
        if not self.categorical:
            return _numbers(X, names, with_missing=True)
        table = columns_of(X)
        parts = [
            digests(table[a])[:, None]
            if a in self.categorical
            else _numbers(table[a], names[a : a + 1], with_missing=True)
            for a in range(self.n_inputs)
        ]
        return np.ascontiguousarray(np.hstack([part.reshape(-1, 1) for part in parts]))


def _names(X: Any) -> list[str] | None:
    """Names of the columns of a frame, where all are text; as scikit-learn has it."""
    names = list(getattr(X, "columns", []))
    return names if names and all(isinstance(name, str) for name in names) else None


def _targets(n_outputs: int) -> list[str]:
    return ["y"] if n_outputs <= 1 else [f"y{j}" for j in range(n_outputs)]


def _numbers(values: Any, names: list[str], with_missing: bool = False) -> Floats:
    """An array (n, p) of finite numbers or, with ``with_missing``, NaN; a column alone becomes (n, 1)."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64).reshape(-1, len(names))
    except (TypeError, ValueError) as error:
        raise RowError(
            f"columns must be numbers: {error}; columns of text are named in categorical_features, or have text in the "
            "first chunk"
        ) from error
    if array.size and not np.isfinite(array).all():
        missing = np.isnan(array)
        wrong = np.isinf(array) if with_missing else ~np.isfinite(array)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise RowError(
                f"row {row} (from 0) has {array[row, column]} in {names[column]}: fill in a finite number or leave it "
                "out"
            )
        array = np.where(missing, np.nan, array)  # of one kind: rows are known by their bits
    return array


def _labels(y: Any) -> NDArray[Any]:
    labels = np.asarray(y).reshape(-1, 1)
    missing = ~np.isfinite(labels) if labels.dtype.kind == "f" else np.zeros(labels.shape, bool)
    if labels.dtype.kind == "O":  # as text, or whatever they are
        missing = np.array([label is None or label != label for label in labels[:, 0]], bool).reshape(-1, 1)
        labels = labels if missing.any() else np.array(labels[:, 0].tolist()).reshape(-1, 1)
    if missing.any():
        row = int(np.argmax(missing[:, 0]))
        raise RowError(f"row {row} (from 0) has the label {labels[row, 0]}: give it one or leave the row out")
    return labels


@dataclass
class SamplePass:
    """The first pass: a sample of all rows, and the labels among them.

    Where the sample holds every row the estimator is fitted to it as it would be in memory.
    """

    model: Any  # to be fitted, with its columns set
    columns: Columns
    sample: RowSample
    options: Options
    categories: CategoryCounts
    classes: set[Any] = field(default_factory=set)

    @property
    def n_rows(self) -> int:
        """How many rows were drawn from."""
        return self.sample.n_rows

    def empty(self) -> "SamplePass":
        """The same pass without rows."""
        return SamplePass(self.model, self.columns, RowSample(self.sample.most), self.options, self.categories.empty())

    @property
    def all_kept(self) -> bool:
        """Whether the sample is all rows, as often as they came."""
        return self.sample.complete and self.n_rows <= self.sample.most

    def accumulate(self, X: Floats, y: NDArray[Any]) -> None:
        """Draw from further rows."""
        self.sample.accumulate(X, y)
        if self.columns.labels:
            self.classes |= set(np.unique(y).tolist())

    def merge(self, other: "SamplePass") -> None:
        """Draw from all rows that another has drawn from."""
        self.sample.merge(other.sample)
        self.categories.merge(other.categories)
        self.classes |= other.classes

    def finish(self) -> Any:
        """Plan the next pass on the sample; or the estimator, if there are no more rows than these."""
        if not self.n_rows:
            raise ValueError("there is not one row in all chunks: nothing to learn from")
        if self.all_kept:
            X, Y = self.sample.rows()
            values = {a: self.categories.values(a, X[:, a]) for a in self.columns.categorical}
            return self.model.fit(_framed(X, self.columns.names, values), Y if self.columns.n_outputs else Y[:, 0])
        self.model._mixed = self.categories.mixed()
        return self.model._plan_chunks(self)


def _framed(X: Floats, names: list[str] | None, values: dict[int, list[Any]]) -> Any:
    """Rows with the names of their columns, for which scikit-learn wants some frame, and the values of categories."""
    if names is None:
        table: Any = X.astype(object) if values else X
        for a, column in values.items():
            table[:, a] = column
        return table
    try:
        import pandas as frames
    except ImportError:
        import polars

        return polars.DataFrame({name: values.get(a, X[:, a]) for a, name in enumerate(names)})
    columns = {name: frames.Categorical(values[a]) if a in values else X[:, a] for a, name in enumerate(names)}
    return frames.DataFrame(columns)


def plan(model: Model, X: Any, y: Any, **options: Any) -> SamplePass:
    """The first pass of a fit, and what all later chunks must look like: like X and y, which may have no rows.

    Options: those of `Options`, by name.
    """
    chosen = Options(**options)
    columns = Columns.of(X, y, is_classifier(model), model.categorical_features)
    fresh = clone(model)
    fresh._check_parameters()
    fresh.n_features_in_ = columns.n_inputs
    if columns.names is not None:
        fresh.feature_names_in_ = np.array(columns.names, dtype=object)
    categories = CategoryCounts(columns.categorical, columns.n_inputs)
    row_bytes = 8 * (columns.n_inputs + max(columns.n_outputs, 1))
    kept = min(ROWS_KEPT, chosen.state_bytes // row_bytes)
    return SamplePass(fresh, columns, RowSample(max(chosen.sample_rows, kept)), chosen, categories)


def is_pass(state: Any) -> bool:
    """Whether there is still something to read."""
    return isinstance(state, Pass)


def accumulate(state: Any, X: Any, y: Any, *, where: str = "the chunk") -> Any:
    """A state of the same pass that has taken these rows in, and no others; ``where`` names them in messages."""
    return accumulate_all(state, [(X, y)], [where])


def accumulate_all(state: Any, chunks: Iterable[tuple[Any, Any]], names: str | Iterable[str] = "chunk") -> Any:
    """`accumulate` over several chunks, in one state; names: of each, or what they are, to be numbered from 0."""
    taken = state.empty()
    named = (f"{names} {i}" for i in count()) if isinstance(names, str) else names
    for (X, y), name in zip(chunks, named):
        try:
            rows = state.columns.checked(X, y)
        except RowError as error:
            raise RowError(f"{name}: {error}") from None
        taken.accumulate(*rows)
        if isinstance(taken, SamplePass):
            taken.categories.accumulate(X, rows[0])
    return taken


def merge(state: Any, other: Any) -> Any:
    """A state with the rows of both."""
    both = state.empty()
    both.merge(state)
    both.merge(other)
    return both


def finalize(state: Any) -> Any:
    """The state of the next pass, or the fitted estimator."""
    return state.finish()


def fit_chunks(model: Model, chunks: Chunks, **options: Any) -> Model:
    """Fit an estimator to all rows of some chunks (X, y), in the memory of one; it changes only if all goes well."""
    read = _reader(chunks)
    state: Any = None
    for X, y in read():
        state = plan(model, X, y, **options)
        break
    if state is None:
        raise ValueError("there are no chunks: expected at least one pair (X, y)")
    expected: int | None = None
    while is_pass(state):
        from tqdm import tqdm

        bar = tqdm(desc=type(state).__name__.replace("Pass", " pass").lower(), unit="rows", disable=None, leave=False)
        with bar:
            total = accumulate_all(state, _shown(read(), bar))
        if expected not in (None, total.n_rows):
            raise ValueError(
                f"the chunks had {expected} rows when read first and {total.n_rows} when read again: "
                "give chunks that are the same every time"
            )
        expected = total.n_rows
        state = finalize(total)
    return adopt(model, state)


def _shown(chunks: Iterable[tuple[Any, Any]], bar: Any) -> Iterator[tuple[Any, Any]]:
    for X, y in chunks:
        yield X, y
        bar.update(len(y))


def _reader(chunks: Chunks) -> Callable[[], Iterable[tuple[Any, Any]]]:
    """A function that gives the chunks from the beginning, every time."""
    if callable(chunks):
        return chunks
    if iter(chunks) is chunks:
        raise TypeError(
            "the rows are read more than once, and an iterator can be read only once: "
            "give a list of chunks (X, y), or a function without arguments that returns a new iterator"
        )
    return lambda: chunks
