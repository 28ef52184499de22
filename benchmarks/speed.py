"""CPU time of predictions, quantiles, draws, fits, files and starts, each beside another call of the same run.

    python benchmarks/speed.py [--rows 8000] [--large] [--wheel dist/coverwalk-...-x86_64.whl]

Friedman's function of ten inputs or, where more are named, with further inputs that do not matter; one thread.
Microseconds differ from machine to machine and from hour to hour; the last column, the ratio to what is named beside
it, differs less. The column before it is the goal, in the same unit as the figure. ``--large`` adds what takes minutes:
10^5 and 10^6 rows, each in a process of its own, two threads against one by the clock, memory, and a first start, with
nothing compiled. ``--wheel`` adds a first start of a wheel that `.ci/wheel` made.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scale_forest import friedman
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from coverwalk import ConditionalDensity, ContextClassifier


def cpu(function, repeats: int = 3) -> float:
    """Least CPU microseconds of some calls, after one that may compile."""
    function()
    return min(_once(function) for _ in range(repeats))


def _once(function) -> float:
    start = time.process_time()
    function()
    return 1e6 * (time.process_time() - start)


def started(*call: str, environment: dict[str, str] | None = None) -> float:
    """CPU microseconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *call], capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def show(what: str, value: float, beside: str, other: float, goal: float | None = None) -> None:
    """A line of the table; the goal is in the unit of the value."""
    wanted = "" if goal is None else f"{goal:,.1f}"
    print(f"{what:40s} {value:14,.1f} {wanted:>14s}   {value / other:8.2f} x {beside}", flush=True)


def _stream_row(stream: ConditionalDensity, x) -> float:
    """Median CPU microseconds of the calling thread: trees may grow beside it."""
    found = []
    for _ in range(10):
        start = time.thread_time()
        dist = stream.predict_dist(x)
        dist.mean(), dist.interval(0.9)
        found.append(1e6 * (time.thread_time() - start))
    return float(np.median(found))


def predictions(model: ConditionalDensity, boosting, X, y) -> None:
    n, dist = len(X), model.predict_dist(X)
    cdf, row = cpu(lambda: dist.cdf(y)) / n, cpu(lambda: model.predict_dist(X)) / n
    show("quantile", cpu(lambda: dist.ppf(0.3)) / n, "cdf", cdf, 20)
    nine = cpu(lambda: dist.ppf(np.arange(1, 10) / 10)) / n
    show("nine quantiles of a row", nine, "cdf", cdf, 60)
    show("draw", cpu(lambda: dist.rvs(10)) / n / 10, "cdf", cdf, 3)
    show("CRPS", cpu(lambda: dist.crps(y)) / n, "nine quantiles", nine, 330)
    both = cpu(lambda: model.logpdf(X, y)) / n
    show("predict_dist and logpdf, a row", both, "boosting's predict", cpu(lambda: boosting.predict(X)) / n, 10)
    rows = [X[i : i + 1] for i in range(100)]
    alone = cpu(lambda: [(d.mean(), d.interval(0.9)) for d in map(model.predict_dist, rows)]) / 100
    show("one row: predict, mean, interval", alone, "a row in a batch", row, 100)
    stream = ConditionalDensity(random_state=0).partial_fit(X, y)
    own = float(np.median([_stream_row(stream, x) for x in rows]))
    show("the same of a stream, the caller's thread", own, "one row of a fit", alone, 100)
    show("the same, boosting", cpu(lambda: [boosting.predict(x) for x in rows]) / 100, "ours", alone)


def fitted(n: int) -> tuple[ConditionalDensity, HistGradientBoostingRegressor]:
    X, y, _, _ = friedman(n, 0)
    model, boosting = ConditionalDensity(random_state=0), HistGradientBoostingRegressor(max_iter=500)
    own = cpu(lambda: model.fit(X, y), 1)
    goal = 5e5 if n == 1000 else None
    show(f"fit, {n} rows", own, "boosting of 500 trees", cpu(lambda: boosting.fit(X, y), 1), goal)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        size = os.path.getsize(f"{folder}/model")
    show(f"file, {n} rows, bytes", size, "training table", X.nbytes + y.nbytes)
    return model, boosting


def wide(n: int, p: int, goal: float) -> None:
    """A fit of many inputs."""
    X, y, _, _ = friedman(n, 0)
    X = np.hstack([X, np.random.default_rng(1).uniform(size=(n, p - X.shape[1]))])
    own = cpu(lambda: ConditionalDensity(random_state=0).fit(X, y), 1)
    peer = cpu(lambda: HistGradientBoostingRegressor(max_iter=500).fit(X, y), 1)
    show(f"fit, {n} rows of {p} inputs", own, "boosting of 500 trees", peer, goal)


