"""Sample weights are counts: a row of weight 2 is that row twice, a row of weight 0 is not there."""

import numpy as np

from coverwalk._arrays import Floats, Ints

__all__ = ["counts_of"]

MAX_COPIES = 2**26  # of all rows together: weights are counts, and so many rows would not fit
_WHOLE = 1e-9  # sums of weights this close to a whole number are that number


def counts_of(weight: Floats, order: Ints) -> Ints:
    """How often each row is taken (n,): its weight where weights are whole numbers.

    Fractions are carried over from row to row, in the order given: of ten rows of weight 0.3 three are taken, and any
    run of rows is taken as often as its weights sum to, within one.

    >>> counts_of(np.array([2.0, 0.0, 0.5, 0.5, 1.0]), np.arange(5)).tolist()
    [2, 0, 1, 0, 1]
    """
    total = float(weight.sum())
    if not 0.0 < total < MAX_COPIES:
        raise ValueError(
            f"sample weights are counts of rows: their sum must be positive and below {MAX_COPIES}, got {total:g}. "
            "Divide relative weights by their mean"
        )
    sums = np.concatenate([[0.0], np.cumsum(weight[order])])
    ends = np.floor(sums + 0.5 + _WHOLE).astype(np.int64)
    counts = np.empty(len(weight), np.int64)
    counts[order] = np.diff(ends)
    if not counts.any():
        raise ValueError(f"sample weights are counts of rows, and all of these together make none: {total:g}")
    return counts
