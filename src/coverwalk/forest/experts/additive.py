"""An expert that adds: log odds of the classes as a sum of functions of single inputs, or of pairs of categories too.

    log psi(c|x) = log share_c + sum_k f_k(x) b_kc - log sum,    b ~ Normal(0, tau)

A tree must find again in each of its contexts what one input adds; a sum finds it once. The functions of a number are
the number itself and ramps from 0 to 1 between neighbouring quantiles: their sum is any line with bends there, and its
prior a random walk. Those of a category are its indicators, those of two categories the products.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.files.schema import Array, Real, Whole, stored
from coverwalk.forest.class_pool import HeldOut
from coverwalk.forest.threads import in_threads

FOLDS = 4  # of held-out rows, which decide whether it joins a forest
MIN_ROWS = 64  # fewer cannot tell
MAX_FLOATS = 2**23  # of all functions at all rows
MAX_FITTED = 2**23  # of all functions at the rows of a fit, times the classes
ERRORS = 2.0  # standard errors that the pool must gain: a chance gain is not worth the time
VARIANCES = (0.3, 3.0, 30.0, 300.0)  # of the prior of a coefficient, tried in turn while held-out rows gain
QUANTILES = 5  # of a number, with its least and its greatest
MAX_FUNCTIONS = 1024
MAX_STEPS, TOLERANCE = 100, 1e-5  # of the loss, between two steps
SPARSE = 0.2  # of values that are not zero: indicators
TINY = np.finfo(float).tiny


@stored()
@dataclass(frozen=True)
class Additive:
    """Functions of inputs in units of order one, and what each adds to the log odds."""

    n_columns: Annotated[int, Whole("p", "p")]  # the m indicators of categories stand behind them
    numbers: Annotated[Ints, Array(np.int64, "q", index="p")]  # columns
    knots: Annotated[Floats, Array(float, "q", "k")]  # in ascending order
    missing: Annotated[Ints, Array(np.int64, "g", index="p")]  # columns with missing values
    pairs: Annotated[Ints, Array(np.int64, "h", 2, index="m")]  # of indicators
    coefficients: Annotated[Floats, Array(float, "1 + q * k + g + m + h", "C")]
    log_shares: Annotated[Floats, Array(float, "C", low=-100, high=0)]
    # share of rows that follow the classes' shares alone: no class is ever impossible
    strange: Annotated[float, Real(low=1e-30, high=1)]
    variance: Annotated[float, Real(above=0)] = 1.0  # of the prior of a coefficient

    @classmethod
    def planned(cls, Z: Floats, n_categories: Ints) -> "Additive":
        """Functions for rows Z (n, p + m) of single inputs, without coefficients yet; n_categories (p,)."""
        p = len(n_categories)
        numbers, missing = np.flatnonzero(n_categories == 0), np.flatnonzero(np.isnan(Z[:, :p]).any(axis=0))
        k = int(np.clip(MAX_FUNCTIONS // (2 * max(len(numbers), 1)), 1, QUANTILES))
        knots = np.zeros((len(numbers), k))
        for row, a in enumerate(numbers):
            present = Z[~np.isnan(Z[:, a]), a]
            if len(present):
                knots[row] = np.quantile(present, np.linspace(0.0, 1.0, k))
        return cls(p, numbers, knots, missing, np.empty((0, 2), np.int64), np.empty((0, 0)), np.empty(0), 1.0)

    def paired(self, Z: Floats, category: Ints) -> "Additive":
        """With the products of indicators of two categories that some row has; category (m,) of each indicator."""
        first, second = np.triu_indices(len(category), 1)
        apart = category[first] != category[second]
        first, second = first[apart], second[apart]
        if len(first) > MAX_FUNCTIONS:
            return self
        has = Z[:, self.n_columns :] > 0.0
        some = (has[:, first] & has[:, second]).any(axis=0)
        return replace(self, pairs=np.stack([first[some], second[some]], axis=1))

    def functions(self, Z: Floats) -> Floats:
        """Their values (n, F) at rows Z (n, p + m)."""
        numbers, has = Z[:, self.numbers], (Z[:, self.n_columns :] > 0.0).astype(np.float64)
        width = np.maximum(np.diff(self.knots, axis=1), TINY)  # between two equal quantiles is a step
        with np.errstate(over="ignore"):
            ramps = [np.clip((numbers - self.knots[:, j]) / width[:, j], 0.0, 1.0) for j in range(width.shape[1])]
        of_numbers = np.nan_to_num(np.hstack([np.ones((len(Z), 1)), numbers, *ramps]), nan=0.0)
        first, second = self.pairs.T
        return np.hstack([of_numbers, np.isnan(Z[:, self.missing]), has, has[:, first] * has[:, second]])

    def fitted(self, values: Floats, y: Ints, weight: Floats, n_classes: int, variance: float) -> "Additive":
        """With the coefficients of the most posterior probability, from functions' values (n, F) and classes (n,).

        The search begins at the coefficients that there are, and ends near the best ones, not at them: if rows are to
        be left out, these coefficients must not come from them.
        """
        from scipy.optimize import fmin_l_bfgs_b  # takes as long to load as all else, and most models never need it
        from scipy.sparse import csr_array

        F = values.shape[1]
        given = csr_array(values) if np.count_nonzero(values) < SPARSE * values.size else values  # faster by half
        total, present = weight.sum(), np.eye(n_classes)[y] * weight[:, None]
        log_shares = np.log((present.sum(axis=0) + 1.0 / n_classes) / (total + 1.0))

        def loss(b: Floats) -> tuple[float, Floats]:
            scores = given @ b.reshape(F, -1) + log_shares
            scores -= scores.max(axis=1, keepdims=True)
            p = np.exp(scores)
            sums = p.sum(axis=1, keepdims=True)
            p *= weight[:, None] / sums
            slope = given.T @ (p - present)
            value = weight @ np.log(sums[:, 0]) - (present * scores).sum() + 0.5 * (b @ b) / variance
            return float(value) / total, (slope.ravel() + b / variance) / total

        begin = self.coefficients.ravel() if self.coefficients.size else np.zeros(F * n_classes)
        best, *_ = fmin_l_bfgs_b(loss, begin, maxiter=MAX_STEPS, factr=TOLERANCE / np.finfo(float).eps)
        coefficients = np.asarray(best).reshape(F, n_classes)
        strange = float(1.0 / (total + 1.0))
        return replace(self, coefficients=coefficients, log_shares=log_shares, strange=strange, variance=variance)

    def refitted(self, Z: Floats, y: Ints, weight: Floats) -> "Additive":
        """The same functions and prior, fitted to rows in random order: to the first, as many as there is time for."""
        some = _in_time(*self.coefficients.shape)
        return self.fitted(self.functions(Z[some]), y[some], weight[some], len(self.log_shares), self.variance)

    def psi(self, values: Floats) -> Floats:
        """The class probabilities (n, C), from the functions' values (n, F)."""
        scores = values @ self.coefficients + self.log_shares
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p *= (1.0 - self.strange) / p.sum(axis=1, keepdims=True)
        return np.asarray(p + self.strange * np.exp(self.log_shares))


