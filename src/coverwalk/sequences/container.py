"""The file that `coverwalk compress` writes: who wrote it, with which settings, how long everything is, a checksum.

    byte 0        0xC7
    byte 1        the format, 2
    text          the version of coverwalk that wrote it: a length in one byte, then ASCII
    numbers       the model's number, its effort, its memory in bytes, the original's length, the code's length
    4 bytes       CRC-32 of the header up to here and of the original
    code          to the end of the file

Numbers have seven bits per byte, low ones first; the top bit says that more follow. Nothing is guessed from where the
file ends: a code may well end in zeros.
"""

import zlib
from dataclasses import dataclass

_NAME = 0xC7
_FORMAT = 2
_FIRST_FORMAT = 1  # of version 0.1.0: no writer, no lengths
_CHECK = 4


@dataclass(frozen=True)
class Container:
    """A compressed file, taken apart."""

    writer: str  # the version of coverwalk
    model: int  # the number of the model's arithmetic: a decoder has to repeat it to the last bit
    effort: int
    memory: int  # bytes
    length: int  # of the original
    code: bytes
    check: int

    def checks(self, data: bytes) -> bool:
        """Whether this is the original."""
        return _check_sum(_header(self), data) == self.check


def write_container(data: bytes, code: bytes, *, writer: str, model: int, effort: int = 1, memory: int = 0) -> bytes:
    """The whole file for an original and its code."""
    header = _header(Container(writer, model, effort, memory, len(data), code, 0))
    return header + _check_sum(header, data).to_bytes(_CHECK, "big") + code


def read_container(packed: bytes) -> Container:
    """Take a file apart; ``ValueError`` says what it is if it is not one of ours, or not whole."""
    if len(packed) < 2 or packed[0] != _NAME:
        raise ValueError(f"this was not made by `coverwalk compress`: it begins with {packed[:4]!r}")
    if packed[1] == _FIRST_FORMAT:
        raise ValueError(
            "this file was written by coverwalk 0.1.0 (format 1), whose model this version does not have: decompress "
            "it with coverwalk 0.1.0"
        )
    if packed[1] != _FORMAT:
        raise ValueError(
            f"this was not made by a version of `coverwalk compress` known here: it has format {packed[1]}, and this "
            f"version reads format {_FORMAT}; decompress it with the version that wrote it"
        )
    end = 3 + (packed[2] if len(packed) > 2 else 0)
    writer = packed[3:end].decode("ascii", "backslashreplace")
    place, numbers = end, []
    for _ in range(5):
        number, place = _read_number(packed, place)
        numbers.append(number)
    model, effort, memory, length, code_length = numbers
    check, code = packed[place : place + _CHECK], packed[place + _CHECK :]
    if len(check) < _CHECK or len(code) != code_length:
        raise damaged(f"its code should have {code_length} bytes and has {len(code)}")
    return Container(writer, model, effort, memory, length, code, int.from_bytes(check, "big"))


def damaged(why: str) -> ValueError:
    """The error for a file of ours that is not whole."""
    return ValueError(
        f"the compressed file is truncated or damaged ({why}): fetch it again, or compress the original again"
    )


def _header(parts: Container) -> bytes:
    writer = parts.writer.encode("ascii", "backslashreplace")
    numbers = (parts.model, parts.effort, parts.memory, parts.length, len(parts.code))
    return bytes([_NAME, _FORMAT, len(writer)]) + writer + b"".join(map(_number, numbers))


def _check_sum(header: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(header))


def _number(n: int) -> bytes:
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _read_number(packed: bytes, place: int) -> tuple[int, int]:
    n = 0
    for shift in range(0, 63, 7):  # more would not be a length
        if place >= len(packed):
            break
        n |= (packed[place] & 127) << shift
        place += 1
        if packed[place - 1] < 128:
            return n, place
    raise damaged("it ends within its header")
