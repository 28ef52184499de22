"""CoverModel beyond exactness: lattices, sampling, growth, errors."""

import pickle

import numpy as np
import pytest
from scipy import stats

from coverwalk import CoverModel, load
from coverwalk.base import Cover
from coverwalk.covers import ChoiceBoxes, CoverTree, DyadicBoxes, KDTree, ShiftedGrids, SuffixTree
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity

from .covers.test_covers import edit_distance


def line_metric(a, b):
    return float(np.abs(a - b).max())


COVERS = {
    "shifted grids": lambda: ShiftedGrids(-2, 2, depth=3, shifts=3),
    "cover tree": lambda: CoverTree(line_metric, alpha=1.3),
    "choice": lambda: ChoiceBoxes(-2, 2, depth=3),
    "kd-tree": lambda: KDTree(alpha=1.6),
}
every_cover = pytest.mark.parametrize("make_cover", COVERS.values(), ids=COVERS)
every_walk = pytest.mark.parametrize("walk", ["refine", "coarsen"])


def learned(make_cover, walk, n=120, local=None, **options):
    rng = np.random.default_rng(0)
    model = CoverModel(make_cover(), local or [Polynomial(0), TreeDensity(max_depth=7)], walk=walk, **options)
    X = rng.standard_normal((n, 1))
    model.update_many(X, np.sin(3 * X[:, 0]) + 0.2 * rng.standard_normal(n))
    return model


@every_cover
@every_walk
@pytest.mark.parametrize("n", [0, 1, 120])
def test_psi_is_a_density_and_weights_sum_to_one(make_cover, walk, n):
    model = learned(make_cover, walk, n)
    nodes, weights = np.polynomial.legendre.leggauss(2)
    edges = np.linspace(0, 1, 129)
    u = (edges[:-1, None] + np.diff(edges)[:, None] * (nodes + 1) / 2).ravel()
    w = np.outer(np.diff(edges), weights / 2).ravel()
    y = stats.t.ppf(u, 2)
    for x in (0.4, -7.0):
        total = w @ np.exp([model.log_predict(x, v) for v in y] - stats.t.logpdf(y, 2))
        assert total == pytest.approx(1.0, abs=2e-4)
        components = model.posterior(x)
        assert sum(v.weight for v in components) == pytest.approx(1.0, abs=1e-12)
        assert model.cdf(x, 1e12) == pytest.approx(1.0, abs=1e-9)
        mixture = np.log(sum(v.weight * np.exp(v.posterior.logpdf(np.array([x]), 0.3)) for v in components))
        assert model.log_predict(x, 0.3) == pytest.approx(mixture, abs=1e-10)


@every_walk
def test_a_lattice_learns_where_to_move(walk):
    """Two grids of which one has its cut where y jumps: the transitions must come to prefer it."""
    model = CoverModel(ShiftedGrids(0, 1, depth=1, shifts=2), Polynomial(0), walk=walk, stop=0.1)
    rng = np.random.default_rng(0)
    for x in rng.random(400):
        model.update(x, (x > 0.5) + 0.05 * rng.standard_normal())
    weight = {v.context: v.weight for v in model.posterior(0.4)}
    assert weight[1, 0, 0] > 0.95


@every_walk
def test_samples_follow_the_predictive(walk):
    model = learned(COVERS["shifted grids"], walk, local=[Polynomial(0), TreeDensity(max_depth=4)])
    rng = np.random.default_rng(5)
    draws = [float(model.sample(0.4, rng)[0]) for _ in range(300)]
    assert stats.kstest(draws, np.vectorize(lambda y: model.cdf(0.4, y))).pvalue > 1e-3


@every_cover
@every_walk
def test_asking_changes_nothing(make_cover, walk):
    model = learned(make_cover, walk, 60)
    before, n = {x: model.log_predict(x, 0.1) for x in (-9.0, 0.2, 9.0)}, len(model)
    rng = np.random.default_rng(0)
    for x in np.linspace(-9, 9, 40):
        model.log_predict(x, 1.0), model.posterior(x), model.sample(x, rng), model.mean(x)
    assert len(model) == n
    assert before == {x: model.log_predict(x, 0.1) for x in before}


