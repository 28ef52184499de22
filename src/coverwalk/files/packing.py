"""Arrays as they stand in a file: whole numbers as narrow as they are, and all of it compressed where that pays.

An array is held in one of three ways: as it is; narrow, where it has whole numbers (those that rise as differences);
or compressed, the first bytes of all numbers before all second bytes and so on. A file may inflate by `PER_BYTE` times
its own size and by `FREE` bytes, no more: `save` keeps to that, and `load` asks before it allocates.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FREE, PER_BYTE = 2**26, 4
MIN_BYTES = 256  # smaller arrays are not compressed
PAYS = 0.95  # of the bytes before

_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "BOOL": "|b1"}
_DTYPES |= {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"}
NAMES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in _DTYPES.items()}
_CODES = {dtype.str: name for name, dtype in NAMES.items()}
_NARROW = [np.dtype(code) for code in ("u1", "i1", "<u2", "<i2", "<u4", "<i4")]


@dataclass(frozen=True)
class Held:
    """The bytes of an array in a file, and what brings it back."""

    dtype: str  # of the array
    shape: tuple[int, ...]
    narrow: str  # dtype of what is held
    rises: bool  # what is held are differences
    packed: bool  # and compressed
    data: bytes | memoryview = b""

    @property
    def count(self) -> int:
        """How many numbers the array has."""
        count = 1
        for n in self.shape:
            count *= n
        return count


def excess(n_bytes: int, n_held: int) -> int:
    """By how many bytes an array of so many is larger than a file may inflate, of which it takes so many."""
    return max(n_bytes - PER_BYTE * n_held, 0)


def hold(arrays: Iterable[tuple[str, NDArray[Any]]]) -> dict[str, Held]:
    """Arrays by name as a file holds them; the largest are compressed last, if the file may then inflate so much."""
    free, held = FREE, {}
    for name, array in sorted(arrays, key=lambda pair: pair[1].nbytes):
        for made in _ways(array):
            more = excess(array.nbytes, len(made.data))
            if more <= free:
                free -= more
                held[name] = made
                break
    return held


def _ways(array: NDArray[Any]) -> Iterable[Held]:
    """The ways to hold an array, the shortest first; the last is the array itself."""
    code = _CODES[array.dtype.str]
    flat = array.reshape(-1)
    narrow, rises = _narrowed(flat) if array.dtype.kind in "iu" and array.itemsize > 1 else (flat, False)
    way = Held(code, array.shape, _CODES[narrow.dtype.str], rises, False)
    planes = np.ascontiguousarray(narrow.view(np.uint8).reshape(-1, narrow.itemsize).T)
    packed = zlib.compress(planes.data, 6) if planes.nbytes >= MIN_BYTES else b""
    if packed and len(packed) < PAYS * narrow.nbytes:
        yield Held(code, array.shape, way.narrow, rises, True, packed)
    if narrow.dtype != array.dtype:
        yield Held(code, array.shape, way.narrow, rises, False, narrow.view(np.uint8).data)
    yield Held(code, array.shape, code, False, False, flat.view(np.uint8).data)


def _narrowed(flat: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Whole numbers (n,) in the narrowest dtype, and whether as differences: where they rise from 0 on."""
    rises = bool(flat[0] >= 0 and (flat[1:] >= flat[:-1]).all())
    if rises:
        flat = np.diff(flat, prepend=flat.dtype.type(0))
    low, high = int(flat.min()), int(flat.max())
    for dtype in _NARROW:
        ends = np.iinfo(dtype)
        if dtype.itemsize < flat.itemsize and ends.min <= low and high <= ends.max:
            return flat.astype(dtype), rises
    return flat, rises


def unpack(held: Held) -> NDArray[Any]:
    """The array, in memory of its own; ValueError if the bytes are not those of one."""
    narrow, n_bytes = NAMES[held.narrow], held.count * NAMES[held.narrow].itemsize
    data: Any = held.data
    if held.packed:
        stream = zlib.decompressobj()
        try:
            data = stream.decompress(data, n_bytes + 1)
        except zlib.error as error:
            raise ValueError(f"what is compressed cannot be read ({error})") from error
        if len(data) != n_bytes or not stream.eof or stream.unused_data:
            raise ValueError("it does not have the size of its shape")
        flat = (
            np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(narrow.itemsize, -1).T).reshape(-1).view(narrow)
        )
        data = b""  # two copies at a time, no more
    else:
        flat = np.frombuffer(data, narrow)
        if flat.size != held.count:
            raise ValueError("it does not have the size of its shape")
    dtype = NAMES[held.dtype].newbyteorder("=")
    if held.rises:
        made = np.cumsum(flat, dtype=dtype)
    else:
        made = flat.astype(dtype)  # a copy: what is read from a file's bytes cannot be written to
    return made.reshape(held.shape)
