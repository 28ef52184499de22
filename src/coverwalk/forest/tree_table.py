"""The trees of a forest as one table for the kernels, and the mixture that they predict together."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.forest.node import NODE
from coverwalk._kernels.forest.trees import Trees, Work, learn_all, mean_all, predict_all, route_all
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.forest.context import Context
from coverwalk.forest.experts.atoms import ATOMS, Atoms, with_atoms
from coverwalk.forest.experts.global_kernel import KernelContext
from coverwalk.forest.experts.y_cells import UNIT_CELL, Y_CELLS, YCells, with_y_cells
from coverwalk.forest.fitting import OUTLIER_DF
from coverwalk.forest.flat import flattened
from coverwalk.forest.members import GLOBAL_KERNEL, Frame, Member, describe_context
from coverwalk.locks import cached
from coverwalk.preparation.outliers import Outliers
from coverwalk.preparation.rounding import Rounding

OUTLIER_ROWS = 0.1  # weight, in rows, of a heavy-tailed distribution over all of y
STUDENT = Shapes.student(OUTLIER_DF)
_NONE, _NONE_2 = np.empty(0), np.empty((0, 0))
_KINDS = {np.dtype(np.float64), np.dtype(np.int64)}


class TreeTable:
    """The members of a pool, and the experts that stand beside the trees.

    Parameters
    ----------
    members : sequence of Member
        The trees.
    global_kernel : KernelContext, optional
        The kernel density over all rows, in the last member's frame, with the weight ``kernel``.
    kernel : float
        See there.
    y_cells : YCells, optional
        The cells of y.
    shapes : Shapes, optional
        The members' shapes as `joined_shapes` makes them, where they are known.
    outliers : Outliers, optional
        Those of y.
    atoms : (Atoms, Rounding), optional
        Values of the rounding, with probabilities of their own.
    learns : bool
        Whether the trees learn rows since they were fitted.
    """

    def __init__(
        self,
        members: Sequence[Member],
        global_kernel: KernelContext | None = None,
        kernel: float = 0.0,
        y_cells: YCells | None = None,
        shapes: Shapes | None = None,
        *,
        outliers: Outliers | None = None,
        atoms: tuple[Atoms, Rounding] | None = None,
        learns: bool = False,
    ) -> None:
        self.members = [flattened(member, learns) for member in members]
        self.global_kernel, self.y_cells, self.learns = global_kernel, y_cells, learns
        self.kernel = kernel if global_kernel else 0.0
        self.outlier_weight = outliers.weight if outliers else 0.0
        self.frames: list[Frame] = []
        for member in members:
            if not any(member.frame is frame for frame in self.frames):
                self.frames.append(member.frame)
        self.first_shape = np.cumsum([len(STUDENT), *(len(member.fitted.shapes) for member in members)])
        self.labels = np.cumsum([0] + [len(member.tree) for member in members])
        self.atoms, cells = atoms, bool(y_cells or atoms)
        self.shapes = joined_shapes(members, global_kernel, cells) if shapes is None else shapes
        self.n_priors = len(members[0].fitted.records.weight)
        self._alike = np.full(len(members), 1.0 / len(members))
        output = members[-1].frame.output
        self._output = float(output.centre[0]), float(output.scale[0])
        # Made once, here: threads that ask for `trees` at the same time must get addresses of the same arrays.
        self._arrays = [_arrays_of_tree(member) for member in self.members] + [_arrays_of_frame(f) for f in self.frames]

    @cached
    def trees(self) -> Trees:
        """What the kernels read. The arrays behind the addresses are kept alive by this object."""
        arrays = self._arrays
        K, A = len(self.members), max(len(own) for own in arrays)
        where, size = np.zeros((len(arrays), A), np.int64), np.zeros((len(arrays), A, 3), np.int64)
        for t, own in enumerate(arrays):
            for a, array in enumerate(own):
                if array.dtype not in _KINDS or not array.flags.c_contiguous:
                    raise TypeError(f"array {a} of tree {t} is not as the kernels read it: {array.dtype}")
                where[t, a] = array.ctypes.data
                size[t, a, : array.ndim] = array.shape
        numbers = np.empty((K, 6))
        for t, member in enumerate(self.members):
            output, smooth = member.frame.output, float(member.part.smooth)
            units = output.centre[0], output.scale[0], member.frame.scale_factor
            numbers[t] = (member.degree, smooth, self.first_shape[t], *units)
        frame = [next(f for f, frame in enumerate(self.frames) if frame is member.frame) for member in self.members]
        # As bytes: NumPy joins records field by field, in four times the time.
        nodes = np.concatenate([member.flat.nodes.view(np.uint8) for member in self.members if member.flat]).view(NODE)
        nodes["left"] += np.where(nodes["left"] >= 0, np.repeat(self.labels[:-1], np.diff(self.labels)), 0)
        return Trees(nodes, self.labels, np.array(frame), where, size, numbers)

    def _work(self, n: int, p: int) -> Work:
        F, K = len(self.frames), len(self.members)
        rows = np.empty((F, n, p)), np.empty((F, n, p)), np.empty((F, n))
        return Work(*rows, np.empty((K, n), np.int64), np.empty(n + 1, np.int64))

    def components(self, X: Floats, n_rows: int, weights: Floats | None = None) -> tuple[list[Components], Ints]:
        """The components of every row X (n, p), under each prior of the members' fits, and their labels.

        n_rows: how many were learned; weights (K,) of the trees, in any unit, or all are alike.
        """
        work, trees = self._work(*X.shape), self.trees
        offsets = work.offsets
        route_all(np.require(X, np.float64, ["C", "W"]), trees, work, 1 + self._corners)
        m = int(offsets[-1])
        weight = np.empty((self.n_priors, m))
        out = weight, np.empty(m), np.empty(m), np.empty(m, np.int32), np.empty(m, np.int64)
        outliers, weights = self.outliers(n_rows), self._alike if weights is None else weights
        share = (1.0 - outliers[0]) * (1.0 - self.kernel)
        predict_all(trees, work, weights, share, self.learns, outliers, offsets[:-1].copy(), out)
        self._add_kernel(work.plain[-1], n_rows, offsets, out)
        return [Components(offsets, each, *out[1:4]) for each in weight], out[4]

    @property
    def _corners(self) -> int:
        """Components of the global kernel in a row."""
        return 2 ** len(self.frames[0].inputs.centre) if self.kernel > 0 else 0

    def outliers(self, n_rows: int) -> tuple[float, float, float]:
        """Weight, centre and unit of the distribution of outliers after so many rows."""
        unseen = OUTLIER_ROWS / (n_rows + 1.0)
        return self.outlier_weight + (1.0 - self.outlier_weight) * unseen, *self._output

    def _add_kernel(self, Z: Floats, n_rows: int, offsets: Ints, out: Sequence[NDArray[Any]]) -> None:
        """Write the global kernel's components in rows Z (n, p), in units, to the last places of each."""
        if self.global_kernel is None or not self._corners:
            return
        rare, centre, unit = self.outliers(n_rows)
        node, corner = self.global_kernel.nodes_of(Z)
        places = offsets[1:, None] - self._corners + np.arange(self._corners)
        entries = (1.0 - rare) * self.kernel * corner, centre, unit, self.first_shape[-1] + node, GLOBAL_KERNEL
        for column, entry in zip(out, entries):
            column[..., places] = entry

    def predict_dist(
        self, X: Floats, n_rows: int, describe: Callable[[int], Context | None], weights: Floats | None = None
    ) -> PredictiveDistribution:
        """The distributions of y in rows X (n, p), under the first prior; weights (K,) of the trees, or all alike."""
        (mixture, *_), context = self.components(X, n_rows, weights)
        dist = PredictiveDistribution.trusted(mixture, self.shapes, context, describe)
        dist = with_y_cells(dist, self.y_cells, len(self.shapes) - 1) if self.y_cells else dist
        if self.atoms is None:
            return dist
        atoms, rounding = self.atoms
        return with_atoms(dist, atoms.predict(X), rounding, len(self.shapes) - 1)

    def means(self, X: Floats, n_rows: int, weights: Floats, grid: tuple[float, float]) -> Floats:
        """The means (n,) of y in rows X (n, p) where nothing but the trees predicts; weights (K,) in any unit.

        grid: origin and step of y, with step 0 where it is not rounded.
        """
        out, outliers = np.empty(len(X)), self.outliers(n_rows)
        mean_all(np.ascontiguousarray(X), self.trees, weights, self.shapes.table, outliers, grid, out)
        return out

    @cached
    def _groups(self) -> tuple[Ints, Floats]:
        """The group of each tree, those of one degree, with or without a trend; and how many trees a group has."""
        kinds = [(member.part.degree, member.part.smooth) for member in self.members]
        known = sorted(set(kinds))
        group = np.array([known.index(kind) for kind in kinds])
        return group, np.bincount(group).astype(np.float64)

    def learn(self, X: Floats, y: Floats, counts: Floats, n_rows: Ints, decay: float) -> Floats:
        """Learn rows X (n, p), y (n,); the log densities (n,) that the trees gave them just before.

        counts (K,), what each tree has predicted, and n_rows (1,), how many rows were learned, are moved on.
        """
        out, outliers = np.empty(len(y)), (self.outlier_weight, OUTLIER_ROWS, *self._output)
        rows, pool = (np.ascontiguousarray(X), np.ascontiguousarray(y)), (*self._groups, counts)
        learn_all(*rows, self.trees, self.shapes.table, pool, outliers, n_rows, decay, out)
        return out

    def describe(self, label: int, n_rows: int, names: list[str], categories: list[list[str]]) -> Context | None:
        """What a context is, in the units and names of the inputs; None for the distribution of outliers."""
        if label < 0:
            beside = {GLOBAL_KERNEL: -1, Y_CELLS: -2, ATOMS: -3}
            return Context(beside[label], 0, n_rows, 0, {}) if label in beside else None
        k = int(np.searchsorted(self.labels, label, side="right")) - 1
        return describe_context(self.members[k], k, label - int(self.labels[k]), names, categories)


