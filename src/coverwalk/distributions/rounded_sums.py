"""Sums over the values of rounded y: entropy, moments, and the values that a CRPS needs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.distributions.warped import piece_moments

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution
    from coverwalk.preparation.rounding import Rounding

__all__ = ["add_rounding", "bounded_grid_moments", "grid_near"]

Floats = NDArray[np.float64]

TAIL = 1e-8  # beyond both of these quantiles nothing is summed
MAX_VALUES = 20_000  # of a grid in a row; a finer one changes nothing
MAX_NUMBERS = 2e6  # values times rows; a grid of more is as good as none
NEAR = 1e-5  # beyond both of these quantiles F (1 - F) adds nothing
MAX_STEPS = 2000  # of a grid whose CRPS is a sum over its values
MAX_CELLS = 128  # of a grid that are told apart for moments
_LEVELS = 4096  # quantiles, for the entropy under bounds
_INSIDE = 256  # points in an opened cell


def add_rounding(dist: "PredictiveDistribution", out: Floats) -> None:
    """Turn the entropies out (n,) of the latent y into those of y: the mean of -logpdf."""
    rounding, latent = dist.rounding, dist.rounded(None)
    assert rounding is not None
    for i in range(len(out)):
        row, hidden = (dist, latent) if dist.shape == () else (dist[i], latent[i])
        if rounding.limited:
            out[i] = -np.mean(row.logpdf(row.ppf((np.arange(_LEVELS) + 0.5) / _LEVELS)))
        elif rounding.step:
            low, high = (float(row.ppf(q)) for q in (TAIL, 1.0 - TAIL))
            if high - low > MAX_VALUES * rounding.step:
                continue
            log_density = row.logpdf(rounding.between(low, high))
            out[i] = -np.sum(np.exp(log_density) * log_density) * rounding.step
        else:
            for low, high, mass in zip(*rounding.cells(rounding.values), row.pmf(rounding.values)):
                at = low + (high - low) * (np.arange(_INSIDE) + 0.5) / _INSIDE
                log_density = hidden.logpdf(at)
                out[i] += np.mean(np.exp(log_density) * log_density) * (high - low)
                out[i] -= mass * np.log(mass) if mass > 0 else 0.0


def grid_near(dist: "PredictiveDistribution", y: Floats) -> Floats | None:
    """The values of y's grid that have some mass in some row, and those between them and y; None where too many."""
    if dist.rounding is None or not dist.rounding.step or not np.all(np.isfinite(y)):
        return None
    low, high = dist.interval(1.0 - 2.0 * NEAR)
    start, end = float(min(np.min(low), np.min(y))), float(max(np.max(high), np.max(y)))
    n_values = (end - start) / dist.rounding.step
    if n_values > MAX_STEPS or n_values * max(y.size, 1) > MAX_NUMBERS:
        return None
    return dist.rounding.between(start, end)


def bounded_grid_moments(dist: "PredictiveDistribution", mean: Floats, var: Floats) -> None:
    """Mean and variance (n,) of y on a grid with bounds, in place of those of the latent y.

    The cells where a row has its mass are told apart. A row that spreads over many is as good as continuous but for the
    variance of rounding, save near a bound.
    """
    rounding = dist.rounding
    assert rounding is not None
    ends = np.reshape(dist.interval(1.0 - 2.0 * NEAR), (2, -1))
    for rows, low, high in _alike(*ends, MAX_CELLS * rounding.step):
        values = rounding.between(low, high) if high - low <= MAX_CELLS * rounding.step else _at_bounds(rounding)
        components = dist.components if len(rows) == len(mean) else dist[rows].components
        first, second = rounding.value(mean[rows]), np.empty(len(rows))
        piece_moments(components, dist.shapes.table, *rounding.pieces(values), first, second)
        if len(values):
            inside = np.sum(dist.pmf(values) if dist.shape == () else dist[rows].pmf(values[None, :]), axis=-1)
            second += rounding.step**2 / 12.0 * (1.0 - inside)
        mean[rows], var[rows] = first, second


def _alike(low: Floats, high: Floats, width: float) -> Iterator[tuple[NDArray[np.int64], float, float]]:
    """Groups of rows that lie from low to high (n,): within some width together, or each wider; with their ends."""
    wide = high - low > width
    if wide.any():
        yield np.flatnonzero(wide), -np.inf, np.inf
    rest = np.flatnonzero(~wide)
    rest = rest[np.argsort(low[rest])]
    while len(rest):
        together = int(np.argmax(np.append(high[rest] - low[rest[0]] > width, True)))
        yield rest[:together], float(low[rest[0]]), float(high[rest[:together]].max())
        rest = rest[together:]


def _at_bounds(rounding: "Rounding") -> Floats:
    """The first values of a grid above its lower bound, and the last below its upper one."""
    reach = MAX_CELLS * rounding.step / 2
    ends = [(low, low + reach) for low in [rounding.low] if low > -np.inf]
    ends += [(high - reach, high) for high in [rounding.high] if high < np.inf]
    return np.unique(np.concatenate([rounding.between(*pair) for pair in ends]))
