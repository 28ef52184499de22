"""``coverwalk demo``: what a whole distribution tells that a mean and an error bar do not, on the shipped data."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverwalk import ConditionalDensity, Distribution
    from coverwalk.preparation.tables import Floats

HELP = "predict Old Faithful's next eruption from the last one: two branches, probabilities, reasons and a plot"

_N_TRAIN = 200
_BLOCKS = " ▁▂▃▄▅▆▇█"
_LAST = (1.8, 3.0, 4.3)  # minutes that the last eruption took


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the plot goes."""
    parser.add_argument(
        "-o", "--output", default="faithful.png", metavar="FILE", help="plot to write (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Fit the first 200 eruptions, show what follows an eruption, and judge on the 72 after them."""
    import numpy as np

    from coverwalk import ConditionalDensity
    from coverwalk.datasets import load_faithful
    from coverwalk.warmup import help_compiling

    help_compiling("prediction", "distributions")
    last, wait = load_faithful()
    x, following, wait = last[:-1], last[1:, 0], wait[:-1]
    train, test = slice(None, _N_TRAIN), slice(_N_TRAIN, None)
    durations, waits = (ConditionalDensity().fit(x[train], y[train]) for y in (following, wait))
    rows = np.array(_LAST)[:, None]

    print(f"Old Faithful: fitted to {_N_TRAIN} eruptions. Each took some minutes, then people waited for the next.\n")
    print("How long will the next eruption take, given the last one?\n")
    _print_densities(durations.predict_dist(rows), np.linspace(1.2, 5.4, 60), "minutes")
    short = float(durations.prob([[4.3]], high=3.0)[0])
    print(f"After a long eruption there are two branches: short, {short:.0%}, or long, {1 - short:.0%}; 3 minutes, the")
    print("value between them, is one of the least likely. After a short eruption a long one follows.\n")

    print("How long will the wait be?\n")
    _print_densities(waits.predict_dist(rows), np.linspace(40, 100, 60), "minutes")
    chance = ", ".join(f"{p:.0%} after {d} min" for p, d in zip(waits.exceedance(rows, 70.0), _LAST))
    print(f"P(wait > 70 min | last eruption): {chance}\n")

    print("Why two branches? The contexts behind the next eruption after one of 4.3 min, alike ones grouped:")
    print("  " + str(durations.explain(rows[2], top=5)).replace("x0", "the last eruption").replace("\n", "\n  ") + "\n")

    _print_scores(durations, x, following, train, test)
    _draw(durations, waits, (x[:, 0], following, wait), arguments.output)


def _print_densities(dist: "Distribution", grid: "Floats", unit: str) -> None:
    """One line of bars for each row, with the median and the 80 % interval."""
    import numpy as np

    low, high = dist.interval(0.8)
    for i, density in enumerate(dist.pdf(grid[None, :])):
        bars = "".join(_BLOCKS[h] for h in np.ceil(density / density.max() * (len(_BLOCKS) - 1)).astype(int))
        print(f"  after {_LAST[i]} min  {bars}  80 %: {low[i]:.3g} to {high[i]:.3g}")
    print(f"                 {f'{grid[0]:g}':<28}{f'{(grid[0] + grid[-1]) / 2:.3g}':<28}{grid[-1]:g} {unit}\n")


def _print_scores(model: "ConditionalDensity", x: "Floats", y: "Floats", train: slice, test: slice) -> None:
    """Held-out log loss and coverage beside a straight line with normal noise."""
    import numpy as np
    from scipy.special import ndtri

    from coverwalk.evaluation.baselines import Line
    from coverwalk.evaluation.metrics import coverage, log_loss

    dist = model.predict_dist(x[test])
    print(f"On the {len(y[test])} eruptions after those, for the duration (log loss in nats, less is better):")
    print(f"  {'':<22}log loss   80 % intervals cover")
    print(f"  {'coverwalk':<22}{log_loss(y[test], dist):8.3f}   {coverage(y[test], dist, 0.8):.0%}")
    for name, width in (("a straight line", 1), ("one normal for all", 0)):
        line = Line.fit(x[train, :width], y[train])
        inside = np.abs(y[test] - line.mean(x[test, :width])) <= ndtri(0.9) * line.std
        print(f"  {name:<22}{-line.logpdf(x[test, :width], y[test]).mean():8.3f}   {inside.mean():.0%}")


def _draw(
    durations: "ConditionalDensity", waits: "ConditionalDensity", rows: "tuple[Floats, Floats, Floats]", path: str
) -> None:
    """Both densities over the last eruption, and the probability of a long wait; needs matplotlib."""
    import numpy as np

    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("\nFor the plot install matplotlib: pip install 'coverwalk[plot]'")
        return

    from coverwalk.evaluation.plotting import plot_conditional

    grid = np.linspace(1.6, 5.1, 40)
    figure = Figure(figsize=(14, 4.2))
    axes = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.04, right=0.99, bottom=0.13, top=0.93, wspace=0.24)  # laid out by hand: a second less
    panels: list[tuple[Any, Any, str, str]] = [
        (durations, rows[1], "next eruption, min", "Two branches after a long eruption"),
        (waits, rows[2], "wait, min", "Intervals open and close"),
    ]
    for ax, (model, y, label, title) in zip(axes, panels):
        plot_conditional(model.predict_dist(grid[:, None]), grid, data=(rows[0], y), ax=ax)
        ax.set(xlabel="last eruption, min", ylabel=label)
        ax.set_title(title, fontsize=11, loc="left")
    axes[2].plot(grid, waits.exceedance(grid[:, None], 70.0), color="#2a6f97", linewidth=2)
    axes[2].set(xlabel="last eruption, min", ylabel="probability", ylim=(0, 1))
    axes[2].set_title("P(wait > 70 min | last eruption)", fontsize=11, loc="left")
    figure.savefig(path, dpi=100)
    print(f"\nwrote {path}")
