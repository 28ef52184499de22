"""Files of models: one safetensors file, checked whole before anything in it is believed; no code runs on load.

A model is a tree of plain values and of objects of the few classes that `_encoding` lists. The tree goes into the
header of the file as JSON, the arrays behind it as they lie in memory. The digest in the header covers both, so a
flipped bit anywhere is noticed; each class then checks that its own arrays make sense.
"""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from coverwalk import __version__
from coverwalk._encoding import Arrays, EncodingError, decode, encode

__all__ = ["ModelFileError", "load", "save"]

FORMAT = 1  # rises when a file of before could be misread
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
_DTYPES |= {"U64": "<u8", "U32": "<u4", "U16": "<u2"}


class ModelFileError(ValueError):
    """The file is no model, is damaged, or was written by a newer coverwalk."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to one file, or leave the file that was there as it was.

    The bytes are written beside the target, forced to the disk and renamed over it: whoever looks at the path at
    any moment, or after a crash, finds the whole old file or the whole new one.
    """
    path = Path(path)
    try:
        tree, arrays = encode(model)
    except EncodingError as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}") from error
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    metadata = {"format": "coverwalk", "version": str(FORMAT), "written_by": __version__, "model": text}
    metadata["digest"] = _digest(metadata, arrays)
    _write_atomically(path, serialize(arrays, metadata))


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file; its arrays are mapped from the file and copied only where learning changes them.

    Raises
    ------
    ModelFileError
        If the file is not a whole and sound model that this version can read.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a file written by save()")
    metadata = _metadata(path)
    arrays = _map_arrays(path)
    if metadata.get("digest") != _digest(metadata, arrays):
        raise ModelFileError(f"{path} is damaged: its contents do not match its checksum; use a backup or fit again")
    try:
        model = decode(json.loads(metadata["model"]), arrays)
    except (EncodingError, RecursionError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path} is not a sound model: {error}") from error
    return model


def _metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, framework="numpy") as opened:
            metadata = opened.metadata() or {}
    except SafetensorError as error:
        if path.stat().st_size == 0:
            raise ModelFileError(f"{path} is empty, expected a file written by save()") from error
        raise ModelFileError(
            f"{path} is no model file or is cut short ({error}); expected one written by save()"
        ) from error
    if metadata.get("format") != "coverwalk" or "model" not in metadata:
        raise ModelFileError(
            f"{path} is a safetensors file of something else, expected one written by coverwalk's save()"
        )
    version = metadata.get("version", "")
    if not version.isdecimal() or int(version) > FORMAT:
        raise ModelFileError(
            f"{path} has format {version!r} (written by coverwalk {metadata.get('written_by', '?')}), this coverwalk "
            f"{__version__} reads up to {FORMAT}: upgrade coverwalk"
        )
    return metadata


def _map_arrays(path: Path) -> Arrays:
    """Every array of the file, mapped copy-on-write; safe_open has already checked that the offsets fit the file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    arrays: Arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise ModelFileError(f"{path} holds an array of type {entry['dtype']}, which no model has")
        dtype, shape, begin = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"][0]
        if 0 in shape:  # nothing to map
            arrays[name] = np.zeros(shape, dtype)
        else:
            mapped = np.memmap(path, dtype, mode="c", offset=8 + length + begin, shape=shape)
            arrays[name] = np.require(np.asarray(mapped), requirements="A")  # kernels are compiled for aligned arrays
    return arrays


def _digest(metadata: dict[str, str], arrays: Arrays) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for key in ("format", "version", "written_by", "model"):
        digest.update(f"{key}={metadata.get(key)}\n".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _write_atomically(path: Path, content: bytes) -> None:
    beside = path.parent / f".{path.name}.{secrets.token_hex(8)}.writing"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # readable by whom the user's umask allows
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must reach the disk
    finally:
        os.close(folder)
