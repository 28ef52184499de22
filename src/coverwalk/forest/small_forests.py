"""Small forests that predict rows held out from them: by these a forest chooses of what it is made."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.distributions.density import cell_densities
from coverwalk._kernels.distributions.mixture import Components
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.forest.experts.global_kernel import MAX_INPUTS
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import Part
from coverwalk.forest.settings import Settings

STOPS = (0.5, 0.8, 0.95, 0.99)
MIN_DENSITY = 1e-280
HALF = 3  # trees of a kind in each of two small forests, which are no more than the forest is to have


class Kind(NamedTuple):
    """A way to make trees."""

    degree: int
    smooth: bool


class Expert(NamedTuple):
    """What two small forests of one kind and prior predict for the held-out rows, fold by fold."""

    kind: Kind
    stop: float
    dists: tuple[list[PredictiveDistribution], list[PredictiveDistribution]]
    known: tuple[list[Floats], list[Floats]]  # their log densities

    def halves(self, y: list[Floats], scale_factor: float) -> list[Floats]:
        """Log densities (n,) of both small forests, all scales times a factor."""
        if scale_factor == 1.0:
            return [np.concatenate(half) for half in self.known]
        return [
            np.concatenate([rescaled(dist, scale_factor).logpdf(part) for dist, part in zip(half, y)])
            for half in self.dists
        ]


class SmallForests:
    """Two small forests, grown on the other rows of each fold, which predict the fold."""

    def __init__(self, X: Floats, y: Floats, folds: list[slice], settings: Settings, weight: Floats | None) -> None:
        self.X, self.y, self.folds, self.settings, self.weight = X, y, folds, settings, weight
        self.n_trees = 2 * max(min(HALF, settings.n_trees // 2), 1)
        self._grown: dict[tuple[bool, int], Forest] = {}  # with and without a trend, by fold
        self._asked: dict[tuple[Kind, int], list[_Answer]] = {}

    def experts(self, kind: Kind, n_folds: int | None = None) -> list[Expert]:
        """What they predict as trees of a kind, under all priors, for all folds or the first."""
        folds = [self._answers(kind, k) for k in range(len(self.folds) if n_folds is None else n_folds)]
        experts = []
        for stop, answers in zip(STOPS, zip(*folds)):
            dists = [answer.dists[0] for answer in answers], [answer.dists[1] for answer in answers]
            known = [answer.known[0] for answer in answers], [answer.known[1] for answer in answers]
            experts.append(Expert(kind, stop, dists, known))
        return experts

    def _answers(self, kind: Kind, k: int) -> list["_Answer"]:
        """Those of fold k, under all priors."""
        if (kind, k) not in self._asked:
            fold, parts = self.folds[k], (Part(self.n_trees, kind.degree, STOPS[0], kind.smooth),)
            forest = self.forest(kind.smooth, k)
            forest.settings = replace(forest.settings, parts=parts)
            forest.finalize(STOPS)
            first, second = (forest.predict_dists(self.X[fold], slice(half, None, 2)) for half in range(2))
            known = _log_densities(first, self.y[fold]), _log_densities(second, self.y[fold])
            self._asked[kind, k] = [_Answer(*each) for each in zip(zip(first, second), zip(*known))]
        return self._asked[kind, k]

    def kernel(self) -> Floats | None:
        """Log densities (n,) of the held-out rows under the global kernel; None where inputs are many or mixed."""
        mixed = bool(self.settings.n_categories) or bool(np.isnan(self.X).any())
        if mixed or not 1 <= self.X.shape[1] <= MAX_INPUTS:
            return None
        log_density = []
        for k, fold in enumerate(self.folds):
            forest = self.forest(False, k)
            forest.settings = replace(forest.settings, kernel=1.0)
            forest.fit_experts(forest.X, forest.y, forest.weight)
            log_density.append(forest.predict_dists(self.X[fold], slice(1))[0].logpdf(self.y[fold]))
            forest.settings = replace(forest.settings, kernel=0.0)
        return np.concatenate(log_density)

    def forest(self, smooth: bool, k: int) -> Forest:
        """That which has not seen fold k, with or without a trend."""
        if (smooth, k) not in self._grown:
            parts, rest = (Part(self.n_trees, 0, STOPS[0], smooth),), np.delete(np.arange(len(self.y)), self.folds[k])
            forest = Forest.plan(self.X[rest], self.y[rest], replace(self.settings, parts=parts))
            forest.accumulate(self.X[rest], self.y[rest], None if self.weight is None else self.weight[rest])
            self._grown[smooth, k] = forest
        return self._grown[smooth, k]


class _Answer(NamedTuple):
    """What both small forests predict for a fold under one prior."""

    dists: tuple[PredictiveDistribution, PredictiveDistribution]
    known: tuple[Floats, Floats]  # their log densities


def rescaled(dist: PredictiveDistribution, factor: float) -> PredictiveDistribution:
    """The same distributions, the scales of all contexts' components times a factor."""
    if factor == 1.0:
        return dist
    part = dist[:]
    assert dist.context is not None
    part.components = dist.components._replace(scale=dist.components.scale * np.where(dist.context < 0, 1.0, factor))
    return part


def _log_densities(dists: list[PredictiveDistribution], y: Floats) -> list[Floats]:
    """Of distributions that have the same components in other weights: each component is evaluated once."""
    offsets, _, loc, scale, shape = dists[0].components
    alone = Components(np.arange(len(loc) + 1), np.ones(len(loc)), loc, scale, shape)
    density, at, rounding = np.empty((len(loc), 1)), np.repeat(y, np.diff(offsets))[:, None], dists[0].rounding
    low, high = (at, at) if rounding is None else rounding.cells(at)
    cell_densities(alone, dists[0].shapes.table, 0, low, high, density)
    densities = np.array([np.add.reduceat(dist.components.weight * density[:, 0], offsets[:-1]) for dist in dists])
    if np.all((densities > MIN_DENSITY) & (densities < np.inf)):
        return list(np.log(densities) + (0.0 if rounding is None else rounding.log_unit(y)))
    return [dist.logpdf(y) for dist in dists]  # densities beyond the range of floats have logarithms
