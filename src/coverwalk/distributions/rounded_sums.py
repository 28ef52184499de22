"""Sums over the values of rounded y: entropy, moments, and the values that a CRPS needs."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.distributions.warped import piece_moments

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution
    from coverwalk.preparation.rounding import Rounding

__all__ = ["add_rounding", "bounded_grid_moments", "grid_near", "no_cells"]

Floats = NDArray[np.float64]
Cells = tuple[NDArray[np.int64], Floats, Floats]

TAIL = 1e-8  # beyond both of these quantiles nothing is summed, and no cell told apart
MAX_VALUES = 20_000  # of a grid in a row; a finer one changes nothing
MAX_NUMBERS = 2e6  # values times rows; a grid of more is as good as none
NEAR = 1e-5  # beyond both of these quantiles F (1 - F) adds nothing
MAX_STEPS = 2000  # of a grid whose CRPS is a sum over its values
MAX_CELLS = 256  # of a grid that are told apart
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

    The cells where a row has its mass are told apart; of a row that spreads over too many, those next to the bounds.
    Elsewhere y has the moments of a continuous y, and what the formula of Euler and Maclaurin adds for the rounding.
    """
    rounding, table = dist.rounding, dist.shapes.table
    assert rounding is not None
    low, high = np.reshape(dist.interval(1.0 - 2.0 * TAIL), (2, -1))
    wide = high - low > MAX_CELLS * rounding.step
    for rows in (np.flatnonzero(~wide), np.flatnonzero(wide)):
        if not len(rows):
            continue
        part = dist if len(rows) == len(mean) else dist[rows]
        first, second = rounding.value(mean[rows]), np.empty(len(rows))
        if wide[rows[0]]:
            cells, (lowest, highest) = no_cells(len(rows)), _beside_bounds(rounding)
            pieces = rounding.pieces(np.concatenate([lowest, highest]))
            up, down = (
                np.full(len(rows), values[k]) if len(values) else None for k, values in ((-1, lowest), (0, highest))
            )
        else:
            cells, up, down = _cells_of_rows(rounding, low[rows], high[rows]), high[rows], low[rows]
            pieces = rounding.pieces(np.array([end for end in (rounding.low, rounding.high) if np.isfinite(end)]))
        piece_moments(part.components, table, *pieces, cells, first, second)
        _add_rounding_between(part, up, down, first, second)
        mean[rows], var[rows] = first, second


def no_cells(n: int) -> Cells:
    """For `piece_moments`: n rows none of whose cells are told apart."""
    return np.zeros(n + 1, np.int64), np.zeros(1), np.zeros(1)


def _cells_of_rows(rounding: "Rounding", low: Floats, high: Floats) -> Cells:
    """For `piece_moments`: the cells of the grid from low to high (n,) of each row."""
    first = np.rint((low - rounding.origin) / rounding.step).astype(np.int64)
    counts = np.rint((high - rounding.origin) / rounding.step).astype(np.int64) - first + 1
    offsets = np.concatenate([[0], np.cumsum(counts + 1)])
    index = np.repeat(first - offsets[:-1], counts + 1) + np.arange(offsets[-1])  # one beyond the last: only its start
    values, last = rounding.at_steps(index), offsets[1:] - 1
    ends, upper = rounding.ends(values)
    ends[last] = upper[last - 1]
    return offsets, ends, values


def _add_rounding_between(
    dist: "PredictiveDistribution", up: Floats | None, down: Floats | None, mean: Floats, var: Floats
) -> None:
    """Add to moments (n,) what rounding adds where cells were not told apart: above the values up, below down (n,).

    With p the density and M the mass from a to b, both ends of cells, a sum over cells is more than the integral by
    step^2 / 12 (p(a) - p(b)), and of squares about the mean by step^2 / 12 (M + 2 (a - mean) p(a) - 2 (b - mean) p(b)).
    """
    rounding, latent = dist.rounding, dist.rounded(None)
    assert rounding is not None
    beyond, shift, squares = np.zeros(len(mean)), np.zeros(len(mean)), np.zeros(len(mean))
    for sign, values in ((1.0, up), (-1.0, down)):
        if values is None:
            beyond += 1.0
            continue
        y, z = values + sign * 0.5 * rounding.step, rounding.ends(values)[1 if sign > 0 else 0]
        inside = np.isfinite(z)
        slope = rounding.bounds.log_slope(y) if rounding.bounds else 0.0
        at = z[0] if dist.shape == () else z
        with np.errstate(invalid="ignore"):
            density = sign * np.where(inside, np.exp(np.reshape(latent.logpdf(at), -1) + slope), 0.0)
            squares += np.where(inside, 2.0 * (y - mean) * density, 0.0)
        beyond += np.reshape(latent.sf(at) if sign > 0 else latent.cdf(at), -1)
        shift += density
    twelfth = rounding.step**2 / 12.0
    wide = up is None or down is None or bool(np.all(up < down))
    var += twelfth * (beyond - wide + squares) - (twelfth * shift) ** 2
    mean += twelfth * shift


def _beside_bounds(rounding: "Rounding") -> tuple[Floats, Floats]:
    """The first values of a grid above its lower bound, and the last below its upper one."""
    reach = MAX_CELLS * rounding.step / 4
    low = rounding.between(rounding.low, rounding.low + reach) if rounding.low > -np.inf else np.empty(0)
    high = rounding.between(rounding.high - reach, rounding.high) if rounding.high < np.inf else np.empty(0)
    return low, high
