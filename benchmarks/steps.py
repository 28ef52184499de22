"""Steps of y that are common to all x: generated sets with and without them, the same forest asked both ways.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/steps.py [--rows 1500] [--seeds 2] [--sets gaps smooth]

Loss in nats of 2000 new rows without and with the steps that the forest chose, the share of 90 % intervals that hold y,
and what was chosen: the share, the power, and how many cells. On smooth y nothing should be chosen.
"""

import argparse
from dataclasses import replace

import numpy as np

from coverwalk import ConditionalDensity


def make(n: int, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Sets by name; four inputs, of which two matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    mean, noise, u = X[:, 0] + np.sin(2 * X[:, 1]), rng.normal(size=n), rng.uniform(size=n)
    yes = rng.random(n) < 1 / (1 + np.exp(-2 * mean))
    grade = np.digitize(mean + 0.5 * noise, [-1.5, 0.0, 1.5])
    sets = {
        "grades and noise": grade + u,
        "grades": grade.astype(float),
        "counts": rng.poisson(np.exp(0.5 * mean + 0.5)).astype(float),
        "often zero": np.where(yes, 0.0, np.exp(0.5 * mean + 0.5 * noise)),
        "gaps": np.where(yes, u, 3 + u),
        "bounded": rng.beta(1.0 + (mean > 0), 1.0 + (mean < 0)),
        "uniform": u,
        "smooth": mean + 0.3 * noise,
        "heavy tails": mean + 0.3 * rng.standard_t(2, size=n),
        "skewed": np.exp(mean + 0.3 * noise),
        "unequal noise": mean + 0.3 * np.exp(0.5 * X[:, 2]) * noise,
        "two modes": mean * rng.choice([-1, 1], n) + 0.2 * noise,
    }
    return {name: (X, y) for name, y in sets.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="+", choices=list(make(2, 0)))
    arguments = parser.parse_args()
    print("| set | without | with | covered % | share, power, cells |\n|---|---|---|---|---|")
    for name in arguments.sets or make(2, 0):
        for seed in range(arguments.seeds):
            X, y = make(arguments.rows, seed)[name]
            X_test, y_test = make(2000, 1000 + seed)[name]
            model = ConditionalDensity(n_jobs=1).fit(X, y)
            forest = model.forests_[0]
            steps, loss = forest.settings.steps, -model.log_likelihood(X_test, y_test)
            low, high = model.predict_dist(X_test).interval(0.9)
            covered = 100 * np.mean((low <= y_test) & (y_test <= high))
            forest.settings = replace(forest.settings, steps=None)
            plain = -model.log_likelihood(X_test, y_test)
            chosen = f"{steps.share:.2f}, {steps.power:.2f}, {len(steps.cells.left)}" if steps else "none"
            print(f"| {name} | {plain:.3f} | {loss:.3f} | {covered:.1f} | {chosen} |", flush=True)


if __name__ == "__main__":
    main()
