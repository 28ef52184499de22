"""Streams of dictionaries with river's interface; needs ``pip install river``.

Features may appear and vanish at any time: see `coverwalk.adapters._dict_rows` for what that means. Features of text
are categories, and features that a row lacks are missing values: see docs/mixed_inputs.md.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._docstrings import Documented
from coverwalk.adapters._dict_rows import DictRows
from coverwalk.classifier import ContextClassifier
from coverwalk.conditional_density import ConditionalDensity
from coverwalk.distributions.mixture import PredictiveDistribution

try:
    from river import base
except ImportError as error:
    raise ImportError("this adapter needs river: pip install river") from error

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CoverClassifier", "CoverRegressor"]


class _DictStream(Documented):
    """Rows of dictionaries, and a model that begins anew where they bring new features."""

    _words = {  # noqa: RUF012
        "x": "mapping\n    Features of one row.",
        "X": "pandas.DataFrame\n    One row for each row.",
        "learn_one.y": "float or hashable\n    Its output, or its label, which may be new.",
        "learn_many.y": "pandas.Series\n    Outputs or labels.",
        "kwargs": "\n    Ignored.",
        "predict_dist_one ->": "PredictiveDistribution\n    Of one row.",
        "predict_dist_many ->": "PredictiveDistribution\n    Of all rows.",
        "predict_proba_one ->": "dict\n    From labels to probabilities.",
        "predict_proba_many ->": "pandas.DataFrame\n    One column for each label.",
    }

    _rows: DictRows
    _model: Any
    _new: Any  # a model that has learned nothing, of the columns that there are
    learn_one: Any

    def learn_many(self, X: "pd.DataFrame", y: "pd.Series") -> None:
        """Learn the rows of a frame in order; the same as one by one."""
        for x, value in zip(_dictionaries(X), y):
            self.learn_one(x, value)

    def _enter(self, x: Mapping[Any, Any], y: float, learn: Callable[[Any, Floats, Floats], Any]) -> Floats:
        """The row of a dictionary; where it has new features a new model learns the rows before it."""
        row, before = self._rows.enter(x, y)
        if before is not None:
            self._model = self._new()
            if len(before[1]):
                learn(self._model, *before)
        return row

    def _table(self, X: Any) -> Floats:
        return np.vstack([self._rows.row(x) for x in (X if isinstance(X, list) else _dictionaries(X))])


class CoverRegressor(_DictStream, base.MiniBatchRegressor):  # type: ignore[misc]
    """`coverwalk.ConditionalDensity` as a regressor of river, which also predicts distributions.

    Parameters
    ----------
    n_estimators
        Number of trees. Three are almost as good as ten, and three times as fast. With fewer than four, the trees also
        grow less often. None uses the default of `ConditionalDensity`.
    max_rows
        Number of rows kept to be learned again when a new feature comes. In longer streams, new features are ignored.
    seed
        Seed of the candidate splits.
    n_candidates
        Number of candidate splits in each context. Twenty, the default of `ConditionalDensity`, reduce the RMSE by 0.1
        to 3 % on the sets of ``benchmarks/river_streams.py``, and take a tenth more time.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = CoverRegressor()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    >>> x, y = next(iter(datasets.TrumpApproval()))
    >>> low, high = model.predict_dist_one(x).interval(0.9)
    >>> bool(low < y < high)
    True
    """

    def __init__(
        self, n_estimators: int | None = 3, max_rows: int = 100_000, seed: int = 0, n_candidates: int = 12
    ) -> None:
        self.n_estimators = n_estimators
        self.max_rows = max_rows
        self.seed = seed
        self.n_candidates = n_candidates
        self._rows = DictRows(max_rows)
        self._model: ConditionalDensity = self._new()

    def _new(self) -> ConditionalDensity:
        return ConditionalDensity(
            self.n_estimators,
            categorical_features=self._rows.categorical,
            n_candidates=self.n_candidates,
            random_state=self.seed,
        )

    def learn_one(self, x: Mapping[Any, Any], y: float) -> None:
        """Learn one row, of finite numbers."""
        y = _number(y)
        row = self._enter(x, y, ConditionalDensity.partial_fit)
        if self._rows.categories:
            self._model.learn_one(row[0], y)
        elif row.size:
            self._model._learn_row(row, y)

    def learn_many(self, X: "pd.DataFrame", y: "pd.Series") -> None:
        """Learn the rows of a frame in order; the same as one by one."""
        if len(X) and self._rows.are_all(X.columns):
            values = np.ascontiguousarray(X[list(self._rows.columns)], dtype=np.float64)
            if np.isfinite(values).all():
                targets = np.array([_number(value) for value in y])
                self._model.partial_fit(values, targets)
                self._rows.add(values, targets)
                return
        super().learn_many(X, y)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """The mean of y; 0.0 before anything was learned."""
        if not self._fitted:
            return 0.0
        return self._model._mean_of_row(self._rows.row(x))

    def predict_many(self, X: "pd.DataFrame") -> "pd.Series":
        """The mean of y for each row of a frame."""
        import pandas as pd

        if not self._fitted:
            return pd.Series(np.zeros(len(X)), index=X.index)
        return pd.Series(self._model.predict(self._table(X)), index=X.index)

    def predict_dist_one(self, x: Mapping[Any, Any]) -> PredictiveDistribution:
        """The whole distribution of y: ``pdf``, ``cdf``, ``ppf``, ``interval``, ``rvs`` and so on."""
        dist: Any = self.predict_dist_many([x])
        return dist[0]  # type: ignore[no-any-return]

    def predict_dist_many(self, X: Any) -> PredictiveDistribution:
        """The distributions of y for each row of a frame, or of a list of dictionaries, as one object."""
        if not self._fitted:
            raise ValueError("there is no distribution before the first row: call learn_one first")
        dist: Any = self._model.predict_dist(self._table(X))
        return dist  # type: ignore[no-any-return]

    @property
    def _fitted(self) -> bool:
        return "n_outputs_" in self._model.__dict__


class CoverClassifier(_DictStream, base.MiniBatchClassifier):  # type: ignore[misc]
    """`coverwalk.ContextClassifier` as a classifier of river.

    Parameters
    ----------
    n_estimators, n_discriminant_trees
        Numbers of trees, as in `coverwalk.ContextClassifier`. There are fewer by default, because every row is
        predicted and learned by all of them.
    max_rows
        Number of rows kept to be learned again when a new feature comes. In longer streams, new features are ignored.
    seed
        Seed of the splits and of the held-out rows.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = CoverClassifier()
    >>> evaluate.progressive_val_score(list(datasets.Phishing())[:300], model, metrics.Accuracy())
    Accuracy: 8...%
    """

    def __init__(
        self, n_estimators: int = 16, n_discriminant_trees: int = 4, max_rows: int = 100_000, seed: int = 0
    ) -> None:
        self.n_estimators = n_estimators
        self.n_discriminant_trees = n_discriminant_trees
        self.max_rows = max_rows
        self.seed = seed
        self._rows = DictRows(max_rows)
        self._labels: dict[Hashable, int] = {}
        self._model = self._new()

    def _new(self) -> ContextClassifier:
        return ContextClassifier(
            self.n_estimators,
            self.n_discriminant_trees,
            categorical_features=self._rows.categorical,
            random_state=self.seed,
        )

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Any, Any], y: Hashable) -> None:
        """Learn one row; its label may be new."""
        label: Hashable = y.item() if isinstance(y, np.generic) else y
        known = float(self._labels.get(label, len(self._labels)))
        row = self._enter(x, known, lambda model, X, codes: model.fit(X, codes.astype(np.int64)))
        code = self._labels.setdefault(label, len(self._labels))
        if row.size:
            self._model.partial_fit(row, np.array([code]))

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Hashable, float]:
        """The probability of each label seen so far; none before the first."""
        if not hasattr(self._model, "classes_"):
            return dict.fromkeys(self._labels, 1.0 / max(len(self._labels), 1))
        return dict(zip(self._seen(), self._model.predict_proba(self._rows.row(x))[0].tolist()))

    def predict_proba_many(self, X: "pd.DataFrame") -> "pd.DataFrame":
        """The probabilities of the labels, a column for each, for each row of a frame."""
        import pandas as pd

        if not hasattr(self._model, "classes_"):
            return pd.DataFrame(index=X.index)
        return pd.DataFrame(self._model.predict_proba(self._table(X)), index=X.index, columns=pd.Index(self._seen()))

    def _seen(self) -> list[Hashable]:
        labels = list(self._labels)
        return [labels[code] for code in self._model.classes_]


def _dictionaries(X: "pd.DataFrame") -> Iterator[dict[Any, Any]]:
    names = list(X.columns)
    for values in X.itertuples(index=False, name=None):
        yield dict(zip(names, values))


def _number(y: Any) -> float:
    number = float(y)
    if not math.isfinite(number):
        raise ValueError(f"y must be a finite number, got {y!r}; nothing was learned")
    return number
