"""p(y_a given y_b) of a forest, as a `PredictiveDistribution`: cells cut through, normals conditioned."""

import numpy as np
from scipy.special import gammaln

from coverwalk._arrays import Bools, Floats
from coverwalk.distributions.mixture import PredictiveDistribution, Shapes
from coverwalk.distributions.unit_shapes import unit_shapes
from coverwalk.forest.densities.density_forest import DensityForest
from coverwalk.forest.densities.normal_tree import Normals


def slices(forest: DensityForest, Y: Floats, known: Bools, target: int) -> PredictiveDistribution:
    """The distribution of column ``target`` given the known (q,) columns of rows Y (n, q), others integrated out."""
    rows = [_row(forest, y, known, target) for y in Y]
    counts = np.array([len(weight) for weight, _, _, _ in rows])
    tables = Shapes.join([table for _, _, _, table in rows])
    weight, loc, scale = (np.concatenate([row[i] for row in rows]) for i in range(3))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return PredictiveDistribution(offsets, weight, loc, scale, np.arange(len(weight)), tables)


def _row(forest: DensityForest, y: Floats, known: Bools, target: int) -> tuple[Floats, Floats, Floats, Shapes]:
    """Weights, locations, scales and shapes of the components for one y."""
    log_weights, locs, scales, tables = [], [], [], []
    log_kind = np.log(forest.weights)
    for tree in forest.cells:
        edges, heights, slope = tree.slice(y, known, target)
        width = np.diff(edges)
        shapes, masses = unit_shapes(edges[:-1], width, heights * width)
        log_weights += list(
            np.log(masses) + slope - np.log(tree.scale[known]).sum() + log_kind[0] - np.log(len(forest.cells))
        )
        locs += [tree.loc[target]] * 2
        scales += [tree.scale[target]] * 2
        tables += shapes
    log_normal, loc, scale, df = _condition(forest.normals, y, known, target)
    log_weight = np.concatenate([log_weights, log_normal + log_kind[1]])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    has_weight = weight > 0.0  # far from all known values some underflow
    n_cells = len(locs)
    parts = [table for table, has in zip(tables, has_weight[:n_cells]) if has]
    if has_weight[n_cells:].any():
        parts.append(Shapes.student(df[has_weight[n_cells:]]))
    return (
        weight[has_weight],
        np.append(locs, loc)[has_weight],
        np.append(scales, scale)[has_weight],
        Shapes.join(parts),
    )


def _condition(normals: Normals, y: Floats, known: Bools, target: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Log weight, location, scale and degrees of freedom (V,) of one column of Student t's given some others."""
    U = normals.U()
    S = np.einsum("vki,vkj->vij", U, U)
    b = int(known.sum())
    z = np.clip(normals.units.forward(np.where(known, y, normals.loc)[None, :])[0], -1e100, 1e100)[known]
    away = z - normals.mean[:, known]
    across, own = S[:, known, target], S[:, target, target]
    log_weight, mean, var, df = np.log(normals.weight), normals.mean[:, target], own, normals.df
    if b:
        within = S[:, known][:, :, known]
        solved = np.linalg.solve(within, np.stack([away, across], axis=2))
        square = np.einsum("vi,vi->v", away, solved[:, :, 0])
        _, log_det = np.linalg.slogdet(within)
        log_weight = log_weight + gammaln(0.5 * (df + b)) - gammaln(0.5 * df) - 0.5 * b * np.log(df * np.pi)
        log_weight = (
            log_weight - 0.5 * log_det - 0.5 * (df + b) * np.log1p(square / df) - np.log(normals.scale[known]).sum()
        )
        mean = mean + np.einsum("vi,vi->v", across, solved[:, :, 0])
        var = (own - np.einsum("vi,vi->v", across, solved[:, :, 1])) * (df + square) / (df + b)
        df = df + b
    scale = np.sqrt(np.maximum(var, 1e-300)) * normals.scale[target]
    return log_weight, normals.loc[target] + normals.scale[target] * mean, scale, df
