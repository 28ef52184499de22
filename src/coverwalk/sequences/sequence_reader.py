"""What a fitted SequenceModel can be asked: probabilities, losses, draws, and where they come from."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from coverwalk._kernels.sequences import suffix_tree, suffix_walk
from coverwalk._kernels.sequences.store import COVERS, LatticeStore
from coverwalk.locks import reading, reads
from coverwalk.sequences import lattice_engine, suffix_engine
from coverwalk.sequences.alphabet import Alphabet
from coverwalk.sequences.context_tree import BORDER_SIGN, ContextTree, map_trees, stop_weights
from coverwalk.sequences.context_weights import ContextWeight, context_weights, weights_text
from coverwalk.sequences.entropy_rate import EntropyRate
from coverwalk.sequences.sequence_parameters import check, lattice_covers, nats_per
from coverwalk.sequences.tree_posterior import order_posterior, sample_tree

__all__ = ["SequenceReader", "engine_of"]

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Place = suffix_engine.Place | lattice_engine.Place
Store = suffix_tree.SuffixStore | LatticeStore


class SequenceReader(BaseEstimator):  # type: ignore[misc]
    """The part of SequenceModel that reads and never changes anything."""

    _store: Store
    _alphabet: Alphabet
    _kind: str
    n_symbols_seen_: int
    alphabet: Any
    walk: str
    switching: float | None
    borders: bool
    covers: Sequence[str | Callable[..., int]] | None
    effort: int
    forget: float

    @property
    def alphabet_(self) -> list[Hashable]:
        """The symbols known, in the order of the columns of ``predict_proba``."""
        self._check_fitted()
        return list(self._alphabet.symbols)

    @property
    def n_contexts_(self) -> int:
        """How many contexts are stored: of the lattice, those of its covers, by halves of a symbol."""
        self._check_fitted()
        if isinstance(self._store, LatticeStore):
            return int(np.count_nonzero(self._store.slots[1::16]))
        return int(self._store.size[suffix_tree.NODES])

    @property
    def nbytes_(self) -> int:
        """The memory of the model in bytes."""
        self._check_fitted()
        return int(self._learner.nbytes(self._store))

    def predict_proba(self, context: Any = None) -> Floats:
        """The probability of every symbol of ``alphabet_`` to come next; it sums to one.

        Where the alphabet may grow one more number follows: the probability of a symbol never seen.

        Parameters
        ----------
        context : sequence, optional
            What came before; by default the present document.

        Returns
        -------
        ndarray of shape (n_symbols,)
            Probabilities, in the order of ``alphabet_``.
        """
        with reading(self):
            place = self._place(context)
            probability: Floats = self._learner.distribution(self._store, place, *self._functions(self._store))
        return probability

    def log_loss(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> float:
        """Mean -log p of the symbols of a document, without learning them.

        Parameters
        ----------
        sequence : str, bytes, or sequence of hashable
            One document.
        context : sequence, optional
            The symbols before; by default those that were learned last.
        unit : "nats" or "bits"
            Unit of the result.

        Returns
        -------
        float
            The mean over the symbols.
        """
        losses = self.losses(sequence, context=context, unit=unit)
        if not len(losses):
            raise ValueError("the mean loss of an empty sequence is undefined: pass at least one symbol")
        return float(losses.mean())

    def losses(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """-log p of each symbol of a document, without learning them.

        Parameters
        ----------
        sequence : str, bytes, or sequence of hashable
            One document.
        context : sequence, optional
            The symbols before; by default those that were learned last.
        unit : "nats" or "bits"
            Unit of the result.

        Returns
        -------
        ndarray
            One number for each symbol.
        """
        return self._along("read", sequence, context, unit)

    def score(self, sequence: Any, y: None = None) -> float:
        """Mean log p of the symbols of a document, in nats: larger is better.

        Parameters
        ----------
        sequence : str, bytes, or sequence of hashable
            One document.
        y : None
            Ignored.

        Returns
        -------
        float
            In nats per symbol.
        """
        return -self.log_loss(sequence)

    def anomaly_scores(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """For each position -log of the probability of meeting a symbol no likelier than the one there.

        Unlike the loss it does not rise where every symbol is unlikely: under the model a score above s nats comes up
        with probability exp(-s) at most, whatever the place.

        Parameters
        ----------
        sequence : str, bytes, or sequence of hashable
            One document.
        context : sequence, optional
            The symbols before; by default those that were learned last.
        unit : "nats" or "bits"
            Unit of the result.

        Returns
        -------
        ndarray
            One number for each symbol.
        """
        return self._along("tail_scores", sequence, context, unit)

    def _along(self, what: str, sequence: Any, context: Any, unit: str) -> Floats:
        """A number for each symbol of a document, without learning them."""
        self._check_fitted()
        scale = nats_per(unit)
        with reading(self):
            codes = self._read(sequence)
            place = self._place(context) if context is not None else self._learner.beginning(self._store, self.borders)
            out = np.empty(len(codes))
            getattr(self._learner, what)(self._store, place, codes, out, *self._functions(self._store))
        return out / scale

    def sample(
        self, n: int, seed: int | np.random.Generator | None = None, context: Any = None, *, temperature: float = 1.0
    ) -> Any:
        """Draw the next n symbols without learning them: as bytes or a str if such was learned, else as a list.

        Below a ``temperature`` of 1 likely symbols become likelier, above it unlikely ones: p^(1/temperature).

        Parameters
        ----------
        n : int
            Number of symbols.
        seed : int, Generator or None
            Seed of the draws.
        context : sequence, optional
            The symbols before; by default those that were learned last.
        temperature : float
            Below 1 the draws are more probable than those of the model, above 1 less so.

        Returns
        -------
        bytes, str or list
            The symbols.
        """
        check("n", n, n >= 0, "0 or more")
        with reading(self):
            symbols = self._draw(self._place(context), n, np.random.default_rng(seed), temperature)[0]
        drawn = self._alphabet.decode(symbols)
        if self._kind == "bytes":
            return bytes(drawn)  # type: ignore[arg-type]
        return "".join(map(str, drawn)) if self._kind == "str" else drawn

    def generate(
        self, seed: int | np.random.Generator | None = None, context: Any = None, *, temperature: float = 1.0
    ) -> Iterator[Hashable]:
        """Draw symbols for ever, one at a time.

        Parameters
        ----------
        seed : int, Generator or None
            Seed of the draws.
        context : sequence, optional
            The symbols before; by default those that were learned last.
        temperature : float
            Below 1 the draws are more probable than those of the model, above 1 less so.

        Returns
        -------
        iterator of symbols
            It does not end.
        """
        rng, store = np.random.default_rng(seed), None
        while True:
            with reading(self):
                if store is None or store is not self._store:  # contexts that it knew may have moved, or be forgotten
                    place, store = self._place(context), self._store
                context = self._alphabet.decode(self._draw(place, 64, rng, temperature)[0])
            yield from context

    def entropy_rate(
        self, n: int = 10_000, seed: int | np.random.Generator | None = 0, *, unit: str = "nats"
    ) -> EntropyRate:
        """The entropy of the next symbol, averaged over a sequence of n symbols drawn from the model.

        A float, whose ``standard_error`` says how far chance may have moved it.

        Parameters
        ----------
        n : int
            Length of the drawn sequence.
        seed : int, Generator or None
            Seed of the draws.
        unit : "nats" or "bits"
            Unit of the result.

        Returns
        -------
        EntropyRate
            The estimate and its standard error.
        """
        check("n", n, n >= 1, "at least 1")
        self._check_fitted()
        with reading(self):
            place = self._learner.beginning(self._store, self.borders)
            entropies = self._draw(place, n, np.random.default_rng(seed))[1]
        return EntropyRate.of(entropies / nats_per(unit))

    def posterior(self, context: Any = None) -> list[ContextWeight]:
        """Why this prediction: the suffix tree's contexts, from the empty one to the longest met, with their weights.

        The weights sum to one; with the refining walk what is missing belongs to finer contexts never met, which
        predict every symbol alike.

        Parameters
        ----------
        context : sequence, optional
            The symbols before; by default those that were learned last.

        Returns
        -------
        list of ContextWeight
            From the empty context to the longest.
        """
        with reading(self):
            place = self._place(context)
            if isinstance(self._store, LatticeStore):
                raise ValueError(
                    "posterior weights of contexts belong to the suffix tree, and this model mixes covers: see "
                    "`contributions`, or make it with effort=0"
                )
            assert isinstance(place, suffix_engine.Place)
            length, longest = place.lengths
            return context_weights(self._store, place.path, int(length), int(longest), self._past(context))

    @reads
    def contributions(self) -> dict[str, float]:
        """How much of the log-odds of its predictions came from each cover: parts that sum to one.

        Returns
        -------
        dict
            From the name of a cover to its part.
        """
        self._check_fitted()
        if not isinstance(self._store, LatticeStore):
            return {"suffix": 1.0}
        return lattice_engine.contributions(self._store, *self._functions(self._store))

    @reads
    def explain(self, context: Any = None) -> str:
        """The posterior of the contexts as a table; of a lattice, what each cover contributed so far.

        Parameters
        ----------
        context : sequence, optional
            The symbols before; by default those that were learned last.

        Returns
        -------
        str
            A table.
        """
        self._check_fitted()
        if isinstance(self._store, LatticeStore):
            return "\n".join(f"{name:10} {part:6.1%}" for name, part in self.contributions().items())
        return weights_text(self.posterior(context))

    @reads
    def map_tree(self, k: int = 1) -> list[ContextTree]:
        """The k most probable context trees with their posterior, best first; for the plain refining walk.

        Parameters
        ----------
        k : int
            Number of trees.

        Returns
        -------
        list of ContextTree
            The most probable first.
        """
        check("k", k, k >= 1, "at least 1")
        return map_trees(self._exact(), self._alphabet.symbols, k)

    @reads
    def sample_trees(self, n: int, seed: int | np.random.Generator | None = None) -> list[ContextTree]:
        """Draw n context trees from their posterior, over the contexts that were met; for the plain refining walk.

        Parameters
        ----------
        n : int
            Number of trees.
        seed : int, Generator or None
            Seed of the draws.

        Returns
        -------
        list of ContextTree
            The draws.
        """
        check("n", n, n >= 0, "0 or more")
        weights, rng = stop_weights(self._exact()), np.random.default_rng(seed)
        return [sample_tree(weights, self._alphabet.symbols, rng) for _ in range(n)]

    @reads
    def order_posterior(self) -> Floats:
        """The posterior of the order of the source, 0 .. depth: the length of the longest context in its tree.

        Among the contexts that were met, for of others the data say nothing; for the plain refining walk.

        Returns
        -------
        ndarray of shape (depth + 1,)
            Probabilities.
        """
        return order_posterior(stop_weights(self._exact()))

    def _exact(self) -> suffix_tree.SuffixStore:
        """The suffix tree, where the walk is the exact posterior over context trees."""
        self._check_fitted()
        store = self._store
        if isinstance(store, suffix_tree.SuffixStore) and not self._alphabet.grows:
            mode, share = store.settings[[suffix_walk.MODE, suffix_walk.SHARE]]
            if mode == suffix_walk.REFINE and share == 0:
                return store
        raise ValueError(
            'context trees have a posterior only with walk="refine", no switching and a fixed alphabet, got '
            f"walk={self.walk!r}, switching={self.switching!r}, alphabet={self.alphabet!r}: make such a model"
        )

    # ---- where a reader stands --------------------------------------------------------------------------------------

    @property
    def _learner(self) -> Any:
        """The engine of this model: a module of functions on its store."""
        return engine_of(self._store)

    def _functions(self, store: Store) -> tuple[Any, ...]:
        """The covers of the user's own, as the lattice wants them; the suffix tree has none."""
        if not isinstance(store, LatticeStore):
            return ()
        functions, begun = lattice_covers(self)[1], int((store.covers >= COVERS).sum())
        if len(functions) != begun:
            raise ValueError(
                f"this model began with {begun} functions among its covers and now has {len(functions)}: fit it again"
            )
        return (functions,)

    def _place(self, context: Any) -> Place:
        self._check_fitted()
        place: Place = (
            self._learner.here(self._store)
            if context is None
            else self._learner.after(self._store, self._read(context))
        )
        return place

    def _past(self, context: Any) -> tuple[Hashable, ...]:
        """The symbols before the next one, old to new, at most as many as the suffix tree is deep."""
        assert isinstance(self._store, suffix_tree.SuffixStore)
        depth = suffix_engine.depth_of(self._store)
        if context is not None:
            return tuple(context)[max(len(context) - depth, 0) :]
        past = tuple(self._alphabet.decode(suffix_engine.newest(self._store)))
        return (BORDER_SIGN, *past) if len(past) < depth and self.borders else past

    def _read(self, sequence: Any) -> Codes:
        """The codes of a sequence that is not learned: all symbols never seen are the one that may come."""
        codes, fresh = self._alphabet.encode(sequence)
        return np.minimum(codes, len(self._alphabet)) if fresh else codes

    def _draw(self, place: Place, n: int, rng: np.random.Generator, temperature: float = 1.0) -> tuple[Codes, Floats]:
        check("temperature", temperature, 0.01 <= temperature <= 100, "from 0.01 to 100")
        if not len(self._alphabet):
            raise ValueError("nothing can be drawn before a symbol is known: fit the model, or name an alphabet")
        symbols, entropies = np.empty(n, np.int32), np.empty(n)
        functions = self._functions(self._store)
        self._learner.draw(self._store, place, 1.0 / temperature, rng.random(n), symbols, entropies, *functions)
        return symbols, entropies

    def _check_fitted(self) -> None:
        if not hasattr(self, "_store"):
            raise NotFittedError("this SequenceModel has learned nothing yet: call fit, partial_fit or update first")


def engine_of(store: Store) -> Any:
    """The module that works on this kind of store."""
    return lattice_engine if isinstance(store, LatticeStore) else suffix_engine
