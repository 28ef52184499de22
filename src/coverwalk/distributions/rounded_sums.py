"""Sums over the values of rounded y: entropy, moments, and the values that a CRPS needs."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution

__all__ = ["add_rounding", "grid_near", "sum_over_grid"]

Floats = NDArray[np.float64]

TAIL = 1e-8  # beyond both of these quantiles nothing is summed
MAX_VALUES = 20_000  # of a grid in a row; a finer one changes nothing
MAX_NUMBERS = 2e6  # values times rows; a grid of more is as good as none
NEAR = 1e-5  # beyond both of these quantiles F (1 - F) adds nothing
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
    if (end - start) / dist.rounding.step * max(y.size, 1) > MAX_NUMBERS:
        return None
    return dist.rounding.between(start, end)


def sum_over_grid(dist: "PredictiveDistribution", mean: Floats, var: Floats) -> None:
    """Fill mean, var (n,) of y on a grid with bounds, from the masses of its values."""
    assert dist.rounding is not None
    for i in range(len(mean)):
        row = dist if dist.shape == () else dist[i]
        values = dist.rounding.between(*(float(end) for end in row.ppf([1e-3 * TAIL, 1.0 - 1e-3 * TAIL])))
        mass = row.pmf(values)
        mass /= mass.sum()
        mean[i] = mass @ values
        var[i] = mass @ (values - mean[i]) ** 2
