"""What a fitted tree keeps of its contexts, and what they learn: a component for each local model on the way."""

from typing import Annotated, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.files.schema import Array, stored

REGRESSION, DENSITY_OF_RESIDUALS, DENSITY_OF_Y = 0, 1, 2
MAX_MODELS = 3  # of a context: one of each kind
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


@stored()
class Learned(NamedTuple):
    """What C contexts and R components have learned since their growth; see `_kernels.forest.learned`."""

    # theta, learned from residuals of up to 1e30; m = 1 + p, or 1 where inputs are many
    plane: Annotated[Floats, Array(float, "C", "m", low=-1e60, high=1e60)]
    # P; none before the first row
    inverse: Annotated[Floats, Array(float, "I", "m", "m", low=-1 / RIDGE - 1e-6, high=1 / RIDGE + 1e-6)]
    nu: Annotated[Floats, Array(float, "C", above=0)]  # rows
    # squared residuals in units of those at the growth: scales are times sqrt(psi / nu)
    psi: Annotated[Floats, Array(float, "C", above=0, high=1e100)]
    log_odds: Annotated[Floats, Array(float, "C")]  # to stop here and not below, added to those of the growth
    log_choice: Annotated[Floats, Array(float, "R")]  # of a component within its context, likewise
    seen: Annotated[Ints, Array(np.int64, "C", low=0, high=10**15)]  # number of the last row that came
