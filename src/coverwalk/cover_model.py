"""CoverModel: any sequence of covers, any local models, either walk. Slow and general; the fast tier equals it."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal

import numpy as np

from coverwalk.base import Context, Cover, Floats, LocalModel, RealPosterior
from coverwalk.belief import LOCALS, Belief, Component, KeptRow, check_contexts, checked_row, split, take_in
from coverwalk.covers.boxes import ChoiceBoxes, DyadicBoxes, ShiftedGrids
from coverwalk.covers.kdtree import KDTree
from coverwalk.covers.suffix import SuffixTree
from coverwalk.files.estimators import Saved
from coverwalk.files.schema import Flag, List, Object, Schema, Table, Text
from coverwalk.locks import alone, reads, writes
from coverwalk.walk import START, Coarsening, Refining, Stopping, StopPrior, Visit, Walk

__all__ = ["Component", "CoverModel"]

_FEW_ROWS = 64  # are learned at one go; of more a copy is kept until all are learned
_WALKS: dict[str, type[Walk]] = {"refine": Refining, "coarsen": Coarsening}


class CoverModel(Saved):
    """The distribution of y given x, by a walk over any sequence of covers, with any local models.

    This is the paper's model in plain Python. It takes your own covers, and x can be anything that a cover takes, such
    as a string. The other estimators are faster.

    Parameters
    ----------
    cover : Cover
        Says which contexts contain x (C in the paper). See `coverwalk.covers`, or write your own: one method is enough.
    local : LocalModel or sequence of them
        What each context predicts (Phi). If there are several, each context learns their weights.
    walk : {"refine", "coarsen"}
        From coarse to fine: on nested covers this is the exact posterior, and does not depend on the order of the rows.
        Or from fine to coarse: the walk of the paper's Section 2.3.
    stop : float or callable, optional
        Prior probability w of stopping in a context, or a function of its depth (0 is the coarsest). By default 1/2
        for "refine", and 2^-depth for "coarsen".
    priors : {"fixed", "parent"}
        Whether the prior of a new context is that of the local model, or is centred on the posterior of its parent.
    replay : bool
        Whether the children of a split learn the rows of their parent again.

    Examples
    --------
    A density that changes its shape with x:

    >>> from coverwalk.covers import DyadicBoxes
    >>> from coverwalk.local import Polynomial, TreeDensity
    >>> model = CoverModel(DyadicBoxes(0, 1, depth=3), [Polynomial(0), TreeDensity()])
    >>> rng = np.random.default_rng(0)
    >>> for x in rng.random(300):
    ...     model.update(x, rng.choice([-1, 1]) * x + 0.05 * rng.standard_normal())
    >>> [round(float(np.exp(model.log_predict(0.9, y))), 2) for y in (-0.9, 0.0, 0.9)]  # two modes
    [1.67, 0.03, 2.63]
    """

    _words = {  # noqa: RUF012
        "x": "object\n    What the cover takes: a number, a vector, a string.",
        "y": "object\n    What the local models take.",
        "X": "iterable\n    One x for each row.",
        "Y": "iterable\n    One y for each row.",
        "other": "CoverModel\n    It is not changed.",
        "log_predict ->": "float\n    Log density, or log probability, in nats.",
        "log_evidence ->": "float\n    In nats.",
        "posterior ->": "list of Component\n    Those with the largest weights first. The weights sum to one.",
        "mean ->": "ndarray of shape (q,)\n    The mean.",
        "cdf ->": "float\n    The probability.",
        "rng": "numpy Generator\n    Source of random numbers.",
        "sample ->": "object\n    One y.",
    }
    _schema = Schema(
        cover=Object(KDTree, DyadicBoxes, ChoiceBoxes, ShiftedGrids, SuffixTree),
        local=List(Object(*LOCALS), low=1, high=100, kind=tuple),
        walk=Object(Refining, Coarsening),
        priors=Text("fixed", "parent"),
        replay=Flag(),
        _beliefs=Table(Object(Belief, local="local", p="cover.p")),
        _start=Object(Stopping),
        check=check_contexts,
    )

    def __init__(
        self,
        cover: Cover,
        local: LocalModel | Sequence[LocalModel],
        *,
        walk: Literal["refine", "coarsen"] = "refine",
        stop: float | StopPrior | None = None,
        priors: Literal["fixed", "parent"] = "fixed",
        replay: bool = True,
    ) -> None:
        if walk not in _WALKS:
            raise ValueError(f"walk must be 'refine' or 'coarsen', got {walk!r}")
        if priors not in ("fixed", "parent"):
            raise ValueError(f"priors must be 'fixed' or 'parent', got {priors!r}")
        if not isinstance(cover, Cover):
            raise TypeError(f"cover must be a Cover, such as KDTree() or DyadicBoxes(0, 1, depth=3); got {cover!r}")
        self.cover = cover
        self.local = (local,) if isinstance(local, LocalModel) else tuple(local)
        if not self.local:
            raise ValueError("local must hold at least one local model, got none")
        outputs = sorted({model.q for model in self.local if hasattr(model, "q")})
        if len(outputs) > 1:
            raise ValueError(f"all local models must predict the same y, got models of q = {outputs} outputs")
        self.walk: Walk = _WALKS[walk](stop)
        self.priors, self.replay = priors, replay
        self._beliefs: dict[Context, Belief] = {}
        self._start = Stopping.prior(0.0)

    @property
    def exact(self) -> bool:
        """Whether this model is the exact Bayesian posterior over context maps. Then models can be merged."""
        exchangeable = all(model.exchangeable for model in self.local) and self.priors == "fixed"
        structure = self.cover.nested and (self.replay or not self.cover.growing)
        return isinstance(self.walk, Refining) and structure and exchangeable

    def __len__(self) -> int:
        """The number of contexts with at least one row."""
        return len(self._beliefs)

    # Learning

    @writes
    def update(self, x: Any, y: Any) -> None:
        """Learn one row: update w, v and phi in every context that the walk can reach for x."""
        x, y = checked_row(self, x, y, learning=True)
        with alone(self, forget=False):
            self._learn(x, y)

    @writes
    def update_many(self, X: Iterable[Any], Y: Iterable[Any]) -> None:
        """Learn rows, in order. An invalid row leaves the model unchanged."""
        X, Y = list(X), list(Y)
        if len(X) != len(Y):
            raise ValueError(f"X and Y must have the same number of rows, got {len(X)} and {len(Y)}")
        rows = []
        for i, (x, y) in enumerate(zip(X, Y)):
            try:
                rows.append(checked_row(self, x, y, learning=True))
            except ValueError as error:
                raise ValueError(f"row {i}: {error}") from error
        if len(rows) <= _FEW_ROWS:
            with alone(self, forget=False):
                for x, y in rows:
                    self._learn(x, y)
            return
        before = deepcopy(vars(self))
        try:
            for x, y in rows:
                with alone(self, forget=False):
                    self._learn(x, y)
        except BaseException:
            with alone(self, forget=False):
                self.__dict__ = before
            raise

    def _learn(self, x: Any, y: Any) -> None:
        route, beliefs, stopping = self._reach(x)
        weighed = {M: belief.weigh(x, y) for M, belief in beliefs.items()}
        log_phi = {M: log_phi for M, (log_phi, _) in weighed.items()}
        # Nothing has changed up to here: a row that cannot be weighed leaves the model as it was.
        log_psi = self.walk.predict(route, stopping, log_phi, learn=True)
        self._beliefs.update(beliefs)
        for M, belief in beliefs.items():
            belief.update(x, y, weighed[M][1])
        if isinstance(self.walk, Refining):
            for M, _, moves in route[:-1]:
                beliefs[M].log_Z += log_psi[M]
                for label, N in moves:
                    beliefs[M].finer.setdefault(label, set()).add(N)
        if self.replay and self.cover.growing and self.cover.nested:
            finest = self.cover.contexts(x)[-1][0]
            beliefs[finest].rows.append(KeptRow(x, y, log_psi[finest]))
        for M in self.cover.grow(x):
            split(self, M)

    def _reach(self, x: Any) -> tuple[list[Visit], dict[Context, Belief], dict[Context, Stopping]]:
        """The route of x with the state of each context on it; a new context's is made but not kept."""
        route = self.walk.route(self.cover, x)
        beliefs: dict[Context, Belief] = {}
        for M, depth, _ in sorted(route[:-1], key=lambda visit: visit.depth):
            beliefs[M] = self._beliefs.get(M) or self._new_belief(
                depth, next((beliefs[N] for N, k, _ in route if k == depth - 1 and N in beliefs), None)
            )
        return route, beliefs, {START: self._start, **{M: belief.stopping for M, belief in beliefs.items()}}

    def _new_belief(self, depth: int, parent: Belief | None = None) -> Belief:
        return Belief(self.local, depth, self.walk.prior(depth), parent if self.priors == "parent" else None)

    @writes
    def merge(self, other: "CoverModel") -> None:
        """Add what another model has learned on an equal cover, as if all rows had been learned in one model."""
        if not isinstance(self.walk, Refining):
            raise ValueError(
                "models of the coarsening walk do not merge: their weights depend on the order of rows; "
                "use walk='refine', or learn all rows in one model"
            )
        if not self.exact:
            raise ValueError(
                "only exact models merge: a nested cover, local models that do not depend on the order of rows, "
                f"priors='fixed', and replay; here nested={self.cover.nested}, priors={self.priors!r}, "
                f"replay={self.replay}, local={self.local}"
            )
        alike = self.walk.prior(1) == other.walk.prior(1) and [vars(m) for m in self.local] == [
            vars(m) for m in other.local
        ]
        if not (self.cover == other.cover and alike and isinstance(other.walk, Refining)):
            raise ValueError(
                "both models must have equal covers that no longer grow (freeze a KDTree), local models and walks; "
                f"got {self.cover!r} and {other.cover!r}"
            )
        with alone(self, forget=False):
            take_in(self, other)

    # Predictions

    @reads
    def log_predict(self, x: Any, y: Any) -> float:
        """Log density, or log probability, of y given x."""
        x, y = checked_row(self, x, y)
        route, beliefs, stopping = self._reach(x)
        log_phi = {M: belief.weigh(x, y)[0] for M, belief in beliefs.items()}
        return self.walk.predict(route, stopping, log_phi)[START]

    @reads
    def log_evidence(self) -> float:
        """Log probability of all rows learned, under the present cover. For exact models only."""
        if not self.exact:
            raise ValueError("the evidence exists for exact models only; sum log_predict before each update instead")
        return float(sum(belief.log_Z for belief in self._beliefs.values() if belief.depth == 0))

    @reads
    def posterior(self, x: Any) -> list[Component]:
        """The components of the prediction for x: every local model of every context of x, with its weight."""
        x = self.cover.check(x)
        route, beliefs, stopping = self._reach(x)
        components = [
            Component(float(np.exp(log_xi + log_v)), M, beliefs[M].depth, model, posterior)
            for M, log_xi in self.walk.weights(route, stopping).items()
            for log_v, model, posterior in zip(beliefs[M].log_v, self.local, beliefs[M].posteriors)
        ]
        return sorted(components, key=lambda component: -component.weight)

    @reads
    def mean(self, x: Any) -> Floats:
        """Mean of y given x, for real y."""
        return np.asarray(sum(weight * posterior.mean(x) for weight, posterior in self._real_components(x)))

    @reads
    def cdf(self, x: Any, y: float) -> float:
        """P(Y <= y | x), for one real output."""
        return float(sum(weight * posterior.cdf(x, y) for weight, posterior in self._real_components(x)))

    def _real_components(self, x: Any) -> list[tuple[float, RealPosterior]]:
        found = self.posterior(x)
        components = [(v.weight, v.posterior) for v in found if isinstance(v.posterior, RealPosterior)]
        if len(components) < len(found):
            raise ValueError("mean and cdf are for real y; for symbols use log_predict")
        return components

    @reads
    def sample(self, x: Any, rng: np.random.Generator) -> Any:
        """Draw y given x: walk until the walk stops, then draw from the local model (Section 2.2 of the paper)."""
        x = self.cover.check(x)
        route, beliefs, stopping = self._reach(x)
        moves = {M: m for M, _, m in route}
        M: Context = START
        while moves[M] and (M == START or np.log(rng.random()) >= stopping[M].log_w):
            log_v, _ = stopping[M].move_weights(moves[M])
            M = moves[M][rng.choice(len(log_v), p=np.exp(log_v) / np.exp(log_v).sum())][1]
        v = np.exp(beliefs[M].log_v)
        return beliefs[M].posteriors[rng.choice(len(v), p=v / v.sum())].sample(x, rng)

    # Files

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the parts of a pickle or a file, in which posteriors do not know their local models."""
        vars(self).update(state)
        for belief in self._beliefs.values():
            for model, posterior in zip(self.local, belief.posteriors):
                if "_model" in vars(posterior):
                    vars(posterior)["_model"] = model
