"""A smooth function over the whole space, from which some trees of a forest start: a line, cosines and curves.

Trees are slow at smooth functions of many inputs: every split halves the rows and uses one input. Ridge regression
on cosines of random frequencies (Rahimi & Recht) is Gaussian process regression with a normal kernel, made finite; it
is a local model of the root with a basis that grows with the rows. Categories are inputs
of 0 and 1, and so is whether a value is missing. Where inputs add up, each has a curve of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numpy.linalg import cholesky, eigh, inv  # those of SciPy keep the GIL, and a stream waits for them

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.trend import MISSING, fourier_features, trend_values
from coverwalk.files.schema import Array, Limits, Object, Real, stored
from coverwalk.forest.experts.curves import MAX_KNOTS_IN_ALL, Curves
from coverwalk.forest.threads import in_threads, one_blas_thread
from coverwalk.preparation.scaling import ScaledRows

WAVELENGTHS = (0.5, 1.0, 2.0)  # of the kernel, in units of the diameter sqrt(p) of standardised inputs
MIDDLE = (1.0,)  # those of a metric that only leads to the next one
RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # in rows
MORE_RIDGES = (1e-4, *RIDGES)  # where rows are many: few cannot tell a function without noise from chance
N_METRICS = 4  # that are learned, each from the last one's trend
N_METRICS_BESIDE = 2  # beside curves
WORTH_IT = 0.85  # errors in a learned metric against those without, in squares: else it may be noise to the trees
SURE = 4.0  # standard errors by which they are less, where noise is most of them
HEIGHT = 3.0  # of all cosines together against a column of the line: the prior deviation of the smooth part
MIN_FREQUENCIES, MAX_FREQUENCIES = 384, 1024  # the second where twice as many of them leave much less
MAX_ROWS = 2**15  # to which a trend is fitted
CLAMPED_ROWS = 2**16  # copied at a time
JUDGED_ROWS, JUDGED_FREQUENCIES = 1024, 128  # with which wavelengths and ridges are compared
JUDGED_KNOTS = 128  # of all curves, with which they are
MANY_ROWS = 12  # for each cosine: leverages are their mean from there on, and more cosines might be worth it
MIN_KEEP = 1e-3  # of 1 - leverage
MAX_INDICATORS = 128  # those of the categories that divide the rows most evenly


@stored(read_first=("phase", "indicators"))
@dataclass(frozen=True)
class Trend:
    """c_0 + sum_a c_a z_a + sum_k c_k cos(2 pi (turns_k'z + phase_k)) + sum_j f_j(z_a), with curves f_j.

    Examples
    --------
    >>> Z = np.random.default_rng(0).uniform(-2, 2, size=(600, 2))
    >>> r = np.sin(2 * Z[:, 0]) * np.cos(Z[:, 1])
    >>> rows = ScaledRows(Z, Z)
    >>> planned, _ = Trend.plan(rows, r, seed=0)
    >>> trend, left = planned.fit(rows, r)
    >>> bool(np.std(left) < 0.02 < np.std(r))
    True
    >>> bool(np.max(np.abs(r - trend.value(rows))) < 0.1)
    True
    """

    turns: Annotated[Floats, Array(float, "p + m", "D", low=-1e6, high=1e6)]  # (p + m, D)
    phase: Annotated[Floats, Array(float, "D", low=-100, high=100)]  # (D,)
    coefficients: Annotated[Floats, Array(float, "1 + p + m + D")]  # (1 + p + m + D,)
    ridge: Annotated[float, Real(above=0)]
    low: Annotated[Floats, Array(float, "p + m")]  # (p + m,) the range of the rows: inputs are clamped to it
    high: Annotated[Floats, Array(float, "p + m")]
    # (m, 2) columns and categories
    indicators: Annotated[Ints, Array(np.int64, "m", 2, columns={0: Limits(index="p"), 1: Limits(low=MISSING)})]
    curves: Annotated[Curves, Object(Curves, p="p")]
    keep: Annotated[float, Real()] = 1.0  # the mean of 1 - leverage of the rows to which it was fitted

    @classmethod
    def plan(
        cls, rows: ScaledRows, r: Floats, seed: int, n_categories: tuple[int, ...] = (), n_rows: int = 0
    ) -> tuple["Trend", Floats]:
        """Cosines and ridge for rows (n, p), of order one and in random order, and r (n,).

        Wavelength and ridge are those with the least leave-one-out errors on some rows. Returns what a rough trend
        leaves of r, too. n_categories: of each column, 0 for numbers; empty where all are numbers; n_rows: how many
        rows it will be fitted to, if these are a sample of them.
        """
        n, p = max(len(r), n_rows), rows.Z.shape[1]
        n_frequencies = min(n // 4, JUDGED_FREQUENCIES + n // 16, MIN_FREQUENCIES)
        n_judged = min(len(r), JUDGED_ROWS)
        few = min(n_judged // 4, JUDGED_FREQUENCIES)
        indicators = _indicators(rows.Z, n_categories)
        P = p + len(indicators)
        with one_blas_thread():
            judged = _judged(rows, r, indicators, n_judged)
            starts = [np.eye(P)] + ([np.diag(np.arange(P) < p) + 0.0] if p < P else [])  # categories in a line alone
            begun = [_rough(judged, metric, WAVELENGTHS, few, seed) for metric in starts]
            best = plain = last = min(begun, key=lambda rough: rough.square)
            for k in range(N_METRICS if P > 1 else 0):
                tried = WAVELENGTHS if k == N_METRICS - 1 else MIDDLE
                last = _rough(judged, _metric(last.trend.slopes(judged.Z), p), tried, few, seed)
                if last.square < best.square and (last.square < WORTH_IT * plain.square or _surely_less(last, plain)):
                    best = last
            best = _with_curves(judged, best, few, seed)
            if n >= MANY_ROWS * JUDGED_FREQUENCIES * 2:
                judged = _judged(rows, r, indicators, 2 * n_judged)
                curves = best.trend.curves
                some = _rough(judged, best.metric, (1.0,), few, seed, curves=curves)
                more = _rough(judged, best.metric, (1.0,), 2 * few, seed, MORE_RIDGES, curves)
                if more.square < WORTH_IT * some.square:
                    best, n_frequencies = more, min(n // 4, MAX_FREQUENCIES)
        low, high = _ends(rows, len(indicators))
        rest = slice(len(best.left), None)
        left = np.concatenate([best.left, r[rest] - replace(best.trend, low=low, high=high).value(rows.some(rest))])
        turns, phase = _random_frequencies(best.metric, p, n_frequencies, seed)
        nothing, curves = np.zeros(1 + P + n_frequencies), best.trend.curves
        if len(curves.column):
            curves = Curves.planned(rows.plain, min(n // 2, MAX_KNOTS_IN_ALL))
        return cls(turns, phase, nothing, best.trend.ridge, low, high, indicators, curves), left

    def fit(
        self, rows: ScaledRows, r: Floats, weight: Floats | None = None, n_threads: int = 1
    ) -> tuple["Trend", Floats]:
        """The same cosines fitted to rows (n, p), in random order, and r (n,), with weights (n,) if they have some;
        and what they leave of r.

        What is left of a row to which they were fitted is its error when it is left out.
        """
        n = min(len(r), MAX_ROWS)
        root = np.ones(n) if weight is None else np.sqrt(weight[:n])
        with one_blas_thread():
            F = _features(_inputs(rows, slice(n), self.indicators), self.turns, self.phase, self.curves, n_threads)
            if weight is not None:
                F *= root[:, None]
            D = F.shape[1]
            inverse = inv(cholesky(F.T @ F + self.ridge * np.eye(D)))  # of the root of the matrix to be solved
            coefficients = inverse.T @ (inverse @ (F.T @ (root * r[:n])))
            if n >= MANY_ROWS * D:
                leverage = np.full(n, (D - self.ridge * np.sum(inverse**2)) / n)
            else:
                leverage = np.sum((F @ inverse.T) ** 2, axis=1)
            keep = np.maximum(1.0 - leverage, MIN_KEEP)
            left = (r[:n] - (F @ coefficients) / root) / keep
            del F  # a hundred megabytes and more, which the rows beyond need not find here
        low, high = _ends(rows, len(self.indicators)) if n else (self.low, self.high)
        coefficients, curves = _in_units(coefficients, self.turns, self.curves)
        trend = replace(self, coefficients=coefficients, curves=curves, low=low, high=high, keep=float(keep.mean()))
        return trend, np.concatenate([left, r[n:] - trend.value(rows.some(slice(n, None)), n_threads)])

    def slopes(self, Z: Floats) -> Floats:
        """Derivatives by the inputs in rows Z (n, p + m) with those of categories; (n, p + m).

        Of the cosines alone, if each input has its curve: they tell what inputs do together.
        """
        P = Z.shape[1]
        sines = np.empty((len(Z), 1 + P + len(self.phase)))
        fourier_features(Z, self.turns, self.phase - 0.25, 1.0, sines)  # cosines, a quarter of a turn later
        bent = -2 * np.pi * self.coefficients[1 + P :, None] * self.turns.T
        return sines[:, 1 + P :] @ bent + (0.0 if len(self.curves.column) else self.coefficients[1 : 1 + P])

    def value(self, rows: ScaledRows, n_threads: int = 1) -> Floats:
        """In rows (n, p)."""
        n = len(rows.Z)
        values = np.empty(n)

        def some(part: slice) -> None:
            clamped = np.minimum(np.maximum(_inputs(rows, part, self.indicators), self.low), self.high)
            curves = self.curves.column, self.curves.knots, self.curves.heights
            trend_values(clamped, self.turns, self.phase, self.coefficients, *curves, values[part])

        in_threads(some, _parts(n, max(n_threads, n // CLAMPED_ROWS)), n_threads)
        return values


def _indicators(Z: Floats, n_categories: tuple[int, ...]) -> Ints:
    """Columns and categories (m, 2) that some rows Z (n, p) have and some have not: those that divide rows evenly.
    A missing value, of a number too, is a category.

    >>> _indicators(np.array([[0.0, 1.5], [0.0, np.nan], [2.0, 1.0]]), (3, 0)).tolist()
    [[0, 0], [0, 2], [1, -1]]
    """
    found, evenly = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for a, n in enumerate(n_categories or [0] * Z.shape[1]):
        missing = np.isnan(Z[:, a])
        known = np.bincount(Z[~missing, a].astype(np.int64)) if n else np.empty(0, np.int64)
        shares = np.append(known, missing.sum()) / len(Z)
        found.append(np.column_stack([np.full(len(shares), a), [*range(len(known)), MISSING]]))
        evenly.append(shares * (1.0 - shares))
    value = np.concatenate(evenly)
    kept = np.argsort(-value, kind="stable")[:MAX_INDICATORS]
    return np.concatenate(found)[np.sort(kept[value[kept] > 0])]


def _inputs(rows: ScaledRows, some: slice, indicators: Ints) -> Floats:
    """Some of the rows, with an input of 0 or 1 for each of the indicators (m, 2) behind all others; (n, p + m)."""
    if not len(indicators):
        return rows.plain[some]
    column, category = indicators.T
    value = rows.Z[some][:, column]
    return np.hstack([rows.plain[some], np.where(category == MISSING, np.isnan(value), value == category)])


def _ends(rows: ScaledRows, m: int) -> tuple[Floats, Floats]:
    """The range of each of the inputs, m of which are indicators."""
    low, high = rows.plain.min(axis=0), rows.plain.max(axis=0)
    return np.concatenate([low, np.zeros(m)]), np.concatenate([high, np.ones(m)])


class _Judged(NamedTuple):
    """Rows by which trends are compared."""

    Z: Floats  # (n, p + m)
    r: Floats
    indicators: Ints  # (m, 2)


def _judged(rows: ScaledRows, r: Floats, indicators: Ints, n: int) -> _Judged:
    return _Judged(_inputs(rows, slice(n), indicators), r[:n], indicators)


class _Rough(NamedTuple):
    """A trend of some rows, few cosines in one metric."""

    square: float  # mean square of the leave-one-out errors
    trend: Trend
    metric: Floats  # (p + m, p + m): inputs are seen through it
    left: Floats  # the leave-one-out errors


def _rough(
    judged: _Judged,
    metric: Floats,
    wavelengths: tuple[float, ...],
    n_frequencies: int,
    seed: int,
    ridges: tuple[float, ...] = RIDGES,
    curves: Curves | None = None,
) -> _Rough:
    """The one of the wavelength and the ridge with the least leave-one-out errors."""
    Z, r, indicators = judged
    ends, p = (Z.min(axis=0), Z.max(axis=0)), Z.shape[1] - len(indicators)
    planned, best = curves or Curves.none(), None
    for wavelength in wavelengths:
        turns, phase = _random_frequencies(metric / wavelength, p, n_frequencies, seed)
        for ridge, coefficients, left in _ridges(_features(Z, turns, phase, planned), r, ridges):
            square = float(np.mean(left**2))
            if best is None or square < best.square:
                in_units, fitted = _in_units(coefficients, turns, planned)
                trend = Trend(turns, phase, in_units, ridge, *ends, indicators, fitted)
                best = _Rough(square, trend, metric / wavelength, left)
    assert best is not None
    return best


def _with_curves(judged: _Judged, best: _Rough, n_frequencies: int, seed: int) -> _Rough:
    """With a curve of each input, if curves explain much of what the cosines leave."""
    p = judged.Z.shape[1] - len(judged.indicators)
    curves = Curves.planned(judged.Z[:, :p], JUDGED_KNOTS)
    if len(curves.column) < 2:  # cosines of one input are curves
        return best
    unexplained = _ridges(HEIGHT * curves.features(judged.Z), best.left, RIDGES)
    if min(float(np.mean(left**2)) for _, _, left in unexplained) > WORTH_IT * best.square:
        return best
    best = _rough(judged, best.metric, (1.0,), n_frequencies, seed, curves=curves)
    for _ in range(N_METRICS_BESIDE):
        last = _rough(judged, _metric(best.trend.slopes(judged.Z), p), (1.0,), n_frequencies, seed, curves=curves)
        best = min(best, last, key=lambda rough: rough.square)
    return best


def _surely_less(one: _Rough, other: _Rough) -> bool:
    """Whether the errors of one are less than those of another, by far more than chance."""
    gain = other.left**2 - one.left**2
    return bool(gain.mean() > SURE * gain.std() / np.sqrt(len(gain)))


def _random_frequencies(metric: Floats, p: int, n_frequencies: int, seed: int) -> tuple[Floats, Floats]:
    """For p columns: all indicators of one vary no more than a number does."""
    rng = np.random.default_rng(seed)
    turns = metric @ rng.standard_normal((n_frequencies, len(metric))).T / (2 * np.pi * np.sqrt(max(p, 1)))
    return np.ascontiguousarray(turns), rng.uniform(0.0, 1.0, n_frequencies)


def _metric(slopes: Floats, p: int) -> Floats:
    """The root of the mean of slopes times slopes', its squares of sum p: lengths in it are how much y changes.

    Inputs that do not matter vanish, and cosines run along the directions that do (Radhakrishnan et al., "Mechanism for
    feature learning in neural networks and backpropagation-free machine learning models", Science 2024).
    """
    values, vectors = eigh(slopes.T @ slopes)
    values = np.maximum(values, 0.0) / max(values.sum() / p, 1e-300)
    root: Floats = (vectors * np.sqrt(values)) @ vectors.T
    return root


def _height(n_frequencies: int) -> float:
    return HEIGHT * float(np.sqrt(2.0 / max(n_frequencies, 1)))


def _features(Z: Floats, turns: Floats, phase: Floats, curves: Curves, n_threads: int = 1) -> Floats:
    D = 1 + Z.shape[1] + len(phase)
    F = np.empty((len(Z), D + curves.n_features))
    curves.features(Z, F[:, D:])
    F[:, D:] *= HEIGHT

    def some(rows: slice) -> None:
        fourier_features(Z[rows], turns, phase, _height(len(phase)), F[rows])

    in_threads(some, _parts(len(Z), n_threads), n_threads)
    return F


def _parts(n: int, n_parts: int) -> list[slice]:
    """The rows in so many parts: each row's cosines are its own."""
    ends = np.linspace(0, n, n_parts + 1).astype(int)
    return [slice(*pair) for pair in pairwise(ends.tolist())]


def _in_units(coefficients: Floats, turns: Floats, curves: Curves) -> tuple[Floats, Curves]:
    """Coefficients of the line and of plain cosines, and the curves, from the coefficients of `_features`."""
    P, D = turns.shape
    line, cosines, bent = np.split(coefficients, [1 + P, 1 + P + D])
    return np.concatenate([line, _height(D) * cosines]), curves.with_coefficients(HEIGHT * bent)


def _ridges(F: Floats, r: Floats, ridges: tuple[float, ...]) -> Iterator[tuple[float, Floats, Floats]]:
    """Each ridge with its coefficients and the leave-one-out errors of the rows."""
    values, vectors = eigh(F.T @ F)
    P = F @ vectors
    shrunk = 1.0 / (np.maximum(values, 0.0)[:, None] + ridges)
    coefficients = (P.T @ r)[:, None] * shrunk
    errors = (r[:, None] - P @ coefficients) / np.maximum(1.0 - (P * P) @ shrunk, MIN_KEEP)
    return zip(ridges, (vectors @ coefficients).T, errors.T)
