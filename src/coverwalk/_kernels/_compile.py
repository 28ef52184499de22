"""One compile policy for every kernel, a cache that never goes stale, and a line when a compilation happens."""

import errno
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event

__all__ = ["fused_kernel", "inlined_kernel", "kernel"]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of scalars and flat arrays to native code, cached on disk, without the GIL.

    ``error_model="numpy"``: a division by zero gives inf or NaN as in NumPy instead of a branch and an exception.
    ``fastmath`` stays off: it assumes that there are no infinities, and log 0 = -inf is a value here.
    """
    return njit(cache=True, nogil=True, error_model="numpy")(function)


def fused_kernel(function: Callable[..., Any]) -> Any:
    """As `kernel`, but sums may run in any order, and a product and the sum it goes into be one instruction: for inner
    loops that do little else. Not for numbers that must come out the same bits wherever the function is inlined.
    """
    return njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})(function)


def inlined_kernel(function: Callable[..., Any]) -> Any:
    """As `kernel`, but written out where it is called: for inner functions of many arrays, each of which would be
    counted as referenced, with a locked instruction, at every call.
    """
    return njit(cache=True, nogil=True, error_model="numpy", inline="always")(function)


class _FirstCompilation(event.Listener):
    """Says once per process that kernels are being compiled; loading them from the cache says nothing."""

    said = False

    def on_start(self, compilation: Any) -> None:
        ours = compilation.data["dispatcher"].py_func.__module__.startswith("coverwalk.")
        if ours and not self.said:
            self.said = True
            print("coverwalk: compiling for this machine, once; later starts use the cache ...", file=sys.stderr)

    def on_end(self, compilation: Any) -> None:
        pass


event.register("numba:compile", _FirstCompilation())  # type: ignore[no-untyped-call]


def _forget_stale_kernels(folder: Path) -> None:
    """Empty the cache of compiled kernels when any source among them has changed.

    Numba compares a cached kernel with its own file only: one that calls a kernel of a changed file would go on
    calling the old one.
    """
    digest = hashlib.blake2b(digest_size=16)
    for source in sorted(folder.rglob("*.py")):
        digest.update(source.read_bytes())
    stamp = folder / "__pycache__" / "kernels.digest"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    try:
        for compiled in folder.rglob("__pycache__/*.nb[ic]"):
            compiled.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest.hexdigest())
    except OSError as error:  # installed where the user may not write: Numba keeps its cache elsewhere then
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise


_forget_stale_kernels(Path(__file__).parent)
