"""What y is like, chosen on held-out rows: its rounding, bounds and scale, a forest for its atoms, and its outliers."""

from dataclasses import replace
from typing import Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.forest.experts.atoms import Atoms
from coverwalk.forest.forest import Forest
from coverwalk.forest.members import Part
from coverwalk.forest.settings import FEW_TREES, Settings, latent
from coverwalk.preparation.bounds import Bounds, check_within, checked_bounds, natural_bounds
from coverwalk.preparation.find_rounding import atom_widths, find_rounding
from coverwalk.preparation.outliers import Outliers, find_outliers
from coverwalk.preparation.rounding import Rounding
from coverwalk.preparation.row_codes import canonical_order

MAX_ROWS = 1000  # more would tell little more
PARTS_OF_JUDGES = (Part(3, 1, 0.8, False), Part(3, 1, 0.8, True))  # of the small forests that judge
N_TREES = sum(part.n_trees for part in PARTS_OF_JUDGES)
FEW_ROWS = 500  # fewer are all held out in turn
FOLDS = 2  # quarters of more rows that are
QUANTILES = (1.0, 0.5)  # of the distances from a bound, at which the map turns linear
MIN_SKEWED = 100  # rows
MIN_ATOMS = 20  # rows
NARROW = 1e-3  # of the width of their cells, where no tree sees them: next to nothing of other y lies there
LIKELY = 2.0  # standard errors by which held-out rows must ask for a forest of atoms: chance does with 0.02
MIN_RATIO = 2.0  # of the slopes of a logarithmic scale at the quantiles of 5 and 95 %: less is nearly straight
ON_GRID = 1e-3  # of a step, between the cells of two grids that are one
FAR = 0.01  # of the distance from a bound: where y spreads less than that, a logarithm is a straight line
PARTS = (0.5, 0.125)  # of the interval between two bounds


def bounded(settings: Settings, bounds: Any, output: int, n_outputs: int) -> Settings:
    """The settings of a forest for one output, with the parameter ``bounds``: a pair, None, "auto", or a list of such,
    one for each output.
    """
    if isinstance(bounds, list) and len(bounds) != n_outputs:
        raise ValueError(
            f"bounds must be a pair for all outputs, or a list of one for each of the {n_outputs}; got {bounds!r}"
        )
    given = bounds[output] if isinstance(bounds, list) else bounds
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(f'bounds must be a pair (low, high) or "auto", got {given!r}')
        return replace(settings, limits=(-np.inf, np.inf), find_limits=True)
    return replace(settings, limits=checked_bounds(given) or (-np.inf, np.inf), find_limits=False)


def choose_rounding(X: Floats, y: Floats, settings: Settings, known: Rounding | None = None) -> Rounding | None:
    """The rounding of y (n,), and its scale, within the limits that the settings give, or that y shows by itself.

    known: what was found on fewer rows. A scale that is nearly the same is taken without asking held-out rows again.
    """
    found, automatic = find_rounding(y), settings.find_limits
    ends: tuple[float, float] | None = settings.limits
    if automatic:
        ends = natural_bounds(y, found.values if found else np.empty(0))
    if ends is not None and ends != (-np.inf, np.inf):
        check_within(y, ends)
        if not (automatic and y.min() == y.max()):
            found = _within(X, y, found, ends, settings, known)
    return found if y.min() == y.max() or (found and found.bounds) else _skewed(X, y, found, settings, known)


def _within(
    X: Floats, y: Floats, found: Rounding | None, ends: tuple[float, float], settings: Settings, known: Rounding | None
) -> Rounding | None:
    """The rounding that was found, within limits; those that y shows by itself may be left."""
    automatic = settings.find_limits
    candidates: list[Rounding | None] = [found] if automatic else []
    candidates += _candidates(y, found or Rounding(), ends)
    if len(candidates) == 1 or len(y) < 20:
        return candidates[-1] if automatic else candidates[0]
    if known and known.bounds:
        for one in candidates:
            if nearly_same(one, known, y):
                return one
    scores = [_scores(X, y, replace(settings, rounding=one)).sum() for one in candidates]
    return candidates[int(np.argmax(scores))]


def choose_y(
    X: Floats, y: Floats, settings: Settings, known: Settings | None = None, weight: Floats | None = None
) -> Settings:
    """The settings with what held-out rows choose of y (n,): its rounding and scale, a forest for its atoms, and its
    outliers. known: what was chosen on fewer rows; weight: of the rows, or none.
    """
    settings = replace(settings, rounding=choose_rounding(X, y, settings, known.rounding if known else None))
    settings = _choose_atoms(X, y, settings, known, weight)
    return replace(settings, outliers=choose_outliers(X, y, settings, known.outliers if known else None))


def of_y(settings: Settings) -> dict[str, Any]:
    """What `choose_y` chooses."""
    return {"rounding": settings.rounding, "atoms": settings.atoms, "outliers": settings.outliers}


