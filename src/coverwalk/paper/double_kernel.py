"""The paper's rival: a kernel conditional density with Gaussian kernels on x and y, bandwidths by cross-validation.

    p(y | x) = sum_i K((x - x_i) / h_x) K((y - y_i) / h_y) / h_y^q / sum_i K((x - x_i) / h_x)

Columns are standardised first, so that one bandwidth serves all columns of x and one all of y. Both bandwidths are
taken from a grid by the likelihood of the left-out tenths, then from a finer grid about the best pair; where there are
many rows, by a random thousand of the left-out rows (each still judged by all nine other tenths).
"""

from math import exp, log, pi

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel

__all__ = ["DoubleKernel"]

_FOLDS = 10
_JUDGES = 1000  # left-out rows that choose the bandwidths
_COARSE = 2.0 ** np.arange(-5.0, 1.5, 0.5)  # of the normal reference bandwidth
_FINE = 2.0 ** np.arange(-0.4, 0.45, 0.1)  # of the best of those


@kernel
def _squared_distances(rows: Floats, others: Floats, out: Floats) -> None:
    for j in range(others.shape[0]):
        total = 0.0
        for d in range(rows.shape[0]):
            total += (rows[d] - others[j, d]) ** 2
        out[j] = total


@kernel
def _cross_validate(X: Floats, Y: Floats, fold: Ints, judges: Ints, hx: Floats, hy: Floats, score: Floats) -> None:
    """Add each judge's log density under every pair of bandwidths to score (len(hx), len(hy))."""
    n, q = X.shape[0], Y.shape[1]
    dx, dy = np.empty(n), np.empty(n)
    ky = np.empty(len(hy))
    top = np.empty((len(hx), len(hy)))
    bottom = np.empty(len(hx))
    for i in judges:
        _squared_distances(X[i], X, dx)
        _squared_distances(Y[i], Y, dy)
        nearest = np.inf
        for j in range(n):
            if fold[j] != fold[i]:
                nearest = min(nearest, dx[j])
        top[:] = 0.0
        bottom[:] = 0.0
        for j in range(n):
            if fold[j] == fold[i]:
                continue
            for b in range(len(hy)):
                ky[b] = exp(-0.5 * dy[j] / (hy[b] * hy[b]))
            for a in range(len(hx)):
                weight = exp(-0.5 * (dx[j] - nearest) / (hx[a] * hx[a]))  # relative to the nearest: never all zero
                bottom[a] += weight
                for b in range(len(hy)):
                    top[a, b] += weight * ky[b]
        for a in range(len(hx)):
            for b in range(len(hy)):
                # a density that underflows is as bad as the smallest double
                score[a, b] += log(max(top[a, b], 1e-300)) - log(bottom[a]) - q * log(hy[b])


@kernel
def _log_density(X: Floats, Y: Floats, x: Floats, y: Floats, hx: float, hy: float, out: Floats) -> None:
    """log p(y | x) of rows x, y given the rows X, Y; sums of exponentials about their largest term."""
    n, q = X.shape[0], Y.shape[1]
    dx, dy = np.empty(n), np.empty(n)
    for i in range(x.shape[0]):
        _squared_distances(x[i], X, dx)
        _squared_distances(y[i], Y, dy)
        nearest, best = np.inf, -np.inf
        for j in range(n):
            dx[j] *= -0.5 / (hx * hx)
            dy[j] = dx[j] - 0.5 * dy[j] / (hy * hy)
            nearest = min(nearest, -dx[j])
            best = max(best, dy[j])
        bottom, top = 0.0, 0.0
        for j in range(n):
            if dx[j] + nearest > -40.0:  # smaller terms are below the rounding of the sum
                bottom += exp(dx[j] + nearest)
            if dy[j] - best > -40.0:
                top += exp(dy[j] - best)
        out[i] = best + log(top) + nearest - log(bottom) - q * (log(hy) + 0.5 * log(2.0 * pi))


class DoubleKernel:
    """Fit to all rows at once; `logpdf` is exact, without approximation of the sums.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1))
    >>> model = DoubleKernel().fit(X, X[:, 0] + 0.1 * rng.normal(size=200))
    >>> bool(model.logpdf(np.array([[0.5]]), np.array([0.5]))[0] > 0)
    True
    """

    def fit(self, X: Floats, y: Floats, seed: int = 0) -> "DoubleKernel":
        """Choose the bandwidths by 10-fold cross-validated likelihood, then keep the rows."""
        Y = y.reshape(len(y), -1)
        self._loc = X.mean(0), Y.mean(0)
        self._scale = _spread(X), _spread(Y)
        self._X, self._Y = (X - self._loc[0]) / self._scale[0], (Y - self._loc[1]) / self._scale[1]
        rng = np.random.default_rng(seed)
        n = len(X)
        fold = rng.permutation(n) % _FOLDS
        judges = rng.permutation(n)[:_JUDGES]
        self.hx = self.hy = n ** (-1 / (4 + X.shape[1] + Y.shape[1]))
        for grid in (_COARSE, _FINE):
            hx, hy = self.hx * grid, self.hy * grid
            score = np.zeros((len(hx), len(hy)))
            _cross_validate(self._X, self._Y, fold, judges, hx, hy, score)
            best = np.unravel_index(np.argmax(score), score.shape)
            self.hx, self.hy = float(hx[best[0]]), float(hy[best[1]])
        return self

    def logpdf(self, X: Floats, y: Floats) -> Floats:
        """Log density (n,) of y given X."""
        Y = y.reshape(len(y), -1)
        x, z = (X - self._loc[0]) / self._scale[0], (Y - self._loc[1]) / self._scale[1]
        out = np.empty(len(X))
        _log_density(self._X, self._Y, x, z, self.hx, self.hy, out)
        return out - float(np.log(self._scale[1]).sum())


def _spread(table: Floats) -> Floats:
    deviation = table.std(0)
    return np.where(deviation > 0, deviation, 1.0)
