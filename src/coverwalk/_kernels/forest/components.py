"""What a fitted tree keeps of its contexts, and what they learn: a component for each local model on the way."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.files.schema import Array, Scope, require, stored

REGRESSION, DENSITY_OF_RESIDUALS, DENSITY_OF_Y = 0, 1, 2
MAX_MODELS = 3  # of a context: one of each kind
OUTLIERS = -1  # label of the component that is in no tree

RIDGE = 0.3  # of a plane about the context's function, in rows
MAX_PLANE = 32  # terms of a plane that is learned row by row; with more inputs it is a constant
MIN_WEIGHT = 1e-300


@stored(read_first=("kind",), check=lambda state, scope: _check_records(state, scope))
class Records(NamedTuple):
    """The R components that have weight, those of context k at first[k]:first[k+1]; and C contexts that have any.

    A context's regressions are one component: at its centre mu(x), the average of their functions, with their average
    variance times one plus the mean leverage of its rows under the best of them. (The leverage of x itself, in place of
    the mean, gained nothing: see docs/forest.md.)
    """

    first: Annotated[Ints, Array(np.int64, "N + 1", offsets="R")]
    kind: Annotated[Ints, Array(np.int64, "R", low=REGRESSION, high=DENSITY_OF_Y)]
    # posterior probability that the walk stops there and takes this local model, under S priors
    weight: Annotated[Floats, Array(float, "S", "R", low=0, high=1 + 1e-9)]
    s2: Annotated[Floats, Array(float, "R", above=0)]  # squared scale
    low: Annotated[Floats, Array(float, "C", "p")]  # the range of a context's rows: inputs are clamped to it
    high: Annotated[Floats, Array(float, "C", "p")]
    centre: Annotated[Floats, Array(float, "C", "d")]
    mean: Annotated[Floats, Array(float, "C")]  # of y
    degree: Annotated[Ints, Array(np.int64, "C", low=0, high=2)]  # of the best regression
    n_rows: Annotated[Ints, Array(np.int64, "C", low=0, high=10**15)]

    @property
    def slot(self) -> Ints:
        """Which of the C contexts each of the N is; -1 where it has no records."""
        has = np.diff(self.first) > 0
        return np.where(has, np.cumsum(has) - 1, -1)


def _check_records(state: Any, scope: Scope) -> None:
    sizes = np.diff(state.first)
    require("weight", len(state.weight) >= 1)
    require("first", state.first[1] > 0 and int((sizes > 0).sum()) == scope["C"])
    require("first", sizes <= MAX_MODELS)


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
