"""The kernels against plain Python, context tree weighting against enumeration, and both walks against CoverModel."""

import math

import numpy as np
import pytest

from coverwalk import CoverModel, SequenceModel
from coverwalk.covers import SuffixTree
from coverwalk.local import Dirichlet
from tests.slow_sequence import SlowDirichlet, SlowMixed, all_trees, ctw_by_enumeration, ctw_by_recursion


def documents(seed, size):
    """Documents with repeats in them and among them, so that contexts of every order come back."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, size, 200)
    first[100:150] = first[20:70]
    second = np.concatenate([first[60:120], rng.integers(0, size, 40), first[100:130], np.zeros(60, int)])
    ends = [first[:1], first[:3], first[:3], first[:7], first[190:], first[:0]]  # where one ends another goes on
    return [first, second, *ends, np.concatenate([first[:5], second[50:130], first[30:90], first[185:], first[:40]])]


@pytest.mark.parametrize(("size", "depth"), [(2, 0), (2, 1), (2, 6), (4, 16), (30, 5), (300, 3)])
def test_mixed_walk_equals_plain_python(size, depth):
    fast, slow = SequenceModel(size, depth=depth), SlowMixed(size, depth)
    for document in documents(size, size):
        slow.new_document()
        expected = [-math.log(slow.learn(int(symbol))) for symbol in document]
        np.testing.assert_allclose(fast.prequential(document), expected, rtol=0, atol=1e-9)
        probabilities = [slow.walk(symbol)[1] for symbol in range(size)]
        np.testing.assert_allclose(fast.predict_proba(), probabilities, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("switching", "alpha"), [(0.0, 2.0), (0.2, 0.5)])
def test_mixed_walk_equals_plain_python_for_other_settings(switching, alpha):
    fast = SequenceModel(5, depth=8, switching=switching, alpha=alpha)
    slow = SlowMixed(5, 8, switching or 1e-300, alpha)
    slow.share = switching
    document = documents(1, 5)[0]
    if switching == 0.0:
        document = document[:60]  # the plain sigmoid of the reference loses what the log-odds keep
    expected = [-math.log(slow.learn(int(symbol))) for symbol in document]
    np.testing.assert_allclose(fast.prequential(document), expected, rtol=0, atol=1e-9)


def test_growing_alphabet_equals_plain_python():
    fast, slow = SequenceModel(depth=4), SlowMixed(0, 4, grows=True)
    for document in documents(7, 12):
        losses = fast.prequential(document)
        slow.new_document()
        codes = [fast.alphabet_.index(symbol) for symbol in document]
        np.testing.assert_allclose(losses, [-math.log(slow.learn(code)) for code in codes], rtol=0, atol=1e-9)
        expected = [slow.walk(code)[1] for code in range(slow.n_symbols + 1)]
        np.testing.assert_allclose(fast.predict_proba(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("walk", ["coarsen", "refine"])
@pytest.mark.parametrize("borders", [True, False])
@pytest.mark.parametrize("switching", [0.0, 0.03])
@pytest.mark.parametrize("size", [None, 4])
def test_dirichlet_walks_equal_plain_python(walk, borders, switching, size):
    fast = SequenceModel(size, depth=5, walk=walk, estimator="dirichlet", switching=switching, borders=borders)
    slow = SlowDirichlet(size or 0, 5, walk, switching, borders=borders, grows=size is None)
    for document in documents(4, 4):
        losses = fast.prequential(document)
        codes = [fast.alphabet_.index(symbol) for symbol in document]
        slow.new_document()
        np.testing.assert_allclose(losses, [-math.log(slow.learn(code)) for code in codes], rtol=0, atol=1e-9)
        expected = [slow.steps(code)[0] for code in range(slow.n_symbols + (size is None))]
        np.testing.assert_allclose(fast.predict_proba(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [2, 40])
@pytest.mark.parametrize("walk", ["mixed", "coarsen", "refine"])
def test_many_short_documents_equal_plain_python(walk, size):
    """Documents that begin, go on and end in the middle of one another."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        pool = rng.integers(0, size, 60)
        slow = SlowMixed(size, 7) if walk == "mixed" else SlowDirichlet(size, 7, walk)
        fast = SequenceModel(size, depth=7)
        if walk != "mixed":
            fast = SequenceModel(size, depth=7, walk=walk, estimator="dirichlet")
        for _ in range(6):
            starts = rng.integers(0, 60, rng.integers(0, 5))
            document = np.concatenate([pool[:0], *(pool[a : a + rng.integers(0, 25)] for a in starts)])
            slow.new_document()
            expected = [-math.log(slow.learn(int(symbol))) for symbol in document]
            np.testing.assert_allclose(fast.prequential(document), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [3, 40])
