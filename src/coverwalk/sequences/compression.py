"""Lossless compression by a SequenceModel and an arithmetic coder.

A compressed file is two bytes that name the format, the length of the original as a variable-length number, three bytes
of its CRC-32, and the code. The decoder repeats the coder's arithmetic, so both need the same version of the model.
"""

import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels import arithmetic_coder
from coverwalk.sequence import SequenceModel

__all__ = ["compress", "decompress", "original_length"]

_MAGIC = b"\xc7\x01"  # ours, version 1
_CHECK = 3  # bytes of check sum: with four, the header alone would be 0.1 % of a small file
_CHUNK = 1 << 14  # symbols a call of the kernel: how often progress is told
_MOST_ZEROS = 64  # a whole code ends in so many bytes of 0 once in 256^56 files

Progress = Callable[[int], object]


def compress(data: bytes, *, progress: Progress | None = None) -> bytes:
    """Compress bytes; ``progress`` is told how many more are done.

    Examples
    --------
    >>> text = b"to be or not to be, that is the question: " * 20
    >>> packed = compress(text)
    >>> len(text), len(packed) < 70, decompress(packed) == text
    (840, True, True)
    """
    header = _MAGIC + _number(len(data)) + _check_sum(zlib.crc32(data))
    if not data:
        return header
    symbols = np.frombuffer(data, np.uint8).astype(np.int32)
    state = arithmetic_coder.start_coder()
    parts = []
    model = _model()
    for start in range(0, len(symbols), _CHUNK):
        chunk = symbols[start : start + _CHUNK]
        out = np.empty(4 * len(chunk) + int(state[arithmetic_coder.PENDING]) + 16, np.uint8)
        state[arithmetic_coder.PLACE] = 0
        _code(model, state, chunk, out, decoding=False)
        parts.append(out[: int(state[arithmetic_coder.PLACE])].tobytes())
        if progress:
            progress(len(chunk))
    out = np.empty(int(state[arithmetic_coder.PENDING]) + 16, np.uint8)
    state[arithmetic_coder.PLACE] = 0
    arithmetic_coder.finish(state, out)
    parts.append(out[: int(state[arithmetic_coder.PLACE])].tobytes())
    return header + b"".join(parts)[1:].rstrip(b"\0")  # the first byte held back is 0; the decoder reads 0 past the end


def decompress(packed: bytes, *, progress: Progress | None = None) -> bytes:
    """The bytes that were compressed; a ``ValueError`` if this is not, or not wholly, the work of `compress`."""
    length, place = _read_header(packed)
    check, code = packed[place : place + _CHECK], packed[place + _CHECK :]
    if len(check) < _CHECK:
        raise _damaged("it ends within its header")
    if length > (len(code) + 8) << 25:  # no symbol takes less than 2^-22 bits: frequencies out of 2^30, none zero
        raise _damaged(f"its header promises {length} bytes, more than so short a code can hold")
    data = np.frombuffer(b"\0" + code, np.uint8).copy()  # the kernel's arrays are writable
    state = arithmetic_coder.start_decoder(data)
    model = _model()
    crc, parts = 0, []
    for start in range(0, length, _CHUNK):
        if int(state[arithmetic_coder.PLACE]) > len(data) + _MOST_ZEROS:
            raise _damaged(f"its code ends after {start} of {length} bytes")
        symbols = np.empty(min(_CHUNK, length - start), np.int32)
        _code(model, state, symbols, data, decoding=True)
        parts.append(symbols.astype(np.uint8).tobytes())
        crc = zlib.crc32(parts[-1], crc)
        if progress:
            progress(len(symbols))
    if check != _check_sum(crc):
        raise _damaged("what it decodes to has another check sum than the original")
    return b"".join(parts)


def _check_sum(crc: int) -> bytes:
    return crc.to_bytes(4, "big")[-_CHECK:]


def original_length(packed: bytes) -> int:
    """How many bytes a compressed file will give."""
    return _read_header(packed)[0]


def _read_header(packed: bytes) -> tuple[int, int]:
    """The length of the original, and where the check sum begins."""
    if packed[: len(_MAGIC)] != _MAGIC:
        raise ValueError(
            f"this was not made by this version of `coverwalk compress`: it begins with {packed[:2]!r}, not {_MAGIC!r}"
        )
    return _read_number(packed, len(_MAGIC))


def _model() -> SequenceModel:
    return SequenceModel(alphabet=256).fit(b"")


def _code(
    model: SequenceModel,
    state: NDArray[np.uint64],
    symbols: NDArray[np.int32],
    data: NDArray[np.uint8],
    *,
    decoding: bool,
) -> None:
    done = 0
    while done < len(symbols):
        tree = model._roomy(len(symbols) - done)
        done = arithmetic_coder.code(tree, state, symbols, done, data, decoding)


def _damaged(why: str) -> ValueError:
    return ValueError(
        f"the compressed file is truncated or damaged ({why}): fetch it again, or compress the original again"
    )


def _number(n: int) -> bytes:
    """Seven bits a byte, low ones first; the top bit says that more follow."""
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _read_number(packed: bytes, place: int) -> tuple[int, int]:
    n = shift = 0
    while place < len(packed):
        byte = packed[place]
        n |= (byte & 127) << shift
        shift += 7
        place += 1
        if byte < 128:
            return n, place
    raise _damaged("it ends within its header")
