"""Slips among the y that are learned: ours and peers on the same rows, all judged on rows without slips.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/outliers.py [--rows 1500] [--splits 0 1]

A slip adds so many standard deviations to y; where there are several, that times a number from Cauchy's distribution.
Log loss and RMSE on 2000 further rows, means over the splits.
"""

import argparse
import warnings

import numpy as np
from generated import friedman, smooth
from targets import predicted
from uci_peers import HistGradientBoosting, LeafKernel

from coverwalk import ConditionalDensity

SLIPS = ((0, 0.0), (1, 30.0), (1, 1000.0), (1, 1e6), (15, 1000.0), (75, 30.0))  # how many, and how large


def hetero(rng, n):
    """Five inputs: one moves the mean, one the noise."""
    X = rng.uniform(-1, 1, (n, 5))
    return X, np.sin(3 * X[:, 0]) + 0.3 * np.exp(X[:, 1]) * rng.standard_normal(n)


def with_slips(y, many, size, rng):
    y = y.copy()
    far = rng.standard_cauchy(many) if many > 1 else np.ones(many)
    y[rng.choice(len(y), many, replace=False)] += size * np.std(y) * far
    return y


def judged(method, X, y, X_test, y_test):
    """Log loss and RMSE."""
    if method is ConditionalDensity:
        dist = ConditionalDensity(n_jobs=1).fit(X, y).predict_dist(X_test)
    else:
        dist = predicted(method(X, y), X_test)
    return -np.mean(dist.logpdf(y_test)), np.sqrt(np.mean((dist.mean() - y_test) ** 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    methods = {"coverwalk": ConditionalDensity, "boosting": HistGradientBoosting, "forest kernels": LeafKernel}
    print("| set | slips | " + " | ".join(f"{name}: log loss | RMSE" for name in methods) + " |")
    print("|---|---|" + "---|" * (2 * len(methods)))
    for make in (friedman, smooth, hetero):
        for many, size in SLIPS:
            scores = []
            for split in given.splits:
                rng = np.random.default_rng(split)
                X, y = make(rng, given.rows + 2000)
                test = slice(given.rows, None)
                learned = with_slips(y[: given.rows], many, size, rng)
                scores.append([judged(m, X[: given.rows], learned, X[test], y[test]) for m in methods.values()])
            told = " | ".join(f"{loss:.3f} | {rmse:.4g}" for loss, rmse in np.mean(scores, axis=0))
            print(f"| {make.__name__} | {many} of {size:g} | {told} |", flush=True)


if __name__ == "__main__":
    main()
