"""What a fitted SequenceModel predicts: probabilities, losses, draws."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from coverwalk._arrays import Bytes, Floats, Ints32
from coverwalk._docstrings import Documented
from coverwalk._kernels.sequences.suffix_read import DRAW, LOSSES, TAIL
from coverwalk.locks import reading
from coverwalk.sequences.alphabet import Alphabet
from coverwalk.sequences.entropy_rate import EntropyRate
from coverwalk.sequences.sequence_parameters import check, nats_per


class SequenceReader(Documented, BaseEstimator):  # type: ignore[misc]
    """What a SequenceModel predicts. Nothing here changes the model."""

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
    }

    _engine: Any  # a SuffixEngine or a LatticeEngine
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
        """The known symbols, in the order of the columns of ``predict_proba``."""
        self._check_fitted()
        return list(self._alphabet.symbols)

    @property
    def n_contexts_(self) -> int:
        """Number of contexts stored; in the lattice, of slots in use."""
        self._check_fitted()
        return int(self._engine.n_contexts)

    @property
    def nbytes_(self) -> int:
        """The memory of the model in bytes."""
        self._check_fitted()
        return sum(array.nbytes for array in self._engine.store)

    def predict_proba(self, context: Any = None) -> Floats:
        """The probability of each symbol of ``alphabet_`` to come next. The probabilities sum to one.

        If the alphabet can grow, there is one more number: the probability of a new symbol.
        """
        with reading(self):
            place = self._place(context)
            probability: Floats = self._engine.distribution(place)
        return probability

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

    def _along(self, what: int, sequence: Any, context: Any, unit: str) -> Floats:
        """A number for each symbol of a document, without learning them."""
        self._check_fitted()
        scale = nats_per(unit)
        with reading(self):
            codes = self._read(sequence)
            place = self._place(context) if context is not None else self._engine.beginning(self.borders)
            out = np.empty(len(codes))
            self._engine.read(place, what, codes, out)
        return out / scale

    def sample(
        self, n: int, seed: int | np.random.Generator | None = None, context: Any = None, *, temperature: float = 1.0
    ) -> Any:
        """Draw the next n symbols. Nothing is learned."""
        check("n", n, n >= 0, "0 or more")
        with reading(self):
            symbols = self._draw(self._place(context), n, np.random.default_rng(seed), temperature)[0]
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
                self._check_fitted()
                if store is not self._engine.store:  # contexts that it knew may have moved, or be forgotten
                    place, store = self._place(context), self._engine.store
                context = self._alphabet.decode(self._draw(place, 64, rng, temperature)[0])
            yield from context

    def entropy_rate(
        self, n: int = 10_000, seed: int | np.random.Generator | None = 0, *, unit: str = "nats"
    ) -> EntropyRate:
        """Entropy rate of the model, estimated on a sequence of n symbols drawn from it."""
        check("n", n, n >= 1, "at least 1")
        self._check_fitted()
        with reading(self):
            entropies = self._draw(self._engine.beginning(self.borders), n, np.random.default_rng(seed))[1]
        return EntropyRate.of(entropies / nats_per(unit))

    # ---- where a reader stands --------------------------------------------------------------------------------------

    def _place(self, context: Any) -> Any:
        self._check_fitted()
        return self._engine.here() if context is None else self._engine.after(self._read(context))

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

    def _check_fitted(self) -> None:
        if not hasattr(self, "_engine"):
            raise NotFittedError("this SequenceModel has learned nothing yet: call fit, partial_fit or update first")
