"""Writing a model: whole or not at all."""

import contextlib
import fcntl
import glob
import json
import os
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coverwalk import __version__
from coverwalk.files.container import FORMAT, pieces, refuse_inflation
from coverwalk.files.fields import Store
from coverwalk.files.limits import SchemaError
from coverwalk.files.loading import MODELS, decoded
from coverwalk.files.objects import schema_of, state_of

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
    text = json.dumps(tree, separators=(",", ":"))
    refuse_inflation(text, f"this {type(model).__name__}")
    metadata = {"format": "coverwalk", "version": str(FORMAT), "written_by": __version__, "model": text}
    write_whole(path, pieces(metadata, arrays))


def encoded(model: Any) -> tuple[Any, Store]:
    """The tree of a model as JSON values, and its arrays by name."""
    name, arrays = type(model).__name__, Store()
    if MODELS.get(name) != type(model).__module__:
        raise SchemaError(f"it is a {type(model).__module__}.{name}; files hold {', '.join(MODELS)}")
    return {"is": name, "fields": schema_of(type(model)).write(state_of(model), "model", arrays)}, arrays


def write_whole(path: str | os.PathLike[str], content: Iterable[bytes | memoryview]) -> None:
    """Write a file, or leave the one that was there as it was: see `save`."""
    target = Path(os.path.realpath(path))
    _remove_abandoned(target)
    beside = target.parent / f".{target.name}.{secrets.token_hex(8)}.writing"
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # readable as the user's umask allows
        with os.fdopen(handle, "wb") as file:
            fcntl.flock(handle, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
            for piece in content:
                file.write(piece)
            file.flush()
            os.fsync(handle)
            os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
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
