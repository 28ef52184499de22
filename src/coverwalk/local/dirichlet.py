"""Symbols or classes: counts under a Dirichlet prior."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from coverwalk.base import LocalModel, Posterior
from coverwalk.files.schema import List, Plain, Real, Schema, Scope, Table, Whole, require

__all__ = ["Dirichlet"]


class Dirichlet(LocalModel):
    """A Dirichlet model of symbols: P(y) = (n_y + a_y) / (n + sum a).

    Parameters
    ----------
    alphabet : sequence of hashable
        All symbols that can occur.
    concentration : float
        Prior count of each symbol; 1/2 is the Krichevsky-Trofimov estimator.

    Examples
    --------
    >>> kt = Dirichlet("ab").start()
    >>> for y in "aab": kt.update(None, y)
    >>> round(float(np.exp(kt.log_evidence())), 4)  # 1/2 * 3/4 * 1/6
    0.0625
    """

    _schema = Schema(
        alphabet=List(Plain(), low=1, kind=tuple),
        concentration=Real(low=1e-100, high=1e100),
        check=lambda state, scope: scope.update(symbols=_distinct(state.alphabet)),
    )

    def __init__(self, alphabet: Sequence[Hashable], concentration: float = 0.5) -> None:
        self.alphabet = tuple(alphabet)
        if len(set(self.alphabet)) != len(self.alphabet) or not self.alphabet:
            raise ValueError(f"alphabet must be a non-empty sequence of distinct symbols, got {alphabet!r}")
        self.concentration = float(concentration)
        self._schema.check_parameters(vars(self), "concentration")

    def start(self, parent: Posterior | None = None) -> "DirichletPosterior":
        """Uniform, or with the parent's prediction as the base measure and as many prior counts in all."""
        base = {y: 1.0 / len(self.alphabet) for y in self.alphabet}
        if isinstance(parent, DirichletPosterior):
            base = parent.probabilities()
        total = self.concentration * len(self.alphabet)
        return DirichletPosterior({y: total * share for y, share in base.items()})

    def check(self, x: Any, y: Any) -> tuple[Any, Any]:
        """A symbol of the alphabet."""
        if y not in self.alphabet:
            shown = ", ".join(map(repr, self.alphabet[:8])) + (", ..." if len(self.alphabet) > 8 else "")
            raise ValueError(f"y must be one of the alphabet ({shown}), got {y!r}: name every symbol that may come")
        return x, y


def _distinct(alphabet: tuple[Hashable, ...]) -> set[Hashable]:
    require("alphabet", len(set(alphabet)) == len(alphabet))
    return set(alphabet)


def _check_counts(state: Any, scope: Scope) -> None:
    model = scope["model"]
    require("prior", state.prior.keys() == model.symbols)
    require("prior", abs(sum(state.prior.values()) / (model.concentration * len(model.symbols)) - 1.0) < 1e-6)
    require("counts", state.counts.keys() <= model.symbols)


class DirichletPosterior(Posterior):
    """Prior counts and counts."""

    _schema = Schema(prior=Table(Real(above=0)), counts=Table(Whole(0, 10**15), kind=Counter), check=_check_counts)

    def __init__(self, prior: Mapping[Hashable, float]) -> None:
        self.prior = dict(prior)
        self.counts: Counter[Hashable] = Counter()

    def update(self, x: Any, y: Any) -> None:
        """Count y."""
        self.counts[y] += 1

    def probabilities(self) -> dict[Hashable, float]:
        """The predictive probability of every symbol."""
        total = sum(self.prior.values()) + self.counts.total()
        return {y: (self.counts[y] + a) / total for y, a in self.prior.items()}

    def logpdf(self, x: Any, y: Any) -> float:
        """Log probability of y."""
        total = sum(self.prior.values()) + self.counts.total()
        return float(np.log((self.counts[y] + self.prior[y]) / total))

    def log_evidence(self) -> float:
        """Polya's law of the counts in the order they came."""
        a = np.array(list(self.prior.values()))
        n = np.array([self.counts[y] for y in self.prior])
        return float(np.sum(gammaln(a + n) - gammaln(a)) + gammaln(a.sum()) - gammaln((a + n).sum()))

    def sample(self, x: Any, rng: np.random.Generator) -> Any:
        """A symbol."""
        symbols, shares = zip(*self.probabilities().items())
        return symbols[rng.choice(len(symbols), p=np.array(shares) / np.sum(shares))]

    def merge(self, other: Self) -> None:
        """Add the counts."""
        self.counts.update(other.counts)
