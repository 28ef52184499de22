"""Holdout losses of the streaming estimator on the paper's sets, beside those of the author's implementation.

    python benchmarks/paper_losses.py [--seeds 10] [--rows 10000] [--data FOLDER] [--option walk=refine ...]

Synthetic sets: means over seeds; a loss is shifted by the difference between the truth's loss on that seed's holdout
and on average, which removes the noise of the holdout that all estimators share.
"""

import argparse

import numpy as np

from coverwalk import DoubleTree
from coverwalk.datasets import MIXTURES, data_folder, load_faithful

AUTHOR = {
    "gaussmix": (1.466, 1.313, 1.256, 1.232, 1.224),
    "unifmix": (1.651, 1.481, 1.407, 1.387, 1.385),
    "ring": (0.962, 0.709, 0.654, 0.630, 0.623),
    "geyser": (3.213,),
    "robot": (19.7, 13.4, 10.7, 7.28),
}
TRUTH = {"gaussmix": 1.218, "unifmix": 1.383, "ring": 0.618}
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)


def losses(X, y, X_holdout, y_holdout, sizes, options):
    model, found = DoubleTree(**options), []
    for start, end in zip((0, *sizes), sizes):
        model.partial_fit(X[start:end], y[start:end])
        found.append(-model.score(X_holdout, y_holdout))
    return np.array(found)


def mixture(name, seed, sizes, options):
    X, y = MIXTURES[name].make(sizes[-1], seed)
    X_holdout, y_holdout = MIXTURES[name].make(10_000, 1000 + seed)
    excess = -MIXTURES[name].log_density(X_holdout, y_holdout).mean() - TRUTH[name]
    return losses(X, y, X_holdout, y_holdout, sizes, options) - excess


def geyser(seed, options):
    X, y = load_faithful()
    rng = np.random.default_rng(seed)
    y = y + rng.uniform(-0.5, 0.5, len(y))
    X = X + rng.uniform(-1 / 120, 1 / 120, X.shape)
    return losses(X[:200], y[:200], X[200:], y[200:], (200,), options)


def show(name, sizes, found):
    mean, error = found.mean(0), found.std(0) / np.sqrt(len(found))
    for t, loss, wobble, author in zip(sizes, mean, error, AUTHOR[name]):
        verdict = "" if loss <= author + 5e-4 else "  above"
        print(f"{name:<10}{t:>10,}{loss:>10.3f} +- {wobble:.3f}   author {author:>7.3f}{verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--data")
    parser.add_argument("--option", action="append", default=[], help="of DoubleTree, such as walk=refine")
    arguments = parser.parse_args()
    options = dict(option.split("=", 1) for option in arguments.option)
    sizes = tuple(t for t in SIZES if t <= arguments.rows)
    for name in MIXTURES:
        show(name, sizes, np.array([mixture(name, seed, sizes, options) for seed in range(arguments.seeds)]))
    show("geyser", (200,), np.array([geyser(seed, options) for seed in range(arguments.seeds)]))
    folder = data_folder(arguments.data, needs="robot/sensor_readings_24.csv")
    table = np.loadtxt(folder / "robot/sensor_readings_24.csv", delimiter=",", usecols=range(24), skiprows=1)
    robot = losses(table[:2812, :16], table[:2812, 16:], table[2812:, :16], table[2812:, 16:],
                   (100, 500, 1000, 2812), options)  # fmt: skip
    show("robot", (100, 500, 1000, 2812), robot[None])


if __name__ == "__main__":
    main()
