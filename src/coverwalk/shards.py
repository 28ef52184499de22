"""Merge models that were fitted to shards of the data."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

__all__ = ["merge"]

Model = TypeVar("Model")


def merge(models: Sequence[Model]) -> Model:
    """Merge models that were fitted to shards of the rows into one model of all rows.

    A `CoverModel` adds its statistics, which is exact and cheap. A `ConditionalDensity` or a `ContextClassifier` is
    fitted again to the rows of all models, so the result is that of one fit, and costs as much. If there are too many
    rows for that, use `fit_chunks` or `coverwalk.forest.passes`.

    Parameters
    ----------
    models : sequence of estimators
        Fitted models of one class, with the same parameters and inputs. They are not changed.

    Returns
    -------
    estimator
        A new model.

    Examples
    --------
    >>> from coverwalk import ConditionalDensity
    >>> X = np.random.default_rng(0).uniform(size=(200, 1))
    >>> y = X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(200)
    >>> parts = [ConditionalDensity(4, stop=0.5).fit(X[k::2], y[k::2]) for k in range(2)]
    >>> whole = ConditionalDensity(4, stop=0.5).fit(X, y)
    >>> bool(np.allclose(merge(parts).logpdf(X, y), whole.logpdf(X, y)))
    True
    """
    from coverwalk.classifier import ContextClassifier
    from coverwalk.conditional_density import ConditionalDensity
    from coverwalk.cover_model import CoverModel

    if not models:
        raise ValueError("merge needs at least one model")
    first: Any = models[0]
    if any(type(model) is not type(first) for model in models):
        raise TypeError(f"merge takes models of one class, got {sorted({type(model).__name__ for model in models})}")
    if isinstance(first, CoverModel):
        whole: Any = deepcopy(first)
        for other in models[1:]:
            whole.merge(other)
        return whole  # type: ignore[no-any-return]
    if not isinstance(first, ConditionalDensity | ContextClassifier):
        raise TypeError(f"a {type(first).__name__} does not merge: fit it to all rows, or use fit_chunks")
    for model in models:
        _check_alike(first, model)
    rows = [_rows(model) for model in models]
    X, y, weight = (np.concatenate(parts) for parts in zip(*rows))
    merged: Any = clone(first)
    if first._mixed.coded:  # given by number here; the parameter stays as it was
        merged.categorical_features = np.flatnonzero(first._mixed.is_category).tolist()
    merged.fit(X, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y, weight if np.any(weight != 1) else None)
    merged.categorical_features = first.categorical_features
    for name in ("feature_names_in_", "target_names_"):
        if hasattr(first, name):
            setattr(merged, name, getattr(first, name))
    return merged  # type: ignore[no-any-return]


def _check_alike(first: Any, other: Any) -> None:
    names = [getattr(model, "feature_names_in_", np.array([])).tolist() for model in (first, other)]
    categorical = [model._mixed.is_category for model in (first, other)]
    if first.n_features_in_ != other.n_features_in_ or names[0] != names[1] or categorical[0] != categorical[1]:
        raise ValueError("merge takes models with the same inputs: names, number, and which of them are categories")
    if getattr(first, "n_outputs_", 1) != getattr(other, "n_outputs_", 1):
        raise ValueError(f"merge takes models with equally many outputs, got {first.n_outputs_} and {other.n_outputs_}")
    if repr(first.get_params()) != repr(other.get_params()):
        raise ValueError(f"merge takes models with the same parameters, got {first!r} and {other!r}")


def _rows(model: Any) -> tuple[Any, Any, Any]:
    """X, y and weights that a model was fitted to; categories as they were."""
    if hasattr(model, "classes_"):
        if model._n_summed:
            raise ValueError(_WITHOUT_ROWS)
        X, code, weight = (np.concatenate(parts) for parts in zip(*model._rows))
        y = model.classes_[code]
    else:
        if "forests_" not in model.__dict__ or any(forest.n_summed for forest in model.forests_):
            raise ValueError(_WITHOUT_ROWS)
        X, y = model.forests_[0].X, np.column_stack([forest.y for forest in model.forests_])
        weight = np.ones(len(X))
    if model._mixed.grouped:
        raise ValueError(
            "a classifier that has grouped categories has not kept them, so that it does not merge: fit all rows, or "
            "use fit_chunks"
        )
    return model._mixed.decode(X), y, weight


_WITHOUT_ROWS = (
    "a model that learned from a stream or from chunks has not kept all its rows: fit the shards with fit, or all of "
    "them with fit_chunks"
)
