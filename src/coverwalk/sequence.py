"""SequenceModel: the distribution of the next symbol given the past, by a halting walk over contexts of every order."""

from collections.abc import Hashable, Iterable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from coverwalk._kernels import suffix_learn, suffix_sample, suffix_tree, suffix_walk
from coverwalk.files.schema import Absent, Flag, Maybe, Object, Plain, Real, Schema, Text, Whole, require
from coverwalk.locks import adopt, alone, reading, reads, twin, unfitted, writes
from coverwalk.saving import Saved
from coverwalk.sequences.alphabet import BYTES, Alphabet
from coverwalk.sequences.context_tree import BORDER_SIGN, ContextTree, map_trees
from coverwalk.sequences.context_weights import ContextWeight, context_weights, weights_text
from coverwalk.sequences.sequence_parameters import alphabet_for, check, kernel_settings, nats_per

__all__ = ["SequenceModel"]

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]

MANY_SYMBOLS = 2**16  # so many and more are learned by a copy, which readers need not wait for


class _Place(NamedTuple):
    """Where a reader stands: the contexts of the next symbol."""

    path: NDArray[np.int64]
    length: int
    longest: int


class SequenceModel(Saved, BaseEstimator):  # type: ignore[misc]
    """A variable-order Markov model: the distribution of the next symbol given the past, learnt symbol by symbol.

    Every suffix of the past is a context. A walk over them, from the longest to the empty one (or the other way round),
    decides which one speaks; its posterior has a closed form. See ``docs/sequences.md``.

    Parameters
    ----------
    alphabet : int, iterable of hashables, or None
        ``A``: the integers 0 .. A-1; an iterable: these symbols. None: all 256 bytes if the first sequence is bytes,
        otherwise the alphabet grows with the symbols that come, and keeps a probability for one never seen.
    depth : int
        The length of the longest context, up to 64.
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
    max_contexts : int, optional
        Once so many contexts are stored no more are: those there go on learning.
    borders : bool
        Whether the beginning of a document is itself a context.

    Attributes
    ----------
    alphabet_ : list
        The symbols known, in the order of the columns of ``predict_proba``.
    n_symbols_seen_, n_contexts_, nbytes_ : int
        How many symbols were learnt, how many contexts are stored, and their memory in bytes.

    Examples
    --------
    >>> model = SequenceModel("abcdr").fit("abracadabra" * 20)
    >>> model.predict_proba("abraca").round(2)
    array([0.01, 0.01, 0.  , 0.97, 0.  ])
    >>> model.sample(11, seed=1, context="abra")
    'cadabraabra'
    """

    _schema = Schema(
        alphabet=Plain(),
        depth=Whole(0, 64),
        walk=Text("coarsen", "refine"),
        estimator=Text("auto", "dirichlet"),
        alpha=Maybe(Real(above=0, high=1e300, whole=True)),
        stop=Maybe(Real(above=0, below=1)),
        switching=Maybe(Real(low=0, high=0.49, whole=True)),
        max_contexts=Maybe(Whole(2)),
        borders=Flag(),
        n_symbols_seen_=Absent(Whole(0)),
        _kind=Absent(Text()),
        _alphabet=Absent(Object(Alphabet)),
        _tree=Absent(Object(suffix_tree.SuffixStore, A="_alphabet.A", grows="_alphabet.grows")),
        check=lambda state, scope: _check_parts(state),
    )

    _alphabet: Alphabet
    _tree: suffix_tree.SuffixStore
    _kind: str
    n_symbols_seen_: int

    def __init__(
        self,
        alphabet: int | Iterable[Hashable] | None = None,
        *,
        depth: int = 16,
        walk: str = "coarsen",
        estimator: str = "auto",
        alpha: float | None = None,
        stop: float | None = None,
        switching: float | None = None,
        max_contexts: int | None = None,
        borders: bool = True,
    ) -> None:
        self.alphabet = alphabet
        self.depth = depth
        self.walk = walk
        self.estimator = estimator
        self.alpha = alpha
        self.stop = stop
        self.switching = switching
        self.max_contexts = max_contexts
        self.borders = borders

    # ---- learning ---------------------------------------------------------------------------------------------------

    @writes
    def fit(self, sequence: Any, y: None = None, *, past: Any = None) -> Self:
        """Forget everything and learn one document.

        Parameters
        ----------
        sequence : bytes, str, array of integers or iterable of hashables
            The document.
        y : None
            Not used; there by convention.
        past : sequence, optional
            Symbols known to come before the document: contexts for it, but not themselves learnt.
        """
        fresh = unfitted(self)
        fresh._learn(sequence, past)
        return adopt(self, fresh)

    @writes
    def fit_documents(self, documents: Iterable[Any]) -> Self:
        """Forget everything and learn several documents; no context reaches over their borders."""
        fresh = unfitted(self)
        for document in documents:
            fresh._learn(document)
        if not hasattr(fresh, "_tree"):
            raise ValueError("expected at least one document, got none: pass a list of sequences")
        return adopt(self, fresh)

    @writes
    def partial_fit(self, sequence: Any, y: None = None) -> Self:
        """Learn one more document on top of what is known."""
        self._learn(sequence)
        return self

    @writes
    def update(self, symbols: Any) -> None:
        """Go on with the present document: one symbol, or a str, bytes, list, range or array of them."""
        several = isinstance(symbols, (str, *BYTES, list, range)) or (isinstance(symbols, np.ndarray) and symbols.ndim)
        self._learn(symbols if several else [symbols], new_document=False)

    @writes
    def start_document(self) -> None:
        """End the present document: what comes next does not follow from it."""
        self._check_fitted()
        with alone(self):
            suffix_tree.start_document(self._roomy(1), int(self.borders))

    @writes
    def prequential(self, sequence: Any, *, past: Any = None, unit: str = "nats", new_document: bool = True) -> Floats:
        """Learn a document, or go on with the present one; -log p of each symbol just before it was learnt.

        The sum is the ideal code length: with the refining walk, that of context tree weighting.
        """
        scale = nats_per(unit)
        return self._learn(sequence, past, new_document=new_document) / scale

    def _learn(self, sequence: Any, past: Any = None, *, new_document: bool = True) -> Floats:
        begun = hasattr(self, "_tree")
        alphabet = self._alphabet if begun else alphabet_for(self.alphabet, sequence)
        settings = None if begun else kernel_settings(self, alphabet.grows)
        codes, fresh = alphabet.encode(sequence)
        before, unknown = alphabet.encode(past if past is not None else ())
        if unknown:
            raise ValueError(f"the past has symbols outside the alphabet, such as {unknown[0]!r}: name an alphabet")
        if settings is not None:  # from here on nothing can be wrong with the input
            model = twin(self)
            model._alphabet, model._kind = alphabet, type(sequence).__name__  # what samples are made of
            model._tree = suffix_tree.new_tree(*settings, len(alphabet), self.depth)
            model.n_symbols_seen_ = 0
        elif len(codes) >= max(MANY_SYMBOLS, self.n_symbols_seen_ // 16):
            model = twin(self, _tree=deepcopy(self._tree), _alphabet=deepcopy(alphabet))
        else:
            with alone(self):
                return self._learn_codes(codes, before, fresh, starts=new_document, border=past is None)
        losses = model._learn_codes(codes, before, fresh, starts=new_document or not begun, border=past is None)
        adopt(self, model)
        return losses

    def _learn_codes(self, codes: Codes, before: Codes, fresh: Any, *, starts: bool, border: bool) -> Floats:
        """Learn symbols in place, after others; ``fresh`` are those that the alphabet does not know yet."""
        if starts:
            suffix_tree.start_document(self._roomy(1), int(self.borders and border))
        for symbol in before[max(len(before) - self._depth, 0) :]:
            suffix_learn.prime(self._roomy(1), np.array([symbol], np.int32))
        losses = np.empty(len(codes))
        done = 0
        while done < len(codes):
            done = suffix_learn.learn(self._roomy(len(codes) - done), codes, done, losses)
        self._alphabet.add(fresh)
        self.n_symbols_seen_ += len(codes)
        return losses

    def _roomy(self, symbols: int) -> suffix_tree.SuffixStore:
        """The state, with room to learn: kernels stop when it is used up."""
        self._check_fitted()
        self._tree = suffix_tree.with_room(self._tree, self._depth, symbols)
        return self._tree

    # ---- asking -----------------------------------------------------------------------------------------------------

    @property
    def alphabet_(self) -> list[Hashable]:
        """The symbols known, in the order of the columns of ``predict_proba``."""
        self._check_fitted()
        return list(self._alphabet.symbols)

    @property
    def n_contexts_(self) -> int:
        """How many contexts are stored."""
        self._check_fitted()
        return int(self._tree.size[suffix_tree.NODES])

    @property
    def nbytes_(self) -> int:
        """The memory of the model in bytes."""
        self._check_fitted()
        return sum(array.nbytes for array in self._tree)

    @reads
    def predict_proba(self, context: Any = None) -> Floats:
        """The probability of every symbol of ``alphabet_`` to come next; it sums to one.

        Where the alphabet may grow one more number follows: the probability of a symbol never seen.

        Parameters
        ----------
        context : sequence, optional
            What came before; by default the present document.
        """
        place = self._place(context)
        probability = np.empty(int(suffix_walk.alphabet_size(self._tree)))
        level = np.empty((self._depth + 2, suffix_walk.LEVEL_COLUMNS))
        suffix_walk.distribution(self._tree, *place, level, probability)
        return probability

    def log_loss(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> float:
        """Mean -log p of the symbols of a document, without learning them."""
        losses = self.losses(sequence, context=context, unit=unit)
        if not len(losses):
            raise ValueError("the mean loss of an empty sequence is undefined: pass at least one symbol")
        return float(losses.mean())

    @reads
    def losses(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """-log p of each symbol of a document, without learning them."""
        place = self._start() if context is None else self._place(context)
        codes = self._read(sequence)
        losses = np.empty(len(codes))
        if len(codes):
            suffix_walk.follow(self._tree, *place, codes, losses)
        return losses / nats_per(unit)

    def score(self, sequence: Any, y: None = None) -> float:
        """Mean log p of the symbols of a document, in nats: larger is better."""
        return -self.log_loss(sequence)

    @reads
    def anomaly_scores(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """For each position -log of the probability of meeting a symbol no likelier than the one there.

        Unlike the loss it does not rise where every symbol is unlikely: under the model a score above s nats comes up
        with probability exp(-s) at most, whatever the place.
        """
        place = self._start() if context is None else self._place(context)
        codes = self._read(sequence)
        scores = np.empty(len(codes))
        suffix_sample.tail_scores(self._tree, *place, codes, scores)
        return scores / nats_per(unit)

    @reads
    def sample(self, n: int, seed: int | np.random.Generator | None = None, context: Any = None) -> Any:
        """Draw the next n symbols without learning them: as bytes or a str if such was learnt, else as a list."""
        check("n", n, n >= 0, "0 or more")
        symbols = self._draw(self._place(context), n, np.random.default_rng(seed))[0]
        drawn = self._alphabet.decode(symbols)
        if self._kind == "bytes":
            return bytes(drawn)  # type: ignore[arg-type]
        return "".join(map(str, drawn)) if self._kind == "str" else drawn

    def generate(self, seed: int | np.random.Generator | None = None, context: Any = None) -> Iterator[Hashable]:
        """Draw symbols for ever, one at a time."""
        place, rng = self._place(context), np.random.default_rng(seed)
        while True:
            with reading(self):
                symbols, _, place = self._draw(place, 64, rng)
            yield from self._alphabet.decode(symbols)

    @reads
    def entropy_rate(self, n: int = 10_000, seed: int | np.random.Generator | None = 0, *, unit: str = "nats") -> float:
        """The entropy of the next symbol, averaged over a sequence of n symbols drawn from the model."""
        check("n", n, n >= 1, "at least 1")
        return float(self._draw(self._start(), n, np.random.default_rng(seed))[1].mean()) / nats_per(unit)

    @reads
    def posterior(self, context: Any = None) -> list[ContextWeight]:
        """Why this prediction: the contexts that speak, from the empty one to the longest met, with their weights.

        The weights sum to one; with the refining walk what is missing belongs to finer contexts never met, which
        predict every symbol alike.
        """
        place = self._place(context)
        return context_weights(self._tree, *place, self._past(context))

    def explain(self, context: Any = None) -> str:
        """The posterior of the contexts as a table."""
        return weights_text(self.posterior(context))

    @reads
    def map_tree(self, k: int = 1) -> list[ContextTree]:
        """The k most probable context trees with their posterior, best first; for the plain refining walk."""
        self._check_fitted()
        mode, share = self._tree.settings[[suffix_walk.MODE, suffix_walk.SHARE]]
        if mode != suffix_walk.REFINE or share > 0 or self._alphabet.grows:
            raise ValueError(
                'context trees have a posterior only with walk="refine", no switching and a fixed alphabet, got '
                f"walk={self.walk!r}, switching={self.switching!r}, alphabet={self.alphabet!r}: make such a model"
            )
        check("k", k, k >= 1, "at least 1")
        return map_trees(self._tree, self._alphabet.symbols, k)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_tree" in state:
            state["_tree"] = suffix_tree.trimmed(state["_tree"])
        return state

    # ---- where a reader stands --------------------------------------------------------------------------------------

    @property
    def _depth(self) -> int:
        """The depth that the model was begun with, whatever ``set_params`` says since."""
        return len(self._tree.path) - 2

    def _place(self, context: Any) -> _Place:
        self._check_fitted()
        tree = self._tree
        if context is None:
            return _Place(tree.path.copy(), int(tree.size[suffix_tree.PATH]), int(suffix_walk.longest_path(tree)))
        codes = self._read(context)
        path = np.zeros(self._depth + 2, np.int64)
        recent = codes[max(len(codes) - self._depth, 0) :]
        return _Place(path, *suffix_walk.follow(tree, path, 1, 1, recent, np.empty(0)))

    def _start(self) -> _Place:
        """The beginning of a new document."""
        self._check_fitted()
        path = np.zeros(self._depth + 2, np.int64)
        path[1] = 1
        length = min(1 + int(self.borders), self._depth + 1)
        return _Place(path, length, length)

    def _past(self, context: Any) -> tuple[Hashable, ...]:
        """The symbols before the next one, old to new, at most ``depth``."""
        if context is not None:
            return tuple(context)[max(len(context) - self._depth, 0) :]
        end, begin = int(self._tree.size[suffix_tree.HISTORY]), int(self._tree.size[suffix_tree.BEGIN])
        codes = self._tree.history[max(begin, end - self._depth) : end]
        past = tuple(self._alphabet.decode(codes))
        return (BORDER_SIGN, *past) if len(past) < self._depth and self.borders else past

    def _read(self, sequence: Any) -> Codes:
        """The codes of a sequence that is not learnt: all symbols never seen are the one that may come."""
        self._check_fitted()
        codes, fresh = self._alphabet.encode(sequence)
        return np.minimum(codes, len(self._alphabet)) if fresh else codes

    def _draw(self, place: _Place, n: int, rng: np.random.Generator) -> tuple[Codes, Floats, _Place]:
        if not len(self._alphabet):
            raise ValueError("nothing can be drawn before a symbol is known: fit the model, or name an alphabet")
        symbols, entropies = np.empty(n, np.int32), np.empty(n)
        moved = suffix_sample.draw(self._tree, *place, rng.random(n), symbols, entropies)
        return symbols, entropies, _Place(place.path, *moved)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_tree"):
            raise NotFittedError("this SequenceModel has learnt nothing yet: call fit, partial_fit or update first")


def _check_parts(state: Any) -> None:
    has = [hasattr(state, name) for name in ("_tree", "_alphabet", "_kind", "n_symbols_seen_")]
    require("the learnt parts", all(has) or not any(has))
    require("depth", not has[0] or len(state._tree.path) <= 64 + 2)
