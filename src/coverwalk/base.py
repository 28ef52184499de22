"""The two contracts: `Cover`, which contexts contain x, and `LocalModel`, what a context predicts for y given x."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from coverwalk._docstrings import Documented

__all__ = ["Context", "Cover", "Floats", "LocalModel", "Move", "Posterior", "RealPosterior"]

Floats = NDArray[np.float64]
Context = Hashable  # the name of a set of a cover; equal names are the same set
Move = tuple[Hashable, Context]  # a transition: its label, which owns the weight v, and where it leads for this x


class Cover(Documented, ABC):
    """A sequence of covers C_1 (the coarsest), C_2, ... of the space of x.

    Your own cover needs one method, `contexts`. It must have these properties:

    - Every x has at least one context in C_1, and no level of x is skipped.
    - The name of a context always means the same set: if x is in it now, it stays in it.
    - ``nested = True`` promises that every context of level k + 1 lies inside the contexts of level k that lead to it,
      and that a context offers the same labels to every x in it. Each label is a partition of the context. Then the
      refining walk is the exact posterior, and models can be merged (docs/math.md, Theorem 2).
    """

    _words = {  # noqa: RUF012
        "x": "object\n    One x, as `check` returned it.",
        "check.x": "object\n    One x, as a user gives it.",
        "contexts ->": "sequence of sequences of contexts\n    One for each level.",
        "context": "hashable\n    Where the walk is.",
        "finer": "sequence of contexts\n    Those of the next level that contain x.",
        "refinements ->": "sequence of moves\n    Pairs of a label and a context.",
        "check ->": "object\n    x as the other methods take it.",
        "grow ->": "sequence of contexts\n    Those that were split.",
    }
    nested: ClassVar[bool] = False

    @abstractmethod
    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """The contexts that contain x, C_1(x), ..., C_d(x), from coarse to fine."""

    def refinements(self, context: Context, x: Any, finer: Sequence[Context]) -> Sequence[Move]:
        """The moves of the refining walk from a context: by default, to all contexts of the next level with x.

        In a nested cover with one context per level, the move has label 0. In a lattice, each destination is its own
        label, so each pair (M, N) has its own v_MN.
        """
        if self.nested:
            return list(enumerate(finer))
        return [(destination, destination) for destination in finer]

    def check(self, x: Any) -> Any:
        """Return x in the form that the other methods take, or raise a ValueError that says what is expected."""
        return x

    def grow(self, x: Any) -> Sequence[Context]:
        """Learn that x occurred, and return the contexts that were split. A fixed cover never grows."""
        return ()

    @property
    def growing(self) -> bool:
        """Whether rows may still change this cover."""
        return type(self).grow is not Cover.grow

    def __eq__(self, other: object) -> bool:
        """Two covers are equal if each x has the same contexts in both, now and later."""
        return type(self) is type(other) and not self.growing and _same(vars(self), vars(other))

    __hash__ = None  # type: ignore[assignment]


class Posterior(Documented, ABC):
    """The predictive distribution phi_M of y given x in one context, after its rows.

    The tests check these properties for every class: the sum of ``logpdf`` over the rows, each before its ``update``,
    is ``log_evidence``; ``logpdf`` changes nothing; if ``LocalModel.exchangeable``, the order of the rows does not
    matter, and ``merge`` gives the same result as learning the rows of both.
    """

    _words = {  # noqa: RUF012
        "x": "object\n    One x, as `check` returned it.",
        "y": "object\n    Its y, as `check` returned it.",
        "cdf.y": "float\n    The value.",
        "rng": "numpy Generator\n    Source of random numbers.",
        "logpdf ->": "float\n    In nats.",
        "log_evidence ->": "float\n    In nats.",
        "mean ->": "ndarray of shape (q,)\n    One number for each output.",
        "var ->": "ndarray of shape (q,)\n    One number for each output.",
        "sample ->": "object\n    One y.",
        "other": "Posterior\n    It is not changed.",
    }

    @abstractmethod
    def update(self, x: Any, y: Any) -> None:
        """Learn one row."""

    @abstractmethod
    def logpdf(self, x: Any, y: Any) -> float:
        """Log of the predictive density, or probability, of y given x."""

    @abstractmethod
    def log_evidence(self) -> float:
        """Log probability of all rows learned, with the parameters integrated out."""

    @abstractmethod
    def sample(self, x: Any, rng: np.random.Generator) -> Any:
        """Draw y from the predictive distribution."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add what another posterior with the same prior has learned."""


class RealPosterior(Posterior):
    """A posterior over real y: a vector of q outputs, or a float where q = 1."""

    @abstractmethod
    def mean(self, x: Any) -> Floats:
        """Predictive mean; NaN if the distribution has none."""

    @abstractmethod
    def var(self, x: Any) -> Floats:
        """Predictive variance of each output; infinite if the distribution has none."""

    @abstractmethod
    def cdf(self, x: Any, y: float) -> float:
        """P(Y <= y), for one output.

        Returns
        -------
        float
            The probability.
        """


class LocalModel(Documented, ABC):
    """A model of y given x with its prior (Phi); `start` makes the posterior of a new context."""

    _words = {  # noqa: RUF012
        "check_learnable.x": "object\n    One x, as `check` returned it.",
        "check_learnable.y": "object\n    Its y, as `check` returned it.",
        "parent": "Posterior, optional\n    That of the parent context.",
        "start ->": "Posterior\n    A new posterior.",
        "check.x": "object\n    One x, as the cover checked it.",
        "check.y": "object\n    Its y, as a user gives it.",
        "check ->": "pair\n    x and y as the other methods take them.",
    }
    _schema: ClassVar[Any]  # what a file may hold of it; the user's own need none
    exchangeable: ClassVar[bool] = True  # the order of rows does not change the posterior

    @abstractmethod
    def start(self, parent: Posterior | None = None) -> Posterior:
        """A posterior without rows. With ``parent``, its prior is centred on the posterior of the parent."""

    @abstractmethod
    def check(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return x and y in the form that the other methods take, or raise a ValueError that says what is expected."""

    def check_learnable(self, x: Any, y: Any) -> None:
        """Raise a ValueError if a checked row can be predicted but not learned. By default all can be learned."""


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def as_vector(value: Any, name: str, size: int | None = None) -> Floats:
    """A float or a sequence of floats as a vector; anything else, and NaN and infinities, is refused."""
    try:
        vector = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number or a vector of numbers, got {value!r}") from error
    if vector.ndim != 1 or vector.size == 0 or (size is not None and len(vector) != size):
        wanted = "a number or a non-empty vector" if size is None else f"{size} number{'s' * (size > 1)}"
        raise ValueError(f"{name} must be {wanted}, got an array of shape {np.shape(value)}: {value!r}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite, got {value!r}: drop the row or fill the value in")
    return vector
