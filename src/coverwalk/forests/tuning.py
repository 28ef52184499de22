"""Choose of what a forest is made on rows that its trees have not seen: kinds of trees, their priors, and the spread."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.polynomial import n_features
from coverwalk.distribution import PredictiveDistribution
from coverwalk.forests.forest import MAX_FEATURES, Forest, Part, Settings, rescaled
from coverwalk.forests.scaling import canonical_order

__all__ = ["choose"]

Floats = NDArray[np.float64]

STOPS = (0.5, 0.8, 0.95, 0.99)
SPREADS = (1.15, 1.0, 0.87, 0.75, 0.65)
QUARTERS = 4  # shares of the kinds are multiples of one over this
FEWEST_ROWS = 20  # fewer rows tell nothing
SPREAD_ROWS = 200  # fewer rows cannot tell a spread, or shares, from chance
MOST_ROWS = (1000, 2500)  # more would tell little more: the second where features are few and a row costs little
MOST_NUMBERS = 100_000  # rows times features, between those two
HALF = 3  # trees of a kind in each of two small forests
HELD_OUT = ((0.0, 0.25), (0.5, 0.75))  # parts of the rows, in their canonical order, left out in turn


class Kind(NamedTuple):
    """A way to make trees."""

    degree: int
    smooth: bool


class Unseen(NamedTuple):
    """What two small forests of one kind and prior say of the rows left out, fold by fold."""

    dists: tuple[list[PredictiveDistribution], list[PredictiveDistribution]]

    def log_densities(self, y: Sequence[Floats], spread: float = 1.0) -> tuple[Floats, Floats]:
        """Of both forests, (n,)."""
        first, second = (
            np.concatenate([rescaled(dist, spread).logpdf(part) for dist, part in zip(half, y)]) for half in self.dists
        )
        return first, second


def choose(X: Floats, y: Floats, settings: Settings) -> Settings:
    """The kinds of trees, the stopping probability w of each, their shares and the spread that predict rows left out
    best, the trees pooled.

    A context's evidence is that of its rows, but its cut was the best of many and its prior is its parent's posterior,
    which saw them too: evidence alone goes deeper and bends more than it should, by an amount that belongs to the
    data. And a pool of trees that err each in their own way is wider than its own errors: hence the spread, a factor
    on all scales.
    """
    if len(y) < FEWEST_ROWS:
        return replace(settings, degree=min(settings.degree, 1), stop=STOPS[-1])
    most = int(np.clip(MOST_NUMBERS / n_features(settings.degree, X.shape[1]), *MOST_ROWS))
    order = canonical_order(X, y)[:most]
    X, y = X[order], y[order]
    folds = [slice(int(low * len(y)), int(high * len(y))) for low, high in HELD_OUT]
    held_out = [y[fold] for fold in folds]
    kinds: list[Kind] = []
    stops: list[float] = []
    unseen: list[Unseen] = []
    for kind, candidates in _ask(X, y, folds, settings).items():
        scores = [_score([said.log_densities(held_out)], (1.0,), settings.n_trees) for said in candidates]
        best = int(np.argmax(scores))
        kinds.append(kind)
        stops.append(STOPS[best])
        unseen.append(candidates[best])
    shares, spread = _shares_and_spread(unseen, held_out, settings.n_trees)
    parts = tuple(
        Part(n_trees, kind.degree, stop, kind.smooth)
        for n_trees, kind, stop in zip(_whole(shares, settings.n_trees), kinds, stops)
        if n_trees > 0
    )
    largest = max(parts)
    return replace(settings, degree=largest.degree, stop=largest.stop, spread=spread, parts=parts)


def _kinds(settings: Settings, p: int) -> list[Kind]:
    """Local planes, local curves, and planes about a smooth trend."""
    degrees = [g for g in range(min(1, settings.degree), settings.degree + 1) if n_features(g, p) <= MAX_FEATURES]
    plain = [Kind(g, False) for g in degrees or [0]]
    return plain + ([Kind(1, True)] if settings.degree >= 1 and degrees else [])


def _ask(X: Floats, y: Floats, folds: list[slice], settings: Settings) -> dict[Kind, list[Unseen]]:
    """Grow two small forests of each kind on the other rows of each fold, and ask them under all priors."""
    kinds = _kinds(settings, X.shape[1])
    asked = {kind: [Unseen(([], [])) for _ in STOPS] for kind in kinds}
    for fold, smooth in product(folds, sorted({kind.smooth for kind in kinds})):
        rest = np.delete(np.arange(len(y)), fold)
        parts = (Part(2 * HALF, 1, STOPS[0], smooth),)
        forest = Forest.plan(X[rest], y[rest], replace(settings, parts=parts))
        forest.accumulate(X[rest], y[rest])
        for kind in kinds:
            if kind.smooth == smooth:
                parts = (Part(2 * HALF, kind.degree, STOPS[0], smooth),)
                forest.settings = replace(forest.settings, parts=parts)
                forest.finalize(STOPS)
                for prior, half in product(range(len(STOPS)), range(2)):
                    dist = forest.ask(X[fold], prior, slice(half, None, 2))
                    asked[kind][prior].dists[half].append(dist)
    return asked


def _score(log_densities: list[tuple[Floats, Floats]], shares: tuple[float, ...], n_trees: int) -> float:
    """The log density of the rows under a pool of n_trees trees, kinds having these shares.

    A pool of K trees loses c/K to one without end, for some c; two small pools and both together tell c. Without this,
    small pools would ask for more spread, and for safer priors, than the forest needs.
    """
    first, second = (_log_mix([pair[half] for pair in log_densities], shares) for half in range(2))
    together = float(np.logaddexp(first, second).sum() - len(first) * np.log(2.0))
    apart = 0.5 * float(first.sum() + second.sum())
    n_asked = 2 * HALF / sum(share**2 for share in shares)  # as many trees of one kind err as much
    return together + (1.0 - n_asked / n_trees) * (together - apart)


def _log_mix(log_densities: list[Floats], shares: tuple[float, ...]) -> Floats:
    terms = [log_density + np.log(share) for log_density, share in zip(log_densities, shares) if share > 0]
    return np.asarray(np.logaddexp.reduce(terms))


def _shares_and_spread(unseen: list[Unseen], y: list[Floats], n_trees: int) -> tuple[tuple[float, ...], float]:
    """The best shares of the kinds, then the best spread."""
    plain = [said.log_densities(y) for said in unseen]
    grid = [
        tuple(quarter / QUARTERS for quarter in quarters)
        for quarters in product(range(QUARTERS + 1), repeat=len(unseen))
        if sum(quarters) == QUARTERS
    ]
    n = sum(len(part) for part in y)
    if n < SPREAD_ROWS / 2:
        grid = [shares for shares in grid if max(shares) == 1.0]
    shares = max(grid, key=lambda shares: _score(plain, shares, n_trees))
    if n < SPREAD_ROWS / 2:
        return shares, 1.0

    def spread_score(spread: float) -> float:
        heard = [(said, share) for said, share in zip(unseen, shares) if share > 0]
        log_densities = [said.log_densities(y, spread) for said, _ in heard]
        return _score(log_densities, tuple(share for _, share in heard), n_trees)

    return shares, max(SPREADS, key=spread_score)


def _whole(shares: tuple[float, ...], n_trees: int) -> list[int]:
    """Numbers of trees in these shares; those that lose most by rounding down get the trees left over.

    >>> _whole((0.5, 0.25, 0.25), 5)
    [3, 1, 1]
    """
    wanted = np.array(shares) * n_trees
    counts = np.floor(wanted).astype(int)
    for k in np.argsort(counts - wanted, kind="stable")[: n_trees - counts.sum()]:
        counts[k] += 1
    return [int(count) for count in counts]
