"""What a forest is made of, and what follows from it: the parts of its trees, the local regressions, the latent y."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.contexts import Grid
from coverwalk._kernels.forest.node import MAX_CATEGORIES
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.files.schema import Flag, List, Maybe, Object, Real, Schema, Whole
from coverwalk.forest.experts.y_cells import YCells
from coverwalk.forest.members import Part
from coverwalk.preparation.outliers import Outliers
from coverwalk.preparation.rounding import Rounding
from coverwalk.preparation.row_codes import ranks, row_codes

__all__ = ["MAX_FEATURES", "Settings", "grid_of", "latent", "usual_rows"]

MIN_SCALE = 1e-4  # of a residual, in units of y's scale
SMALL_SET = 2**15  # rows up to which accuracy goes before time
MANY_ROWS, MANY_ROWS_LARGE = 8.0, 2.0  # Grid.many in small and in large sets
MAX_FEATURES = 256  # of a polynomial: the degree is the largest that has no more


@dataclass(frozen=True)
class Settings:
    """What a forest is made of; `ConditionalDensity` documents each.

    Where ``parts`` is empty all trees are alike, of ``degree`` and ``stop``, without a trend.
    """

    n_trees: int = 16
    degree: int = 2
    ridges: tuple[float, ...] = (0.03, 0.3, 3.0)
    stop: float = 0.5
    scale_factor: float = 1.0
    kernel: float = 0.0
    min_rows: int = 3
    n_candidates: int = 20
    n_judged: int = 1000
    seed: int = 0
    n_threads: int = 1
    n_categories: tuple[int, ...] = ()  # of each column, 0 for numbers; empty where all are numbers
    parts: tuple[Part, ...] = ()
    y_cells: YCells | None = field(default=None, compare=False)  # of y's density, common to all x
    rounding: Rounding | None = field(default=None, compare=False)  # of y
    outliers: Outliers | None = None  # of the latent y
    limits: tuple[float, float] = (-math.inf, math.inf)  # that were given for y
    find_limits: bool = False  # those that y shows by itself

    _schema = Schema(
        n_trees=Whole(1, 10_000),
        degree=Whole(0, 2),
        ridges=List(Real(above=0), low=1, high=1000, kind=tuple),
        stop=Real(above=0, below=1),
        scale_factor=Real(above=0),
        kernel=Real(low=0, high=1),
        min_rows=Whole(1),
        n_candidates=Whole(1, 10**6),
        n_judged=Whole(1),
        seed=Whole(-(2**62)),
        n_threads=Whole(1, 10_000),
        n_categories=List(Whole(0, MAX_CATEGORIES), kind=tuple),
        parts=List(Object(Part), high=1000, kind=tuple),
        y_cells=Maybe(Object(YCells)),
        rounding=Maybe(Object(Rounding)),
        outliers=Maybe(Object(Outliers)),
        limits=List(Real(inf=True, any_unit=True), low=2, high=2, kind=tuple),
        find_limits=Flag(),
    )

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
    return Grid(np.array(settings.ridges), degree, 2.0, many, MIN_SCALE)


def latent(X: Floats, y: Floats, settings: Settings, apart: bool = True) -> Floats:
    """What the trees are fitted to: y (n,) spread over its cells where it is rounded; equal rows apart, or together."""
    if settings.rounding is None:
        return y
    return settings.rounding.latent(X, y, ranks(row_codes(X, y)) if apart else 0)


def usual_rows(settings: Settings, X: Floats, y: Floats, *others: NDArray[Any]) -> list[NDArray[Any]]:
    """X (n, p), y (n,) and others, in the rows that trees learn: those that are no outliers."""
    if settings.outliers is None:
        return [X, y, *others]
    usual = settings.outliers.usual(latent(X, y, settings, apart=False))
    return [part[usual] for part in (X, y, *others)]