def _in_time(n_functions: int, n_classes: int) -> slice:
    """The rows to which there is time to fit so many functions."""
    return slice(MAX_FITTED // (n_functions * n_classes) + 1)


def held_out_additive(
    rows: tuple[Floats, Ints, Floats],
    trees: Sequence[Floats],
    gain: float,
    n_categories: Ints,
    category: Ints,
    folds: Sequence[Ints],
    n_jobs: int,
) -> tuple[Additive, Floats] | None:
    """The expert, fitted to rows (Z, y, weight), and its predictions by fits without a row's fold, (n, C); or None.

    trees: held-out predictions of the kinds of trees (n, C, E), and those of two halves of these trees; gain: how far
    to extrapolate to the whole forest. n_categories (p,) of each column; category (m,): the column of each indicator.
    """
    Z, y, weight = rows
    n, C = len(y), trees[0].shape[1]
    if n < MIN_ROWS or not all(len(fold) for fold in folds):  # copies of heavy rows may all be in one
        return None

    def gained(rows: Ints, psi: Floats) -> float:
        return standard_errors_gained([means[rows] for means in trees], psi, y[rows], weight[rows], gain)

    def fitted(plan: Additive, values: Floats, fold: Ints, variance: float) -> Additive:
        """To the first rows that are not in a fold, as many as there is time for: their order is random."""
        rows = np.delete(np.arange(n), fold)[_in_time(values.shape[1], C)]
        return plan.fitted(values[rows], y[rows], weight[rows], C, variance)

    single = Additive.planned(Z, n_categories)
    paired = single.paired(Z, category)
    plans = [single, paired] if len(paired.pairs) else [single]
    held, best = folds[0], None
    for plan in plans:
        values = plan.functions(Z)
        if values.size > MAX_FLOATS:
            continue
        last, expert = np.inf, plan
        for variance in VARIANCES[VARIANCES.index(best[3]) if best else 0 :]:
            expert = fitted(expert, values, held, variance)
            of_held = expert.psi(values[held])
            loss = -float(weight[held] @ np.log(of_held[np.arange(len(held)), y[held]]))
            if best is None or loss < best[0]:
                best = (loss, plan, values, variance, of_held)
            if loss > last:
                break
            last = loss
            if len(plans) == 1 and not gained(held, of_held) > 0.0:
                return None
    if best is None or not gained(held, best[4]) > 0.0:
        return None
    _, plan, values, variance, of_held = best
    psi = np.empty((n, C))
    psi[held] = of_held
    experts = in_threads(lambda fold: fitted(plan, values, fold, variance), folds[1:], n_jobs)
    for fold, expert in zip(folds[1:], experts):
        psi[fold] = expert.psi(values[fold])
    if not gained(np.arange(n), psi) > ERRORS:
        return None
    return fitted(plan, values, held[:0], variance), psi


def standard_errors_gained(trees: Sequence[Floats], psi: Floats, y: Ints, weight: Floats, gain: float) -> float:
    """What the pool with all trees gains by one more expert with predictions psi (n, C), in standard errors.

    Few trees have held a row out, and leave an expert more to mend than all of them will.
    """
    log_p = []
    for others in (trees, [np.concatenate([means, psi[:, :, None]], axis=2) for means in trees]):
        pool = HeldOut(others[0].shape[2])
        pool.add(others[0], y, weight)
        whole, first, second = (pool.log_proba(means)[np.arange(len(y)), y] for means in others)
        log_p.append(whole + gain * (whole - 0.5 * (first + second)))
    gained = log_p[1] - log_p[0]
    mean = float(weight @ gained / weight.sum())
    error = float(np.sqrt(weight @ (gained - mean) ** 2)) / float(weight.sum())
    return mean / error if error > 0.0 else 0.0
