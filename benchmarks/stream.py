"""What a row costs the streaming estimator: learning, predicting, memory, growth, and the first call of a process.

    python benchmarks/stream.py [--rows 1000000]

CPU time on one core. The peer in the same run is the conditional kernel density on
10,000 rows with its bandwidths already chosen.
"""

import argparse
import os
import resource
import subprocess
import sys
import time

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

FIRST_CALL = (
    "from coverwalk import DoubleTree; from coverwalk.datasets import make_gaussmix as make;"
    "DoubleTree().fit(*make(100)).logpdf(*make(10))"
)


def cpu(action) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


def line(what: str, value: float, unit: str, target: str = "") -> None:
    print(f"{what:<58}{value:>10.2f} {unit:<12}{target}", flush=True)


def stream(n: int, walk: str) -> dict[int, tuple[float, float]]:
    from coverwalk import DoubleTree
    from coverwalk.datasets import make_gaussmix

    X, y = make_gaussmix(n, 0)
    X_test, y_test = make_gaussmix(50_000, 1000)
    DoubleTree(walk=walk).fit(X[:100], y[:100]).logpdf(X[:10], y[:10])
    cost = {}
    for size in (10_000, 100_000, n):
        model = DoubleTree(walk=walk)
        learn = cpu(lambda model=model, size=size: model.partial_fit(X[:size], y[:size])) / size
        predict = cpu(lambda model=model: model.logpdf(X_test, y_test)) / len(X_test)
        cost[size] = (1e6 * learn, 1e6 * predict)
        line(f"{walk}: learn {size:,} rows", 1e6 * learn, "µs per row", "at most 6" if size == n else "")
        line(f"{walk}: predict after {size:,} rows (depth {model.depth_})", 1e6 * predict, "µs per row", "at most 3")
    settled = DoubleTree(walk=walk).partial_fit(X[:10_000], y[:10_000])
    tail = cpu(lambda: settled.partial_fit(X[10_000:20_000], y[10_000:20_000])) / 10_000 * 1e6
    line(f"{walk}: learn a row between 10,000 and 20,000", tail, "µs per row")
    line(f"{walk}: learning at {n:,} rows over that", cost[n][0] / tail, "times", "at most 2.5")
    line(f"{walk}: asking at {n:,} rows over 10,000", cost[n][1] / cost[10_000][1], "times", "at most 2.5")
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    subprocess.run([sys.executable, "-c", FIRST_CALL], check=True)  # fills the cache
    first = []
    for _ in range(3):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", FIRST_CALL], check=True)
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        first.append((wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime))
    line("first call of a process, cache warm, import included: CPU", min(cpu for _, cpu in first), "s", "under 2")
    line("the same by the clock, with whatever else is running", min(wall for wall, _ in first), "s")

    cost = stream(rows, "coarsen")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line(f"peak memory of this process after {rows:,} rows", peak, "MB", "at most 600")
    stream(rows, "refine")

    from coverwalk import DoubleTree
    from coverwalk.datasets import make_gaussmix
    from coverwalk.paper.double_kernel import DoubleKernel

    X, y = make_gaussmix(50_000, 2)
    pairs = list(zip(X[:, 0].tolist(), y.tolist()))
    model = DoubleTree()
    seconds = cpu(lambda: [model.learn_one(a, b) for a, b in pairs])
    line("learn_one in a Python loop", len(pairs) / seconds, "rows/s", "at least 20,000")

    kernel = DoubleKernel().fit(X[:10_000], y[:10_000])
    kernel.logpdf(X[:10], y[:10])
    peer = 1e6 * cpu(lambda: kernel.logpdf(X[:1000], y[:1000])) / 1000
    line("conditional kernel density: predict after 10,000 rows", peer, "µs per row")
    line("conditional kernel density over ours, predicting after 10,000 rows", peer / cost[10_000][1], "times")


if __name__ == "__main__":
    main()
