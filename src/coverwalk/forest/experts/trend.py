"""A smooth function over the whole space, from which some trees of a forest start: a line and cosines.

Trees are slow at smooth functions of many inputs: every split halves the rows and uses one input. Ridge regression
on cosines of random frequencies (Rahimi & Recht) is Gaussian process regression with a normal kernel, made finite; it
is a local model of the root with a basis that grows with the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numpy.linalg import cholesky, eigh, inv  # those of SciPy keep the GIL, and a stream waits for them

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.trend import fourier, fourier_features
from coverwalk.files.schema import Array, Real, stored
from coverwalk.forest.threads import in_threads, one_blas_thread

WAVELENGTHS = (0.5, 1.0, 2.0)  # of the kernel, in units of the diameter sqrt(p) of standardised inputs
MIDDLE = (1.0,)  # those of a metric that only leads to the next one
RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # in rows
MORE_RIDGES = (1e-4, *RIDGES)  # where rows are many: few cannot tell a function without noise from chance
N_METRICS = 4  # that are learned, each from the last one's trend
WORTH_IT = 0.85  # errors in a learned metric against those without, in squares: else it may be noise to the trees
SURE = 4.0  # standard errors by which they are less, where noise is most of them
HEIGHT = 3.0  # of all cosines together against a column of the line: the prior deviation of the smooth part
MIN_FREQUENCIES, MAX_FREQUENCIES = 384, 1024  # the second where twice as many of them leave much less
MAX_ROWS = 2**15  # to which a trend is fitted
CLAMPED_ROWS = 2**16  # copied at a time
JUDGED_ROWS, JUDGED_FREQUENCIES = 1024, 128  # with which wavelengths and ridges are compared
MANY_ROWS = 12  # for each cosine: leverages are their mean from there on, and more cosines might be worth it
MIN_KEEP = 1e-3  # of 1 - leverage


@stored(read_first=("phase",))
@dataclass(frozen=True)
class Trend:
    """c_0 + sum_a c_a z_a + sum_k c_k cos(2 pi (turns_k'z + phase_k)).

    Examples
    --------
    >>> Z = np.random.default_rng(0).uniform(-2, 2, size=(600, 2))
    >>> r = np.sin(2 * Z[:, 0]) * np.cos(Z[:, 1])
    >>> planned, _ = Trend.plan(Z, r, seed=0)
    >>> trend, left = planned.fit(Z, r)
    >>> bool(np.std(left) < 0.02 < np.std(r))
    True
    >>> bool(np.max(np.abs(r - trend.value(Z))) < 0.1)
    True
    """

    turns: Annotated[Floats, Array(float, "p", "D", low=-1e6, high=1e6)]  # (p, D)
    phase: Annotated[Floats, Array(float, "D", low=-100, high=100)]  # (D,)
    coefficients: Annotated[Floats, Array(float, "1 + p + D")]  # (1 + p + D,)
    ridge: Annotated[float, Real(above=0)]
    low: Annotated[Floats, Array(float, "p")]  # (p,) the range of the rows: inputs are clamped to it
    high: Annotated[Floats, Array(float, "p")]
    keep: Annotated[float, Real()] = 1.0  # the mean of 1 - leverage of the rows to which it was fitted

    @classmethod
    def plan(cls, Z: Floats, r: Floats, seed: int, n_rows: int = 0) -> tuple["Trend", Floats]:
        """Cosines and ridge for rows Z (n, p), of order one and in random order, and r (n,).

        Wavelength and ridge are those with the least leave-one-out errors on some rows. Returns what a rough trend
        leaves of r, too. n_rows: how many rows it will be fitted to, if these are a sample of them.
        """
        n, p = max(len(Z), n_rows), Z.shape[1]
        n_frequencies = min(n // 4, JUDGED_FREQUENCIES + n // 16, MIN_FREQUENCIES)
        n_judged = min(len(Z), JUDGED_ROWS)
        few = min(n_judged // 4, JUDGED_FREQUENCIES)
        with one_blas_thread():
            judged = Z[:n_judged], r[:n_judged]
            best = plain = last = _rough(judged, np.eye(p), WAVELENGTHS, few, seed)
            for k in range(N_METRICS if p > 1 else 0):
                tried = WAVELENGTHS if k == N_METRICS - 1 else MIDDLE
                last = _rough(judged, _metric(last.trend.slopes(judged[0])), tried, few, seed)
                if last.square < best.square and (last.square < WORTH_IT * plain.square or _surely_less(last, plain)):
                    best = last
            if n >= MANY_ROWS * JUDGED_FREQUENCIES * 2:
                judged = Z[: 2 * n_judged], r[: 2 * n_judged]
                some = _rough(judged, best.metric, (1.0,), few, seed)
                more = _rough(judged, best.metric, (1.0,), 2 * few, seed, MORE_RIDGES)
                if more.square < WORTH_IT * some.square:
                    best, n_frequencies = more, min(n // 4, MAX_FREQUENCIES)
        ends = {"low": Z.min(axis=0), "high": Z.max(axis=0)}
        rest = slice(len(best.left), None)
        left = np.concatenate([best.left, r[rest] - replace(best.trend, **ends).value(Z[rest])])
        turns, phase = _random_frequencies(best.metric, n_frequencies, seed)
        return cls(turns, phase, np.zeros(1 + p + n_frequencies), best.trend.ridge, **ends), left

    def fit(self, Z: Floats, r: Floats, weight: Floats | None = None, n_threads: int = 1) -> tuple["Trend", Floats]:
        """The same cosines fitted to rows Z (n, p), in random order, and r (n,), with weights (n,) if they have some;
        and what they leave of r.

        What is left of a row to which they were fitted is its error when it is left out.
        """
        n = min(len(r), MAX_ROWS)
        root = np.ones(n) if weight is None else np.sqrt(weight[:n])
        with one_blas_thread():
            F = _features(Z[:n], self.turns, self.phase, n_threads)
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
        ends = {"low": Z.min(axis=0), "high": Z.max(axis=0)} if len(Z) else {}
        trend = replace(self, coefficients=_in_units(coefficients, Z.shape[1]), keep=float(keep.mean()), **ends)
        return trend, np.concatenate([left, r[n:] - trend.value(Z[n:], n_threads)])

    def slopes(self, Z: Floats) -> Floats:
        """Derivatives by the inputs in rows Z (n, p); (n, p)."""
        p = Z.shape[1]
        sines = np.empty((len(Z), 1 + p + len(self.phase)))
        fourier_features(Z, self.turns, self.phase - 0.25, 1.0, sines)  # cosines, a quarter of a turn later
        bent = -2 * np.pi * self.coefficients[1 + p :, None] * self.turns.T
        return sines[:, 1 + p :] @ bent + self.coefficients[1 : 1 + p]

    def value(self, Z: Floats, n_threads: int = 1) -> Floats:
        """In rows Z (n, p)."""
        values = np.empty(len(Z))

        def some(rows: slice) -> None:
            clamped = np.minimum(np.maximum(Z[rows], self.low), self.high)
            fourier(clamped, self.turns, self.phase, self.coefficients, values[rows])

        in_threads(some, _parts(len(Z), max(n_threads, len(Z) // CLAMPED_ROWS)), n_threads)
        return values


class _Rough(NamedTuple):
    """A trend of some rows, few cosines in one metric."""

    square: float  # mean square of the leave-one-out errors
    trend: Trend
    metric: Floats  # (p, p): inputs are seen through it
    left: Floats  # the leave-one-out errors


def _rough(
    judged: tuple[Floats, Floats],
    metric: Floats,
    wavelengths: tuple[float, ...],
    n_frequencies: int,
    seed: int,
    ridges: tuple[float, ...] = RIDGES,
) -> _Rough:
    """The one of the wavelength and the ridge with the least leave-one-out errors."""
    Z, r = judged
    ends = Z.min(axis=0), Z.max(axis=0)
    tried = []
    for wavelength in wavelengths:
        turns, phase = _random_frequencies(metric / wavelength, n_frequencies, seed)
        for ridge, coefficients, left in _ridges(_features(Z, turns, phase), r, ridges):
            trend = Trend(turns, phase, _in_units(coefficients, len(metric)), ridge, *ends)
            tried.append(_Rough(float(np.mean(left**2)), trend, metric / wavelength, left))
    return min(tried, key=lambda rough: rough.square)


def _surely_less(one: _Rough, other: _Rough) -> bool:
    """Whether the errors of one are less than those of another, by far more than chance."""
    gain = other.left**2 - one.left**2
    return bool(gain.mean() > SURE * gain.std() / np.sqrt(len(gain)))


def _random_frequencies(metric: Floats, n_frequencies: int, seed: int) -> tuple[Floats, Floats]:
    rng, p = np.random.default_rng(seed), len(metric)
    turns = metric @ rng.standard_normal((n_frequencies, p)).T / (2 * np.pi * np.sqrt(max(p, 1)))
    return np.ascontiguousarray(turns), rng.uniform(0.0, 1.0, n_frequencies)


def _metric(slopes: Floats) -> Floats:
    """The root of the mean of slopes times slopes', its squares of mean one: lengths in it are how much y changes.

    Inputs that do not matter vanish, and cosines run along the directions that do (Radhakrishnan et al., "Mechanism for
    feature learning in neural networks and backpropagation-free machine learning models", Science 2024).
    """
    values, vectors = eigh(slopes.T @ slopes)
    values = np.maximum(values, 0.0) / max(values.mean(), 1e-300)
    root: Floats = (vectors * np.sqrt(values)) @ vectors.T
    return root


def _height(n_frequencies: int) -> float:
    return HEIGHT * float(np.sqrt(2.0 / max(n_frequencies, 1)))


def _features(Z: Floats, turns: Floats, phase: Floats, n_threads: int = 1) -> Floats:
    F = np.empty((len(Z), 1 + Z.shape[1] + len(phase)))

    def some(rows: slice) -> None:
        fourier_features(Z[rows], turns, phase, _height(len(phase)), F[rows])

    in_threads(some, _parts(len(Z), n_threads), n_threads)
    return F


def _parts(n: int, n_parts: int) -> list[slice]:
    """The rows in so many parts: each row's cosines are its own."""
    ends = np.linspace(0, n, n_parts + 1).astype(int)
    return [slice(*pair) for pair in pairwise(ends.tolist())]


def _in_units(coefficients: Floats, p: int) -> Floats:
    """Coefficients of plain cosines from those of `_features`."""
    n_frequencies = len(coefficients) - 1 - p
    return np.concatenate([coefficients[: 1 + p], _height(n_frequencies) * coefficients[1 + p :]])


def _ridges(F: Floats, r: Floats, ridges: tuple[float, ...]) -> Iterator[tuple[float, Floats, Floats]]:
    """Each ridge with its coefficients and the leave-one-out errors of the rows."""
    values, vectors = eigh(F.T @ F)
    P = F @ vectors
    shrunk = 1.0 / (np.maximum(values, 0.0)[:, None] + ridges)
    coefficients = (P.T @ r)[:, None] * shrunk
    errors = (r[:, None] - P @ coefficients) / np.maximum(1.0 - (P * P) @ shrunk, MIN_KEEP)
    return zip(ridges, (vectors @ coefficients).T, errors.T)
