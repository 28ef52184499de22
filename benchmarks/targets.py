"""Rounded, counted, cut off and bounded y: ours and peers on the same rows, all judged by the mass of rounding cells.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/targets.py [--sets poisson grades] [--splits 0 1]
        [--rows 750] [--data FOLDER]     (or set COVERWALK_DATA)

Log loss: where y is rounded, of the mass of its cell over the step, for all methods; at a value that repeats on its own
(0 in rainfall) of its mass, which for peers is that within a tenth of a standard deviation. CRPS: of the distribution
with the mass of each cell put on its value, for all methods. Sets that are not generated are read from
FOLDER/tables/NAME.csv.gz; the last column is y, and columns of text are numbered.
"""

import argparse
import csv
import gzip
import os
import warnings
from pathlib import Path

import numpy as np
from uci_peers import Gaussian, HistGradientBoosting, LeafKernel, kernels_at

from coverwalk import ConditionalDensity, PredictiveDistribution
from coverwalk.datasets import data_folder
from coverwalk.distributions.shapes import Shapes
from coverwalk.evaluation import crps
from coverwalk.preparation.find_rounding import find_rounding

GENERATED = ("grades", "integers", "poisson", "rain", "cut off", "proportions", "gaps", "smooth")
TABLES = ("abalone", "elevators", "wine_white", "cpu_act")


class Ridge(Gaussian):
    """A ridge regression, and the standard deviation of its residuals."""

    def __init__(self, X, y):
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self.model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))).fit(X, y)
        self.std = float(np.std(y - self.model.predict(X)))

    def moments(self, X):
        """Means and standard deviations."""
        return self.model.predict(X), np.full(len(X), self.std)


def generate(name: str, n: int, seed: int):
    """Four inputs, of which two matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    mean, noise, u = X[:, 0] + np.sin(2 * X[:, 1]), rng.normal(size=n), rng.uniform(size=n)
    yes = rng.random(n) < 1 / (1 + np.exp(-2 * mean))
    y = {
        "grades": np.digitize(mean + 0.5 * noise, [-1.5, 0.0, 1.5]).astype(float),
        "integers": np.round(10 * mean + 3 * noise),
        "poisson": rng.poisson(np.exp(0.5 * mean + 0.5)).astype(float),
        "rain": np.where(yes, 0.0, np.exp(0.5 * mean + 0.5 * noise)),
        "cut off": np.minimum(mean + 0.5 * noise, 1.5),
        "proportions": np.clip(0.5 + 0.3 * mean + 0.1 * noise, 0.0, 1.0),
        "gaps": np.where(yes, u, 3 + u),
        "smooth": mean + 0.3 * noise,
    }[name]
    return X, y


def table(path: Path):
    with gzip.open(path, "rt") as lines:
        columns = list(zip(*list(csv.reader(lines))[1:]))
    X = []
    for column in columns[:-1]:
        try:
            X.append(np.array([np.nan if v in ("?", "") else float(v) for v in column]))
        except ValueError:
            X.append(np.unique(column, return_inverse=True)[1].astype(float))
    X = np.column_stack(X)
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X), np.array(columns[-1], float)


def predicted(model, X):
    """The distributions of a peer, as mixtures of normals."""
    if isinstance(model, LeafKernel):
        weight = model.weights(model.leaves, model.forest.apply(X))
        return kernels_at(weight, model.y, model.width, least=2 * model.MARGINAL / len(model.y))
    mean, std = model.moments(X)
    n = len(mean)
    return PredictiveDistribution(range(n + 1), np.ones(n), mean, std, np.zeros(n, np.int32), Shapes.student(np.inf))


def cell_loss(dist, y, rounding):
    """Mean log loss of a peer, by the mass of cells about the values."""
    log_density = dist.logpdf(y)
    if rounding is not None:
        width = rounding.step or 0.1 * np.std(y)
        mass = dist.cdf(y + width / 2) - dist.cdf(y - width / 2)
        log_mass = np.log(np.maximum(mass, 1e-12) / (rounding.step or 1.0))
        log_density = np.where(rounding.is_atom(y), log_mass, log_density)
    return -np.mean(log_density)


def rows_of(name, split, arguments):
    n = arguments.rows
    if name in GENERATED:
        X, y = generate(name, n + 2000, split)
        return X[:n], y[:n], X[n:], y[n:]
    file = f"tables/{name}.csv.gz"
    X, y = table(data_folder(arguments.data, needs=file) / file)
    order = np.random.RandomState(42 + split).permutation(len(y))[: n + n // 3]
    test, train = order[: n // 3], order[n // 3 :]
    return X[train], y[train], X[test], y[test]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=750)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--sets", nargs="+", choices=[*GENERATED, *TABLES])
    parser.add_argument("--data")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    peers = {"ridge + one normal": Ridge, "boosting + one normal": HistGradientBoosting, "forest kernels": LeafKernel}
    print("| set | method | log loss | CRPS | RMSE | y |\n|---|---|---|---|---|---|")
    for name in arguments.sets or [*GENERATED, *(TABLES if arguments.data or os.environ.get("COVERWALK_DATA") else ())]:
        results: dict[str, list[np.ndarray]] = {}
        told = ""
        for split in arguments.splits:
            X, y, X_test, y_test = rows_of(name, split, arguments)
            model = ConditionalDensity(n_jobs=1).fit(X, y)
            dist, rounding = model.predict_dist(X_test), find_rounding(y)
            told = str(model.forests_[0].settings.rounding or "continuous")
            rmse = np.sqrt(np.mean((dist.mean() - y_test) ** 2))
            results.setdefault("coverwalk", []).append([-np.mean(dist.logpdf(y_test)), crps(y_test, dist), rmse])
            for peer, make in peers.items():
                marginal = predicted(make(X, y), X_test)
                rmse = np.sqrt(np.mean((marginal.mean() - y_test) ** 2))
                put = marginal.rounded(rounding if rounding is not None and rounding.step else None)
                results.setdefault(peer, []).append([cell_loss(marginal, y_test, rounding), crps(y_test, put), rmse])
        for method, scores in results.items():
            loss, score, rmse = np.mean(scores, axis=0)
            print(f"| {name} | {method} | {loss:.3f} | {score:.4g} | {rmse:.4g} | {told} |", flush=True)
            told = ""


if __name__ == "__main__":
    main()
