"""The forest on a stream against the double tree: every row of a set, in file order, predicted before it is learned.

    python benchmarks/stream_forest.py --data FOLDER [--sets power concrete energy]

Mean negative log density and RMSE over all rows but the first hundred; rows per second of CPU time, learning
row by row.
"""

import argparse
import os
import time
from functools import partial

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from coverwalk import ConditionalDensity, DoubleTree
from coverwalk.datasets import data_folder

SKIP = 100
MODELS = {
    "forest": ConditionalDensity,
    "forest, 16 trees": partial(ConditionalDensity, n_estimators=16),
    "double tree": DoubleTree,
}


def prequential(new, X, y):
    """Log densities, squared errors, and CPU seconds of this thread and of all, learning row by row."""
    model = new()
    log_p, error = np.empty(len(y)), np.zeros(len(y))
    own, total = 0.0, 0.0
    log_p[0] = model.learn_one(X[0], y[0])
    for i in range(1, len(y)):
        error[i] = model.predict(X[i : i + 1])[0] - y[i]
        c0, t0 = time.thread_time(), time.process_time()
        log_p[i] = model.learn_one(X[i], y[i])
        own, total = own + time.thread_time() - c0, total + time.process_time() - t0
    return log_p, error, own, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--sets", nargs="*", default=["power", "concrete", "energy", "boston", "yacht"])
    given = parser.parse_args()
    for name in given.sets:
        path = data_folder(given.data, needs=f"uci/{name}/data.csv") / "uci" / name / "data.csv"
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
        for label, new in MODELS.items():
            prequential(new, X[:1500], y[:1500])  # compiles
            log_p, error, own, total = prequential(new, X, y)
            rmse = np.sqrt(np.mean(error[SKIP:] ** 2))
            print(
                f"{name:<9} {label:<17} NLL {-log_p[SKIP:].mean():7.3f}  RMSE {rmse:7.3f}  "
                f"learn_one {len(y) / own:8,.0f} rows/s of the calling thread, {len(y) / total:8,.0f} growths included",
                flush=True,
            )


if __name__ == "__main__":
    main()
