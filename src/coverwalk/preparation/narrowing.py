"""Empty ranges of y, between its bulk and values far away that repeat, made narrow: local models would see them as y.

A value such as -999 for a failed measurement, or 0 for no sale where sales begin at 50, has a probability of its own.
But how far it lies from all other y tells nothing of them. So the range between is mapped to one of the width of the
value's cell; y in the bulk stays as it is.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.files.schema import Array, require, stored
from coverwalk.preparation.outliers import find_outliers


@stored(check=lambda state, scope: _check_narrowing(state))
class Narrowing(NamedTuple):
    """A map that rises in straight lines between knots, with slope one beyond them.

    >>> sales = Narrowing(np.array([0.0, 50.0, 500.0]), np.array([40.0, 50.0, 500.0]))
    >>> sales.forward(np.array([-1.0, 0.0, 25.0, 60.0])).tolist()
    [39.0, 40.0, 45.0, 60.0]
    >>> sales.backward(np.array([39.0, 45.0, 60.0])).tolist()
    [-1.0, 25.0, 60.0]
    """

    y: Annotated[Floats, Array(float, "knots", any_unit=True)]
    t: Annotated[Floats, Array(float, "knots", any_unit=True)]

    def forward(self, y: Floats) -> Floats:
        """From y to t."""
        return _interpolated(y, self.y, self.t)

    def backward(self, t: Floats) -> Floats:
        """From t to y."""
        return _interpolated(t, self.t, self.y)

    def slope(self, y: Floats) -> Floats:
        """dt/dy, to the left of a knot."""
        slopes = np.concatenate([[1.0], np.diff(self.t) / np.diff(self.y), [1.0]])
        return np.asarray(slopes[np.searchsorted(self.y, y)])


def _interpolated(x: Floats, knots: Floats, values: Floats) -> Floats:
    beyond = np.minimum(x - knots[0], 0.0) + np.maximum(x - knots[-1], 0.0)
    return np.asarray(np.interp(x, knots, values) + beyond)


def _check_narrowing(state: Any) -> None:
    require("knots", len(state.y) >= 2 and all(bool(np.all(np.diff(knots) > 0)) for knots in (state.y, state.t)))


def narrowed(rest: Floats, values: Floats, width: Floats) -> Narrowing | None:
    """For values (a,), in ascending order, with cells of this width (a,), beside all other y ``rest``; None where
    nothing is empty.
    """
    if len(rest) == 0:
        return None
    outliers = find_outliers(rest)
    rest = rest if outliers is None else rest[outliers.usual(rest)]
    low, high = float(rest.min()), float(rest.max())
    below, above = values < low, values > high
    distance = np.diff(np.concatenate([values[below], [low]])), np.diff(np.concatenate([[high], values[above]]))
    narrow = np.minimum(distance[0], width[below]), np.minimum(distance[1], width[above])
    knots = np.concatenate([values[below], [low], [high], values[above]])
    t = np.concatenate([low - np.cumsum(narrow[0][::-1])[::-1], [low, high], high + np.cumsum(narrow[1])])
    rises = low < high and bool(np.all(np.diff(t) > 0.0))
    return Narrowing(knots, t) if rises and not np.array_equal(knots, t) else None
