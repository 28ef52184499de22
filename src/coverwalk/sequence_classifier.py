"""Sequences classified by code length: one SequenceModel per class, and Bayes' rule."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from coverwalk._arrays import Floats
from coverwalk.files import schema as file
from coverwalk.files.estimators import Saved
from coverwalk.locks import fits, reads
from coverwalk.sequence import SequenceModel
from coverwalk.sequences.alphabet import BYTES

__all__ = ["SequenceClassifier", "reverse_complement"]

_UNKNOWN = ("a symbol of no training sequence",)
_PAIRS = str.maketrans("ACGTacgtNn", "TGCAtgcaNn")


def reverse_complement(dna: str) -> str:
    """The other strand of DNA, read in its own direction.

    >>> reverse_complement("GATTACA")
    'TGTAATC'
    """
    unknown = set(dna) - set("ACGTacgtNn")
    if unknown:
        raise ValueError(f"expected the letters A, C, G, T and N, got {sorted(unknown)[0]!r}: is this DNA?")
    return dna.translate(_PAIRS)[::-1]


@file.stored(
    classes_=file.Absent(file.Labels("n_classes")),
    models_=file.Absent(file.List(file.Object(SequenceModel), "n_classes", low=1)),
    log_prior_=file.Absent(file.Array(float, "n_classes", log_total=1.0)),
    check=lambda state, scope: _check_parts(state),
)
@dataclass(eq=False, repr=False)
class SequenceClassifier(Saved, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify sequences by code length: one `SequenceModel` for each class, and Bayes' rule.

    Parameters
    ----------
    model : SequenceModel, optional
        The model of each class; by default a suffix tree. If it names no ``alphabet``, the alphabet is that of all
        training sequences.
    both_strands : bool
        For DNA: also learn the reverse complement of each sequence.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    models_ : list of SequenceModel
        One model for each class.

    Examples
    --------
    >>> english = ["the cat sat on the mat", "it was the best of times", "where is the house"]
    >>> german = ["die katze sitzt auf der matte", "es war die beste zeit", "wo ist das haus"]
    >>> model = SequenceClassifier().fit(english + german, ["en"] * 3 + ["de"] * 3)
    >>> model.predict(["the mouse is in the house", "die maus ist im haus"]).tolist()
    ['en', 'de']
    """

    _words = {  # noqa: RUF012
        "X": "iterable of sequences\n    One document each.",
        "y": "array-like of shape (n,)\n    Labels of the documents.",
        "predict ->": "ndarray of shape (n,)\n    Labels.",
        "unit": '{"bits", "nats"}\n    Unit of the result.',
        "code_lengths ->": "ndarray of shape (n, n_classes)\n    Code lengths, in this unit.",
    }

    model: Annotated[SequenceModel | None, file.Maybe(file.Object(SequenceModel))] = None
    _: KW_ONLY
    both_strands: Annotated[bool, file.Flag()] = False

    @fits
    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Learn one model for each class. Anything learned before is discarded."""
        sequences, labels = list(X), np.asarray(y)
        if not sequences or labels.shape != (len(sequences),):
            raise ValueError(
                f"expected as many classes as sequences, at least one, got {len(sequences)} and {labels.shape}"
            )
        if not isinstance(self.model, SequenceModel | None):
            raise TypeError(f"model must be a SequenceModel, or None for the default one; got {self.model!r}")
        classes, codes = np.unique(labels, return_inverse=True)
        template = SequenceModel(effort=0) if self.model is None else clone(self.model)
        if template.alphabet is None:
            template.alphabet = _symbols(sequences)
        models = []
        for code in range(len(classes)):
            own = [sequences[i] for i in np.flatnonzero(codes == code)]
            if self.both_strands:
                own = [strand for dna in own for strand in (dna, reverse_complement(dna))]
            models.append(clone(template).fit_documents(_known(document, template.alphabet) for document in own))
        self.classes_, self.models_ = classes, models
        self.log_prior_ = np.log(np.bincount(codes) / len(codes))
        return self

    @reads
    def code_lengths(self, X: Iterable[Any], *, unit: str = "bits") -> Floats:
        """Code length of each sequence under the model of each class. Nothing is learned."""
        if not hasattr(self, "models_"):
            raise NotFittedError("this SequenceClassifier has learned nothing yet: call fit first")
        rows = [[m.losses(_known(sequence, m.alphabet_), unit=unit).sum() for m in self.models_] for sequence in X]
        return np.array(rows, dtype=float).reshape(len(rows), len(self.models_))

    @reads
    def predict_log_proba(self, X: Iterable[Any]) -> Floats:
        """Predict the log probability of each class. On long sequences, probabilities are often overconfident."""
        lengths = self.code_lengths(X, unit="nats")
        joint = self.log_prior_ - lengths
        return np.asarray(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))

    @reads
    def predict_proba(self, X: Iterable[Any]) -> Floats:
        """Predict the probability of each class."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @reads
    def predict(self, X: Iterable[Any]) -> NDArray[Any]:
        """Predict the most probable class of each sequence."""
        return np.asarray(self.classes_[self.predict_log_proba(X).argmax(axis=1)])


def _check_parts(state: Any) -> None:
    has = [hasattr(state, name) for name in ("classes_", "models_", "log_prior_")]
    file.require("the learned parts", all(has) or not any(has))
    file.require("models_", not has[0] or all(hasattr(model, "_engine") for model in state.models_))


def _symbols(sequences: list[Any]) -> list[Hashable] | int:
    """The alphabet of all sequences: the bytes, or what was met and one for what was not."""
    if all(isinstance(sequence, BYTES) for sequence in sequences):
        return 256
    return [*dict.fromkeys(symbol for sequence in sequences for symbol in sequence), _UNKNOWN]


def _known(sequence: Any, alphabet: Any) -> Any:
    """The sequence with the unknown symbol in place of symbols that no training sequence has."""
    if not isinstance(alphabet, list) or _UNKNOWN not in alphabet[-1:] or isinstance(sequence, BYTES):
        return sequence
    names = set(alphabet)
    return [symbol if symbol in names else _UNKNOWN for symbol in sequence]
