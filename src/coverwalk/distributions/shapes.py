"""The standard shapes of which predictive distributions are mixed: Student t, kernel density, two kinds of cells."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coverwalk._arrays import Bools, Floats, Ints, Ints32
from coverwalk._kernels.distributions.row_cdf import N_PIECES, student_pieces
from coverwalk._kernels.distributions.shapes import BLOCK, CELLS, KERNELS, STUDENT, T2_CELLS, Table, partial_sums
from coverwalk._kernels.distributions.student import student_log_norm
from coverwalk.files.schema import Array, Scope, stored
from coverwalk.locks import cached

__all__ = ["CELLS", "KERNELS", "STUDENT", "T2_CELLS", "Shapes"]

_SUM_TOLERANCE = 1e-9


def flat(name: str, values: ArrayLike, dtype: Any) -> NDArray[Any]:
    """A one-dimensional, contiguous, writable array of one dtype: kernels are compiled for nothing else."""
    array = np.require(values, dtype, ["C", "W"])
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    return array


@stored(read_first=("kind", "atom_weight"), check=lambda state, scope: _check_shapes(state, scope))
@dataclass(frozen=True, eq=False)
class Shapes:
    """A table of s standard shapes, distributions of e in y = loc + scale * e.

    Parameters
    ----------
    kind : (s,) int
        0 (`STUDENT`): Student t with ``df`` degrees of freedom, infinity for the normal.
        1 (`KERNELS`): mixture of normals with centres ``atom_center`` and standard deviations ``atom_width``.
        2 (`T2_CELLS`): uniform cells in u = F(e) = 1/2 + e/(2 sqrt(2 + e²)), the cdf of Student's t with two degrees
        of freedom, so every e has a density; ``atom_center`` is a cell's left edge in u, ``atom_width`` its width in u.
        3 (`CELLS`): uniform cells in e itself; left edge and width.
    df : (s,) float
        Read for kind 0 only.
    start : (s + 1,) int
        Shape s owns the atoms start[s]:start[s+1]; a Student t owns none.
    atom_weight, atom_center, atom_width : (a,) float
        Masses that sum to one in each shape, and the above. Cells are sorted and do not overlap; gaps hold no mass.

    Examples
    --------
    >>> shapes = Shapes.join([Shapes.student([3.0, np.inf]), Shapes.cells([0.5, 0.5], [-1.0, 0.0], [1.0, 2.0])])
    >>> len(shapes), shapes.mean.tolist(), shapes.var.tolist()
    (3, [0.0, 0.0, 0.25], [3.0, 1.0, 0.7708333333333333])
    """

    kind: Annotated[Ints32, Array(np.int32, "s")]
    df: Annotated[Floats, Array(float, "s", low=1e-3, inf=True, nan=True)]
    start: Annotated[Ints, Array(np.int64, "s + 1", offsets="a")]
    atom_weight: Annotated[Floats, Array(float, "a")]
    atom_center: Annotated[Floats, Array(float, "a", low=-1e150, high=1e150)]  # squares exist
    atom_width: Annotated[Floats, Array(float, "a", above=0, high=1e150)]

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "kind", flat("kind", self.kind, np.int32))
        put(self, "start", flat("start", self.start, np.int64))
        for name in ("df", "atom_weight", "atom_center", "atom_width"):
            put(self, name, flat(name, getattr(self, name), np.float64))
        self._check()

    def _check(self) -> None:
        n, n_atoms = self.kind.size, self.atom_weight.size
        if self.df.size != n or self.start.size != n + 1:
            raise ValueError(
                f"kind, df and start must have s, s and s + 1 entries, got {n}, {self.df.size} and {self.start.size}"
            )
        if self.atom_center.size != n_atoms or self.atom_width.size != n_atoms:
            raise ValueError("atom_weight, atom_center and atom_width must have one length")
        if self.start[0] != 0 or self.start[-1] != n_atoms or np.any(np.diff(self.start) < 0):
            raise ValueError(f"start must rise from 0 to the number of atoms, {n_atoms}")
        if np.any((self.kind < STUDENT) | (self.kind > CELLS)):
            raise ValueError(f"kind must be 0, 1, 2 or 3, got {sorted(set(self.kind.tolist()))}")
        student = self.kind == STUDENT
        if not np.all(self.df[student] > 0):
            raise ValueError("degrees of freedom must be positive (infinity for the normal)")
        counts = np.diff(self.start)
        if np.any(counts[~student] == 0) or np.any(counts[student] != 0):
            raise ValueError("a Student t has no atoms, every other shape at least one")
        self._check_atoms(np.repeat(np.arange(n), counts))

    def _check_atoms(self, owner: Ints) -> None:
        weight, center, width = self.atom_weight, self.atom_center, self.atom_width
        if not (np.all(weight >= 0) and np.all(np.isfinite(center)) and np.all((width > 0) & np.isfinite(width))):
            raise ValueError(
                "atoms must have masses >= 0, finite centres and positive finite widths; got others or NaN"
            )
        totals = np.bincount(owner, weight, minlength=self.kind.size)[self.kind != STUDENT]
        if np.any(np.abs(totals - 1) > _SUM_TOLERANCE):
            worst = totals[np.argmax(np.abs(totals - 1))]
            raise ValueError(
                f"the masses of a shape's atoms must sum to one, one shape's sum to {worst!r}: normalise them"
            )
        right = center + width
        cells = self.kind[owner] >= T2_CELLS
        together = (owner[1:] == owner[:-1]) & cells[1:]
        if np.any(together & (center[1:] < right[:-1] - 1e-12 * (np.abs(right[:-1]) + width[:-1]))):
            raise ValueError("cells of one shape must be sorted by their left edge and must not overlap")
        in_u = self.kind[owner] == T2_CELLS
        if np.any((center[in_u] < 0) | (right[in_u] > 1)):
            raise ValueError("cells of kind 2 are in u and must lie in [0, 1]")

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in ("table", "cdf_tables")
        }  # worked out again where needed

    def __len__(self) -> int:
        return self.kind.size

    @classmethod
    def trusted(
        cls, kind: Ints32, df: Floats, start: Ints, atom_weight: Floats, atom_center: Floats, atom_width: Floats
    ) -> "Shapes":
        """Of arrays that need no check: parts of other tables, and those that a kernel has just made."""
        table = object.__new__(cls)
        table.__dict__.update(
            kind=kind, df=df, start=start, atom_weight=atom_weight, atom_center=atom_center, atom_width=atom_width
        )
        return table

    @classmethod
    def student(cls, df: ArrayLike) -> "Shapes":
        """Student t shapes, one for each number of degrees of freedom; infinity is the normal."""
        df = np.atleast_1d(np.asarray(df, dtype=np.float64))
        none = np.empty(0)
        return cls(np.full(df.size, STUDENT, np.int32), df, np.zeros(df.size + 1, np.int64), none, none, none)

    @classmethod
    def _one(cls, kind: int, weight: ArrayLike, center: ArrayLike, width: ArrayLike) -> "Shapes":
        weight, center, width = (np.asarray(values, dtype=np.float64) for values in (weight, center, width))
        start = np.array([0, weight.size], np.int64)
        return cls(np.array([kind], np.int32), np.array([np.nan]), start, weight, center, width)

    @classmethod
    def kernels(cls, weight: ArrayLike, center: ArrayLike, width: ArrayLike) -> "Shapes":
        """One mixture of normals."""
        return cls._one(KERNELS, weight, center, width)

    @classmethod
    def t2_cells(cls, weight: ArrayLike, left: ArrayLike, width: ArrayLike) -> "Shapes":
        """One histogram over u in (0, 1), u the cdf of Student's t with two degrees of freedom."""
        return cls._one(T2_CELLS, weight, left, width)

    @classmethod
    def cells(cls, weight: ArrayLike, left: ArrayLike, width: ArrayLike) -> "Shapes":
        """One histogram over e."""
        return cls._one(CELLS, weight, left, width)

    @classmethod
    def join(cls, tables: Iterable["Shapes"]) -> "Shapes":
        """One table of all shapes of several, in their order."""
        tables = list(tables)
        counts = np.concatenate([np.diff(table.start) for table in tables])
        columns = ("atom_weight", "atom_center", "atom_width")
        return cls.trusted(
            np.concatenate([table.kind for table in tables]),
            np.concatenate([table.df for table in tables]),
            np.concatenate([[0], np.cumsum(counts)]),
            *(np.concatenate([getattr(table, name) for table in tables]) for name in columns),
        )

    @property
    def mean(self) -> Floats:
        """Means (s,): NaN for a Student t with df <= 1, which has none."""
        return self.table.mean

    @property
    def var(self) -> Floats:
        """Variances (s,): inf for a Student t with 1 < df <= 2 and for kind 2 cells with mass that reach u = 0 or 1.

        NaN where there is no mean.
        """
        return self.table.var

    @cached
    def table(self) -> Table:
        """What the kernels read: this table with its logarithms, partial sums and moments, worked out once."""
        student = self.kind == STUDENT
        df = np.where(student, self.df, np.nan)
        log_norm = np.full(len(self), np.nan)
        log_norm[student] = student_log_norm(df[student])
        owner = np.repeat(np.arange(len(self)), np.diff(self.start))
        with np.errstate(divide="ignore"):
            log_height = np.log(self.atom_weight) - np.log(self.atom_width)
        log_height[self.kind[owner] == KERNELS] -= 0.5 * np.log(2 * np.pi)
        below, above = np.zeros_like(log_height), np.zeros_like(log_height)
        partial_sums(self.start, self.atom_weight, below, above)
        mean, var = self._moments(owner, student)
        columns = (self.atom_weight, self.atom_center, self.atom_width)
        mass, center, width = (np.append(column, np.full(BLOCK, end)) for column, end in zip(columns, (0.0, 0.0, 1.0)))
        narrowest, kernels = np.where(student, 1.0, 0.0), np.flatnonzero(self.kind == KERNELS)
        if len(kernels):
            ends = np.column_stack([self.start[kernels], self.start[kernels + 1]])
            narrowest[kernels] = np.minimum.reduceat(width, ends.ravel())[::2]
        shapes, atoms = (self.kind, df, log_norm, self.start), (mass, center, width, log_height, below, above)
        return Table(*shapes, *atoms, mean, var, narrowest)

    @cached
    def cdf_tables(self) -> tuple[Ints, Floats]:
        """Tabulated cdfs of the Student shapes, worked out with the first quantile: which (s,), pieces (D, ., 6).

        The normal is the first of them. Below one degree of freedom there is no table.
        """
        student = (self.kind == STUDENT) & (self.df >= 1)
        df, which = np.unique(np.append(-np.inf, -self.df[student]), return_inverse=True)
        pieces = np.empty((df.size, N_PIECES, 6))
        student_pieces(-df, student_log_norm(-df), pieces)
        table = np.full(len(self), -1, np.int64)
        table[student] = which[1:]
        return table, pieces

    def _moments(self, owner: Ints, student: Bools) -> tuple[Floats, Floats]:
        kind, weight, width = self.kind[owner], self.atom_weight, self.atom_width
        middle = self.atom_center + np.where(kind == CELLS, width / 2, 0.0)
        own = np.where(kind == CELLS, width**2 / 12, width**2)
        in_u = kind == T2_CELLS
        middle[in_u], own[in_u] = _t2_cell_moments(self.atom_center[in_u], width[in_u])
        mean: Floats = np.bincount(owner, weight * middle, minlength=len(self)).astype(np.float64)
        second = own + (middle - mean[owner]) ** 2
        counted = np.multiply(weight, second, where=weight > 0, out=np.zeros_like(weight))  # 0 * inf is NaN
        var: Floats = np.bincount(owner, counted, minlength=len(self)).astype(np.float64)
        df = self.df[student]
        mean[student] = np.where(df > 1, 0.0, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            finite = np.where(np.isinf(df), 1.0, df / (df - 2))
        var[student] = np.where(df > 2, finite, np.where(df > 1, np.inf, np.nan))
        return mean, var


def _t2_cell_moments(left: Floats, width: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of e(u) = (2u - 1)/sqrt(2u(1-u)) for u uniform on a cell.

    The integral of e is -sqrt(2u(1-u)), that of e² is log(u/(1-u))/2 - 2u; both differences are taken in a form that
    does not cancel for narrow cells.
    """
    right = left + width
    ends = np.sqrt(left * (1 - left)) + np.sqrt(right * (1 - right))
    mean = np.divide(
        -np.sqrt(2) * (1 - left - right), ends, out=np.zeros_like(ends), where=ends > 0
    )  # 0 on all of (0, 1)
    with np.errstate(divide="ignore"):
        square = np.log1p(width / (left * (1 - right))) / (2 * width) - 2
    return mean, np.maximum(square - mean**2, 0.0)


def _check_shapes(state: Any, scope: Scope) -> None:
    Shapes(**vars(state))  # the constructor checks what anybody gives it
