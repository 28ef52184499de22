"""Density against scikit-learn's KernelDensity: holdout log loss on mixtures, and the time to score a point.

    OMP_NUM_THREADS=1 python benchmarks/density.py

Sixteen cells: four kinds of mixtures in one and two dimensions, 10^3 and 10^4 rows, 5000 held out. The bandwidth of the
kernel density, and one of two kernels (the second has the heavier tails), are chosen by three-fold cross-validation
over a grid (at most 1000 rows of a fold judge). "atoms": 30 % of the rows repeat one of three values; they are scored
as densities with respect to Lebesgue measure, each spread evenly over its rounding step of 0.01, in training and test.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KernelDensity

from coverwalk import Density

WEIGHTS = [0.4, 0.35, 0.25]
MEANS = np.array([[-3.0, -2.0], [0.0, 2.5], [3.5, -0.5]])
COVARIANCES = np.array([[[1.0, 0.6], [0.6, 1.2]], [[0.8, -0.5], [-0.5, 0.9]], [[0.5, 0.2], [0.2, 0.3]]])
LOW, HIGH = np.array([[-4.0, -3.0], [-1.0, -1.0], [1.5, -2.5]]), np.array([[0.0, 0.0], [3.0, 3.0], [5.0, 0.5]])
ATOMS, STEP = np.array([[0.0, 0.0], [1.0, -1.0], [-2.0, 1.0]]), 0.01


def gaussian(n, rng):
    part = rng.choice(3, n, p=WEIGHTS)
    noise = np.einsum("nij,nj->ni", np.linalg.cholesky(COVARIANCES)[part], rng.standard_normal((n, 2)))
    return MEANS[part] + noise


def uniform(n, rng):
    part = rng.choice(3, n, p=WEIGHTS)
    return LOW[part] + (HIGH - LOW)[part] * rng.random((n, 2))


def heavy(n, rng):
    part = rng.choice(2, n, p=[0.6, 0.4])
    df, scale = np.array([2.0, 1.5])[part], np.array([0.5, 1.0])[part]
    t = rng.standard_normal((n, 2)) / np.sqrt(rng.chisquare(df) / df)[:, None]
    return np.array([[-2.0, 0.0], [3.0, 1.0]])[part] + scale[:, None] * t


def atoms(n, rng):
    Y, repeated = gaussian(n, rng), rng.random(n) < 0.3
    Y[repeated] = ATOMS[rng.choice(3, repeated.sum(), p=[0.5, 0.3, 0.2])] + STEP * (
        rng.random((repeated.sum(), 2)) - 0.5
    )
    return Y


KINDS = {"gaussian": gaussian, "uniform": uniform, "heavy-tailed": heavy, "atoms": atoms}


def kernel_density(Y):
    """The best of a grid of bandwidths and two kernels, by cross-validation."""
    scale = np.mean(np.subtract(*np.percentile(Y, [75, 25], axis=0))) / 1.35
    grid = {"bandwidth": scale * np.geomspace(1e-3, 2.0, 18), "kernel": ["gaussian", "exponential"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a bandwidth too small scores -inf
        splits = [(rest, fold[:1000]) for rest, fold in KFold(3, shuffle=True, random_state=0).split(Y)]
        search = GridSearchCV(KernelDensity(rtol=1e-4), grid, cv=splits, refit=False).fit(Y)
    return KernelDensity(**search.best_params_).fit(Y)


def accuracy(seed):
    print(f"{'':16}{'rows':>7}{'coverwalk':>12}{'kernel':>12}{'fit, s':>9}{'search, s':>11}")
    wins = 0
    for q in (1, 2):
        for name, make in KINDS.items():
            for n in (1000, 10_000):
                rng = np.random.default_rng(seed)
                Y, holdout = make(n, rng)[:, :q], make(5000, rng)[:, :q]
                times = [time.process_time()]
                model = Density().fit(Y)
                times.append(time.process_time())
                peer = kernel_density(Y)
                times.append(time.process_time())
                ours = -model.score(holdout)
                theirs = -peer.set_params(rtol=1e-6).score(holdout) / len(holdout)
                wins += ours < theirs
                label, (fit, search) = f"{name}, {q}-D", np.diff(times)
                print(f"{label:16}{n:7}{ours:12.4f}{theirs:12.4f}{fit:9.2f}{search:11.1f}", flush=True)
    print(f"less loss in {wins} of 16\n")


def speed(n, seed):
    print(f"scoring at {n} rows, CPU microseconds a point")
    for q in (1, 2):
        for name in KINDS:
            rng = np.random.default_rng(seed)
            Y, holdout = KINDS[name](n, rng)[:, :q], KINDS[name](20_000, rng)[:, :q]
            began = time.process_time()
            model = Density().fit(Y)
            fit = time.process_time() - began
            model.score_samples(holdout[:10])
            began = time.process_time()
            model.score_samples(holdout)
            ours = (time.process_time() - began) / len(holdout)
            peer = KernelDensity(bandwidth=0.05).fit(Y)
            began = time.process_time()
            peer.score_samples(holdout[:200])
            theirs = (time.process_time() - began) / 200
            label = f"{name}, {q}-D"
            print(
                f"{label:16}{1e6 * ours:9.1f}{1e6 * theirs:10.0f}   {theirs / ours:6.0f} times   (fit {fit:.1f} s)",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="rows for the scoring speed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    Density(n_estimators=1).fit(np.random.default_rng(0).standard_normal((50, 2))).score_samples(np.zeros((1, 2)))
    accuracy(options.seed)
    speed(options.rows, options.seed)
