"""Parameters that cannot be: a ValueError that names them, at once. And rows that the caller changes afterwards."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from coverwalk import (
    ConditionalDensity,
    ContextClassifier,
    CoverModel,
    Density,
    DoubleTree,
    SequenceClassifier,
    SequenceModel,
)
from coverwalk.covers import KDTree
from coverwalk.local import KernelDensity

X = np.random.default_rng(0).normal(size=(40, 2))


@pytest.mark.parametrize(
    "estimator", [ConditionalDensity, ContextClassifier, Density, DoubleTree, SequenceClassifier, SequenceModel]
)
def test_signatures_show_types_and_models_are_known_by_identity(estimator):
    assert "Annotated" not in str(inspect.signature(estimator))
    assert estimator() != estimator()  # locks are kept by model
    assert repr(estimator()) == f"{estimator.__name__}()"


class _Lines(ConditionalDensity):
    """A subclass that sets a parameter itself, as scikit-learn allows."""

    def __init__(self, n_estimators=4):
        super().__init__(n_estimators, degree=1, stop=0.5)


def test_a_subclass_may_take_fewer_parameters():
    model = _Lines().fit(X, X[:, 0])
    own = ConditionalDensity(4, degree=1, stop=0.5).fit(X, X[:, 0])
    np.testing.assert_array_equal(model.predict(X), own.predict(X))
    assert clone(model).stop == model.fit(X, X[:, 1]).stop == 0.5


@pytest.mark.parametrize("estimator", [ConditionalDensity, ContextClassifier, Density])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_jobs", 0),
        ("n_jobs", float("nan")),
        ("n_jobs", "all"),
        ("n_estimators", 10**9),
        ("n_estimators", True),
        ("n_estimators", 2.5),
        ("random_state", -1),
    ],
)
def test_numbers_that_cannot_be_are_refused(estimator, name, value):
    with pytest.raises(ValueError, match=name if name != "random_state" else "random_state|Seed"):
        estimator(**{name: value}).fit(X, X[:, 0] > 0)


@pytest.mark.parametrize(("name", "value"), [("min_samples_leaf", True), ("held_out", 2**63), ("held_out", 1)])
def test_numbers_of_a_classifier_that_cannot_be_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        ContextClassifier(2, 2, **{name: value}).fit(X, X[:, 0] > 0)


def test_a_resolution_for_no_column_is_refused():
    with pytest.raises(ValueError, match="one for each column"):
        Density(2, resolution=[]).fit(X)


@pytest.mark.parametrize("size", [0, 10**9, 2**63])
def test_alphabets_too_large_to_count_are_refused(size):
    with pytest.raises(ValueError, match="alphabet must be from 1 to"):
        SequenceModel(size).fit([0, 1, 0])


def test_a_sequence_classifier_takes_sequence_models():
    with pytest.raises(TypeError, match="model must be a SequenceModel"):
        SequenceClassifier(ContextClassifier()).fit(["ab", "ba"], [0, 1])


def test_seeds_that_no_fit_takes_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="random_state"):
        ConditionalDensity(random_state=-1).save(tmp_path / "m.cover")


@pytest.mark.parametrize(
    "learn",
    [
        lambda X, y, c, w: ConditionalDensity(3).fit(X, y, sample_weight=w),
        lambda X, y, c, w: ConditionalDensity(3).partial_fit(X, y),
        lambda X, y, c, w: ContextClassifier(3, 1).fit(X, c, sample_weight=w),
        lambda X, y, c, w: ContextClassifier(3, 1).partial_fit(X, c).partial_fit(X[:5], c[:5]),
        lambda X, y, c, w: Density(3).fit(X),
        lambda X, y, c, w: DoubleTree().partial_fit(X, y),
        lambda X, y, c, w: cover_model(X, y),
    ],
)
def test_what_a_model_has_learned_is_its_own(learn):
    """The arrays that rows came in may be used again."""
    given = X.copy(), X[:, 0].copy(), (X[:, 0] > 0).astype(int), np.linspace(0.5, 1.5, len(X))
    model = learn(*given)
    before = pickle.dumps(model)
    for array in given:
        array[:] = 1
    assert pickle.dumps(model) == before


def cover_model(X, y):
    model = CoverModel(KDTree(), KernelDensity())
    model.update_many(X, y[:, None])
    return model
