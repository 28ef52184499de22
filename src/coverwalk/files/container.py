"""The bytes of a file, in the safetensors format: a header of JSON, then arrays one behind the other.

A file is read into memory, never mapped: a mapped file that is cut off later kills the process that reads it. What a
file asks for is compared with its size before anything is allocated.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from coverwalk import __version__
from coverwalk.files.fields import Store

__all__ = ["FORMAT", "ModelFileError", "digest", "parsed", "pieces", "read_bytes", "refuse_inflation"]

FORMAT = 2  # rises when a file of before could be misread

_NAMES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "BOOL": "|b1"}
_NAMES |= {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"}
_CODES = {np.dtype(code).str: name for name, code in _NAMES.items()}
_SIZES = {"{": 240, "[": 64, ",": 32}  # bytes that the smallest of JSON's objects, lists and items take in memory
_FREE, _PER_BYTE = 5 * 2**25, 5  # bytes that they may take in all: so much, and so many times the length of the text


class ModelFileError(ValueError):
    """The file is no model, is damaged, or was written by another version of coverwalk."""


def digest(metadata: dict[str, str], arrays: Store) -> str:
    """The checksum of everything in a file but itself."""
    made = hashlib.blake2b(digest_size=20)
    for key in sorted(metadata.keys() - {"digest"}):
        made.update(f"{key}={metadata[key]}\n".encode(errors="surrogatepass"))
    for name, array in sorted(arrays.items()):
        made.update(f"{name} {array.dtype.str} {array.shape}\n".encode(errors="surrogatepass"))
        made.update(array.reshape(-1).view(np.uint8).data)
    return made.hexdigest()


def pieces(metadata: dict[str, str], arrays: Store) -> Iterator[bytes | memoryview]:
    """The bytes of a file; arrays of wide numbers come first, so that all lie at multiples of their size."""
    header: dict[str, Any] = {"__metadata__": {**metadata, "digest": digest(metadata, arrays)}}
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    end = 0
    for name in order:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _CODES[array.dtype.str], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        yield arrays[name].reshape(-1).view(np.uint8).data


def read_bytes(path: Path) -> tuple[dict[str, str], Store]:
    """The header's texts and the arrays of a file, whole and with a right checksum; ModelFileError otherwise."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise ModelFileError(f"{path} is empty, expected a file written by save()")
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ModelFileError(f"{path} is no model file or is cut short; expected one written by save()")
        try:
            text = file.read(length).decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{path} is no model file; expected one written by save()") from error
        header = parsed(text, str(path))
        if type(header) is not dict:
            raise ModelFileError(f"{path} is no model file; expected one written by save()")
        metadata = _texts(header.pop("__metadata__", {}), path)
        arrays = _arrays(file, header, size - 8 - length, path)
    if metadata.get("digest") != digest(metadata, arrays):
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
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{where} is no model file or is damaged ({error}); expected one written by save()"
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key comes twice")
    return made


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _texts(metadata: Any, path: Path) -> dict[str, str]:
    if type(metadata) is not dict or not all(type(text) is str for text in metadata.values()):
        raise ModelFileError(f"{path} is no model file: its metadata are not texts")
    if metadata.get("format") != "coverwalk":
        raise ModelFileError(f"{path} is a safetensors file of something else, expected one written by save()")
    version, writer = metadata.get("version", ""), metadata.get("written_by", "?")
    if version == "1":
        raise ModelFileError(
            f"{path} was written by version 0.1 of coverwalk ({writer}), whose files this coverwalk {__version__} does "
            "not read: fit the model again, or read it with version 0.1"
        )
    if version != str(FORMAT):
        raise ModelFileError(
            f"{path} has format {version!r} (written by coverwalk {writer}), this coverwalk {__version__} reads format "
            f"{FORMAT}: upgrade coverwalk"
        )
    if metadata.keys() != {"format", "version", "written_by", "model", "digest"}:
        raise ModelFileError(f"{path} is no model file: its metadata are {sorted(metadata)}")
    return metadata


def _arrays(file: BinaryIO, header: dict[str, Any], room: int, path: Path) -> Store:
    """Every array, read into memory of its own; they fill the file without overlap, so they are as long as it."""
    entries = []
    for name, entry in header.items():
        dtype, shape, offsets = _entry(entry, name, path)
        count = 1
        for n in shape:
            count *= n
        if offsets[1] - offsets[0] != count * dtype.itemsize:
            raise ModelFileError(f"{path}: the array {name} has not the size that its shape tells")
        entries.append((offsets[0], offsets[1], name, dtype, shape, count))
    arrays, at = {}, 0
    for begin, end, *_ in sorted(entries, key=lambda entry: entry[:2]):
        if begin != at:
            raise ModelFileError(f"{path}: its arrays overlap, or leave gaps")
        at = end
    if at != room:
        raise ModelFileError(f"{path} is cut short, or has more behind its arrays than they need")
    for _, _, name, dtype, shape, count in sorted(entries, key=lambda entry: entry[:2]):
        array: NDArray[Any] = np.fromfile(file, dtype, count)
        if array.size != count:
            raise ModelFileError(f"{path} was cut short while it was read")
        arrays[name] = array.reshape(shape)
    return arrays


def _entry(entry: Any, name: str, path: Path) -> tuple[np.dtype[Any], tuple[int, ...], list[int]]:
    """Dtype, shape and place of an array."""
    sound = type(entry) is dict and entry.keys() == {"dtype", "shape", "data_offsets"}
    sound = sound and type(entry["dtype"]) is str and entry["dtype"] in _NAMES
    for key in ("shape", "data_offsets"):
        sound = sound and type(entry[key]) is list and all(type(n) is int and 0 <= n < 2**62 for n in entry[key])
    if not sound or len(entry["data_offsets"]) != 2 or len(entry["shape"]) > 8:
        raise ModelFileError(f"{path}: the entry of the array {name} is not one that a model has")
    if 0 in entry["shape"]:
        raise ModelFileError(f"{path}: the array {name} is empty; such arrays stand in the header")
    return np.dtype(_NAMES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
