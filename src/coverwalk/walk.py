"""W, V: the halting walk. Where it stops (w) and where it moves (v), and how an observation changes both.

Everything is one operation, Bayes' rule for a mixture (`mix`), applied twice in every context: to the choice of
where to move, and to the choice between stopping and moving on.

    ψ_M(y|x) = w_M φ_M(y|x) + (1 - w_M) Σ_N v_MN ψ_N(y|x)        eq. 1; the paper's eq:tree-recursion
    w_M'     = w_M φ_M / ψ_M                                     eq. 2; the paper prints ψ_M above: see errata
    v_MN'    = v_MN ψ_N / Σ_K v_MK ψ_K                           eq. 3; the paper sums over origins: see errata
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from coverwalk.base import Context, Cover, Floats, Move
from coverwalk.files.schema import Maybe, Real, Schema, Scope, Table, require, stored

__all__ = ["START", "Coarsening", "Refining", "Stopping", "Visit", "Walk", "mix"]

START = "start"  # where every walk begins: a context that never stops and only chooses where to enter
StopPrior = Callable[[int], float]


def mix(log_weight: Floats, log_density: Floats) -> tuple[float, Floats]:
    """Log density of a mixture, and the log posterior of its weights."""
    joint = log_weight + log_density
    log_mixture = float(np.logaddexp.reduce(joint))
    return log_mixture, joint - log_mixture


def _check_weights(state: Any, scope: Scope) -> None:
    require("w", abs(np.exp(state.log_w) + np.exp(state.log_1mw) - 1.0) < 1e-6)


@stored(check=_check_weights)
@dataclass
class Stopping:
    """The walk's parameters in one context; both log w and log(1-w), so that neither is lost near 0 or 1."""

    log_w: Annotated[float, Real(high=1e-6, inf=True)]
    log_1mw: Annotated[float, Real(high=1e-6, inf=True)]
    # by label; not normalised, absent means 0
    log_v: Annotated[dict[Hashable, float], Table(Real())] = field(default_factory=dict)

    @classmethod
    def prior(cls, w: float) -> "Stopping":
        """Stop with probability w, moves uniform."""
        if not 0.0 <= w <= 1.0:
            raise ValueError(f"a stopping probability must lie in [0, 1], got {w!r}: check the argument `stop`")
        with np.errstate(divide="ignore"):
            return cls(float(np.log(w)), float(np.log1p(-w)))

    def log_psi(self, log_phi: float, onward: float) -> float:
        """Log psi of a context, eq. 1: phi if the walk stops there, ``onward`` if it moves on."""
        return float(np.logaddexp(self.log_w + log_phi, self.log_1mw + onward))

    def update(self, log_phi: float, onward: float) -> float:
        """Change w by eq. 2; log psi before."""
        log_psi = self.log_psi(log_phi, onward)
        self.log_w += log_phi - log_psi
        self.log_1mw += onward - log_psi
        return log_psi

    def move_weights(self, moves: Sequence[Move]) -> tuple[Floats, float]:
        """Log v over the moves open to this x, normalised; and the log of what they weighed together.

        Where other x have other moves, x only redistributes the weight of its own: their sum is kept.
        """
        log_v = np.array([self.log_v.get(label, 0.0) for label, _ in moves])
        total = float(np.logaddexp.reduce(log_v))
        return log_v - total, total


class Visit(NamedTuple):
    """One context the walk can reach for x, its depth (0 coarsest) and its moves for this x; none: it stops there."""

    context: Context
    depth: int
    moves: Sequence[Move]


_STOP = Schema(_stop=Maybe(Real(low=0, high=1, whole=True)))


class Walk(ABC):
    """A direction through the covers. The parameters live with the caller, by context; START has w = 0."""

    _default_stop: float | StopPrior

    def __init__(self, stop: float | StopPrior | None = None) -> None:
        self._stop = stop

    @abstractmethod
    def route(self, cover: Cover, x: Any) -> list[Visit]:
        """Every context the walk can reach for x, each after all that it can move to; START last."""

    def prior(self, depth: int) -> Stopping:
        """The parameters of a context at this depth that no row has touched."""
        stop = self._default_stop if self._stop is None else self._stop
        return Stopping.prior(stop(depth) if callable(stop) else float(stop))

    @staticmethod
    def predict(
        route: Sequence[Visit],
        stopping: Mapping[Context, Stopping],
        log_phi: Mapping[Context, float],
        *,
        learn: bool = False,
    ) -> dict[Context, float]:
        """Log psi of every context of the route, eq. 1; to learn, w and v then change by eqs. 2 and 3."""
        log_psi: dict[Context, float] = {}
        for M, _, moves in route:
            if not moves:
                log_psi[M] = log_phi[M]
                continue
            here, log_phi_M = stopping[M], log_phi.get(M, -np.inf)  # START predicts nothing itself
            log_v, total = here.move_weights(moves)
            onward, posterior = mix(log_v, np.array([log_psi[N] for _, N in moves]))
            log_psi[M] = here.update(log_phi_M, onward) if learn else here.log_psi(log_phi_M, onward)
            if learn and len(moves) > 1:  # a single move has v = 1 whatever it weighs
                here.log_v.update({label: float(p) + total for (label, _), p in zip(moves, posterior)})
        return log_psi

    @staticmethod
    def weights(route: Sequence[Visit], stopping: Mapping[Context, Stopping]) -> dict[Context, float]:
        """xi(M | x): with which log probability the walk for x stops in each context."""
        log_reach: dict[Context, float] = {START: 0.0}
        log_xi: dict[Context, float] = {}
        for M, _, moves in reversed(route):
            reach = log_reach.get(M, -np.inf)
            log_xi[M] = reach + (stopping[M].log_w if moves else 0.0)
            if moves:
                log_v, _ = stopping[M].move_weights(moves)
                for (_, N), log_v_N in zip(moves, log_v):
                    onward = reach + stopping[M].log_1mw + log_v_N
                    log_reach[N] = float(np.logaddexp(log_reach.get(N, -np.inf), onward))
        del log_xi[START]
        return log_xi


class Refining(Walk):
    """Coarse to fine: start in C_1; a context without finer ones stops. Prior w = 1/2."""

    _schema = _STOP
    _default_stop = 0.5

    def route(self, cover: Cover, x: Any) -> list[Visit]:
        """From the finest contexts of x up to START."""
        levels = cover.contexts(x)
        visits: list[Visit] = []
        for depth in reversed(range(len(levels))):
            finer = levels[depth + 1] if depth + 1 < len(levels) else ()
            visits += [Visit(M, depth, cover.refinements(M, x, finer) if finer else ()) for M in levels[depth]]
        return [*visits, Visit(START, -1, [(M, M) for M in levels[0]])]


class Coarsening(Walk):
    """Fine to coarse, as in the paper: start in the finest context of x; C_1 stops. Prior w = 2^-k at depth k."""

    _schema = _STOP

    @staticmethod
    def _default_stop(depth: int) -> float:
        return 2.0**-depth

    def route(self, cover: Cover, x: Any) -> list[Visit]:
        """From C_1(x) down to the finest contexts of x, then START."""
        levels = cover.contexts(x)
        visits = [Visit(M, 0, ()) for M in levels[0]]
        for depth in range(1, len(levels)):
            moves = [(N, N) for N in levels[depth - 1]]
            visits += [Visit(M, depth, moves) for M in levels[depth]]
        return [*visits, Visit(START, -1, [(M, M) for M in levels[-1]])]
