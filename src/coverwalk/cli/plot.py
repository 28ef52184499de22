"""``coverwalk plot``: a picture of the predictions."""

import argparse
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import add_output

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity
    from coverwalk._arrays import Floats
    from coverwalk.distributions.base import Distribution

HELP = "draw predictions and their calibration"

_ROWS, _JOINT_ROWS = 5_000, 300


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, data, picture."""
    parser.add_argument("model", help="model file, made by coverwalk fit")
    parser.add_argument("data", help="CSV or Parquet file with inputs and targets; - for CSV from standard input")
    add_output(parser, "plot to write: .png, .svg or .pdf", "plot.png")
    parser.add_argument(
        "--target", metavar="COLUMN", help="which target, if the model has several (default: the first)"
    )


def run(arguments: argparse.Namespace) -> None:
    """One input: the density over it. Several: the first rows beside a check of calibration."""
    from coverwalk.cli._models import check_folder, load_fitted

    check_folder(arguments.output, "plot")
    model = load_fitted(arguments.model, arguments.data, targets=True)
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if hasattr(model, "classes_"):
        from coverwalk.cli._class_plot import plot_classes
        from coverwalk.cli._models import columns_of

        inputs, (target,) = columns_of(model)
        figure = plot_classes(model, arguments.data, inputs[0], target)
    else:
        figure = _density(model, arguments)
    figure.savefig(arguments.output, dpi=160)
    plt.close(figure)
    print(f"wrote {arguments.output}")


def _density(model: "ConditionalDensity", arguments: argparse.Namespace) -> Any:
    import numpy as np

    from coverwalk.cli._models import columns_of, first_rows, rows_of
    from coverwalk.evaluation.scores import marginals, predicted

    inputs, targets = columns_of(model)
    target = arguments.target or targets[0]
    if target not in targets:
        raise ValueError(f"{arguments.model} has no target {target!r}; it has {', '.join(targets)}")
    j = targets.index(target)
    X, Y, _ = first_rows(rows_of(model, arguments.data, targets=True), _ROWS if len(targets) == 1 else _JOINT_ROWS)
    if len(inputs) == 1 and model._mixed.n_categories:
        return _levels(model, j, inputs[0], target)
    if len(inputs) == 1 and not np.isnan(X).all():
        grid = np.linspace(np.nanmin(X), np.nanmax(X), 200)
        dist = predicted(model, grid[:, None])
        return _conditional(marginals(dist)[j], grid, X[:, 0], Y[:, j], inputs[0], target)
    return _panels(marginals(predicted(model, X))[j], Y[:, j], target)


def _levels(model: "ConditionalDensity", j: int, x_name: str, y_name: str) -> Any:
    """The density of y for each level of the one input."""
    import matplotlib.pyplot as plt
    import numpy as np

    from coverwalk.evaluation.plotting import plot_density
    from coverwalk.evaluation.scores import marginals
    from coverwalk.preparation.columns import OTHERS

    names = model._mixed.category_names[0]
    shown = [i for i, name in enumerate(names) if name != OTHERS] or [0]
    dist = marginals(model._dist(np.array(shown, dtype=np.float64)[:, None]))[j]
    figure, axes = plt.subplots(figsize=(6.4, 1.0 + 0.45 * len(shown)), layout="constrained")
    plot_density(dist, rows=slice(None), labels=[names[i] for i in shown], ax=axes).set(xlabel=y_name, ylabel=x_name)
    return figure


def _conditional(dist: "Distribution", grid: "Floats", x: "Floats", y: "Floats", x_name: str, y_name: str) -> Any:
    from coverwalk.evaluation.plotting import plot_conditional

    ax = plot_conditional(dist, grid, data=(x, y))
    ax.set(xlabel=x_name, ylabel=y_name)
    return ax.figure


def _panels(dist: "Distribution", y: "Floats", name: str) -> Any:
    import matplotlib.pyplot as plt

    from coverwalk.evaluation.plotting import plot_density, plot_pit, plot_reliability

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    plot_density(dist, y, ax=axes[0]).set_xlabel(name)
    plot_pit(y, dist, ax=axes[1])
    plot_reliability(y, dist, ax=axes[2])
    return figure
