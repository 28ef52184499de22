"""One pass of `partial_fit` against `fit`, on generated sets: test NLL, and whether a stream loses too much.

    OMP_NUM_THREADS=1 python benchmarks/fit_or_stream.py [--sets smooth arm friedman] [--rows 8000] [--seed 0]

A stream may lose 0.02 nats to `fit` on the first half of its rows, and 0.08 to `fit` on all; `fit` on half, then the
other half streamed, keeps at least half of what `fit` on all gains. Exits with 1 where one of these does not hold.
"""

import argparse
import sys

import numpy as np
from generated import arm, friedman, smooth

from coverwalk import ConditionalDensity

SETS = {f.__name__: f for f in (smooth, arm, friedman)}
TEST_ROWS = 2000


def losses(name: str, n: int, seed: int) -> dict[str, float]:
    X, y = SETS[name](np.random.default_rng(seed), n + TEST_ROWS)
    half, rest, test = slice(n // 2), slice(n // 2, n), slice(n, None)

    def new() -> ConditionalDensity:
        return ConditionalDensity(random_state=seed)

    def loss(model: ConditionalDensity) -> float:
        return -float(np.mean(model.logpdf(X[test], y[test])))

    first = new().fit(X[half], y[half])
    on_half = loss(first)
    return {
        "fit": loss(new().fit(X[:n], y[:n])),
        "half": on_half,
        "half + half streamed": loss(first.partial_fit(X[rest], y[rest])),
        "stream": loss(new().partial_fit(X[:n], y[:n])),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong = 0
    for name in given.sets:
        found = losses(name, given.rows, given.seed)
        fit, half, both, stream = found.values()
        held = {
            "stream <= half + 0.02": stream <= half + 0.02,
            "stream <= fit + 0.08": stream <= fit + 0.08,
            "half of the gain": both <= 0.5 * (fit + half),
        }
        told = ", ".join(f"{what} {value:.3f}" for what, value in found.items())
        print(f"{name}: {told}; {', '.join(rule for rule, holds in held.items() if not holds) or 'holds'}", flush=True)
        wrong += not all(held.values())
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
