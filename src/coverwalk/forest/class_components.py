"""Which components have weight for an x: contexts and local models of a forest for classes, in the user's units."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.class_walk import predict_locally
from coverwalk._kernels.forest.node import child_of
from coverwalk.forest.class_forest import ClassForest
from coverwalk.forest.class_tree import TEMPERATURES, ClassGrowth, ClassTree

# Of the local models of a context, in the order of the kernels
NAMES = ["counts", *(f"{kind} covariance, temperature {t:g}" for kind in ("shared", "own") for t in TEMPERATURES)]


class ClassComponent(NamedTuple):
    """One local model in one context that predicts for an x."""

    weight: float  # probability that the walk stops in the context with this local model, times the tree's weight
    tree: int  # trees that count come first, then those with discriminants; -1 is the additive expert
    depth: int  # 0 is the context of all x
    local: str  # "counts", "additive", or a discriminant: its covariances, and the exponent of its odds
    # bounds of the context, open below and closed above, or its categories; columns without are free
    box: dict[str, tuple[float, float] | list[str]]
    counts: dict[Any, float]  # weight of the rows of each class in the context
    probabilities: dict[Any, float]  # that this local model predicts for x


def components(
    forest: ClassForest,
    x: Floats,
    columns: Sequence[str],
    classes: NDArray[Any],
    top: int,
    categories: Sequence[Sequence[str]] = (),
) -> list[ClassComponent]:
    """The components with the largest weights for x (p,), the largest first. All weights together sum to one.

    ``categories`` names those of each column, where some are categories.
    """
    z = forest.inputs.forward(x[None, :])[0]
    weights, labels, bound = forest.held_out_rows.shares(), classes.tolist(), forest.inputs.scaling.bound
    found: list[tuple[int, ClassTree, int, str, float, Floats]] = []
    trees = [(growth, tree, weight / len(of)) for (growth, of), weight in zip(forest.kinds, weights) for tree in of]
    for number, (growth, tree, reach) in enumerate(trees):
        found += [(number, tree, *one) for one in _of_tree(tree, growth, float(reach), z)]
    every = [
        ClassComponent(
            weight,
            number,
            int(tree.tree.depth[k]),
            local,
            tree.tree.describe(k, columns, categories, bound),
            dict(zip(labels, tree.flat.counts[k].tolist())),
            dict(zip(labels, phi.tolist())),
        )
        for number, tree, k, local, weight, phi in sorted(found, key=lambda one: -one[4])[:top]
    ]
    for expert, weight in zip(forest.additive, weights[len(forest.kinds) :]):
        psi = dict(zip(labels, expert.psi(expert.functions(z[None, :]))[0].tolist()))
        counts = dict(zip(labels, forest.counts.tolist()))
        every.append(ClassComponent(float(weight), -1, 0, "additive", {}, counts, psi))
    return sorted(every, key=lambda component: -component.weight)[:top]


def _of_tree(
    class_tree: ClassTree, growth: ClassGrowth, reach: float, z: Floats
) -> Iterator[tuple[int, str, float, Floats]]:
    """Every component of one tree along the path of z: its context, its name, its weight, and its prediction.

    reach: the tree's weight.
    """
    flat, left = class_tree.flat, class_tree.tree.left
    C = flat.counts.shape[1]
    base, work = np.full(C, 1.0 / C), np.empty((4, max(C, flat.columns.shape[1])))
    k = 0
    while True:
        phi = np.zeros((len(NAMES), C))
        predict_locally(k, 0, z[None, :], 0, flat, growth.setting, (0, 0.0), base[None, :], 0, phi, work)
        v = np.exp(flat.log_v[k])
        stop = reach * float(expit(flat.log_odds[k]))
        yield from ((k, NAMES[j], stop * float(v[j]), phi[j]) for j in np.flatnonzero(v > 0.0))
        if left[k] < 0:
            return
        base = v @ phi
        reach *= float(expit(-flat.log_odds[k]))
        k = int(child_of(class_tree.tree.nodes, k, z))
