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
def code_bit(state: UInts, data: Bytes, p: int, y: int) -> int:
    """Write the bit y, or read one where y is -1; a 1 has probability p / 65536. The bit.

    The interval shrinks, and bytes that both its ends share leave. Past the end of ``data`` zeros are read.
    """
    reading = y < 0
    last = state[LOW] + (((state[HIGH] - state[LOW]) * np.uint64(p)) >> np.uint64(16))  # of the part that means 1
    if reading:
        y = int(state[CODE] <= last)
    if y == 1:
        state[HIGH] = last
    else:
        state[LOW] = last + np.uint64(1)
    while (state[LOW] ^ state[HIGH]) & _TOP == np.uint64(0):
        place = np.int64(state[PLACE])
        if reading:
            coming = np.uint64(data[place]) if place < len(data) else np.uint64(0)
            state[CODE] = ((state[CODE] << _EIGHT) & _ALL) | coming
        else:
            data[place] = np.uint8(state[HIGH] >> np.uint64(24))
        state[PLACE] += np.uint64(1)
        state[LOW] = (state[LOW] << _EIGHT) & _ALL
        state[HIGH] = ((state[HIGH] << _EIGHT) & _ALL) | np.uint64(255)
    return int(y)
