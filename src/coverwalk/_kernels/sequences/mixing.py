"""Slots of bit histories, the logistic mixer and the final adaptive step: what the PAQ family calls CM, mixing, SSE."""

import numpy as np

from coverwalk._arrays import Bytes, Ints32
from coverwalk._kernels._compile import inlined_kernel, kernel
from coverwalk._kernels.sequences.logistic import SQUASH

WEIGHT_BITS = 25  # a weight of one is 2^25


@kernel
def squash(d: int) -> int:
    """The probability, in 1/65536, of log-odds in 1/256."""
    return int(SQUASH[np.uint64(min(max(d, -3072), 3071) + 3072)])


@kernel
def bucket_of(slots: Bytes, h: np.uint64) -> np.uint64:
    """Where the bucket of a hash begins; the last bucket stays empty."""
    buckets = np.uint64((len(slots) >> 6) - 1)
    return (((h >> np.uint64(32)) * buckets) >> np.uint64(32)) << np.uint64(6)


@kernel
def find_slot(slots: Bytes, h: np.uint64, learning: bool) -> np.uint64:
    """Where the slot with this hash begins; if there is none, the last, empty one, or when learning a new one.

    A new one takes the place of the one with the fewest visits in its bucket, and once in 32 times of any: so that what
    was visited often but long ago goes in the end.
    """
    begin = bucket_of(slots, h)
    check = np.uint8(h & np.uint64(0xFF))
    first = (h >> np.uint64(4)) & np.uint64(48)
    victim, fewest = begin, np.uint8(255)
    for k in range(np.uint64(4)):
        s = begin + (first ^ (k << np.uint64(4)))
        visits = slots[s + np.uint64(1)]
        if slots[s] == check and visits > 0:
            return s
        if visits < fewest:
            victim, fewest = s, visits
    if not learning:
        return np.uint64(len(slots) - 64)
    if h & np.uint64(0x1F000) == np.uint64(0) and fewest > 0:
        victim = begin + first
    slots[victim] = check
    for k in range(np.uint64(1), np.uint64(16)):
        slots[victim + k] = 0
    return victim


@inlined_kernel
def dot(weights: Ints32, begin: np.uint64, x: Ints32) -> int:
    """Log-odds of one set of weights, from -2047 to 2047."""
    total = np.int64(0)
    for j in range(np.uint64(len(x))):
        total += np.int64(weights[begin + j]) * np.int64(x[j])
    return min(max(int(total >> WEIGHT_BITS), -2047), 2047)


@inlined_kernel
def train(weights: Ints32, begin: np.uint64, x: Ints32, error: int) -> None:
    """A step of one set of weights up the slope of log p; 32 bits suffice, and eight are done at once."""
    for j in range(np.uint64(len(x))):
        weights[begin + j] = np.int32(weights[begin + j] + x[j] * np.int32(error))
