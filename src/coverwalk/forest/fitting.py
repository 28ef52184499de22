"""One tree fitted to rows: its contexts, their evidence, and the components that it leaves."""

from functools import cache
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints32
from coverwalk._kernels.forest.components import REGRESSION, Records
from coverwalk._kernels.forest.contexts import N_SHAPES, Fit, Grid, Layout, empty_fit, fit_contexts
from coverwalk._kernels.forest.evidence import local_evidence, stop_weights, walk_weights
from coverwalk._kernels.forest.kernel_density import bandwidths, kernel_atoms, kernel_tables
from coverwalk._kernels.forest.polynomial import n_features, places_of
from coverwalk._kernels.forest.records import at_rest, context_ranges, kept_records
from coverwalk.distributions.shapes import KERNELS, STUDENT, Shapes
from coverwalk.forest.experts.global_kernel import NO_WEIGHT
from coverwalk.forest.local_columns import Fill, fill_of, local_columns
from coverwalk.forest.members import FittedTree
from coverwalk.forest.tree import Tree

tables = cache(kernel_tables)
OUTLIER_DF = 3.0  # the fewest degrees of freedom whose variance is finite
MIN_WEIGHT = 0.03  # components below it, in their tree, are left out and the others made to sum to one


class Fitted(NamedTuple):
    """The contexts of a tree, fitted to rows."""

    X: Floats  # (n, p) what local models see, sorted by leaf
    layout: Layout
    fit: Fit
    fill: Fill


def fitted_contexts(
    tree: Tree, Z: Floats, r: Floats, grid: Grid, n_categories: tuple[int, ...], weight: Floats = NO_WEIGHT
) -> Fitted:
    """Fit the contexts of a tree to rows Z (n, p), r (n,), in units, with weights (n,) of mean one, or none.

    Inputs that are zero everywhere, as categories are to local models, take no time.
    """
    perm, layout = tree.arrange(Z)
    if len(weight):
        layout = layout._replace(weight=weight[perm])
    fill = fill_of(tree, Z, n_categories)
    X = np.take(local_columns(tree, Z, fill, n_categories), perm, axis=0)  # in half the time of [perm]
    nonzero = np.flatnonzero((X != 0.0).any(axis=0))
    fit = empty_fit(layout, grid, len(nonzero))
    some = X if len(nonzero) == X.shape[1] else np.ascontiguousarray(X[:, nonzero])
    fit_contexts(some, r[perm], layout, grid, tables(), fit)
    centre = np.zeros((len(fit.centre), n_features(grid.degree, X.shape[1])))
    centre[:, places_of(nonzero, grid.degree, X.shape[1])] = fit.centre
    return Fitted(X, layout, fit._replace(centre=centre), fill)


def fit_tree(
    tree: Tree,
    Z: Floats,
    r: Floats,
    grid: Grid,
    stops: tuple[float, ...],
    n_categories: tuple[int, ...],
    weight: Floats = NO_WEIGHT,
) -> FittedTree:
    """As `fitted_contexts`, and what is left of them under the posteriors of some stopping probabilities."""
    X, layout, fit, fill = fitted_contexts(tree, Z, r, grid, n_categories, weight)
    ranges = np.full((len(tree), X.shape[1]), np.inf), np.full((len(tree), X.shape[1]), -np.inf)
    context_ranges(X, layout, *ranges)
    return weighted_tree(layout, grid, fit, stops, ranges)._replace(fill=fill)


def weighted_tree(
    layout: Layout, grid: Grid, fit: Fit, stops: tuple[float, ...], ranges: tuple[Floats, Floats]
) -> FittedTree:
    """What is left of fitted contexts, with these ranges of their rows, under the posteriors of some stopping
    probabilities.
    """
    N, S = len(fit.s2), len(stops)
    log_weight, log_phi = np.empty((N, 1 + N_SHAPES)), np.empty(N)
    local_evidence(fit.log_score, fit.psi.shape[1], log_weight, log_phi)
    log_stop, log_go, weight = np.empty((S, N)), np.empty((S, N)), np.empty((S, N, 1 + N_SHAPES))
    for s, w in enumerate(stops):
        stop_weights(layout.left, log_phi, w, log_stop[s], log_go[s])
    walk_weights(layout.parent, log_weight, log_stop, log_go, weight)
    nonzero = np.asarray((weight >= MIN_WEIGHT).any(axis=0))
    nonzero[0, REGRESSION] = True
    records = kept_records(layout, grid, fit, weight, nonzero, ranges)
    shape, shapes = _shapes_of(records, fit, grid, layout)
    return FittedTree(records, shape, shapes, at_rest(records))


def _shapes_of(records: Records, fit: Fit, grid: Grid, layout: Layout) -> tuple[Ints32, Shapes]:
    """The table of standard shapes of a tree's records, and which is whose (R,)."""
    context = np.repeat(np.arange(len(layout.left)), np.diff(records.first))
    n = records.n_rows[records.slot[context]]
    if len(layout.weight):  # what the rows of a context weigh together, as in its bins
        below = np.concatenate([[0.0], np.cumsum(layout.weight)])
        n = np.maximum((below[layout.end] - below[layout.start] + 0.5).astype(np.int64), 1)[context]
    student = records.kind == REGRESSION
    df, place = np.unique(np.maximum(grid.nu_0 + n[student], OUTLIER_DF), return_inverse=True)
    shape = np.empty(len(n), np.int32)
    shape[student] = place
    shape[~student] = len(df) + np.arange((~student).sum())
    which = records.kind[~student] - 1
    counts = fit.counts[fit.shaped[context[~student]], which]
    widths = bandwidths()[fit.width[context[~student], which]]
    start = np.concatenate([[0], np.cumsum(3 + (counts > 0).sum(axis=1))])
    atoms = [np.empty(start[-1]) for _ in range(3)]
    kernel_atoms(counts, widths, n[~student], (start, *atoms))
    kind = np.repeat(np.array([STUDENT, KERNELS], np.int32), [len(df), len(counts)])
    starts = np.concatenate([np.zeros(len(df), np.int64), start])
    return shape, Shapes.trusted(kind, np.concatenate([df, np.full(len(counts), np.nan)]), starts, *atoms)
