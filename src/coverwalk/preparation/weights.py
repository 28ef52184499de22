"""Weights of rows: relative, where copies of a row are one row of their weight; or as counts of copies."""

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.preparation.row_codes import ranks, row_codes

NOTHING = 1e-50  # of the heaviest row's weight: sums do not change by it
WHOLE = 1e-9  # sums of weights this close to a whole number are that number
MIN_ROWS = 20  # distinct rows of rounded y that all come k times are a table repeated k times: chance k^-20


def distinct_rows(X: Floats, Y: Floats, weight: Floats | None, rounded: bool) -> tuple[Ints, Floats | None]:
    """The rows to fit to, and their weights, of mean one; None where all are equal.

    X (n, p), Y (n, q). Rows of weight 0, or next to it beside the heaviest, are left out. Copies of a row are one row,
    which is left out as a whole when rows are left out. Where y is ``rounded`` equal rows are observations of their
    own, unless all of them come so many times that the table must have been repeated.

    >>> X, Y = np.array([[1.0], [1.0], [2.0], [3.0]]), np.array([[5.5], [5.5], [6.5], [7.5]])
    >>> distinct_rows(X, Y, None, False)
    (array([0, 2, 3]), array([1.5 , 0.75, 0.75]))
    >>> distinct_rows(X, Y, np.array([0.1, 0.1, 0.2, 0.0]), False)
    (array([0, 2]), None)
    """
    if weight is None:
        weight = np.ones(len(X))
    if not weight.max(initial=0.0) > 0.0:
        raise ValueError("all sample weights are 0: there is no row to fit to")
    kept = np.flatnonzero(weight > NOTHING * weight.max())
    inputs = X if Y.shape[1] == 1 else np.hstack([X, Y[:, :-1]])
    codes = row_codes(inputs, Y[:, -1])[kept]
    first, group, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)[1:]
    times = 1
    if rounded:
        times = int(np.gcd.reduce(counts)) if len(counts) >= MIN_ROWS else 1
        stays = ranks(codes) < (counts // times)[group]
    else:
        stays = np.zeros(len(kept), bool)
        stays[first] = True
    mass: Floats = np.bincount(group, weight[kept] / weight.max()).astype(np.float64)[group[stays]]
    if rounded:
        mass = mass / (counts // times)[group[stays]]
    mass = mass / mass.mean()
    return kept[stays], None if np.ptp(mass) <= 1e-12 else mass


def copies(weight: Floats) -> Ints:
    """How often each row is taken (n,): its weight where weights are whole numbers.

    Fractions are carried over from row to row: of ten rows of weight 0.3 three are taken, and any run of rows is taken
    as often as its weights sum to, within one.

    >>> copies(np.array([2.0, 0.0, 0.5, 0.5, 1.0])).tolist()
    [2, 0, 1, 0, 1]
    """
    ends = np.floor(np.cumsum(weight) + 0.5 + WHOLE)
    counts: Ints = np.diff(ends, prepend=0.0).astype(np.int64)
    return counts
