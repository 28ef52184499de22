"""Proper scores of predictive distributions, and checks of their calibration.

As in scikit-learn, the observed values come first: ``log_loss(y_true, dist)``.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coverwalk._arrays import Floats
from coverwalk._docstrings import SCORES, document
from coverwalk.distributions.base import Distribution, RandomState
from coverwalk.distributions.mixture import make_uniform
from coverwalk.distributions.univariate import UnivariateDistribution

__all__ = [
    "calibration_error",
    "coverage",
    "crps",
    "energy_score",
    "interval_score",
    "log_loss",
    "pinball_loss",
    "pit",
    "pit_histogram",
    "reliability",
]


def _rows(y_true: Any, dist: Distribution, *, joint: bool = False) -> Floats:
    """The y of each row, (n,), or (n, q) where a score takes several outputs; checked."""
    if isinstance(y_true, Distribution):
        raise TypeError("y_true comes first and the distribution second, as in scikit-learn; got them the other way")
    if dist.n_outputs > 1 and not joint:
        raise ValueError(
            f"this score is for one output and the distribution has {dist.n_outputs}: score them one by one, with "
            "dist.marginal(number or name)"
        )
    y = np.asarray(y_true, dtype=np.float64)
    if y.shape != dist.shape or y.ndim != 1 + (dist.n_outputs > 1) or y.size == 0:
        rows = "no axis of rows: it is the distribution of one row" if dist.shape in ((), (dist.n_outputs,)) else ""
        raise ValueError(
            f"y_true must have one entry for each row{' and output' * (dist.n_outputs > 1)} of the distribution, shape "
            f"{dist.shape}; got shape {y.shape}" + (f". The distribution has {rows}" if rows else "")
        )
    if not np.all(np.isfinite(y)):
        raise ValueError("y_true must be finite to be scored, got NaN or infinity")
    return y


def log_loss(y_true: ArrayLike, dist: Distribution) -> float:
    """Mean of -log p(y), in nats. Lower is better.

    With several outputs, p is their joint density.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> round(log_loss([0.0], normals([0], 1)), 6)
    0.918939
    """
    y = _rows(y_true, dist, joint=True)
    return float(-np.mean(dist.logpdf(y)))


def crps(y_true: ArrayLike, dist: Distribution) -> float:
    """Mean continuous ranked probability score (CRPS), in the units of y. Lower is better.

    It generalises the absolute error to distributions. With several outputs, it is the mean over the outputs.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> round(crps([0.0], normals([0], 1)), 4), round((2**0.5 - 1) / np.pi**0.5, 4)
    (0.2337, 0.2337)
    """
    y = _rows(y_true, dist, joint=True)
    return float(np.mean(dist.crps(y)))


def energy_score(y_true: ArrayLike, dist: Distribution, n_draws: int = 200, random_state: int = 0) -> float:
    """Mean energy score ``E|Y - y| - E|Y - Y'|/2`` of several outputs, estimated by draws. Lower is better.

    For one output it is the CRPS.
    """
    y = _rows(y_true, dist, joint=True)
    if dist.n_outputs == 1:
        return crps(y_true, dist)
    return float(np.mean(dist.energy_score(y, n_draws, random_state)))  # type: ignore[attr-defined]


def pinball_loss(y_true: ArrayLike, dist: Distribution, quantile: float = 0.5) -> float:
    """Mean pinball loss of one quantile. Lower is better. For the median it is half the absolute error.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> round(pinball_loss([1.0, -3.0], normals([0, 0], 1)), 6)
    1.0
    """
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie strictly between 0 and 1, got {quantile!r}")
    y = _rows(y_true, dist, joint=True)
    over = np.asarray(dist.ppf(quantile)) - y
    return float(np.mean(((over > 0) - quantile) * over))


def interval_score(y_true: ArrayLike, dist: Distribution, confidence: float = 0.9) -> float:
    """Mean interval (Winkler) score. Lower is better.

    It is the width of the central interval, plus 2/(1 - confidence) times the distance of y from the interval.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> dist = normals([0, 0], 1)
    >>> round(interval_score([0.0, 1.0], dist, 0.9), 4), round(interval_score([0.0, 2.0], dist, 0.9), 4)
    (3.2897, 6.8412)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    y = _rows(y_true, dist, joint=True)
    low, high = dist.interval(confidence)
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - confidence) * outside))


