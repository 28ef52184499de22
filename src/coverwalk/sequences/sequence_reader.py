"""What a fitted SequenceModel predicts, and how it explains it: contexts, covers, the posterior over context trees."""

from collections.abc import Hashable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from coverwalk._arrays import Bytes, Floats, Ints32
from coverwalk._docstrings import Documented
from coverwalk._kernels.sequences import suffix_store
from coverwalk._kernels.sequences.suffix_read import DRAW, LOSSES, MOVE, TAIL
from coverwalk.locks import reading, reads
from coverwalk.sequences.alphabet import Alphabet
from coverwalk.sequences.context_tree import (
    BORDER_SIGN,
    ContextTree,
    best_trees,
    context_text,
    order_posterior,
    sample_tree,
    stop_weights,
)
from coverwalk.sequences.lattice_engine import LatticeEngine
from coverwalk.sequences.sequence_parameters import check, nats_per
from coverwalk.sequences.suffix_engine import ContextWeight, SuffixEngine

_BATCHES = 20  # of draws, whose means tell the error of an entropy rate


class EntropyRate(float):
    """A float with a ``standard_error``, NaN where too few symbols were drawn to tell.

    >>> import numpy as np
    >>> rate = EntropyRate.of(np.tile([0.5, 1.5], 1000))
    >>> rate, rate.standard_error
    (1.0, 0.0)
    """

    standard_error: float

    @classmethod
    def of(cls, entropies: Floats) -> Self:
        """The mean of entropies along a sequence; neighbours depend on each other, so the error is that of batches."""
        rate = cls(entropies.mean())
        rate.standard_error = float("nan")
        if len(entropies) >= 10 * _BATCHES:
            usable = entropies[: len(entropies) // _BATCHES * _BATCHES]
            means = usable.reshape(_BATCHES, -1).mean(1)
            rate.standard_error = float(means.std(ddof=1) / _BATCHES**0.5)
        return rate


class SequenceReader(Documented, BaseEstimator):  # type: ignore[misc]
    """What a SequenceModel predicts, and where its predictions come from. Nothing here changes the model."""

    _words = {  # noqa: RUF012
        "sequence": "bytes, str, array of integers or iterable of hashables\n    The symbols of a document.",
        "context": "sequence, optional\n    The symbols before; by default those of the current document.",
        **dict.fromkeys(
            ("log_loss.context", "losses.context", "anomaly_scores.context"),
            "sequence, optional\n    The symbols before; by default none, the beginning of a document.",
        ),
        "past": "sequence, optional\n    Symbols before the document, used as contexts but not learned.",
        "unit": '{"nats", "bits"}\n    Unit of the result.',
        "seed": "int or Generator, optional\n    Seed of the draws.",
        "n": "int\n    Number of draws.",
        "k": "int\n    Number of trees.",
        "y": "None\n    Ignored.",
        "temperature": "float\n    Probabilities are raised to the power 1 / temperature: below 1, likely symbols get "
        "likelier.",
        "fit ->": "self\n    The fitted model.",
        "fit_documents ->": "self\n    The fitted model.",
        "partial_fit ->": "self\n    The model, which has learned the document.",
        "predict_proba ->": "array (A,) or (A + 1,)\n    Probabilities.",
        "log_loss ->": "float\n    The mean loss.",
        "losses ->": "array (n,)\n    The losses.",
        "score ->": "float\n    Minus `log_loss`.",
        "anomaly_scores ->": "array (n,)\n    The scores.",
        "sample ->": "bytes, str or list\n    bytes or str if that was learned, otherwise a list.",
        "entropy_rate ->": "EntropyRate\n    A float with an attribute ``standard_error``.",
        "posterior ->": "list of ContextWeight\n    Order, symbols, visits and weights of each context.",
        "contributions ->": "dict\n    Fractions by the name of the cover. They sum to one.",
        "explain ->": "str\n    The table.",
        "map_tree ->": "list of ContextTree\n    The most probable tree first, each with its ``posterior``.",
        "sample_trees ->": "list of ContextTree\n    The trees, each with its ``posterior``.",
        "order_posterior ->": "array (depth + 1,)\n    Probabilities that sum to one.",
    }

    _engine: Any  # a SuffixEngine or a LatticeEngine
    _alphabet: Alphabet
    _kind: str
    n_symbols_seen_: int
    alphabet: Any
    walk: str
    switching: float | None
    borders: bool

    @property
    def alphabet_(self) -> list[Hashable]:
        """The known symbols, in the order of the columns of ``predict_proba``."""
        self._fitted()
        return list(self._alphabet.symbols)

    @property
    def n_contexts_(self) -> int:
        """Number of contexts stored; in the lattice, of slots in use."""
        return int(self._fitted().n_contexts)

    @property
    def nbytes_(self) -> int:
        """The memory of the model in bytes."""
        return sum(array.nbytes for array in self._fitted().store)

    @reads
    def predict_proba(self, context: Any = None) -> Floats:
        """The probability of each symbol of ``alphabet_`` to come next. The probabilities sum to one.

        If the alphabet can grow, there is one more number: the probability of a new symbol.
        """
        place = self._place(context)
        return np.asarray(self._engine.distribution(place))

    def log_loss(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> float:
        """Mean of -log p over the symbols of a document. Nothing is learned."""
        losses = self.losses(sequence, context=context, unit=unit)
        if not len(losses):
            raise ValueError("the mean loss of an empty sequence is undefined: pass at least one symbol")
        return float(losses.mean())

    def losses(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """-log p of each symbol of a document. Nothing is learned."""
        return self._along(LOSSES, sequence, context, unit)

    def score(self, sequence: Any, y: None = None) -> float:
        """Mean of log p over the symbols of a document, in nats. Higher is better. Nothing is learned."""
        return -self.log_loss(sequence)

    def anomaly_scores(self, sequence: Any, *, context: Any = None, unit: str = "nats") -> Floats:
        """For each place, -log of the probability of a symbol that is at most as probable as the one there.

        Unlike the loss, it stays low where all symbols are improbable. Under the model, a score above s nats has a
        probability of at most exp(-s) at any place. Nothing is learned.
        """
        return self._along(TAIL, sequence, context, unit)

    @reads
    def _along(self, what: int, sequence: Any, context: Any, unit: str) -> Floats:
        """A number for each symbol of a document, without learning them."""
        engine, scale, codes = self._fitted(), nats_per(unit), self._read(sequence)
        out = np.empty(len(codes))
        place = self._place(context) if context is not None else engine.beginning(self.borders)
        engine.read(place, what, codes, out)
        return out / scale

    @reads
    def sample(
        self, n: int, seed: int | np.random.Generator | None = None, context: Any = None, *, temperature: float = 1.0
    ) -> Any:
        """Draw the next n symbols. Nothing is learned."""
        check("n", n, n >= 0, "0 or more")
        symbols, _ = self._draw(self._place(context), n, np.random.default_rng(seed), temperature)
        drawn = self._alphabet.decode(symbols)
        if self._kind == "bytes" and self._alphabet.are_bytes():
            return bytes(drawn)  # type: ignore[arg-type]
        return "".join(map(str, drawn)) if self._kind == "str" else drawn

    def generate(
        self, seed: int | np.random.Generator | None = None, context: Any = None, *, temperature: float = 1.0
    ) -> Iterator[Hashable]:
        """Draw an endless sequence of symbols, one at a time.

        Yields
        ------
        symbol
            The next symbol.
        """
        rng, store = np.random.default_rng(seed), None
        while True:
            with reading(self):
                if store is not self._fitted().store:  # contexts that it knew may have moved, or be forgotten
                    place, store = self._place(context), self._engine.store
                context = self._alphabet.decode(self._draw(place, 64, rng, temperature)[0])
            yield from context

    @reads
    def entropy_rate(
        self, n: int = 10_000, seed: int | np.random.Generator | None = 0, *, unit: str = "nats"
    ) -> EntropyRate:
        """Entropy rate of the model, estimated on a sequence of n symbols drawn from it."""
        check("n", n, n >= 1, "at least 1")
        entropies = self._draw(self._fitted().beginning(self.borders), n, np.random.default_rng(seed))[1]
        return EntropyRate.of(entropies / nats_per(unit))

    # ---- where predictions come from ---------------------------------------------------------------------------------

    @reads
    def posterior(self, context: Any = None) -> list[ContextWeight]:
        """The contexts of a prediction of the suffix tree, from the empty one to the longest known, with their weights.

        The weights sum to one, except that with the refining walk contexts that were never met have the rest.
        """
        place = self._place(context)
        if isinstance(self._engine, LatticeEngine):
            raise ValueError(
                "posterior weights of contexts belong to the suffix tree, and this model mixes covers: see "
                "`contributions`, or make it with effort=0"
            )
        return list(self._engine.context_weights(place, self._past(context)))

    @reads
    def contributions(self) -> dict[str, float]:
        """The contribution of each cover to the log-odds of the predictions."""
        engine = self._fitted()
        return engine.contributions() if isinstance(engine, LatticeEngine) else {"suffix": 1.0}

    @reads
    def explain(self, context: Any = None) -> str:
        """A table of the contexts of a prediction; for a lattice, the contribution of each cover."""
        if isinstance(self._fitted(), LatticeEngine):
            return "\n".join(f"{name:10} {part:6.1%}" for name, part in self.contributions().items())
        lines = ["order    visits  stop w  weight  tables    full  repeat  context"]
        for row in self.posterior(context):
            numbers = "  ".join(f"{x:6.3f}" for x in row[3:])
            lines.append(f"{row.order:5d} {row.visits:9d}  {numbers}  {context_text(row.context)}")
        return "\n".join(lines)

    @reads
    def map_tree(self, k: int = 1) -> list[ContextTree]:
        """The k most probable context trees. For the refining walk without switching."""
        check("k", k, k >= 1, "at least 1")
        return best_trees(stop_weights(self._exact()), self._alphabet.symbols, k)

    @reads
    def sample_trees(self, n: int, seed: int | np.random.Generator | None = None) -> list[ContextTree]:
        """Draw context trees from their posterior. For the refining walk without switching."""
        check("n", n, n >= 0, "0 or more")
        weights, rng = stop_weights(self._exact()), np.random.default_rng(seed)
        return [sample_tree(weights, self._alphabet.symbols, rng) for _ in range(n)]

    @reads
    def order_posterior(self) -> Floats:
        """Posterior of the order of the source: the length of the longest context of its tree, from 0 to ``depth``.

        For the refining walk without switching. Only contexts that were met are considered.
        """
        return order_posterior(stop_weights(self._exact()))

    def _exact(self) -> suffix_store.SuffixStore:
        """The suffix tree, where the walk is the exact posterior over context trees."""
        engine = self._fitted()
        if isinstance(engine, SuffixEngine) and not self._alphabet.grows:
            mode, share = engine.store.settings[[suffix_store.MODE, suffix_store.SHARE]]
            if mode == suffix_store.REFINE and share == 0:
                return engine.store
        raise ValueError(
            'context trees have a posterior only with walk="refine", no switching and a fixed alphabet, got '
            f"walk={self.walk!r}, switching={self.switching!r}, alphabet={self.alphabet!r}: make such a model"
        )

    def _past(self, context: Any) -> tuple[Hashable, ...]:
        """The symbols before the next one, old to new, at most as many as the suffix tree is deep."""
        depth = self._engine.depth
        if context is not None:
            return tuple(context)[max(len(context) - depth, 0) :]
        past = tuple(self._alphabet.decode(self._engine.newest()))
        return (BORDER_SIGN, *past) if len(past) < depth and self.borders else past

    # ---- where a reader stands --------------------------------------------------------------------------------------

    def _place(self, context: Any) -> Any:
        """After the symbols of a context, where nothing is known of what came before; or the present document."""
        engine = self._fitted()
        if context is None:
            return engine.here()
        place = engine.beginning(borders=False)
        engine.read(place, MOVE, self._read(context), np.empty(0))
        return place

    def _read(self, sequence: Any) -> Ints32 | Bytes:
        """The codes of a sequence that is not learned: all symbols never seen are the one that may come."""
        codes, fresh = self._alphabet.encode(sequence)
        return np.minimum(codes, len(self._alphabet)) if fresh else codes

    def _draw(self, place: Any, n: int, rng: np.random.Generator, temperature: float = 1.0) -> tuple[Ints32, Floats]:
        check("temperature", temperature, 0.01 <= temperature <= 100, "from 0.01 to 100")
        if not len(self._alphabet):
            raise ValueError("nothing can be drawn before a symbol is known: fit the model, or name an alphabet")
        symbols, entropies = np.empty(n, np.int32), np.empty(n)
        self._engine.read(place, DRAW, symbols, entropies, rng.random(n), 1.0 / temperature)
        return symbols, entropies

    def _fitted(self) -> Any:
        """The engine, if there is one yet."""
        if not hasattr(self, "_engine"):
            raise NotFittedError("this SequenceModel has learned nothing yet: call fit, partial_fit or update first")
        return self._engine