def test_a_context_learns_which_local_model_to_trust():
    """Two modes for x < 1/2, a bell above: the tree density speaks on the left, the normal on the right."""
    rng = np.random.default_rng(1)
    model = CoverModel(DyadicBoxes(0, 1, depth=1), [Polynomial(0), TreeDensity()], stop=0.5)
    for x in rng.random(500):
        model.update(x, rng.normal() if x >= 0.5 else rng.choice([-2.0, 2.0]) + 0.1 * rng.normal())
    speakers = {x: type(model.posterior(x)[0].local).__name__ for x in (0.2, 0.8)}
    assert speakers == {0.2: "TreeDensity", 0.8: "Polynomial"}


@pytest.mark.parametrize("walk", ["refine", "coarsen"])
def test_parents_give_children_a_better_start(walk):
    """Far from zero a child that starts from nothing is surprised; one that starts from its parent is not."""
    rng = np.random.default_rng(0)
    X, Y = rng.random(200), 50 + rng.standard_normal(200)
    loss = {}
    for priors in ("fixed", "parent"):
        model = CoverModel(KDTree(alpha=1.5), Polynomial(0), walk=walk, priors=priors, replay=False, stop=0.1)
        loss[priors] = 0.0
        for x, y in zip(X, Y):
            loss[priors] -= model.log_predict(x, y)
            model.update(x, y)
    assert loss["parent"] < loss["fixed"] - 30


@pytest.mark.parametrize("walk", ["refine", "coarsen"])
def test_replay_helps(walk):
    rng = np.random.default_rng(0)
    X = rng.random(300)
    Y = np.floor(8 * X) % 2 * 4 + 0.1 * rng.standard_normal(300)
    loss = {}
    for replay in (True, False):
        model = CoverModel(KDTree(), Polynomial(0), walk=walk, replay=replay)
        loss[replay] = 0.0
        for x, y in zip(X, Y):
            loss[replay] -= model.log_predict(x, y)
            model.update(x, y)
    assert loss[True] < loss[False] - 20


def test_a_cover_of_ones_own():
    """As in docs/own_cover.md."""

    class Calendar(Cover):
        nested = True

        def contexts(self, x):
            month, weekday = x
            return [["any day"], ["weekend" if weekday >= 5 else "working day"], [(weekday >= 5, month)]]

    rng = np.random.default_rng(0)
    model = CoverModel(Calendar(), Polynomial(0))
    for _ in range(300):
        x = (int(rng.integers(12)), int(rng.integers(7)))
        model.update(x, (5.0 if x[1] >= 5 else 0.0) + rng.normal())
    assert model.mean((3, 6))[0] == pytest.approx(5.0, abs=0.4)
    assert model.mean((3, 2))[0] == pytest.approx(0.0, abs=0.4)


def test_next_symbol():
    model = CoverModel(SuffixTree(depth=3), Dirichlet("abc"), walk="coarsen")
    text = "abcabcabcabcabcabc"
    for i, symbol in enumerate(text):
        model.update(text[:i], symbol)
    assert np.exp(model.log_predict(text, "a")) > 0.8
    with pytest.raises(ValueError, match="real y"):
        model.mean(text)


def test_strings_under_edit_distance():
    words = ["cat", "cats", "hat", "bat", "mat", "elephant", "elephants", "relevant", "element", "elegant"] * 3
    model = CoverModel(CoverTree(edit_distance, radius=4, alpha=1.3), Polynomial(0), priors="parent")
    model.update_many(words, [float(len(word)) for word in words])
    assert model.mean("rat")[0] == pytest.approx(3.1, abs=0.2)
    assert model.mean("elephantine")[0] > 6


# Bad input


def snapshot(model):
    return pickle.dumps([model.log_predict(x, y) for x in (-1.0, 0.0, 1.0) for y in (-1.0, 2.0)]), len(model)


@every_walk
@pytest.mark.parametrize(
    ("X", "Y", "says"),
    [
        ([0.1, 0.2, 0.3], [1.0, np.nan, 2.0], "row 1: y must be finite"),
        ([0.1, np.inf], [1.0, 1.0], "row 1: x must be finite"),
        ([0.1, 0.2], [1.0], "same number of rows, got 2 and 1"),
        ([0.1, [0.2, 0.3]], [1.0, 1.0], "row 1: x must be 1 number"),
        ([0.1], ["tall"], "row 0: y must be a number"),
        ([0.1], [[1.0, 2.0]], "row 0: y must be 1 number"),
        ([0.1, 0.2], [1.0, 1e300], "row 1: .*rescale"),
    ],
)
def test_a_refused_batch_changes_nothing(walk, X, Y, says):
    model = learned(lambda: KDTree(), walk, 30)
    before = snapshot(model)
    with pytest.raises(ValueError, match=says):
        model.update_many(X, Y)
    assert snapshot(model) == before


