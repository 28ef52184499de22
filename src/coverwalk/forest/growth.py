"""A growth is a fit: one tree, or a whole forest, from the rows that a stream has kept."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.learned import set_precision
from coverwalk.distributions.shapes import Shapes
from coverwalk.files.schema import Array, Maybe, Object, Whole, require, stored
from coverwalk.forest.experts.global_kernel import KernelContext
from coverwalk.forest.fitting import fit_tree
from coverwalk.forest.flat import flattened
from coverwalk.forest.forest import MAX_LEAVES, Forest
from coverwalk.forest.local_columns import local_columns
from coverwalk.forest.members import Frame, Member
from coverwalk.forest.schedule import Job, StreamSettings
from coverwalk.forest.settings import Settings, grid_of, latent, tree_rows, usual_rows
from coverwalk.forest.target_choice import MIN_ATOMS, choose_y, of_y, same_y, with_atoms_of
from coverwalk.forest.threads import in_threads
from coverwalk.forest.tree import grow_tree
from coverwalk.forest.tree_table import TreeTable, joined_shapes
from coverwalk.forest.tuning import choose
from coverwalk.preparation.outliers import MAX_WEIGHT
from coverwalk.preparation.row_codes import canonical_order


@stored(check=lambda state, scope: _check_base(state))
@dataclass(frozen=True)
class Base:
    """What the trees of one rotation grow in: the frame, the parts, and what stands beside the trees."""

    settings: Annotated[Settings, Object(Settings, p="p")]
    frame: Annotated[Frame, Object(Frame, p="p")]
    global_kernel: Annotated[KernelContext | None, Maybe(Object(KernelContext, p="p"))]
    # leave-one-out residuals about the trend, of rows as they came, NaN of outliers
    residual: Annotated[Floats, Array(float, "n_residuals", nan=True)]
    first_row: Annotated[int, Whole(0, 2**53)]  # number of the first of them
    # from how many rows its units, and the frequencies of its trend, were found
    planned: Annotated[int, Whole(0, 2**53)]

    @classmethod
    def of(cls, forest: Forest) -> "Base":
        """That of a fitted forest."""
        return cls(forest.settings, forest.frame, forest.global_kernel, np.empty(0), 0, forest.n_rows)


def _check_base(state: Any) -> None:
    smooth = any(part.smooth for part in state.settings.part_of_trees())
    require("trend", not smooth or state.frame.trend is not None)
    require("kernel", (state.global_kernel is not None) == (state.settings.kernel > 0))


class Due(NamedTuple):
    """What a growth has to do beside growing its tree."""

    whole: bool = False  # grow all trees
    fresh: bool = False  # make a new base: a rotation begins
    chosen: bool = False  # choose parts, scale factor and experts on held-out rows
    looked: bool = False  # look for the rounding and the scale of y

    @property
    def kind(self) -> str:
        """On which depends how long it takes."""
        return "chosen" if self.chosen else "whole" if self.whole else "fresh" if self.fresh else "tree"


class Growth(NamedTuple):
    """A base, and the tree that grew in it; or all trees, where the forest began anew."""

    base: Base
    members: list[Member]
    whole: bool
    shapes: Shapes | None = None  # of all trees with the one that grew, where they are known


def grow(
    X: Floats,
    y: Floats,
    now: int,
    due: Due,
    base: Base | None,
    given: Settings,
    settings: StreamSettings,
    names: list[str],
    k: int,
    seeds: list[int],
) -> Growth:
    """Tree k, or all trees, from rows X (n, p), y (n,), the last of ``now``: a function of these alone.

    Where another rounding or scale of y is found than that of the base, all that was chosen is chosen again, and all
    trees grow: that is what `fit` does. given: the settings from which a choice begins; seeds: of all trees.
    """
    plan = replace(base.settings if base else given, n_categories=given.n_categories)
    whole, chosen, before = due.whole, due.chosen, plan
    if due.looked:
        found = choose_y(X, y, given, plan)
        if not whole and not same_y(found, plan, y):
            whole, chosen = True, settings.choose
        before = found if whole else plan
    plan = replace(given if chosen else plan, unused=plan.unused, **of_y(before))
    if plan.atoms is not None and due.fresh and not whole:
        plan = with_atoms_of(X, y, plan)
    if chosen:
        plan = choose(X, y, plan)
    number = np.arange(now - len(y), now)
    if len(tree_rows(plan, X, y)[1]) < MIN_ATOMS:  # next to nothing else has come
        plan = replace(plan, atoms=None)
    rows, every = _Rows(*usual_rows(plan, X, y, number)), _Rows(*tree_rows(plan, X, y, number))
    if len(rows.y) < (1.0 - MAX_WEIGHT) * len(every.y):  # y has moved
        rows, plan = every, replace(plan, outliers=None)
    if base is None or whole:
        base = _base_of(rows, plan, names)
        return Growth(base, _grow_all(rows, now, base, seeds, settings), True)
    if due.fresh:
        again = chosen or settings.decay > 0 or len(rows.y) >= settings.plan_again * base.planned
        base = _base_of(rows, plan, names, before=None if again else base)
    return Growth(base, [_grow_one(rows, now, base, k, seeds[k], settings)], False)


def catch_up(job: Job[Growth], X: Floats, y: Floats, n: int, decay: float, members: list[Member], k: int) -> Growth:
    """The growth of tree k of these members, which has learned rows X (m, p), y (m,) that came after n others."""
    growth = learned_since(job.result(), X, y, n, decay)
    members = [*members[:k], *growth.members, *members[k + 1 :]]
    plan, kernel = growth.base.settings, growth.base.global_kernel
    return growth._replace(shapes=joined_shapes(members, kernel, bool(plan.y_cells or plan.atoms)))


def learned_since(growth: Growth, X: Floats, y: Floats, n: int, decay: float) -> Growth:
    """The same in a copy, without shapes: other copies of a stream may have the growth too, and other rows."""
    members, rounding = [member.copy() for member in growth.members], growth.base.settings.rounding
    X, y = tree_rows(growth.base.settings, X, y)
    if len(y):
        y = rounding.latent(X, y) if rounding else y
        TreeTable(members, learns=True).learn(X, y, np.ones(1), np.array([n]), decay)
    return growth._replace(members=members)


class _Rows(NamedTuple):
    """Rows X (n, p), y (n,) of a stream, as they came, and their numbers."""

    X: Floats
    y: Floats
    number: Ints

    def ordered(self) -> "_Rows":
        """In their canonical order."""
        order = canonical_order(self.X, self.y)
        return _Rows(self.X[order], self.y[order], self.number[order])


def _base_of(rows: _Rows, settings: Settings, names: list[str], *, before: Base | None = None) -> Base:
    """From rows as they came.

    Units and frequencies are found anew, or are those of the base ``before``, and only what is fitted to rows is new.
    """
    if before is None:
        forest, planned = Forest.plan(rows.X, rows.y, settings, names, grown=False), len(rows.y)
    else:
        frame, planned = before.frame, before.planned
        forest = Forest(settings, frame.inputs, frame.output, [], rows.X[:0], rows.y[:0], names, trend=frame.trend)
    X, y, number = rows.ordered()
    first = int(rows.number[0])
    residual = np.full(rows.number[-1] + 1 - first, np.nan)
    residual[number - first] = forest.fit_experts(X, y)[2]
    return Base(settings, forest.frame, forest.global_kernel, residual, first, planned)


def _grow_one(given: _Rows, now: int, base: Base, k: int, seed: int, settings: StreamSettings) -> Member:
    """Tree k of a base's forest, from rows, the last of ``now``: a function of these alone."""
    plan, part = base.settings, base.settings.part_of_trees()[k]
    X, y, number = given.ordered()
    rows = base.frame.rows(X)
    target = base.frame.output.forward(latent(X, y, plan)[:, None])[:, 0]
    if part.smooth:
        target = target - base.frame.origin(rows)
        place = number - base.first_row
        known = (place >= 0) & (place < len(base.residual))
        residual = base.residual[place[known]]
        target[known] = np.where(np.isnan(residual), target[known], residual)
    n_categories = categories_seen(X, base.frame.n_categories)
    leaves = min(MAX_LEAVES, (settings.max_contexts + 1) // 2)
    tree = grow_tree(
        rows.Z,
        target,
        seed,
        min_rows=max(plan.min_rows, math.ceil(len(y) / leaves)),
        n_candidates=plan.n_candidates,
        n_judged=plan.n_judged,
        n_categories=n_categories,
    )
    grid = grid_of(plan, part.degree, X.shape[1], len(y))
    fitted = fit_tree(tree, rows.Z, target, grid, (part.stop,), n_categories)
    return ready(Member(base.frame, tree, fitted, part, grid.degree), rows.Z, now)


def categories_seen(X: Floats, n_categories: tuple[int, ...]) -> tuple[int, ...]:
    """How many categories each column has in rows X (n, p): some may have come since the frame was made.

    >>> categories_seen(np.array([[np.nan, 4.0], [7.0, np.nan]]), (0, 2))
    (0, 5)
    """
    if not n_categories:
        return ()
    largest = np.where(np.isnan(X), 0.0, X).max(axis=0, initial=0.0).astype(np.int64)
    return tuple(max(n, int(most) + 1) if n else 0 for n, most in zip(n_categories, largest))


def _grow_all(rows: _Rows, now: int, base: Base, seeds: list[int], settings: StreamSettings) -> list[Member]:
    """All trees of a base's forest."""
    return in_threads(
        lambda k: _grow_one(rows, now, base, k, seeds[k], settings), range(len(seeds)), base.settings.n_threads
    )


def ready(member: Member, Z: Floats, now: int) -> Member:
    """The member as it learns, with the precision of its planes: from its rows Z (n, p), the last of ``now``."""
    tree, fitted = member.tree, member.fitted
    perm, layout = tree.arrange(Z)
    X = local_columns(tree, Z, fitted.fill, member.frame.n_categories)[perm]
    C, m = fitted.learned.plane.shape
    inverse = np.empty((C, m, m))
    set_precision(X, layout.start, layout.end, fitted.records.slot, inverse)
    learned = fitted.learned._replace(inverse=inverse, seen=np.full(C, now))
    return flattened(member._replace(fitted=fitted._replace(learned=learned)), learns=True)
