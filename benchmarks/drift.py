"""A stream whose distribution changes, abruptly or gradually: how soon a model with decay is as good as a new one.

    python benchmarks/drift.py [--rows 6000] [--forget 0.001]

The loss after the change is compared, in windows of rows, with that of a model that has only seen the rows since. The
double tree, which has no decay, is the peer in the same run.
"""

import argparse
import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from coverwalk import ConditionalDensity, DoubleTree

WINDOW = 250


def make(n: int, gradual: bool):
    """2 n rows; the function turns over at row n, at once or over the next n / 2 rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2 * n, 3))
    after = np.clip((np.arange(2 * n) - n) / (n / 2 if gradual else 1), 0, 1)
    turned = after * np.pi
    y = 2 + np.cos(turned) * np.sin(3 * X[:, 0]) + np.sin(turned) * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(2 * n)
    return X, y, n + (n // 2 if gradual else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--forget", type=float, default=0.001)
    given = parser.parse_args()
    for gradual in (False, True):
        X, y, changed = make(given.rows, gradual)
        models = {
            f"forget={given.forget}": ConditionalDensity(n_estimators=8, forget=given.forget),
            "forget=0": ConditionalDensity(n_estimators=8),
            "double tree": DoubleTree(),
        }
        loss = {name: -model.prequential(X, y) for name, model in models.items()}
        fresh = -ConditionalDensity(n_estimators=8).prequential(X[changed:], y[changed:])
        print(
            f"{'gradual' if gradual else 'abrupt'} change, over at row {changed}; loss in {WINDOW} rows from there on"
        )
        back = dict.fromkeys(loss)
        for start in range(0, len(y) - changed - WINDOW + 1, WINDOW):
            rows = slice(changed + start, changed + start + WINDOW)
            new = fresh[start : start + WINDOW].mean()
            means = {name: values[rows].mean() for name, values in loss.items()}
            for name, mean in means.items():
                if back[name] is None and mean <= new + 0.05 * abs(new):
                    back[name] = start + WINDOW
            if start < 8 * WINDOW or start % (4 * WINDOW) == 0:
                print(f"  {start:>5}  fresh {new:6.3f}  " + "  ".join(f"{k} {v:6.3f}" for k, v in means.items()))
        for name, rows in back.items():
            print(
                f"  {name}: within 5 % of the fresh model's loss " + (f"by row {rows}" if rows else "never"), flush=True
            )


if __name__ == "__main__":
    main()
