"""SequenceModel: the distribution of the next symbol given the past, by contexts of many covers."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.files import schema as file
from coverwalk.files.estimators import Saved
from coverwalk.locks import adopt, alone, fits, twin, writes
from coverwalk.sequences.alphabet import BYTES, Alphabet
from coverwalk.sequences.lattice_engine import LatticeEngine
from coverwalk.sequences.sequence_parameters import (
    MAX_DECAY,
    MAX_DEPTH,
    MAX_MEMORY,
    MIN_MEMORY,
    alphabet_for,
    check_parameters,
    nats_per,
    new_engine,
)
from coverwalk.sequences.sequence_reader import SequenceReader
from coverwalk.sequences.suffix_engine import SuffixEngine

__all__ = ["SequenceModel"]

_CHECKED = ("effort", "forget", "depth", "walk", "estimator", "alpha", "stop", "switching")
MANY_SYMBOLS = 2**16  # more are learned by a copy, which readers need not wait for


@file.stored(
    n_symbols_seen_=file.Absent(file.Whole(0, 10**15)),
    _kind=file.Absent(file.Text()),
    _alphabet=file.Absent(file.Object(Alphabet)),
    _engine=file.Absent(file.Object(SuffixEngine, LatticeEngine, A="_alphabet.A", grows="_alphabet.grows")),
    check=lambda state, scope: _check_parts(state),
)
@dataclass(eq=False, repr=False)
class SequenceModel(Saved, SequenceReader):
    """The distribution of the next symbol given the past, learned symbol by symbol.

    Bytes are learned by a *lattice of covers* of the past: suffixes, sparse suffixes, words, records, neighbours in two
    dimensions, and the longest match. Any other alphabet is learned by suffixes alone, as a variable-order Markov
    model: a walk over the suffixes decides which one predicts. See ``docs/sequences.md``.

    Parameters
    ----------
    alphabet : int, iterable of hashables, or None
        The symbols, or their number A for the integers from 0 to A - 1. With None, the alphabet is that of the 256
        bytes if the first sequence is bytes. Otherwise it grows as symbols come, and a new symbol has a probability.
    effort : {0, 1, 2, 3}
        For bytes. 1: suffixes and the match only, the fastest. 2: all covers, except those that contribute nothing. 3:
        all covers. 0: the suffix tree that other alphabets have.
    memory : str or int
        Maximum memory of the model, such as "256MB", or a number of bytes. The least used contexts are discarded.
    covers : sequence of str and functions, optional
        For bytes: some of "suffix", "word", "sparse", "record", "image", "match", and your own functions ``f(past)`` or
        ``f(past, position)``, which return the number of the context. ``past`` has at most the newest 256 bytes, and
        ``position`` is the number of bytes before in the document. By default, the covers of ``effort``.
    forget : float
        Decay rate for sources that change, up to 0.01: symbols learned n symbols ago count (1 - forget)^n. The suffix
        tree keeps the newest 1 / forget to 2 / forget symbols. 0 means no decay.
    depth : int, optional
        Maximum length of a context of the suffix tree, up to 64; by default 16. If you set this, or any of the
        following parameters, bytes are learned by the suffix tree too.
    walk : {"coarsen", "refine"}
        From fine to coarse, which predicts better, or from coarse to fine, which is context tree weighting: the exact
        posterior over all context trees up to ``depth``.
    estimator : {"auto", "dirichlet"}
        The local models. With "auto" and the coarsening walk, each context mixes a Pitman-Yor process, a Dirichlet and
        a repetition of the newest symbol. With "dirichlet", and always with the refining walk, it has a Dirichlet.
    alpha : float, optional
        Pseudo-count of the Dirichlet: for each symbol (by default 1/2, Krichevsky-Trofimov), or in total if it is
        centred on the next coarser context (by default 2).
    stop : float, optional
        Prior probability w of stopping in a context, for the Dirichlet estimator; by default 1/2 for the refining walk
        and 2^-k at order k for the coarsening walk. With "auto" it is learned.
    switching : float, optional
        Fraction of the evidence for a context that moves to the other side after each symbol (fixed share), so that the
        best order can change with time. By default 0.02 with "auto" and the coarsening walk, else 0.
    borders : bool
        Whether the beginning of a document is a context of the suffix tree. In the lattice it always is.

    Attributes
    ----------
    alphabet_ : list
        The known symbols, in the order of the columns of ``predict_proba``.
    n_symbols_seen_, nbytes_ : int
        Number of symbols learned, and memory in bytes.
    n_contexts_ : int
        Number of contexts stored.

    Notes
    -----
    Any number of threads can predict while one learns. If learning is interrupted, the model does not change, or has
    learned all symbols.

    Examples
    --------
    >>> model = SequenceModel("abcdr").fit("abracadabra" * 20)
    >>> model.predict_proba("abraca").round(2)
    array([0.01, 0.01, 0.  , 0.97, 0.  ])
    >>> model.sample(11, seed=1, context="abra")
    'cadabraabra'
    """

    _words = {  # noqa: RUF012
        **SequenceReader._words,
        "documents": "iterable of sequences\n    At least one document.",
        "symbols": "symbol, or str, bytes, list, range or array of symbols\n    The symbols that come next. Anything "
        "else is one symbol.",
        "new_document": "bool\n    Whether a new document begins, or the current one continues.",
        "prequential ->": "array (n,)\n    -log p of each symbol. The sum is the ideal code length.",
    }

    alphabet: Annotated[int | Iterable[Hashable] | None, file.Plain()] = None
    _: KW_ONLY
    effort: Annotated[int, file.Whole(0, 3)] = 2
    memory: Annotated[str | int, file.Either(file.Whole(MIN_MEMORY, MAX_MEMORY), file.Text())] = "256MB"
    covers: Annotated[Sequence[str | Callable[..., int]] | None, file.Plain()] = None
    forget: Annotated[float, file.Real(low=0, high=MAX_DECAY, whole=True)] = 0.0
    depth: Annotated[int | None, file.Maybe(file.Whole(0, MAX_DEPTH))] = None
    walk: Annotated[str, file.Text("coarsen", "refine")] = "coarsen"
    estimator: Annotated[str, file.Text("auto", "dirichlet")] = "auto"
    alpha: Annotated[float | None, file.Maybe(file.Real(low=1e-100, high=1e100, whole=True))] = None
    stop: Annotated[float | None, file.Maybe(file.Real(above=0, below=1))] = None
    switching: Annotated[float | None, file.Maybe(file.Real(low=0, high=0.49, whole=True))] = None
    borders: Annotated[bool, file.Flag()] = True

    # ---- learning ---------------------------------------------------------------------------------------------------

    @fits
    def fit(self, sequence: Any, y: None = None, *, past: Any = None) -> Self:
        """Learn one document. Anything learned before is discarded."""
        self._learn(sequence, past)
        return self

    @fits
    def fit_documents(self, documents: Iterable[Any]) -> Self:
        """Learn several documents. Anything learned before is discarded. No context crosses their borders."""
        for document in documents:
            self._learn(document)
        if not hasattr(self, "_engine"):
            raise ValueError("expected at least one document, got none: pass a list of sequences")
        return self

    @writes
    def partial_fit(self, sequence: Any, y: None = None) -> Self:
        """Learn one more document."""
        self._learn(sequence)
        return self

    @writes
    def update(self, symbols: Any) -> None:
        """Continue the current document."""
        several = isinstance(symbols, (str, *BYTES, list, range)) or (isinstance(symbols, np.ndarray) and symbols.ndim)
        self._learn(symbols if several else [symbols], new_document=False)

    @writes
    def start_document(self) -> None:
        """End the current document. The next symbol begins a new one."""
        engine = self._fitted()
        with alone(self):
            engine.start_document(self.borders)

    @writes
    def prequential(self, sequence: Any, *, past: Any = None, unit: str = "nats", new_document: bool = True) -> Floats:
        """Learn a document, or continue the current one, and return the loss of each symbol before it was learned."""
        scale = nats_per(unit)
        return self._learn(sequence, past, new_document=new_document, scored=True) / scale

    def _learn(
        self, sequence: Any, past: Any = None, *, new_document: bool = True, scored: bool = False, expected: int = 0
    ) -> Floats:
        """Learn a document or more of the present one; a new model begins in arrays for ``expected`` symbols."""
        begun = hasattr(self, "_engine")
        if not begun:
            self._schema.check_parameters(vars(self), *_CHECKED)
            check_parameters(self)
        alphabet = self._alphabet if begun else alphabet_for(self.alphabet, sequence)
        codes, fresh = alphabet.encode(sequence)
        before, unknown = alphabet.encode(past if past is not None else ())
        if unknown:
            raise ValueError(f"the past has symbols outside the alphabet, such as {unknown[0]!r}: name an alphabet")
        losses = np.empty(len(codes) if scored else 0)
        # From here on nothing can be wrong with the input, but what functions of the user's own say.
        model = self
        if not begun:
            engine, kind = new_engine(self, alphabet, max(len(codes), expected)), type(sequence).__name__
            model = twin(self, _engine=engine, _alphabet=alphabet, _kind=kind, n_symbols_seen_=0)
        elif len(codes) > MANY_SYMBOLS or self._engine.functions:
            model = twin(self, _engine=deepcopy(self._engine), _alphabet=deepcopy(alphabet))
        with alone(model):
            if new_document or not begun:
                model._engine.start_document(self.borders and past is None)
            if len(before):
                model._engine.prime(before)
            model._engine.learn(codes, losses)
            model._alphabet.add(fresh)
            model.n_symbols_seen_ += len(codes)
        if model is not self:
            adopt(self, model)
        return losses


def _check_parts(state: Any) -> None:
    check_parameters(state)
    has = [hasattr(state, name) for name in ("_engine", "_alphabet", "_kind", "n_symbols_seen_")]
    file.require("the learned parts", all(has) or not any(has))
    if not has[0]:
        return
    if isinstance(state._engine, LatticeEngine):
        file.require("alphabet", state._alphabet.symbols == list(range(256)) and not state._alphabet.grows)
    else:
        file.require("depth", state._engine.depth <= MAX_DEPTH)
