"""``coverwalk plot``: predictions and their calibration."""

import argparse
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import (
    add_model_and_data,
    add_output,
    add_target,
    check_folder,
    chosen_target,
    columns_of,
    first_rows,
    load_fitted,
    rows_of,
)

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity, ContextClassifier

HELP = "draw predictions and their calibration"

_ROWS, _JOINT_ROWS = 5_000, 300
_SHOWN = 12  # rows whose classes are drawn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, plot."""
    add_model_and_data(parser)
    add_output(parser, "plot to write: .png, .svg or .pdf", "plot.png")
    add_target(parser)


def run(arguments: argparse.Namespace) -> None:
    """One input: the predictions over it. Several: those of the first rows beside a check of calibration."""
    check_folder(arguments.output, "plot")
    model = load_fitted(arguments.model, arguments.data)
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = (_plot_classes if hasattr(model, "classes_") else _plot_density)(model, arguments)
    figure.savefig(arguments.output, dpi=160)
    plt.close(figure)
    print(f"wrote {arguments.output}")


def _plot_density(model: "ConditionalDensity", arguments: argparse.Namespace) -> Any:
    import matplotlib.pyplot as plt
    import numpy as np

    from coverwalk.evaluation.plotting import plot_conditional, plot_density, plot_pit, plot_reliability
    from coverwalk.evaluation.scores import predicted
    from coverwalk.preparation.categories import OTHERS

    inputs, targets = columns_of(model)
    j = chosen_target(arguments, targets)
    X, Y, _ = first_rows(rows_of(model, arguments.data), _ROWS if len(targets) == 1 else _JOINT_ROWS)
    if len(inputs) == 1 and model._mixed.n_categories:  # the density of y for each category
        names = model._mixed.category_names[0]
        shown = [i for i, name in enumerate(names) if name != OTHERS] or [0]
        dist = predicted(model, np.array(shown, dtype=np.float64)[:, None]).marginal(j)
        figure, ax = plt.subplots(figsize=(6.4, 1.0 + 0.45 * len(shown)), layout="constrained")
        plot_density(dist, rows=slice(None), labels=[names[i] for i in shown], ax=ax)
        ax.set(xlabel=targets[j], ylabel=inputs[0])
        return figure
    if len(inputs) == 1 and not np.isnan(X).all():
        grid = np.linspace(np.nanmin(X), np.nanmax(X), 200)
        ax = plot_conditional(predicted(model, grid[:, None]).marginal(j), grid, data=(X[:, 0], Y[:, j]))
        ax.set(xlabel=inputs[0], ylabel=targets[j])
        return ax.figure
    dist, y = predicted(model, X).marginal(j), Y[:, j]
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    plot_density(dist, y, ax=axes[0]).set_xlabel(targets[j])
    plot_pit(y, dist, ax=axes[1])
    plot_reliability(y, dist, ax=axes[2])
    return figure


def _plot_classes(model: "ContextClassifier", arguments: argparse.Namespace) -> Any:
    """One number as input: the probability of each class over it. Otherwise the first rows, beside a check."""
    import matplotlib.pyplot as plt
    import numpy as np

    from coverwalk.evaluation.scores import class_reliability

    inputs, (target,) = columns_of(model)
    X, labels, _ = first_rows(rows_of(model, arguments.data), _ROWS)
    if len(inputs) == 1 and not model._mixed.n_categories and not np.isnan(X).all():
        grid = np.linspace(np.nanmin(X), np.nanmax(X), 300)
        figure, ax = plt.subplots(figsize=(6.8, 4.2), layout="constrained")
        names = [str(label) for label in model.classes_]
        ax.stackplot(grid, model._proba(grid[:, None]).T, labels=names, alpha=0.85)
        ax.set(xlim=(grid[0], grid[-1]), ylim=(0, 1), xlabel=inputs[0], ylabel="probability")
        ax.set_title(f"predicted probability of {target}", fontsize=10, loc="left")
        ax.legend(title=target, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
        return figure
    p = model._proba(X)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    shown = p[:_SHOWN]
    places, start = -np.arange(len(shown)), np.zeros(len(shown))
    for label, values in zip(model.classes_, shown.T):
        left.barh(places, values, left=start, height=0.8, label=str(label))
        start = start + values
    left.set_yticks(places, [f"row {i}: {label}" for i, label in enumerate(labels[:_SHOWN])])
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
