"""exact enumeration == CoverModel for the refining walk; the coarsening walk where it should and should not be."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverwalk import CoverModel, exact
from coverwalk.base import Cover
from coverwalk.covers import ChoiceBoxes, DyadicBoxes, KDTree, SuffixTree
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity
from coverwalk.walk import START


class RandomTree(Cover):
    """A random binary tree over [0, 1): a leaf here, a split there."""

    nested = True

    def __init__(self, seed, depth=3):
        rng = np.random.default_rng(seed)
        self.children = {}
        self.cuts = {}
        pending = [("r", 0.0, 1.0, 0)]
        while pending:
            name, low, high, k = pending.pop()
            if k < depth and (k == 0 or rng.random() < 0.7):
                cut = low + (high - low) * rng.uniform(0.2, 0.8)
                self.children[name] = [[name + "0", name + "1"]]
                self.cuts[name] = cut
                pending += [(name + "0", low, cut, k + 1), (name + "1", cut, high, k + 1)]

    def contexts(self, x):
        path = ["r"]
        while path[-1] in self.cuts:
            path.append(path[-1] + str(int(np.squeeze(x) >= self.cuts[path[-1]])))
        return [[name] for name in path]


LOCALS = {
    "normal": [Polynomial(0)],
    "line": [Polynomial(1)],
    "tree": [TreeDensity(max_depth=5)],
    "several": [Polynomial(0), Polynomial(2), TreeDensity(max_depth=4)],
}


def local_log_evidence(local, rows):
    """Evidence of rows under a uniform choice of local models, from one-step predictives alone."""
    totals = []
    for model in local:
        posterior, total = model.start(), 0.0
        for x, y in rows:
            total += posterior.logpdf(np.atleast_1d(x), np.atleast_1d(y))
            posterior.update(np.atleast_1d(x), np.atleast_1d(y))
        totals.append(total)
    return float(np.log(np.mean(np.exp(totals))))


def holding(cover, context, rows):
    return [(x, y) for x, y in rows if any(context in level for level in cover.contexts(np.atleast_1d(x)))]


def check_against_enumeration(cover, partitions, root, local, rows, stop, x_new, y_new):
    model = CoverModel(cover, local, stop=stop)
    for x, y in rows:
        model.update(x, y)

    def log_evidence(M, rows=rows):
        return local_log_evidence(local, holding(cover, M, rows))

    Z = exact.refining_evidence(partitions, lambda M: stop, root, log_evidence)
    more = [*rows, (x_new, y_new)]
    Z_more = exact.refining_evidence(partitions, lambda M: stop, root, lambda M: log_evidence(M, more))
    assert model.log_evidence() == pytest.approx(np.log(Z), abs=1e-10)
    assert model.log_predict(x_new, y_new) == pytest.approx(np.log(Z_more / Z), abs=1e-10)
    for M in partitions:
        if M in model._beliefs:
            w = exact.refining_stop(partitions, lambda M: stop, root, log_evidence, M)
            assert np.exp(model._beliefs[M].stopping.log_w) == pytest.approx(w, abs=1e-10)


@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS)
@pytest.mark.parametrize("seed", range(4))
def test_refining_walk_is_the_enumeration_on_trees(local, seed):
    rng = np.random.default_rng(seed)
    cover = RandomTree(seed)
    rows = list(zip(rng.random(9), rng.standard_normal(9)))
    check_against_enumeration(
        cover, cover.children, "r", local, rows, rng.uniform(0.2, 0.8), rng.random(), rng.normal()
    )


def choice_partitions(cover):
    """Every box of a ChoiceBoxes cover and its halvings, written down independently of the cover's own code."""
    p = len(cover.low)
    partitions = {}
    for halvings in product(range(cover.depth), repeat=p):
        if sum(halvings) < cover.depth:
            for index in product(*(range(2**h) for h in halvings)):
                box = tuple(zip(halvings, index))
                partitions[box] = [
                    [
                        tuple((h + (i == j), 2 * k + side if i == j else k) for i, (h, k) in enumerate(box))
                        for side in (0, 1)
                    ]
                    for j in range(p)
                ]
    return partitions