def same_y(one: Settings, other: Settings, y: Floats) -> bool:
    """Whether two choices are nearly the same for y (n,)."""
    same = one.outliers == other.outliers and (one.atoms is None) == (other.atoms is None)
    return same and nearly_same(one.rounding, other.rounding, y)


def with_atoms_of(X: Floats, y: Floats, settings: Settings, weight: Floats | None = None) -> Settings:
    """The settings with a forest for the atoms of rows X (n, p), y (n,)."""
    assert settings.rounding is not None
    trees = settings.n_categories, settings.seed, settings.n_threads
    return replace(settings, atoms=Atoms.grow(X, y, weight, settings.rounding, *trees))


def _choose_atoms(X: Floats, y: Floats, settings: Settings, known: Settings | None, weight: Floats | None) -> Settings:
    """The settings with a forest for the atoms of y (n,), where held-out rows are predicted better by it.

    The scale is then that of all other y.
    """
    rounding = settings.rounding
    if rounding is None or rounding.step:
        return settings
    rest = ~rounding.is_atom(y)
    if rest.sum() < MIN_SKEWED or len(y) - rest.sum() < MIN_ATOMS:
        return settings
    before = known.rounding if known and known.atoms else None
    narrow = replace(rounding, width=NARROW * rounding.width)
    mapped = rounding.bounds is not None and not rounding.bounds.b
    plain = replace(narrow, bounds=None)
    scaled = narrow if mapped else _skewed(X[rest], y[rest], plain, settings, before)
    apart = replace(settings, rounding=scaled)
    if before is None or not nearly_same(apart.rounding, before, y):
        gain = _scores(X, y, apart, apart=True) - _scores(X, y, settings)
        if not gain.mean() > LIKELY * gain.std() / np.sqrt(len(gain)):
            return settings
    return with_atoms_of(X, y, apart, weight)


