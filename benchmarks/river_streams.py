"""Streams, row by row: ours beside river's forests, trees and lines; RMSE of what was said before a row was learned.

    python benchmarks/river_streams.py [--rows 5000] [--data FOLDER] [--sets friedman planes ...]

Every model sees the same dictionaries in the same order in the same run: predict_one, then learn_one; river's at their
defaults, with scaled inputs where they have lines in them. CPU time of both calls, of rows after the first 500, so that
no compilation counts; the ratio of rows per second to that of AMF is printed. With --data, power (FOLDER/uci/power) in
the order of its file.
"""

import argparse
import itertools
import math
import time

import numpy as np
from river import datasets, forest, linear_model, preprocessing, tree

from coverwalk.adapters.river import CoverRegressor
from coverwalk.datasets import data_folder

WARM = 500


def models():
    line = linear_model.BayesianLinearRegression()
    return {
        "coverwalk": CoverRegressor(),
        "AMF": forest.AMFRegressor(seed=0),
        "ARF": preprocessing.StandardScaler() | forest.ARFRegressor(seed=0),
        "Hoeffding": preprocessing.StandardScaler() | tree.HoeffdingTreeRegressor(),
        "Hoeffding adaptive": preprocessing.StandardScaler() | tree.HoeffdingAdaptiveTreeRegressor(seed=0),
        "Bayesian line": preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(line),
    }


def numbers(x):
    """Dates and text as river's own examples take them: left out or counted."""
    return {name: float(value) for name, value in x.items() if isinstance(value, int | float)}


def power(folder):
    table = np.loadtxt(folder / "uci" / "power" / "data.csv", delimiter=",", skiprows=1)
    return [({f"x{a}": v for a, v in enumerate(row[:-1])}, row[-1]) for row in table.tolist()]


def streams(rows, data):
    synth = datasets.synth
    sets = {
        "trump approval": [(numbers(x), y) for x, y in datasets.TrumpApproval()],
        "chick weights": [(numbers(x), y) for x, y in datasets.ChickWeights()],
        "friedman": list(synth.Friedman(seed=0).take(rows)),
        "friedman drift": list(
            synth.FriedmanDrift(drift_type="gra", position=(rows // 3, 2 * rows // 3), seed=0).take(rows)
        ),
        "planes": list(synth.Planes2D(seed=0).take(rows)),
        "mv": [(numbers(x), y) for x, y in synth.Mv(seed=0).take(rows)],
    }
    if data is not None:
        sets["power"] = power(data_folder(data))[:rows]
    return sets


def run(model, rows):
    """RMSE, and seconds a row after the warm ones."""
    total, seconds, timed = 0.0, 0.0, 0
    for i, (x, y) in enumerate(rows):
        start = time.process_time()
        error = (model.predict_one(x) or 0.0) - y
        model.learn_one(x, y)
        if i >= min(WARM, len(rows) // 2):
            seconds += time.process_time() - start
            timed += 1
        total += error * error
    return math.sqrt(total / len(rows)), seconds / timed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--data", default=None)
    parser.add_argument("--sets", nargs="*")
    arguments = parser.parse_args()
    sets = streams(arguments.rows, arguments.data)
    chosen = arguments.sets or list(sets)
    run(CoverRegressor(), list(itertools.islice(sets["friedman"], 2500)))  # compile, and load what is compiled
    best = 0
    for name in chosen:
        results = {}
        for method, model in models().items():
            results[method] = run(model, sets[name])
        peers = min(rmse for method, (rmse, _) in results.items() if method != "coverwalk")
        won = results["coverwalk"][0] <= peers
        best += won
        ratio = results["AMF"][1] / results["coverwalk"][1]
        verdict = "no worse than" if won else "behind"
        print(f"\n{name}: {len(sets[name])} rows; {verdict} the best of river's; {ratio:.1f} x AMF's speed")
        for method, (rmse, seconds) in results.items():
            print(f"  {method:<20}RMSE {rmse:10.4g}   {1e6 * seconds:8.1f} µs per row", flush=True)
    print(f"\nno worse than the best of river's on {best} of {len(chosen)} sets")


if __name__ == "__main__":
    main()
