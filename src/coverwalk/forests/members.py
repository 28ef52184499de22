"""The trees of a forest as members of a pool: what each was fitted in, and the mixture that they predict together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.mixture import Voices
from coverwalk._kernels.voices import Learned, Records, speak
from coverwalk.covers.adaptive import AdaptiveTree
from coverwalk.forests.context import Context
from coverwalk.forests.kernel_context import KernelContext
from coverwalk.forests.local_columns import NO_FILL, Fill, local_columns, plain_columns
from coverwalk.forests.scaling import Scaling
from coverwalk.forests.trend import Trend
from coverwalk.shapes import Shapes

__all__ = [
    "GLOBAL_KERNEL",
    "OUTLIERS",
    "FittedTree",
    "Frame",
    "Member",
    "Part",
    "RowsInFrame",
    "describe_context",
    "mix",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OUTLIERS, GLOBAL_KERNEL = -1, -2  # labels of components that are in no tree


class Part(NamedTuple):
    """Trees of a forest that share a prior."""

    n_trees: int
    degree: int  # the largest, of local polynomials
    stop: float  # prior probability w that the walk stops in a context
    smooth: bool  # whether they start from a smooth trend


class FittedTree(NamedTuple):
    """The contexts of one tree, fitted, and what they have learned since."""

    records: Records
    shape: NDArray[np.int32]  # of each record, within the tree's own table
    shapes: Shapes
    learned: Learned
    fill: Fill = NO_FILL


class Frame(NamedTuple):
    """Units of x and y, and the trend: what trees are fitted in."""

    inputs: Scaling
    output: Scaling
    trend: Trend | None
    n_levels: tuple[int, ...]  # of each column, 0 for numbers; empty where all are numbers
    scale_factor: float

    def rows(self, X: Floats) -> "RowsInFrame":
        """Rows X (n, p) as the trees see them: categories keep their numbers."""
        Z = self.inputs.forward(X)
        categories = np.flatnonzero(self.n_levels)
        Z[:, categories] = X[:, categories]
        plain = plain_columns(Z, self.n_levels)
        nowhere = np.zeros(len(Z))
        return RowsInFrame(Z, plain, self.trend.value(plain) if self.trend else nowhere, nowhere)


class RowsInFrame(NamedTuple):
    """Rows in the units of a frame."""

    Z: Floats  # (n, p) as splits read them
    plain: Floats  # (n, p) without missing values and categories
    trend: Floats  # (n,)
    nowhere: Floats  # (n,) zeros, for trees without a trend

    def origin(self, part: Part) -> Floats:
        """From where the locations of a tree count."""
        return self.trend if part.smooth else self.nowhere


class Member(NamedTuple):
    """One tree of a pool."""

    frame: Frame
    tree: AdaptiveTree
    fitted: FittedTree
    part: Part
    degree: int  # of its polynomials: that of the part, or less where inputs are many

    def copy(self) -> "Member":
        """A member that learns on its own."""
        learned = Learned(*(array.copy() for array in self.fitted.learned))
        return self._replace(fitted=self.fitted._replace(learned=learned))


def describe_context(member: Member, k: int, context: int, names: list[str], levels: list[list[str]]) -> Context:
    """What a context of tree k is, in the units and names of the inputs."""
    tree, records, inputs = member.tree, member.fitted.records, member.frame.inputs
    seat = records.seat[context]
    box: dict[str, tuple[float, float] | list[str]] = {
        names[a]: (float(inputs.backward(low, a)), float(inputs.backward(high, a)))
        for a, (low, high) in tree.box(context).items()
    }
    for a, mask in tree.level_sets(context).items():
        box[names[a]] = [level for i, level in enumerate(levels[a]) if mask >> i & 1]
    return Context(k, context, int(records.n_rows[seat]), int(records.degree[seat]), box)


def mix(
    members: Sequence[Member],
    weights: Floats,
    labels: Ints,
    first_shape: Ints,
    X: Floats,
    outlier: tuple[float, float, float],
    kernel: tuple[float, KernelContext | None, int],
) -> tuple[list[Voices], Ints]:
    """The components of every row X (n, p), under each prior of the members' fits, and their labels.

    Parameters
    ----------
    members : sequence of Member
        The trees.
    weights : (K,)
        Of the trees in the mixture; they sum to one.
    labels, first_shape : (K,)
        Label of the first context of each tree, and place of its shapes in the joint table.
    X : (n, p)
        The rows.
    outlier : weight, centre and unit
        Of the heavy-tailed distribution over all of y, shape 0.
    kernel : weight, context and place of its shapes
        Of the kernel density over all rows; None for none.
    """
    frames: dict[int, RowsInFrame] = {}
    for member in members:
        if id(member.frame) not in frames:
            frames[id(member.frame)] = member.frame.rows(X)
    leaves = [member.tree.leaves(frames[id(member.frame)].Z) for member in members]
    share, whole, first_node = kernel
    corners = 2 ** X.shape[1] if whole is not None else 0
    count = 1 + corners + sum(member.fitted.records.n_voices[leaf] for member, leaf in zip(members, leaves))
    offsets = np.concatenate([[0], np.cumsum(count)])
    weight = np.empty((len(members[0].fitted.records.weight), offsets[-1]))
    out = weight, *(np.empty(offsets[-1], dtype) for dtype in (float, float, np.int32, np.int64))
    at = offsets[:-1].copy()
    rare, centre, unit = outlier
    for column, entry in zip(out, (rare, centre, unit, 0, OUTLIERS)):
        column[..., at] = entry
    at += 1
    for k, (member, leaf) in enumerate(zip(members, leaves)):
        frame, fitted, rows = member.frame, member.fitted, frames[id(member.frame)]
        middle, scale = frame.output.centre[0], frame.output.scale[0]
        units = middle, scale, scale * frame.scale_factor
        part = (1.0 - rare) * (1.0 - share) * weights[k]
        component = (part, fitted.shape + np.int32(first_shape[k]), labels[k], rows.origin(member.part), units)
        seen = local_columns(member.tree, rows.Z, fitted.fill, frame.n_levels)
        order = np.argsort(leaf, kind="stable")
        speak(seen, leaf, order, member.degree, fitted.records, fitted.learned, at, component, out)
    if whole is not None:
        node, corner = whole.ask(frames[id(members[-1].frame)].plain)
        places = at[:, None] + np.arange(corners)
        entries = ((1.0 - rare) * share * corner, centre, unit, first_node + node, GLOBAL_KERNEL)
        for column, entry in zip(out, entries):
            column[..., places] = entry
    _, loc, scale, shape, label = out
    return [Voices(offsets, each, loc, scale, shape) for each in weight], label
