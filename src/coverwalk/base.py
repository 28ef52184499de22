"""The two contracts: `Cover`, which contexts hold x, and `LocalModel`, what a context believes about y given x."""

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
    """C: a sequence of covers C_1 (coarsest), C_2, ... of the space of x.

    A cover of one's own needs one method, `contexts`. What must hold:

    - every x has at least one context in C_1; the levels of x are listed without gaps;
    - a context's name stands for one set for ever: if x is in it now, it stays in it;
    - ``nested = True`` promises that every context of level k + 1 lies inside the contexts of level k that
      lead to it, and that a context offers the same labels to every x in it, each label a partition of the
      context. Then the refining walk is the exact posterior, free of order, and merges (docs/math.md, Theorem 2).
    """

    nested: ClassVar[bool] = False

    @abstractmethod
    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """C_1(x), ..., C_d(x): for each level, coarse to fine, the contexts that hold x.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.

        Returns
        -------
        sequence of sequences of contexts
            One for each level.
        """

    def refinements(self, context: Context, x: Any, finer: Sequence[Context]) -> Sequence[Move]:
        """The moves of the refining walk from a context: all of the next level that hold x, unless overridden.

        In a nested cover with one context a level the one move is label 0; in a lattice each destination is its
        own label, so that v_MN belongs to the pair (M, N).

        Parameters
        ----------
        context : hashable
            Where the walk is.
        x : object
            One x, as `check` returned it.
        finer : sequence of contexts
            Those of the next level that contain x.

        Returns
        -------
        sequence of moves
            Pairs of a label and a context.
        """
        if self.nested:
            return list(enumerate(finer))
        return [(destination, destination) for destination in finer]

    def check(self, x: Any) -> Any:
        """x as this cover wants it, or a ValueError that says what it wants.

        Parameters
        ----------
        x : object
            One x, as a user gives it.

        Returns
        -------
        object
            x as the other methods take it.
        """
        return x

    def grow(self, x: Any) -> Sequence[Context]:
        """Note that x was seen; the contexts that this has split, in order. A fixed cover never grows.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.

        Returns
        -------
        sequence of contexts
            Those that were split.
        """
        return ()

    @property
    def growing(self) -> bool:
        """Whether rows may still change this cover."""
        return type(self).grow is not Cover.grow

    def __eq__(self, other: object) -> bool:
        """Covers are equal when the same x are in the same contexts, now and later."""
        return type(self) is type(other) and not self.growing and _same(vars(self), vars(other))

    __hash__ = None  # type: ignore[assignment]


class Posterior(Documented, ABC):
    """phi_M: what one context believes about y given x, after the rows it has seen.

    Laws, checked for every class: the ``logpdf`` of each row before its ``update``, summed, is ``log_evidence``;
    ``logpdf`` changes nothing; where ``LocalModel.exchangeable``, the order of rows does not matter and
    ``merge`` equals having seen the rows of both.
    """

    @abstractmethod
    def update(self, x: Any, y: Any) -> None:
        """See one row.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.
        y : object
            Its y, as `check` returned it.
        """

    @abstractmethod
    def logpdf(self, x: Any, y: Any) -> float:
        """Log of the predictive density (or mass) of y given x.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.
        y : object
            Its y, as `check` returned it.

        Returns
        -------
        float
            In nats.
        """

    @abstractmethod
    def log_evidence(self) -> float:
        """Log probability of all rows seen, parameters integrated out.

        Returns
        -------
        float
            In nats.
        """

    @abstractmethod
    def sample(self, x: Any, rng: np.random.Generator) -> Any:
        """Draw y from the predictive.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.
        rng : numpy Generator
            Source of random numbers.

        Returns
        -------
        object
            One y.
        """

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take in what another posterior of the same prior has seen.

        Parameters
        ----------
        other : Posterior
            It stays as it is.
        """


class RealPosterior(Posterior):
    """A posterior over real y: a vector of q outputs, or a float where q = 1."""

    @abstractmethod
    def mean(self, x: Any) -> Floats:
        """Predictive mean (q,); NaN where the distribution has none.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.

        Returns
        -------
        ndarray of shape (q,)
            One number for each output.
        """

    @abstractmethod
    def var(self, x: Any) -> Floats:
        """Predictive variance of each output (q,); infinite where the distribution has none.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.

        Returns
        -------
        ndarray of shape (q,)
            One number for each output.
        """

    @abstractmethod
    def cdf(self, x: Any, y: float) -> float:
        """P(Y <= y), for one output.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.
        y : float
            The value.

        Returns
        -------
        float
            The probability.
        """


class LocalModel(Documented, ABC):
    """Phi: a family of models of y given x with its prior; `start` makes the posterior of a new context."""

    exchangeable: ClassVar[bool] = True  # the order of rows does not change the posterior

    @abstractmethod
    def start(self, parent: Posterior | None = None) -> Posterior:
        """A posterior that has seen nothing; given a parent's, its prior is centred on what the parent believes.

        Parameters
        ----------
        parent : Posterior, optional
            That of the parent context.

        Returns
        -------
        Posterior
            A new one.
        """

    @abstractmethod
    def check(self, x: Any, y: Any) -> tuple[Any, Any]:
        """x and y as this model wants them, or a ValueError that says what it wants.

        Parameters
        ----------
        x : object
            One x, as the cover checked it.
        y : object
            Its y, as a user gives it.

        Returns
        -------
        pair
            x and y as the other methods take them.
        """

    def check_learnable(self, x: Any, y: Any) -> None:
        """Refuse a checked row that has a prediction but cannot be learned; by default there is none.

        Parameters
        ----------
        x : object
            One x, as `check` returned it.
        y : object
            Its y, as `check` returned it.
        """


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
