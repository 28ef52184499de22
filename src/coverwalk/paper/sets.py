"""Table 1, the paper's data sets: rows to learn in order, rows held out, and the true density where it is known."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.datasets import MIXTURES, data_folder, load_faithful
from coverwalk.paper.page import Claim, Result

HOLDOUT = 10_000  # rows held out of a synthetic set; the paper holds out 10^6
_SEED, _HOLDOUT_SEED = 0, 1000
_COLUMNS = ("Name", "columns of x", "columns of y", "training rows", "in the paper", "held-out rows")


class DataSet(NamedTuple):
    """One row of Table 1."""

    name: str
    X: Floats  # (n, p) in the order they are learned
    y: Floats  # (n,) or (n, q)
    X_holdout: Floats
    y_holdout: Floats
    log_density: Callable[[Floats, Floats], Floats] | None  # the truth, where known
    n_paper: int  # rows the paper trains on


def _mixture(name: str, title: str, n: int) -> DataSet:
    X, y = MIXTURES[name].make(n, _SEED)
    return DataSet(title, X, y, *MIXTURES[name].make(HOLDOUT, _HOLDOUT_SEED), MIXTURES[name].log_density, 1_000_000)


def _geyser() -> DataSet:
    X, y = load_faithful()
    rng = np.random.default_rng(_SEED)
    # Both are rounded, y to minutes and x to thousandths: noise of one rounding step, or atoms win every comparison.
    y = y + rng.uniform(-0.5, 0.5, size=y.shape)
    X = X + rng.uniform(-1 / 120, 1 / 120, size=X.shape)
    return DataSet("Geyser", X[:200], y[:200], X[200:], y[200:], None, 200)


def _robot(folder: Path) -> DataSet:
    table = np.loadtxt(folder / "robot/sensor_readings_24.csv", delimiter=",", usecols=range(24), skiprows=1)
    X, Y = np.ascontiguousarray(table[:, :16]), np.ascontiguousarray(table[:, 16:])
    return DataSet("Robot", X[:2812], Y[:2812], X[2812:], Y[2812:], None, 2812)


def load_sets(n: int, data: str | None) -> tuple[list[DataSet], str]:
    """The four sets, with n rows of each synthetic one; and a line about what is missing, or an empty one."""
    sets = [_mixture("gaussmix", "Gaussian mixture", n), _mixture("unifmix", "Uniform mixture", n), _geyser()]
    try:
        sets.append(_robot(data_folder(data, needs="robot/sensor_readings_24.csv")))
    except FileNotFoundError as missing:
        return sets, f"Robot is left out: {missing}."
    return sets, ""


def table1(sets: Sequence[DataSet], missing: str) -> Result:
    """Shapes as loaded, beside the paper's number of training rows."""
    rows = [
        (s.name, s.X.shape[1], s.y.reshape(len(s.y), -1).shape[1], len(s.X), s.n_paper, len(s.X_holdout)) for s in sets
    ]
    same = [s.name for s in sets if len(s.X) == s.n_paper]
    fewer = [s.name for s in sets if len(s.X) != s.n_paper]
    measured = f"as many training rows as the paper: {', '.join(same) or 'none'}"
    if fewer:
        measured += f"; fewer: {', '.join(fewer)}"
    text = (
        "The synthetic sets are made with fixed seeds and hold out 10,000 rows (the paper: 10^6). Geyser's waiting "
        "times are whole minutes; uniform noise of one rounding step is added so that no estimator is paid for the "
        "rounding. "
    )
    claim = Claim("Four sets, with the training rows of the paper's Table 1.", len(same) == 4, measured)
    return Result("table1", "Table 1. The data sets", text + missing, _COLUMNS, rows, [claim])
