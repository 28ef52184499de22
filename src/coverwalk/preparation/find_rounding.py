"""Whether y is rounded, and how: a grid, or single values that repeat on their own."""

from typing import Any

import numpy as np
from scipy.special import pdtrc

from coverwalk._arrays import Floats, Ints
from coverwalk.preparation.outliers import find_outliers
from coverwalk.preparation.rounding import MAX_DECIMALS, MAX_STEPS, Rounding

ON_GRID = 0.99  # of the rows, for a grid
MIN_REPEATS = 3  # rows that repeat a value, for a grid
MIN_STEP = 1e-4  # of a grid, in standard deviations of y: no local model looks closer
FALSE_ALARM = 1e-3  # chance of finding an atom in y that has none
MIN_ATOM = 0.005  # of the rows, for an atom
NEIGHBOURS = 10  # values on either side whose counts an atom must exceed
ATOM_ROWS = 8.0  # an atom of one row in so many has all that width, a rarer one less
ATOM_WIDTH = 1.0  # of an opened cell, in standard deviations of the y that are no atoms: less is blurred


def find_rounding(y: Floats) -> Rounding | None:
    """The rounding of y (n,), if any.

    A grid: at least 99 % of y are on it, at least three rows repeat a value, and a step is no less than 1e-4 standard
    deviations. Numbers of a continuous density, rows repeated or not, are on a grid with a chance below 1e-9.

    Else single values, each of at least 0.5 % of the rows: a value counts c rows, and the values about it lambda on
    average; under a continuous density whose rows were drawn with replacement c is at most a Poisson number about
    lambda. The chance that any of the values exceeds what this allows is at most 1e-3 (Bonferroni).

    >>> rng = np.random.default_rng(0)
    >>> print(find_rounding(rng.normal(size=500).round(1)))
    rounded to steps of 0.1
    >>> print(find_rounding(np.where(rng.random(500) < 0.3, 0.0, rng.lognormal(size=500))))
    continuous, with atoms at 0
    >>> find_rounding(rng.normal(size=500)) is None
    True
    """
    values, counts = np.unique(y + 0.0, return_counts=True)
    if len(y) - len(values) < MIN_REPEATS:
        return None
    return _find_grid(values, counts) or _find_atoms(values, counts)


def _find_grid(values: Floats, counts: Ints) -> Rounding | None:
    if len(values) < 2:
        return None
    unit = max(float(np.abs(values).max()), np.finfo(float).tiny)  # so that no square overflows
    centred = values / unit - np.average(values / unit, weights=counts)
    least = MIN_STEP * unit * float(np.sqrt(np.average(centred**2, weights=counts)))
    if not 0.0 < least < np.inf:
        return None
    enough = ON_GRID * counts.sum()
    for decimals in range(MAX_DECIMALS + 1):
        if unit * 10.0**decimals >= 2**50 or 10.0**-decimals < least:
            break
        there = np.round(values, decimals) == values
        if counts[there].sum() >= enough:
            whole = np.rint(values[there] * 10.0**decimals).astype(np.int64)
            step = int(np.gcd.reduce(np.diff(whole))) / 10.0**decimals
            return Rounding(step, float(values[there][0]), decimals) if 0.0 < least <= step else None
    return _find_other_grid(values, counts, enough, least)


def _find_other_grid(values: Floats, counts: Ints, enough: float, least: float) -> Rounding | None:
    """A grid whose step is no decimal number: the smallest difference of two values, or a part of it."""
    noise = 16.0 * np.finfo(float).eps * float(np.abs(values).max())
    gaps = np.diff(values)
    gaps = gaps[gaps > noise]
    if not len(gaps) or float(values[-1] - values[0]) > MAX_STEPS * float(gaps.min()):
        return None
    for part in range(1, 5):
        step, origin = float(gaps.min()) / part, float(values[0])
        if step < max(least, 1e3 * noise):
            break
        for reach in (30.0, 1e3, 3e4, 1e6, MAX_STEPS):  # the step is known the better, the farther one goes
            z = (values - origin) / step
            near = (z < reach) & (np.abs(z - np.rint(z)) < 0.01)
            if near.sum() < 2:
                break
            step = float(np.polyfit(np.rint(z[near]), values[near], 1)[0])
        there = np.abs(z - np.rint(z)) < 1e-3
        if counts[there].sum() >= enough:
            return Rounding(step, origin)
    return None


def _find_atoms(values: Floats, counts: Ints) -> Rounding | None:
    n, m = int(counts.sum()), len(values)
    frequent = np.flatnonzero(counts >= max(MIN_ATOM * n, MIN_REPEATS))
    found: list[Any] = []
    for i in frequent.tolist():
        around = np.delete(counts[max(i - NEIGHBOURS, 0) : i + NEIGHBOURS + 1], min(i, NEIGHBOURS))
        usual = around[around < counts[i]]
        expected = max(1.0, float(usual.mean()) if len(usual) else 1.0)
        if pdtrc(counts[i] - 1, expected) < FALSE_ALARM / m:
            found.append(i)
    if not found:
        return None
    return Rounding(values=values[found], width=atom_widths(np.repeat(values, counts), values[found]))


def atom_widths(y: Floats, values: Floats) -> Floats:
    """Widths of the cells that are opened at values (a,) of y (n,): a standard deviation of the other y, and less for
    values that few rows have, so that many of them do not tear y apart.
    """
    share = np.array([np.mean(y == value) for value in values])
    rest = y[~np.isin(y, values)]
    outliers = find_outliers(rest)
    rest = rest if outliers is None else rest[outliers.usual(rest)]
    unit = float(np.abs(y).max()) or 1.0
    spread = float(np.std(rest / unit)) if len(rest) > 1 else 0.0
    spread = spread or float(np.std(y / unit)) or 1.0
    return np.asarray(ATOM_WIDTH * unit * spread * np.minimum(1.0, ATOM_ROWS * share))
