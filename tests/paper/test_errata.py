"""The corrections of docs/math.md: the paper's two maps, its definition of a context model, and both lemmas."""

from itertools import pairwise, product
from math import log

import numpy as np
import pytest

from coverwalk import CoverModel
from coverwalk.covers import ChoiceBoxes, DyadicBoxes, KDTree, ShiftedGrids
from coverwalk.local import Polynomial
from coverwalk.paper import lemmas

POINTS = np.linspace(0.01, 0.99, 25)


def open_contexts(path, is_open):
    return [M for level in path for M in level if is_open[M]]


def prior_of_map(cover, x, pick, always):
    """Distribution of f(x) over all outcomes of the stop variables of x's contexts, each open with probability 1/2."""
    path = cover.contexts([x])
    contexts = [M for level in path for M in level]
    free = [M for M in contexts if always(contexts) != M]
    mass = dict.fromkeys(contexts, 0.0)
    for outcome in product([False, True], repeat=len(free)):
        is_open = dict(zip(free, outcome)) | {always(contexts): True}
        mass[pick(open_contexts(path, is_open))] += 0.5 ** len(free)
    return mass


def prior_of_walk(cover, x, walk):
    model = CoverModel(cover, Polynomial(0), walk=walk, stop=0.5)
    model.update(x, 0.0)  # one row, so that the contexts exist; all of them predict it alike
    return {component.context: component.weight for component in model.posterior(x)}


def first(contexts):
    return contexts[0]


def last(contexts):
    return contexts[-1]


def test_section_2_1_is_the_refining_walk_and_section_2_3_the_coarsening_one():
    cover = DyadicBoxes(0, 1, depth=2)
    coarsest_open = prior_of_map(cover, 0.3, pick=first, always=last)
    finest_open = prior_of_map(cover, 0.3, pick=last, always=first)
    assert list(coarsest_open.values()) == [0.5, 0.25, 0.25]
    assert list(finest_open.values()) == [0.25, 0.25, 0.5]
    for walk, expected in (("refine", coarsest_open), ("coarsen", finest_open)):
        assert prior_of_walk(cover, 0.3, walk) == pytest.approx(expected)


def maps(cover):
    """Every outcome of stop variables over contexts of the points, the root being open."""
    paths = [cover.contexts([x]) for x in POINTS]
    contexts = sorted({M for path in paths for level in path for M in level})
    root = paths[0][0][0]
    for outcome in product([False, True], repeat=len(contexts) - 1):
        yield paths, dict(zip((M for M in contexts if root != M), outcome)) | {root: True}


def definition_1_holds(cover, pick, closed_root=False):
    """Item 2: for x' in f(x), f(x') is of the same cover as f(x) or of a finer one."""
    for paths, is_open in maps(cover):
        root = paths[0][0][0]
        state = is_open | {root: False} if closed_root else is_open
        chosen = [pick(found) if (found := open_contexts(path, state)) else None for path in paths]
        for M in chosen:
            inside = [i for i, path in enumerate(paths) if M is not None and M in path[M[0]]]
            if any(chosen[i][0] < M[0] for i in inside):
                return False
    return True


def test_definition_1_wants_the_finest_open_context_where_contexts_overlap():
    tree, lattice = DyadicBoxes(0, 1, depth=2), ShiftedGrids(0, 1, depth=2, shifts=2)
    assert definition_1_holds(tree, pick=first, closed_root=True)
    assert definition_1_holds(tree, pick=last)
    assert definition_1_holds(lattice, pick=last)
    assert not definition_1_holds(lattice, pick=first, closed_root=True)


def test_section_2_1_is_ambiguous_on_a_lattice():
    path = ShiftedGrids(0, 1, depth=2, shifts=2).contexts([0.6])
    is_open = {M: k > 0 for k, level in enumerate(path) for M in level}  # the coarsest is closed, all others are open
    depth = {M: k for k, level in enumerate(path) for M in level}
    satisfy = [M for M in depth if is_open[M] and not any(is_open[N] for N in depth if depth[N] < depth[M])]
    assert len(satisfy) == 2


@pytest.mark.parametrize(
    "cover", [DyadicBoxes([0, 0], [1, 1], 5), ChoiceBoxes([0, 0], [1, 1], 5), ShiftedGrids([0, 0], [1, 1], 5, shifts=3)]
)
def test_lemma_1_sums_as_many_terms_as_there_are_covers(cover):
    counts = [len(level) for level in cover.contexts([0.3, 0.8])]
    d, zeta = len(counts), max(b / a for a, b in pairwise(counts))
    bound = counts[0] * (d if zeta == 1 else (zeta**d - 1) / (zeta - 1))
    assert sum(counts) <= bound
    if zeta == 1:
        assert sum(counts) == bound == d  # a tree: with d + 1 terms the bound would not be reached


def from_creation(alpha, rows, choose):
    """Depths after each row of a tree whose leaves count from their creation; ``choose`` finds a row's leaf."""
    count, children, deepest = {"": 0}, {}, 0
    for _ in range(rows):
        leaf = choose(children)
        count[leaf] += 1
        if count[leaf] > alpha ** len(leaf):
            children[leaf] = (leaf + "0", leaf + "1")
            count |= dict.fromkeys(children[leaf], 0)
            deepest = max(deepest, len(leaf) + 1)
        yield deepest


def always_left(children):
    leaf = ""
    while leaf in children:
        leaf = children[leaf][0]
    return leaf


def evenly():
    """Every context sends its rows to both sides in turn."""
    turns = {}

    def choose(children):
        leaf = ""
        while leaf in children:
            turns[leaf] = not turns.get(leaf, True)
            leaf = children[leaf][turns[leaf]]
        return leaf

    return choose


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_lemma_2_counting_from_creation(alpha):
    paper_fails = False
    for t, depth in enumerate(from_creation(alpha, 3000, always_left), 1):
        bound = log(1 + (alpha - 1) * t) / log(alpha)
        assert depth <= bound
        paper_fails |= depth > bound - 1
    assert paper_fails
    for t, depth in enumerate(from_creation(alpha, 3000, evenly()), 1):
        bound = sum((2 * alpha) ** k for k in range(depth + 1)) + sum(2**k for k in range(depth))
        assert t <= bound


def depth_after(x):
    tree = KDTree(alpha=2.0)
    for value in x:
        tree.grow(np.array([value]))
    return max(len(tree.contexts([value])) - 1 for value in x)


@pytest.mark.parametrize("t", [2, 3, 5, 17, 100, 600])
def test_lemma_2_counting_the_rows_held(t):
    """Rows that come ever nearer to 0 make the deepest tree; rows drawn evenly a nearly balanced one."""
    deep, flat = depth_after(0.5 ** np.arange(t)), depth_after(np.random.default_rng(0).random(t))
    assert lemmas.balanced(t) <= flat <= deep < lemmas.deepest(t)
    assert deep >= lemmas.deepest(t) - 2
