"""Pseudo-random numbers that depend on what a row holds alone: the order of rows does not matter."""

import numpy as np

from coverwalk._arrays import Floats, Ints, UInts
from coverwalk._kernels.forest.row_hash import hash_rows, uniforms


def row_codes(X: Floats, y: Floats) -> UInts:
    """A pseudo-random number for each row, of what it holds alone."""
    code = np.empty(len(y), np.uint64)
    hash_rows(np.ascontiguousarray(X), np.ascontiguousarray(y), code)
    return code


def uniform_of(codes: UInts, rank: Ints | int = 0) -> Floats:
    """Numbers in (0, 1) from the codes of rows; of equal rows by the golden ratio, so that they lie evenly apart.

    >>> uniform_of(np.array([7, 7], np.uint64), np.array([0, 1])).round(3).tolist()
    [0.167, 0.785]
    """
    out = np.empty(len(codes))
    uniforms(codes, np.full(len(codes), rank) if isinstance(rank, int) else rank, out)
    return out


def ranks(codes: UInts) -> Ints:
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


def canonical_order(X: Floats, y: Floats) -> Ints:
    """A pseudo-random order of the rows that depends on what they hold alone: sums and samples do not see how they
    came.

    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.zeros(3)
    >>> shuffled = [2, 0, 1]
    >>> bool(np.all(X[canonical_order(X, y)] == X[shuffled][canonical_order(X[shuffled], y)]))
    True
    """
    return np.argsort(row_codes(X, y), kind="stable")
