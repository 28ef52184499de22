"""Rows of mixtures: which components each has, and how rows are taken, joined and told apart."""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.distributions.mixture import Components
from coverwalk.distributions.shapes import Shapes, flat
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.preparation.rounding import Rounding

__all__ = ["SUM_TOLERANCE", "Component", "MixtureRows"]

SUM_TOLERANCE = 1e-9  # of weights, and of probabilities


class Component(NamedTuple):
    """One local model in one context: y = loc + scale * e, with e of a standard shape."""

    weight: float
    loc: float  # in the units of y, also where bounds or atoms make y a function of the sum above
    scale: float  # then half the distance between the y of loc - scale and that of loc + scale
    kind: int  # of the shape
    context: Any


class MixtureRows(UnivariateDistribution):
    """The components of n rows; `PredictiveDistribution` has the parameters, and what the components say of y."""

    rounding: Rounding | None = None  # where y is not its latent y: see `rounded`

    def __init__(
        self,
        offsets: ArrayLike,
        weight: ArrayLike,
        loc: ArrayLike,
        scale: ArrayLike,
        shape: ArrayLike,
        shapes: Shapes,
        *,
        context: ArrayLike | None = None,
        describe: Callable[[int], Any] | None = None,
    ) -> None:
        self.components = Components(
            flat("offsets", offsets, np.int64),
            flat("weight", weight, np.float64),
            flat("loc", loc, np.float64),
            flat("scale", scale, np.float64),
            flat("shape", shape, np.int32),
        )
        self.shapes = shapes
        self.context = None if context is None else flat("context", context, np.int64)
        self.describe = describe
        _check_components(self.components, shapes, self.context)

    @classmethod
    def trusted(
        cls,
        components: Components,
        shapes: Shapes,
        context: Ints | None = None,
        describe: Callable[[int], Any] | None = None,
    ) -> Self:
        """Of components that need no check: parts of others, and those that a fitted model has just made.

        Parameters
        ----------
        components : Components
            Flat arrays of all components.
        shapes : Shapes
            Their shapes.
        context : ndarray of int, optional
            The context of each component.
        describe : callable, optional
            From the number of a context to what it is.

        Returns
        -------
        PredictiveDistribution
            Of the given components.
        """
        dist = object.__new__(cls)
        dist.components, dist.shapes, dist.context, dist.describe = components, shapes, context, describe
        return dist

    def rounded(self, rounding: Rounding | None) -> Self:
        """The distributions of y whose latent y these are: `Rounding` puts the mass of its cells on their values.

        Parameters
        ----------
        rounding : Rounding or None
            How y was rounded; None changes nothing.

        Returns
        -------
        PredictiveDistribution
            Of the same rows.
        """
        part = copy(self)
        part.rounding = rounding
        return part

    @property
    def _n(self) -> int:
        return self.components.offsets.size - 1

    def __getitem__(self, key: Any) -> Self:
        rows = self._rows_at(key)
        offsets, columns = self.components.offsets, self.components[1:]
        counts = np.diff(offsets)[np.atleast_1d(rows)]
        ends = np.concatenate([[0], np.cumsum(counts)])
        if (isinstance(key, slice) and key.step in (None, 1)) or rows.ndim == 0:
            first = offsets[np.atleast_1d(rows)[0]] if rows.size else 0
            picked: Any = slice(first, first + ends[-1])
        else:
            picked = np.repeat(offsets[:-1][rows] - ends[:-1], counts) + np.arange(ends[-1])
        components = Components(ends, *(column[picked] for column in columns))
        part = self.trusted(
            components, self.shapes, None if self.context is None else self.context[picked], self.describe
        )
        part.rounding, part._one = self.rounding, rows.ndim == 0
        return part

    def __repr__(self) -> str:
        if self._one:
            count = self.components.weight.size
            return f"PredictiveDistribution(one row, {count} component{'s' * (count != 1)})"
        mean = self.components.weight.size / max(self._n, 1)
        shown = f"{mean:.2g}" if mean < 10 else f"{mean:.0f}"
        return f"PredictiveDistribution({self._n} row{'s' * (self._n != 1)}, {shown} components per row)"

    def _points(self, y: ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        """Y as (n, k) points, and the shape of the answer."""
        y = np.asarray(y, dtype=np.float64)
        if self._one:
            return np.require(y.reshape(1, -1), requirements=["C", "W"]), y.shape
        shape = (self._n, *y.shape[1:])
        if y.ndim and y.shape[0] not in (1, self._n):
            raise ValueError(
                f"y must be a number, one y for each of the {self._n} rows, or have rows first; got shape {y.shape}. "
                "To evaluate one grid in every row, pass grid[None, :]"
            )
        k = int(np.prod(y.shape[1:], dtype=np.int64))
        return np.require(np.broadcast_to(y, shape).reshape(self._n, k), requirements=["C", "W"]), shape

    def _answer(self, values: NDArray[Any], shape: tuple[int, ...]) -> Any:
        """An array of the wanted shape; a plain number for shape ()."""
        values = values.reshape(shape)
        return values if values.ndim else values[()]

    def pool(self, k: int) -> Self:
        """Every k consecutive rows mixed with equal weights into one: n/k rows.

        Parameters
        ----------
        k : int
            Rows to mix; it divides n.

        Returns
        -------
        PredictiveDistribution
            Of n/k rows.
        """
        if self._one or k < 1 or self._n % k:
            raise ValueError(f"pool mixes k consecutive rows, so k must divide the number of rows; got {k}")
        part = self[:]
        part.components = self.components._replace(
            offsets=self.components.offsets[::k].copy(), weight=self.components.weight / k
        )
        return part

    def contexts(self, top: int | None = None) -> list[Any]:
        """The components of a row, those with the largest weights first; for many rows a list of such lists.

        >>> from coverwalk.distributions.mixture import PredictiveDistribution
        >>> dist = PredictiveDistribution([0, 2], [0.3, 0.7], [0.0, 1.0], [1.0, 1.0], [0, 0], Shapes.student(4.0),
        ...                               context=[10, 11], describe=lambda label: f"box {label}")
        >>> dist[0].contexts(top=1)
        [Component(weight=0.7, loc=1.0, scale=1.0, kind=0, context='box 11')]
        """
        if not self._one:
            return [row.contexts(top) for row in self]
        order = np.argsort(-self.components.weight, kind="stable")[:top]
        return [self.component(m) for m in order.tolist()]

    def component(self, m: int) -> Component:
        """Component m, in the order of ``components``.

        Parameters
        ----------
        m : int
            Number of the component.

        Returns
        -------
        Component
            Its weight, context and local model.
        """
        _, weight, locs, scales, shape = self.components
        loc, scale = float(locs[m]), float(scales[m])
        if self.rounding is not None and (self.rounding.limited or len(self.rounding.values)):
            low, loc, high = self.rounding.unrounded([loc - scale, loc, loc + scale]).tolist()
            scale = (high - low) / 2
        label = None if self.context is None else int(self.context[m])
        context = label if self.describe is None or label is None else self.describe(label)
        return Component(float(weight[m]), loc, scale, int(self.shapes.kind[shape[m]]), context)


def _check_components(components: Components, shapes: Shapes, context: Ints | None) -> None:
    offsets, weight, loc, scale, shape = components
    m = weight.size
    sizes = {"loc": loc.size, "scale": scale.size, "shape": shape.size}
    if context is not None:
        sizes["context"] = context.size
    for name, size in sizes.items():
        if size != m:
            raise ValueError(f"{name} must have one entry for each of the {m} weights, got {size}")
    if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != m:
        raise ValueError(f"offsets must begin with 0 and end with the number of components, {m}")
    if np.any(np.diff(offsets) <= 0):
        raise ValueError("offsets must rise: every row needs at least one component")
    if m and (shape.min() < 0 or shape.max() >= len(shapes)):
        raise ValueError(f"shape must index the table of {len(shapes)} shapes, got {shape.min()} to {shape.max()}")
    if not np.all(np.isfinite(loc)):
        raise ValueError("loc must be finite, got NaN or infinity")
    if not np.all((scale > 0) & np.isfinite(scale)):
        raise ValueError("scale must be positive and finite; got zero, negative, infinite or NaN")
    if not np.all(weight >= 0):
        raise ValueError("weight must not be negative or NaN")
    totals = np.add.reduceat(weight, offsets[:-1]) if m else weight
    wrong = np.flatnonzero(np.abs(totals - 1) > SUM_TOLERANCE)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"weights must sum to one in each row, those of row {row} sum to {totals[row]!r}: normalise them"
        )
