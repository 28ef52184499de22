"""What the schema of a forest cannot say: trees, records and settings that belong together."""

from typing import TYPE_CHECKING, Any

import numpy as np

from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.files.schema import Scope, require

if TYPE_CHECKING:
    from coverwalk._kernels.forest.components import Records

__all__ = ["check_fitted", "check_forest", "check_tree"]

_ROUNDING = 1e-9


def check_forest(forest: Any, scope: Scope) -> None:
    """Raise SchemaError for a forest whose parts no fit has put together."""
    from coverwalk.forest.forest import Forest

    settings, p = forest.settings, scope["p"]
    require("weight", len(forest.weight) in (0, len(forest.y)))
    if settings.parts:
        require("parts", sum(part.n_trees for part in settings.parts) == len(forest.trees))
    else:
        require("trees", settings.n_trees == len(forest.trees))
    parts = settings.part_of_trees()
    require("trend", (forest.trend is not None) == any(part.smooth for part in parts))
    require("kernel", (forest.global_kernel is not None) == (settings.kernel > 0))
    if forest.n_summed:  # there are no rows to make them of
        require("inverse", all(len(fitted.learned.inverse) == len(fitted.records.low) for fitted in forest.fitted))
    n_categories = _n_categories(forest, p)
    degrees = Forest(**vars(forest)) if p else None  # knows which polynomials have too many terms
    for part, tree, fitted in zip(parts, forest.trees, forest.fitted):
        check_tree(tree, fitted, degrees.grid_of(part.degree).degree if degrees else 0, n_categories)
        require("priors", len(fitted.records.weight) == len(forest.fitted[0].records.weight))


def check_tree(tree: Any, fitted: Any, degree: int, n_categories: Any) -> None:
    """A tree, and the records of its contexts."""
    inner, records = tree.left >= 0, fitted.records
    require("split", np.isnan(tree.split[inner]) == (n_categories[tree.feature[inner]] > 0))
    _check_paths(tree.parent[1:], tree.left < 0, records)
    terms = n_features(degree, len(n_categories))
    require("degree", (records.degree <= degree) & (records.centre.shape[1] == terms))


def _n_categories(forest: Any, p: int) -> Any:
    """How many levels each column has; the rows have no others."""
    counts, names = forest.settings.n_categories, forest.categories
    require("categories", len(counts) in (0, p) and len(names) <= p and bool(names) == bool(counts))
    require("categories", all(len(category) == count for category, count in zip(names, counts)))
    require("categories", not any(counts[len(names) :]))
    n_categories = np.array(counts or (0,) * p, np.int64)
    codes = forest.X[:, n_categories > 0]
    require(
        "X", np.isnan(codes) | ((codes >= 0) & (codes < n_categories[n_categories > 0]) & (codes == np.floor(codes)))
    )
    return n_categories


def check_fitted(fitted: Any, scope: Scope) -> None:
    """Components and seats go together; packed triangles lie within the factors and have positive pivots."""
    from coverwalk._kernels.forest.components import MAX_PLANE, REGRESSION
    from coverwalk.distributions.shapes import STUDENT

    records: Records = fitted.records
    p = scope["p"]
    require("slot", (records.slot >= 0) == (np.diff(records.first) > 0))
    require("weight", len(records.weight) >= 1)
    learned = fitted.learned
    require("plane", learned.plane.shape[1] == (p + 1 if p < MAX_PLANE else 1))
    require("inverse", len(learned.inverse) in (0, len(records.low)))
    require("shape", (fitted.shapes.kind[fitted.shape] == STUDENT) == (records.kind == REGRESSION))
    in_rows = records.rows_at >= 0
    require("rows_at", ~in_rows | (records.n_rows <= records.centre.shape[1]))
    require("rows_at", ~in_rows | (records.rows_at <= len(records.rows) - records.n_rows))
    require("leverage", (records.leverage >= 0) | (records.leverage == -1))
    terms = np.array([n_features(degree, p) for degree in range(3)])[records.degree]
    require("degree", terms <= records.centre.shape[1])
    has = records.leverage < 0
    size = np.where(in_rows, records.n_rows, terms)[has]
    start = records.factor_at[has]
    require("factor_at", (start >= 0) & (start <= len(records.factors) - size * (size + 1) // 2))
    k = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)  # row of the triangle
    pivot = np.repeat(start, size) + k * np.repeat(size, size) - k * (k - 1) // 2
    require("factors", records.factors[pivot] > 0)


def _check_paths(parent: Any, leaf: Any, records: "Records") -> None:
    """What was summed up on the way from the root is what stands there: kernels count on it for room."""
    components = np.diff(records.first)
    require("n_components", components[0] > 0 and records.n_components[0] == components[0])
    require("n_components", records.n_components[1:] == records.n_components[parent] + components[1:])
    sums = np.concatenate([np.zeros((len(records.weight), 1)), np.cumsum(records.weight, axis=1)], axis=1)
    own = sums[:, records.first[1:]] - sums[:, records.first[:-1]]
    require("total", records.total[:, leaf] > 0)  # higher up it may underflow
    require("total", np.abs(records.total[:, 0] - own[:, 0]) < _ROUNDING)
    require("total", np.abs(records.total[:, 1:] - records.total[:, parent] - own[:, 1:]) < 1e-6)
    require("above", records.above[0] == -1)
    require("above", records.above[1:] == np.where(records.slot[parent] >= 0, parent, records.above[parent]))
