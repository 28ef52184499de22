"""Cells of y common to all x: y that was rounded, or jittered, is bounded or has gaps jumps at the same places for all.

A local model blurs such a jump, since it looks at few rows. So beside the forest's p(y|x) there is an expert that has a
histogram over the cells,

    p_T(y|x) = (1 - P(x)) p(y|x) + P(x) sum_c Q(c|x) U_c(y),      Q(c|x) proportional to P(c|x)^T

in which p itself has the mass P(c|x) in each cell, and P(x) in all; what p has beyond the cells stays with p. U_c is
uniform where the cell has its rows. The weight of the expert comes from the pool, in which there is one for each of
some exponents T, on held-out rows and cells that were found without them; T is their mean. See docs/forest.md.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.distributions.density import cell_logpdf
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.forest.y_cells import cell_masses
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.files.schema import Object, Real, stored
from coverwalk.forest.experts.cell_edges import Cells, find_cells, find_heaps, find_repeats
from coverwalk.forest.pool import extrapolated, pool_weights
from coverwalk.preparation.rounding import Rounding

Halves = tuple[list[PredictiveDistribution], list[PredictiveDistribution]]

Y_CELLS = -3  # label of the cells' components
UNIT_CELL = Shapes.cells([1.0], [0.0], [1.0])
EXPONENTS = np.array([1.0, 1.25, 1.5, 1.75, 2.0])  # a pool of trees that err each in its own way is blunt
# rows of the prior: one for the forest without cells, since y may yet come from beyond the supports, and one for all T
PRIOR = np.append(1.0, np.full(len(EXPONENTS), 1.0 / len(EXPONENTS)))
MIN_WEIGHT_OF_CELLS = 0.3  # less is not worth its components
MIN_GAIN = 3.0  # nats, of the held-out rows, in each half of them
MIN_HELD_OUT = 100  # left out; fewer tell nothing
MAX_JUDGES = 400  # of these; more would tell little more
MAX_ROWS = 2**15  # in which cells are looked for
MOST_STEPS = (2048, 512)  # of y that may pile up: sums over all steps take long, more so if y is limited


@stored()
class YCells(NamedTuple):
    """A histogram beside the trees."""

    weight: Annotated[float, Real(above=0, below=1)]
    exponent: Annotated[float, Real(low=1, high=2)]  # T
    cells: Annotated[Cells, Object(Cells)]


def with_y_cells(dist: PredictiveDistribution, y_cells: YCells, shape: int) -> PredictiveDistribution:
    """The same distributions and a component for each cell, ``shape`` being that of `UNIT_CELL` in their table."""
    cells = y_cells.cells
    mass = y_cells.weight * _sharpened(masses(dist, cells.left, cells.right), y_cells.exponent)
    return with_cells(dist, 1.0 - mass.sum(axis=1), mass, (cells.low, cells.high), shape, Y_CELLS)


def with_cells(
    dist: PredictiveDistribution, rest: Floats, mass: Floats, ends: tuple[Floats, Floats], shape: int, label: int
) -> PredictiveDistribution:
    """The same distributions times ``rest`` (n,), and components of this mass (n, C), uniform between the ends (C,)."""
    (low, high), (n, C) = ends, mass.shape
    old, offsets = dist.components, dist.components.offsets + C * np.arange(n + 1)
    counts = np.diff(old.offsets)
    kept = np.arange(old.weight.size) + C * np.repeat(np.arange(n), counts)
    added = offsets[1:, None] - C + np.arange(C)
    assert dist.context is not None
    columns = (
        (old.weight * np.repeat(rest, counts), mass),
        (old.loc, low),
        (old.scale, high - low),
        (old.shape, np.int32(shape)),
        (dist.context, label),
    )
    joined = []
    for before, cells in columns:
        column = np.empty(offsets[-1], before.dtype)
        column[kept], column[added] = before, cells
        joined.append(column)
    part = dist[:]
    part.components, part.context = Components(offsets, *joined[:4]), joined[4]
    return part


def masses(dist: PredictiveDistribution, left: Floats, right: Floats) -> Floats:
    """What the rows have in each cell, (n, C)."""
    mass = np.empty((len(dist), len(left)))
    cell_masses(dist.components, dist.shapes.table, dist.shapes.cdf_tables, left, right, mass)
    return mass


def _sharpened(mass: Floats, exponent: float) -> Floats:
    """Masses (n, C) to the power of this exponent, with the sums they had."""
    total = mass.sum(axis=1, keepdims=True)
    raised = np.power(mass / np.maximum(mass.max(axis=1, keepdims=True), 1e-300), exponent)
    return np.asarray(raised * (total / np.maximum(raised.sum(axis=1, keepdims=True), 1e-300)))


def choose_y_cells(
    y: Floats,
    rounding: Rounding | None,
    folds: Sequence[slice],
    predicted: Halves,
    every: Floats,
    gain: float,
    weight: Floats,
) -> YCells | None:
    """The cells, their weight and the exponent, estimated on held-out rows; None where cells do not help.

    y (n,), latent where it is rounded, in an order of its own; folds: the held-out rows, of which each of two small
    forests has ``predicted`` a distribution a fold; every: all y there are; gain: see `pool_weights`; weight: of the
    held-out rows, in the order of the folds. Half of the held-out rows judge cells that were found without them, then
    the other half.
    """
    held_out = np.concatenate([np.arange(len(y))[fold] for fold in folds])
    if len(held_out) < MIN_HELD_OUT:
        return None
    predicted = ([dist.rounded(None) for dist in predicted[0]], [dist.rounded(None) for dist in predicted[1]])
    first, second = (np.concatenate([dist.mean() for dist in dists]) for dists in predicted)
    hint = 0.5 * first + 0.5 * second
    finders: list[Callable[[Floats, Ints], Cells | None]] = [
        lambda y_known, others: find_cells(y_known, y[held_out[others]], hint[others])
    ]
    if rounding and rounding.step and np.ptp(rounding.value(y)) <= MOST_STEPS[rounding.limited] * rounding.step:
        finders += [
            lambda y_known, _: find_heaps(y_known, rounding),
            lambda y_known, _: find_repeats(y_known, rounding),
        ]
    observed = rounding.cells(rounding.value(y)) if rounding else (y, y)  # all is judged by the mass of these
    best: tuple[float, YCells | None] = (0.0, None)
    for find in finders:
        judged: tuple[list[Floats], list[Floats]] = ([], [])
        counted: list[Floats] = []
        for half in range(2):
            judges, others = np.arange(half, len(held_out), 2)[: MAX_JUDGES // 2], np.arange(1 - half, len(held_out), 2)
            cells, start = find(np.delete(y, held_out[half::2]), others), 0
            if cells is None:
                break
            for k, fold in enumerate(folds):
                rows = judges[(judges >= start) & (judges < start + len(predicted[0][k]))] - start
                ends = observed[0][fold][rows], observed[1][fold][rows]
                for of_forest, dists in zip(judged, predicted):
                    of_forest.append(_log_densities(dists[k][rows], ends, cells))
                counted.append(weight[start:][rows])
                start += len(predicted[0][k])
            halves = [np.concatenate(of_forest) for of_forest in judged]
            v, gained = _weights(halves[0], halves[1], np.concatenate(counted), gain)
            if gained < MIN_GAIN * (1 + half):
                break
        else:
            of_cells = 1.0 - float(v[0])
            cells = find(every[:MAX_ROWS], np.arange(len(held_out)))
            if cells is not None and of_cells >= MIN_WEIGHT_OF_CELLS and gained > best[0]:
                best = gained, YCells(of_cells, float(EXPONENTS @ v[1:]) / of_cells, cells)
    return best[1]


def _weights(first: Floats, second: Floats, counted: Floats, gain: float) -> tuple[Floats, float]:
    """The pool's weights of the forest without cells and of the experts with them, and by how much rows gain by it."""
    v = pool_weights(first, PRIOR, counted, other=second, gain=gain)
    one, other = (np.logaddexp.reduce(half + np.log(v), axis=1) for half in (first, second))
    gained = extrapolated(one, other, gain) - extrapolated(first[:, 0], second[:, 0], gain)
    return v, float(gained @ counted)