def test_reading_equals_plain_python(size):
    """A new document that quotes what was seen once: contexts not stored are followed through the history."""
    fast, slow = SequenceModel(size, depth=7), SlowMixed(size, 7)
    first, second, *_, last = documents(6, size)
    for document in (first, second):
        fast.partial_fit(document)
        slow.new_document()
        for symbol in document:
            slow.learn(int(symbol))
    slow.new_document()
    expected = []
    for symbol in np.concatenate([last, first[60:]]):
        expected.append(-math.log(slow.walk(int(symbol))[1]))
        slow.past.append(int(symbol))
    np.testing.assert_allclose(fast.losses(np.concatenate([last, first[60:]])), expected, rtol=0, atol=1e-9)


def test_reading_equals_learning():
    """Contexts met once are places in the history: following them must give what learning would."""
    document = documents(3, 6)[0]
    learner = SequenceModel(6, depth=9).fit(document[:120])
    for i in range(120, 200):
        loss = -math.log(learner.predict_proba()[document[i]])
        whole = learner.predict_proba(document[:i])  # found again from the empty context
        assert -math.log(whole[document[i]]) == pytest.approx(loss, abs=1e-12)
        assert learner.prequential([int(document[i])], new_document=False)[0] == pytest.approx(loss, abs=1e-12)


# ---- context tree weighting ----


def block_probability(document, past, size, depth):
    model = SequenceModel(size, depth=depth, walk="refine")
    return math.exp(-model.prequential(np.array(document), past=np.array(past, int)).sum())


def test_published_value():
    """Willems, Shtarkov and Tjalkens (1995), figure 3: the block 0110100 after ...010 at depth 3."""
    assert block_probability([0, 1, 1, 0, 1, 0, 0], [0, 1, 0], 2, 3) == pytest.approx(95 / 32768, rel=1e-12)


def test_value_by_hand():
    """Depth 1, block 001 after 0. Root KT of 0,0,1: 1/2 3/4 1/6 = 1/16; after 0 all three: the same; after 1: 1."""
    assert block_probability([0, 0, 1], [0], 2, 1) == pytest.approx(0.5 / 16 + 0.5 / 16, rel=1e-12)
    # 0110 after 0. Root 0,1,1,0: 1/2 1/4 3/6 3/8 = 3/128; after 0: 0,1: 1/8; after 1: 1,0: 1/8
    assert block_probability([0, 1, 1, 0], [0], 2, 1) == pytest.approx(0.5 * 3 / 128 + 0.5 / 64, rel=1e-12)


@pytest.mark.parametrize(
    ("size", "depth", "n"), [(2, 0, 12), (2, 1, 20), (2, 2, 25), (2, 3, 25), (3, 2, 15), (4, 1, 18)]
)
def test_block_probability_equals_enumeration(size, depth, n):
    rng = np.random.default_rng(size * 10 + depth)
    document, past = rng.integers(0, size, n).tolist(), rng.integers(0, size, depth).tolist()
    expected, joint = ctw_by_enumeration(document, past, size, depth)
    assert sum(prior for _, prior in all_trees(size, depth)) == pytest.approx(1)
    assert len(joint) > 1 or depth == 0
    assert block_probability(document, past, size, depth) == pytest.approx(expected, rel=1e-9)


def test_block_probability_equals_recursion_on_dna():
    rng = np.random.default_rng(5)
    document, past = rng.integers(0, 4, 120).tolist(), [0, 1, 2]
    document[50:90] = document[10:50]
    expected = ctw_by_recursion(document, past, 4, 3)
    assert block_probability(document, past, 4, 3) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("size", "depth"), [(2, 2), (2, 3), (3, 1)])
def test_best_trees_equal_enumeration(size, depth):
    rng = np.random.default_rng(3)
    document, past = rng.integers(0, size, 30).tolist(), rng.integers(0, size, depth).tolist()
    total, joint = ctw_by_enumeration(document, past, size, depth)
    model = SequenceModel(size, depth=depth, walk="refine", borders=False)
    model.fit(np.array(document), past=np.array(past))
    expected = sorted((p / total for p in joint.values()), reverse=True)
    trees = model.map_tree(k=len(joint))
    np.testing.assert_allclose([tree.posterior for tree in trees], expected, rtol=1e-9)
    for tree in trees[:3]:
        found = {leaf.context for leaf in tree.leaves() if leaf.count}
        p = next(p for leaves, p in joint.items() if found <= set(leaves) and math.isclose(p / total, tree.posterior))
        assert p > 0


