"""The paper's sets: ours beside a conditional kernel density with cross-validated bandwidths, in the same run.

    python benchmarks/paper_sets.py [--seeds 5 3 2] [--robot --data FOLDER]

Ten cells: three mixtures at 100, 1000 and 10000 rows, and Old Faithful with its rounding undone by noise, at 200; each
the mean over several draws of the rows (of the noise, for Old Faithful), more where there are few rows. The robot's
eight outputs (first 2812 rows against the last 2644) are scored for ours alone: the loss of the kernel
density is infinite there.
"""

import argparse
import time

import numpy as np

from coverwalk import ConditionalDensity
from coverwalk.datasets import MIXTURES, data_folder, load_faithful
from coverwalk.paper.double_kernel import DoubleKernel

HOLDOUT = 10_000
SIZES = (100, 1000, 10_000)


def losses(X, y, X_test, y_test) -> list[float]:
    """Our loss, that of the conditional kernel density, and the CPU seconds that ours took to fit and to predict."""
    start = time.process_time()
    model = ConditionalDensity(n_jobs=1).fit(X, y)
    fitted = time.process_time()
    ours = -model.log_likelihood(X_test, y_test)
    answered = time.process_time()
    peer = -np.mean(DoubleKernel().fit(X, y).logpdf(X_test, y_test))
    return [ours, peer, fitted - start, 1e6 * (answered - fitted) / len(y_test)]


def report(name: str, n: int, rows: list[list[float]], truth: float = np.nan) -> float:
    """Print a cell; returns ours minus the peer's."""
    ours, peer, fit, predict = np.mean(rows, axis=0)
    each = np.array([row[0] - row[1] for row in rows])
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
    line = f"{ours:.3f} | {peer:.3f} | {ours - peer:+.4f} ± {error:.4f} | {truth:.3f} | {fit:.2f} | {predict:.0f}"
    print(f"| {name} | {n} | {line} |", flush=True)
    return float(ours - peer)


def geyser(seed: int):
    """Old Faithful with uniform noise of one rounding step on both columns: 200 rows, and 72 to be asked."""
    X, y = load_faithful()
    rng = np.random.default_rng(seed)
    X, y = X + rng.uniform(-1 / 120, 1 / 120, X.shape), y + rng.uniform(-0.5, 0.5, y.shape)
    return X[:200], y[:200], X[200:], y[200:]


def robot(folder) -> None:
    table = np.loadtxt(folder / "robot" / "sensor_readings_24.csv", delimiter=",", usecols=range(24), skiprows=1)
    X, Y = table[:, :16], table[:, 16:]
    model = ConditionalDensity(n_jobs=1).fit(X[:2812], Y[:2812])
    print(f"robot, chain rule: {-model.log_likelihood(X[-2644:], Y[-2644:]):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=3, default=(5, 3, 2), help="draws at 100, 1000 and 10000 rows")
    parser.add_argument("--robot", action="store_true")
    parser.add_argument("--data")
    arguments = parser.parse_args()
    losses(*geyser(0))  # compiles
    print("| set | rows | coverwalk | conditional kernel density | difference | truth | fit s | predict µs per row |")
    print("|---|---|---|---|---|---|---|---|")
    differences = []
    for name, mixture in MIXTURES.items():
        test = mixture.make(HOLDOUT, 1_000_000)
        truth = float(-np.mean(mixture.log_density(*test)))
        for n, n_seeds in zip(SIZES, arguments.seeds):
            rows = [losses(*mixture.make(n, seed), *test) for seed in range(n_seeds)]
            differences.append(report(name, n, rows, truth))
    differences.append(report("geyser", 200, [losses(*geyser(seed)) for seed in range(arguments.seeds[0])]))
    print(f"at or below in {sum(d <= 0 for d in differences)} of {len(differences)}; worst {max(differences):+.4f}")
    if arguments.robot:
        robot(data_folder(arguments.data, needs="robot"))


if __name__ == "__main__":
    main()
