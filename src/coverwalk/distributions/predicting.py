"""What every estimator of a conditional density predicts, given its distribution in checked rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk.distributions import Distribution
from coverwalk.distributions.calibrated import Calibrating
from coverwalk.locks import reads

__all__ = ["ROWS_AT_ONCE", "Predicting"]

ROWS_AT_ONCE = 20_000  # bounds the memory of predictions that keep no distribution


class Predicting(Calibrating):
    """Of a class that has ``_check``, ``_dist``, ``logpdf`` and, once fitted, ``n_outputs_`` and ``_flat``."""

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
