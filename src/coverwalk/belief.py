"""What a `CoverModel` keeps of each context: its local models, and rows for its children; and whether these fit.

Where a context is split, or models are merged, contexts are weighed in the batch form of the walk: from evidences, not
row by row.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from coverwalk.base import Context, Floats, LocalModel, Posterior
from coverwalk.covers.kdtree import KDTree
from coverwalk.files.schema import Array, List, Object, Plain, Real, Schema, Scope, require, stored
from coverwalk.local.dirichlet import Dirichlet, DirichletPosterior
from coverwalk.local.kernel_density import KernelDensity, KernelDensityPosterior
from coverwalk.local.polynomial import Polynomial, PolynomialPosterior
from coverwalk.local.tree_density import TreeDensity, TreeDensityPosterior
from coverwalk.walk import START, Coarsening, Refining, mix

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


class Belief:
    """The local models of one context; its first transition v chooses among them by their evidence."""

    _schema = Schema(
        posteriors=List(Object(*_POSTERIORS, model="local[i]", p="p"), "len(local)"),
        log_v=Array(float, "len(local)", high=1e-6, inf=True, log_total=1.0),
        _log_v0=Array(float, "len(local)", high=1e-6, inf=True, log_total=1.0),
        check=lambda state, scope: require(
            "a posterior",
            [f"{model.kind}Posterior" for model in scope["local"]]
            == [type(each).__name__ for each in state.posteriors],
        ),
    )

    def __init__(self, local: Sequence[LocalModel], parent: "Belief | None") -> None:
        parents: Sequence[Posterior | None] = parent.posteriors if parent else [None] * len(local)
        self.posteriors: list[Posterior] = [model.start(p) for model, p in zip(local, parents)]
        self.log_v = self._log_v0 = np.full(len(local), -np.log(len(local)))

    def weigh(self, x: Any, y: Any) -> tuple[float, Floats]:
        """phi_M = sum_i v_i phi_i, and v after this row; both as logarithms."""
        return mix(self.log_v, np.array([posterior.logpdf(x, y) for posterior in self.posteriors]))

    def update(self, x: Any, y: Any, log_v: Floats) -> None:
        """Learn a row; ``log_v`` is what `weigh` gave."""
        self.log_v = log_v
        for posterior in self.posteriors:
            posterior.update(x, y)

    def log_evidence(self) -> float:
        """Log Z_phi of all rows of the context."""
        return float(np.logaddexp.reduce(self._log_v0 + [posterior.log_evidence() for posterior in self.posteriors]))

    def merge(self, other: "Belief") -> None:
        """Take in what another belief of the same local models has learned."""
        for mine, theirs in zip(self.posteriors, other.posteriors):
            mine.merge(theirs)
        _, self.log_v = mix(self._log_v0, np.array([posterior.log_evidence() for posterior in self.posteriors]))


@stored()
class KeptRow(NamedTuple):
    """A row kept by a context that may split, with the log psi it was predicted with there."""

    x: Annotated[Any, Plain()]
    y: Annotated[Any, Plain()]
    log_psi: Annotated[float, Real()]


def split(model: "CoverModel", M: Context) -> None:
    """Let the children of a context see its rows as if they had been there from the start; docs/math.md, 4.3."""
    rows, depth = model._rows.pop(M, []), model._depth[M]
    for x, y, log_psi_M in rows:
        child = model.cover.contexts(x)[depth + 1][0]
        if child not in model._beliefs:
            model._beliefs[child] = Belief(model.local, model._beliefs[M] if model.priors == "parent" else None)
            model._stopping[child] = model.walk.prior(depth + 1)
            model._depth[child] = depth + 1
            model._finer.setdefault(M, {}).setdefault(0, set()).add(child)
        here, belief = model._stopping[child], model._beliefs[child]
        log_phi, log_v = belief.weigh(x, y)
        log_psi = log_phi  # refining: the child is a leaf and stops
        if isinstance(model.walk, Coarsening):
            log_psi = float(np.logaddexp(here.log_w + log_phi, here.log_1mw + log_psi_M))
            here.log_w += log_phi - log_psi
            here.log_1mw += log_psi_M - log_psi
        belief.update(x, y, log_v)
        model._log_Z[child] = model._log_Z.get(child, 0.0) + log_psi
        model._rows.setdefault(child, []).append(KeptRow(x, y, log_psi))
    if rows and isinstance(model.walk, Refining):
        for level in reversed(model.cover.contexts(rows[0].x)[: depth + 1]):
            _weigh(model, level[0])


def _weigh(model: "CoverModel", M: Context) -> None:
    """Batch form: Z_M = w Z_phi + (1-w) sum_b v_b prod_{N in b} Z_N, and the posterior w and v it implies."""
    log_Z_phi = model._beliefs[M].log_evidence()
    partitions = model._finer.get(M, {})
    here = model._stopping[M] = model.walk.prior(model._depth[M])
    if not partitions:
        model._log_Z[M] = log_Z_phi
        return
    log_Z_b = np.array([sum(model._log_Z[N] for N in partition) for partition in partitions.values()])
    onward, log_v = mix(np.full(len(log_Z_b), -np.log(len(log_Z_b))), log_Z_b)
    if len(partitions) > 1:
        here.log_v = dict(zip(partitions, (log_v + np.log(len(partitions))).tolist()))
    model._log_Z[M] = log_Z = float(np.logaddexp(here.log_w + log_Z_phi, here.log_1mw + onward))
    here.log_w += log_Z_phi - log_Z
    here.log_1mw += onward - log_Z


def take_in(model: "CoverModel", other: "CoverModel") -> None:
    """Add what another model of the same contexts has learned, and weigh all of them again."""
    for M, belief in other._beliefs.items():
        if M not in model._beliefs:
            model._beliefs[M] = Belief(model.local, None)
        model._beliefs[M].merge(belief)
    model._depth.update(other._depth)
    for M, partitions in other._finer.items():
        for label, contexts in partitions.items():
            model._finer.setdefault(M, {}).setdefault(label, set()).update(contexts)
    for M in sorted(model._beliefs, key=lambda M: -model._depth[M]):
        _weigh(model, M)


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
    depths = {M: depth for M, depth in state._depth.items() if M != START}
    contexts = set(state._beliefs)
    require("contexts", contexts == set(depths) and contexts <= set(state._stopping))
    require("contexts", set(state._stopping) <= contexts | {START} and set(state._rows) <= contexts)
    require("contexts", not contexts or START in state._stopping)
    if isinstance(state.cover, KDTree):
        nodes = state.cover._nodes
        require("contexts", all(type(M) is int and 0 <= M < len(nodes) for M in contexts))
        require("depths", all(nodes[M].depth == depth for M, depth in depths.items()))
    else:
        require("depths", not depths or max(depths.values()) == state.cover.depth)
    for M, partitions in state._finer.items():
        require("finer contexts", M in contexts or M == START)
        require("finer contexts", all(part <= contexts for part in partitions.values()))
    evidence = set(state._log_Z) - {START}
    require("evidence", evidence == contexts if isinstance(state.walk, Refining) else evidence <= contexts)
    for M, rows in state._rows.items():
        for row in rows:
            x, _ = checked_row(state, row.x, row.y, learning=True)
            if isinstance(x, np.ndarray):  # a number passes for a vector of one, but is none
                require("rows", isinstance(row.x, np.ndarray) and row.x.shape == x.shape)
            require("rows", state.cover.contexts(x)[-1][0] == M)
