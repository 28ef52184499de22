"""The adapters do what the libraries they dress for expect, by those libraries' own checks."""

import numpy as np
import pandas as pd
import pytest

from coverwalk import ConditionalDensity
from coverwalk.adapters._dict_rows import DictRows
from tests.test_mixed_inputs import table

# river


@pytest.fixture(scope="module")
def adapters():
    pytest.importorskip("river", reason="pip install 'coverwalk[river]'")
    from coverwalk.adapters import river

    return river


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rivers_own_checks(kind, adapters):
    from river import checks

    model = {
        "regressor": lambda: adapters.CoverRegressor(n_estimators=3),
        "classifier": lambda: adapters.CoverClassifier(n_estimators=3, n_discriminant_trees=2),
    }[kind]()
    names = []
    for check in checks.yield_checks(model):
        names.append(check.__name__)
        check(model.clone())
    assert len(names) > 25
    assert not model._unit_test_skips()  # none is left out


def test_a_stream_of_dictionaries_is_the_stream_of_its_rows(adapters):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (300, 2)), columns=["a", "b"])
    y = pd.Series(X["a"] + 0.1 * rng.standard_normal(300))
    one, many, plain = adapters.CoverRegressor(), adapters.CoverRegressor(), ConditionalDensity(3, n_candidates=12)
    for x, value in zip(X.to_dict("records"), y):
        one.learn_one(x, value)
    for part in np.array_split(np.arange(300), 7):
        many.learn_many(X.iloc[part], y.iloc[part])
    plain.partial_fit(X.to_numpy(), y.to_numpy())
    expected = plain.predict(X.to_numpy())
    assert np.array_equal(many.predict_many(X), expected)
    one_by_one = [one.predict_one(x) for x in X.to_dict("records")]  # by a kernel of its own, which sums in its order
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-14)
    marginal = one.predict_dist_one({"b": 0.0, "a": 0.5})
    assert marginal.cdf(0.0) == plain.predict_dist([[0.5, 0.0]])[0].cdf(0.0)


def test_features_come_and_go():
    rows = DictRows(max_rows=1000)
    for i in range(100):
        assert (rows.enter({"x": i}, 0.0)[1] is not None) == (i == 0)
    rows.n_rebuilt = 80
    for _ in range(60):  # a new feature waits until the rows have doubled since the table was made
        assert rows.enter({"x": 49.5, "new": 5.0}, 1.0)[1] is None
    row, (X, y) = rows.enter({"new": 7.0, "unknown": None}, 2.0)
    assert list(rows.columns) == ["new", "x"]  # a feature without a value has no column yet
    np.testing.assert_array_equal(row, [[7.0, np.nan]])
    assert X.shape == (160, 2)
    np.testing.assert_array_equal(X[0], [np.nan, 0.0])  # the older rows lack the new feature
    assert y[-1] == 1.0
    assert np.isnan(rows.row({"another": 1.0})).all()


def test_text_is_a_category_and_what_lacks_is_missing(adapters):
    frame, y = table(150)
    one, many, plain = (adapters.CoverRegressor(n_estimators=2) for _ in range(3))
    for x, value in zip(frame.to_dict("records"), y):
        one.learn_one({name: entry for name, entry in x.items() if entry == entry}, value)
    many.learn_many(frame, y)
    assert one._rows.categorical == [0]
    assert many.predict_many(frame[:5]).tolist() == one.predict_many(frame[:5]).tolist()
    for x, value in zip(frame[["east", "north"]].fillna(0.0).to_dict("records"), y):
        plain.learn_one(x, value)
    assert np.abs(one.predict_many(frame) - y).mean() < 0.7 * np.abs(plain.predict_many(frame.fillna(0.0)) - y).mean()
    assert np.isfinite(one.predict_one({"city": "nowhere"}))
    with pytest.raises(ValueError, match="'east' must be a finite number"):
        one.learn_one({"city": "c1", "east": "text"}, 0.0)
    classes = adapters.CoverClassifier(n_estimators=2, n_discriminant_trees=1)
    for x, value in zip(frame.to_dict("records"), y > 1.5):
        classes.learn_one(x, bool(value))
    assert classes.predict_proba_one({"city": "c1"}).keys() == {True, False}


def test_rows_beyond_the_most_are_let_go():
    rows = DictRows(max_rows=3)
    for i in range(5):
        rows.enter({"x": i}, 0.0)
    assert not rows.keeps
    assert rows.enter({"x": 2.0, "new": 1.0}, 0.0)[1] is None
    assert np.isnan(rows.row({"new": 1.0})).tolist() == [[True]]


def test_bad_dictionaries_lose_nothing(adapters):
    model = adapters.CoverRegressor(n_estimators=2)
    for i in range(20):
        model.learn_one({"x": i % 5}, float(i % 5))
    before = model.predict_one({"x": 2})
    for x, y in (({"x": "red"}, 1.0), ({"x": np.inf}, 1.0), ({"x": 1.0}, np.nan), ({"x": 1.0, "z": np.inf}, 1.0)):
        with pytest.raises(ValueError, match="finite number"):
            model.learn_one(x, y)
    assert model.predict_one({"x": 2}) == before
    assert model._rows.n_rows == 20
    assert np.isfinite(model.predict_one({"x": None}))


def test_labels_of_any_kind(adapters):
    model = adapters.CoverClassifier(n_estimators=2, n_discriminant_trees=1)
    assert model.predict_one({"x": 1.0}) is None
    for i in range(40):
        model.learn_one({"x": float(i % 4)}, ("low", 1)[i % 4 > 1])
    assert model.predict_one({"x": 0.0}) == "low"
    assert model.predict_one({"x": 3.0}) == 1


# skpro


@pytest.mark.parametrize("name", ["CoverDistribution", "CoverProbaRegressor"])
@pytest.mark.filterwarnings("ignore")
def test_skpros_own_checks(name):
    pytest.importorskip("skpro", reason="pip install 'coverwalk[skpro]'")
    from skpro.utils import check_estimator

    from coverwalk.adapters import skpro

    results = check_estimator(getattr(skpro, name), verbose=False)
    assert {test: result for test, result in results.items() if result != "PASSED"} == {}
    assert len(results) > 50


def test_skpros_distribution_is_ours():
    pytest.importorskip("skpro", reason="pip install 'coverwalk[skpro]'")
    from coverwalk.adapters.skpro import CoverProbaRegressor

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (200, 2)), columns=["a", "b"], index=np.arange(200) + 7)
    y = pd.DataFrame({"y": X["a"] + 0.1 * rng.standard_normal(200)})
    model = CoverProbaRegressor(n_estimators=3).fit(X, y)
    ours = ConditionalDensity(3, random_state=0).fit(X.to_numpy(), y["y"].to_numpy()).predict_dist(X.to_numpy())
    theirs = model.predict_proba(X)
    assert np.allclose(theirs.log_pdf(y)["y"], ours.logpdf(y["y"].to_numpy()))
    assert np.allclose(theirs.iloc[[3, 1]].mean()["y"], ours.mean()[[3, 1]])
    assert theirs.iat[4, 0].cdf(0.1) == ours[4].cdf(0.1)
    levels = model.predict_quantiles(X, alpha=[0.1, 0.9])
    assert np.allclose(levels.to_numpy(), ours.ppf([0.1, 0.9]))
    assert np.allclose(theirs.quantile([0.1, 0.9]).to_numpy(), ours.ppf([0.1, 0.9]))
    draws = theirs.sample(200).to_numpy().reshape(200, 200)
    assert abs(np.mean(draws < ours.ppf(0.3)) - 0.3) < 0.02
