"""``coverwalk demo``: the main job on the shipped data."""

import argparse

HELP = "predict the waiting time of Old Faithful from the last eruption, as a whole distribution"

_N_TRAIN = 200
_BLOCKS = " ▁▂▃▄▅▆▇█"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing to set."""


def run(arguments: argparse.Namespace) -> None:
    """Learn the first 200 rows one by one, then predict the rest."""
    import numpy as np
    from scipy import stats

    from coverwalk import CoverModel
    from coverwalk.covers import KDTree
    from coverwalk.datasets import load_faithful
    from coverwalk.local import Polynomial, TreeDensity

    x, waiting = load_faithful()
    # Waiting times are whole minutes: spread over their minute, or a density could win by guessing the rounding.
    waiting = waiting + np.random.default_rng(0).uniform(-0.5, 0.5, len(waiting))
    centre, width = 70.0, 15.0  # a guess of the units: minutes, about an hour
    names = {Polynomial(0): "a normal", Polynomial(1): "a line", TreeDensity(): "a tree density"}
    model = CoverModel(KDTree(), list(names), walk="coarsen", priors="parent")
    learn, test = slice(None, _N_TRAIN), slice(_N_TRAIN, None)
    model.update_many(x[learn], (waiting[learn] - centre) / width)

    def log_density(duration: float, minutes: float) -> float:
        return model.log_predict(duration, (minutes - centre) / width) - float(np.log(width))

    print(f"Old Faithful: learned {_N_TRAIN} eruptions one by one; {len(model)} contexts have something to say.\n")
    print("How long until the next eruption, given how long the last one was?\n")
    grid = np.arange(40.0, 100.0)
    for duration in (1.8, 3.0, 4.3):
        density = np.exp([log_density(duration, minutes) for minutes in grid])
        heights = np.ceil(density / density.max() * (len(_BLOCKS) - 1)).astype(int)
        print(f"  after {duration} min  {''.join(_BLOCKS[h] for h in heights)}")
    print(f"               {'40':<20}{'60':<20}{'80':<17}100 min\n")

    loss = -np.mean([log_density(d, m) for d, m in zip(x[test, 0], waiting[test])])
    normal = stats.norm(waiting[learn].mean(), waiting[learn].std())
    print(f"Mean log loss on the {len(x) - _N_TRAIN} eruptions after those (less is better):")
    print(f"  coverwalk {loss:.3f} nats     one normal for all {-normal.logpdf(waiting[test]).mean():.3f} nats\n")
    print("Why, after 4.3 minutes? The contexts and local models that speak, with their weights:")
    for voice in model.posterior(4.3)[:4]:
        print(f"  {voice.weight:5.1%}  {names[voice.local]} at depth {voice.depth}")
