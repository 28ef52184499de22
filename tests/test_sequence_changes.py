"""Change points by evidence: against SequenceModel, against a sum over all trees, and on sources that change."""

import itertools
import math

import numpy as np
import pytest

from coverwalk import SequenceModel
from coverwalk.sequences.change_points import change_points, change_posterior

RNG = np.random.default_rng(2)
CODES = np.concatenate([RNG.integers(0, 2, 30), np.arange(40) % 2])


@pytest.mark.parametrize(("depth", "alpha", "stop"), [(0, 0.5, 0.5), (1, 0.5, 0.3), (3, 0.2, 0.6)])
def test_the_evidence_is_that_of_context_tree_weighting(depth, alpha, stop):
    """For every place: two fresh models, the second with the past as its contexts, against one."""
    parameters = {"alphabet": 2, "walk": "refine", "depth": depth, "alpha": alpha, "stop": stop}

    def log_evidence(begin, end):
        past = CODES[:begin] if begin else None
        return -SequenceModel(**parameters).prequential(CODES[begin:end], past=past).sum()

    n = len(CODES)
    two = np.array([log_evidence(0, t) + log_evidence(t, n) for t in range(1, n)])
    one = log_evidence(0, n)
    found = change_posterior(CODES, depth=depth, alpha=alpha, stop=stop, prior=0.3)
    log_ratio = np.logaddexp.reduce(two) - np.log(n - 1) - one
    assert found.log_ratio == pytest.approx(log_ratio, abs=1e-9)
    posterior = np.append(np.log(0.3 / (n - 1)) + two, np.log(0.7) + one)
    posterior = np.exp(posterior - np.logaddexp.reduce(posterior))
    np.testing.assert_allclose(found.probability[1:], posterior[:-1], atol=1e-9)
    assert found.no_change == pytest.approx(posterior[-1], abs=1e-9)
    assert found.probability[0] == 0


def test_by_hand():
    """Three symbols, order 0: KT of each part by its product."""

    def kt(symbols):
        counts, p = [0.5, 0.5], 1.0
        for s in symbols:
            p *= counts[s] / sum(counts)
            counts[s] += 1
        return p

    for symbols in itertools.product((0, 1), repeat=3):
        two = [kt(symbols[:t]) * kt(symbols[t:]) for t in (1, 2)]
        found = change_posterior(np.array(symbols), depth=0, alphabet=2)
        assert found.log_ratio == pytest.approx(math.log(sum(two) / 2 / kt(symbols)))
        total = sum(two) / 4 + kt(symbols) / 2
        np.testing.assert_allclose(found.probability, [0, two[0] / 4 / total, two[1] / 4 / total])


def test_changes_are_found_where_they_are_and_nowhere_else():
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.full(4, 0.5), (3, 4)).cumsum(2)

    def chain(table, n):
        out = [0]
        for u in rng.random(n):
            out.append(min(int((u >= table[out[-1]]).sum()), 3))
        return "".join("ACGT"[s] for s in out[1:])

    document = chain(tables[0], 600) + chain(tables[1], 500) + chain(tables[2], 700)
    places = change_points(document, alphabet="ACGT", depth=3)
    assert len(places) == 2
    assert abs(places[0] - 600) < 15
    assert abs(places[1] - 1100) < 15
    alone = change_posterior(chain(tables[0], 1500))
    assert alone.log_ratio < 0
    assert alone.no_change > 0.9
    assert change_points(chain(tables[1], 1500)) == []
    assert change_points("") == change_points("a") == []


def test_long_documents_of_many_symbols():
    rng = np.random.default_rng(1)
    document = rng.integers(0, 256, 20_000)
    document[12_000:] %= 64
    found = change_posterior(document.astype(np.uint8).tobytes(), depth=1, alpha=0.05)
    assert abs(found.probability.argmax() - 12_000) < 100
    assert found.probability.sum() + found.no_change == pytest.approx(1)


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"depth": 99}, {"alpha": 0.0}, {"stop": 1.0}, {"prior": 0.0}])
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        change_posterior("abab", **wrong)
