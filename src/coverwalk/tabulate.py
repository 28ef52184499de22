"""A predictive distribution from a log density alone: cells refined where the density moves, checked by their total."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coverwalk.distribution import PredictiveDistribution
from coverwalk.local._student2 import student2_logpdf, student2_ppf
from coverwalk.shapes import Shapes

__all__ = ["tabulate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-4  # of a cell's mass
FIRST_CELLS = (256, 4096, 65536)  # more where the total shows that a narrow peak fell between the points
TOTAL = 0.01  # how far the masses of a row may be from one before they are normalised
MOST_HALVINGS = 30


def tabulate(log_density: Callable[[Ints, Floats], Floats], n: int, loc: float, scale: float) -> PredictiveDistribution:
    """The laws of n rows known only by ``log_density(rows, y)``, as histograms with tails of Student's t.

    Cells are equal in the coordinate u = F(y), F the cdf of Student's t with 2 degrees of freedom around ``loc`` with
    ``scale``, and are halved until a halving no longer moves more than 1e-4 of the mass.

    >>> from scipy import stats
    >>> law = stats.norm(5.0, 0.01)
    >>> dist = tabulate(lambda rows, y: law.logpdf(y), 1, 0.0, 1.0)
    >>> bool(np.all(np.abs(dist.ppf([0.05, 0.5, 0.95])[0] - law.ppf([0.05, 0.5, 0.95])) < 1e-4))
    True
    """
    tables = [_row(lambda y, i=i: log_density(np.full(len(y), i), y), loc, scale) for i in range(n)]
    shapes = Shapes.join([Shapes.t2_cells(mass, low, width) for mass, low, width in tables])
    ones = np.ones(n)
    return PredictiveDistribution(np.arange(n + 1), ones, loc * ones, scale * ones, np.arange(n), shapes)


def _row(log_density: Callable[[Floats], Floats], loc: float, scale: float) -> tuple[Floats, Floats, Floats]:
    """Masses, left edges and widths of the cells of one law."""

    def mass_of(low: Floats, width: Floats) -> Floats:
        y = student2_ppf(low + 0.5 * width, loc, scale)
        return np.asarray(np.exp(log_density(y) - student2_logpdf(y, loc, scale)) * width)

    for cells in FIRST_CELLS:
        low, width = np.arange(cells) / cells, np.full(cells, 1.0 / cells)
        mass = mass_of(low, width)
        done: list[tuple[Floats, Floats, Floats]] = []
        for _ in range(MOST_HALVINGS):
            half_low = np.column_stack([low, low + 0.5 * width]).ravel()
            half_width = np.repeat(0.5 * width, 2)
            halves = mass_of(half_low, half_width)
            pair = halves.reshape(-1, 2)
            restless = (np.abs(pair[:, 0] - pair[:, 1]) > TOLERANCE) | (np.abs(pair.sum(1) - mass) > TOLERANCE)
            twice = np.repeat(restless, 2)
            done.append((halves[~twice], half_low[~twice], half_width[~twice]))
            low, width, mass = half_low[twice], half_width[twice], halves[twice]
            if not restless.any():
                break
        else:
            done.append((mass, low, width))
        mass, low, width = (np.concatenate(column) for column in zip(*done))
        if abs(mass.sum() - 1) < TOTAL:
            order = np.argsort(low)
            return mass[order] / mass.sum(), low[order], width[order]
    raise ValueError(
        f"a law with peaks narrower than {1 / FIRST_CELLS[-1]:.1g} of the scale of y cannot be tabulated (its cells hold "
        f"{mass.sum():.3g} instead of 1): ask logpdf, which is exact"
    )
