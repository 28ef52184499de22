"""What a fitted tree keeps of its contexts, and how it answers: a component for each local model on the way."""

import math
from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.forest.polynomial import features, inner_product, n_features, value
from coverwalk._kernels.linalg.cholesky import packed_leverage
from coverwalk.files.schema import Array, stored

__all__ = [
    "Learned",
    "Records",
    "inflation_of",
    "write_components",
]

REGRESSION, DENSITY_OF_RESIDUALS, DENSITY_OF_Y = 0, 1, 2
OUTLIERS = -1  # label of the component that is in no tree

RIDGE = 0.3  # of a plane about the context's function, in rows
MAX_PLANE = 32  # terms of a plane that is learned row by row; with more inputs it is a constant
MIN_WEIGHT = 1e-300


class Records(NamedTuple):
    """The R components that have weight, those of context k at first[k]:first[k+1]; and C contexts that have any.

    Files hold some of it: see `coverwalk.forest.stored_tree`.

    A context's regressions are one component: at its centre mu(x), the average of their functions, with their average
    variance, and with the leverage of the best of them.
    """

    first: Ints  # (N + 1,)
    kind: Ints  # (R,)
    weight: Floats  # (S, R) posterior probability that the walk stops there and takes this local model, under S priors
    s2: Floats  # (R,) squared scale, of a regression at leverage 0
    n_components: Ints  # (N,) records from the root to here
    total: Floats  # (S, N) their weight
    above: Ints  # (N,) the next context with records, from the parent upwards; -1 for none
    slot: Ints  # (N,) row of what follows, -1 for a context without records
    low: Floats  # (C, p) the range of a context's rows: inputs are clamped to it
    high: Floats
    centre: Floats  # (C, d)
    mean: Floats  # (C,) of y
    degree: Ints  # (C,) of the best regression
    ridge: Floats  # (C,)
    leverage: Floats  # (C,) its mean, or -1 where the factor tells
    n_rows: Ints  # (C,)
    rows_at: Ints  # (C,) first of its rows, where the factor is of rows, else -1
    rows: Floats  # (T, p)
    factor_at: Ints  # (C,)
    factors: Floats


@stored(
    plane=Array(float, "C", "m", low=-1e60, high=1e60),  # these learn from residuals of up to 1e30
    inverse=Array(float, "I", "m", "m", low=-1 / RIDGE - 1e-6, high=1 / RIDGE + 1e-6),
    nu=Array(float, "C", above=0),
    psi=Array(float, "C", above=0, high=1e100),
    log_odds=Array(float, "C"),
    log_choice=Array(float, "R"),
    seen=Array(np.int64, "C", low=0, high=10**15),
)
class Learned(NamedTuple):
    """What C contexts and R components have learned since their growth; see `_kernels.forest.learned`."""

    plane: Floats  # (C, m) theta; m = 1 + p, or 1 where inputs are many
    inverse: Floats  # (C, m, m) P; (0, m, m) before the first row
    nu: Floats  # (C,) rows
    psi: Floats  # (C,) squared residuals in units of those at the growth: scales are times sqrt(psi / nu)
    log_odds: Floats  # (C,) to stop here and not below, added to those of the growth
    log_choice: Floats  # (R,) of a component within its context, likewise
    seen: Ints  # (C,) number of the last row that came


@kernel
def inflation_of(x: Floats, c: int, records: Records, f: Floats) -> float:
    """1 + the leverage of x, clamped, in the context of slot c: f(x)' (F'F + ridge I)^-1 f(x), or its mean.

    From the packed factor in features, or from that of FF' + ridge I, of the context's rows.
    """
    leverage, degree, factors, at = records.leverage[c], records.degree[c], records.factors, records.factor_at[c]
    if leverage >= 0.0:
        return 1.0 + leverage
    first, n = records.rows_at[c], records.n_rows[c]
    if first < 0:
        features(x, degree, f)
        return 1.0 + packed_leverage(factors, at, n_features(degree, len(x)), f)
    for j in range(n):
        f[j] = inner_product(records.rows[first + j], 0, x, 0, len(x), degree)
    rest = max(inner_product(x, 0, x, 0, len(x), degree) - packed_leverage(factors, at, n, f), 0.0)
    return 1.0 + rest / records.ridge[c]


