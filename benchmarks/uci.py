# ruff: noqa: D101, D102
"""Tabular sets, ours and peers on the same splits in one run: NLL, CRPS, RMSE, coverage of 90 % intervals, CPU times.

    python benchmarks/uci.py --data FOLDER [--sets boston concrete] [--splits 0 1] [--methods coverwalk ngboost
    catboost hgb]

Peers that are not installed are left out (``pip install ngboost catboost``); they run at their defaults, a tenth of the
rows telling the boosters when to stop. Run with OMP_NUM_THREADS=1 for one thread each. Sets named with a + have uniform
noise of one rounding step added to y, in training and test rows: what is left when integer y cannot be profited from.
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import stats

from coverwalk import ConditionalDensity
from coverwalk.datasets import data_folder
from coverwalk.evaluate import crps

PATIENCE = 50  # rounds without progress after which a booster stops
SETS = ("boston", "concrete", "energy", "power", "wine", "wine+", "yacht")


def load(folder, name: str, split: int):
    bare = name.rstrip("+")
    table = np.loadtxt(folder / "uci" / bare / "data.csv", delimiter=",", skiprows=1)
    test = np.zeros(len(table), dtype=bool)
    test[np.loadtxt(folder / "uci" / bare / f"test_rows_{split}.txt").astype(int)] = True
    X, y = table[:, :-1], table[:, -1].copy()
    if name.endswith("+"):
        y += np.random.default_rng(split).uniform(-0.5, 0.5, len(y))
    return X[~test], y[~test], X[test], y[test]


class Coverwalk:
    def __init__(self, X, y):
        self.model = ConditionalDensity(n_jobs=1).fit(X, y)

    def answer(self, X, y):
        self.dist = self.model.predict_dist(X)
        return self.dist.logpdf(y)

    def rest(self, X, y):
        low, high = self.dist.interval(0.9)
        return self.dist.mean(), (low <= y) & (y <= high), crps(self.dist, y, n_quantiles=8)


class Gaussian:
    """A peer that gives a mean and a standard deviation."""

    def answer(self, X, y):
        self.mean, self.std = self.moments(X)
        return stats.norm.logpdf(y, self.mean, self.std)

    def rest(self, X, y):
        z = (y - self.mean) / self.std
        score = self.std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
        return self.mean, np.abs(z) <= stats.norm.ppf(0.95), score


def held_out(X, y):
    """A tenth of the rows tells a booster when to stop: without it the deviations of small sets go to zero."""
    from sklearn.model_selection import train_test_split

    return train_test_split(X, y, test_size=0.1, random_state=0)


class NGBoost(Gaussian):
    def __init__(self, X, y):
        from ngboost import NGBRegressor

        X, X_out, y, y_out = held_out(X, y)
        self.model = NGBRegressor(verbose=False, random_state=0)
        self.model.fit(X, y, X_val=X_out, Y_val=y_out, early_stopping_rounds=PATIENCE)

    def moments(self, X):
        dist = self.model.pred_dist(X)
        return dist.loc, dist.scale


class CatBoost(Gaussian):
    def __init__(self, X, y):
        from catboost import CatBoostRegressor

        X, X_out, y, y_out = held_out(X, y)
        self.model = CatBoostRegressor(
            loss_function="RMSEWithUncertainty", verbose=False, thread_count=1, random_seed=0, allow_writing_files=False
        )
        self.model.fit(X, y, eval_set=(X_out, y_out), early_stopping_rounds=PATIENCE)

    def moments(self, X):
        mean, var = self.model.predict(X).T
        return mean, np.sqrt(var)


class HistGradientBoosting(Gaussian):
    """Means by boosting; one standard deviation, of residuals under cross-validation."""

    def __init__(self, X, y):
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.model_selection import cross_val_predict

        model = HistGradientBoostingRegressor(random_state=0)
        self.std_ = float(np.sqrt(np.mean((y - cross_val_predict(model, X, y, cv=5)) ** 2)))
        self.model = model.fit(X, y)

    def moments(self, X):
        return self.model.predict(X), np.full(len(X), self.std_)


METHODS: dict[str, tuple[Callable, str]] = {
    "coverwalk": (Coverwalk, "coverwalk"),
    "ngboost": (NGBoost, "ngboost"),
    "catboost": (CatBoost, "catboost"),
    "hgb": (HistGradientBoosting, "sklearn"),
}


def run(method: Callable, X, y, X_test, y_test):
    clock = time.process_time
    start = clock()
    model = method(X, y)
    fitted = clock()
    log_density = model.answer(X_test, y_test)
    answered = clock()
    mean, covered, score = model.rest(X_test, y_test)
    rmse = np.sqrt(np.mean((mean - y_test) ** 2))
    times = fitted - start, 1e6 * (answered - fitted) / len(y_test)
    return np.array([-np.mean(log_density), np.mean(score), rmse, 100 * np.mean(covered), *times])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--splits", nargs="+", type=int, default=range(5))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    arguments = parser.parse_args()
    folder = data_folder(arguments.data, needs="uci")
    warnings.filterwarnings("ignore")
    methods = {name: METHODS[name][0] for name in arguments.methods if importlib.util.find_spec(METHODS[name][1])}
    warm = np.random.default_rng(0).normal(size=(60, 2))
    for method in methods.values():  # compilation and imports are no part of a fit
        run(method, warm, warm[:, 0], warm, warm[:, 0])
    print("| set | method | NLL | CRPS | RMSE | covered % | fit s | ask us a row |\n|---|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        for label, method in methods.items():
            rows = [run(method, *load(folder, name, split)) for split in arguments.splits]
            nll, score, rmse, covered, fit, ask = np.mean(rows, axis=0)
            error = np.std([row[0] for row in rows]) / np.sqrt(len(rows))
            line = f"{nll:.3f} ± {error:.3f} | {score:.4g} | {rmse:.4g} | {covered:.1f} | {fit:.2f} | {ask:.0f}"
            print(f"| {name} | {label} | {line} |", flush=True)


if __name__ == "__main__":
    main()
