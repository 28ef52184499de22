"""ContextClassifier against scikit-learn's forests and boosting: log loss, error, calibration and CPU time.

    python benchmarks/classes.py --data FOLDER

A stratified third of each set is held out; all models see the same rows in the same run, at their defaults, on one
thread. Means over the seeds. With --tables the sets are tables of the folder `classes`, at most 3,000 rows of each;
boosting is told which columns are categories, the random forest has their numbers.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import argparse
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from coverwalk import ContextClassifier
from coverwalk.datasets import data_folder

MODELS: dict[str, Callable[[int], BaseEstimator]] = {
    "ContextClassifier": lambda seed: ContextClassifier(random_state=seed),
    "RandomForest(200)": lambda seed: RandomForestClassifier(200, random_state=seed, n_jobs=1),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}
TABLES = ["adult", "car", "credit", "letter", "nursery", "phoneme", "segment", "splice"]
MAX_ROWS, MIN_CLASS = 3000, 20  # of a table; rows of a class that is looked at
BINS = 10  # equal widths, of the probability of the most probable class


def calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Expected calibration error: |confidence - accuracy| in each bin of confidence, weighted by its rows."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gap = np.bincount(bins, confidence - right, BINS)
    return float(np.abs(gap).sum() / len(y))


def robot(folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    path = data_folder(folder, needs="robot/sensor_readings_24.csv") / "robot" / "sensor_readings_24.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :24], table[:, 24]


def table(folder: str | None, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Text columns are categories."""
    path = data_folder(folder, needs=f"classes/{name}.csv.gz") / "classes" / f"{name}.csv.gz"
    frame = pd.read_csv(path, na_values="?").drop(columns="Instance_name", errors="ignore")
    frame = frame[frame.groupby("y")["y"].transform("size") >= MIN_CLASS].sample(frac=1.0, random_state=0)[:MAX_ROWS]
    y = frame.pop("y").to_numpy()
    return frame.astype(dict.fromkeys(frame.select_dtypes(exclude="number"), "category")), y


def numbered(X: pd.DataFrame) -> pd.DataFrame:
    """Categories by their numbers; a missing one is a number too."""
    return X.apply(lambda column: column.cat.codes if column.dtype == "category" else column)


def measure(make: Callable[[int], BaseEstimator], X: np.ndarray, y: np.ndarray, seed: int) -> list[float]:
    """Log loss, error, calibration error, CPU seconds to fit, CPU µs per row to predict."""
    if isinstance(X, pd.DataFrame) and isinstance(make(0), RandomForestClassifier):
        X = numbered(X)
    train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=seed)
    start = time.process_time()
    model = make(seed).fit(train_X, train_y)
    fitted = time.process_time()
    p = model.predict_proba(test_X)
    asked = time.process_time()
    codes = np.searchsorted(model.classes_, test_y)
    error = float((p.argmax(axis=1) != codes).mean())
    micro = 1e6 * (asked - fitted) / len(test_y)
    return [log_loss(test_y, p), error, calibration_error(p, codes), fitted - start, micro]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder that holds robot/sensor_readings_24.csv; or the variable COVERWALK_DATA")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first; the defaults were chosen on seeds 0 to 4")
    parser.add_argument("--tables", action="store_true", help="the tables of the folder classes in place of these sets")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    wine = load_wine(return_X_y=True)
    if options.tables:
        sets = {name: table(options.data, name) for name in TABLES}
    else:
        sets = {
            "digits": load_digits(return_X_y=True),
            "breast cancer": load_breast_cancer(return_X_y=True),
            "wine": wine,
            "robot moves": robot(options.data),
        }
    start = time.process_time()
    ContextClassifier().fit(*wine).predict(wine[0])
    print(f"first use (compilation or loading the cache): {time.process_time() - start:.1f} s\n")
    print(f"{'set':14s} {'model':22s} log loss   error     ECE  fit CPU s  predict us/row  fit time against ours")
    for name, (X, y) in sets.items():
        ours = 0.0
        for model, make in MODELS.items():
            loss, error, ece, fit, predict = np.mean([measure(make, X, y, seed) for seed in seeds], axis=0)
            ours = ours or fit
            scores, times = f"{loss:8.4f} {error:7.4f} {ece:7.4f}", f"{fit:10.3f} {predict:15.1f} {fit / ours:8.2f}x"
            print(f"{name:14s} {model:22s} {scores} {times}")


if __name__ == "__main__":
    main()
