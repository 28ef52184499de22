"""A forest for p(y): trees of cells, trees of normals, and kernels, with shares learned from held-out rows."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import logsumexp

from coverwalk._arrays import Floats
from coverwalk.files.schema import Array, List, Object, stored
from coverwalk.forest.densities.cell_tree import CellTree, grow_cell_tree, random_units
from coverwalk.forest.densities.kernels import bandwidths, kernel_mixture
from coverwalk.forest.densities.normal_tree import Normals, grow_normals, growth_for
from coverwalk.forest.pool import pool_weights
from coverwalk.forest.threads import in_threads
from coverwalk.preparation.scaling import Scaling, units_of

FOLDS = 5
MAX_WEIGHED = 100_000  # rows that are enough to learn the shares from
_MIN_KERNELS = 0.05  # share of the kernels that is not worth their time
_CONSTANT = 1e-3  # a constant column is taken as rounded to this part of its size


@stored()
@dataclass(frozen=True)
class DensityForest:
    """The whole state of a fitted density: flat arrays."""

    cells: Annotated[list[CellTree], List(Object(CellTree, q="q"), low=1)]
    normals: Annotated[Normals, Object(Normals, q="q")]  # of all trees of normals, and the kernels
    weights: Annotated[Floats, Array(float, 2, above=0, total=1.0)]  # (2,) of the cells and of the normals

    @classmethod
    def grow(
        cls, Y: Floats, *, n_trees: int, stop: float, a: float, step: Floats, seed: int, n_threads: int
    ) -> "DensityForest":
        """Fit rows Y (n, q). Rows are sorted first, so that the order in which they are given does not matter."""
        rng = np.random.default_rng(seed)
        Y = np.ascontiguousarray(Y[np.lexsort(Y.T)][rng.permutation(len(Y))])
        base = units_of(Y)
        spread = _spread(Y, base)
        growth = growth_for(Y.shape[1], stop, a)
        seeds = [int(s) for s in rng.integers(2**31, size=n_trees)]

        def both(seed: int, rows: Floats) -> tuple[CellTree, Normals]:
            units = random_units(base, np.random.default_rng(seed))
            return grow_cell_tree(rows, units, step, stop, a), grow_normals(rows, spread, step, growth, seed)

        # Where a row is within its rounding step nobody knows: a density that is sharp at repeated values is no better.
        judged = Y[:MAX_WEIGHED] + step * (rng.random(Y[:MAX_WEIGHED].shape) - 0.5)

        def held_out(fold: int) -> Floats:
            """Log densities of a fold under each kind, grown without it (m, kinds)."""
            rows = Y[:MAX_WEIGHED]
            held_out_rows = np.arange(len(rows)) % FOLDS == fold
            seen = rows[~held_out_rows]
            if not len(seen) or not held_out_rows.any():
                return np.empty((0, 2 + len(widths)))
            trees = [both(s, seen) for s in (seeds[fold::FOLDS] or seeds[:1])]
            dists = [Normals.pooled([normals for _, normals in trees]), *kernel_mixture(seen, spread, step, widths)]
            cells = _pool([tree.logpdf(judged[held_out_rows]) for tree, _ in trees])
            return np.column_stack([cells, *(dist.logpdf(judged[held_out_rows]) for dist in dists)])

        widths = bandwidths(len(Y), Y.shape[1])
        kinds = _shares(np.concatenate(in_threads(held_out, range(FOLDS), n_threads)))
        trees = in_threads(lambda s: both(s, Y), seeds, n_threads)
        dists = [Normals.pooled([normals for _, normals in trees]), *kernel_mixture(Y, spread, step, widths)]
        nonzero = [(dist, weight) for dist, weight in zip(dists, kinds[1:]) if weight > 0.0]
        return cls(
            [cells for cells, _ in trees],
            Normals.mixed([dist for dist, _ in nonzero], np.array([weight for _, weight in nonzero])),
            np.array([kinds[0], kinds[1:].sum()]),
        )

    def logpdf(self, Y: Floats) -> Floats:
        """Log densities (n,) of points Y (n, q)."""
        log_weight = np.log(self.weights)
        cells = _pool([tree.logpdf(Y) for tree in self.cells])
        return np.asarray(np.logaddexp(log_weight[0] + cells, log_weight[1] + self.normals.logpdf(Y)))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws (n, q): a kind by its share, a tree, a context, a point."""
        counts = rng.multinomial(
            n, np.append(np.full(len(self.cells), self.weights[0] / len(self.cells)), self.weights[1])
        )
        drawn = [tree.sample(count, rng) for tree, count in zip(self.cells, counts[:-1].tolist())]
        drawn.append(self.normals.sample(int(counts[-1]), rng))
        return np.concatenate(drawn)[rng.permutation(n)]


def _pool(log_densities: list[Floats]) -> Floats:
    """The log of the mean density over trees."""
    return np.asarray(logsumexp(log_densities, axis=0) - np.log(len(log_densities)))


def _shares(log_density: Floats) -> Floats:
    """Shares (k,) of the mixture of densities with the most posterior probability, given their logs (m, k).

    The first two, cells and normals, have one row's worth of prior and are never 0. Of the others, kernels of several
    bandwidths, the one that does best alone is kept, if it has a share worth its time.
    """
    best = 2 + int(np.argmax(log_density[:, 2:].sum(axis=0)))
    weights = np.zeros(log_density.shape[1])
    weights[[0, 1, best]] = pool_weights(log_density[:, [0, 1, best]], np.array([1.0, 1.0, 0.0]))
    if weights[best] < _MIN_KERNELS:
        weights[:] = 0.0
        weights[:2] = pool_weights(log_density[:, :2], np.ones(2))
    return weights


def _spread(Y: Floats, base: Scaling) -> Scaling:
    """Units of about unit variance for the normals: half the middle two thirds, or what the cells have."""
    low, middle, high = np.sort(Y, axis=0)[(np.array([1, 3, 5]) * len(Y)) // 6]
    half = 0.5 * high - 0.5 * low
    return Scaling(middle, np.where(half > 0, half, base.scale), squash=False)


def rounding_step(Y: Floats) -> Floats:
    """The smallest difference (q,) between distinct values of a column; part of its size for a constant one.

    >>> rounding_step(np.array([[0.25, 3.0], [0.75, 3.0], [0.25, 3.0], [1.0, 3.0]]))
    array([0.25 , 0.003])
    """
    steps = []
    for column in Y.T:
        gaps = np.diff(np.unique(column))
        size = np.abs(column[0]) or 1.0
        steps.append(gaps.min() if len(gaps) else _CONSTANT * size)
    return np.asarray(np.maximum(np.array(steps), np.finfo(np.float64).tiny))