def choose_outliers(X: Floats, y: Floats, settings: Settings, known: Outliers | None = None) -> Outliers | None:
    """The outliers of y (n,), rounded and scaled as in the settings, if held-out rows are predicted better, or as
    well, where trees learn nothing from them.

    known: what was found on fewer rows. Where it is the same for y, it is taken without another look at held-out rows.
    """
    t, values = latent(X, y, settings), settings.rounding.values if settings.rounding else np.empty(0)
    single = ~np.isin(y, values)
    found = find_outliers(t[single])
    if found is not None and not settings.atoms and not np.all(found.usual(t[~single])):  # one that repeats is none
        found = None
    if known is not None and np.all(known.usual(t) == (found is None or found.usual(t))):
        return known
    if found is None:
        return None
    order = canonical_order(X, y)
    usual = found.usual(t[order])
    judges = np.concatenate([order[~usual][: MAX_ROWS // 10], order[usual]])[:MAX_ROWS]
    X, y = X[judges], y[judges]
    gain = _scores(X, y, replace(settings, outliers=found)) - _scores(X, y, settings)
    usual = found.usual(t[judges[np.concatenate([part for part, _ in held_out(X, y, settings)])]])
    # each kind counts as it does in all rows: of the outliers few, or many, are held out by chance
    groups = (found.weight, gain[~usual]), (1.0 - found.weight, gain[usual])
    return found if sum(share * group.mean() for share, group in groups if len(group)) > 0.0 else None


def nearly_same(one: Rounding | None, other: Rounding | None, y: Floats) -> bool:
    """Whether two roundings are nearly the same for y (n,): the same values and limits, on scales each of which is
    nearly straight when seen from the other.

    >>> y = np.arange(1.0, 101.0)
    >>> logarithmic = [Rounding(1.0, bounds=Bounds(low, np.inf, 100.0, 0.5)) for low in (0.0, 0.2, -200.0)]
    >>> [nearly_same(scale, logarithmic[0], y) for scale in logarithmic], nearly_same(Rounding(1.0), None, y)
    ([True, True, False], False)
    """
    one, other = one or Rounding(), other or Rounding()
    if (one.low, one.high) != (other.low, other.high) or not np.array_equal(one.values, other.values):
        return False
    cells, others = np.array(one._cells(y)), np.array(other._cells(y))
    if bool(one.step) != bool(other.step) or np.abs(cells - others).max() > ON_GRID * one.step > 0.0:
        return False
    middle = (np.quantile(y, 0.05) <= y) & (y <= np.quantile(y, 0.95))
    with np.errstate(invalid="ignore"):  # both are infinite at a limit
        ratio = (_log_slope(one, cells[1]) - _log_slope(other, others[1]))[middle]
    ratio = ratio[np.isfinite(ratio)]
    return len(ratio) == 0 or bool(np.ptp(ratio) < np.log(MIN_RATIO))


def _log_slope(found: Rounding, t: Floats) -> Floats:
    """Of the scale, at t (n,) in cells."""
    return found.bounds.log_slope(t) if found.bounds else np.zeros(len(t))


def _candidates(y: Floats, found: Rounding, ends: tuple[float, float]) -> list[Rounding]:
    """A limit that y reaches is an atom, and what lies beyond counts for it; towards others y is mapped to the line.

    On a grid, both: its cells end half a step beyond its limits.
    """
    low, high = ends
    if found.step:
        low, high = found.within(low, high)
        split = replace(found, low=low, high=high)
        return [split, *_mapped(split, (low - 0.5 * found.step, high + 0.5 * found.step), y)]
    reached = [end for end in ends if np.any(y == end)]
    values = np.unique(np.concatenate([found.values, reached]))
    width = atom_widths(y, values)
    found = replace(found, values=values, width=width, low=low, high=high)
    open_low = -np.inf if low in reached else low
    open_high = np.inf if high in reached else high + float(width.sum())
    return _mapped(found, (open_low, open_high), found._cells(y)[1]) or [found]


def _mapped(found: Rounding, ends: tuple[float, float], t: Floats) -> list[Rounding]:
    """With maps from the interval of t (n,), the latent y, that turn from logarithmic to linear at several places."""
    low, high = ends
    if np.isinf(low) and np.isinf(high):
        return []
    distance = np.minimum(t - low, high - t)  # from the nearest bound
    if np.ptp(t) < FAR * distance.min():
        turns = [0.5 * distance.min()]
    elif np.isfinite(high - low):
        turns = [part * (high - low) for part in PARTS]
    else:
        turns = np.unique(np.quantile(distance, QUANTILES)).tolist()
    return [replace(found, bounds=Bounds(float(low), float(high), float(c))) for c in turns if c > 0]


def _skewed(
    X: Floats, y: Floats, found: Rounding | None, settings: Settings, known: Rounding | None
) -> Rounding | None:
    """The rounding that was found, or the same on a logarithmic scale if y is skewed and held-out rows are
    predicted better on it.

    The scale is the one on which the median of y lies midway between the quantiles of 5 and 95 %.
    """
    t = y if found is None else found._cells(y)[1]
    if found is not None and len(found.values) and np.isin(np.median(y), found.values):  # most y are one value
        t = t[~found.is_atom(y)]
    if len(t) < MIN_SKEWED:
        return found
    low, middle, high = np.quantile(t, [0.05, 0.5, 0.95]).tolist()
    above, below = high - middle, middle - low
    if min(above, below) * MIN_RATIO**0.5 > max(above, below) or min(above, below) <= 0.0:
        return found
    bend = above - below
    anchor = middle - above * below / bend
    near, far = (low - anchor, t.max() - anchor) if bend > 0 else (anchor - high, anchor - t.min())
    ends = (anchor, np.inf) if bend > 0 else (-np.inf, anchor)
    bounds = Bounds(float(ends[0]), float(ends[1]), float(far), 0.5 * float(near))
    skewed = replace(found or Rounding(), bounds=bounds)
    if nearly_same(skewed, known, y):
        return skewed
    gain = _scores(X, y, replace(settings, rounding=skewed)) - _scores(X, y, replace(settings, rounding=found))
    return skewed if gain.sum() > 0.0 else found


def _scores(X: Floats, y: Floats, settings: Settings, *, apart: bool = False) -> Floats:
    """The log densities of held-out rows under a small forest, half of whose trees start from a smooth trend; and which
    leaves atoms to a forest of their own, if they are ``apart``.
    """
    log_density = []
    for part, rest in held_out(X, y, settings):
        judge = with_atoms_of(X[rest], y[rest], settings) if apart else settings
        log_density.append(score_of((X[rest], y[rest]), (X[part], y[part]), judge))
    return np.concatenate(log_density)


def score_of(rest: tuple[Floats, Floats], part: tuple[Floats, Floats], settings: Settings) -> Floats:
    """The log densities of rows X, y under a small forest of others, half of whose trees start from a smooth trend."""
    forest = Forest.plan(*rest, replace(settings, n_trees=N_TREES, parts=PARTS_OF_JUDGES))
    forest.accumulate(*rest)
    forest.finalize()
    log_density: Floats = forest.predict_dist(part[0]).logpdf(part[1])
    return log_density


def held_out(X: Floats, y: Floats, settings: Settings) -> list[tuple[Ints, Ints]]:
    """The rows that are held out in turn, of some of all; and the others."""
    order = canonical_order(X, y)[:MAX_ROWS]
    n_folds = 4 if len(y) < FEW_ROWS and settings.n_trees >= FEW_TREES else FOLDS
    return [(order[fold::4], np.delete(order, slice(fold, None, 4))) for fold in range(n_folds)]