def _log_densities(dist: PredictiveDistribution, observed: tuple[Floats, Floats], cells: Cells) -> Floats:
    """Of y (n,), without cells and with them under every exponent: (n, E).

    Where y is rounded, ``observed`` (n,), (n,) being the ends of its rounding cells, a density is the mean over these.
    """
    unit = cells.right[-1] - cells.left[0]  # of y: in it densities are of order one
    p, mass = _mean_density(dist, *observed, unit), masses(dist, cells.left, cells.right)
    uniform = _mean_heights(*observed, cells, unit)
    densities = [p]
    for exponent in EXPONENTS:
        sharp = _sharpened(mass, exponent)
        densities.append(p + np.einsum("nc,nc->n", sharp, uniform) - sharp.sum(axis=1) * p)
    return np.log(np.maximum(np.column_stack(densities), 1e-300))


def _mean_density(dist: PredictiveDistribution, low: Floats, high: Floats, unit: float) -> Floats:
    """Of each row between its own low and high, (n,), in units of y."""
    out = np.empty((len(low), 1))
    cell_logpdf(dist.components, dist.shapes.table, low[:, None].copy(), high[:, None].copy(), out)
    return np.asarray(np.exp(out[:, 0] + np.log(unit)))


def _mean_heights(low: Floats, high: Floats, cells: Cells, unit: float) -> Floats:
    """The mean density, between low and high (n,), of the uniform distribution on each of the supports; (n, C)."""
    start, end = np.maximum(low[:, None], cells.low), np.minimum(high[:, None], cells.high)
    width = np.broadcast_to((high - low)[:, None], start.shape)
    part = np.divide(np.maximum(end - start, 0.0), width, out=(end >= start).astype(np.float64), where=width > 0.0)
    return np.asarray(part / ((cells.high - cells.low) / unit))
