"""Honest scores of predictive distributions: proper scores, which the truth minimises, and checks of calibration."""

import numpy as np
from numpy.typing import ArrayLike

from .distribution import PredictiveDistribution, RandomState, make_uniform
from .shapes import Floats

__all__ = ["calibration_error", "coverage", "crps", "log_loss", "pit", "pit_histogram", "reliability"]


_TAIL = 1e-5  # beyond both of these quantiles F (1 - F) adds nothing
_MAX_VALUES = 2000  # of a grid; a finer one is as good as none


def _rows(dist: PredictiveDistribution, y: ArrayLike) -> Floats:
    y = np.asarray(y, dtype=np.float64)
    if y.shape != dist.shape or y.ndim != 1 or y.size == 0:
        raise ValueError(f"need one y for each row of the distribution, of shape {dist.shape}; got shape {y.shape}")
    if not np.all(np.isfinite(y)):
        raise ValueError("y must be finite to be scored, got NaN or infinity")
    return y


def log_loss(dist: PredictiveDistribution, y: ArrayLike) -> float:
    """Mean of -log p(y), in nats and in the units of y: lower is better, the true law has the lowest expectation.

    >>> from coverwalk.shapes import Shapes
    >>> normal = PredictiveDistribution([0, 1], [1.0], [0.0], [1.0], [0], Shapes.student(np.inf))
    >>> round(log_loss(normal, [0.0]), 6)
    0.918939
    """
    return float(-np.mean(dist.logpdf(_rows(dist, y))))


def crps(dist: PredictiveDistribution, y: ArrayLike, n_quantiles: int = 100) -> float:
    """Mean continuous ranked probability score, in the units of y: the absolute error of a distribution.

    It is twice the quantile loss averaged over all levels; the levels of a midpoint rule stand closer in both tails
    (sin²), so the error falls as 1/n_quantiles² also where tails are heavy. Of y on a grid it is the sum over its
    values, exact.

    >>> from coverwalk.shapes import Shapes
    >>> normal = PredictiveDistribution([0, 1], [1.0], [0.0], [1.0], [0], Shapes.student(np.inf))
    >>> round(crps(normal, [0.0]), 4), round((2**0.5 - 1) / np.pi**0.5, 4)
    (0.2337, 0.2337)
    """
    y = _rows(dist, y)[:, None]
    on_grid = _grid_crps(dist, y)
    if on_grid is not None:
        return float(np.mean(on_grid))
    angle = (np.arange(n_quantiles) + 0.5) * (np.pi / 2 / n_quantiles)
    q, weight = np.sin(angle) ** 2, np.sin(2 * angle) * (np.pi / 2 / n_quantiles)
    over = dist.ppf(q) - y
    return float(np.mean((2 * ((over > 0) - q) * over) @ weight))


def _grid_crps(dist: PredictiveDistribution, y: Floats) -> Floats | None:
    """Of y (n, 1) on a grid, (n,): the step times the sum of (F - 1[y <= value])² over its values."""
    if dist.rounding is None or not dist.rounding.step:
        return None
    low, high = dist.ppf([_TAIL, 1.0 - _TAIL]).T
    start, end = min(float(low.min()), float(y.min())), max(float(high.max()), float(y.max()))
    if end - start > _MAX_VALUES * dist.rounding.step:
        return None
    values = dist.rounding.between(start, end)[None, :]
    parts = [slice(first, first + 256) for first in range(0, len(y), 256)]
    square = [np.sum((dist[part].cdf(values) - (values >= y[part])) ** 2, axis=1) for part in parts]
    return np.concatenate(square) * dist.rounding.step


def coverage(dist: PredictiveDistribution, y: ArrayLike, confidence: float = 0.9) -> float:
    """Share of rows whose y lies in the central interval of this confidence: should be the confidence itself.

    >>> from coverwalk.shapes import Shapes
    >>> normals = PredictiveDistribution(range(5), [1.0] * 4, [0.0] * 4, [1.0] * 4, [0] * 4, Shapes.student(np.inf))
    >>> coverage(normals, [0.1, -1.0, 1.6, 1.7], confidence=0.9)
    0.75
    """
    low, high = dist.interval(confidence)
    y = _rows(dist, y)
    return float(np.mean((low <= y) & (y <= high)))


def pit(dist: PredictiveDistribution, y: ArrayLike, random_state: RandomState = 0) -> Floats:
    """Probability integral transform F(y), (n,): uniform on [0, 1] when the distributions are right.

    At an atom F jumps, and the transform is drawn evenly from the jump.

    >>> from coverwalk.shapes import Shapes
    >>> normals = PredictiveDistribution(range(3), [1.0] * 2, [0.0] * 2, [1.0] * 2, [0] * 2, Shapes.student(np.inf))
    >>> pit(normals, [0.0, 1.0]).round(4).tolist()
    [0.5, 0.8413]
    """
    values: Floats = dist.cdf(_rows(dist, y))
    if dist.rounding is not None:
        values = values - make_uniform(random_state, values.shape) * dist.pmf(y)
    return np.maximum(values, 0.0)


def pit_histogram(dist: PredictiveDistribution, y: ArrayLike, bins: int = 20) -> tuple[Floats, Floats]:
    """Histogram of the probability integral transform: heights (bins,), 1 when calibrated, and edges (bins + 1,).

    >>> from coverwalk.shapes import Shapes
    >>> normals = PredictiveDistribution(range(5), [1.0] * 4, [0.0] * 4, [1.0] * 4, [0] * 4, Shapes.student(np.inf))
    >>> pit_histogram(normals, [-1.0, -0.5, 0.5, 1.0], bins=2)
    (array([1., 1.]), array([0. , 0.5, 1. ]))
    """
    return np.histogram(pit(dist, y), bins=bins, range=(0.0, 1.0), density=True)


def reliability(dist: PredictiveDistribution, y: ArrayLike, levels: ArrayLike) -> Floats:
    """Share of rows covered by the central interval of each confidence level, (k,): the levels when calibrated.

    >>> from coverwalk.shapes import Shapes
    >>> normals = PredictiveDistribution(range(3), [1.0] * 2, [0.0] * 2, [1.0] * 2, [0] * 2, Shapes.student(np.inf))
    >>> reliability(normals, [0.1, 1.0], [0.5, 0.9]).tolist()
    [0.5, 1.0]
    """
    central = np.abs(2 * pit(dist, y) - 1)
    shares: Floats = np.mean(central[:, None] <= np.atleast_1d(np.asarray(levels, dtype=np.float64)), axis=0)
    return shares


def calibration_error(dist: PredictiveDistribution, y: ArrayLike) -> float:
    """Mean distance of the sorted F(y) from the uniform quantiles they estimate: 0 when right, at most 1/2.

    Even the true distributions have about 0.3 / sqrt(n), the mean height of a Brownian bridge.

    >>> from coverwalk.shapes import Shapes
    >>> normals = PredictiveDistribution(range(3), [1.0] * 2, [0.0] * 2, [1.0] * 2, [0] * 2, Shapes.student(np.inf))
    >>> calibration_error(normals, normals.ppf([0.25, 0.75])[0])
    0.0
    """
    values = np.sort(pit(dist, y))
    return float(np.mean(np.abs(values - (np.arange(values.size) + 0.5) / values.size)))
