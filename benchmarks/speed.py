"""CPU time of predictions, quantiles, draws, fits, files and starts, each beside another call of the same run.

    python benchmarks/speed.py [--rows 8000]

Friedman's function of ten inputs, one thread. Microseconds differ from machine to machine and from hour to hour; the
last column, the ratio to what is named beside it, differs less.
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


def started(*call: str) -> float:
    """CPU microseconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *call], capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def show(what: str, value: float, beside: str, other: float) -> None:
    print(f"{what:38s} {value:12,.1f}   {value / other:8.2f} x {beside}", flush=True)


def predictions(model: ConditionalDensity, boosting, X, y) -> None:
    n, dist = len(X), model.predict_dist(X)
    cdf, row = cpu(lambda: dist.cdf(y)) / n, cpu(lambda: model.predict_dist(X)) / n
    show("quantile", cpu(lambda: dist.ppf(0.3)) / n, "cdf", cdf)
    show("nine quantiles of a row", cpu(lambda: dist.ppf(np.arange(1, 10) / 10)) / n, "cdf", cdf)
    show("draw", cpu(lambda: dist.rvs(10)) / n / 10, "cdf", cdf)
    both = cpu(lambda: model.logpdf(X, y)) / n
    show("predict_dist and logpdf, a row", both, "boosting's predict", cpu(lambda: boosting.predict(X)) / n)
    rows = [X[i : i + 1] for i in range(100)]
    alone = cpu(lambda: [(d.mean(), d.interval(0.9)) for d in map(model.predict_dist, rows)]) / 100
    show("one row: predict, mean, interval", alone, "a row in a batch", row)
    show("the same, boosting", cpu(lambda: [boosting.predict(x) for x in rows]) / 100, "ours", alone)


def fitted(n: int) -> tuple[ConditionalDensity, HistGradientBoostingRegressor]:
    X, y, _, _ = friedman(n, 0)
    model, boosting = ConditionalDensity(random_state=0), HistGradientBoostingRegressor(max_iter=500)
    own = cpu(lambda: model.fit(X, y), 1)
    show(f"fit, {n} rows", own, "boosting of 500 trees", cpu(lambda: boosting.fit(X, y), 1))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        size = os.path.getsize(f"{folder}/model")
    show(f"file, {n} rows, bytes", size, "training table", X.nbytes + y.nbytes)
    return model, boosting


def classes(n: int) -> None:
    X, y, _, _ = friedman(n, 0)
    labels = np.digitize(y, np.quantile(y, [0.33, 0.67]))
    model, boosting = ContextClassifier(random_state=0).fit(X, labels), HistGradientBoostingClassifier().fit(X, labels)
    X = friedman(1000, 1)[0]
    peer = cpu(lambda: boosting.predict_proba(X)) / len(X)
    show("predict_proba, a row", cpu(lambda: model.predict_proba(X)) / len(X), "boosting", peer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8000)
    n = parser.parse_args().rows
    print(f"{'':38s} {'microseconds':>12s}      ratio")
    fitted(1000)
    model, boosting = fitted(n)
    X, y, _, _ = friedman(2000, 1)
    predictions(model, boosting, X, y)
    classes(min(n, 2000))
    bare = started("-c", "import sklearn.base, scipy.stats")
    show("start: an error message", started("-m", "coverwalk.cli", "show", "no such file"), "SciPy, scikit-learn", bare)
    show("start: demo, warm", started("-m", "coverwalk.cli", "demo", "-o", os.devnull + ".png"), "the same", bare)


if __name__ == "__main__":
    main()
