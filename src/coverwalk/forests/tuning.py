"""Choose of what a forest is made, on rows its trees have not seen: kinds of trees, their priors, and the spread."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.mixture import Voices, row_densities
from coverwalk._kernels.polynomial import n_features
from coverwalk._kernels.rounded import cell_densities
from coverwalk.distribution import PredictiveDistribution
from coverwalk.forests.forest import MAX_FEATURES, Forest, Part, Settings, latent, rescaled
from coverwalk.forests.scaling import canonical_order
from coverwalk.forests.steps import choose_steps

__all__ = ["choose"]

Floats = NDArray[np.float64]

STOPS = (0.5, 0.8, 0.95, 0.99)
SPREADS = (1.15, 1.07, 1.0, 0.93, 0.87, 0.81, 0.75, 0.7, 0.65)
MOST_TERMS = 80  # of curves about a trend: with more they take long, and the trend is curved already
WORTH_A_KIND = 0.03  # nats a row that planes about a trend gain, for curves about it to be tried
QUARTERS = 4  # shares of the kinds that are compared are multiples of one over this
N_DRAWS = 50  # of the rows left out, over which shares are averaged
LEAST_SHARE = 0.1  # kinds below it are left out
FEWEST_ROWS = 20  # fewer rows tell nothing
SPREAD_ROWS = 200  # fewer rows cannot tell a spread, or shares, from chance
MOST_ROWS = (1000, 2500)  # more would tell little more: the second where features are few and a row costs little
MOST_NUMBERS = 80_000  # rows times features, between those two
LEAST_DENSITY = 1e-280
HALF = 3  # trees of a kind in each of two small forests
HELD_OUT = ((0.0, 0.25), (0.5, 0.75))  # parts of the rows, in their canonical order, left out in turn
HELD_OUT_OF_MANY = ((0.0, 0.2),)  # of twice as many rows, where there are: nearer to the forest's own size


class Kind(NamedTuple):
    """A way to make trees."""

    degree: int
    smooth: bool


CURVES, PLANES_ABOUT_TREND, CURVES_ABOUT_TREND = Kind(2, False), Kind(1, True), Kind(2, True)


class Unseen(NamedTuple):
    """What two small forests of one kind and prior say of the rows left out, fold by fold."""

    dists: tuple[list[PredictiveDistribution], list[PredictiveDistribution]]
    known: tuple[list[Floats], list[Floats]]  # their log densities

    def log_densities(self, y: Sequence[Floats], spread: float = 1.0) -> tuple[Floats, Floats]:
        """Of both forests, (n,)."""
        if spread == 1.0:
            first, second = (np.concatenate(half) for half in self.known)
        else:
            first, second = (
                np.concatenate([rescaled(dist, spread).logpdf(part) for dist, part in zip(half, y)])
                for half in self.dists
            )
        return first, second


class Chosen(NamedTuple):
    """The best prior of a kind of trees."""

    score: float  # the sum of the log densities of the rows left out
    stop: float
    unseen: Unseen


def choose(X: Floats, y: Floats, settings: Settings, weight: Floats | None = None) -> Settings:
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
    many = len(y) >= 1.5 * most
    order = canonical_order(X, y)
    every, order = latent(X[order], y[order], settings), order[: 2 * most if many else most]
    X, y = X[order], y[order]
    weight = weight if weight is None else weight[order]
    folds = [slice(int(low * len(y)), int(high * len(y))) for low, high in (HELD_OUT_OF_MANY if many else HELD_OUT)]
    held_out = [y[fold] for fold in folds]
    counted = np.ones(sum(map(len, held_out))) if weight is None else np.concatenate([weight[fold] for fold in folds])
    small = _SmallForests(X, y, folds, settings, weight)

    def best_prior(kind: Kind) -> Chosen:
        return _best_prior(small.ask(kind), held_out, settings.n_trees, counted)

    chosen = {kind: best_prior(kind) for kind in _kinds(settings, X.shape[1])}
    few_terms = n_features(2, X.shape[1]) <= MOST_TERMS
    if CURVES in chosen and few_terms and _gain(chosen, PLANES_ABOUT_TREND) > WORTH_A_KIND * sum(map(len, held_out)):
        chosen[CURVES_ABOUT_TREND] = best_prior(CURVES_ABOUT_TREND)
    unseen = [best.unseen for best in chosen.values()]
    shares, spread = _shares_and_spread(unseen, held_out, settings.n_trees, counted)
    parts = tuple(
        Part(n_trees, kind.degree, best.stop, kind.smooth)
        for n_trees, (kind, best) in zip(_whole(shares, settings.n_trees), chosen.items())
        if n_trees > 0
    )
    largest = max(parts)
    first, second = ([rescaled(dist, spread) for dist in half] for half in unseen[int(np.argmax(shares))].dists)

    def judge(one: Floats, other: Floats) -> Floats:
        return _scores([(one, other)], (1.0,), settings.n_trees)

    cells = settings.rounding.cells(y) if settings.rounding else (y, y)
    steps = choose_steps(every[: len(y)], cells, folds, (first, second), every, judge, counted)
    return replace(settings, degree=largest.degree, stop=largest.stop, spread=spread, parts=parts, steps=steps)


def _kinds(settings: Settings, p: int) -> list[Kind]:
    """Local planes, local curves, and planes about a smooth trend."""
    degrees = [g for g in range(min(1, settings.degree), settings.degree + 1) if n_features(g, p) <= MAX_FEATURES]
    plain = [Kind(g, False) for g in degrees or [0]]
    return plain + ([PLANES_ABOUT_TREND] if settings.degree >= 1 and degrees else [])


def _gain(chosen: dict[Kind, Chosen], kind: Kind) -> float:
    """By how much it scores better than the best of the others."""
    return chosen[kind].score - max(best.score for other, best in chosen.items() if other != kind)


class _SmallForests:
    """Two small forests, grown on the other rows of each fold, which are asked about the fold."""

    def __init__(
        self, X: Floats, y: Floats, folds: list[slice], settings: Settings, weight: Floats | None = None
    ) -> None:
        self.X, self.y, self.folds, self.settings, self.weight = X, y, folds, settings, weight
        self.grown: dict[bool, list[Forest]] = {}  # with and without a trend

    def ask(self, kind: Kind) -> list[Unseen]:
        """What they say as trees of a kind, under all priors."""
        asked = [Unseen(([], []), ([], [])) for _ in STOPS]
        parts = (Part(2 * HALF, kind.degree, STOPS[0], kind.smooth),)
        if kind.smooth not in self.grown:
            self.grown[kind.smooth] = [self._grow(fold, parts) for fold in self.folds]
        for fold, forest in zip(self.folds, self.grown[kind.smooth]):
            forest.settings = replace(forest.settings, parts=parts)
            forest.finalize(STOPS)
            for half in range(2):
                dists = forest.ask_all(self.X[fold], slice(half, None, 2))
                for said, dist, log_density in zip(asked, dists, _log_densities(dists, self.y[fold])):
                    said.dists[half].append(dist)
                    said.known[half].append(log_density)
        return asked

    def _grow(self, fold: slice, parts: tuple[Part, ...]) -> Forest:
        rest = np.delete(np.arange(len(self.y)), fold)
        forest = Forest.plan(self.X[rest], self.y[rest], replace(self.settings, parts=parts))
        forest.accumulate(self.X[rest], self.y[rest], None if self.weight is None else self.weight[rest])
        return forest


def _log_densities(dists: list[PredictiveDistribution], y: Floats) -> list[Floats]:
    """Of distributions that have the same voices in other weights: each voice is asked once."""
    offsets, _, loc, scale, shape = dists[0].voices
    alone = Voices(np.arange(len(loc) + 1), np.ones(len(loc)), loc, scale, shape)
    said, at, rounding = np.empty(len(loc)), np.repeat(y, np.diff(offsets)), dists[0].rounding
    if rounding is None:
        row_densities(alone, dists[0].shapes.table, at, said)
    else:
        cell_densities(alone, dists[0].shapes.table, *rounding.cells(at), said)
    densities = np.array([np.add.reduceat(dist.voices.weight * said, offsets[:-1]) for dist in dists])
    if np.all((densities > LEAST_DENSITY) & (densities < np.inf)):
        return list(np.log(densities))
    return [dist.logpdf(y) for dist in dists]  # densities beyond the range of floats have logarithms


def _best_prior(candidates: list[Unseen], y: list[Floats], n_trees: int, weight: Floats) -> Chosen:
    def score(k: int) -> float:
        return float(_scores([candidates[k].log_densities(y)], (1.0,), n_trees) @ weight)

    best = _climb(len(STOPS), 0, score)
    return Chosen(score(best), STOPS[best], candidates[best])


def _scores(log_densities: list[tuple[Floats, Floats]], shares: Sequence[float], n_trees: int) -> Floats:
    """The log densities of the rows (n,) under a pool of n_trees trees, kinds having these shares.

    A pool of K trees loses c/K to one without end, for some c; two small pools and both together tell c. Without this,
    small pools would ask for more spread, and for safer priors, than the forest needs.
    """
    first, second = (_log_mix([pair[half] for pair in log_densities], shares) for half in range(2))
    together = np.logaddexp(first, second) - np.log(2.0)
    n_asked = 2 * HALF / sum(share**2 for share in shares)  # as many trees of one kind err as much
    extrapolated: Floats = together + (1.0 - n_asked / n_trees) * (together - 0.5 * (first + second))
    return extrapolated


def _log_mix(log_densities: list[Floats], shares: Sequence[float]) -> Floats:
    terms = [log_density + np.log(share) for log_density, share in zip(log_densities, shares) if share > 0]
    return np.asarray(np.logaddexp.reduce(terms))


def _shares_and_spread(unseen: list[Unseen], y: list[Floats], n_trees: int, weight: Floats) -> tuple[Floats, float]:
    """The best shares of the kinds, averaged over draws of the rows: what they cannot tell is divided. Then the best
    spread.
    """
    plain = [said.log_densities(y) for said in unseen]
    n = len(plain[0][0])
    grid = [s for s in product(np.linspace(0.0, 1.0, QUARTERS + 1), repeat=len(unseen)) if sum(s) == 1.0]
    if n < SPREAD_ROWS / 2:
        grid = [shares for shares in grid if max(shares) == 1.0]
    scores = np.array([_scores(plain, shares, n_trees) for shares in grid]) * weight
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=N_DRAWS)
    shares = np.array(grid)[np.argmax(scores @ drawn.T, axis=0)].mean(axis=0)
    shares = np.where(shares < LEAST_SHARE, 0.0, shares)
    shares /= shares.sum()
    if n < SPREAD_ROWS / 2:
        return shares, 1.0
    heard = [k for k in range(len(unseen)) if shares[k] > 0]

    def spread_score(k: int) -> float:
        log_densities = [unseen[j].log_densities(y, SPREADS[k]) for j in heard]
        return float(_scores(log_densities, shares[heard].tolist(), n_trees) @ weight)

    return shares, SPREADS[_climb(len(SPREADS), SPREADS.index(1.0), spread_score)]


def _climb(n: int, start: int, score: Callable[[int], float]) -> int:
    """The first peak of score(0), ..., score(n - 1) uphill from a start, few of which are worked out.

    >>> _climb(5, 1, lambda k: -abs(k - 3))
    3
    """
    known = cache(score)
    k = start
    while True:
        near = [j for j in (k - 1, k + 1) if 0 <= j < n and known(j) > known(k)]
        if not near:
            return k
        k = max(near, key=known)


def _whole(shares: Floats, n_trees: int) -> list[int]:
    """Numbers of trees in these shares; those that lose most by rounding down get the trees left over.

    >>> _whole(np.array([0.5, 0.25, 0.25]), 5)
    [3, 1, 1]
    """
    wanted = shares * n_trees
    counts = np.floor(wanted).astype(int)
    for k in np.argsort(counts - wanted, kind="stable")[: n_trees - counts.sum()]:
        counts[k] += 1
    return [int(count) for count in counts]
