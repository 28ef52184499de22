"""Columns of more categories than splits tell apart: their effects on y, and when they are used."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, rankdata

from coverwalk import ConditionalDensity, ContextClassifier, load, merge
from coverwalk._kernels.forest.node import OWN_CATEGORIES
from coverwalk.forest import category_choice, passes
from coverwalk.preparation.categories import OTHERS, frequent_categories
from coverwalk.preparation.columns import MixedInputs
from coverwalk.preparation.effects import category_effects

N_SHOPS = 200
SHOP = 2 * np.random.default_rng(9).normal(size=N_SHOPS)


def rows(n: int, seed: int):
    rng = np.random.default_rng(seed)
    shop, x = rng.integers(0, N_SHOPS, n), rng.uniform(-1, 1, n)
    frame = pd.DataFrame({"shop": [f"shop {k}" for k in shop], "x": x})
    return frame, SHOP[shop] + np.sin(3 * x) + 0.1 * rng.standard_normal(n)


X, Y = rows(1600, 0)
TEST, TEST_Y = rows(800, 1)


def model(**options):
    return ConditionalDensity(4, random_state=0, **options)


def loss(fitted, X=TEST, y=TEST_Y):
    return -float(np.mean(fitted.logpdf(X, y)))


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y)


def test_effects_are_those_of_a_model_with_random_effects():
    """Against the posterior mean of the normal model whose variances are found by moments, solved as one system."""
    rng = np.random.default_rng(0)
    code = np.sort(rng.integers(0, 12, 60)).astype(float)
    y = np.exp(rng.normal(size=12)[code.astype(int)] + 0.5 * rng.normal(size=60))
    t, each = norm.ppf((rankdata(y) - 0.5) / 60), np.unique(code)
    Z = (code[:, None] == each).astype(float)
    size = Z.sum(axis=0)
    within = np.sum((t - Z @ (Z.T @ t / size)) ** 2) / (60 - len(each))
    mean_square = np.sum(size * (Z.T @ t / size - t.mean()) ** 2) / (len(each) - 1)
    between = (mean_square - within) / ((60 - np.sum(size**2) / 60) / (len(each) - 1))
    assert between > 0
    posterior = np.linalg.solve(Z.T @ Z / within + np.eye(len(each)) / between, Z.T @ (t - t.mean()) / within)
    found = category_effects(code, y[:, None])
    assert found.keys() == set(each[size >= 3].tolist())
    np.testing.assert_allclose([found[c] for c in found], posterior[size >= 3], rtol=1e-10)


def test_weights_count_as_copies():
    rng = np.random.default_rng(1)
    code, y, times = rng.integers(0, 9, 80).astype(float), rng.normal(size=(80, 2)), rng.integers(1, 4, 80)
    weighted, copied = (
        category_effects(code, y, times),
        category_effects(np.repeat(code, times), np.repeat(y, times, 0)),
    )
    for c, effect in weighted.items():
        assert effect == pytest.approx(copied[c], abs=1e-12)


def test_rows_that_are_missing_and_categories_of_few_rows_have_none():
    code = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 2.0, np.nan, np.nan, np.nan])
    y = np.arange(11.0)[:, None]
    found = category_effects(code, y)
    assert found.keys() == {0.0, 2.0}
    assert found[0.0] < 0 < found[2.0]
    assert category_effects(np.full(5, np.nan), y[:5]) == category_effects(np.zeros(5), y[:5]) == {}
    assert set(category_effects(np.repeat([0.0, 1.0], 3), np.zeros((6, 1))).values()) == {0.0}


def test_many_categories_are_told_apart(fitted, monkeypatch):
    assert len(fitted._mixed.effects[0]) > 150
    assert fitted._mixed.effects[0][OTHERS] == 0.0
    assert fitted.forests_[0].names == ["effect of shop", "x"]
    assert "effect of shop" in str(fitted.explain(TEST[:1]))
    known = {name: SHOP[int(name[5:])] for name in fitted._mixed.effects[0] if name != OTHERS}
    effects = [fitted._mixed.effects[0][name] for name in known]
    assert np.corrcoef(effects, list(known.values()))[0, 1] > 0.95
    monkeypatch.setattr("coverwalk.conditional_density.choose_categories", lambda X, Y, w, tables, *_: tables[1])
    most_frequent = model().fit(X, Y)
    assert len(most_frequent._mixed.categories[0]) == OWN_CATEGORIES + 1
    assert loss(fitted) < loss(most_frequent) - 0.5


def test_the_most_frequent_are_kept_where_effects_tell_less():
    """The spread of y depends on the category, its place does not."""
    rng = np.random.default_rng(0)
    code = np.minimum(rng.geometric(0.04, 1500) - 1, 80)
    frame = pd.DataFrame({"category": [f"c{k}" for k in code]})
    spread = np.random.default_rng(5).permutation(np.geomspace(0.01, 10, 81))
    found = model().fit(frame, spread[code] * rng.standard_normal(1500))._mixed
    assert found.effects == []
    assert len(found.categories[0]) == OWN_CATEGORIES + 1


def test_held_out_rows_are_not_among_those_of_their_effects(monkeypatch):
    """Effects of chance: names that all differ in three rows, which tell nothing of y."""
    seen = []
    real = MixedInputs.with_effects
    monkeypatch.setattr(MixedInputs, "with_effects", lambda self, X, Y, w: seen.append(len(Y)) or real(self, X, Y, w))
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"name": np.repeat([f"n{k}" for k in range(200)], 3), "x": rng.uniform(size=600)})
    found = model().fit(frame, frame["x"] + 0.1 * rng.standard_normal(600))
    assert seen[:2] == [450, 450]
    without = model().fit(frame[["x"]], found.forests_[0].y)
    test = pd.DataFrame({"name": rng.permutation(frame["name"]), "x": rng.uniform(size=600)})
    y = test["x"].to_numpy() + 0.1 * rng.standard_normal(600)
    assert loss(found, test, y) < loss(without, test[["x"]], y) + 0.05


def test_the_order_of_rows_and_copies_do_not_matter(fitted):
    order = np.random.default_rng(2).permutation(len(Y))
    shuffled = model().fit(X.iloc[order], Y[order])
    np.testing.assert_array_equal(shuffled.logpdf(TEST, TEST_Y), fitted.logpdf(TEST, TEST_Y))
    twice = model().fit(pd.concat([X, X]), np.concatenate([Y, Y]))
    np.testing.assert_array_equal(twice.logpdf(TEST, TEST_Y), fitted.logpdf(TEST, TEST_Y))


def test_a_model_is_saved_and_goes_on_with_its_effects(fitted, tmp_path):
    fitted.save(tmp_path / "m.cw")
    loaded = load(tmp_path / "m.cw")
    np.testing.assert_array_equal(loaded.logpdf(TEST, TEST_Y), fitted.logpdf(TEST, TEST_Y))
    before = loss(loaded)
    more, more_y = rows(1600, 2)
    loaded.learn_one(more.iloc[0].tolist(), more_y[0])
    assert abs(loss(loaded) - before) < 0.003
    loaded.partial_fit(more.iloc[1:], more_y[1:])
    assert loss(loaded) < before


def test_categories_that_are_new_or_missing(fitted):
    odd = pd.DataFrame({"shop": ["a shop that never came", None, "shop 3"], "x": 0.0})
    assert np.isfinite(fitted.predict(odd)).all()
    coded = fitted._mixed.encode(odd)[:, 0]
    assert coded[0] == 0.0
    assert np.isnan(coded[1])
    assert coded[2] == fitted._mixed.effects[0]["shop 3"]


def test_chunks_use_effects_too(monkeypatch):
    monkeypatch.setattr(passes, "ROWS_KEPT", 1000)
    all_rows, y = rows(4000, 3)
    chunks = [(all_rows[k : k + 800], y[k : k + 800]) for k in range(0, 4000, 800)]
    summed = model().fit_chunks(chunks, sample_rows=2000)
    assert summed.forests_[0].n_summed == 4000
    assert len(summed._mixed.effects[0]) > 150
    assert loss(summed) < loss(model().fit(all_rows[:2000], y[:2000])) - 0.04


def test_shards_of_models_with_effects_merge(tmp_path):
    halves = [model().fit(X[:800], Y[:800]), model().fit(X[800:], Y[800:])]
    whole = merge(halves)
    assert whole._mixed.effects
    assert loss(whole) < min(map(loss, halves)) - 0.1
    assert whole._mixed.effects[0][OTHERS] == 0.0  # though rows of either half were of the others
    whole.save(tmp_path / "m.cw")
    np.testing.assert_array_equal(load(tmp_path / "m.cw").predict(TEST), whole.predict(TEST))


def test_several_outputs_share_their_effects():
    joint = model().fit(X, np.column_stack([Y, Y + 1.0]))
    np.testing.assert_allclose(joint._mixed.effects[0]["shop 3"], model().fit(X, Y)._mixed.effects[0]["shop 3"])


def test_equally_frequent_categories_are_kept_at_random():
    """Not the first of the alphabet: these may have an y of their own."""
    counts = dict.fromkeys([f"{k:03}" for k in range(200)], 1)
    kept = {int(name) for name in frequent_categories(counts) if name != OTHERS}
    assert len(kept) == OWN_CATEGORIES
    assert 60 < np.mean(list(kept)) < 140
    assert set(frequent_categories(dict(reversed(counts.items())))) == {f"{k:03}" for k in kept} | {OTHERS}
    assert frequent_categories(counts | {OTHERS: 1000}) == frequent_categories(counts)


def test_few_categories_cost_no_choice(monkeypatch):
    monkeypatch.setattr(category_choice, "choose_y", None)
    few = X[X["shop"].isin([f"shop {k}" for k in range(OWN_CATEGORIES)])]
    assert not model().fit(few, Y[few.index])._mixed.effects


# -- groups, for classes ----------------------------------------------------------------------------------------------

N_COUNTRIES = 150
CONTINENT = np.random.default_rng(4).integers(0, 5, N_COUNTRIES)


def countries(n: int, seed: int):
    rng = np.random.default_rng(seed)
    country = rng.integers(0, N_COUNTRIES, n)
    frame = pd.DataFrame({"country": [f"c{k}" for k in country], "x": rng.uniform(size=n)})
    return frame, np.array(list("ABCDE"))[np.where(rng.random(n) < 0.05, rng.integers(0, 5, n), CONTINENT[country])]


def classifier():
    return ContextClassifier(8, 8, random_state=0)


def class_loss(fitted, X, y):
    return -float(np.mean(fitted.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(fitted.classes_, y)]))


def test_classes_are_told_by_groups_of_categories(monkeypatch):
    (rows, y), (test, test_y) = countries(900, 0), countries(600, 1)
    fitted = classifier().fit(rows, y)
    assert fitted._mixed.grouped
    assert len(fitted._mixed.categories[0]) <= OWN_CATEGORIES + 1
    order = np.random.default_rng(0).permutation(900)
    again = classifier().fit(rows.iloc[order], y[order])
    assert again._mixed.effects == fitted._mixed.effects
    np.testing.assert_allclose(again.predict_proba(test), fitted.predict_proba(test), atol=1e-9)
    monkeypatch.setattr("coverwalk.classifier.choose_groups", lambda rows, tables, _: tables[1])
    assert class_loss(fitted, test, test_y) < class_loss(classifier().fit(rows, y), test, test_y) - 0.3


def test_a_grouped_classifier_is_saved_goes_on_and_does_not_merge(tmp_path):
    rows, y = countries(900, 0)
    fitted = classifier().fit(rows, y)
    fitted.save(tmp_path / "c.cw")
    loaded = load(tmp_path / "c.cw")
    np.testing.assert_array_equal(loaded.predict_proba(rows[:20]), fitted.predict_proba(rows[:20]))
    table = loaded._mixed
    odd = pd.DataFrame({"country": ["never seen", None], "x": 0.5})
    np.testing.assert_allclose(loaded.predict_proba(odd).sum(axis=1), 1.0)
    loaded.partial_fit(odd, ["A", "B"])
    assert loaded._mixed is table or loaded._mixed == table
    with pytest.raises(ValueError, match="does not merge"):
        merge([fitted, fitted])


def test_a_category_with_the_name_of_the_others_is_one_of_them(tmp_path):
    rows, y = countries(900, 0)
    rows["country"] = rows["country"].replace("c7", OTHERS)
    fitted = classifier().fit(rows, y)
    assert fitted._mixed.effects[0][OTHERS] == 0.0
    fitted.save(tmp_path / "c.cw")
    np.testing.assert_array_equal(load(tmp_path / "c.cw").predict(rows[:20]), fitted.predict(rows[:20]))


def test_names_that_tell_nothing_are_not_grouped():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"name": [f"n{k}" for k in rng.integers(0, 300, 800)], "x": rng.uniform(size=800)})
    y = np.where(rng.random(800) < 0.2 + 0.6 * rows["x"], "yes", "no")
    assert not classifier().fit(rows, y)._mixed.grouped
