"""Location and scale of a stream, learned as it runs: set from the rows seen at 1, 2, 4, ... rows, then kept.

When they are set the model is built again from the rows it has seen, in the new units. Earlier predictions
stay as they were; later ones are those of a model that had these units from the start. Nothing looks ahead.
"""

from typing import Annotated, NamedTuple

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.distributions.real_line import CORE
from coverwalk.files.schema import Array, stored

_OUTLYING = (
    16.0  # robust standard deviations beyond which a range is taken for outliers: the bulk keeps 1/16 of the cells
)
_QUARTILES = 1.349  # interquartile range of a normal law, in standard deviations
FARTHEST = 1e300  # in units of the scale; beyond it distances count as this
_TINY = float(np.finfo(np.float64).tiny)


@stored()
class Units(NamedTuple):
    """z = (y - loc) / scale for each column."""

    loc: Annotated[Floats, Array(float, "q", any_unit=True)]
    scale: Annotated[Floats, Array(float, "q", above=0, any_unit=True)]

    def apply(self, Y: Floats) -> Floats:
        """Y (n, q) in these units. By halves, so that the difference of opposite extremes does not overflow."""
        with np.errstate(over="ignore"):
            Z = (0.5 * Y - 0.5 * self.loc) / (0.5 * self.scale)
        return np.clip(Z, -FARTHEST, FARTHEST)

    def invert(self, Z: Floats) -> Floats:
        """Back to the units of y."""
        return self.loc + self.scale * Z

    @property
    def log_scale(self) -> float:
        """What a log density in z exceeds that in y by."""
        return float(np.log(self.scale).sum())


def units_of(Y: Floats) -> Units:
    """Units in which the range of the rows Y (n, q), and a little more, is the core [-CORE, CORE] of the cells.

    The range grows by 1/n of itself, what one more row is expected to add to a uniform sample. A column far wider than
    its quartiles is centred on its median instead; a constant column takes 1/n of its own size for its scale.

    >>> units_of(np.array([[0.0], [6.0], [3.0], [2.0]])).scale
    array([1.25])
    """
    n = len(Y)
    if n == 0:
        return Units(np.zeros(Y.shape[1]), np.ones(Y.shape[1]))
    ranked = np.sort(Y, axis=0)
    low, middle, high = ranked[0], ranked[n // 2], ranked[-1]
    with np.errstate(over="ignore"):
        half = (0.5 * high - 0.5 * low) * (1.0 + 1.0 / n)
        bulk = (0.5 * ranked[(3 * n) // 4] - 0.5 * ranked[n // 4]) * (2.0 * _OUTLYING / _QUARTILES)
        outlying = (bulk > 0) & (half > bulk)
        half = np.minimum(np.where(outlying, bulk, half), np.finfo(np.float64).max)
    loc = np.where(outlying, middle, 0.5 * low + 0.5 * high)
    constant = half == 0
    scale = np.where(constant, np.where(loc == 0, 1.0, np.abs(loc)) / n, half / CORE)
    return Units(loc, np.maximum(scale, _TINY))
