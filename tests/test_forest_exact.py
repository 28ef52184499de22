"""exact == CoverModel == kernels for the forest: the local models by refits, the walk by the slow tier, all to 1e-9."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from coverwalk import CoverModel
from coverwalk._kernels.forest.evidence import stop_weights
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.exact import refining_evidence, refining_stop
from coverwalk.forest import fitting
from coverwalk.forest.forest import Forest
from coverwalk.forest.settings import MIN_SCALE, Settings
from coverwalk.forest.tree import Tree
from coverwalk.forest.tree_table import OUTLIER_DF, OUTLIER_ROWS

from .slow_forest import OfForest, SlowTree, TreeCover

KINDS = (0, 0, 1, 2)  # a uniform choice: half of the prior on the regressions, a quarter on each density


def rows(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, p))
    noise = np.where(X[:, 0] > 0, rng.choice([-0.7, 0.7], n), 0.0) + 0.1 * rng.standard_normal(n)
    return X, np.sin(3 * X[:, 0]) + X[:, -1] * X[:, 0] + noise


def both(X, y, monkeypatch, stop=0.4, degree=2, **settings):
    """A forest of one tree that leaves no component out, and the same in the slow tier."""
    monkeypatch.setattr(fitting, "MIN_WEIGHT", 1e-300)
    forest = Forest.plan(X, y, Settings(n_trees=1, stop=stop, degree=degree, **settings))
    forest.accumulate(X, y)
    forest.finalize()
    Z, r = forest.inputs.forward(X), forest.output.forward(y[:, None])[:, 0]
    ridges, many = forest.settings.ridges, forest.grid_of(degree).many
    slow = SlowTree(forest.trees[0], Z, r, degree, ridges, many, MIN_SCALE)
    parts = [OfForest(slow, which) for which in KINDS]
    learned, model = (CoverModel(TreeCover(slow), parts, stop=stop) for _ in range(2))
    learned.update_many(enumerate(Z), r)
    model.merge(learned)  # in batch form: from the local evidences
    return forest, slow, model


@pytest.mark.parametrize(
    ("n", "p", "degree", "min_rows"), [(90, 1, 2, 3), (100, 5, 2, 3), (120, 2, 1, 5), (250, 1, 2, 20)]
)
def test_the_forest_is_the_cover_model(n, p, degree, min_rows, monkeypatch):
    X, y = rows(n, p)
    forest, slow, model = both(X, y, monkeypatch, degree=degree, min_rows=min_rows)
    assert len(slow.tree.feature) > 6
    rng = np.random.default_rng(1)
    X_new = np.vstack([X[:10], rng.uniform(-3, 3, size=(10, p))])
    y_new = np.concatenate([y[:10], rng.uniform(-4, 4, 10)])
    Z, r = forest.inputs.forward(X_new), forest.output.forward(y_new[:, None])[:, 0]
    outlier, unit = OUTLIER_ROWS / (n + 1), forest.output.scale[0]
    expected = [
        np.logaddexp(
            np.log(1 - outlier) + model.log_predict((-1, z), t), np.log(outlier) + stats.t.logpdf(t, OUTLIER_DF)
        )
        for z, t in zip(Z, r)
    ]
    np.testing.assert_allclose(forest.predict_dist(X_new).logpdf(y_new) + np.log(unit), expected, rtol=0, atol=1e-9)


def test_every_way_of_solving_is_met(monkeypatch):
    """Or less would be proved above: regressions solved for rows and for features, exact and mean leverage."""
    seen = set()
    for n, p, degree, min_rows in [(100, 5, 2, 3), (250, 1, 2, 20)]:
        X, y = rows(n, p)
        forest = both(X, y, monkeypatch, degree=degree, min_rows=min_rows)[0]
        records, many = forest.fitted[0].records, forest.grid_of(degree).many
        for g, size in zip(records.degree.tolist(), records.n_rows.tolist()):
            d = n_features(g, p)
            seen.add("rows" if g > 0 and size <= d else "mean" if size >= many * d else "exact")
        seen |= set(records.kind.tolist())
    assert seen == {"rows", "mean", "exact", 0, 1, 2}


def test_the_walk_is_the_enumeration(monkeypatch):
    X, y = rows(40, 2)
    forest, slow, model = both(X, y, monkeypatch, stop=0.3, min_rows=8)
    tree: Tree = forest.trees[0]
    inner = [k for k in range(len(tree.left)) if tree.left[k] >= 0]
    assert 2 <= len(inner) <= 6
    partitions = {k: [[int(tree.left[k]), int(tree.left[k]) + 1]] for k in inner}

    def log_phi(k):
        return float(logsumexp([slow.log_evidence(k, which) for which in KINDS]) - np.log(len(KINDS)))

    log_evidence = np.array([log_phi(k) for k in range(len(tree.left))])
    log_stop, log_go = np.empty((2, len(tree.left)))
    log_z = stop_weights(tree.left, log_evidence, 0.3, log_stop, log_go)
    assert log_z == pytest.approx(np.log(refining_evidence(partitions, lambda k: 0.3, 0, log_phi)), abs=1e-9)
    assert model.log_evidence() == pytest.approx(log_z, abs=1e-9)
    for k in inner:
        assert np.exp(log_stop[k]) == pytest.approx(refining_stop(partitions, lambda k: 0.3, 0, log_phi, k), rel=1e-9)
