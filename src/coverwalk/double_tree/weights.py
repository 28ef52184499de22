"""Sample weights are counts: a row of weight 2 is that row twice, a row of weight 0 is not there."""

import numpy as np

from coverwalk._arrays import Floats, Ints

__all__ = ["counts_of"]

MAX_COPIES = 2**26  # of all rows together: weights are counts, and so many rows would not fit
_WHOLE = 1e-9  # sums of weights this close to a whole number are that number


def counts_of(weight: Floats) -> Ints:
    """How often each row is taken (n,): its weight where weights are whole numbers.

    Fractions are carried over from row to row: of ten rows of weight 0.3 three are taken, and any
    run of rows is taken as often as its weights sum to, within one.

    >>> counts_of(np.array([2.0, 0.0, 0.5, 0.5, 1.0])).tolist()
    [2, 0, 1, 0, 1]
    """
    total = float(weight.sum())
    if not 0.0 < total < MAX_COPIES:
        raise ValueError(
            f"sample weights are counts of rows: their sum must be positive and below {MAX_COPIES}, got {total:g}. "
            "Divide relative weights by their mean"
        )
    ends = np.floor(np.cumsum(weight) + 0.5 + _WHOLE)
    counts: Ints = np.diff(ends, prepend=0.0).astype(np.int64)
    if not counts.any():
        raise ValueError(f"sample weights are counts of rows, and all of these together make none: {total:g}")
    return counts