@kernel
def _path_weights(k: int, s: int, records: Records, learned: Learned, at: int, out: Floats) -> None:
    """Weights of the components from context k upwards, into out from ``at`` on; they sum to one.

    The growth's weights are those of the whole way. In a context that had u of them, and B below it, the odds to stop
    are u / B exp(log_odds).
    """
    j, below = at, 0.0
    while k >= 0:
        c, first, last = records.slot[k], records.first[k], records.first[k + 1]
        here, total = 0.0, 0.0
        for q in range(first, last):
            w = max(records.weight[s, q], MIN_WEIGHT)
            here += w
            out[j + q - first] = w * math.exp(learned.log_choice[q])
            total += out[j + q - first]
        stop = 1.0
        if below > 0.0:
            odds = here / below * math.exp(min(learned.log_odds[c], 600.0))
            stop = odds / (1.0 + odds)
            for i in range(at, j):
                out[i] *= 1.0 - stop
        for q in range(first, last):
            out[j + q - first] *= stop / total
        below += here
        j += last - first
        k = records.above[k]


@kernel
def write_components(
    X: Floats,
    leaf: Ints,
    order: Ints,
    degree: int,
    records: Records,
    learned: Learned,
    at: Ints,
    component: tuple[Any, ...],
    out: tuple[Any, ...],
) -> None:
    """Write the components of each row from at[i] on, and move at past them; leaf (n,) is where each row ends.

    Rows are taken in an order (n,): those of a leaf one after the other find its contexts where they are read fast.

    component: the weight of the tree, shape (R,) of each record and where its table begins, label of context
    0, from where locations count in each row (n,), and the centre, the unit and the unit of scales of what is written;
    out: weight (S, m) under each prior, loc, scale, shape, label (m,).
    """
    share, shape, first_shape, label, origin, (middle, unit, spread) = component
    out_weight, out_loc, out_scale, out_shape, out_label = out
    # Out of the tuple first: to hand two dozen arrays to a function costs more than what it does with them.
    first, kind, weight, s2 = records.first, records.kind, records.weight, records.s2
    slot, above, low, high, centre, mean = (
        records.slot,
        records.above,
        records.low,
        records.high,
        records.centre,
        records.mean,
    )
    plane, nu, psi = learned.plane, learned.nu, learned.psi
    p, m = X.shape[1], learned.plane.shape[1]
    x, f = np.empty(p), np.empty(centre.shape[1])
    for i in order:
        k = leaf[i] if slot[leaf[i]] >= 0 else above[leaf[i]]
        j = at[i]
        for s in range(len(weight)):
            _path_weights(k, s, records, learned, j, out_weight[s])
        while k >= 0:
            c = slot[k]
            for a in range(p):
                x[a] = min(max(X[i, a], low[c, a]), high[c, a])
            loc = value(x, degree, centre[c]) + plane[c, 0]
            for a in range(m - 1):
                loc += plane[c, 1 + a] * x[a]
            ratio = psi[c] / nu[c]
            for q in range(first[k], first[k + 1]):
                square = s2[q]
                if kind[q] == REGRESSION:
                    square *= inflation_of(x, c, records, f)
                if kind[q] < DENSITY_OF_Y:
                    square *= ratio
                for s in range(len(weight)):
                    out_weight[s, j] *= share
                out_loc[j] = middle + unit * (origin[i] + (mean[c] if kind[q] >= DENSITY_OF_Y else loc))
                out_scale[j] = spread * math.sqrt(square)
                out_shape[j] = first_shape + shape[q]
                out_label[j] = label + k
                j += 1
            k = above[k]
        at[i] = j
