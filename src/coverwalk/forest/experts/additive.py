"""An expert that adds: log odds of the classes as a sum of functions of single inputs, or of pairs of categories too.

    log psi(c|x) = log share_c + sum_k f_k(x) b_kc - log sum,    b ~ Normal(0, tau)

A tree must find again in each of its contexts what one input adds; a sum finds it once. The functions of a number are
the number itself and ramps from 0 to 1 between neighbouring quantiles: their sum is any line with bends there, and its
prior a random walk. Those of a category are the indicators of its levels, those of two categories the products.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.files.schema import Array, Real, Whole, stored

QUANTILES = 5  # of a number, with its least and its greatest
MAX_FUNCTIONS = 1024
MAX_STEPS, TOLERANCE = 100, 1e-5  # of the loss, between two steps
SPARSE = 0.2  # of values that are not zero: indicators
TINY = np.finfo(float).tiny


@stored()
@dataclass(frozen=True)
class Additive:
    """Functions of inputs in units of order one, and what each adds to the log odds."""

    n_columns: Annotated[int, Whole("p", "p")]  # the m indicators of levels stand behind them
    numbers: Annotated[Ints, Array(np.int64, "q", index="p")]  # columns
    knots: Annotated[Floats, Array(float, "q", "k")]  # in ascending order
    missing: Annotated[Ints, Array(np.int64, "g", index="p")]  # columns with missing values
    pairs: Annotated[Ints, Array(np.int64, "h", 2, index="m")]  # of indicators
    coefficients: Annotated[Floats, Array(float, "1 + q * k + g + m + h", "C")]
    log_shares: Annotated[Floats, Array(float, "C", low=-100, high=0)]
    # share of rows that follow the classes' shares alone: no class is ever impossible
    strange: Annotated[float, Real(low=1e-30, high=1)]

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

        The search begins at the coefficients that there are, which must not come from other rows: it ends near the
        best ones, not at them.
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
        return replace(self, coefficients=coefficients, log_shares=log_shares, strange=float(1.0 / (total + 1.0)))

    def psi(self, values: Floats) -> Floats:
        """The class probabilities (n, C), from the functions' values (n, F)."""
        scores = values @ self.coefficients + self.log_shares
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p *= (1.0 - self.strange) / p.sum(axis=1, keepdims=True)
        return np.asarray(p + self.strange * np.exp(self.log_shares))
