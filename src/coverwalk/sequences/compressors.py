"""What general compressors make of the same bytes, for comparison: whole files, as they are written."""

import bz2
import lzma
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

__all__ = ["compressors"]


def compressors() -> dict[str, Callable[[bytes], int]]:
    """By name, a function from bytes to their compressed size in bytes; PPMd only where ``pyppmd`` is installed.

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
    return found
