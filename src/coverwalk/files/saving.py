"""Writing a model: whole or not at all."""

import contextlib
import fcntl
import glob
import json
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Any

from coverwalk import __version__
from coverwalk.files.container import FORMAT, pieces, refuse_inflation
from coverwalk.files.fields import Store
from coverwalk.files.limits import SchemaError
from coverwalk.files.loading import MODELS, decoded
from coverwalk.files.objects import schema_of, state_of

__all__ = ["encoded", "save"]

_ABANDONED = 60.0  # seconds after which a file that nobody is writing is removed


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to one file, or leave the file that was there as it was.

    The bytes are written beside the target, forced to the disk and renamed over it: whoever looks at the path at
    any moment, or after a crash, finds the whole old file or the whole new one. A file keeps its permissions, and a
    symbolic link stays one: the file that it points to is written.
    """
    try:
        tree, arrays = encoded(model)
        decoded(tree, dict(arrays))  # what could not be loaded is not written
    except SchemaError as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}") from error
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    refuse_inflation(text, f"this {type(model).__name__}")
    metadata = {"format": "coverwalk", "version": str(FORMAT), "written_by": __version__, "model": text}
    _write_atomically(Path(os.path.realpath(path)), metadata, arrays)


def encoded(model: Any) -> tuple[Any, Store]:
    """The tree of a model as JSON values, and its arrays by name."""
    name, arrays = type(model).__name__, Store()
    if MODELS.get(name) != type(model).__module__:
        raise SchemaError(f"it is a {type(model).__module__}.{name}; files hold {', '.join(MODELS)}")
    return {"is": name, "fields": schema_of(type(model)).write(state_of(model), "model", arrays)}, arrays


def _write_atomically(path: Path, metadata: dict[str, str], arrays: Store) -> None:
    _remove_abandoned(path)
    beside = path.parent / f".{path.name}.{secrets.token_hex(8)}.writing"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # readable by whom the user's umask allows
    try:
        with os.fdopen(handle, "wb") as file:
            fcntl.flock(handle, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
            for piece in pieces(metadata, arrays):
                file.write(piece)
            file.flush()
            os.fsync(handle)
            os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must reach the disk
    finally:
        os.close(folder)


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that were killed have left of this file: their locks died with them."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'?' * 16}.writing"):
        with contextlib.suppress(OSError), left.open("rb") as file:  # another process may be removing it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(file.fileno()).st_mtime > _ABANDONED:
                left.unlink()
