"""An entropy rate that was estimated by drawing: a number with its standard error."""

from typing import Self

from coverwalk._arrays import Floats

_BATCHES = 20


class EntropyRate(float):
    """A float with a ``standard_error``, NaN where too few symbols were drawn to tell.

    >>> import numpy as np
    >>> rate = EntropyRate.of(np.tile([0.5, 1.5], 1000))
    >>> rate, rate.standard_error
    (1.0, 0.0)
    """

    standard_error: float

    @classmethod
    def of(cls, entropies: Floats) -> Self:
        """The mean of entropies along a sequence; neighbours depend on each other, so the error is that of batches."""
        rate = cls(entropies.mean())
        rate.standard_error = float("nan")
        if len(entropies) >= 10 * _BATCHES:
            usable = entropies[: len(entropies) // _BATCHES * _BATCHES]
            means = usable.reshape(_BATCHES, -1).mean(1)
            rate.standard_error = float(means.std(ddof=1) / _BATCHES**0.5)
        return rate
