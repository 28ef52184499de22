"""Pseudo-random numbers that depend on what a row holds alone: the order of rows does not matter."""

import numpy as np

from coverwalk._arrays import Floats, Ints, Words

__all__ = ["ranks", "row_codes", "uniform_of"]


def row_codes(X: Floats, y: Floats) -> Words:
    """A pseudo-random number for each row, of what it holds alone."""
    code = np.zeros(len(y), np.uint64)
    for column in (*X.T, y):
        bits = (column + 0.0).view(np.uint64)  # + 0.0: -0.0 and 0.0 are one value
        code = _mixed(code ^ bits)
    return code


def _mixed(code: Words) -> Words:
    code = code * np.uint64(0x9E3779B97F4A7C15)
    code ^= code >> np.uint64(29)
    code *= np.uint64(0xBF58476D1CE4E5B9)
    code ^= code >> np.uint64(32)
    return code


def uniform_of(codes: Words, rank: Ints | int = 0) -> Floats:
    """Numbers in (0, 1) from the codes of rows; of equal rows by the golden ratio, so that they lie evenly apart.

    >>> uniform_of(np.array([7, 7], np.uint64), np.array([0, 1])).round(3).tolist()
    [0.167, 0.785]
    """
    start = (_mixed(codes ^ np.uint64(0xD1B54A32D192ED03)) >> np.uint64(12)).astype(np.float64) * 2.0**-52
    return np.asarray((start + rank * 0.6180339887498949 + 2.0**-53) % 1.0)


def ranks(codes: Words) -> Ints:
    """The how-manieth each code is of its equals, in the order given.

    >>> ranks(np.array([6, 2, 5, 6, 2, 6], np.uint64)).tolist()
    [0, 0, 0, 1, 1, 2]
    """
    order, place = np.argsort(codes, kind="stable"), np.arange(len(codes))
    ordered, rank = codes[order], np.empty(len(codes), np.int64)
    new = np.ones(len(codes), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    rank[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return rank
