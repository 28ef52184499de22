"""The paper's sets: ours beside a double kernel with cross-validated bandwidths, in the same run, on the same rows.

    python benchmarks/paper_sets.py [--robot --data FOLDER]

Ten cells: three mixtures at 100, 1000 and 10000 rows, and Old Faithful with its rounding undone by noise, at 200. The
robot's eight outputs (first 2812 rows against the last 2644) are scored for ours alone: a double kernel's loss is
infinite there.
"""

import argparse

import numpy as np
from scipy.special import logsumexp

from coverwalk import ConditionalDensity
from coverwalk.datasets import MIXTURES, data_folder, load_faithful

HOLDOUT = 10_000
CV_ROWS = (
    600  # rows on which bandwidths are cross-validated; they shrink as n^(-1/6) beyond, for a density in the plane
)


def double_kernel(x, y, x_new, y_new, h_x: float, h_y: float, skip=None):
    """Log of sum_i K(x - x_i) K(y - y_i) / sum_i K(x - x_i), normal kernels; skip masks pairs (new, old) left out."""
    out = np.empty(len(y_new))
    for s in range(0, len(y_new), 500):
        rows = slice(s, s + 500)
        log_x = -0.5 * ((x_new[rows, None] - x) / h_x) ** 2
        if skip is not None:
            log_x[skip[rows]] = -np.inf
        log_y = -0.5 * ((y_new[rows, None] - y) / h_y) ** 2 - np.log(h_y * np.sqrt(2 * np.pi))
        out[rows] = logsumexp(log_x + log_y, axis=1) - logsumexp(log_x, axis=1)
    return out


def cross_validated(x, y, folds: int = 10):
    """Bandwidths of least 10-fold loss over a grid."""
    part = slice(0, CV_ROWS)
    a, b = x[part], y[part]
    fold = np.arange(len(b)) % folds
    skip = fold[:, None] == fold
    grid = 2.0 ** np.arange(-5, 0.6, 0.5)
    losses = {(u, v): -np.mean(double_kernel(a, b, a, b, u * x.std(), v * y.std(), skip)) for u in grid for v in grid}
    u, v = min(losses, key=losses.get)
    shrink = (len(y) / len(b)) ** (-1 / 6)
    return u * x.std() * shrink, v * y.std() * shrink


def cell(name: str, X, y, X_test, y_test, truth: float = np.nan) -> float:
    ours = -ConditionalDensity(n_jobs=1).fit(X, y).log_likelihood(X_test, y_test)
    h_x, h_y = cross_validated(X[:, 0], y)
    peer = -np.mean(double_kernel(X[:, 0], y, X_test[:, 0], y_test, h_x, h_y))
    print(f"| {name} | {len(y)} | {ours:.3f} | {peer:.3f} | {ours - peer:+.3f} | {truth:.3f} |", flush=True)
    return ours - peer


def robot(folder) -> None:
    table = np.loadtxt(folder / "robot" / "sensor_readings_24.csv", delimiter=",", usecols=range(24), skiprows=1)
    X, Y = table[:, :16], table[:, 16:]
    model = ConditionalDensity(n_jobs=1).fit(X[:2812], Y[:2812])
    print(f"robot, chain rule: {-model.log_likelihood(X[-2644:], Y[-2644:]):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", action="store_true")
    parser.add_argument("--data")
    arguments = parser.parse_args()
    print("| set | rows | coverwalk | double kernel | difference | truth |\n|---|---|---|---|---|---|")
    differences = []
    for name, mixture in MIXTURES.items():
        X_test, y_test = mixture.make(HOLDOUT, 1)
        truth = -np.mean(mixture.log_density(X_test, y_test))
        for n in (100, 1000, 10_000):
            differences.append(cell(name, *mixture.make(n, 0), X_test, y_test, truth))
    X, y = load_faithful()
    rng = np.random.default_rng(0)
    X, y = X + rng.uniform(-1 / 120, 1 / 120, X.shape), y + rng.uniform(-0.5, 0.5, y.shape)
    differences.append(cell("geyser", X[:200], y[:200], X[200:], y[200:]))
    print(f"at or below in {sum(d <= 0 for d in differences)} of {len(differences)}; worst {max(differences):+.3f}")
    if arguments.robot:
        robot(data_folder(arguments.data, needs="robot"))


if __name__ == "__main__":
    main()
