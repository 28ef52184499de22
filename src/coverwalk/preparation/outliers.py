"""Values of y far beyond all others, such as slips of a pen, broken sensors or other units; `find_outliers` finds them.

One row a thousand scales away stretches the unit of y, the trend, and the scale of every context that holds it. Trees
learn nothing from such rows: a heavy-tailed distribution over all of y stands for them, with the weight that they have.
"""

from typing import Annotated, NamedTuple

import numpy as np
from scipy.special import stdtrit

from coverwalk._arrays import Bools, Floats
from coverwalk.files.schema import Real, stored

DF = 4.0  # of Student's t: y with tails as heavy as these has no outliers
FALSE_ALARM = 0.05  # chance of finding any in such y
MAX_WEIGHT = 0.1  # of the rows: if there are more, y is like that
MIN_ROWS = 20
QUANTILES = (0.05, 0.25, 0.75, 0.95)


@stored()
class Outliers(NamedTuple):
    """Where y is usual, and how many of the rows are not."""

    low: Annotated[float, Real(any_unit=True)]
    high: Annotated[float, Real(any_unit=True)]
    weight: Annotated[float, Real(above=0, high=MAX_WEIGHT)]

    def usual(self, y: Floats) -> Bools:
        """Which y (n,) are."""
        return np.asarray((self.low <= y) & (y <= self.high))


def find_outliers(y: Floats) -> Outliers | None:
    """Those of y (n,), if any: farther from the median than Student's t with 4 degrees of freedom would put one of
    n rows. Its scale is the one by which it has the quartiles of y, or the quantiles of 5 and 95 % if that is larger.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_t(4, size=1000)
    >>> find_outliers(y) is None
    True
    >>> y[0] = 1e6
    >>> float(find_outliers(y).weight)
    0.001
    """
    if len(y) < MIN_ROWS:
        return None
    q, t = np.quantile(y, QUANTILES), stdtrit(DF, QUANTILES)
    scale = max((q[2] - q[1]) / (t[2] - t[1]), (q[3] - q[0]) / (t[3] - t[0]))
    reach = -scale * stdtrit(DF, 0.5 * FALSE_ALARM / len(y))
    low, high = np.median(y) - reach, np.median(y) + reach
    if not (scale > 0.0 and np.isfinite(high - low)):
        return None
    found = Outliers(float(low), float(high), MAX_WEIGHT)
    weight = float(np.mean(~found.usual(y)))
    return found._replace(weight=weight) if 0.0 < weight <= MAX_WEIGHT else None
