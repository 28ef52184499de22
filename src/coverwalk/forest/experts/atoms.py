"""Values of y with a probability of their own, where a forest for classes tells it: the trees learn all other rows.

A regression is drawn to 0 by rows without rain, and its scale widened, though whether it rains is another question than
how much it rains. Where held-out rows are predicted better so, there is a model for each,

    P(y = a_k | x) = P_k(x),      p(y|x) = P_0(x) f(y|x) elsewhere

with class probabilities P of a `ClassForest` and densities f of trees that see no atoms: a hurdle model.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.files.schema import Object, stored
from coverwalk.forest.class_forest import ClassForest
from coverwalk.forest.class_rows import ClassRows
from coverwalk.forest.class_tree import ClassGrowth
from coverwalk.forest.experts.y_cells import masses, with_cells
from coverwalk.preparation.rounding import Rounding

ATOMS = -4  # label of their components
TREES = ((False, 20), (True, 6))  # of each kind of tree: without and with discriminants
HELD_OUT = 4  # one row in so many, of each tree
MIN_REST = 1e-6  # of a row's mass beyond the cells of all atoms


@stored()
@dataclass(frozen=True)
class Atoms:
    """A forest for classes: no atom, and then each of the values of a rounding."""

    classes: Annotated[ClassForest, Object(ClassForest, p="p", C="C")]

    @classmethod
    def grow(
        cls,
        X: Floats,
        y: Floats,
        weight: Floats | None,
        rounding: Rounding,
        n_categories: tuple[int, ...],
        seed: int,
        n_threads: int,
    ) -> "Atoms":
        """From rows X (n, p), y (n,), with weights or none."""
        place = np.searchsorted(rounding.values, y)
        label = np.where(rounding.is_atom(y), place + 1, 0)
        data = ClassRows(X, label, np.ones(len(y)) if weight is None else weight)
        kinds = [(ClassGrowth(gauss, n_categories=n_categories), n) for gauss, n in TREES]
        forest = ClassForest.grow(data, len(rounding.values) + 1, kinds, HELD_OUT, seed % 2**31, n_threads)
        return cls(forest)

    def predict(self, X: Floats) -> Floats:
        """The probabilities (n, a) of the values in rows X (n, p)."""
        p = np.exp(self.classes.log_proba(X))
        return np.asarray(p[:, 1:] / p.sum(axis=1, keepdims=True))

    def __getstate__(self) -> dict[str, Any]:
        return {"classes": self.classes.stored(None, HELD_OUT)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "classes", state["classes"].restored(None, HELD_OUT))


def with_atoms(
    dist: PredictiveDistribution, probability: Floats, rounding: Rounding, shape: int
) -> PredictiveDistribution:
    """The same distributions, in which the values of the rounding have these probabilities (n, a) in all: what lies in
    their cells already counts.
    """
    left, right = rounding.cells(rounding.values)
    there = masses(dist, left, right)
    rest = (1.0 - probability.sum(axis=1)) / np.maximum(1.0 - there.sum(axis=1), MIN_REST)
    added = np.maximum(probability - rest[:, None] * there, 0.0)
    total = rest + added.sum(axis=1)
    low, high = rounding._cells(rounding.values)  # of the cell of a limit, which has no end, the part that was opened
    ends = (low, high) if rounding.bounds is None else (rounding.bounds.forward(low), rounding.bounds.forward(high))
    return with_cells(dist, rest / total, added / total[:, None], ends, shape, ATOMS)
