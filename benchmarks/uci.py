"""Tabular sets, ours and peers on the same splits in one run: NLL, CRPS, RMSE, coverage of 90 % intervals, CPU times.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/uci.py --data FOLDER [--sets boston concrete]
        [--splits 0 1] [--methods coverwalk ngboost ...] [--results benchmarks/results/uci.json]

Peers come with ``pip install -e '.[bench]'``; those that are not installed are skipped; they run at their
defaults, a tenth of the rows telling the boosters when to stop. Sets named with a + have uniform noise of one rounding
step added to y, in training and test rows: what is left when integer y cannot be profited from. ``--results`` writes
all numbers as JSON; ``python benchmarks/uci_table.py`` puts those of ``results/uci.json`` into the README.
"""

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from uci_peers import (
    CatBoost,
    Coverwalk,
    DoubleKernelDensity,
    HistGradientBoosting,
    LeafKernel,
    NGBoost,
    XGBoostDistribution,
)

from coverwalk import __version__
from coverwalk.datasets import data_folder

SETS = ("boston", "concrete", "energy", "power", "wine", "wine+", "yacht")
ROUNDED = {"wine": 1.0}  # sets whose y are whole steps
NUMBERS = ("nll", "crps", "rmse", "coverage", "fit_s", "predict_us")  # what `run` measures
METHODS: dict[str, tuple[str, Callable, str]] = {  # name, class, the module it needs
    "coverwalk": ("coverwalk", Coverwalk, "coverwalk"),
    "ngboost": ("NGBoost", NGBoost, "ngboost"),
    "catboost": ("CatBoost, RMSEWithUncertainty", CatBoost, "catboost"),
    "xgboost": ("xgboost-distribution", XGBoostDistribution, "xgboost_distribution"),
    "hgb": ("HistGradientBoosting + one normal", HistGradientBoosting, "sklearn"),
    "kernel": ("conditional kernel density, cross-validated", DoubleKernelDensity, "coverwalk"),
    "leaves": ("random forest, kernels in leaves", LeafKernel, "sklearn"),
}


def load(folder, name: str, split: int):
    bare = name.rstrip("+")
    table = np.loadtxt(folder / "uci" / bare / "data.csv", delimiter=",", skiprows=1)
    test = np.zeros(len(table), dtype=bool)
    test[np.loadtxt(folder / "uci" / bare / f"test_rows_{split}.txt").astype(int)] = True
    X, y = table[:, :-1], table[:, -1].copy()
    if name.endswith("+"):
        y += np.random.default_rng(split).uniform(-0.5, 0.5, len(y))
    return X[~test], y[~test], X[test], y[test]


def run(method: Callable, X, y, X_test, y_test, step: float = 0.0):
    clock = time.process_time
    start = clock()
    model = method(X, y)
    fitted = clock()
    log_density = model.answer(X_test, y_test)
    answered = clock()
    mean, covered, score = model.rest(X_test, y_test, step)
    rmse = np.sqrt(np.mean((mean - y_test) ** 2))
    times = fitted - start, 1e6 * (answered - fitted) / len(y_test)
    return np.array([-np.mean(log_density), np.mean(score), rmse, 100 * np.mean(covered), *times])


def options(description: str, sets: tuple[str, ...]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=sets, choices=sets)
    parser.add_argument("--splits", nargs="+", type=int, default=range(5))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--results", type=Path, help="JSON file to write")
    return parser


def compare(arguments: argparse.Namespace, load: Callable) -> None:
    """Run all methods on all splits of all sets; load(set, split) gives X, y, X_test, y_test."""
    warnings.filterwarnings("ignore")
    methods = {name: METHODS[name][1] for name in arguments.methods if importlib.util.find_spec(METHODS[name][2])}
    rng = np.random.default_rng(0)
    warm, noise = rng.normal(size=(60, 2)), rng.normal(size=60)
    for method in methods.values():  # compilation and imports are no part of a fit
        run(method, warm, warm[:, 0] + noise, warm, warm[:, 0])
    results: dict[str, dict[str, dict[str, float]]] = {}
    print("| set | method | NLL | CRPS | RMSE | covered % | fit s | predict us per row |\n" + "|---" * 8 + "|")
    for name in arguments.sets:
        for label, method in methods.items():
            step = ROUNDED.get(name, 0.0)
            rows = np.array([run(method, *load(name, split), step) for split in arguments.splits])
            error = rows[:, 0].std() / np.sqrt(len(rows))
            entry = dict(zip(NUMBERS, rows.mean(axis=0).tolist())) | {"nll_error": float(error)}
            results.setdefault(label, {})[name] = entry
            line = "{nll:.3f} ± {nll_error:.3f} | {crps:.4g} | {rmse:.4g} | "
            line += "{coverage:.1f} | {fit_s:.2f} | {predict_us:.0f}"
            print(f"| {name} | {label} | {line.format(**entry)} |", flush=True)
    if arguments.results:
        labels = {label: METHODS[label][0] for label in results}
        told = {"version": __version__, "splits": len(arguments.splits), "rounded": [*ROUNDED], "methods": labels}
        arguments.results.write_text(json.dumps(told | {"results": results}, indent=1) + "\n")


def main() -> None:
    parser = options(__doc__, SETS)
    parser.add_argument("--data")
    arguments = parser.parse_args()
    folder = data_folder(arguments.data, needs="uci")
    compare(arguments, lambda name, split: load(folder, name, split))


if __name__ == "__main__":
    main()
