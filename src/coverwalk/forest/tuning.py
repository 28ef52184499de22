"""Choose of what a forest is made, on rows that its trees have not seen: inputs, groups of trees, their priors, the
experts beside them, and the scale factor.

Every kind of tree under every stopping prior is an expert of one pool (`coverwalk.forest.pool`), and so is the global
kernel. The weights are the numbers of trees of each.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.forest.experts.y_cells import choose_y_cells
from coverwalk.forest.input_choice import without_unused
from coverwalk.forest.members import Part
from coverwalk.forest.pool import extrapolated, few_experts, pool_weights, whole_numbers
from coverwalk.forest.settings import FEW_TREES, MAX_FEATURES, Settings, latent, usual_rows
from coverwalk.forest.small_forests import STOPS, Expert, Kind, SmallForests, rescaled
from coverwalk.forest.target_choice import FEW_ROWS, bounded, choose_y
from coverwalk.preparation.row_codes import canonical_order

SCALE_FACTORS = (1.07, 1.0, 0.93, 0.87)  # smaller ones were asked for by chance alone, and cost up to 0.14 nats
SCALE_ROWS = 100  # fewer held-out rows cannot tell a scale factor from chance
MIN_ROWS = 20  # fewer rows tell nothing
MIN_KERNEL = 0.15  # weight of the global kernel below which it is not worth its components
MAX_ROWS = (1000, 2500)  # more would tell little more: the second where features are few and a row costs little
MAX_NUMBERS = 80_000  # rows times features, between those two
ENOUGH = 0.005  # nats that a forest may lose to one without end, where the number of trees is not given
MAX_TREES, TREE_ROWS = 48, 2**17  # then: there are no more trees than this, nor trees times rows
HELD_OUT = ((0.0, 0.25), (0.5, 0.75))  # parts of the rows, in their canonical order, held out in turn
HELD_OUT_OF_MANY = ((0.0, 0.2),)  # of twice as many rows, where there are: nearer to the forest's own size
HELD_OUT_OF_FEW = tuple((k / 5, (k + 1) / 5) for k in range(5))  # all, where chance would choose among few


def choose(X: Floats, y: Floats, settings: Settings, weight: Floats | None = None, *, max_trees: int = 0) -> Settings:
    """The inputs, the groups of trees, the weight of the global kernel and the cells that predict held-out rows best.

    A context's evidence is that of its rows, but its split was the best of many and its prior is its parent's
    posterior, which saw them too: evidence alone goes deeper and bends more than it should, by an amount that belongs
    to the data. weight (n,): of the rows, of mean one, or none. max_trees: if it is more than
    the settings have, there are up to so many trees where the held-out rows miss them.
    """
    X, y, *of_rows = usual_rows(settings, X, y, *([] if weight is None else [weight]))
    weight, atoms, settings = of_rows[0] if of_rows else None, settings.atoms, replace(settings, atoms=None)
    if len(y) < MIN_ROWS:
        return replace(settings, degree=min(settings.degree, 1), stop=STOPS[-1], atoms=atoms)
    most = int(np.clip(MAX_NUMBERS / n_features(settings.degree, X.shape[1]), *MAX_ROWS))
    many = len(y) >= 1.5 * most
    order = canonical_order(X, y)
    every, order = latent(X, y, settings)[order], order[: 2 * most if many else most]
    X, y, weight = X[order], y[order], None if weight is None else weight[order]
    few = len(y) < FEW_ROWS and settings.n_trees >= FEW_TREES
    held_out = HELD_OUT_OF_MANY if many else HELD_OUT_OF_FEW if few else HELD_OUT
    folds = [slice(int(low * len(y)), int(high * len(y))) for low, high in held_out]
    counted = np.concatenate([(np.ones(len(y)) if weight is None else weight)[fold] for fold in folds])
    kinds = _kinds(settings, X.shape[1])
    small = SmallForests(X, y, folds, replace(settings, unused=()), weight)
    small = without_unused(small, kinds, counted, settings.unused)
    settings, experts = small.settings, [expert for kind in kinds for expert in small.experts(kind)]
    of_kernel, n_trees = small.kernel(), 0
    while n_trees != settings.n_trees:
        n_trees = settings.n_trees
        gain = max(1.0 - small.n_trees / n_trees, 0.0)
        kernel, weights = _weights(experts, of_kernel, counted, gain)
        chosen = [(expert, weight) for expert, weight in zip(experts, weights) if weight > 0]
        alike = 1.0 / sum(weight**2 for _, weight in chosen)  # so many times the trees of one kind err as little
        if max_trees > n_trees:
            more = min(_enough(chosen, small.n_trees * alike, counted), max_trees)
            settings = replace(settings, n_trees=max(n_trees, more))
    judged = small.n_trees * alike / settings.n_trees
    scale_factor = _scale_factor(chosen, [y[fold] for fold in folds], judged, counted)
    counts = whole_numbers(np.array([weight for _, weight in chosen]), settings.n_trees)
    parts = tuple(
        Part(n, expert.kind.degree, expert.stop, expert.kind.smooth) for n, (expert, _) in zip(counts, chosen) if n > 0
    )
    largest, best = max(parts), max(chosen, key=lambda pair: pair[1])[0]
    first, second = ([rescaled(dist, scale_factor) for dist in half] for half in best.dists)

    y_cells = choose_y_cells(every[: len(y)], settings.rounding, folds, (first, second), every, gain, counted)
    tuned = replace(settings, degree=largest.degree, stop=largest.stop, scale_factor=scale_factor)
    return replace(tuned, parts=parts, y_cells=y_cells, kernel=kernel, atoms=atoms)


def choose_for_output(
    model: Any,
    settings: Settings,
    X: Floats,
    y: Floats,
    place: tuple[int, int],
    n_rows: int,
    weight: Floats | None = None,
) -> Settings:
    """The settings of the forest of one output of an estimator: its categories, the bounds and the rounding of y, and
    what held-out rows choose, where that is wanted.

    X (n, p): inputs and the outputs before; place: the number of the output, and how many there are; n_rows: to which
    the forest will be fitted, if these are a sample of them.
    """
    if model._mixed.n_categories:
        settings = replace(settings, n_categories=(*model._mixed.n_categories, *[0] * place[0]))
    settings = bounded(settings, model.bounds, *place)
    settings = choose_y(X, y, settings, weight=weight)
    if model.stop != "auto":
        return settings
    max_trees = 0 if model.n_estimators is not None else min(TREE_ROWS // n_rows, MAX_TREES)
    return choose(X, y, settings, weight, max_trees=max_trees)


def _kinds(settings: Settings, p: int) -> list[Kind]:
    """Local planes, local curves, and planes about a smooth trend."""
    degrees = [g for g in range(min(1, settings.degree), settings.degree + 1) if n_features(g, p) <= MAX_FEATURES]
    plain = [Kind(g, False) for g in degrees or [0]]
    return plain + ([Kind(1, True)] if settings.degree >= 1 and degrees else [])


def _weights(experts: list[Expert], kernel: Floats | None, counted: Floats, gain: float) -> tuple[float, Floats]:
    """The weight of the global kernel, and those of the experts, which sum to one; the small ones are dropped."""
    halves = [np.column_stack([np.concatenate(expert.known[half]) for expert in experts]) for half in range(2)]
    of_kernel = 0.0
    if kernel is not None:
        first, second = (np.column_stack([half, kernel]) for half in halves)
        of_kernel = float(pool_weights(first, counted=counted, other=second, gain=gain)[-1])
        of_kernel = of_kernel if of_kernel >= MIN_KERNEL else 0.0
    weights = few_experts(halves[0], halves[1], counted, gain)
    return of_kernel, weights


def _scale_factor(chosen: list[tuple[Expert, float]], y: list[Floats], judged: float, counted: Floats) -> float:
    """The factor on all scales under which the pool predicts held-out rows best.

    A pool of trees that err each in their own way is wider than its own errors. judged: the part of the trees that the
    small forests have.
    """
    if sum(map(len, y)) < SCALE_ROWS:
        return 1.0
    scores = []
    for factor in SCALE_FACTORS:
        halves = _pooled([(expert.halves(y, factor), weight) for expert, weight in chosen])
        scores.append(float(extrapolated(*halves, 1.0 - judged) @ counted))
    return SCALE_FACTORS[int(np.argmax(scores))]


def _enough(chosen: list[tuple[Expert, float]], n_judged: float, counted: Floats) -> int:
    """Trees of a pool that loses little to one without end; the small forests are worth n_judged trees of one kind.

    K trees lose c / K. Half of them lose c / n_judged more than all, which tells c.
    """
    first, second = _pooled([([np.concatenate(half) for half in expert.known], weight) for expert, weight in chosen])
    known = np.isfinite(first) & np.isfinite(second)  # a density of 0 does not tell how much is lost
    first, second, counted = first[known], second[known], counted[known]
    lost = extrapolated(first, second, 1.0) - extrapolated(first, second, 0.0)  # by the small forests: c / n_judged
    n_trees = n_judged * float(lost @ counted) / max(float(counted.sum()), 1e-300) / ENOUGH
    return math.ceil(n_trees)


def _pooled(chosen: list[tuple[list[Floats], float]]) -> tuple[Floats, Floats]:
    """Log densities of two halves of a pool, from those of its experts, with weights."""
    first, second = (np.logaddexp.reduce([halves[i] + np.log(w) for halves, w in chosen]) for i in range(2))
    return first, second
