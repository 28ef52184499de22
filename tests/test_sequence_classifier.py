"""Sequences classified by code length."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from coverwalk import SequenceModel, load
from coverwalk.sequence_classifier import SequenceClassifier, reverse_complement

RNG = np.random.default_rng(0)


def chain(table, n, rng):
    """A sequence of a Markov chain of order 1 over ACGT."""
    codes = [0]
    for _ in range(n - 1):
        codes.append(rng.choice(4, p=table[codes[-1]]))
    return "".join("ACGT"[code] for code in codes)


TABLES = [RNG.dirichlet(np.ones(4), 4) for _ in range(2)]
X = [chain(TABLES[i % 2], 150, RNG) for i in range(20)]
Y = ["even", "odd"] * 10


def test_it_tells_two_chains_apart_as_their_likelihoods_do():
    model = SequenceClassifier().fit(X, Y)
    fresh = [chain(TABLES[i % 2], 60, RNG) for i in range(20)]
    assert model.score(fresh, Y) >= 0.95
    p = model.predict_proba(fresh)
    np.testing.assert_allclose(p.sum(1), 1)
    lengths = model.code_lengths(fresh)
    assert lengths.shape == (20, 2)
    expected = -model.models_[0].losses(list(fresh[0]), unit="bits").sum()
    assert lengths[0, 0] == pytest.approx(-expected)
    assert list(model.classes_) == ["even", "odd"]


def test_both_strands():
    """Sequences of the other strand are recognised when both were learned."""
    other = [reverse_complement(x) for x in X]
    one, both = SequenceClassifier().fit(X, Y), SequenceClassifier(both_strands=True).fit(X, Y)
    assert both.code_lengths(other).min(1).mean() < one.code_lengths(other).min(1).mean()
    assert both.score(other, Y) >= 0.9
    assert reverse_complement(reverse_complement(X[0])) == X[0]
    with pytest.raises(ValueError, match="DNA"):
        reverse_complement("GAZ")


def test_symbols_never_met_bytes_and_mistakes():
    words = SequenceClassifier().fit([["to", "be"], ["or", "not"]], [1, 2])
    assert np.isfinite(words.predict_proba([["that", "is"]])).all()
    data = SequenceClassifier(SequenceModel(effort=1)).fit([b"abcabc" * 30, b"cbacba" * 30], [0, 1])
    assert list(data.predict([b"abcabcabc", b"cbacbacba"])) == [0, 1]
    assert clone(data).get_params()["both_strands"] is False
    with pytest.raises(NotFittedError):
        SequenceClassifier().code_lengths(["a"])
    with pytest.raises(ValueError, match="as many classes"):
        SequenceClassifier().fit(["a", "b"], [1])


def test_files(tmp_path):
    words = SequenceClassifier().fit([["to", "be"], ["or", "not"]], [1, 2])
    data = SequenceClassifier(SequenceModel(effort=1)).fit([b"abcabc" * 30, b"cbacba" * 30], ["x", "y"])
    for model, fresh in ((words, [["to", "that"]]), (data, [b"abcabcabc"])):
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_proba(fresh), model.predict_proba(fresh))
        assert list(again.predict(fresh)) == list(model.predict(fresh))
    data.models_[1] = SequenceModel()
    with pytest.raises(ValueError, match="cannot be saved"):
        data.save(tmp_path / "model")
