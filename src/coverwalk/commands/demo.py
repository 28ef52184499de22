"""``coverwalk demo``: the main job on the shipped data."""

import argparse

HELP = "predict the waiting time of Old Faithful from the last eruption, as a whole distribution"

_N_TRAIN = 200
_BLOCKS = " ▁▂▃▄▅▆▇█"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing to set."""


def run(arguments: argparse.Namespace) -> None:
    """Fit the first 200 rows, predict the rest; then the same rows as a stream."""
    import numpy as np
    from scipy import stats

    from coverwalk import ConditionalDensity
    from coverwalk.datasets import load_faithful

    x, waiting = load_faithful()
    # Waiting times are whole minutes: spread over their minute, or a density could win by guessing the rounding.
    waiting = waiting + np.random.default_rng(0).uniform(-0.5, 0.5, len(waiting))
    learn, test = slice(None, _N_TRAIN), slice(_N_TRAIN, None)
    model = ConditionalDensity().fit(x[learn], waiting[learn])

    print(f"Old Faithful: fitted to {_N_TRAIN} eruptions.\n")
    print("How long until the next eruption, given how long the last one was?\n")
    grid = np.arange(40.0, 100.0)
    durations = np.array([[1.8], [3.0], [4.3]])
    dist = model.predict_dist(durations)
    low, middle, high = model.predict(durations, quantiles=[0.1, 0.5, 0.9]).T
    for i, density in enumerate(dist.pdf(grid[None, :])):
        bars = "".join(_BLOCKS[h] for h in np.ceil(density / density.max() * (len(_BLOCKS) - 1)).astype(int))
        print(f"  after {durations[i, 0]} min  {bars}  {middle[i]:.0f} ({low[i]:.0f} to {high[i]:.0f})")
    print(f"                 {'40':<20}{'60':<20}{'80':<17}100   median (80 %)\n")

    normal = stats.norm(waiting[learn].mean(), waiting[learn].std())
    slope, intercept = np.polyfit(x[learn, 0], waiting[learn], 1)
    spread = (waiting[learn] - intercept - slope * x[learn, 0]).std()
    line = stats.norm(intercept + slope * x[test, 0], spread)
    print(f"Mean log loss on the {len(x) - _N_TRAIN} eruptions after those, in nats (less is better):")
    print(f"  coverwalk           {-model.log_likelihood(x[test], waiting[test]):.3f}")
    print(f"  a straight line     {-line.logpdf(waiting[test]).mean():.3f}")
    print(f"  one normal for all  {-normal.logpdf(waiting[test]).mean():.3f}\n")

    stream = ConditionalDensity(covers="kd")
    surprise = -stream.prequential(x, waiting)
    print("As a stream, each eruption predicted before it is learned: mean log loss")
    print("  " + ", ".join(f"{surprise[a : a + 68].mean():.2f}" for a in range(0, 272, 68)) + " in the four quarters.")
    odd = int(np.argmax(surprise[_N_TRAIN:])) + _N_TRAIN
    print(f"  Most surprising of the last 72: {waiting[odd]:.0f} min after an eruption of {x[odd, 0]} min.")
