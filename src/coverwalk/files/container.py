"""The bytes of a file: the length of a header of JSON, the header, then arrays one behind the other.

The layout is that of safetensors, but that an array which takes fewer bytes than its shape has is compressed: by zlib,
the first bytes of all numbers before all second bytes and so on.

A file is read into memory, never mapped: a mapped file that is cut off later kills the process that reads it. What a
file asks for is compared with its size before anything is allocated: it may inflate by `PER_BYTE` times its own size
and by `FREE` bytes, no more. `save` keeps to that.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coverwalk import __version__
from coverwalk.files.fields import Store

FORMAT = 5  # rises when a file of before could be misread

FREE, PER_BYTE = 2**26, 4
PAYS = 0.95  # of the bytes of an array, for it to be compressed
_SIZES = {"{": 240, "[": 64, ",": 32}  # bytes that the smallest of JSON's objects, lists and items take in memory
_FREE, _PER_BYTE = 5 * 2**25, 5  # bytes that they may take in all: so much, and so many times the length of the text

_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "BOOL": "|b1"}
_DTYPES |= {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"}
_CODES = {code: name for name, code in _DTYPES.items()}


class ModelFileError(ValueError):
    """The file is no model, is damaged, or was written by another version of coverwalk."""


def pieces(metadata: dict[str, str], arrays: Store) -> Iterator[bytes | memoryview]:
    """The bytes of a file."""
    held, entries, end = held_bytes(arrays), dict[str, Any](), 0
    for name, data in held.items():
        begin, end = end, end + len(data)
        array = arrays[name]
        entries[name] = {"dtype": _CODES[array.dtype.str], "shape": list(array.shape), "data_offsets": [begin, end]}
    made = _digest(metadata, entries)
    for data in held.values():
        made.update(data)
    header = {"__metadata__": {**metadata, "digest": made.hexdigest()}, **entries}
    text = json.dumps(header, separators=(",", ":")).encode()
    yield len(text).to_bytes(8, "little")
    yield text
    yield from held.values()


def held_bytes(arrays: Store) -> dict[str, bytes | memoryview]:
    """The bytes of each array: compressed where that pays, the largest last, if the file may then inflate so much."""
    free, held = FREE, dict[str, bytes | memoryview]()
    for name, array in sorted(arrays.items(), key=lambda pair: pair[1].nbytes):
        flat = array.reshape(-1).view(np.uint8)
        packed = zlib.compress(np.ascontiguousarray(flat.reshape(-1, array.itemsize).T).data, 6)
        more = _excess(array.nbytes, len(packed))
        pays = len(packed) < PAYS * array.nbytes and more <= free
        free -= more if pays else 0
        held[name] = packed if pays else flat.data
    return held


def _excess(n_bytes: int, n_held: int) -> int:
    """By how many bytes an array of so many is larger than a file may inflate, of which it takes so many."""
    return max(n_bytes - PER_BYTE * n_held, 0)


def _digest(metadata: dict[str, str], entries: dict[str, Any]) -> Any:
    """The checksum of a file's header but for itself, to which the bytes of the arrays are added."""
    told = {key: text for key, text in metadata.items() if key != "digest"}
    text = json.dumps([told, entries], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=20)


