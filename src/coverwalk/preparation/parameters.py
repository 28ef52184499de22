"""Threads and seeds from the parameters of estimators; all others are checked by their schema."""

import os
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from coverwalk.files.schema import Either, Maybe, Whole

N_JOBS = Maybe(Either(Whole(-10_000, -1), Whole(1, 10_000)))  # what a file may hold of it
_WHOLE = (int, np.integer)


def n_threads(n_jobs: Any) -> int:
    """scikit-learn's ``n_jobs`` as a number of threads: None is 1, -1 all processors, -2 all but one.

    >>> n_threads(None), n_threads(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    jobs = int(n_jobs) if isinstance(n_jobs, _WHOLE) and not isinstance(n_jobs, bool) else 0
    if not 0 < abs(jobs) <= 10_000:
        raise ValueError(f"n_jobs must be None for one thread, a number of threads, or -1 for all; got {n_jobs!r}")
    return jobs if jobs > 0 else max((os.cpu_count() or 1) + 1 + jobs, 1)


def seed_of(random_state: Any) -> int:
    """A seed from scikit-learn's ``random_state``: a whole number is its own."""
    if isinstance(random_state, _WHOLE):
        if not 0 <= random_state < 2**62:
            raise ValueError(f"random_state must be a whole number from 0 to 2**62 - 1, got {random_state!r}")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
