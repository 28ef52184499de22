"""What one row costs a forest on a stream, by the clock, while trees grow: to learn it, and to predict it.

    python benchmarks/latency.py [--rows 100000] [--trees 16] [--inputs 10]

Medians and 99.9th percentiles of single calls. Growths run on a second core; on a machine with other work the clock
also shows that work, so the time that the calling thread itself computed is printed beside it, and that of a row of
a `DoubleTree` (one input), the yardstick of docs/double_tree.md.
"""

import argparse
import os
import time

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from coverwalk import ConditionalDensity, DoubleTree
from coverwalk.datasets import make_gaussmix


def make(n: int, p: int):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2 % p] + 0.5 * X[:, 3 % p] + 0.3 * rng.standard_normal(n)
    return X, y


def line(what: str, wall: np.ndarray, own: np.ndarray, target: str) -> None:
    shown = [1e6 * np.quantile(times, q) for times in (wall, own) for q in (0.5, 0.999)]
    print(
        f"{what:<22} clock: median {shown[0]:8.1f}  p99.9 {shown[1]:9.1f}   "
        f"own CPU: median {shown[2]:8.1f}  p99.9 {shown[3]:9.1f} us   {target}",
        flush=True,
    )


def yardstick() -> None:
    model, own = DoubleTree(), []
    for x, level in zip(*make_gaussmix(6000, 0)):
        begin = time.thread_time()
        model.learn_one(x, level)
        own.append(time.thread_time() - begin)
    print(f"double tree, learn_one: own CPU, median {1e6 * np.median(own[1000:]):.1f} µs per row", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--trees", type=int, default=16)
    parser.add_argument("--inputs", type=int, default=10)
    given = parser.parse_args()
    X, y = make(given.rows, given.inputs)
    warm = ConditionalDensity(n_estimators=given.trees)  # compiles
    for i in range(2000):
        warm.learn_one(X[i], y[i])
        warm.predict_dist(X[i : i + 1])
    yardstick()
    model = ConditionalDensity(n_estimators=given.trees)
    model.learn_one(X[0], y[0])
    wall, own = np.zeros((2, given.rows)), np.zeros((2, given.rows))
    begin = time.perf_counter()
    log_p = np.empty(given.rows)
    for i in range(1, given.rows):
        t0, c0 = time.perf_counter(), time.thread_time()
        model.predict_dist(X[i : i + 1])
        t1, c1 = time.perf_counter(), time.thread_time()
        log_p[i] = model.learn_one(X[i], y[i])
        t2, c2 = time.perf_counter(), time.thread_time()
        wall[:, i], own[:, i] = (t1 - t0, t2 - t1), (c1 - c0, c2 - c1)
        if i in (1000, 10_000) or i == given.rows - 1:
            print(
                f"-- {i + 1:,} rows, {i / (time.perf_counter() - begin):,.0f} a second with both, "
                f"loss of the last tenth {-log_p[9 * i // 10 : i + 1].mean():.3f}",
                flush=True,
            )
            part = slice(1, i + 1)
            line("learn_one", wall[1, part], own[1, part], "p99.9 under 5000")
            line("predict_dist of a row", wall[0, part], own[0, part], "")
            line("both", wall[:, part].sum(0), own[:, part].sum(0), "median under 200")


if __name__ == "__main__":
    main()
