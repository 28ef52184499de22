"""What the schema of a forest cannot express: trees, records and settings that belong together."""

from typing import Any

import numpy as np

from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.files.schema import Scope, require


def check_forest(forest: Any, scope: Scope) -> None:
    """Raise SchemaError for a forest whose parts no fit has put together."""
    from coverwalk.forest.forest import Forest

    settings, p = forest.settings, scope["p"]
    require("weight", len(forest.weight) in (0, len(forest.y)))
    parts = settings.part_of_trees()
    require("trees", settings.n_trees == len(parts) == len(forest.trees))
    require("trend", (forest.trend is not None) == any(part.smooth for part in parts))
    require("kernel", (forest.global_kernel is not None) == (settings.kernel > 0))
    if forest.n_summed:  # there are no rows to make them of
        whole = [len(fitted.learned.inverse) == len(fitted.records.mean) for fitted in forest.fitted]
        require("inverse", all(whole))
    n_categories = _n_categories(forest, p)
    degrees = Forest(**vars(forest)) if p else None  # knows which polynomials have too many terms
    for part, tree, fitted in zip(parts, forest.trees, forest.fitted):
        check_tree(tree, fitted, degrees.grid_of(part.degree).degree if degrees else 0, n_categories)
        require("priors", len(fitted.records.weight) == len(forest.fitted[0].records.weight))


def check_tree(tree: Any, fitted: Any, degree: int, n_categories: Any) -> None:
    """A tree, and the records of its contexts."""
    inner = tree.left >= 0
    require("split", np.isnan(tree.split[inner]) == (n_categories[tree.feature[inner]] > 0))
    terms, records = n_features(degree, len(n_categories)), fitted.records
    require("degree", (records.degree <= degree) & (records.centre.shape[1] == terms))
    context = np.repeat(np.arange(len(tree.left)), np.diff(records.first))
    for weight in records.weight:  # higher up it may underflow
        weights = np.bincount(context, weight, minlength=len(tree.left))
        require("weight", tree.summed_downwards(weights)[tree.left < 0] > 0)


def _n_categories(forest: Any, p: int) -> Any:
    """How many categories each column has; the rows have no others."""
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