def joined_shapes(members: Sequence[Member], global_kernel: KernelContext | None, cells: bool) -> Shapes:
    """The shapes of all members, and of the experts beside them, as one table, worked out."""
    tables = [
        STUDENT,
        *(member.fitted.shapes for member in members),
        *([global_kernel.shapes] if global_kernel else []),
    ]
    shapes = Shapes.join(tables + ([UNIT_CELL] if cells else []))
    _ = shapes.table  # once, here and not with the first prediction
    return shapes


def _arrays_of_tree(member: Member) -> list[NDArray[Any]]:
    assert member.flat is not None
    return [member.flat.store, *member.fitted.fill, *member.fitted.learned]


def _arrays_of_frame(frame: Frame) -> list[NDArray[Any]]:
    p = len(frame.inputs.centre)
    category = np.array(frame.n_categories or (0,) * p, np.int64)
    smooth = (_NONE_2, _NONE, _NONE, _NONE, _NONE, np.empty((0, 2), np.int64), np.empty(0, np.int64), _NONE_2, _NONE_2)
    if frame.trend is not None:
        trend, curves = frame.trend, frame.trend.curves
        cosines = trend.turns, trend.phase, trend.coefficients, trend.low, trend.high, trend.indicators
        smooth = (*cosines, curves.column, curves.knots, curves.heights)
    return [frame.inputs.centre, frame.inputs.scale, category, *smooth]