def coverage(y_true: ArrayLike, dist: Distribution, confidence: float = 0.9) -> float:
    """Fraction of rows whose y lies in the central interval. It should equal the confidence.

    With several outputs, it is the mean over the outputs.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> coverage([0.1, -1.0, 1.6, 1.7], normals([0, 0, 0, 0], 1), confidence=0.9)
    0.75
    """
    y = _rows(y_true, dist, joint=True)
    low, high = dist.interval(confidence)
    return float(np.mean((low <= y) & (y <= high)))


def pit(y_true: ArrayLike, dist: Distribution, random_state: RandomState = 0) -> Floats:
    """Probability integral transform F(y) of each row. It is uniform on [0, 1] if the model is calibrated.

    Where F has a jump at y, the value is drawn uniformly from the jump.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> pit([0.0, 1.0], normals([0, 0], 1)).round(4).tolist()
    [0.5, 0.8413]
    """
    y = _rows(y_true, dist)
    values: Floats = dist.cdf(y)
    if isinstance(dist, UnivariateDistribution) and (jump := dist.pmf(y)).any():
        values = np.maximum(values - make_uniform(random_state, values.shape) * jump, 0.0)
    return values


def pit_histogram(y_true: ArrayLike, dist: Distribution, bins: int = 20) -> tuple[Floats, Floats]:
    """Histogram of the probability integral transform. All heights are near 1 if the model is calibrated.

    Returns
    -------
    heights : ndarray of shape (bins,)
        Densities of the bins.
    edges : ndarray of shape (bins + 1,)
        Their ends.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> pit_histogram([-1.0, -0.5, 0.5, 1.0], normals([0, 0, 0, 0], 1), bins=2)
    (array([1., 1.]), array([0. , 0.5, 1. ]))
    """
    return np.histogram(pit(y_true, dist), bins=bins, range=(0.0, 1.0), density=True)


def reliability(y_true: ArrayLike, dist: Distribution, levels: ArrayLike) -> Floats:
    """Fraction of rows in the central interval of each confidence level. It should equal the level.

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> reliability([0.1, 1.0], normals([0, 0], 1), [0.5, 0.9]).tolist()
    [0.5, 1.0]
    """
    return central_fractions(pit(y_true, dist), np.atleast_1d(np.asarray(levels, dtype=np.float64)))


def central_fractions(F: Floats, levels: Floats) -> Floats:
    """Fractions (k,) of the rows with probability integral transforms F (n,) that are in the central intervals."""
    fractions: Floats = np.mean(np.abs(2 * F - 1)[:, None] <= levels, axis=0)
    return fractions


def coverage_noise(levels: Floats, n: int) -> Floats:
    """Half the width of the range, (k,), that has 95 % of the coverages of a calibrated model on n rows."""
    return np.asarray(1.96 * np.sqrt(levels * (1 - levels) / n))


def pit_band(n: int, bins: int) -> list[float]:
    """The range that has 95 % of the bars of a calibrated model's histogram on n rows."""
    from scipy.stats import binom

    return [float(binom.ppf(q, n, 1 / bins) * bins / n) for q in (0.025, 0.975)]


def calibration_error(y_true: ArrayLike, dist: Distribution) -> float:
    """Mean distance between the sorted F(y) and uniform quantiles, from 0 to 1/2. Lower is better.

    The true distributions have about 0.3 / sqrt(n).

    Examples
    --------
    >>> from coverwalk.evaluation.baselines import normals
    >>> dist = normals([0, 0], 1)
    >>> round(calibration_error(dist.ppf([0.25, 0.75])[0], dist), 9)
    0.0
    """
    return distance_from_uniform(pit(y_true, dist))


def distance_from_uniform(F: Floats) -> float:
    """Mean distance between sorted values F (n,) and uniform quantiles."""
    return float(np.mean(np.abs(np.sort(F) - (np.arange(F.size) + 0.5) / F.size)))


document(globals(), SCORES)
