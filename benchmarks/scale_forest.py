"""A million rows: Friedman's function of ten inputs with noise that depends on x.

    python benchmarks/scale_forest.py [--rows 1000000] [--trees 16]

Prints the fit's CPU time a row a tree, peak memory, and the loss against that of the true density.
"""

import argparse
import resource
import time

import numpy as np
from scipy import stats

from coverwalk import ConditionalDensity


def friedman(n: int, seed: int):
    """x uniform on [0, 1]^10; y is Friedman's function plus normal noise of standard deviation 0.5 + x_6."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 10))
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    std = 0.5 + X[:, 5]
    return X, mean + std * rng.standard_normal(n), mean, std


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=16)
    arguments = parser.parse_args()
    X, y, _, _ = friedman(arguments.rows, 0)
    X_test, y_test, mean, std = friedman(10_000, 1)
    model = ConditionalDensity(n_estimators=arguments.trees, n_jobs=1)
    model.fit(X[:200], y[:200])  # compiles
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start = time.process_time()
    loss = -model.log_likelihood(X_test, y_test)
    each_row = 1e6 * (time.process_time() - start) / len(y_test)
    truth = -stats.norm.logpdf(y_test, mean, std).mean()
    forest = model.forests_[0]
    settings, each = forest.settings, 1e6 * seconds / arguments.rows / arguments.trees
    print(f"chosen: degree {settings.degree}, w {settings.stop}; {len(forest.trees[0].feature)} contexts in a tree")
    print(f"fit {seconds:.1f} s: {each:.2f} µs per row and tree; peak memory {peak:.2f} GB")
    print(f"predict {each_row:.0f} µs per row; NLL {loss:.4f}, truth {truth:.4f}, above it {loss - truth:.4f}")


if __name__ == "__main__":
    main()
