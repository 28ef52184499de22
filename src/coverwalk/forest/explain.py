"""Why a model predicts what it predicts: importances, dependence of mean and spread, contexts in plain words."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted

from coverwalk._arrays import Floats
from coverwalk._docstrings import ROWS, Documented
from coverwalk.distributions.explanation import Explanation, explanation_of
from coverwalk.files.schema import Whole
from coverwalk.forest.importance import normalised, regression_gains
from coverwalk.preparation.columns import input_names


class Importance(NamedTuple):
    """Increase in held-out log loss, in nats per row, when a feature is shuffled; with scikit-learn's field names."""

    importances_mean: Floats  # (p,)
    importances_std: Floats  # (p,)
    importances: Floats  # (p, n_repeats)
    names: list[str]

    def __str__(self) -> str:
        order = np.argsort(-self.importances_mean)
        width = max(len(name) for name in self.names)
        lines = [
            f"{self.names[a]:<{width}}  {self.importances_mean[a]:8.4f} ± {self.importances_std[a]:.4f}" for a in order
        ]
        return "\n".join(["increase in log loss, nats per row", *lines])


class Dependence(NamedTuple):
    """Partial dependence on one feature: averages over rows, for each value of the grid (k,)."""

    feature: str
    grid: NDArray[Any]  # (k,) values of the feature: numbers or categories
    mean: Floats  # (k,) of the means: what moves the prediction
    std: Floats  # (k,) of the standard deviations: what moves the uncertainty
    low: Floats  # (k,) of the 5 % quantiles
    high: Floats  # (k,) of the 95 % quantiles


def permutation_importance(model: Any, X: Any, loss: Any, n_repeats: int, random_state: Any) -> Importance:
    """Importances of the features of X for ``loss(X)``, the mean log loss of the model on rows X and their targets."""
    Whole(1).check("n_repeats", n_repeats)
    names = input_names(model)
    rise = permutation_rises(X, loss, len(names), n_repeats, check_random_state(random_state))
    return Importance(rise.mean(axis=1), rise.std(axis=1), rise, names)


def permutation_rises(X: Any, loss: Any, p: int, n_repeats: int, rng: Any) -> Floats:
    """By how much ``loss(X)`` rises when each of p features is shuffled, (p, n_repeats)."""
    n, base = X.shape[0] if hasattr(X, "shape") else len(X), loss(X)
    shuffled = [[loss(_with_column(X, a, rng.permutation(n))) for _ in range(n_repeats)] for a in range(p)]
    return np.asarray(np.array(shuffled).reshape(p, n_repeats) - base)


def _with_column(X: Any, a: int, rows: NDArray[Any]) -> Any:
    """X with its column a taken from other rows; a frame stays a frame."""
    if hasattr(X, "iloc"):
        shuffled = X.copy()
        shuffled.isetitem(a, X.iloc[rows, a].array)
        return shuffled
    if hasattr(X, "with_columns"):  # Polars
        return X.with_columns(X[X.columns[a]].gather(rows))
    shuffled = np.array(X, dtype=None)
    shuffled[:, a] = shuffled[rows, a]
    return shuffled


