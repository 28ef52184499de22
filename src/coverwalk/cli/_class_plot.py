"""The plots of a classifier: probabilities over one input, or of the first rows, and whether they are right."""

from typing import TYPE_CHECKING, Any

from coverwalk._arrays import Floats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coverwalk import ContextClassifier

_ROWS = 5_000
_SHOWN = 12


def plot_classes(model: "ContextClassifier", data: str, x_name: str, target: str) -> Any:
    """One number as input: the probability of each class over it. Otherwise the first rows, beside a check."""
    import numpy as np

    from coverwalk.cli._classes import labelled_rows
    from coverwalk.cli._models import first_rows

    X, labels, _ = first_rows(labelled_rows(model, data, known=True), _ROWS)
    if X.shape[1] == 1 and not model._mixed.n_categories and not np.isnan(X).all():
        grid = np.linspace(np.nanmin(X), np.nanmax(X), 300)
        return _areas(model, grid, model._proba(grid[:, None]), x_name, target)
    return _panels(model, model._proba(X), labels, target)


def _areas(model: "ContextClassifier", grid: "Floats", p: "Floats", x_name: str, target: str) -> Any:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.8, 4.2), layout="constrained")
    ax.stackplot(grid, p.T, labels=[str(label) for label in model.classes_], alpha=0.85)
    ax.set(xlim=(grid[0], grid[-1]), ylim=(0, 1), xlabel=x_name, ylabel="probability")
    ax.set_title(f"predicted probability of {target}", fontsize=10, loc="left")
    ax.legend(title=target, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def _panels(model: "ContextClassifier", p: "Floats", labels: "NDArray[np.generic]", target: str) -> Any:
    import matplotlib.pyplot as plt
    import numpy as np

    from coverwalk.evaluation.scores import class_reliability

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    shown = p[:_SHOWN]
    start = np.zeros(len(shown))
    for c, label in enumerate(model.classes_):
        left.barh(-np.arange(len(shown)), shown[:, c], left=start, height=0.8, label=str(label))
        start = start + shown[:, c]
    left.set_yticks(-np.arange(len(shown)), [f"row {i}: {labels[i]}" for i in range(len(shown))])
    left.set(xlim=(0, 1), xlabel="probability")
    left.set_title(f"predicted probability of {target}; observed at the left", fontsize=10, loc="left")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=min(6, len(model.classes_)), fontsize=8)
    claimed, accuracy, _ = zip(*class_reliability(p, model.classes_[p.argmax(axis=1)] == labels))
    right.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="calibrated")
    right.plot(claimed, accuracy, "o-", color="#2a6f97", label="this model")
    right.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability of the predicted class", ylabel="accuracy", aspect="equal")
    right.set_title("reliability", fontsize=10, loc="left")
    right.legend(loc="upper left", fontsize=8)
    return figure