FIT = """
import resource, sys, time
from scale_forest import friedman
from coverwalk import ConditionalDensity
n, n_jobs, degree = map(int, sys.argv[1:])
ConditionalDensity(random_state=0, degree=degree, n_jobs=n_jobs).fit(*friedman(3000, 1)[:2])  # compiles
X, y, _, _ = friedman(n, 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
clock, own = time.perf_counter(), time.process_time()
model = ConditionalDensity(random_state=0, degree=degree, n_jobs=n_jobs).fit(X, y)
clock, own = time.perf_counter() - clock, time.process_time() - own
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(1e6 * clock, 1e6 * own, 1024 * (after - before), len(model.forests_[0].trees), X.nbytes + y.nbytes)
"""


def alone(n: int, n_jobs: int = 1, degree: int = 2) -> list[float]:
    """A fit in a process of its own: microseconds by the clock and of the CPU, bytes, trees, bytes of the rows."""
    call = [sys.executable, "-c", FIT, str(n), str(n_jobs), str(degree)]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=os.path.dirname(__file__) or ".")
    return [float(word) for word in done.stdout.split()]


def large() -> None:
    """Fits of many rows, and a first start."""
    X, y, _, _ = friedman(100_000, 0)
    peer = cpu(lambda: HistGradientBoostingRegressor(max_iter=500).fit(X, y), 1)
    one, two = alone(100_000), alone(100_000, n_jobs=2)
    show("fit, 100000 rows", one[1], "boosting of 500 trees", peer, 6e6)
    show("the same by the clock, two threads", two[0], "one thread", one[0], one[0] / 1.7)
    many = alone(1_000_000, degree=1)
    per_row = many[1] / 1_000_000 / many[3]
    show("fit, 10^6 rows of degree 1, a row a tree", per_row, "10^5 rows of degree 2", one[1] / 1e5 / one[3], 1.5)
    show("memory of that fit, bytes", many[2], "the rows", many[4], 1e9)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        first = started("-m", "coverwalk", "demo", "-o", f"{folder}/demo.png", environment=environment)
        again = started("-m", "coverwalk", "demo", "-o", f"{folder}/demo.png", environment=environment)
    show("start: demo, first, by the CPU", first, "warm", again)


def first_start(wheel: str, folder: str) -> float:
    """CPU microseconds of the demo of a wheel that was just unpacked; other packages are those that are installed."""
    call = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", f"{folder}/wheel", wheel]
    subprocess.run(call, check=True)
    environment = {**os.environ, "PYTHONPATH": f"{folder}/wheel", "NUMBA_CACHE_DIR": f"{folder}/cache"}
    return started("-m", "coverwalk", "demo", "-o", f"{folder}/first.png", environment=environment)


def classes(n: int) -> None:
    X, y, _, _ = friedman(n, 0)
    labels = np.digitize(y, np.quantile(y, [0.33, 0.67]))
    model, boosting = ContextClassifier(random_state=0).fit(X, labels), HistGradientBoostingClassifier().fit(X, labels)
    X = friedman(1000, 1)[0]
    peer = cpu(lambda: boosting.predict_proba(X)) / len(X)
    show("predict_proba, a row", cpu(lambda: model.predict_proba(X)) / len(X), "boosting", peer, 60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--wheel", help="with the machine code of the kernels inside")
    parser.add_argument("--large", action="store_true", help="also what takes minutes")
    given = parser.parse_args()
    n = given.rows
    print(f"{'':40s} {'microseconds':>14s} {'goal':>14s}      ratio")
    fitted(1000)
    model, boosting = fitted(n)
    X, y, _, _ = friedman(2000, 1)
    predictions(model, boosting, X, y)
    classes(min(n, 2000))
    for rows, p, goal in ((10_000, 64, 5e6), (1794, 100, 3e6), (2309, 128, 6e6)):
        wide(rows, p, goal)
    if given.large:
        large()
    bare = started("-c", "import sklearn.base, scipy.stats")
    message = started("-m", "coverwalk", "show", "no such file")
    show("start: an error message", message, "SciPy, scikit-learn", bare, 3e5)
    with tempfile.TemporaryDirectory() as folder:
        demo = started("-m", "coverwalk", "demo", "-o", f"{folder}/demo.png")
        show("start: demo, warm", demo, "SciPy, scikit-learn", bare, 1.2e6)
        if given.wheel:
            show("start: demo, first, from a wheel", first_start(given.wheel, folder), "warm", demo, 6e6)


if __name__ == "__main__":
    main()