@pytest.mark.parametrize("local", [LOCALS["normal"], LOCALS["several"]], ids=["normal", "several"])
@pytest.mark.parametrize("p", [2, 3])
def test_refining_walk_is_the_enumeration_where_transitions_choose_partitions(local, p):
    rng = np.random.default_rng(p)
    cover = ChoiceBoxes([0.0] * p, [1.0] * p, depth=2)
    rows = [(x, float(np.sign(x[0] - 0.5) + 0.3 * rng.standard_normal())) for x in rng.random((8, p))]
    root = tuple((0, 0) for _ in range(p))
    check_against_enumeration(cover, choice_partitions(cover), root, local, rows, 0.4, rng.random(p), 0.8)


def test_transition_weights_are_the_posterior_of_the_partition():
    """v of the root against Bayes' rule over which coordinate is halved."""
    rng = np.random.default_rng(1)
    cover, local = ChoiceBoxes([0, 0], [1, 1], depth=1), [Polynomial(0)]
    rows = [(x, float(np.sign(x[1] - 0.5) + 0.1 * rng.standard_normal())) for x in rng.random((7, 2))]
    model = CoverModel(cover, local, stop=0.5)
    model.update_many(*zip(*rows))
    halves = choice_partitions(cover)[((0, 0), (0, 0))]
    Z = [np.exp(sum(local_log_evidence(local, holding(cover, box, rows)) for box in pair)) for pair in halves]
    log_v = model._beliefs[((0, 0), (0, 0))].stopping.log_v
    v = np.exp([log_v[0], log_v[1]])
    np.testing.assert_allclose(v / v.sum(), np.array(Z) / sum(Z), atol=1e-10)
    assert v[1] > 5 * v[0]


COVERS = {
    "boxes": lambda: DyadicBoxes(0, 1, depth=3),
    "tree": lambda: RandomTree(5),
    "choice": lambda: ChoiceBoxes([0, 0], [1, 1], depth=2),
}


@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS)
@pytest.mark.parametrize("make_cover", COVERS.values(), ids=COVERS)
def test_order_batch_and_merge_agree(make_cover, local):
    rng = np.random.default_rng(3)
    cover = make_cover()
    p = 2 if isinstance(cover, ChoiceBoxes) else 1
    X, Y = rng.random((60, p)), rng.standard_normal(60)
    X = X if p > 1 else X[:, 0]

    def learned(order):
        model = CoverModel(make_cover(), local)
        model.update_many(X[order], Y[order])
        return model

    whole = learned(np.arange(60))
    shuffled = learned(rng.permutation(60))
    merged = learned(np.arange(25))
    merged.merge(learned(np.arange(25, 60)))
    for other in (shuffled, merged):
        assert other.log_evidence() == pytest.approx(whole.log_evidence(), abs=1e-9)
        for x, y in zip(X[:10], Y[10:20]):
            assert other.log_predict(x, y) == pytest.approx(whole.log_predict(x, y), abs=1e-9)
            ours, theirs = whole.posterior(x), other.posterior(x)
            weights = {(v.context, id(v.local)): v.weight for v in theirs}
            for component in ours:
                assert weights[component.context, id(component.local)] == pytest.approx(component.weight, abs=1e-9)


def test_sum_of_predictions_is_the_evidence():
    rng = np.random.default_rng(4)
    model = CoverModel(DyadicBoxes(0, 1, depth=4), LOCALS["several"])
    total = 0.0
    for x, y in zip(rng.random(50), rng.standard_normal(50)):
        total += model.log_predict(x, y)
        model.update(x, y)
    assert model.log_evidence() == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("p", [1, 2])
def test_replay_makes_a_grown_tree_exact(p):
    """A kd-tree grown row by row equals the batch evidence on the tree it ended with, in any order."""
    rng = np.random.default_rng(p)
    X, Y = rng.standard_normal((80, p)), rng.standard_normal(80)
    local = [Polynomial(0), TreeDensity(max_depth=5)]
    grown = CoverModel(KDTree(alpha=1.6), local)
    grown.update_many(X, Y)
    assert len(grown) > 15
    grown.cover.freeze()
    fixed = CoverModel(grown.cover, local)
    order = rng.permutation(80)
    fixed.update_many(X[order], Y[order])
    assert grown.log_evidence() == pytest.approx(fixed.log_evidence(), abs=1e-9)
    for x, y in zip(X[:20], Y[20:40]):
        assert grown.log_predict(x, y) == pytest.approx(fixed.log_predict(x, y), abs=1e-9)


