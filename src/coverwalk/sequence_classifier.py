"""Sequences classified by code length: one SequenceModel per class, and Bayes' rule."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from coverwalk._arrays import Floats
from coverwalk.files.estimators import Saved
from coverwalk.files.schema import Absent, Array, Flag, Labels, List, Maybe, Object, Schema, require
from coverwalk.locks import adopt, reads, unfitted, writes
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


class SequenceClassifier(Saved, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The class whose model codes a sequence shortest: p(class) prod_t p(x_t given the past, class).

    Parameters
    ----------
    model : SequenceModel, optional
        What each class is learned by; its ``alphabet`` is that of all training sequences unless it names one. By
        default a suffix tree: sequences are short, and a class needs to learn fast.
    both_strands : bool
        For DNA: learn the reverse complement of each sequence too.

    Attributes
    ----------
    classes_ : array
        The classes, sorted.
    models_ : list of SequenceModel
        One for each class.

    Examples
    --------
    >>> english = ["the cat sat on the mat", "it was the best of times", "where is the house"]
    >>> german = ["die katze sitzt auf der matte", "es war die beste zeit", "wo ist das haus"]
    >>> model = SequenceClassifier().fit(english + german, ["en"] * 3 + ["de"] * 3)
    >>> model.predict(["the mouse is in the house", "die maus ist im haus"]).tolist()
    ['en', 'de']
    """

    _schema = Schema(
        model=Maybe(Object(SequenceModel)),
        both_strands=Flag(),
        classes_=Absent(Labels("n_classes")),
        models_=Absent(List(Object(SequenceModel), "n_classes", low=1)),
        log_prior_=Absent(Array(float, "n_classes", log_total=1.0)),
        check=lambda state, scope: _check_parts(state),
    )

    classes_: NDArray[Any]
    models_: list[SequenceModel]
    log_prior_: Floats

    def __init__(self, model: SequenceModel | None = None, *, both_strands: bool = False) -> None:
        self.model = model
        self.both_strands = both_strands

    @writes
    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Learn one model per class from the sequences ``X`` with the classes ``y``; forgets what was there.

        Parameters
        ----------
        X : iterable of sequences
            One document each.
        y : array-like of shape (n,)
            Their labels.

        Returns
        -------
        self
            The fitted estimator.
        """
        sequences, labels = list(X), np.asarray(y)
        if not sequences or labels.shape != (len(sequences),):
            raise ValueError(
                f"expected as many classes as sequences, at least one, got {len(sequences)} and {labels.shape}"
            )
        classes, codes = np.unique(labels, return_inverse=True)
        template = SequenceModel(effort=0) if self.model is None else self.model
        symbols = _symbols(sequences) if template.alphabet is None else None
        models = []
        for code in range(len(classes)):
            one = clone(template)
            if symbols is not None:
                one.set_params(alphabet=symbols)
            own = [sequences[i] for i in np.flatnonzero(codes == code)]
            if self.both_strands:
                own = [strand for dna in own for strand in (dna, reverse_complement(dna))]
            models.append(one.fit_documents(_known(document, one) for document in own))
        fresh = unfitted(self)
        fresh.classes_, fresh.models_ = classes, models
        fresh.log_prior_ = np.log(np.bincount(codes) / len(codes))
        return adopt(self, fresh)

    @reads
    def code_lengths(self, X: Iterable[Any], *, unit: str = "bits") -> Floats:
        """The length of each sequence coded by each class's model, (sequences, classes); nothing is learned.

        Parameters
        ----------
        X : iterable of sequences
            One document each.
        unit : "nats" or "bits"
            Unit of the result.

        Returns
        -------
        ndarray of shape (n, n_classes)
            In nats.
        """
        if not hasattr(self, "models_"):
            raise NotFittedError("this SequenceClassifier has learned nothing yet: call fit first")
        rows = [[m.losses(_known(sequence, m), unit=unit).sum() for m in self.models_] for sequence in X]
        return np.array(rows, dtype=float).reshape(len(rows), len(self.models_))

    @reads
    def predict_log_proba(self, X: Iterable[Any]) -> Floats:
        """log P(class given sequence), by Bayes' rule; where the models are wrong it is overconfident.

        Parameters
        ----------
        X : iterable of sequences
            One document each.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Columns are in the order of ``classes_``.
        """
        lengths = self.code_lengths(X, unit="nats")
        joint = self.log_prior_ - lengths
        return np.asarray(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))

    @reads
    def predict_proba(self, X: Iterable[Any]) -> Floats:
        """P(class given sequence), (sequences, classes).

        Parameters
        ----------
        X : iterable of sequences
            One document each.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Columns are in the order of ``classes_``.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @reads
    def predict(self, X: Iterable[Any]) -> NDArray[Any]:
        """The most probable class of each sequence.

        Parameters
        ----------
        X : iterable of sequences
            One document each.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        return np.asarray(self.classes_[self.predict_log_proba(X).argmax(axis=1)])


def _check_parts(state: Any) -> None:
    has = [hasattr(state, name) for name in ("classes_", "models_", "log_prior_")]
    require("the learned parts", all(has) or not any(has))
    require("models_", not has[0] or all(hasattr(model, "_store") for model in state.models_))


def _symbols(sequences: list[Any]) -> list[Hashable] | int:
    """The alphabet of all sequences: the bytes, or what was met and one for what was not."""
    if all(isinstance(sequence, BYTES) for sequence in sequences):
        return 256
    return [*dict.fromkeys(symbol for sequence in sequences for symbol in sequence), _UNKNOWN]


def _known(sequence: Any, model: SequenceModel) -> Any:
    """The sequence with the unknown symbol in place of symbols that no training sequence has."""
    alphabet = model.alphabet_ if hasattr(model, "_store") else model.alphabet
    if isinstance(alphabet, int) or isinstance(sequence, BYTES):
        return sequence
    names = set(alphabet or ())
    return [symbol if symbol in names else _UNKNOWN for symbol in sequence] if _UNKNOWN in names else sequence
