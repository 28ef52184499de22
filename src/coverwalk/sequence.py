"""SequenceModel: the distribution of the next symbol given the past, by contexts of many covers."""

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels import suffix_tree
from coverwalk.sequences import lattice_engine, suffix_engine
from coverwalk.sequences.alphabet import BYTES, Alphabet
from coverwalk.sequences.sequence_check import check_store
from coverwalk.sequences.sequence_parameters import (
    alphabet_for,
    check_parameters,
    is_lattice,
    lattice_covers,
    memory_bytes,
    nats_per,
    new_suffix_store,
)
from coverwalk.sequences.sequence_reader import SequenceReader, Store, engine_of
from coverwalk.sequences.turns import changing, writing

__all__ = ["SequenceModel"]

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]


class SequenceModel(SequenceReader):
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
