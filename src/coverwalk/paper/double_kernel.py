"""The paper's rival: a kernel conditional density with Gaussian kernels on x and y, bandwidths by cross-validation.

    p(y | x) = sum_i K((x - x_i) / h_x) K((y - y_i) / h_y) / h_y^q / sum_i K((x - x_i) / h_x)

Columns are standardised first, so that one bandwidth serves all columns of x and one all of y. Both bandwidths are
taken from a grid by the likelihood of the left-out tenths, then from a finer grid about the best pair; where there are
many rows, by a random thousand of the left-out rows (each still judged by all nine other tenths).
"""

from typing import Self

import numpy as np
from scipy.special import logsumexp
from sklearn.preprocessing import StandardScaler

from coverwalk._arrays import Floats

_FOLDS = 10
_JUDGES = 1000  # left-out rows that choose the bandwidths
_COARSE = 2.0 ** np.arange(-5.0, 1.5, 0.5)  # of the normal reference bandwidth
_FINE = 2.0 ** np.arange(-0.4, 0.45, 0.1)  # of the best of those


def _half_squares(table: Floats, row: Floats) -> Floats:
    """Half the squared distance of each row of a table from one row."""
    return np.asarray(0.5 * ((table - row) ** 2).sum(axis=1))


class DoubleKernel:
    """Fit to all rows at once; `logpdf` is exact, without approximation of the sums.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1))
    >>> model = DoubleKernel().fit(X, X[:, 0] + 0.1 * rng.normal(size=200))
    >>> bool(model.logpdf(np.array([[0.5]]), np.array([0.5]))[0] > 0)
    True
    """

    def fit(self, X: Floats, y: Floats, seed: int = 0) -> Self:
        """Choose the bandwidths by 10-fold cross-validated likelihood, then keep the rows."""
        Y = y.reshape(len(y), -1)
        self._units = StandardScaler().fit(X), StandardScaler().fit(Y)
        self._X, self._Y = (units.transform(table) for units, table in zip(self._units, (X, Y)))
        rng, n = np.random.default_rng(seed), len(X)
        fold, judges = rng.permutation(n) % _FOLDS, rng.permutation(n)[:_JUDGES]
        self.hx = self.hy = n ** (-1 / (4 + X.shape[1] + Y.shape[1]))
        for grid in (_COARSE, _FINE):
            hx, hy = self.hx * grid, self.hy * grid
            score = sum(self._judged(i, fold != fold[i], hx, hy) for i in judges)
            best = np.unravel_index(np.argmax(score), (len(hx), len(hy)))
            self.hx, self.hy = float(hx[best[0]]), float(hy[best[1]])
        return self

    def _judged(self, i: int, others: Floats, hx: Floats, hy: Floats) -> Floats:
        """Row i's log density given others, under every pair of bandwidths (len(hx), len(hy))."""
        dx, dy = _half_squares(self._X[others], self._X[i]), _half_squares(self._Y[others], self._Y[i])
        weight = np.exp((dx.min() - dx)[:, None] / hx**2)  # relative to the nearest: never all zero
        top = np.maximum(weight.T @ np.exp(-dy[:, None] / hy**2), 1e-300)  # what underflows is as bad as this
        return np.asarray(np.log(top) - np.log(weight.sum(axis=0))[:, None] - self._Y.shape[1] * np.log(hy))

    def logpdf(self, X: Floats, y: Floats) -> Floats:
        """Log density (n,) of y given X."""
        x, z = self._units[0].transform(X), self._units[1].transform(y.reshape(len(y), -1))
        out = np.empty(len(X))
        for i in range(len(X)):
            near = -_half_squares(self._X, x[i]) / self.hx**2
            out[i] = logsumexp(near - _half_squares(self._Y, z[i]) / self.hy**2) - logsumexp(near)
        return out - float(np.log(np.sqrt(2.0 * np.pi) * self.hy * self._units[1].scale_).sum())
