"""The paper's rival: a kernel conditional density with Gaussian kernels on x and y, bandwidths by cross-validation.

    p(y | x) = sum_i K((x - x_i) / h_x) K((y - y_i) / h_y) / h_y^q / sum_i K((x - x_i) / h_x)

Columns are standardised first, so that one bandwidth serves all columns of x and one all of y. Both bandwidths are
taken from a grid by the likelihood of the left-out tenths, then from a finer grid about the best pair; where there are
many rows, by a random thousand of the left-out rows (each still judged by all nine other tenths).
"""

import numpy as np

from coverwalk._arrays import Floats, Ints

__all__ = ["DoubleKernel"]

_FOLDS = 10
_JUDGES = 1000  # left-out rows that choose the bandwidths
_COARSE = 2.0 ** np.arange(-5.0, 1.5, 0.5)  # of the normal reference bandwidth
_FINE = 2.0 ** np.arange(-0.4, 0.45, 0.1)  # of the best of those


def _half_squares(table: Floats, row: Floats) -> Floats:
    """Half the squared distance of each row of a table from one row."""
    return np.asarray(0.5 * ((table - row) ** 2).sum(axis=1))


def _log_sum(log_terms: Floats) -> float:
    """The logarithm of a sum, about its largest term."""
    return float(log_terms.max() + np.log(np.exp(log_terms - log_terms.max()).sum()))


def _cross_validated(X: Floats, Y: Floats, fold: Ints, judges: Ints, hx: Floats, hy: Floats) -> Floats:
    """The judges' summed log density under every pair of bandwidths (len(hx), len(hy))."""
    score = np.zeros((len(hx), len(hy)))
    for i in judges:
        others = fold != fold[i]
        dx, dy = _half_squares(X[others], X[i]), _half_squares(Y[others], Y[i])
        weight = np.exp((dx.min() - dx)[:, None] / hx**2)  # relative to the nearest: never all zero
        top = weight.T @ np.exp(-dy[:, None] / hy**2)
        # a density that underflows is as bad as the smallest double
        score += np.log(np.maximum(top, 1e-300)) - np.log(weight.sum(axis=0))[:, None] - Y.shape[1] * np.log(hy)
    return score


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
            score = _cross_validated(self._X, self._Y, fold, judges, hx, hy)
            best = np.unravel_index(np.argmax(score), score.shape)
            self.hx, self.hy = float(hx[best[0]]), float(hy[best[1]])
        return self

    def logpdf(self, X: Floats, y: Floats) -> Floats:
        """Log density (n,) of y given X."""
        Y = y.reshape(len(y), -1)
        x, z = (X - self._loc[0]) / self._scale[0], (Y - self._loc[1]) / self._scale[1]
        out = np.empty(len(X))
        for i in range(len(X)):
            near = -_half_squares(self._X, x[i]) / self.hx**2
            out[i] = _log_sum(near - _half_squares(self._Y, z[i]) / self.hy**2) - _log_sum(near)
        return out - float(np.log(np.sqrt(2.0 * np.pi) * self.hy * self._scale[1]).sum())


def _spread(table: Floats) -> Floats:
    deviation = table.std(0)
    return np.where(deviation > 0, deviation, 1.0)
