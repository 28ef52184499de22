"""What a `CoverModel` keeps of each context, how contexts are split and merged, and whether what a file holds fits.

Where a context is split, or models are merged, contexts are weighed in the batch form of the walk: from evidences, not
row by row.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from coverwalk.base import Context, Floats, LocalModel, Posterior
from coverwalk.covers.kdtree import KDTree
from coverwalk.files.schema import Array, List, Object, Plain, Real, Schema, Scope, Set, Table, Whole, require, stored
from coverwalk.local.dirichlet import Dirichlet, DirichletPosterior
from coverwalk.local.kernel_density import KernelDensity, KernelDensityPosterior
from coverwalk.local.polynomial import Polynomial, PolynomialPosterior
from coverwalk.local.tree_density import TreeDensity, TreeDensityPosterior
from coverwalk.walk import Coarsening, Refining, Stopping, mix

if TYPE_CHECKING:
    from coverwalk.cover_model import CoverModel

LOCALS = (Polynomial, TreeDensity, KernelDensity, Dirichlet)
_POSTERIORS = (PolynomialPosterior, TreeDensityPosterior, KernelDensityPosterior, DirichletPosterior)


class Component(NamedTuple):
    """One local model in one context that may predict for an x."""

    weight: float  # probability that the walk for x stops in the context and chooses this local model
    context: Context
    depth: int  # 0 is the coarsest cover
    local: LocalModel
    posterior: Posterior


@stored()
class KeptRow(NamedTuple):
    """A row kept by a context that may split, with the log psi it was predicted with there."""

    x: Annotated[Any, Plain()]
    y: Annotated[Any, Plain()]
    log_psi: Annotated[float, Real()]


class Belief:
    """One context: its local models, the walk's parameters in it, and what a split or a merge wants to know.

    The first transition v of the context chooses among its local models by their evidence.
    """

    _schema = Schema(
        depth=Whole(0, 1000),
        posteriors=List(Object(*_POSTERIORS, model="local[i]", p="p"), "len(local)"),
        log_v=Array(float, "len(local)", high=1e-6, inf=True, log_total=1.0),
        stopping=Object(Stopping),
        log_Z=Real(),
        finer=Table(Set()),
        rows=List(Object(KeptRow)),
        check=lambda state, scope: require(
            "a posterior",
            [f"{model.kind}Posterior" for model in scope["local"]]
            == [type(each).__name__ for each in state.posteriors],
        ),
    )

    def __init__(
        self, local: Sequence[LocalModel], depth: int, stopping: Stopping, parent: "Belief | None" = None
    ) -> None:
        parents: Sequence[Posterior | None] = parent.posteriors if parent else [None] * len(local)
        self.depth, self.stopping = depth, stopping
        self.posteriors: list[Posterior] = [model.start(p) for model, p in zip(local, parents)]
        self.log_v = np.full(len(local), -np.log(len(local)))
        self.log_Z = 0.0  # refining: the sum of log psi, which is the evidence
        self.finer: dict[Hashable, set[Context]] = {}  # refining: by label, the contexts of a partition
        self.rows: list[KeptRow] = []

    def weigh(self, x: Any, y: Any) -> tuple[float, Floats]:
        """phi_M = sum_i v_i phi_i, and v after this row; both as logarithms."""
        return mix(self.log_v, np.array([posterior.logpdf(x, y) for posterior in self.posteriors]))

    def update(self, x: Any, y: Any, log_v: Floats) -> None:
        """Learn a row; ``log_v`` is what `weigh` gave."""
        self.log_v = log_v
        for posterior in self.posteriors:
            posterior.update(x, y)

    def weigh_batch(self, prior: Stopping, beliefs: Mapping[Context, "Belief"]) -> None:
        """Batch form: Z_M = w Z_phi + (1-w) sum_b v_b prod_{N in b} Z_N, and the posterior w and v it implies."""
        log_Z_i = np.array([each.log_evidence() for each in self.posteriors])
        log_Z_phi, self.log_v = mix(np.full(len(log_Z_i), -np.log(len(log_Z_i))), log_Z_i)
        self.log_Z, self.stopping = log_Z_phi, prior
        if self.finer:
            n = len(self.finer)
            log_Z_b = np.array([sum(beliefs[N].log_Z for N in partition) for partition in self.finer.values()])
            onward, log_v = mix(np.full(n, -np.log(n)), log_Z_b)
            if n > 1:
                prior.log_v = dict(zip(self.finer, (log_v + np.log(n)).tolist()))
            self.log_Z = prior.update(log_Z_phi, onward)


def split(model: "CoverModel", M: Context) -> None:
    """Let the children of a context see its rows as if they had been there from the start; docs/math.md, 4.3."""
    beliefs, above = model._beliefs, model._beliefs[M]
    rows, above.rows = above.rows, []
    for x, y, log_psi_M in rows:
        child = model.cover.contexts(x)[above.depth + 1][0]
        if child not in beliefs:
            beliefs[child] = model._new_belief(above.depth + 1, above)
            above.finer.setdefault(0, set()).add(child)
        here = beliefs[child]
        log_psi, log_v = here.weigh(x, y)  # refining: the child is a leaf and stops
        if isinstance(model.walk, Coarsening):
            log_psi = here.stopping.update(log_psi, log_psi_M)
        here.update(x, y, log_v)
        here.log_Z += log_psi
        here.rows.append(KeptRow(x, y, log_psi))
    if rows and isinstance(model.walk, Refining):
        for (N,) in reversed(model.cover.contexts(rows[0].x)[: above.depth + 1]):
            beliefs[N].weigh_batch(model.walk.prior(beliefs[N].depth), beliefs)


def take_in(model: "CoverModel", other: "CoverModel") -> None:
    """Add what another model of the same contexts has learned, and weigh all of them again."""
    for M, theirs in other._beliefs.items():
        ours = model._beliefs.setdefault(M, model._new_belief(theirs.depth))
        for mine, more in zip(ours.posteriors, theirs.posteriors):
            mine.merge(more)
        for label, contexts in theirs.finer.items():
            ours.finer.setdefault(label, set()).update(contexts)
    for belief in sorted(model._beliefs.values(), key=lambda belief: -belief.depth):
        belief.weigh_batch(model.walk.prior(belief.depth), model._beliefs)


def checked_row(model: Any, x: Any, y: Any, *, learning: bool = False) -> tuple[Any, Any]:
    """A row as the cover and the local models of a model want it; ValueError where one of them does not take it."""
    x = model.cover.check(x)
    for local in model.local:
        x, y = local.check(x, y)
        if learning:
            local.check_learnable(x, y)
    if learning:  # rows are kept, and the caller may change his own
        x, y = (np.array(each) if isinstance(each, np.ndarray) else each for each in (x, y))
    return x, y


def check_contexts(state: Any, scope: Scope) -> None:
    """Contexts are those of the cover, evidences are where a split or a merge looks for them, rows in their context."""
    require("outputs", len({getattr(model, "q", None) for model in state.local}) == 1)
    beliefs, cover = state._beliefs, state.cover
    depths = {M: belief.depth for M, belief in beliefs.items()}
    if isinstance(cover, KDTree):
        require("contexts", all(type(M) is int and 0 <= M < len(cover._nodes) for M in beliefs))
        require("depths", all(cover._nodes[M].depth == depth for M, depth in depths.items()))
    else:
        require("depths", not depths or max(depths.values()) == cover.depth)
    for M, belief in beliefs.items():
        for N in set().union(*belief.finer.values()):
            require("finer contexts", depths.get(N) == belief.depth + 1)
        for row in belief.rows:
            x, _ = checked_row(state, row.x, row.y, learning=True)
            if isinstance(x, np.ndarray):  # a number passes for a vector of one, but is none
                require("rows", isinstance(row.x, np.ndarray) and row.x.shape == x.shape)
            require("rows", cover.contexts(x)[-1][0] == M)
