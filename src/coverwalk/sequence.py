"""SequenceModel: the distribution of the next symbol given the past, by contexts of many covers."""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from coverwalk._kernels import suffix_tree, suffix_walk
from coverwalk._kernels.sequences.store import LatticeStore
from coverwalk.sequences import lattice_engine, suffix_engine
from coverwalk.sequences.alphabet import BYTES, Alphabet
from coverwalk.sequences.context_tree import BORDER_SIGN, ContextTree, map_trees
from coverwalk.sequences.context_weights import ContextWeight, context_weights, weights_text
from coverwalk.sequences.entropy_rate import EntropyRate
from coverwalk.sequences.sequence_check import check_store
from coverwalk.sequences.sequence_parameters import (
    alphabet_for,
    check,
    check_parameters,
    is_lattice,
    lattice_covers,
    memory_bytes,
    nats_per,
    new_suffix_store,
)
from coverwalk.sequences.turns import changing, reading, writing

__all__ = ["SequenceModel"]

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Place = suffix_engine.Place | lattice_engine.Place
Store = suffix_tree.SuffixStore | LatticeStore


class SequenceModel(BaseEstimator):  # type: ignore[misc]
    """The distribution of the next symbol given the past, learned symbol by symbol.

    Bytes are learned by a *lattice of covers* of the past: its suffixes, suffixes with symbols left out, words,
    records, neighbours in two dimensions, and the longest match, mixed by what each has predicted. Any other alphabet
    is learned by the suffixes alone, as a variable-order Markov model: a walk over them, from the longest to the empty
    one (or the other way round), decides which one predicts; its posterior has a closed form. See
    ``docs/sequences.md``.

    Parameters
    ----------
    alphabet : int, iterable of hashables, or None
        ``A``: the integers 0 .. A-1; an iterable: these symbols. None: all 256 bytes if the first sequence is bytes,
        otherwise the alphabet grows with the symbols that come, and keeps a probability for one never seen.
    effort : {0, 1, 2, 3}
        For bytes. 1: suffixes and the match, the fastest. 2: all covers; those without use sleep. 3: none sleeps.
        0: the suffix tree that other alphabets have.
    memory : str or int
        The most memory that the model may take, such as "256MB", or in bytes. What is least used is forgotten.
    covers : sequence of str and functions, optional
        For bytes: some of "suffix", "word", "sparse", "record", "image", "match", and functions from the past, as bytes
        (the newest 256), to an integer, the number of the context. By default those that belong to ``effort``.
    depth : int, optional
        The length of the longest context of the suffix tree, up to 64; by default 16. Where it is set, or any of the
        following, bytes too are learned by the suffix tree.
    walk : {"coarsen", "refine"}
        From fine to coarse (the paper's, the better predictor) or from coarse to fine (context tree weighting: the
        exact posterior over all context trees up to ``depth``).
    estimator : {"auto", "dirichlet"}
        The local models. "auto" with the coarsening walk: in each context a Pitman-Yor process with fractional tables
        and a Dirichlet with full counts, both centred on the next coarser context, and the newest symbol again; the
        walk chooses. "dirichlet", and always with the refining walk: ``alpha`` for each symbol.
    alpha : float, optional
        The Dirichlet's pseudo-count, for each symbol (default 1/2: Krichevsky-Trofimov) or, where it is centred on the
        next coarser context, in all (default 2).
    stop : float, optional
        The prior probability w of stopping in a context, for the Dirichlet estimator; by default 1/2 for the refining
        walk and 2^-k at order k for the coarsening walk. The mixed estimator learns its own.
    switching : float, optional
        Fixed share: how much of the evidence for and against a context changes sides after each symbol, so that the
        best order may change with time. By default 0.02 with the mixed estimator, else 0.
    borders : bool
        Whether the beginning of a document is itself a context of the suffix tree; in the lattice it always is.

    Attributes
    ----------
    alphabet_ : list
        The symbols known, in the order of the columns of ``predict_proba``.
    n_symbols_seen_, nbytes_ : int
        How many symbols were learned, and the memory in bytes.
    n_contexts_ : int
        How many contexts the suffix tree stores.

    Notes
    -----
    Any number of threads may read while one learns: they take turns. A `fit` that is interrupted leaves the model as it
    was. So does learning more than 16384 symbols on top of what is known, which works on a copy; fewer are learned
    wholly or not at all.

    Examples
    --------
    >>> model = SequenceModel("abcdr").fit("abracadabra" * 20)
    >>> model.predict_proba("abraca").round(2)
    array([0.01, 0.01, 0.  , 0.97, 0.  ])
    >>> model.sample(11, seed=1, context="abra")
    'cadabraabra'
    """

    def __init__(
        self,
        alphabet: int | Iterable[Hashable] | None = None,
        *,
        effort: int = 2,
        memory: str | int = "256MB",
        covers: Sequence[str | Callable[[bytes], int]] | None = None,
        depth: int | None = None,
        walk: str = "coarsen",
        estimator: str = "auto",
        alpha: float | None = None,
        stop: float | None = None,
        switching: float | None = None,
        borders: bool = True,
    ) -> None:
        self.alphabet = alphabet
        self.effort = effort
        self.memory = memory
        self.covers = covers
        self.depth = depth
        self.walk = walk
        self.estimator = estimator
        self.alpha = alpha
        self.stop = stop
        self.switching = switching
        self.borders = borders

    _store: Store
    _alphabet: Alphabet
    _kind: str
    n_symbols_seen_: int

    # ---- learning ---------------------------------------------------------------------------------------------------

    def fit(self, sequence: Any, y: None = None, *, past: Any = None) -> Self:
        """Forget everything and learn one document.

        Parameters
        ----------
        sequence : bytes, str, array of integers or iterable of hashables
            The document.
        y : None
            Not used; there by convention.
        past : sequence, optional
            Symbols known to come before the document: contexts for it, but not themselves learned.
        """
        fresh = type(self)(**self.get_params(deep=False))
        fresh._learn(sequence, past)
        self._replace(fresh)
        return self

    def fit_documents(self, documents: Iterable[Any]) -> Self:
        """Forget everything and learn several documents; no context reaches over their borders."""
        fresh = type(self)(**self.get_params(deep=False))
        for document in documents:
            fresh._learn(document)
        if not hasattr(fresh, "_store"):
            raise ValueError("expected at least one document, got none: pass a list of sequences")
        self._replace(fresh)
        return self

    def partial_fit(self, sequence: Any, y: None = None) -> Self:
        """Learn one more document on top of what is known."""
        self._learn(sequence)
        return self

    def update(self, symbols: Any) -> None:
        """Go on with the present document: one symbol, or a str, bytes, list, range or array of them."""
        several = isinstance(symbols, (str, *BYTES, list, range)) or (isinstance(symbols, np.ndarray) and symbols.ndim)
        self._learn(symbols if several else [symbols], new_document=False)

    def start_document(self) -> None:
        """End the present document: what comes next does not follow from it."""
        self._check_fitted()
        with writing(self), changing(self):
            self._store = self._learner.start_document(self._store, self.borders)

    def prequential(self, sequence: Any, *, past: Any = None, unit: str = "nats", new_document: bool = True) -> Floats:
        """Learn a document, or go on with the present one; -log p of each symbol just before it was learned.

        The sum is the ideal code length: with the refining walk, that of context tree weighting.
        """
        scale = nats_per(unit)
        return self._learn(sequence, past, new_document=new_document) / scale

    def _learn(self, sequence: Any, past: Any = None, *, new_document: bool = True) -> Floats:
        with writing(self):
            begun = hasattr(self, "_store")
            if not begun:
                check_parameters(self)
            alphabet = self._alphabet if begun else alphabet_for(self.alphabet, sequence)
            codes, fresh = alphabet.encode(sequence)
            before, unknown = alphabet.encode(past if past is not None else ())
            if unknown:
                raise ValueError(f"the past has symbols outside the alphabet, such as {unknown[0]!r}: name an alphabet")
            store = self._store if begun else self._new_store(alphabet, len(codes))
            starts = new_document or not begun
            losses = np.empty(len(codes))
            if begun and len(codes) <= suffix_engine.CHUNK:
                with changing(self):
                    store = self._advance(store, codes, before, losses, starts and (past is None), starts)
                    self._finish(store, alphabet, fresh, len(codes))
                return losses
            # readers go on, and an interrupt leaves the model as it is, until all is learned
            copy = engine_of(store).copied(store) if begun else store
            copy = self._advance(copy, codes, before, losses, starts and (past is None), starts)
            with changing(self):
                if not begun:
                    self._kind = type(sequence).__name__  # what samples are made of
                    self.n_symbols_seen_ = 0
                self._finish(copy, alphabet, fresh, len(codes))
        return losses

    def _new_store(self, alphabet: Alphabet, symbols: int) -> Store:
        if not is_lattice(self, alphabet):
            return new_suffix_store(self, alphabet)
        families, functions = lattice_covers(self)
        return lattice_engine.new_lattice(families, len(functions), memory_bytes(self.memory), self.effort, symbols)

    def _advance(self, store: Any, codes: Codes, before: Codes, losses: Floats, border: bool, starts: bool) -> Any:
        engine = engine_of(store)
        if starts:
            store = engine.start_document(store, self.borders and border)
        if len(before):
            store = engine.prime(store, before)
        return engine.learn(store, codes, losses, *self._functions(store))

    def _finish(self, store: Store, alphabet: Alphabet, fresh: list[Hashable], symbols: int) -> None:
        self._store = store
        self._alphabet = alphabet
        alphabet.add(fresh)
        self.n_symbols_seen_ += symbols

    def _replace(self, fresh: Self) -> None:
        with writing(self), changing(self):
            self.__dict__.update(fresh.__dict__)

    # ---- reading ----------------------------------------------------------------------------------------------------

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
        """
        with reading(self):
            place = self._place(context)
            probability: Floats = self._learner.distribution(self._store, place, *self._functions(self._store))
        return probability

    def log_loss(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> float:
        """Mean -log p of the symbols of a document, without learning them."""
        losses = self.losses(sequence, context=context, unit=unit)
        if not len(losses):
            raise ValueError("the mean loss of an empty sequence is undefined: pass at least one symbol")
        return float(losses.mean())

    def losses(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """-log p of each symbol of a document, without learning them."""
        return self._along("read", sequence, context, unit)

    def score(self, sequence: Any, y: None = None) -> float:
        """Mean log p of the symbols of a document, in nats: larger is better."""
        return -self.log_loss(sequence)

    def anomaly_scores(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """For each position -log of the probability of meeting a symbol no likelier than the one there.

        Unlike the loss it does not rise where every symbol is unlikely: under the model a score above s nats comes up
        with probability exp(-s) at most, whatever the place.
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
        """Draw symbols for ever, one at a time."""
        with reading(self):
            place, rng = self._place(context), np.random.default_rng(seed)
        while True:
            with reading(self):
                symbols = self._draw(place, 64, rng, temperature)[0]
            yield from self._alphabet.decode(symbols)

    def entropy_rate(
        self, n: int = 10_000, seed: int | np.random.Generator | None = 0, *, unit: str = "nats"
    ) -> EntropyRate:
        """The entropy of the next symbol, averaged over a sequence of n symbols drawn from the model.

        A float, whose ``standard_error`` says how far chance may have moved it.
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

    def contributions(self) -> dict[str, float]:
        """How much of the log-odds of its predictions came from each cover: parts that sum to one."""
        self._check_fitted()
        if not isinstance(self._store, LatticeStore):
            return {"suffix": 1.0}
        return lattice_engine.contributions(self._store, *self._functions(self._store))

    def explain(self, context: Any = None) -> str:
        """The posterior of the contexts as a table; of a lattice, what each cover contributed so far."""
        self._check_fitted()
        if isinstance(self._store, LatticeStore):
            return "\n".join(f"{name:10} {part:6.1%}" for name, part in self.contributions().items())
        return weights_text(self.posterior(context))

    def map_tree(self, k: int = 1) -> list[ContextTree]:
        """The k most probable context trees with their posterior, best first; for the plain refining walk."""
        check("k", k, k >= 1, "at least 1")
        return map_trees(self._exact(), self._alphabet.symbols, k)

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `coverwalk.load` reads."""
        from coverwalk.persistence import save

        self._trim()
        save(self, path)

    def _trim(self) -> None:
        with writing(self), changing(self):
            store = getattr(self, "_store", None)
            if isinstance(store, suffix_tree.SuffixStore):
                self._store = suffix_tree.trimmed(store)

    def _check_loaded(self) -> None:
        """Refuse a file whose parts do not fit together."""
        if hasattr(self, "_store"):
            sound = (
                isinstance(self.borders, bool) and isinstance(self._kind, str) and isinstance(self._alphabet, Alphabet)
            )
            if not (sound and type(self.n_symbols_seen_) is int and self.n_symbols_seen_ >= 0):
                raise ValueError("the parts of this SequenceModel do not fit together")
            check_parameters(self)
            check_store(self._store, len(self._alphabet))

    # ---- where a reader stands --------------------------------------------------------------------------------------

    @property
    def _learner(self) -> Any:
        """The engine of this model: a module of functions on its store."""
        return engine_of(self._store)

    def _functions(self, store: Store) -> tuple[Any, ...]:
        """The covers of the user's own, as the lattice wants them; the suffix tree has none."""
        return (lattice_covers(self)[1],) if isinstance(store, LatticeStore) else ()

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
