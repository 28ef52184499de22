"""Trees that may learn, and have not, predict as the fitted ones do, which leave out what has no weight."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from coverwalk._kernels.forest.flat import SORTED_ROWS
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import Part
from coverwalk.forest.schedule import StreamSettings
from coverwalk.forest.settings import Settings
from coverwalk.forest.stream import ForestStream
from coverwalk.forest.tree_table import TreeTable

PARTS = (Part(3, 2, 0.5, False), Part(2, 1, 0.3, True))


def data(n, seed, missing=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    X[:, 2] = rng.integers(0, 4, n)
    X[: n // 20, 0] *= 50  # beyond the linear part of the map
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + (X[:, 2] == 1) + 0.1 * rng.standard_t(3, n)
    if missing:
        X[rng.random((n, 3)) < 0.1] = np.nan
    return X, y


def columns(settings):
    return 2 if settings.kernel else 3  # the kernel over all rows is for few inputs


def table_context(forest):
    return lambda label: forest.table.describe(label, forest.n_rows, forest.names, forest.categories)


def fitted(settings, missing=False):
    X, y = data(600, 0, missing)
    X = X[:, : columns(settings)]
    forest = Forest.plan(X, y, settings)
    forest.categories = [[], [], list("abcd")]
    forest.accumulate(X, y)
    forest.finalize()
    return forest


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (Settings(n_trees=5, parts=PARTS), False),
        (Settings(n_trees=4, degree=2, kernel=0.3, scale_factor=1.3), False),
        (Settings(n_trees=4, degree=1, n_categories=(0, 0, 4)), True),
        (Settings(n_trees=4, degree=0), True),
    ],
)
@pytest.mark.parametrize("n", [1, SORTED_ROWS - 1, 200])
def test_as_trees_that_learn(settings, missing, n):
    forest = fitted(settings, missing)
    X, y = data(n, 1, missing)
    X = X[:, : columns(settings)].copy()
    table = TreeTable(forest.table.members, forest.global_kernel, settings.kernel, learns=True)
    weights = np.full(settings.n_trees, 1 / settings.n_trees)
    flat, trees = forest.predict_dist(X), table.predict_dist(X, forest.n_rows, table_context(forest), weights)
    assert len(flat.components.weight) < len(trees.components.weight)  # roots of no weight are left out
    for at in (y, y + 100.0, y - 1e4):
        assert_allclose(flat.logpdf(at), trees.logpdf(at), rtol=1e-9, atol=1e-12)
        assert_allclose(flat.cdf(at), trees.cdf(at), rtol=1e-9, atol=1e-14)
    assert_allclose(flat.mean(), trees.mean(), rtol=1e-12, atol=1e-12)
    nonzero = np.isin(flat.context, trees.context)
    assert nonzero.all()
    assert flat[0].contexts(top=1)[0].context == trees[0].contexts(top=1)[0].context


def test_a_forest_fitted_again_makes_a_new_table():
    forest = fitted(Settings(n_trees=2))
    X, _ = data(50, 1)
    before = forest.predict_dist(X).mean()
    forest.accumulate(*data(600, 2))
    forest.finalize()
    assert not np.allclose(before, forest.predict_dist(X).mean())


def test_a_missing_value_stands_at_the_mean_of_its_context():
    rng = np.random.default_rng(0)
    t = rng.uniform(size=300)
    X = np.column_stack([rng.uniform(size=300) + 0.5 * (t > 0.5), t])
    y = np.where(t > 0.5, 1.0, -1.0) * (3 + 2 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    X[::5, 0] = np.nan
    settings = Settings(n_trees=1, degree=1, min_rows=120)  # one split
    forest = Forest.plan(X, y, settings)
    forest.accumulate(X, y)
    forest.finalize()
    (tree,) = forest.trees
    assert tree.feature.tolist() == [1, -1, -1]
    leaf = tree.leaves(forest.frame.rows(X).Z)
    of_leaf = np.nanmean(X[leaf == tree.leaves(forest.frame.rows(np.array([[0.5, 0.3]])).Z), 0])
    missing, mean, other = (np.array([[x, 0.3]]) for x in (np.nan, of_leaf, np.nanmean(X[:, 0])))
    assert_allclose(forest.predict_dist(missing).mean(), forest.predict_dist(mean).mean(), rtol=1e-9)
    assert abs(forest.predict_dist(missing).mean() - forest.predict_dist(other).mean()) > 0.2
    first, second = (ForestStream.of(forest, StreamSettings(settings, choose=False)) for _ in range(2))
    seen = np.array([-4.5])
    assert_allclose(first.learn(missing, seen), second.learn(mean, seen), rtol=1e-9)
    assert_allclose(first.logpdf(other, seen), second.logpdf(other, seen), rtol=1e-9)