class Explaining(Documented):
    """How `ConditionalDensity` explains its predictions."""

    _words = ROWS

    n_features_in_: int
    n_outputs_: int

    @property
    def feature_importances_(self) -> Floats:
        """Log-loss gain by each feature, (p,); they sum to one.

        The gain of a feature has two parts: what the linear model over all rows loses without it, and what the splits
        on it save. The latter is the leave-one-out evidence of both sides minus that of the whole context, times the
        probability that the walk goes past the split. It is computed on the training rows, each time you access it. It
        shows what the model uses; `importance` shows how much held-out predictions depend on it.
        """
        check_is_fitted(self, "n_outputs_")
        if "forests_" not in self.__dict__:
            raise AttributeError(
                "feature_importances_ needs a forest that was fitted to all rows at once; for a stream use "
                "importance(X, y)"
            )
        return normalised(sum(regression_gains(f)[: self.n_features_in_] for f in self.__dict__["forests_"]))

    def importance(self, X: Any, y: Any, *, n_repeats: int = 5, random_state: Any = 0) -> Importance:
        """Permutation importance: the increase in log loss when one feature is shuffled among held-out rows.

        Examples
        --------
        >>> from coverwalk import ConditionalDensity
        >>> X = np.random.default_rng(0).uniform(size=(200, 2))
        >>> y = X[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(200)
        >>> model = ConditionalDensity(4, stop=0.5).fit(X[:150], y[:150])
        >>> found = model.importance(X[150:], y[150:])
        >>> bool(found.importances_mean[1] > 0.5 > abs(found.importances_mean[0]))
        True
        """
        y = np.asarray(y)

        def loss(rows: Any) -> float:
            return -float(np.mean(self.logpdf(rows, y)))  # type: ignore[attr-defined]

        return permutation_importance(self, X, loss, n_repeats, random_state)

    def partial_dependence(
        self, X: Any, feature: int | str, *, grid: Any = 20, output: int | str = 0, max_rows: int = 200
    ) -> Dependence:
        """How the mean and the spread of the predictions depend on one feature, averaged over the other features.

        Parameters
        ----------
        X : array-like
            Rows that supply the values of the other features.
        feature : int or str
            Column to vary, by number or by name.
        grid : int or sequence
            Values of the feature, or their number: by default 20 between its 2 % and 98 % quantiles, or all categories.
        output : int or str
            Which output, if there are several.
        max_rows : int
            Maximum number of rows of X to average over; if X has more, they are evenly spaced.

        Returns
        -------
        Dependence
            ``grid``, ``mean``, ``std``, ``low`` and ``high``, one entry for each value.
        """
        names = input_names(self)
        if feature not in (names if isinstance(feature, str) else range(self.n_features_in_)):
            raise ValueError(f"there is no feature {feature!r}; the features are {', '.join(names)}")
        a = names.index(feature) if isinstance(feature, str) else feature
        n = len(X)
        X = _safe_indexing(X, np.unique(np.linspace(0, n - 1, min(n, max_rows)).astype(int)))
        values = _grid(np.asarray(X[X.columns[a]] if hasattr(X, "columns") else np.asarray(X)[:, a]), grid)
        averages = np.empty((len(values), 4))
        for i, value in enumerate(values):
            dist = self.predict_dist(_with_value(X, a, value)).marginal(output)  # type: ignore[attr-defined]
            low, high = dist.interval(0.9)
            averages[i] = dist.mean().mean(), dist.std().mean(), low.mean(), high.mean()
        return Dependence(names[a], values, *averages.T)

    def explain(self, x: Any, *, output: int | str = 0, top: int = 8) -> Explanation:
        """Explain the prediction for one row: contexts in plain words, similar ones grouped, one line each.

        Parameters
        ----------
        x : array-like
            One row, (p,) or (1, p), or a frame with one row.
        output : int or str
            Which output, if there are several.
        top : int
            Maximum number of lines; the rest is combined into one more.

        Returns
        -------
        Explanation
            Printed as a table; ``reasons`` holds its lines.
        """
        row = x if hasattr(x, "columns") else np.atleast_2d(np.asarray(x, dtype=None))
        if len(row) != 1:
            raise ValueError(f"explain takes one row, got {len(row)}: explain them one by one")
        dist = self.predict_dist(row)  # type: ignore[attr-defined]
        return explanation_of(dist.marginal(output)[0], top)


def _grid(column: NDArray[Any], grid: Any) -> NDArray[Any]:
    if not isinstance(grid, int):
        return np.asarray(grid)
    if column.dtype.kind not in "iufb":
        return np.unique(column[np.array([entry is not None and entry == entry for entry in column])].astype(str))
    values = np.unique(column[~np.isnan(column.astype(np.float64))])
    if len(values) <= grid:
        return values
    low, high = np.quantile(values.astype(np.float64), [0.02, 0.98])
    return np.linspace(low, high, grid)


def _with_value(X: Any, a: int, value: Any) -> Any:
    if hasattr(X, "iloc"):
        import pandas as pd

        changed = X.copy()
        changed.isetitem(a, pd.Series([value] * len(X), index=X.index, dtype=_dtype_for(X.dtypes.iloc[a], value)))
        return changed
    if hasattr(X, "with_columns"):
        import polars as pl

        name = X.columns[a]
        dtype = pl.Float64 if X[name].dtype.is_numeric() else X[name].dtype
        return X.with_columns(pl.Series(name, [value] * len(X), dtype=dtype))
    changed = np.array(X, dtype=object if np.asarray(X).dtype.kind == "O" else np.float64)
    changed[:, a] = value
    return changed


def _dtype_for(dtype: Any, value: Any) -> Any:
    """A column of whole numbers takes fractions; any other keeps its type."""
    return np.float64 if isinstance(value, float | np.floating) else dtype
