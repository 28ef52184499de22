"""The bytes of a file: the length of a header of JSON, the header, then arrays one behind the other.

The layout is that of safetensors; an entry also says how its array is held, see `packing`.

A file is read into memory, never mapped: a mapped file that is cut off later kills the process that reads it. What a
file asks for is compared with its size before anything is allocated.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from coverwalk import __version__
from coverwalk.files.fields import Store
from coverwalk.files.packing import FREE, NAMES, Held, excess, hold, unpack

FORMAT = 4  # rises when a file of before could be misread

_SIZES = {"{": 240, "[": 64, ",": 32}  # bytes that the smallest of JSON's objects, lists and items take in memory
_FREE, _PER_BYTE = 5 * 2**25, 5  # bytes that they may take in all: so much, and so many times the length of the text


class ModelFileError(ValueError):
    """The file is no model, is damaged, or was written by another version of coverwalk."""


def pieces(metadata: dict[str, str], arrays: Store) -> Iterator[bytes | memoryview]:
    """The bytes of a file."""
    held, entries, end = hold(arrays.items()), dict[str, Any](), 0
    for name, one in held.items():
        begin, end = end, end + len(one.data)
        entries[name] = {"dtype": one.dtype, "shape": list(one.shape), "data_offsets": [begin, end]}
        entries[name] |= {"held": one.narrow, "rises": one.rises, "packed": one.packed}
    made = _digest(metadata, entries)
    for one in held.values():
        made.update(one.data)
    header = {"__metadata__": {**metadata, "digest": made.hexdigest()}, **entries}
    text = json.dumps(header, separators=(",", ":")).encode()
    yield len(text).to_bytes(8, "little")
    yield text
    for one in held.values():
        yield one.data


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
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{where} is not a model file, or is damaged ({error}); expected one written by save()"
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key comes twice")
    return made


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


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


def _arrays(file: BinaryIO, header: dict[str, Any], room: int, path: Path, read: Callable[[bytes], None]) -> Store:
    """Every array, in memory of its own; they fill the file without overlap, and inflate it no more than is allowed.

    read: gets the bytes of the arrays, in their order.
    """
    entries = [
        (*entry["data_offsets"], name, held) for name, entry in header.items() for held in [_held(entry, name, path)]
    ]
    entries.sort(key=lambda entry: entry[:2])
    at, more = 0, 0
    for begin, end, name, held in entries:
        if begin != at or end < begin:
            raise ModelFileError(f"{path}: its arrays overlap, or leave gaps")
        if not held.packed and end - begin != held.count * NAMES[held.narrow].itemsize:
            raise ModelFileError(f"{path}: the array {name} does not have the size of its shape")
        more += excess(held.count * NAMES[held.dtype].itemsize, end - begin)
        at = end
    if at != room:
        raise ModelFileError(f"{path} is truncated, or longer than its arrays")
    if more > FREE:
        raise ModelFileError(f"{path} has arrays that would take far more memory than the file")
    arrays = {}
    for begin, end, name, held in entries:
        data = file.read(end - begin)
        read(data)
        try:
            arrays[name] = unpack(replace(held, data=data))
        except ValueError as error:
            raise ModelFileError(f"{path} is damaged: the array {name}: {error}; use a backup or fit again") from error
    return arrays


def _held(entry: Any, name: str, path: Path) -> Held:
    """How an array is held, and its shape."""
    valid = type(entry) is dict and entry.keys() == {"dtype", "shape", "data_offsets", "held", "rises", "packed"}
    for key in ("dtype", "held"):
        valid = valid and type(entry[key]) is str and entry[key] in NAMES
    for key in ("rises", "packed"):
        valid = valid and type(entry[key]) is bool
    for key in ("shape", "data_offsets"):
        valid = valid and type(entry[key]) is list and all(type(n) is int and 0 <= n < 2**62 for n in entry[key])
    if not valid or len(entry["data_offsets"]) != 2 or len(entry["shape"]) > 8:
        raise ModelFileError(f"{path}: the entry of the array {name} is not one that a model has")
    if 0 in entry["shape"]:
        raise ModelFileError(f"{path}: the array {name} is empty; such arrays stand in the header")
    dtype, held = NAMES[entry["dtype"]], NAMES[entry["held"]]
    if dtype != held and not (dtype.kind in "iu" and held.kind in "iu" and held.itemsize < dtype.itemsize):
        raise ModelFileError(f"{path}: the array {name} is held in numbers that are not its own")
    if entry["rises"] and dtype.kind not in "iu":
        raise ModelFileError(f"{path}: the array {name} is held in numbers that are not its own")
    return Held(entry["dtype"], tuple(entry["shape"]), entry["held"], entry["rises"], entry["packed"])
