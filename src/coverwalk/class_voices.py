"""Who speaks for an x: contexts and local models of a forest for classes, in the user's units."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.class_grow import side
from coverwalk._kernels.class_walk import speak
from coverwalk.class_forest import ClassForest, Standard
from coverwalk.covers.classes import ClassTree, Planting

__all__ = ["ClassVoice", "voices"]

Floats = NDArray[np.float64]


class ClassVoice(NamedTuple):
    """One local model in one context that speaks for an x."""

    weight: float  # probability that the walk stops in the context with this local model, times the tree's share
    tree: int  # trees that count come first, then those with discriminants
    depth: int  # 0 is the context of all x
    local: str  # "counts", or a discriminant: its covariances, and the power of its odds
    box: dict[str, tuple[float, float]]  # bounds of the context, open below and closed above; columns without are free
    counts: dict[Any, float]  # weight of the rows of each class in the context
    probabilities: dict[Any, float]  # what this local model says of x


def voices(forest: ClassForest, x: Floats, columns: Sequence[str], classes: NDArray[Any], top: int) -> list[ClassVoice]:
    """The weightiest voices for x (p,), the weightiest first. All weights together sum to one."""
    z = forest.standard(x[None, :])[0]
    share = np.maximum(forest.powers.reshape(-1, 2).sum(axis=1), 0.0)  # a kind speaks by the powers of its pools
    share = share / share.sum() if share.sum() > 0.0 else np.full(len(share), 1.0 / len(share))
    found: list[ClassVoice] = []
    number = 0
    for (planting, trees), of_kind in zip(forest.kinds, share):
        for tree in trees:
            found += _of_tree(tree, planting, forest.standard, z, columns, classes, number, of_kind / len(trees))
            number += 1
    return sorted(found, key=lambda voice: -voice.weight)[:top]


def _of_tree(
    planted: ClassTree,
    planting: Planting,
    standard: Standard,
    z: Floats,
    columns: Sequence[str],
    classes: NDArray[Any],
    number: int,
    reach: float,
) -> list[ClassVoice]:
    (axis, cut, left), local, (log_v, log_w, log_1mw) = planted.tree, planted.local, planted.walk
    labels, counts = classes.tolist(), local[0]
    C = len(labels)
    base, phi, work = np.full(C, 1.0 / C), np.zeros((log_v.shape[1], C)), np.empty((3, max(C, len(local[5]))))
    box: dict[str, tuple[float, float]] = {}
    found: list[ClassVoice] = []
    k, depth = 0, 0
    while True:
        speak(k, z, local, log_v, planting.setting, base, phi, work)
        v = np.exp(log_v[k])
        here = dict(zip(labels, counts[k].tolist()))
        for j in np.flatnonzero(v > 0.0):
            said = dict(zip(labels, phi[j].tolist()))
            weight = float(reach * np.exp(log_w[k]) * v[j])
            found.append(ClassVoice(weight, number, depth, planting.names()[j], dict(box), here, said))
        if left[k] < 0:
            return found
        base = v[v > 0.0] @ phi[v > 0.0]
        reach *= float(np.exp(log_1mw[k]))
        name, bound, right = columns[axis[k]], standard.back(axis[k], cut[k]), side(planted.tree, k, z)
        low, high = box.get(name, (-np.inf, np.inf))
        box[name] = (bound, high) if right else (low, bound)
        k, depth = int(left[k]) + right, depth + 1
