"""Who speaks for an x: contexts and local models of a forest for classes, in the user's units."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.forest.class_grow import side
from coverwalk._kernels.forest.class_walk import speak
from coverwalk.forest.class_forest import ClassForest, Standard
from coverwalk.forest.class_tree import ClassTree, Planting

__all__ = ["ClassVoice", "voices"]

Floats = NDArray[np.float64]


class ClassVoice(NamedTuple):
    """One local model in one context that speaks for an x."""

    weight: float  # probability that the walk stops in the context with this local model, times the tree's share
    tree: int  # trees that count come first, then those with discriminants
    depth: int  # 0 is the context of all x
    local: str  # "counts", or a discriminant: its covariances, and the power of its odds
    # bounds of the context, open below and closed above, or its levels; columns without are free
    box: dict[str, tuple[float, float] | list[str]]
    counts: dict[Any, float]  # weight of the rows of each class in the context
    probabilities: dict[Any, float]  # what this local model says of x


class _Found(NamedTuple):
    """A voice before it is put in the user's words."""

    weight: float
    number: int
    tree: ClassTree
    local: str
    path: tuple[int, ...]  # contexts, coarse to fine
    said: Floats


def voices(
    forest: ClassForest,
    x: Floats,
    columns: Sequence[str],
    classes: NDArray[Any],
    top: int,
    levels: Sequence[Sequence[str]] = (),
) -> list[ClassVoice]:
    """The weightiest voices for x (p,), the weightiest first. All weights together sum to one.

    ``levels`` names those of each column, where some are categories.
    """
    z = forest.standard(x[None, :])[0]
    share = forest.powers.reshape(-1, 2).sum(axis=1)  # a kind of trees speaks by the powers of its pools
    share = share / share.sum() if share.sum() > 0.0 else np.full(len(share), 1.0 / len(share))
    found: list[_Found] = []
    number = 0
    for (planting, trees), of_kind in zip(forest.kinds, share):
        for tree in trees:
            found += _of_tree(tree, planting, z, number, float(of_kind) / len(trees))
            number += 1
    labels = classes.tolist()
    return [
        ClassVoice(
            voice.weight,
            voice.number,
            len(voice.path) - 1,
            voice.local,
            _box(voice, forest.standard, columns, levels),
            dict(zip(labels, voice.tree.local[0][voice.path[-1]].tolist())),
            dict(zip(labels, voice.said.tolist())),
        )
        for voice in sorted(found, key=lambda voice: -voice.weight)[:top]
    ]


def _of_tree(planted: ClassTree, planting: Planting, z: Floats, number: int, reach: float) -> list[_Found]:
    """Every voice of one tree along the path of z; ``reach`` is the tree's share."""
    left, local, (log_v, log_w, log_1mw) = planted.tree[2], planted.local, planted.walk
    C = local[0].shape[1]
    base, work, names = np.full(C, 1.0 / C), np.empty((3, max(C, len(local[5])))), planting.names()
    found: list[_Found] = []
    path = [0]
    while True:
        k = path[-1]
        phi = np.zeros((log_v.shape[1], C))
        speak(k, z, local, log_v, planting.setting, base, phi, work)
        v = np.exp(log_v[k])
        stop = reach * float(np.exp(log_w[k]))
        found += [
            _Found(stop * float(v[j]), number, planted, names[j], tuple(path), phi[j]) for j in np.flatnonzero(v > 0.0)
        ]
        if left[k] < 0:
            return found
        base = v @ phi
        reach *= float(np.exp(log_1mw[k]))
        path.append(int(left[k]) + side(planted.tree, k, z))


def _box(
    voice: _Found, standard: Standard, columns: Sequence[str], levels: Sequence[Sequence[str]]
) -> dict[str, tuple[float, float] | list[str]]:
    """The bounds and levels that the cuts along the path leave, in the user's units and names."""
    axis, cut, left, masks = voice.tree.tree
    bounds: dict[str, tuple[float, float]] = {}
    sets: dict[str, list[str]] = {}
    for k, child in pairwise(voice.path):
        a, goes_left = int(axis[k]), child == left[k]
        name = columns[a]
        if np.isnan(cut[k]):
            mask = int(masks[k]) if goes_left else ~int(masks[k])
            inside = [level for i, level in enumerate(levels[a]) if mask >> i & 1]
            sets[name] = [level for level in sets.get(name, inside) if level in inside]
        else:
            low, high = bounds.get(name, (-np.inf, np.inf))
            bound = standard.back(a, cut[k])
            bounds[name] = (low, bound) if goes_left else (bound, high)
    return bounds | sets
