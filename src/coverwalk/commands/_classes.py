"""What commands do with classes: labels as a table has them, probabilities, and their scores."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coverwalk import ContextClassifier
    from coverwalk.tables import Floats

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

    from coverwalk.commands._models import columns_of
    from coverwalk.tables import TableError, listed, open_table

    inputs, (target,) = columns_of(model)
    first = 0
    for X, entries in open_table(data).understand(inputs, model._mixed.levels).labelled(inputs, target, _ROWS_AT_ONCE):
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


def write_classes(model: "ContextClassifier", data: str, out: str) -> None:
    """The most probable class of every row, and the probability of each."""
    from coverwalk.commands._models import columns_of
    from coverwalk.tables import open_table, write_table

    inputs, (target,) = columns_of(model)
    columns = [target, *(f"{target}_p({label})" for label in model.classes_)]
    with write_table(out, columns) as table:
        for X in open_table(data).understand(inputs, model._mixed.levels).batches(inputs, _ROWS_AT_ONCE):
            p = _probabilities(model, X)
            table.write_columns([model.classes_[p.argmax(axis=1)], *p.T])


def print_scores(model: "ContextClassifier", data: str) -> None:
    """Log loss, accuracy and Brier score, beside the classes' shares of the rows learned."""
    import numpy as np

    shares = _weights(model) / _weights(model).sum()
    totals, n = np.zeros((2, 3)), 0
    for X, labels in labelled_rows(model, data, known=True):
        code = np.searchsorted(model.classes_, labels)
        for k, p in enumerate((_probabilities(model, X), np.tile(shares, (len(X), 1)))):
            own = p[np.arange(len(X)), code]
            with np.errstate(divide="ignore"):
                loss = -np.log(own).sum()
            totals[k] += loss, (p.argmax(axis=1) == code).sum(), ((p**2).sum(axis=1) - 2 * own + 1).sum()
        n += len(X)
    print(f"{n} rows of {data}, {len(model.classes_)} classes; log loss in nats; less is better but for accuracy\n")
    print(f"{'':<18}{'log loss':>11}{'accuracy':>11}{'Brier':>11}")
    for name, (loss, right, brier) in zip(("coverwalk", "class shares"), totals / n):
        print(f"{name:<18}{loss:>11.4f}{right:>11.1%}{brier:>11.4f}")


def print_facts(model: "ContextClassifier") -> None:
    """What a classifier is."""
    from coverwalk.commands._models import columns_of

    inputs, (target,) = columns_of(model)
    trees = [tree for _, trees in model._forest.kinds for tree in trees]
    print(f"  predicts   {target}: {', '.join(str(label) for label in model.classes_)}")
    print(f"  given      {', '.join(inputs)}")
    print(f"  rows       {model.n_rows_} learned")
    print(f"  contexts   {sum(len(tree.tree[2]) for tree in trees)} in {len(trees)} trees")
    print(f"  depth      {max(tree.levels for tree in trees) - 1} at most")
    print(f"  pools      powers {', '.join(f'{power:.2f}' for power in model.powers_)}")


def _weights(model: "ContextClassifier") -> "Floats":
    """The rows of each class that the model has learned: what the root of any of its trees has counted."""
    counts: Floats = model._forest.kinds[0][1][0].local[0][0]
    return counts


def _probabilities(model: "ContextClassifier", X: "Floats") -> "Floats":
    """Of rows that are known to be in the order of the model's columns."""
    import numpy as np

    from coverwalk.forests.class_forest import n_threads

    p = np.exp(model._forest.log_proba(X, n_threads(model.n_jobs)))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