def test_a_row_that_cannot_be_weighed_changes_nothing():
    class Anywhere(Cover):
        def contexts(self, x):
            return [["all"]]

    model = CoverModel(Anywhere(), [Polynomial(0), Polynomial(1)])
    model.update_many([[1.0, 2.0]] * 3, [1.0, 2.0, 3.0])
    before = model.log_predict([1.0, 2.0], 0.5)
    with pytest.raises(ValueError, match="as many coordinates as before"):
        model.update([1.0], 1.0)
    assert model.log_predict([1.0, 2.0], 0.5) == before


@every_cover
@every_walk
@pytest.mark.parametrize("y", [1e300, -1e300, 1e-300])
def test_absurd_y_is_finite(make_cover, walk, y):
    local = [Polynomial(0), TreeDensity(), KernelDensity()]
    model = learned(make_cover, walk, 60, local)
    assert np.isfinite(model.log_predict(0.2, y))
    if abs(y) > 1:
        assert -1e5 < model.log_predict(0.2, y) < -1000


@every_cover
def test_one_row_and_duplicates(make_cover):
    model = CoverModel(make_cover(), [Polynomial(0), TreeDensity()])
    for _ in range(30):
        model.update(0.5, 1.0)
    assert model.log_predict(0.5, 1.0) > model.log_predict(0.5, 2.0)
    assert np.isfinite(model.log_predict(0.9, 1.0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: CoverModel(KDTree(), Polynomial(0), walk="up"), "'refine' or 'coarsen', got 'up'"),
        (lambda: CoverModel(KDTree(), Polynomial(0), priors="none"), "'fixed' or 'parent'"),
        (lambda: CoverModel(KDTree(), []), "at least one local model"),
        (lambda: CoverModel(KDTree(), [Polynomial(0), TreeDensity(2)]), r"q = \[1, 2\] outputs"),
        (lambda: CoverModel(KDTree(), Polynomial(0), stop=1.5).update(0.0, 0.0), "stopping probability"),
    ],
)
def test_bad_parameters_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_merging_what_does_not_merge_says_why():
    coarse = learned(COVERS["kd-tree"], "coarsen", 20)
    with pytest.raises(ValueError, match="coarsening walk do not merge"):
        coarse.merge(coarse)
    lattice = learned(COVERS["shifted grids"], "refine", 20)
    with pytest.raises(ValueError, match="only exact models merge: a nested cover"):
        lattice.merge(lattice)
    growing = learned(COVERS["kd-tree"], "refine", 20)
    with pytest.raises(ValueError, match="freeze a KDTree"):
        growing.merge(learned(COVERS["kd-tree"], "refine", 20))
    a, b = (CoverModel(DyadicBoxes(0, 1, 2), Polynomial(0, ridge=r)) for r in (1.0, 2.0))
    with pytest.raises(ValueError, match="equal covers"):
        a.merge(b)
    with pytest.raises(ValueError, match="exact models only"):
        lattice.log_evidence()


def test_merge_on_a_frozen_kdtree():
    rng = np.random.default_rng(2)
    X, Y = rng.random((90, 1)), rng.standard_normal(90)
    planner = learned(lambda: KDTree(alpha=1.4), "refine", 50)
    planner.cover.freeze()
    models = []
    for rows in (slice(0, 90), slice(0, 30), slice(30, 90)):
        model = CoverModel(planner.cover, [Polynomial(0), TreeDensity(max_depth=6)])
        model.update_many(X[rows], Y[rows])
        models.append(model)
    whole, left, right = models
    left.merge(right)
    for x, y in zip(X[:20], Y[20:40]):
        assert left.log_predict(x, y) == pytest.approx(whole.log_predict(x, y), abs=1e-9)


@pytest.mark.parametrize("unit", [1e-60, 1e20, 1e100])
def test_y_of_any_unit_is_saved(unit, tmp_path):
    rng = np.random.default_rng(0)
    model = CoverModel(KDTree(), Polynomial(1), priors="parent")
    for x in rng.uniform(size=(20, 1)):
        model.update(x, unit * (x[0] + 0.1 * rng.standard_normal()))
    model.save(tmp_path / "m.cover")
    assert load(tmp_path / "m.cover").log_predict([0.5], unit) == model.log_predict([0.5], unit)


def test_a_cover_that_is_none_is_refused():
    with pytest.raises(TypeError, match="cover must be a Cover"):
        CoverModel(3, Polynomial(0))
