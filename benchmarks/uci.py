"""Tabular sets, ours and peers on the same splits in one run: NLL, CRPS, RMSE, coverage of 90 % intervals, CPU times.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/uci.py --data FOLDER [--sets boston concrete]
        [--splits 0 1] [--methods coverwalk ngboost ...] [--table uci.md] [--plot uci.png]

Peers come with ``pip install 'coverwalk[bench]'``, those that are not installed are left out; they run at their
defaults, a tenth of the rows telling the boosters when to stop. Sets named with a + have uniform noise of one rounding
step added to y, in training and test rows: what is left when integer y cannot be profited from. ``--table`` writes
the losses and times as Markdown, ``--plot`` draws the losses.
"""

import argparse
import importlib.util
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

from coverwalk.datasets import data_folder

SETS = ("boston", "concrete", "energy", "power", "wine", "wine+", "yacht")
ROUNDED = {"wine": 1.0}  # sets whose y are whole steps
METHODS: dict[str, tuple[str, Callable, str]] = {  # name, class, the module it needs
    "coverwalk": ("coverwalk", Coverwalk, "coverwalk"),
    "ngboost": ("NGBoost", NGBoost, "ngboost"),
    "catboost": ("CatBoost, RMSEWithUncertainty", CatBoost, "catboost"),
    "xgboost": ("xgboost-distribution", XGBoostDistribution, "xgboost_distribution"),
    "hgb": ("HistGradientBoosting + one normal", HistGradientBoosting, "sklearn"),
    "kernel": ("double kernel, cross-validated", DoubleKernelDensity, "coverwalk"),
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


def markdown(results: dict[tuple[str, str], np.ndarray]) -> str:
    """Three tables: losses, calibration, times; results (set, method) are means over splits."""
    sets, methods = (list(dict.fromkeys(key[i] for key in results)) for i in range(2))
    cells = {
        "NLL (RMSE)": lambda r: f"{r[0]:.2f} ({r[2]:.3g})",
        "90 % interval covers, % (CRPS)": lambda r: f"{r[3]:.1f} ({r[1]:.3g})",
        "CPU: fit, s / ask, µs a row": lambda r: f"{r[4]:.2f} / {r[5]:.0f}",
    }
    lines = []
    for title, cell in cells.items():
        lines += [f"| {title} | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
        for method in methods:
            label = f"**{method}**" if method == "coverwalk" else METHODS[method][0]
            lines.append(f"| {label} | {' | '.join(cell(results[name, method]) for name in sets)} |")
        lines.append("")
    return "\n".join(lines)


def draw(results: dict[tuple[str, str], np.ndarray], path: Path) -> None:
    """Each set's losses on a line, ours marked."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets, methods = (list(dict.fromkeys(key[i] for key in results)) for i in range(2))
    figure, axes = plt.subplots(1, len(sets), figsize=(1.6 * len(sets), 3.2), layout="constrained")
    for axis, name in zip(np.atleast_1d(axes), sets):
        for k, method in enumerate(methods):
            style = {"marker": "D", "s": 60} if method == "coverwalk" else {"marker": "o", "s": 30}
            axis.scatter([0], [results[name, method][0]], color=f"C{k}", label=METHODS[method][0], zorder=3, **style)
        axis.set_title(name)
        axis.set_xticks([])
        axis.spines[["top", "right", "bottom"]].set_visible(False)
        axis.grid(axis="y", alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("mean −log density of test rows\n(lower is better)")
    handles, labels = np.atleast_1d(axes)[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def options(description: str, sets: tuple[str, ...]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=sets, choices=sets)
    parser.add_argument("--splits", nargs="+", type=int, default=range(5))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--table", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser


def compare(arguments: argparse.Namespace, load: Callable) -> None:
    """Run all methods on all splits of all sets; load(set, split) gives X, y, X_test, y_test."""
    warnings.filterwarnings("ignore")
    methods = {name: METHODS[name][1] for name in arguments.methods if importlib.util.find_spec(METHODS[name][2])}
    rng = np.random.default_rng(0)
    warm, noise = rng.normal(size=(60, 2)), rng.normal(size=60)
    for method in methods.values():  # compilation and imports are no part of a fit
        run(method, warm, warm[:, 0] + noise, warm, warm[:, 0])
    results = {}
    print("| set | method | NLL | CRPS | RMSE | covered % | fit s | ask us a row |\n|---|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        for label, method in methods.items():
            step = ROUNDED.get(name, 0.0)
            rows = [run(method, *load(name, split), step) for split in arguments.splits]
            results[name, label] = np.mean(rows, axis=0)
            nll, score, rmse, covered, fit, ask = results[name, label]
            error = np.std([row[0] for row in rows]) / np.sqrt(len(rows))
            line = f"{nll:.3f} ± {error:.3f} | {score:.4g} | {rmse:.4g} | {covered:.1f} | {fit:.2f} | {ask:.0f}"
            print(f"| {name} | {label} | {line} |", flush=True)
    if arguments.table:
        arguments.table.write_text(markdown(results))
    if arguments.plot:
        draw(results, arguments.plot)


def main() -> None:
    parser = options(__doc__, SETS)
    parser.add_argument("--data")
    arguments = parser.parse_args()
    folder = data_folder(arguments.data, needs="uci")
    compare(arguments, lambda name, split: load(folder, name, split))


if __name__ == "__main__":
    main()
