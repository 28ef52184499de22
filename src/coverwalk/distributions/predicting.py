"""What every estimator of a conditional density predicts, given its distribution in checked rows."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk._docstrings import EVENTS, ROWS, Documented
from coverwalk.distributions import Distribution
from coverwalk.distributions.calibrated import CalibratedDistribution
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.locks import reads, writes

__all__ = ["ROWS_AT_ONCE", "Predicting"]

_MIN_CALIBRATION = 19  # rows for a finite 90 % interval: 2 / (1 - 0.9) - 1
ROWS_AT_ONCE = 20_000  # bounds the memory of predictions that keep no distribution


class Predicting(Documented):
    """Of a class that has ``_check``, ``_dist``, ``logpdf`` and, once fitted, ``n_outputs_`` and ``_flat``."""

    _words = {**ROWS, **EVENTS}  # noqa: RUF012

    calibration_: Floats
    n_outputs_: int
    target_names_: list[str]
    _flat: bool  # whether y came as a vector
    _check: Any
    _dist: Any
    logpdf: Any

    @reads
    def predict_dist(self, X: Any) -> Distribution:
        """Predict the distribution of y for each row of X, as one vectorised object.

        Returns
        -------
        Distribution
            A `PredictiveDistribution` for one output, a `JointDistribution` for several, or a
            `CalibratedDistribution` after `calibrate`.
        """
        dist: Distribution = self._calibrated(self._dist(self._check(X)))
        return dist

    @reads
    def predict(self, X: ArrayLike, return_std: bool = False, quantiles: ArrayLike | None = None) -> Any:
        """Predict means, means and standard deviations, or quantiles.

        With several outputs, the second axis is that of the outputs: (n, q) or (n, q, k).

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows to predict.
        return_std : bool
            Also return standard deviations.
        quantiles : array-like of shape (k,), optional
            Levels between 0 and 1. If given, quantiles are returned instead of means.

        Returns
        -------
        ndarray of shape (n,)
            Means. With ``return_std``, a pair (means, standard deviations); with ``quantiles``, an array of shape
            (n, k).
        """
        if return_std and quantiles is not None:
            raise ValueError("choose return_std or quantiles, not both")
        rows: Floats = self._check(X)
        chunks = [rows[s : s + ROWS_AT_ONCE] for s in range(0, len(rows), ROWS_AT_ONCE)]
        if quantiles is not None:
            levels = np.asarray(quantiles, dtype=np.float64)
            return np.concatenate([self._calibrated(self._dist(chunk)).ppf(levels) for chunk in chunks])
        dists = (self._dist(chunk) for chunk in chunks)
        moments = [(dist.mean(), dist.std() if return_std else None) for dist in dists]
        mean = self._like_y(np.concatenate([mean for mean, _ in moments]))
        return (mean, self._like_y(np.concatenate([std for _, std in moments]))) if return_std else mean

    @writes
    def calibrate(self, X: Any, y: Any) -> Self:
        """Calibrate the model on rows that it has not seen, by split conformal prediction.

        Afterwards, `predict_dist` returns a `CalibratedDistribution`. Its intervals cover y with at least the stated
        probability, on average over new rows that are exchangeable with the rows given here. With several outputs, this
        holds for each of them alone. Fitting again, or learning more rows, removes the calibration. It is saved with
        the model. Use a few hundred rows, and at least 2/(1 - confidence) - 1 of them: fewer give infinite intervals.

        Returns
        -------
        self

        Examples
        --------
        >>> from coverwalk import ConditionalDensity
        >>> X = np.random.default_rng(0).uniform(size=(400, 1))
        >>> y = X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(400)
        >>> model = ConditionalDensity(4, stop=0.5).fit(X[:200], y[:200]).calibrate(X[200:300], y[200:300])
        >>> low, high = model.predict_dist(X[300:]).interval(0.9)
        >>> bool(np.mean((low <= y[300:]) & (y[300:] <= high)) > 0.8)
        True
        """
        rows = self._check(X)
        Y = np.asarray(y, dtype=np.float64)
        if len(Y) != len(rows) or Y.size != len(rows) * self.n_outputs_ or not np.all(np.isfinite(Y)):
            raise ValueError(
                f"y must have {self.n_outputs_} finite number(s) for each of the {len(rows)} rows; got shape {Y.shape}"
                + ("" if np.all(np.isfinite(Y)) else " with NaN or infinity")
            )
        if len(rows) < _MIN_CALIBRATION:
            warnings.warn(
                f"calibrate got {len(rows)} rows; fewer than {_MIN_CALIBRATION} make 90 % intervals infinite: hold "
                "out more rows",
                stacklevel=2,
            )
        dist, Y = self._dist(rows), Y.reshape(len(rows), -1)
        u = [dist.marginal(j).cdf(Y[:, j]) for j in range(self.n_outputs_)]
        self.calibration_ = np.sort(np.stack(u, axis=1), axis=0)
        return self

    def prob(self, X: Any, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> Any:
        """P(low < y <= high) in rows X; (n,), or (n, q) for each of several outputs alone.

        Examples
        --------
        >>> from coverwalk import ConditionalDensity
        >>> X = np.linspace(0, 1, 60)[:, None]
        >>> model = ConditionalDensity(4, stop=0.5).fit(X, X[:, 0] + 0.1 * np.sin(99 * X[:, 0]))
        >>> (model.prob([[0.5]], 0.2, 0.8) > 0.9).tolist(), (model.exceedance([[0.5]], 0.9) < 0.1).tolist()
        ([True], [True])
        """
        dist = self.predict_dist(X)
        each = [dist.marginal(j).prob(low, high) for j in range(dist.n_outputs)]
        return each[0] if len(each) == 1 else np.stack(each, axis=1)

    def exceedance(self, X: Any, threshold: ArrayLike) -> Any:
        """P(y > threshold) in rows X; (n,), or (n, q) for each of several outputs alone."""
        return self.prob(X, low=threshold)

    def log_likelihood(self, X: ArrayLike, y: ArrayLike) -> float:
        """Mean log density of the rows: the higher, the better; its negative is the NLL."""
        return float(np.mean(self.logpdf(X, y)))

    def _name_targets(self, y: Any) -> None:
        """Keep the names of y's columns, where it has some; what was calibrated before a fit no longer holds."""
        self.__dict__.pop("calibration_", None)
        self.__dict__.pop("target_names_", None)
        names = list(getattr(y, "columns", [getattr(y, "name", None)]))
        if all(isinstance(name, str) for name in names) and len(names) == self.n_outputs_:
            self.target_names_ = names

    def _like_y(self, values: Floats) -> Floats:
        return values if self._flat else values.reshape(len(values), self.n_outputs_)

    def _calibrated(self, dist: Any) -> Any:
        """A distribution that the model predicts, corrected where it was calibrated."""
        u = self.__dict__.get("calibration_")
        if u is None:
            return dist
        if isinstance(dist, UnivariateDistribution):
            return CalibratedDistribution(dist, u[:, 0])
        dist.calibration = u
        return dist