@pytest.mark.parametrize(("size", "depth"), [(2, 2), (2, 3), (3, 1), (2, 0)])
def test_order_posterior_equals_enumeration(size, depth):
    rng = np.random.default_rng(4)
    document, past = rng.integers(0, size, 25).tolist(), rng.integers(0, size, depth).tolist()
    total, joint = ctw_by_enumeration(document, past, size, depth)
    model = SequenceModel(size, depth=depth, walk="refine", borders=False)
    model.fit(np.array(document), past=np.array(past, int))
    expected = np.zeros(depth + 1)
    whole = [*past, *document]
    met = {tuple(whole[i - k : i]) for i in range(depth, len(whole)) for k in range(depth + 1)}
    for leaves, p in joint.items():
        expected[max(len(leaf) for leaf in leaves if tuple(leaf) in met)] += p / total
    np.testing.assert_allclose(model.order_posterior(), expected, rtol=1e-9)


def test_sampled_trees_follow_their_posterior():
    rng = np.random.default_rng(3)
    model = SequenceModel(2, depth=2, walk="refine", borders=False)
    model.fit(rng.integers(0, 2, 40), past=rng.integers(0, 2, 2))
    drawn = model.sample_trees(3000, seed=1)
    shapes = [frozenset(leaf.context for leaf in tree.leaves()) for tree in drawn]
    for tree in model.map_tree(k=5):
        p = tree.posterior
        times = shapes.count(frozenset(leaf.context for leaf in tree.leaves()))
        assert abs(times - 3000 * p) < 4 * np.sqrt(3000 * p * (1 - p)) + 1
    with pytest.raises(ValueError, match="refine"):
        SequenceModel(2).fit([0, 1]).order_posterior()


def test_documents_add_up_in_any_order():
    """Context trees see counts only: the order of documents does not matter."""
    parts = [document for document in documents(2, 3) if len(document)]
    one = SequenceModel(3, depth=4, walk="refine").fit_documents(parts)
    two = SequenceModel(3, depth=4, walk="refine").fit_documents(parts[::-1])
    np.testing.assert_allclose(one.predict_proba([0, 1]), two.predict_proba([0, 1]), rtol=1e-9)


# ---- the general tier ----


def cover_losses(model, document, past, size):
    whole = [*past, *document]
    losses = []
    for i in range(len(past), len(whole)):
        losses.append(-model.log_predict(whole[:i], whole[i]))
        model.update(whole[:i], whole[i])
    return losses, [model.log_predict(whole, symbol) for symbol in range(size)]


@pytest.mark.parametrize("walk", ["coarsen", "refine"])
@pytest.mark.parametrize(("alpha", "stop"), [(0.5, None), (0.25, 0.3)])
def test_equals_the_general_cover_model(walk, alpha, stop):
    rng = np.random.default_rng(8)
    document, past = rng.integers(0, 3, 90).tolist(), [2, 0, 1, 1]
    document[50:80] = document[5:35]
    general = CoverModel(SuffixTree(depth=4), Dirichlet(range(3), alpha), walk=walk, stop=stop)
    fast = SequenceModel(3, depth=4, walk=walk, estimator="dirichlet", alpha=alpha, stop=stop)
    expected, log_next = cover_losses(general, document, past, 3)
    np.testing.assert_allclose(fast.prequential(np.array(document), past=np.array(past)), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.log(fast.predict_proba()), log_next, rtol=0, atol=1e-9)


def test_refining_from_the_beginning_equals_the_general_cover_model():
    """Before the beginning stands a border there as here."""
    document = np.random.default_rng(9).integers(0, 3, 60).tolist()
    general = CoverModel(SuffixTree(depth=3), Dirichlet(range(3)), walk="refine")
    expected, log_next = cover_losses(general, document, [], 3)
    fast = SequenceModel(3, depth=3, walk="refine")
    np.testing.assert_allclose(fast.prequential(np.array(document)), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.log(fast.predict_proba()), log_next, rtol=0, atol=1e-9)
