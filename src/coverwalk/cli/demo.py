"""``coverwalk demo``: what a whole distribution shows and a mean with an error bar does not, on the shipped data."""

import argparse
from typing import TYPE_CHECKING, Any

from coverwalk.cli._models import add_output

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity, Distribution
    from coverwalk._arrays import Floats

HELP = "predict Old Faithful's next eruption from the last one, with probabilities, an explanation and a plot"

_N_TRAIN = 200
_BLOCKS = " ▁▂▃▄▅▆▇█"
_LAST = (1.8, 3.0, 4.3)  # minutes that the last eruption took


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the plot goes."""
    add_output(parser, "plot to write", "faithful.png")


def run(arguments: argparse.Namespace) -> None:
    """Fit the first 200 eruptions, show what follows an eruption, and judge on the 72 after them."""
    import numpy as np

    from coverwalk.warmup import help_compiling

    help_compiling("prediction", "distributions")
    durations, waits, (last, following, wait) = fit_models()
    rows = np.array(_LAST)[:, None]

    print(
        f"Old Faithful is a geyser. Two models were fitted to {_N_TRAIN} of its eruptions, with default parameters.\n"
    )
    print("How long will the next eruption last, given how long the last one did?\n")
    _print_densities(durations.predict_dist(rows), np.linspace(1.2, 5.4, 60), "minutes")
    short = float(durations.prob([[4.3]], high=3.0)[0])
    print("A short eruption is followed by a long one. After a long eruption there are two branches: the next one is")
    print(f"short with probability {short:.0%}, or long with {1 - short:.0%}. Few last 3 minutes, the mean.\n")

    print("How long will the wait for it be?\n")
    _print_densities(waits.predict_dist(rows), np.linspace(40, 100, 60), "minutes")
    chance = ", ".join(f"{p:.0%} after {d} min" for p, d in zip(waits.exceedance(rows, 70.0), _LAST))
    print(f"P(wait > 70 min | last eruption): {chance}\n")

    print("Why two branches? This is what the prediction after 4.3 minutes is made of:\n")
    print("  " + str(durations.explain(rows[2], top=5)).replace("x0", "a last eruption").replace("\n", "\n  ") + "\n")

    _print_scores(durations, last[:, None], following)
    try:
        draw(durations, waits, (last, following, wait), arguments.output)
    except ImportError:
        print("\nTo get the plot as well, install matplotlib: pip install matplotlib")
    else:
        print(f"\nwrote {arguments.output}")


def fit_models() -> "tuple[ConditionalDensity, ConditionalDensity, tuple[Floats, Floats, Floats]]":
    """Models of the next duration and of the wait, given the last duration; and the three columns, all rows."""
    from coverwalk import ConditionalDensity
    from coverwalk.datasets import load_faithful

    durations, waits = load_faithful()
    x, following, wait = durations[:-1], durations[1:, 0], waits[:-1]
    models = (ConditionalDensity().fit(x[:_N_TRAIN], y[:_N_TRAIN]) for y in (following, wait))
    return next(models), next(models), (x[:, 0], following, wait)


def _print_densities(dist: "Distribution", grid: "Floats", unit: str) -> None:
    """One line of bars for each row, with the 80 % interval."""
    import numpy as np

    low, high = dist.interval(0.8)
    for i, density in enumerate(dist.pdf(grid[None, :])):
        bars = "".join(_BLOCKS[h] for h in np.ceil(density / density.max() * (len(_BLOCKS) - 1)).astype(int))
        print(f"  after {_LAST[i]} min  {bars}  80 % interval: {low[i]:.3g} to {high[i]:.3g}")
    print(f"                 {f'{grid[0]:g}':<28}{f'{(grid[0] + grid[-1]) / 2:.3g}':<28}{grid[-1]:g} {unit}\n")


def _print_scores(model: "ConditionalDensity", x: "Floats", y: "Floats") -> None:
    """Held-out log loss and coverage, beside a linear regression with normal noise."""
    from coverwalk.evaluation.baselines import fit_baselines
    from coverwalk.evaluation.metrics import coverage, log_loss

    train, test = slice(None, _N_TRAIN), slice(_N_TRAIN, None)
    dist = model.predict_dist(x[test])
    print(
        f"How good is that? On the {len(y[test])} eruptions after the first {_N_TRAIN} (a lower log loss is better):\n"
    )
    print(f"  {'':<22}log loss   coverage of 80 % intervals")
    print(f"  {'coverwalk':<22}{log_loss(y[test], dist):8.3f}   {coverage(y[test], dist, 0.8):.0%}")
    baselines = fit_baselines(x[train], y[train], ())
    for name, shown in (("linear regression", "linear regression"), ("one normal", "one normal for all")):
        scores = baselines[name].scores(x[test], y[test], 0.8)
        print(f"  {shown:<22}{-scores.log_density.mean():8.3f}   {scores.inside.mean():.0%}")


def draw(
    durations: "ConditionalDensity", waits: "ConditionalDensity", rows: "tuple[Floats, Floats, Floats]", path: str
) -> None:
    """Both densities over the last eruption, and the probability of a long wait; needs matplotlib."""
    import numpy as np
    from matplotlib.figure import Figure

    from coverwalk.evaluation.plotting import plot_conditional

    grid = np.linspace(1.6, 5.1, 40)
    figure = Figure(figsize=(14, 4.2))
    axes = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.04, right=0.99, bottom=0.13, top=0.93, wspace=0.24)  # laid out by hand: a second less
    panels: list[tuple[Any, Any, str, str]] = [
        (durations, rows[1], "next eruption, minutes", "Next eruption: after a long one, two branches"),
        (waits, rows[2], "wait, minutes", "Wait for the next eruption"),
    ]
    for ax, (model, y, label, title) in zip(axes, panels):
        plot_conditional(model.predict_dist(grid[:, None]), grid, data=(rows[0], y), ax=ax)
        ax.set(xlabel="last eruption, minutes", ylabel=label)
        ax.set_title(title, fontsize=11, loc="left")
    axes[2].plot(grid, waits.exceedance(grid[:, None], 70.0), color="#2a6f97", linewidth=2)
    axes[2].set(xlabel="last eruption, minutes", ylabel="probability", xlim=(grid[0], grid[-1]), ylim=(0, 1))
    axes[2].set_title("P(wait > 70 minutes | last eruption)", fontsize=11, loc="left")
    axes[2].spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
