"""Nanoseconds per component of predictive mixtures, beside SciPy's Student t summed over the same components.

python benchmarks/distribution.py [--rows 1000] [--components 300]
"""

import argparse
import time

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes


def make_shapes(kind, rng):
    if kind == "student":
        return Shapes.student(rng.integers(3, 200, 50).astype(float))
    if kind == "kernels":
        return Shapes.join(
            Shapes.kernels(np.full(50, 0.02), rng.standard_normal(50), np.full(50, 0.1)) for _ in range(20)
        )
    edges, masses = np.arange(64) / 64, rng.dirichlet(np.ones(64), 20)
    return Shapes.join(Shapes.t2_cells(mass, edges, np.full(64, 1 / 64)) for mass in masses)


def make_rows(shapes, n, m, rng):
    weight = rng.dirichlet(np.full(m, 0.2), n).ravel()
    loc, scale = rng.standard_normal(n * m), rng.gamma(2, 0.3, n * m)
    return PredictiveDistribution(np.arange(n + 1) * m, weight, loc, scale, rng.integers(0, len(shapes), n * m), shapes)


def cpu_seconds(function, *args):
    """The least of three runs after one that compiles."""
    function(*args)
    times = []
    for _ in range(3):
        begin = time.process_time()
        function(*args)
        times.append(time.process_time() - begin)
    return min(times)


def scipy_logpdf(dist, y, n, m):
    _, weight, loc, scale, shape = (
        column.reshape(n, m) if column.size == n * m else column for column in dist.components
    )
    return logsumexp(stats.t.logpdf(y[:, None], dist.shapes.df[shape], loc, scale), b=weight, axis=1)


def scipy_cdf(dist, y, n, m):
    _, weight, loc, scale, shape = (
        column.reshape(n, m) if column.size == n * m else column for column in dist.components
    )
    return (weight * stats.t.cdf(y[:, None], dist.shapes.df[shape], loc, scale)).sum(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--components", type=int, default=300)
    arguments = parser.parse_args()
    n, m = arguments.rows, arguments.components
    rng = np.random.default_rng(0)
    y = rng.standard_normal(n)
    print("| components | logpdf ns/component | cdf ns/component | ppf µs/quantile | rvs µs/draw | entropy ms/row |")
    print("|---|---|---|---|---|---|")
    for kind in ("student", "kernels", "cells"):
        dist = make_rows(make_shapes(kind, rng), n, m, rng)
        some, few = dist[: max(1, n // 20)], dist[:2]
        log_density, tail = cpu_seconds(dist.logpdf, y), cpu_seconds(dist.cdf, y)
        quantile = cpu_seconds(some.ppf, [0.05, 0.5, 0.95]) / len(some) / 3
        draw, entropy = cpu_seconds(dist.rvs, 10) / n / 10, cpu_seconds(few.entropy) / len(few)
        ours = f"{log_density / n / m * 1e9:.1f} | {tail / n / m * 1e9:.1f}"
        print(f"| {kind} | {ours} | {quantile * 1e6:.0f} | {draw * 1e6:.2f} | {entropy * 1e3:.1f} |")
        if kind == "student":
            np.testing.assert_allclose(dist.logpdf(y), scipy_logpdf(dist, y, n, m), rtol=1e-9)
            peer = cpu_seconds(scipy_logpdf, dist, y, n, m), cpu_seconds(scipy_cdf, dist, y, n, m)
            print(f"| scipy.stats.t | {peer[0] / n / m * 1e9:.1f} | {peer[1] / n / m * 1e9:.1f} | | | |")
            ratios = f"{peer[0] / log_density:.1f} times | {peer[1] / tail:.1f} times"
            print(f"| ours is faster | {ratios} | | | |")


if __name__ == "__main__":
    main()