def read_bytes(path: Path) -> tuple[dict[str, str], Store]:
    """The header's texts and the arrays of a file, whole and with a right checksum; ModelFileError otherwise."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise ModelFileError(f"{path} is empty, expected a file written by save()")
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ModelFileError(f"{path} is not a model file, or is truncated; expected one written by save()")
        try:
            text = file.read(length).decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{path} is not a model file; expected one written by save()") from error
        header = parsed(text, str(path))
        if type(header) is not dict:
            raise ModelFileError(f"{path} is not a model file; expected one written by save()")
        metadata = _texts(header.pop("__metadata__", {}), path)
        made = _digest(metadata, header)
        arrays = _arrays(file, header, size - 8 - length, path, made.update)
    if metadata.get("digest") != made.hexdigest():
        raise ModelFileError(f"{path} is damaged: its contents do not match its checksum; use a backup or fit again")
    return metadata, arrays


def refuse_inflation(text: str, where: str) -> None:
    """Raise ModelFileError for JSON that would take far more memory than its text."""
    if sum(size * text.count(mark) for mark, size in _SIZES.items()) > _FREE + _PER_BYTE * len(text):
        raise ModelFileError(f"{where} has a header that would take far more memory than the file")


def parsed(text: str, where: str) -> Any:
    """JSON values, of which nothing is made that takes more memory than a small multiple of the text."""
    refuse_inflation(text, where)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{where} is not a model file, or is damaged ({error}); expected one written by save()"
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key comes twice")
    return made


def _texts(metadata: Any, path: Path) -> dict[str, str]:
    if type(metadata) is not dict or not all(type(text) is str for text in metadata.values()):
        raise ModelFileError(f"{path} is not a model file: its metadata are not texts")
    if metadata.get("format") != "coverwalk":
        raise ModelFileError(f"{path} is a safetensors file of something else, expected one written by save()")
    version, writer = metadata.get("version", ""), metadata.get("written_by", "?")
    if version.isdecimal() and int(version[:9]) < FORMAT:
        raise ModelFileError(
            f"{path} was written by version {writer} of coverwalk in format {version}, which this coverwalk "
            f"{__version__} does not read (it reads {FORMAT}): fit the model again, or read it with version {writer}"
        )
    if version != str(FORMAT):
        raise ModelFileError(
            f"{path} has format {version!r} (written by coverwalk {writer}), this coverwalk {__version__} reads format "
            f"{FORMAT}: upgrade coverwalk"
        )
    if metadata.keys() != {"format", "version", "written_by", "model", "digest"}:
        raise ModelFileError(f"{path} is not a model file: its metadata are {sorted(metadata)}")
    return metadata


class _Entry(NamedTuple):
    """What the header tells of an array."""

    begin: int
    end: int
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def _arrays(file: BinaryIO, header: dict[str, Any], room: int, path: Path, read: Callable[[bytes], None]) -> Store:
    """Every array, in memory of its own; they fill the file without overlap, and inflate it no more than is allowed.

    read: gets the bytes of the arrays, in their order.
    """
    entries = sorted((_entry(entry, name, path) for name, entry in header.items()), key=lambda entry: entry[:2])
    at, more = 0, 0
    for entry in entries:
        if entry.begin != at or entry.end < at:
            raise ModelFileError(f"{path}: its arrays overlap, or leave gaps")
        more += _excess(entry.n_bytes, entry.end - at)
        at = entry.end
    if at != room:
        raise ModelFileError(f"{path} is truncated, or longer than its arrays")
    if more > FREE:
        raise ModelFileError(f"{path} has arrays that would take far more memory than the file")
    arrays = {}
    for entry in entries:
        data = file.read(entry.end - entry.begin)
        read(data)
        try:
            arrays[entry.name] = unpacked(data, entry.dtype, entry.shape)
        except ValueError as error:
            raise ModelFileError(
                f"{path} is damaged: the array {entry.name}: {error}; use a backup or fit again"
            ) from error
    return arrays


def _entry(entry: Any, name: str, path: Path) -> _Entry:
    valid = type(entry) is dict and entry.keys() == {"dtype", "shape", "data_offsets"}
    valid = valid and type(entry["dtype"]) is str and entry["dtype"] in _DTYPES
    for key in ("shape", "data_offsets"):
        valid = valid and type(entry[key]) is list and all(type(n) is int and 0 <= n < 2**62 for n in entry[key])
    if not valid or len(entry["data_offsets"]) != 2 or len(entry["shape"]) > 8:
        raise ModelFileError(f"{path}: the entry of the array {name} is not one that a model has")
    if 0 in entry["shape"]:
        raise ModelFileError(f"{path}: the array {name} is empty; such arrays stand in the header")
    begin, end = entry["data_offsets"]
    return _Entry(begin, end, name, np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"]))


def unpacked(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The array, in memory of its own; ValueError if the bytes are not those of one."""
    n_bytes = prod(shape) * dtype.itemsize
    packed = len(data) < n_bytes
    if packed:
        stream = zlib.decompressobj()
        try:
            data = stream.decompress(data, n_bytes + 1)
        except zlib.error as error:
            raise ValueError(f"what is compressed cannot be read ({error})") from error
        if not stream.eof or stream.unused_data:
            raise ValueError("it does not have the size of its shape")
    if len(data) != n_bytes:
        raise ValueError("it does not have the size of its shape")
    flat = np.frombuffer(data, dtype)
    if packed:
        flat = np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1).T).view(dtype)
    del data  # two copies at a time, no more
    return flat.reshape(shape).astype(dtype.newbyteorder("="))  # a file's bytes cannot be written to
