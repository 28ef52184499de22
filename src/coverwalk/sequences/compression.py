"""Lossless compression by a lattice of covers and a binary arithmetic coder, in the file format of `container`.

The decoder repeats the coder's arithmetic, which is that of whole numbers: any machine decodes what another has coded.
Both need the same model: its number is in the file.
"""

from collections.abc import Callable

import numpy as np

from coverwalk import __version__
from coverwalk._kernels.sequences import binary_coder
from coverwalk._kernels.sequences.lattice_run import DECODE, ENCODE
from coverwalk.sequences.container import Container, damaged, read_container, write_container
from coverwalk.sequences.lattice_engine import LatticeEngine
from coverwalk.sequences.sequence_parameters import MIN_MEMORY, check, memory_bytes

__all__ = ["compress", "decompress", "original_length"]

_MODEL = 2  # to be raised whenever the model's arithmetic changes
_CHUNK = 1 << 14  # symbols from one report of progress to the next

Progress = Callable[[int], object]


def compress(data: bytes, *, effort: int = 2, memory: str | int = "256MB", progress: Progress | None = None) -> bytes:
    """Compress bytes, losslessly.

    Parameters
    ----------
    data : bytes
        Anything, empty too.
    effort : {1, 2, 3}
        As for `SequenceModel`: 1 is the fastest, 3 mostly the smallest.
    memory : str or int
        The most memory that the model may take. Decompression takes the same memory and time.
    progress : function, optional
        It is told how many more bytes are done.

    Returns
    -------
    bytes
        A file as `coverwalk compress` writes it, with a version, lengths and a checksum.

    Examples
    --------
    >>> text = b"to be or not to be, that is the question: " * 20
    >>> packed = compress(text)
    >>> len(text), len(packed) < 100, decompress(packed) == text
    (840, True, True)
    """
    room = memory_bytes(memory)
    check("effort", effort, effort in (1, 2, 3), "1, 2 or 3")
    check("memory", memory, MIN_MEMORY <= room < 2**40, 'from "8MB" to "1TB"')
    code = _encode(data, effort, room, progress) if data else b""
    return write_container(data, code, writer=__version__, model=_MODEL, effort=effort, memory=room)


def _encode(data: bytes, effort: int, memory: int, progress: Progress | None) -> bytes:
    symbols = np.frombuffer(data, np.uint8)
    state, engine = binary_coder.start_coder(), LatticeEngine.new(effort, memory, len(data))
    out = np.empty(binary_coder.MAX_BYTES * _CHUNK, np.uint8)
    parts = []
    for start in range(0, len(symbols), _CHUNK):
        chunk = symbols[start : start + _CHUNK]
        state[binary_coder.PLACE] = 0
        engine.learn(chunk, np.empty(0), mode=ENCODE, coder=(state, out))
        parts.append(out[: int(state[binary_coder.PLACE])].tobytes())
        if progress:
            progress(len(chunk))
    return b"".join(parts) + binary_coder.finish(state)


def decompress(packed: bytes, *, progress: Progress | None = None) -> bytes:
    """The way back from `compress`.

    Parameters
    ----------
    packed : bytes
        What `compress` returned.
    progress : function, optional
        It is told how many more bytes are done.

    Returns
    -------
    bytes
        The original; a ``ValueError`` if this is not, or not wholly, the work of `compress`.
    """
    parts = read_container(packed)
    if parts.model != _MODEL:
        raise ValueError(
            f"this file was written by coverwalk {parts.writer} with model {parts.model}, and this is coverwalk "
            f"{__version__} with model {_MODEL}: decompress it with coverwalk {parts.writer}"
        )
    if parts.effort not in (1, 2, 3) or not MIN_MEMORY <= parts.memory < 2**40:
        raise damaged(f"no effort is {parts.effort} with {parts.memory} bytes of memory")
    if parts.length > (len(parts.code) + 8) << 16:  # no bit takes less than 2^-16 bits
        raise damaged(f"its header promises {parts.length} bytes, more than so short a code can hold")
    data = _decode(parts, progress)
    if not parts.checks(data):
        raise damaged("what it decodes to has a different checksum from the original")
    return data


def _decode(parts: Container, progress: Progress | None) -> bytes:
    code = np.frombuffer(parts.code, np.uint8).copy()  # the kernel's arrays are writable
    state, engine = binary_coder.start_decoder(code), LatticeEngine.new(parts.effort, parts.memory, parts.length)
    decoded = []
    for start in range(0, parts.length, _CHUNK):
        symbols = np.empty(min(_CHUNK, parts.length - start), np.uint8)
        engine.learn(symbols, np.empty(0), mode=DECODE, coder=(state, code))
        decoded.append(symbols.tobytes())
        if progress:
            progress(len(symbols))
    return b"".join(decoded)


def original_length(packed: bytes) -> int:
    """How many bytes a compressed file will give."""
    return read_container(packed).length
