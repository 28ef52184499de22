"""Covers: their geometry, their growth, and the promise of ``nested``."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

import coverwalk.covers
from coverwalk.base import Cover
from coverwalk.covers import ChoiceBoxes, CoverTree, DyadicBoxes, KDTree, ShiftedGrids, SuffixTree


def edit_distance(a, b):
    """Levenshtein's, the textbook's table."""
    row = list(range(len(b) + 1))
    for i, p in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, q in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (p != q))
    return row[-1]


def grown_kdtree():
    tree = KDTree(alpha=1.5)
    for x in np.random.default_rng(0).standard_normal((300, 2)):
        tree.grow(x)
    return tree


def grown_covertree():
    tree = CoverTree(lambda a, b: float(np.abs(a - b).max()), alpha=1.3)
    for x in np.random.default_rng(0).standard_normal((300, 2)):
        tree.grow(x)
    return tree


POINTS = np.random.default_rng(1).standard_normal((200, 2))
EXAMPLES = {
    "DyadicBoxes": (DyadicBoxes([-2, -2], [2, 2], depth=5), POINTS),
    "ChoiceBoxes": (ChoiceBoxes([-2, -2], [2, 2], depth=3), POINTS),
    "ShiftedGrids": (ShiftedGrids([-2, -2], [2, 2], depth=3, shifts=3), POINTS),
    "KDTree": (grown_kdtree(), POINTS),
    "CoverTree": (grown_covertree(), POINTS),
    "SuffixTree": (SuffixTree(depth=3), [tuple(row) for row in np.random.default_rng(2).integers(2, size=(200, 5))]),
}
every = pytest.mark.parametrize(("cover", "points"), EXAMPLES.values(), ids=EXAMPLES)


def test_every_cover_has_an_example():
    assert set(coverwalk.covers.__all__) == set(EXAMPLES)


@every
def test_every_x_has_contexts_without_gaps(cover, points):
    for x in points:
        levels = cover.contexts(cover.check(x))
        assert len(levels[0]) == 1
        assert all(len(set(level)) == len(level) > 0 for level in levels)


@every
def test_nested_covers_keep_their_promise(cover, points):
    """A context's parents and labels are the same for every x in it; lattices break this, and say so."""
    parents, labels = defaultdict(set), defaultdict(set)
    for x in points:
        levels = cover.contexts(cover.check(x))
        for coarse, finer in pairwise(levels):
            origins = defaultdict(set)
            for M in coarse:
                moves = cover.refinements(M, cover.check(x), finer)
                labels[M].add(frozenset(label for label, _ in moves))
                for _, N in moves:
                    origins[N].add(M)
            for N, of in origins.items():
                parents[N].add(frozenset(of))
    nested = all(len(of) == 1 for of in parents.values()) and all(len(names) == 1 for names in labels.values())
    assert nested == cover.nested


def test_lattices_hold_an_x_in_several_contexts():
    for name in ("ShiftedGrids", "CoverTree"):
        cover, points = EXAMPLES[name]
        assert np.mean([max(map(len, cover.contexts(x))) for x in points]) > 1.5


def test_dyadic_boxes_halve_one_side_after_the_other():
    cover = DyadicBoxes([0, 10], [1, 20], depth=3)
    assert cover.contexts(cover.check([0.7, 12.6])) == [[(0,)], [(1, 1, 0)], [(2, 1, 0)], [(3, 2, 0)]]


def test_shifted_grids_shift():
    cover = ShiftedGrids(0, 1, depth=2, shifts=2)
    a, b = cover.contexts([0.49])[2], cover.contexts([0.51])[2]
    assert a[0] != b[0]  # the split at 1/2 of the first grid parts them
    assert a[1] == b[1]  # the second grid keeps them together


def test_kdtree_thresholds_and_depth_lemma():
    """No leaf at depth k holds more than alpha^k rows; depth < 1 + log_alpha T (docs/math.md, Lemma 2)."""
    for alpha in (1.5, 2.0, 3.0):
        tree, X = KDTree(alpha=alpha), np.random.default_rng(3).standard_normal((500, 2))
        for x in X:
            tree.grow(x)
        leaves = defaultdict(int)
        for x in X:
            path = tree.contexts(x)
            leaves[path[-1][0], len(path) - 1] += 1
        assert all(count <= alpha**depth for (_, depth), count in leaves.items())
        assert max(depth for _, depth in leaves) < 1 + np.log(500) / np.log(alpha)


