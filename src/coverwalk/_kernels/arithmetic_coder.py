"""A range coder driven by a sequence model: the proof that its probabilities are real.

Low and range have 56 bits, a byte leaves when range falls below 2^48, carries run through the bytes held back.
Probabilities become whole frequencies out of 2^30, so that a symbol costs at most some 2^-17 bits more than -log2 p
unless it is rarer than 2^-20. Coding and decoding are one kernel: both run the same instructions on the same numbers.
"""

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.suffix_learn import observe
from coverwalk._kernels.suffix_tree import PATH, SuffixStore, has_room
from coverwalk._kernels.suffix_walk import DEPTH, LEVEL_COLUMNS, alphabet_size, distribution, longest_path

__all__ = ["code", "finish", "start_coder", "start_decoder"]

# places of the coder's state
LOW, RANGE, HELD, PENDING, PLACE, CODE = 0, 1, 2, 3, 4, 5

_BYTE = np.uint64(8)
_TOP = np.uint64(48)
_LIMIT = np.uint64(1 << 48)
_CARRY = np.uint64(1 << 56)
_ALL = np.uint64((1 << 56) - 1)
_LOWER = np.uint64((1 << 48) - 1)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_FF = np.uint64(255)
_SCALE = float(1 << 30)


def start_coder() -> NDArray[np.uint64]:
    """The state of a coder (6,): low, range, byte held back, 255s held back after it, place in the bytes, code."""
    return np.array([0, (1 << 56) - 1, 0, 0, 0, 0], np.uint64)


def start_decoder(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The state of a decoder at the beginning of ``data``; the first byte is the coder's first held, always 0."""
    state = start_coder()
    head = np.zeros(8, np.uint8)
    head[: min(8, len(data))] = data[:8]
    state[CODE] = int.from_bytes(head[1:].tobytes(), "big")
    state[PLACE] = 8
    return state


@kernel
def _shift(state: NDArray[np.uint64], out: NDArray[np.uint8]) -> None:
    """Move the top byte of low out, or hold it back while a carry could still change it."""
    low = state[LOW]
    if low >= _CARRY or (low >> _TOP) < _FF:
        carry = low >> np.uint64(56)
        place = np.int64(state[PLACE])
        out[place] = np.uint8((state[HELD] + carry) & _FF)
        place += 1
        for _ in range(np.int64(state[PENDING])):
            out[place] = np.uint8((_FF + carry) & _FF)
            place += 1
        state[PLACE] = np.uint64(place)
        state[PENDING] = _ZERO
        state[HELD] = (low >> _TOP) & _FF
    else:
        state[PENDING] += _ONE
    state[LOW] = (low & _LOWER) << _BYTE


@kernel
def finish(state: NDArray[np.uint64], out: NDArray[np.uint8]) -> None:
    """Write the shortest number inside the last interval; what follows it reads as zeros."""
    low, last = state[LOW], state[LOW] + state[RANGE] - _ONE
    for bits in range(56, -1, -1):
        rounded = ((low + (_ONE << np.uint64(bits)) - _ONE) >> np.uint64(bits)) << np.uint64(bits)
        if rounded <= last:
            state[LOW] = rounded
            break
    for _ in range(8):
        _shift(state, out)


@kernel
def _frequencies(probability: NDArray[np.float64], frequency: NDArray[np.uint64]) -> np.uint64:
    """Whole frequencies, none zero, for probabilities that sum to one; their sum."""
    scale = _SCALE - len(probability)
    total = _ZERO
    for symbol in range(len(probability)):
        frequency[symbol] = _ONE + np.uint64(probability[symbol] * scale)
        total += frequency[symbol]
    return total


@kernel
def code(
    tree: SuffixStore,
    state: NDArray[np.uint64],
    symbols: NDArray[np.int32],
    start: int,
    data: NDArray[np.uint8],
    decoding: bool,
) -> int:
    """Code symbols from ``start`` on, or decode them, learning each; how far it got before the tree was full.

    symbols (n,)   read when coding, written when decoding
    data           written from the state's place when coding: 4 bytes a symbol and those pending must fit; else read
    """
    depth = int(tree.settings[DEPTH])
    level = np.empty((depth + 2, LEVEL_COLUMNS))
    entries = np.empty(depth + 2, np.int64)
    phi = np.empty(depth + 2)
    psi = np.empty(depth + 3)
    probability = np.empty(np.int64(alphabet_size(tree)))
    frequency = np.empty(len(probability), np.uint64)
    for i in range(start, len(symbols)):
        if not has_room(tree, depth):
            return i
        distribution(tree, tree.path, tree.size[PATH], longest_path(tree), level, probability)
        unit = state[RANGE] // _frequencies(probability, frequency)
        symbol = np.int64(symbols[i])
        below = _ZERO
        if decoding:
            target = (state[CODE] - state[LOW]) // unit
            symbol = np.int64(0)
            while symbol < len(frequency) - 1 and below + frequency[symbol] <= target:
                below += frequency[symbol]
                symbol += 1
            symbols[i] = symbol
        else:
            for s in range(symbol):
                below += frequency[s]
        state[LOW] += unit * below
        state[RANGE] = unit * frequency[symbol]
        while state[RANGE] < _LIMIT:
            state[RANGE] <<= _BYTE
            if decoding:
                place = np.int64(state[PLACE])
                coming = np.uint64(data[place]) if place < len(data) else _ZERO
                state[CODE] = ((state[CODE] - state[LOW]) << _BYTE) | coming  # from here on low is zero
                state[LOW] = _ZERO
                state[PLACE] += _ONE
            else:
                _shift(state, data)
        if decoding:
            state[CODE] -= state[LOW]
            state[LOW] = _ZERO
        observe(tree, symbol, level, entries, phi, psi)
    return len(symbols)
