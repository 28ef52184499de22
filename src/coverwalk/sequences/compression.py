"""Lossless compression by a SequenceModel and an arithmetic coder, in the file format of `container`.

The decoder repeats the coder's arithmetic, so both need the same model: its number is in the file.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coverwalk import __version__
from coverwalk._kernels import arithmetic_coder
from coverwalk.sequence import SequenceModel
from coverwalk.sequences.container import damaged, read_container, write_container

__all__ = ["compress", "decompress", "original_length"]

_MODEL = 1  # to be raised whenever the model's arithmetic changes
_CHUNK = 1 << 14  # symbols per call of the kernel: how often progress is told
_FLUSH = 8  # bytes that the coder writes at its end; those that are 0 need not be stored

Progress = Callable[[int], object]


def compress(data: bytes, *, progress: Progress | None = None) -> bytes:
    """Compress bytes; ``progress`` is told how many more are done.

    Examples
    --------
    >>> text = b"to be or not to be, that is the question: " * 20
    >>> packed = compress(text)
    >>> len(text), len(packed) < 80, decompress(packed) == text
    (840, True, True)
    """
    code = _encode(data, progress) if data else b""
    return write_container(data, code, writer=__version__, model=_MODEL)


def _encode(data: bytes, progress: Progress | None) -> bytes:
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
    code = b"".join(parts)[1:]  # the first byte held back is 0
    return code[:-_FLUSH] + code[-_FLUSH:].rstrip(b"\0")  # the decoder reads 0 past the end


def decompress(packed: bytes, *, progress: Progress | None = None) -> bytes:
    """The bytes that were compressed; a ``ValueError`` if this is not, or not wholly, the work of `compress`."""
    parts = read_container(packed)
    if parts.model != _MODEL:
        raise ValueError(
            f"this file was written by coverwalk {parts.writer} with model {parts.model}, and this is coverwalk "
            f"{__version__} with model {_MODEL}: decompress it with `pip install coverwalk=={parts.writer}`"
        )
    if parts.length > (len(parts.code) + _FLUSH) << 25:  # no symbol takes less than 2^-22 bits
        raise damaged(f"its header promises {parts.length} bytes, more than so short a code can hold")
    data = _decode(parts.code, parts.length, progress)
    if not parts.checks(data):
        raise damaged("what it decodes to has another check sum than the original")
    return data


def _decode(code: bytes, length: int, progress: Progress | None) -> bytes:
    data = np.frombuffer(b"\0" + code, np.uint8).copy()  # the kernel's arrays are writable
    state = arithmetic_coder.start_decoder(data)
    model = _model()
    decoded = []
    for start in range(0, length, _CHUNK):
        symbols = np.empty(min(_CHUNK, length - start), np.int32)
        _code(model, state, symbols, data, decoding=True)
        decoded.append(symbols.astype(np.uint8).tobytes())
        if progress:
            progress(len(symbols))
    return b"".join(decoded)


def original_length(packed: bytes) -> int:
    """How many bytes a compressed file will give."""
    return read_container(packed).length


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
