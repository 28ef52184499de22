"""What general compressors make of the same bytes, for comparison: whole files, as they are written."""

import bz2
import lzma
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def compressors() -> dict[str, Callable[[bytes], int]]:
    """By name, a function from bytes to their compressed size in bytes; each at its best setting.

    xz and bzip2 always; PPMd, brotli and zstd where ``pyppmd``, ``brotli`` and the command ``zstd`` are installed, ZPAQ
    and lpaq where the commands ``zpaq``, ``lpaq1`` and ``lpaq8`` are.

    >>> compressors()["bzip2"](b"again and " * 1000) < 100
    True
    """
    found: dict[str, Callable[[bytes], int]] = {
        "xz": lambda data: len(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)),
        "bzip2": lambda data: len(bz2.compress(data, 9)),
    }
    if find_spec("pyppmd"):
        ppmd = import_module("pyppmd")
        found["PPMd"] = lambda data: len(ppmd.compress(data, max_order=16, mem_size=256 << 20, variant="I"))
    if find_spec("brotli"):
        brotli = import_module("brotli")
        found["brotli"] = lambda data: len(brotli.compress(data, quality=11, lgwin=24))
    if zstd := shutil.which("zstd"):
        found["zstd"] = lambda data: len(_run([zstd, "--ultra", "-22", "-c", "-q"], data))
    if zpaq := shutil.which("zpaq"):
        found["zpaq"] = partial(_archive_size, zpaq, "add {0}.zpaq {0} -method 5")
    for name in ("lpaq1", "lpaq8"):
        if lpaq := shutil.which(name):
            found[name] = partial(_archive_size, lpaq, "9 {0} {0}.zpaq")
    return found


def _run(command: list[str], data: bytes = b"") -> bytes:
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def _archive_size(command: str, arguments: str, data: bytes) -> int:
    """The size of the file {0}.zpaq that a command writes, given the original {0}."""
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder, "data")
        original.write_bytes(data)
        _run([command, *(word.format(original) for word in arguments.split())])
        return original.with_suffix(".zpaq").stat().st_size
