"""Sets that are generated, ours and peers in one run: what the tabular sets of `uci.py` do not have.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/generated.py [--sets arm smooth] [--splits 0 1]
        [--methods coverwalk ngboost ...] [--table generated.md] [--plot generated.png]

arm: how far the hand of an arm with eight joints is from a point, the joints known but for a little noise (8192 rows).
smooth: a smooth function of eight inputs with noise of 0.05, whose true density has a loss of -1.58 (5500 rows).
friedman: Friedman's function, five of ten inputs matter; noise 1, so 1.42 is the truth (5000 rows).
collinear: sixteen inputs, all of them functions of three, rounded to three digits; y is one of the three (11934 rows).
tails: nine skewed inputs; y is one of two distributions, both with heavy tails (45730 rows).
A tenth of the rows is for testing; each split is drawn anew.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from uci import compare, options


def arm(rng: Generator, n: int = 8192):
    angles = rng.uniform(-np.pi / 2, np.pi / 2, (n, 8))
    turned = angles + 0.03 * rng.standard_normal(angles.shape)
    frame, hand = np.tile(np.eye(3), (len(angles), 1, 1)), np.zeros((len(angles), 3))
    for k in range(8):
        first, second, along = ((0, 1, 0), (1, 2, 1))[k % 2]  # joints turn about z and x in turn
        turn = np.tile(np.eye(3), (len(angles), 1, 1))
        turn[:, first, first] = turn[:, second, second] = np.cos(turned[:, k])
        turn[:, second, first] = np.sin(turned[:, k])
        turn[:, first, second] = -turn[:, second, first]
        frame = frame @ turn
        hand += 0.25 * frame[:, :, along]
    return angles, np.linalg.norm(hand - [0.5, 1.0, 0.3], axis=1)


def smooth(rng: Generator, n: int = 5500):
    X = rng.uniform(-1, 1, size=(n, 8))
    fourier = np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + np.cos(2 * X[:, 4]) * X[:, 5]
    return X, fourier + 0.3 * X[:, 6] - 0.5 * X[:, 7] ** 2 + 0.05 * rng.standard_normal(n)


def friedman(rng: Generator, n: int = 5000):
    X = rng.uniform(size=(n, 10))
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, mean + rng.standard_normal(n)


def collinear(rng: Generator):
    grid = np.meshgrid(np.arange(1, 10), np.linspace(0.95, 1, 51), np.linspace(0.975, 1, 26), indexing="ij")
    lever, a, b = (axis.ravel() for axis in grid)
    columns = [1.138 * lever, 3.0 * lever]
    for c in rng.normal(size=(14, 7)):
        decay = 0.3 * (c[1] * (a - 1) * (1 + 0.1 * c[2] * lever) + c[3] * (b - 1) * (1 + 0.1 * c[4] * lever))
        bent = np.exp(0.12 * c[0] * lever) * (1 + decay + c[5] * (a - 1) * (b - 1) + c[6] * (a - 1) ** 2)
        columns.append(np.round(bent * 10 ** rng.integers(0, 4), 3))
    return np.array(columns).T, a


def tails(rng: Generator):
    n = 45730
    hidden = rng.standard_normal((n, 3))
    X = np.exp(0.35 * hidden @ rng.normal(size=(3, 9)) + 0.15 * rng.standard_normal((n, 9)))
    u, v, w = hidden.T
    near = rng.random(n) < 1 / (1 + np.exp(-(1.2 * v + np.sin(2 * u) - 0.3 * u * w)))
    close = 2 + 0.8 * np.tanh(w) + 0.7 * rng.standard_t(3, n)
    far = 11 + 3 * u + 2 * np.sin(3 * v) + 3 * rng.standard_t(4, n)
    return X, np.round(np.abs(np.where(near, close, far)), 3)


SETS: dict[str, Callable] = {f.__name__: f for f in (arm, smooth, friedman, collinear, tails)}


def load(name: str, split: int):
    rng = np.random.default_rng(split)
    X, y = SETS[name](rng)
    test = np.zeros(len(y), dtype=bool)
    test[rng.permutation(len(y))[: len(y) // 10]] = True
    return X[~test], y[~test], X[test], y[test]


if __name__ == "__main__":
    compare(options(__doc__, tuple(SETS)).parse_args(), load)
