"""What a forest is made of, and what follows from it: the parts of its trees, the local regressions, the latent y."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.contexts import Grid
from coverwalk._kernels.forest.node import MAX_CATEGORIES
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.files.schema import Flag, List, Maybe, Object, Real, Whole, stored
from coverwalk.forest.experts.atoms import Atoms
from coverwalk.forest.experts.y_cells import YCells
from coverwalk.forest.members import Part
from coverwalk.preparation.outliers import Outliers
from coverwalk.preparation.rounding import Rounding
from coverwalk.preparation.row_codes import ranks, row_codes

MIN_SCALE = 1e-4  # of a residual, in units of y's scale
SMALL_SET = 2**15  # rows up to which accuracy goes before time
MANY_ROWS, MANY_ROWS_LARGE = 8.0, 2.0  # Grid.many in small and in large sets
FEW_TREES = 4  # a forest of fewer is meant to be fast: it chooses from fewer rows, and its stream grows less often
MAX_FEATURES = 256  # of a polynomial: the degree is the largest that has no more


@stored()
@dataclass(frozen=True)
class Settings:
    """What a forest is made of; `ConditionalDensity` documents each.

    Where ``parts`` is empty all trees are alike, of ``degree`` and ``stop``, without a trend.
    """

    n_trees: Annotated[int, Whole(1, 10_000)] = 16
    degree: Annotated[int, Whole(0, 2)] = 2
    ridges: Annotated[tuple[float, ...], List(Real(above=0), low=1, high=1000, kind=tuple)] = (0.03, 0.3, 3.0)
    stop: Annotated[float, Real(above=0, below=1)] = 0.5
    scale_factor: Annotated[float, Real(above=0)] = 1.0
    kernel: Annotated[float, Real(low=0, high=1)] = 0.0
    min_rows: Annotated[int, Whole(1)] = 3
    n_candidates: Annotated[int, Whole(1, 10**6)] = 20
    n_judged: Annotated[int, Whole(1)] = 1000
    seed: Annotated[int, Whole(-(2**62))] = 0
    n_threads: Annotated[int, Whole(1, 10_000)] = 1
    # of each column, 0 for numbers; empty where all are numbers
    n_categories: Annotated[tuple[int, ...], List(Whole(0, MAX_CATEGORIES), kind=tuple)] = ()
    # columns that are left out, because held-out rows are predicted better without them
    unused: Annotated[tuple[int, ...], List(Whole(0, "p - 1"), kind=tuple)] = ()
    parts: Annotated[tuple[Part, ...], List(Object(Part), high=1000, kind=tuple)] = ()
    # of y's density, common to all x
    y_cells: Annotated[YCells | None, Maybe(Object(YCells))] = field(default=None, compare=False)
    rounding: Annotated[Rounding | None, Maybe(Object(Rounding))] = field(default=None, compare=False)  # of y
    outliers: Annotated[Outliers | None, Maybe(Object(Outliers))] = None  # of the latent y
    # where the trees do not learn the values that repeat
    atoms: Annotated[Atoms | None, Maybe(Object(Atoms, p="p", C="rounding.atoms + 1"))] = field(
        default=None, compare=False
    )
    # that were given for y
    limits: Annotated[tuple[float, float], List(Real(inf=True, any_unit=True), low=2, high=2, kind=tuple)] = (
        -math.inf,
        math.inf,
    )
    find_limits: Annotated[bool, Flag()] = False  # those that y shows by itself

    @property
    def limited(self) -> bool:
        """Whether limits were given for y."""
        return self.limits != (-math.inf, math.inf)

    def part_of_trees(self) -> list[Part]:
        """The part to which each tree belongs, evenly mixed: the first trees of a forest are a small forest.

        >>> few, many = Part(1, 1, 0.5, False), Part(3, 2, 0.5, False)
        >>> [part.degree for part in Settings(n_trees=4, parts=(few, many)).part_of_trees()]
        [2, 1, 2, 2]
        """
        parts = self.parts or (Part(self.n_trees, self.degree, self.stop, False),)
        places = [((i + 0.5) / part.n_trees, part) for part in parts for i in range(part.n_trees)]
        return [part for _, part in sorted(places, key=lambda place: place[0])]


def grid_of(settings: Settings, degree: int, p: int, n_rows: int) -> Grid:
    """The local regressions that every context of a tree of this degree tries, given p inputs and the rows."""
    while degree > 0 and n_features(degree, p) > MAX_FEATURES:
        degree -= 1
    many = MANY_ROWS if n_rows <= SMALL_SET else MANY_ROWS_LARGE
    return Grid(np.array(settings.ridges), degree, 2.0, many, MIN_SCALE, p)


def latent(X: Floats, y: Floats, settings: Settings, apart: bool = True) -> Floats:
    """What the trees are fitted to: y (n,) spread over its cells where it is rounded; equal rows apart, or together."""
    if settings.rounding is None:
        return y
    return settings.rounding.latent(X, y, ranks(row_codes(X, y)) if apart else 0)


def usual_rows(settings: Settings, X: Floats, y: Floats, *others: NDArray[Any]) -> list[NDArray[Any]]:
    """X (n, p), y (n,) and others, in the rows to which trees are fitted: no outliers, nor atoms with own forests."""
    X, y, *others = tree_rows(settings, X, y, *others)  # type: ignore[assignment]
    if settings.outliers is None:
        return [X, y, *others]
    usual = settings.outliers.usual(latent(X, y, settings, apart=False))
    return [part[usual] for part in (X, y, *others)]


def tree_rows(settings: Settings, X: Floats, y: Floats, *others: NDArray[Any]) -> list[NDArray[Any]]:
    """X (n, p), y (n,) and others, in the rows that trees learn: no atoms that have a forest of their own."""
    if settings.atoms is None or settings.rounding is None:
        return [X, y, *others]
    rest = ~settings.rounding.is_atom(y)
    return [part[rest] for part in (X, y, *others)]
