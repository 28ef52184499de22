"""The additive expert of the classifier: its functions, its fit, and when it is taken."""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from coverwalk import ContextClassifier, ModelFileError, load
from coverwalk.forest import class_forest
from coverwalk.forest.class_forest import REFITS
from coverwalk.forest.class_pool import held_out_means
from coverwalk.forest.experts.additive import (
    FOLDS,
    MIN_ROWS,
    QUANTILES,
    Additive,
    held_out_additive,
    standard_errors_gained,
)
from tests.forging import forged, put


def log_loss(model, X, y):
    return -float(model.predict_log_proba(X)[np.arange(len(y)), y].mean())


def additive_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    score = 2.0 * (X[:, 0] + np.abs(X[:, 1]) + np.sin(2.0 * X[:, 2]) + 0.7 * X[:, 3] - 0.7 * X[:, 4] - 0.8)
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int)


def rated_rows(n, seed=0):
    """Two categories say together how good a row is, and four others too: a tree must find each sum again."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(4, size=(n, 6))
    table = np.random.default_rng(100).normal(size=(3, 4, 4))
    score = sum(table[k, codes[:, 2 * k], codes[:, 2 * k + 1]] for k in range(3))
    frame = pd.DataFrame({f"c{a}": pd.Categorical(np.array(list("abcd"))[codes[:, a]]) for a in range(6)})
    return frame, np.digitize(score, [-1.0, 0.5])


def without(monkeypatch, X, y):
    """The classifier as it is without the expert."""
    with monkeypatch.context() as patched:
        patched.setattr(class_forest, "held_out_additive", lambda *_: None)
        return ContextClassifier(random_state=0).fit(X, y)


def test_functions_of_numbers_are_ramps_between_quantiles():
    z = np.array([[0.0], [1.0], [2.0], [4.0], [8.0], [np.nan]])
    plan = Additive.planned(z, np.zeros(1, np.int64))
    np.testing.assert_array_equal(plan.knots, [[0.0, 1.0, 2.0, 4.0, 8.0]])
    values = plan.functions(np.array([[1.5], [-3.0], [9.0], [np.nan]]))
    np.testing.assert_allclose(
        values,
        [
            [1.0, 1.5, 1.0, 0.5, 0.0, 0.0, 0.0],  # a constant, the number, four ramps, missing or not
            [1.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 0.0],
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        ],
    )


def test_two_equal_quantiles_make_a_step():
    z = np.array([[0.0], [0.0], [0.0], [0.0], [1.0]])
    values = Additive.planned(z, np.zeros(1, np.int64)).functions(np.array([[-0.1], [0.0], [0.1], [2.0]]))
    np.testing.assert_array_equal(values[:, 2], [0.0, 0.0, 1.0, 1.0])
    assert np.isfinite(values).all()


def test_pairs_are_products_of_indicators_of_two_categories():
    levels = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
    Z = np.hstack([levels, np.where(np.hstack([levels == 0, levels == 1])[:, [0, 2, 1, 3]], 1.2, -0.8)])
    plan = Additive.planned(Z, np.array([2, 2])).paired(Z, np.array([0, 0, 1, 1]))
    assert plan.pairs.tolist() == [[0, 2], [0, 3], [1, 3]]  # no row is in the second and the first level
    np.testing.assert_array_equal(plan.functions(Z)[:, 5:], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    many = np.arange(100)
    assert not len(Additive.planned(Z, np.array([2, 2])).paired(np.ones((4, 102)), many).pairs)


@pytest.mark.parametrize("variance", [0.1, 10.0])
def test_the_coefficients_are_near_the_optimum(variance):
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(200, 4)), rng.uniform(0.5, 2.0, 200)
    y = np.argmax(values[:, :3] + rng.gumbel(size=(200, 3)), axis=1)
    shares = (np.bincount(y, weight) + 1.0 / 3.0) / (weight.sum() + 1.0)

    def loss(b):
        scores = values @ b.reshape(4, 3) + np.log(shares)
        log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        return 0.5 * (b**2).sum() / variance - weight @ log_p[np.arange(200), y]

    plan = Additive.planned(np.zeros((5, 3)), np.zeros(3, np.int64))
    expert = plan.fitted(values, y, weight, 3, variance)
    slow = minimize(loss, np.zeros(12), method="BFGS")
    assert loss(expert.coefficients.ravel()) < slow.fun + 0.05
    np.testing.assert_allclose(expert.coefficients, slow.x.reshape(4, 3), atol=0.05)
    psi, e = expert.psi(values), 1.0 / (weight.sum() + 1.0)
    scores = values @ expert.coefficients + np.log(shares)
    softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(psi, (1.0 - e) * softmax + e * shares, rtol=1e-9)
    np.testing.assert_allclose(psi.sum(axis=1), 1.0)


def test_no_row_is_predicted_by_a_fit_that_has_seen_it(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.experts.additive.VARIANCES", (1.0,))  # the choice follows all rows
    X, y = additive_rows(400)
    rng = np.random.default_rng(0)
    folds = np.array_split(rng.permutation(400), FOLDS)
    trees = [np.full((400, 2, 1), 0.5)] * 3
    columns = np.zeros(8, np.int64), np.empty(0, np.int64)

    def psi(labels):
        return held_out_additive((X, labels, np.ones(400)), trees, 0.75, *columns, folds, 1)[1]

    before = psi(y)
    for k in (1, 3):
        changed = y.copy()
        changed[folds[k][:20]] = 1 - y[folds[k][:20]]
        np.testing.assert_array_equal(psi(changed)[folds[k]], before[folds[k]])
        other = folds[2]
        assert np.abs(psi(changed)[other] - before[other]).max() > 0.01  # the others have seen these labels


def test_halves_of_the_trees_have_means_of_their_own():
    sums, n_trees = np.array([[0.6, 0.6], [0.9, 0.0]]), np.array([[2.0, 2.0], [1.0, 0.0]])
    known, means = held_out_means(sums[:, None, :, None], n_trees[:, None])
    assert known.all()
    np.testing.assert_allclose(np.array(means)[:, :, 0, 0], [[0.5, 0.3], [0.3, 0.3], [0.9, 0.3]])
    known, means = held_out_means(sums[:, None, :, None], np.array([[[2.0, 0.0]], [[1.0, 0.0]]]))
    assert known.tolist() == [True, False]
    np.testing.assert_allclose(np.array(means)[:, :, 0, 0], [[0.5], [0.3], [0.9]])


def test_an_expert_that_more_trees_replace_is_worth_less():
    rng = np.random.default_rng(0)
    score = rng.normal(size=2000)
    y = (rng.random(2000) < 1.0 / (1.0 + np.exp(-2.0 * score))).astype(int)

    def noisy():  # each errs in its own way: with more trees their errors average out, and another expert's are no help
        p = 1.0 / (1.0 + np.exp(-2.0 * (score + rng.normal(size=2000))))
        return np.stack([1.0 - p, p], axis=1)

    first, second, said = noisy()[:, :, None], noisy()[:, :, None], noisy()
    trees = [0.5 * (first + second), first, second]
    now, then = (standard_errors_gained(trees, said, y, np.ones(2000), gain) for gain in (0.0, 1.0))
    assert now > 2.0
    assert then < 0.8 * now


def test_it_is_taken_where_inputs_add_up(monkeypatch):
    X, y = additive_rows(3000)
    model = ContextClassifier(random_state=0).fit(X[:1000], y[:1000])
    assert len(model._forest.additive) == 1
    assert len(model.weights_) == 3
    assert len(model.exponents_) == 4
    assert (
        log_loss(model, X[1000:], y[1000:])
        < log_loss(without(monkeypatch, X[:1000], y[:1000]), X[1000:], y[1000:]) - 0.02
    )


def test_pairs_of_categories_find_a_rule(monkeypatch):
    X, y = rated_rows(3000)
    model = ContextClassifier(random_state=0).fit(X[:1000], y[:1000])
    assert len(model._forest.additive[0].pairs)
    trees_alone = without(monkeypatch, X[:1000], y[:1000])
    assert log_loss(model, X[1000:], y[1000:]) < log_loss(trees_alone, X[1000:], y[1000:]) - 0.15


def test_it_is_not_taken_where_it_gains_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    assert not ContextClassifier(random_state=0).fit(X, rng.integers(2, size=600))._forest.additive
    both = (X[:, 0] > 0) ^ (X[:, 1] > 0)  # neither input adds anything
    assert not ContextClassifier(random_state=0).fit(X, both)._forest.additive
    X, y = additive_rows(MIN_ROWS - 1)
    assert not ContextClassifier(random_state=0).fit(X, y)._forest.additive


def test_a_fold_without_rows_tells_nothing():  # copies of a few heavy rows may all be in one
    X, y = additive_rows(400)
    folds = [np.arange(0), *np.array_split(np.arange(400), FOLDS - 1)]
    trees = [np.full((400, 2, 1), 0.5)] * 3
    columns = np.zeros(8, np.int64), np.empty(0, np.int64)
    assert held_out_additive((X, y, np.ones(400)), trees, 0.75, *columns, folds, 1) is None


def test_few_rows_of_many_are_fitted_and_all_are_judged(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.experts.additive.MAX_FITTED", 2**15)
    X, y = additive_rows(700)
    model = ContextClassifier(random_state=0).fit(X, y)
    F = 1 + 8 * (1 + QUANTILES - 1)
    assert round(1.0 / model._forest.additive[0].strange) - 1 == 2**15 // (2 * F) + 1 < 700
    assert len(model._forest.held_out_rows._parts[0][1]) == 700


def test_a_stream_fits_it_again_in_turn_with_the_trees():
    X, y = additive_rows(1600)
    model = ContextClassifier(12, 4, random_state=0).fit(X[:600], y[:600])
    fits, weights = [model._forest.additive[0]], model.weights_
    whole = deepcopy(model).partial_fit(X[600:1199], y[600:1199])
    for k in range(600, 1199):
        model.partial_fit(X[k : k + 1], y[k : k + 1])
        if model._forest.additive[0] is not fits[-1]:
            fits.append(model._forest.additive[0])
    assert len(fits) == 1 + REFITS
    for earlier, later in pairwise(fits):
        assert later.variance == fits[0].variance
        assert later.strange < earlier.strange  # it has more rows
    values = fits[0].functions(model._forest.inputs.forward(X[1200:]))
    first, last = (-np.log(fit.psi(values)[np.arange(400), y[1200:]]).mean() for fit in (fits[0], fits[-1]))
    assert last < first
    np.testing.assert_allclose(model.predict_proba(X[:50]), whole.predict_proba(X[:50]), rtol=1e-12)
    assert len(model._forest.held_out_rows._parts[-1][0][0, 0]) == 3
    assert not np.array_equal(model.weights_, weights)
    model.partial_fit(X[1199:], y[1199:])  # all is grown again
    again = ContextClassifier(12, 4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X[:50]), again.predict_proba(X[:50]))


def test_sums_of_chunks_keep_it(monkeypatch):
    X, y = additive_rows(6000)
    chunks = [(X[k : k + 1000], y[k : k + 1000]) for k in range(0, 5000, 1000)]
    model = ContextClassifier(random_state=0).fit_chunks(chunks, sample_rows=1000, state_bytes=2**15)
    assert model._n_summed == 5000
    assert round(1.0 / model._forest.additive[0].strange) - 1 == 5000  # it is fitted to rows beyond the sample too
    assert log_loss(model, X[5000:], y[5000:]) < log_loss(without(monkeypatch, X[:1000], y[:1000]), X[5000:], y[5000:])


@pytest.mark.parametrize("n_chunks", [1, 7, 40])
def test_rows_beyond_the_sample_fit_it(n_chunks, monkeypatch):
    monkeypatch.setattr("coverwalk.forest.passes.ROWS_KEPT", 1)  # no rows are kept: all that do not plan are summed
    X, y = rated_rows(4000, seed=1)
    chunks = [(X[k:2000:n_chunks], y[k:2000:n_chunks]) for k in range(n_chunks)]
    summed = ContextClassifier(random_state=0).fit_chunks(chunks, sample_rows=1000)
    assert summed._n_summed == 2000
    half, whole = (ContextClassifier(random_state=0).fit(X[:n], y[:n]) for n in (1000, 2000))
    losses = [log_loss(model, X[2000:], y[2000:]) for model in (half, whole, summed)]
    assert losses[2] < 0.25 * losses[0] + 0.75 * losses[1]
    once = ContextClassifier(random_state=0).fit_chunks([(X[:2000], y[:2000])], sample_rows=1000)
    np.testing.assert_allclose(summed.predict_proba(X), once.predict_proba(X), rtol=1e-9)


def test_contexts_name_it():
    X, y = additive_rows(600)
    model = ContextClassifier(random_state=0).fit(X, y)
    found = model.contexts(X[:1], top=10**6)[0]
    assert sum(component.weight for component in found) == pytest.approx(1.0)
    (one,) = [component for component in found if component.local == "additive"]
    assert (one.tree, one.depth, one.box) == (-1, 0, {})
    assert one.weight == pytest.approx(model._forest.held_out_rows.shares()[2])
    assert one.counts == {0: float((y == 0).sum()), 1: float((y == 1).sum())}
    assert model.contexts(X[:1], top=3)[0] == found[:3]


@pytest.fixture(scope="module")
def classifier():
    X, y = rated_rows(500)
    numbers = {f"x{a}": np.where(np.arange(500) % 9, np.sin(a + np.arange(500.0)), np.nan) for a in range(40)}
    return ContextClassifier(8, 4, random_state=0).fit(X.assign(**numbers), y)


EXPERT = "model._forest.additive[0]"
FORGED = {
    "a column that is not there": (f"{EXPERT}.numbers", put(46)),
    "missing values of no column": (f"{EXPERT}.missing", put(-1)),
    "a pair of no indicator": (f"{EXPERT}.pairs", put(24)),
    "knots of other columns": (f"{EXPERT}.knots", lambda a: np.repeat(a, 2, axis=0)),
    "coefficients of other functions": (f"{EXPERT}.coefficients", lambda a: a[:-1].copy()),
    "coefficients of other classes": (f"{EXPERT}.coefficients", lambda a: a[:, :2].copy()),
    "coefficients that are no numbers": (f"{EXPERT}.coefficients", put(np.nan)),
}


@pytest.mark.parametrize(("name", "change"), FORGED.values(), ids=FORGED)
def test_forged_experts_are_refused(name, change, classifier, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(forged(classifier, name, lambda array: array))
    X = rated_rows(20, seed=1)[0].assign(**{f"x{a}": 0.1 * a for a in range(40)})
    np.testing.assert_array_equal(load(path).predict_proba(X), classifier.predict_proba(X))
    path.write_bytes(forged(classifier, name, change))
    with pytest.raises(ModelFileError, match="is not a valid model"):
        load(path)


def test_shares_that_rule_a_class_out_are_refused(classifier, tmp_path):
    path = tmp_path / "m.cw"
    path.write_bytes(forged(classifier, f"{EXPERT}.coefficients", lambda array: array))
    expert = classifier._forest.additive[0]
    for field, value in (("log_shares", np.full(3, -1e3)), ("strange", 1e-40), ("variance", 0.0)):
        changed = deepcopy(classifier)
        changed._forest.additive = [replace(expert, **{field: value})]
        with pytest.raises(ValueError, match=field):
            changed.save(path)
