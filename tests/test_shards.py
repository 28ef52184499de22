"""Models of shards make the model of all rows."""

import numpy as np
import pandas as pd
import pytest

from coverwalk import ConditionalDensity, ContextClassifier, CoverModel, SequenceModel, merge
from coverwalk.covers import DyadicBoxes
from coverwalk.local import Polynomial


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(size=120), "town": rng.choice(["Bern", "Rome", "Oslo"], 120)})
    frame.loc[3, "a"] = np.nan
    y = frame["a"].fillna(0.5) + (frame["town"] == "Rome") + 0.1 * rng.standard_normal(120)
    return frame, y.rename("height")


def test_a_density_of_shards_is_that_of_all_rows(rows):
    X, y = rows
    parts = [ConditionalDensity(2, stop=0.5).fit(X[k::3], y[k::3]) for k in range(3)]
    merged, whole = merge(parts), ConditionalDensity(2, stop=0.5).fit(X, y)
    np.testing.assert_allclose(merged.logpdf(X, y), whole.logpdf(X, y), rtol=1e-9)
    assert merged.feature_names_in_.tolist() == ["a", "town"]
    assert merged.get_params() == whole.get_params()
    assert parts[0].forests_[0].n_rows == 40  # as it was


def test_several_outputs_and_classes(rows):
    X, y = rows
    Z, Y = X[["a"]].fillna(0), np.column_stack([y, -y])
    parts = [ConditionalDensity(2, stop=0.5).fit(Z[k::2], Y[k::2]) for k in range(2)]
    whole = ConditionalDensity(2, stop=0.5).fit(Z, Y)
    np.testing.assert_allclose(merge(parts).logpdf(Z, Y), whole.logpdf(Z, Y), rtol=1e-9)
    shards = [ContextClassifier(3, 0, random_state=0).fit(Z[k::2], X["town"][k::2]) for k in range(2)]
    order = [*range(0, 120, 2), *range(1, 120, 2)]  # a classifier's folds depend on the order of rows
    classes = ContextClassifier(3, 0, random_state=0).fit(Z.iloc[order], X["town"].iloc[order])
    np.testing.assert_allclose(merge(shards).predict_proba(Z), classes.predict_proba(Z), rtol=1e-9)


def test_a_cover_model_adds_its_statistics():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(40, 1)), rng.normal(size=(40, 1))

    def model(rows):
        made = CoverModel(DyadicBoxes([0.0], [1.0], depth=3), Polynomial(0), walk="refine")
        made.update_many(x[rows], y[rows])
        return made

    merged, whole = merge([model(slice(0, 20)), model(slice(20, 40))]), model(slice(None))
    assert merged.log_predict(y[0], x[0]) == pytest.approx(whole.log_predict(y[0], x[0]))


def test_what_does_not_merge_says_why(rows):
    X, y = rows
    Z = X[["a"]].fillna(0)
    fitted = ConditionalDensity(2, stop=0.5).fit(Z, y)
    with pytest.raises(ValueError, match="same parameters"):
        merge([fitted, ConditionalDensity(3, stop=0.5).fit(Z, y)])
    with pytest.raises(ValueError, match="same inputs"):
        merge([fitted, ConditionalDensity(2, stop=0.5).fit(X, y)])
    with pytest.raises(ValueError, match="equally many outputs, got 1 and 2"):
        merge([fitted, ConditionalDensity(2, stop=0.5).fit(Z, np.column_stack([y, y]))])
    with pytest.raises(TypeError, match="one class"):
        merge([fitted, ContextClassifier()])
    with pytest.raises(TypeError, match="does not merge"):
        merge([SequenceModel(), SequenceModel()])
    with pytest.raises(ValueError, match="stream"):
        merge([ConditionalDensity(2, stop=0.5).partial_fit(Z, y)] * 2)
