"""Moments of y on a grid with bounds."""

from typing import TYPE_CHECKING

import numpy as np

from coverwalk._arrays import Bools, Floats, Ints
from coverwalk._kernels.distributions.warped import cdf_at_ends, piece_moments

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution
    from coverwalk.preparation.rounding import Rounding

__all__ = ["bounded_grid_moments", "no_cells"]

Cells = tuple[Ints, Floats, Floats, Floats]

TAIL = 1e-8  # weight of a component for which no cell is told apart
FAST, REACH = 1e-3, 10.0  # cells end as many times as far out as these quantiles, which take no time to find
MAX_CELLS = 128  # of a grid that are told apart: means of skewed y are good to 2e-9
EVEN = 2.5  # cells that a Student t is wide, or a normal, from where rounding adds step^2 / 12 alone: 1e-10, 1e-12


def bounded_grid_moments(dist: "PredictiveDistribution", squares: bool, mean: Floats, var: Floats) -> None:
    """Mean and variance (n,) of y on a grid with bounds, in place of those of the latent y.

    Of a row that has components which are narrow against its cells, those about its median are told apart; of a row
    without any the median's alone. Elsewhere y has the moments of a continuous y, and what the formula of Euler and
    Maclaurin adds for the rounding.
    """
    rounding = dist.rounding
    assert rounding is not None
    levels = [FAST, 0.5, 1.0 - FAST]
    start, centre, end = np.reshape(np.transpose(dist.rounded(None).ppf(levels)), (3, -1))
    ends = centre + REACH * (start - centre), centre, centre + REACH * (end - centre)
    low, middle, high = (rounding.value(z) for z in ends)
    reach = np.where(_has_narrow(dist, low, high), MAX_CELLS // 2 * rounding.step, 0.0)
    low = np.maximum(low, rounding.value_at(middle - reach))
    high = np.minimum(high, rounding.value_at(middle + reach))
    limits = np.array([end for end in (rounding.low, rounding.high) if np.isfinite(end)])
    mean[:] = rounding.value(mean)  # about which squares are summed
    cells = _cells_of_rows(dist, rounding, low, high)
    piece_moments(dist.components, dist.shapes.table, *rounding.pieces(limits), cells, squares, mean, var)
    _add_rounding_between(dist, low, high, mean, var)


def _has_narrow(dist: "PredictiveDistribution", low: Floats, high: Floats) -> Bools:
    """Whether a row (n,) has components that are narrow against its cells from low to high.

    Under the others rounding adds step^2 / 12 to the variance, and nothing else.
    """
    offsets, weight, _, scale, shape = dist.components
    assert dist.rounding is not None
    widest = np.max([np.subtract(*dist.rounding.ends(end)[::-1]) for end in (low, high)], axis=0)
    width = scale * dist.shapes.table.narrowest[shape]
    narrow = (width < EVEN * np.repeat(widest, np.diff(offsets))) & (weight > TAIL)
    return np.asarray(np.logical_or.reduceat(narrow, offsets[:-1]))


def no_cells(n: int) -> Cells:
    """For `piece_moments`: n rows none of whose cells are told apart."""
    return np.zeros(n + 1, np.int64), np.zeros(1), np.zeros(1), np.zeros(1)


def _cells_of_rows(dist: "PredictiveDistribution", rounding: "Rounding", low: Floats, high: Floats) -> Cells:
    """For `piece_moments`: the cells of the grid from low to high (n,) of each row."""
    first = np.rint((low - rounding.origin) / rounding.step).astype(np.int64)
    counts = np.rint((high - rounding.origin) / rounding.step).astype(np.int64) - first + 1
    offsets = np.concatenate([[0], np.cumsum(counts + 1)])
    index = np.repeat(first - offsets[:-1], counts + 1) + np.arange(offsets[-1])  # one beyond the last: only its start
    values, last = rounding.at_steps(index), offsets[1:] - 1
    ends, upper = rounding.ends(values)
    ends[last] = upper[last - 1]
    below = np.empty(len(ends))
    cdf_at_ends(dist.components, dist.shapes.table, dist.shapes.cdf_tables, offsets, ends, below)
    return offsets, ends, values, below


def _add_rounding_between(dist: "PredictiveDistribution", low: Floats, high: Floats, mean: Floats, var: Floats) -> None:
    """Add to moments (n,) what rounding adds where cells were not told apart: beyond the values low and high (n,), save
    at the limits.

    With p the density and M the mass from a to b, both ends of cells, a sum over cells is more than the integral by
    step^2 / 12 (p(a) - p(b)), and of squares about the mean by step^2 / 12 (M + 2 (a - mean) p(a) - 2 (b - mean) p(b)).
    """
    rounding, latent = dist.rounding, dist.rounded(None)
    assert rounding is not None
    mass, shift, squares = np.zeros(len(mean)), np.zeros(len(mean)), np.zeros(len(mean))
    for sign, values, limit in ((1.0, high, rounding.high), (-1.0, low, rounding.low)):
        ends = ((sign, values), (-sign, np.full(len(mean), limit))) if np.isfinite(limit) else ((sign, values),)
        for side, at in ends:  # from the first upwards, or downwards, to the second
            y, z = at + side * 0.5 * rounding.step, rounding.ends(at)[1 if side > 0 else 0]
            rest = (values != limit) & np.isfinite(z)
            z = np.where(rest, z, 0.0)
            slope = np.where(rest, rounding.bounds.log_slope(y), 0.0) if rounding.bounds else 0.0
            points = z[0] if dist.shape == () else z
            density = side * np.where(rest, np.exp(np.reshape(latent.logpdf(points), -1) + slope), 0.0)
            shift, squares = shift + density, squares + 2.0 * (y - mean) * density
            tail = np.reshape(latent.sf(points) if sign > 0 else latent.cdf(points), -1)
            mass += np.where(rest, tail if side == sign else -tail, 0.0)
    twelfth = rounding.step**2 / 12.0
    var += twelfth * (mass + squares) - (twelfth * shift) ** 2
    mean += twelfth * shift
