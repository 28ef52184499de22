"""Curves of single inputs, which add up: what one input does to y need not be found again in each context of a tree.

A curve has a height at each of its knots and is straight between them. The prior is an additive Gaussian process
(Duvenaud, Nickisch & Rasmussen, NIPS 2011): half of its variance is that of a random walk over the knots, which takes
steps, and half that of smooth functions of several lengths.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.linalg import cholesky

from coverwalk._arrays import Floats, Ints
from coverwalk.files.schema import Array, require, stored

LENGTHS = (0.15, 0.3, 0.6, 1.2)  # of smooth curves, in units of order one
MIN_KNOTS, MAX_KNOTS = 3, 64  # of a curve
MAX_KNOTS_IN_ALL = 640
EVEN = 3  # one in so many knots is for a range with few rows


@stored(check=lambda state, scope: _check_knots(state.knots))
@dataclass(frozen=True)
class Curves:
    """sum_j f_j(z_a), a = column_j.

    Examples
    --------
    >>> Z = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    >>> curves = Curves.planned(Z, 64)
    >>> curves.knots.shape
    (2, 32)
    >>> curves.features(Z).shape
    (500, 64)
    """

    column: Annotated[Ints, Array(np.int64, "q", index="p")]
    knots: Annotated[Floats, Array(float, "q", "K")]  # in ascending order; a column of few values repeats the last
    heights: Annotated[Floats, Array(float, "q", "K")]

    @classmethod
    def none(cls) -> "Curves":
        """Zero everywhere."""
        return cls(np.empty(0, np.int64), np.empty((0, 1)), np.empty((0, 1)))

    @classmethod
    def planned(cls, plain: Floats, n_knots: int) -> "Curves":
        """With knots at values of rows (n, p), about so many in all, for the columns that vary; no heights yet."""
        columns = [(a, np.sort(column)) for a, column in enumerate(plain.T) if np.ptp(column) > 0.0]
        if not columns or len(columns) * MIN_KNOTS > MAX_KNOTS_IN_ALL:
            return cls.none()
        each = int(np.clip(n_knots // len(columns), MIN_KNOTS, MAX_KNOTS))
        knots = [_knots(values, each) for _, values in columns]
        return cls(np.array([a for a, _ in columns]), np.array(knots), np.zeros((len(columns), each)))

    @property
    def n_features(self) -> int:
        """One for each knot."""
        return sum(len(np.unique(knots)) for knots in self.knots)

    def features(self, plain: Floats, out: Floats | None = None) -> Floats:
        """Functions (n, F) of rows (n, p), whose coefficients have prior deviations of one."""
        out, done = np.empty((len(plain), self.n_features)) if out is None else out, 0
        for (knots, root), a in zip(self._roots(), self.column):
            below = np.clip(np.searchsorted(knots, plain[:, a], side="right") - 1, 0, len(knots) - 2)
            share = np.clip((plain[:, a] - knots[below]) / np.diff(knots)[below], 0.0, 1.0)[:, None]
            out[:, done : done + len(knots)] = (1.0 - share) * root[below] + share * root[below + 1]
            done += len(knots)
        return out

    def with_coefficients(self, coefficients: Floats) -> "Curves":
        """The curves that are the sum of `features` times these (F,)."""
        heights, done = np.empty(self.knots.shape), 0
        for j, (knots, root) in enumerate(self._roots()):
            found = root @ coefficients[done : done + len(knots)]
            heights[j, : len(knots)], heights[j, len(knots) :] = found, found[-1]
            done += len(knots)
        return replace(self, heights=heights)

    def _roots(self) -> Iterator[tuple[Floats, Floats]]:
        """Of each curve, the different knots (k,), and the root of the prior covariance of its heights there."""
        for knots in map(np.unique, self.knots):
            far, rank = np.abs(knots[:, None] - knots), np.linspace(0.0, 1.0, len(knots))
            smooth = np.mean([np.exp(-0.5 * (far / length) ** 2) for length in LENGTHS], axis=0)
            walk = 1.0 - np.abs(rank[:, None] - rank)
            yield knots, cholesky((0.5 * walk + 0.5 * smooth) / len(self.knots))


def _knots(values: Floats, n: int) -> Floats:
    """Some of the sorted values (n,), among them both ends: most at ranks, the others nearly even over the range.

    >>> _knots(np.array([0.0, 1.0, 1.0, 1.0, 1.0, 2.0]), 6).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    ranks = np.linspace(0, len(values) - 1, n - n // EVEN).astype(np.int64)
    even = np.linspace(values[0], values[-1], n // EVEN + 2)[1:-1]
    found = np.unique(values[np.concatenate([ranks, np.searchsorted(values, even)])])
    return np.append(found, np.full(n - len(found), found[-1]))


def _check_knots(knots: Any) -> None:
    require("knots", knots.shape[1] > 0)
    require("knots", np.diff(knots, axis=1) >= 0.0)
    require("knots", knots[:, 0] < knots[:, -1])
