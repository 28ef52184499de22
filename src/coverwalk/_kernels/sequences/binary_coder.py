"""A binary arithmetic coder: an interval of 32-bit numbers, cut in two at each bit by its probability."""

import numpy as np

from coverwalk._arrays import Bytes, UInts
from coverwalk._kernels._compile import kernel

# places of the state
LOW, HIGH, CODE, PLACE = 0, 1, 2, 3
MAX_BYTES = 36  # that one symbol may take: eight bits, of 4 bytes each where the interval is smallest; and some spare
_TOP = np.uint64(0xFF000000)
_ALL = np.uint64(0xFFFFFFFF)
_EIGHT = np.uint64(8)


def start_coder() -> UInts:
    """The state of a coder (4,): the ends of the interval, the code that is read, the place in the bytes."""
    return np.array([0, 0xFFFFFFFF, 0, 0], np.uint64)


def start_decoder(data: Bytes) -> UInts:
    """The state of a decoder at the beginning of ``data``."""
    state = start_coder()
    state[CODE] = int.from_bytes(data[:4].tobytes().ljust(4, b"\0"), "big")
    state[PLACE] = 4
    return state


def finish(state: UInts) -> bytes:
    """The last bytes: the shortest number inside the interval, followed by zeros that need not be written."""
    low, high = int(state[LOW]), int(state[HIGH])
    for bits in range(32, -1, -1):
        number = (low + (1 << bits) - 1) >> bits << bits
        if number <= high:
            break
    return number.to_bytes(4, "big").rstrip(b"\0")


@kernel
def _cut(state: UInts, p: int) -> np.uint64:
    """The last number of the lower part, which stands for a 1 of probability p / 65536."""
    span = state[HIGH] - state[LOW]
    return state[LOW] + ((span * np.uint64(p)) >> np.uint64(16))


@kernel
def encode_bit(state: UInts, data: Bytes, p: int, y: int) -> None:
    """Write one bit: the interval shrinks, and bytes that both ends share leave."""
    cut = _cut(state, p)
    if y == 1:
        state[HIGH] = cut
    else:
        state[LOW] = cut + np.uint64(1)
    while (state[LOW] ^ state[HIGH]) & _TOP == np.uint64(0):
        data[np.int64(state[PLACE])] = np.uint8(state[HIGH] >> np.uint64(24))
        state[PLACE] += np.uint64(1)
        state[LOW] = (state[LOW] << _EIGHT) & _ALL
        state[HIGH] = ((state[HIGH] << _EIGHT) & _ALL) | np.uint64(255)


@kernel
def decode_bit(state: UInts, data: Bytes, p: int) -> int:
    """Read one bit; past the end of ``data`` come zeros."""
    cut = _cut(state, p)
    y = np.int64(1)
    if state[CODE] <= cut:
        state[HIGH] = cut
    else:
        y = np.int64(0)
        state[LOW] = cut + np.uint64(1)
    while (state[LOW] ^ state[HIGH]) & _TOP == np.uint64(0):
        place = np.int64(state[PLACE])
        coming = np.uint64(data[place]) if place < len(data) else np.uint64(0)
        state[PLACE] += np.uint64(1)
        state[LOW] = (state[LOW] << _EIGHT) & _ALL
        state[HIGH] = ((state[HIGH] << _EIGHT) & _ALL) | np.uint64(255)
        state[CODE] = ((state[CODE] << _EIGHT) & _ALL) | coming
    return int(y)
