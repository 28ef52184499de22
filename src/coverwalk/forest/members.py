"""The trees of a forest as members of a pool: what each was fitted in, and the mixture that they predict together."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints32
from coverwalk._kernels.forest.components import MAX_PLANE, REGRESSION, Learned, Records
from coverwalk._kernels.forest.node import MAX_CATEGORIES
from coverwalk._kernels.forest.polynomial import n_features
from coverwalk.distributions.shapes import STUDENT, Shapes
from coverwalk.files.schema import Array, Flag, List, Maybe, Object, Real, Scope, Whole, require, stored
from coverwalk.forest.context import Context
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.local_columns import NO_FILL, Fill
from coverwalk.forest.tree import Tree
from coverwalk.preparation.scaling import ScaledRows, Scaling

if TYPE_CHECKING:
    from coverwalk.forest.flat import FlatTree

GLOBAL_KERNEL = -2  # label of a component that is in no tree, as that of outliers is


@stored()
class Part(NamedTuple):
    """Trees of a forest that share a prior."""

    n_trees: Annotated[int, Whole(1, 10_000)]
    degree: Annotated[int, Whole(0, 2)]  # the largest, of local polynomials
    stop: Annotated[float, Real(above=0, below=1)]  # prior probability w that the walk stops in a context
    smooth: Annotated[bool, Flag()]  # whether they start from a smooth trend


@stored(read_first=("records", "shapes"), check=lambda state, scope: _check_fitted(state, scope))
class FittedTree(NamedTuple):
    """The contexts of one tree, fitted, and what they have learned since."""

    records: Annotated[Records, Object(Records, N="N", p="p")]
    shape: Annotated[Ints32, Array(np.int32, "records.R", index="shapes.s")]  # of each record, in the tree's own table
    shapes: Annotated[Shapes, Object(Shapes)]
    learned: Annotated[Learned, Object(Learned, C="records.C", R="records.R")]
    fill: Annotated[Fill, Object(Fill, N="N", p="p")] = NO_FILL


def _check_fitted(state: Any, scope: Scope) -> None:
    """Components, shapes and what was learned go together."""
    p, (records, learned) = scope["p"], (state.records, state.learned)
    require("shape", (state.shapes.kind[state.shape] == STUDENT) == (records.kind == REGRESSION))
    terms = np.array([n_features(degree, p) for degree in range(3)])
    require("degree", terms[records.degree] <= records.centre.shape[1])
    require("plane", learned.plane.shape[1] == (p + 1 if p < MAX_PLANE else 1))
    require("inverse", len(learned.inverse) in (0, len(records.mean)) and _positive(learned.inverse))


def _positive(matrices: Floats) -> bool:
    """Whether all matrices (n, m, m) are symmetric and positive definite."""
    symmetric = np.abs(matrices - matrices.transpose(0, 2, 1)).max(initial=0.0) <= 1e-9
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return bool(symmetric)


@stored(check=lambda state, scope: require("categories", len(state.n_categories) in (0, scope["p"])))
class Frame(NamedTuple):
    """Units of x and y, and the trend: what trees are fitted in."""

    inputs: Annotated[Scaling, Object(Scaling, p="p")]
    output: Annotated[Scaling, Object(Scaling, p=1)]
    trend: Annotated[Trend | None, Maybe(Object(Trend, p="p"))]
    # of each column, 0 for numbers; empty where all are numbers
    n_categories: Annotated[tuple[int, ...], List(Whole(0, MAX_CATEGORIES), kind=tuple)]
    scale_factor: Annotated[float, Real(above=0)]

    def rows(self, X: Floats) -> ScaledRows:
        """Rows X (n, p) as the trees see them."""
        return self.inputs.rows(X, self.n_categories)

    def origin(self, rows: ScaledRows) -> Floats:
        """From where the locations of trees about the trend count, in these rows."""
        return self.trend.value(rows) if self.trend else np.zeros(len(rows.Z))


class Member(NamedTuple):
    """One tree of a pool."""

    frame: Frame
    tree: Tree
    fitted: FittedTree
    part: Part
    degree: int  # of its polynomials: that of the part, or less where inputs are many
    flat: "FlatTree | None" = None  # what kernels read, once they have to

    def copy(self) -> "Member":
        """A member that learns on its own."""
        fresh: list[Any] = [array.copy() for array in self.fitted.learned]
        learned = Learned(*fresh)
        return self._replace(fitted=self.fitted._replace(learned=learned))


def describe_context(member: Member, k: int, context: int, names: list[str], categories: list[list[str]]) -> Context:
    """What a context of tree k is, in the units and names of the inputs."""
    tree, records, inputs = member.tree, member.fitted.records, member.frame.inputs
    slot = records.slot[context]
    box = tree.describe(context, names, categories, inputs.bound)
    return Context(k, context, int(records.n_rows[slot]), int(records.degree[slot]), box)
