"""What commands do with classes: labels as a table has them, probabilities, and their scores."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coverwalk._arrays import Floats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coverwalk import ContextClassifier

_ROWS_AT_ONCE = 5_000


def as_labels(entries: "NDArray[Any]") -> "NDArray[Any]":
    """The entries of a column as labels: whole numbers or numbers where all are, else text.

    >>> import numpy as np
    >>> as_labels(np.array(["1", "2"], dtype=object)), as_labels(np.array(["1", "b"], dtype=object))
    (array([1, 2]), array(['1', 'b'], dtype='<U1'))
    """
    import numpy as np

    if entries.dtype != object:
        return entries
    for kind in (np.int64, np.float64):
        try:
            return entries.astype(kind)
        except (ValueError, OverflowError):
            continue
    return entries.astype(str)


def is_text(entries: "NDArray[Any]") -> bool:
    """Whether no entry is a number: a column that can only be meant as classes."""
    if entries.dtype == bool:
        return True
    return entries.dtype == object and not any(_is_number(entry) for entry in set(entries.tolist()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in ("na", "null", "none")  # meant as a number that is missing
    return True


def labelled_rows(
    model: "ContextClassifier", data: str, known: bool
) -> Iterator[tuple["Floats", "NDArray[np.generic]"]]:
    """X and labels of a table, batch by batch; where they must be known ones, others are refused with their row."""
    import numpy as np

    from coverwalk.cli._models import columns_of
    from coverwalk.preparation.table import TableError, listed
    from coverwalk.preparation.tables import open_table

    inputs, (target,) = columns_of(model)
    first = 0
    for X, entries in (
        open_table(data).understand(inputs, model._mixed.categories).labelled(inputs, target, _ROWS_AT_ONCE)
    ):
        text = model.classes_.dtype.kind in "UO"
        labels = entries.astype(str) if text else as_labels(entries)
        if not text and labels.dtype.kind not in "iufb":
            wrong = next(i for i, entry in enumerate(entries) if not _is_number(entry))
            raise TableError(
                f"{data} has the text {entries[wrong]!r} in column {target!r}, row {first + wrong + 1}; the classes "
                f"are numbers: {listed([str(c) for c in model.classes_])}"
            )
        strange = np.flatnonzero(~np.isin(labels, model.classes_))
        if known and strange.size:
            raise TableError(
                f"{data} has the class {labels[strange[0]].item()!r} in column {target!r}, row "
                f"{first + int(strange[0]) + 1}, which the model has never seen; it knows "
                f"{listed([str(c) for c in model.classes_])}"
            )
        yield X, labels
        first += len(X)


def write_classes(model: "ContextClassifier", arguments: Any) -> None:
    """The most probable class of every row, and the probability of each."""
    import numpy as np

    from coverwalk.cli._models import columns_of, write_rows
    from coverwalk.preparation.tables import open_table

    inputs, (target,) = columns_of(model)
    columns = [target, *(f"{target}_p({label})" for label in model.classes_)]
    table = open_table(arguments.data).understand(inputs, model._mixed.categories)
    with write_rows(arguments, columns) as write:
        for X, kept in table.beside(inputs, arguments.keep, _ROWS_AT_ONCE):
            p = model._proba(X)
            write(kept, [np.asarray(model.classes_[p.argmax(axis=1)]), *p.T])


@dataclass
class ClassScore:
    """Mean log loss, accuracy and Brier score of the model, and of the classes' frequencies, by name."""

    n: int = 0
    totals: dict[str, Any] = field(default_factory=dict)
    n_seen: int = 0  # rows that the model had learned from

    def facts(self) -> dict[str, Any]:
        """Plain values."""
        names = ("log_loss", "accuracy", "brier")
        return {"rows": self.n, "training_rows": self.n_seen} | {
            name: dict(zip(names, (sums / self.n).tolist())) for name, sums in self.totals.items()
        }

    def __str__(self) -> str:
        lines = [f"{'':<18}{'log loss':>11}{'accuracy':>11}{'Brier':>11}"]
        for name, (loss, right, brier) in ((name, sums / self.n) for name, sums in self.totals.items()):
            lines.append(f"{name:<18}{loss:>11.4f}{right:>11.1%}{brier:>11.4f}")
        return "\n".join(lines)


def score_classes(model: "ContextClassifier", batches: Iterable[tuple[Any, "NDArray[Any]"]]) -> ClassScore:
    """Score rows and their labels, which must be known ones."""
    import numpy as np

    from coverwalk.evaluation.scores import n_learned_from

    frequencies = model._forest.counts / model._forest.counts.sum()
    result = ClassScore(0, {"coverwalk": np.zeros(3), "class frequencies": np.zeros(3)})
    for X, labels in batches:
        code = np.searchsorted(model.classes_, labels)
        p = model._proba(X) if isinstance(X, np.ndarray) else model.predict_proba(X)
        for name, q in zip(result.totals, (p, np.tile(frequencies, (len(X), 1)))):
            own = q[np.arange(len(X)), code]
            with np.errstate(divide="ignore"):
                loss = -np.log(own).sum()
            result.totals[name] += loss, (q.argmax(axis=1) == code).sum(), ((q**2).sum(axis=1) - 2 * own + 1).sum()
        if isinstance(X, np.ndarray):
            result.n_seen += n_learned_from(model, X, code)
        result.n += len(X)
    return result


def class_facts(model: "ContextClassifier") -> dict[str, Any]:
    """What a classifier is, as plain values."""
    from coverwalk.cli._models import columns_of

    inputs, (target,) = columns_of(model)
    trees = [tree for _, trees in model._forest.kinds for tree in trees]
    return {
        "predicts": [target],
        "classes": [str(label) for label in model.classes_],
        "given": inputs,
        "rows": model.n_rows_,
        "contexts": sum(len(tree.tree) for tree in trees),
        "trees": len(trees),
        "max_depth": max(tree.levels for tree in trees) - 1,
        "weights": [round(float(weight), 4) for weight in model.weights_],
        "exponents": [round(float(exponent), 4) for exponent in model.exponents_],
    }