def test_kdtree_cuts_the_widest_side_in_the_given_units():
    X = np.array([[0.0, 0.0], [1.0, 50.0]])
    for scale, axis in ((1.0, 1), ([1.0, 1000.0], 0)):
        tree = KDTree(scale=scale)
        for x in X:
            tree.grow(x)
        assert tree._nodes[0].axis == axis


def test_kdtree_does_not_split_rows_that_coincide():
    tree = KDTree()
    for _ in range(50):
        assert tree.grow(np.array([1.0, 2.0])) == []
    assert len(tree.grow(np.array([1.0, 3.0]))) >= 1


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_kdtree_at_extreme_scales(scale):
    tree = KDTree(scale=scale)
    X = np.linspace(-1, 1, 64)[:, None] * scale
    for x in X:
        tree.grow(x)
    assert len({tree.contexts(x)[-1][0] for x in X}) == 7


def test_cover_tree_finds_every_ball_that_holds_x():
    """Against a search of all balls."""
    tree, balls = grown_covertree(), []
    pending = [(tree._root, np.inf, 0)]
    while pending:
        ball, radius, depth = pending.pop()
        balls.append((ball, radius, depth))
        pending += [(child, tree.radius * 0.5**depth, depth + 1) for child in ball.children]
    for x in POINTS[:60]:
        levels = tree.contexts(x)
        for depth, level in enumerate(levels):
            holding = {b.number for b, r, k in balls if k == depth and tree.metric(x, b.centre) <= r}
            assert set(level) == holding
        assert not [b for b, r, k in balls if k == len(levels) and tree.metric(x, b.centre) <= r]
    for b, r, k in balls:  # centres of a level stay apart
        assert all(tree.metric(b.centre, c.centre) > r for c, _, j in balls if j == k and c is not b)


def test_cover_tree_takes_strings():
    tree = CoverTree(edit_distance, radius=4)
    for word in ["walk", "walks", "walked", "talk", "talks", "cover", "covers", "covered", "hover"] * 4:
        tree.grow(tree.check(word))
    assert set(tree.contexts("walk")[-1]) != set(tree.contexts("cover")[-1])
    assert len(tree.contexts("stalk")) > 1


def test_suffix_tree_stands_before_the_beginning():
    assert SuffixTree(depth=2).contexts(()) == [[()], [(None,)], [(None, None)]]
    assert SuffixTree(depth=2).check("long past") == ("s", "t")


BAD = {
    "low above high": (lambda: DyadicBoxes(1, 0, depth=2), "below high"),
    "negative depth": (lambda: DyadicBoxes(0, 1, depth=-1), "0 or more"),
    "no shifts": (lambda: ShiftedGrids(0, 1, depth=2, shifts=0), "1 or more"),
    "alpha 1": (lambda: KDTree(alpha=1), "more than 1"),
    "scale 0": (lambda: KDTree(scale=[1, 0]), "positive"),
    "radius 0": (lambda: CoverTree(edit_distance, radius=0), "positive"),
    "wrong size": (lambda: DyadicBoxes([0, 0], [1, 1], depth=2).check([0.5]), "2 numbers"),
    "NaN": (lambda: KDTree().check(np.nan), "finite"),
    "matrix": (lambda: KDTree().check([[1.0]]), "shape"),
    "size changes": (lambda: grown_kdtree().check([1.0]), "2 numbers"),
    "not hashable": (lambda: SuffixTree(2).check([[1], [2]]), "hashable"),
    "not a sequence": (lambda: SuffixTree(2).check(5), "sequence"),
    "metric gives NaN": (lambda: CoverTree(lambda a, b: np.nan).check(1), "finite distance"),
}


@pytest.mark.parametrize(("make", "says"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_a_reason(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_covers_are_equal_when_they_cut_alike():
    assert DyadicBoxes(0, 1, 2) == DyadicBoxes(0, 1, 2)
    assert DyadicBoxes(0, 1, 2) != DyadicBoxes(0, 1, 3)
    a, b = grown_kdtree(), grown_kdtree()
    assert a != b  # both may still grow, and apart
    a.freeze(), b.freeze()
    assert a == b
    assert isinstance(a, Cover)
    assert list(a.grow(np.array([9.0, 9.0]))) == []