def test_replay_in_the_coarsening_walk_is_as_if_the_children_had_been_there():
    """Psi of a new leaf equals that of a chain whose leaf saw every row of its box from the parent's beginning."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 1)), rng.standard_normal(40)
    grown = CoverModel(KDTree(alpha=2), [Polynomial(0)], walk="coarsen")
    grown.update_many(X, Y)
    # by hand: root's psi is phi; a child's weight follows the rows of its box, in order, from the first on
    left, right = (
        [i for i in range(40) if (1 in {c for level in grown.cover.contexts(X[i]) for c in level}) == s]
        for s in (True, False)
    )
    root, log_psi_root = Polynomial(0).start(), {}
    for i in range(40):
        log_psi_root[i] = root.logpdf(X[i], Y[i])
        root.update(X[i], Y[i])
    for number, rows in ((1, left), (2, right)):
        phi, log_w, log_1mw = Polynomial(0).start(), np.log(0.5), np.log(0.5)
        for i in rows:
            log_phi = phi.logpdf(X[i], Y[i])
            log_psi = np.logaddexp(log_w + log_phi, log_1mw + log_psi_root[i])
            log_w, log_1mw = log_w + log_phi - log_psi, log_1mw + log_psi_root[i] - log_psi
            phi.update(X[i], Y[i])
        assert grown._beliefs[number].stopping.log_w == pytest.approx(log_w, abs=1e-9)
        assert grown._beliefs[number].stopping.log_1mw == pytest.approx(log_1mw, abs=1e-9)


# The coarsening walk


def coarsening_paths(model, X, Y):
    """Learn rows one by one; paths fine to coarse, the local predictive of every row in every context, and psi."""
    paths, densities, log_psi = [], [], []
    for x, y in zip(X, Y):
        levels = [level[0] for level in model.cover.contexts(np.atleast_1d(x))]
        _, beliefs, _ = model._reach(np.atleast_1d(x))
        densities.append({M: np.exp(beliefs[M].weigh(np.atleast_1d(x), np.atleast_1d(y))[0]) for M in levels})
        paths.append(levels[::-1])
        log_psi.append(model.log_predict(x, y))
        model.update(x, y)
    return paths, densities, log_psi


def test_coarsening_walk_is_the_enumeration_on_a_chain():
    rng = np.random.default_rng(0)
    X, Y = np.full(12, 0.3), rng.standard_normal(12)
    model = CoverModel(DyadicBoxes(0, 1, depth=4), [Polynomial(0), TreeDensity(max_depth=4)], walk="coarsen")
    # rows elsewhere first, so that the contexts of the chain differ
    model.update_many([0.8, 0.45, 0.1], [2.0, -1.0, 0.5])
    w = {
        level[0]: float(np.exp(model._reach(np.atleast_1d(0.3))[2][level[0]].log_w))
        for level in model.cover.contexts([0.3])
    }
    paths, densities, log_psi = coarsening_paths(model, X, Y)
    expected = exact.coarsening_predictive(paths, densities, w.__getitem__)
    np.testing.assert_allclose(log_psi, np.log(expected), atol=1e-10)


def coarsening_gap(seed, n=8):
    """Total log loss of the coarsening walk and of the enumeration on a tree of three levels."""
    rng = np.random.default_rng(seed)
    X = rng.random(n)
    Y = np.floor(4 * X) % 2 + 0.3 * rng.standard_normal(n)
    model = CoverModel(DyadicBoxes(0, 1, depth=2), Polynomial(0), walk="coarsen", stop=0.5)
    paths, densities, log_psi = coarsening_paths(model, X, Y)
    return sum(log_psi) - np.log(exact.coarsening_predictive(paths, densities, lambda M: 0.5)).sum()


def test_coarsening_walk_is_not_the_enumeration_on_a_tree():
    """The number in docs/math.md, Section 4.2."""
    gaps = [coarsening_gap(seed) for seed in range(200)]
    assert np.mean(np.abs(gaps)) == pytest.approx(0.0142, abs=1e-4)
    assert np.max(np.abs(gaps)) == pytest.approx(0.156, abs=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.05, 0.95))
def test_coarsening_walk_keeps_its_bound_at_every_step(seed, w):
    """-log psi on M's rows <= -log phi_M - log w_M, and <= the parent's psi - log(1 - w_M); docs/math.md, Theorem 3."""
    rng = np.random.default_rng(seed)
    model = CoverModel(DyadicBoxes(0, 1, depth=3), Polynomial(0), walk="coarsen", stop=w)
    loss = {}
    for _ in range(40):
        x, y = np.array([rng.random()]), np.array([rng.standard_normal() * 3])
        route, beliefs, stopping = model._reach(x)
        log_phi = {M: b.weigh(x, y)[0] for M, b in beliefs.items()}
        log_psi = model.walk.predict(route, stopping, log_phi)
        for M, depth, moves in route:
            if M == START or depth == 0:
                continue
            psi, phi, parent = loss.get(M, (0.0, 0.0, 0.0))
            loss[M] = (psi - log_psi[M], phi - log_phi[M], parent - log_psi[moves[0][1]])
            psi, phi, parent = loss[M]
            assert psi <= phi - np.log(w) + 1e-9
            assert psi <= parent - np.log1p(-w) + 1e-9
        model.update(x, y)


# The paper's examples


def test_example_1_is_context_tree_weighting():
    """The block probability of 0110100 after past 10, depth 2, KT, w = 1/2, by hand."""
    model = CoverModel(SuffixTree(depth=2), Dirichlet("01", concentration=0.5))
    past, block = "10", "0110100"
    log_probability = 0.0
    for symbol in block:
        log_probability += model.log_predict(past, symbol)
        model.update(past, symbol)
        past += symbol
    # Pasts (last two symbols) and what followed: 10->0, 00->1, 01->1, 11->0, 10->1, 01->0, 10->0.
    # KT with (zeros, ones): (1,0) = 1/2; (1,1) = 1/8; (2,1) = 1/16; (2,2) = 3/128; (4,3) = 5/2048.
    KT = {(1, 0): 1 / 2, (0, 1): 1 / 2, (1, 1): 1 / 8, (2, 1): 1 / 16, (2, 2): 3 / 128, (4, 3): 5 / 2048}
    leaf = {"10": KT[2, 1], "00": KT[0, 1], "01": KT[1, 1], "11": KT[1, 0]}
    after_0 = KT[2, 2] / 2 + leaf["10"] * leaf["00"] / 2
    after_1 = KT[2, 1] / 2 + leaf["01"] * leaf["11"] / 2
    by_hand = KT[4, 3] / 2 + after_0 * after_1 / 2
    assert by_hand == 17 / 8192
    assert np.exp(log_probability) == pytest.approx(by_hand, rel=1e-12)
    assert np.exp(model.log_evidence()) == pytest.approx(by_hand, rel=1e-12)


def test_example_2_unit_interval():
    """Level k of Example 2 cuts [0, 1] in 2^(k-1) (the paper prints 2^(k-1) for the width: it is 2^-(k-1))."""
    cover = DyadicBoxes(0, 1, depth=3)
    for x in np.linspace(0, 0.999, 50):
        assert cover.contexts([x]) == [[(0,)], *([(k, int(x * 2**k))] for k in (1, 2, 3))]
    assert cover.contexts([7.0])[3] == [(3, 7)]
    assert cover.contexts([-7.0])[3] == [(3, 0)]


def test_kernel_density_joins_the_walk_as_a_sequential_predictor():
    rng = np.random.default_rng(0)
    model = CoverModel(DyadicBoxes(0, 1, depth=2), [KernelDensity(), Polynomial(0)])
    for _ in range(30):
        model.update(rng.random(), rng.standard_normal())
    assert not model.exact
    with pytest.raises(ValueError, match="only exact models merge"):
        model.merge(model)
