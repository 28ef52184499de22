"""One compile policy for every kernel, a cache that never goes stale, and a line when a compilation happens."""

import errno
import hashlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event

__all__ = ["fused_kernel", "kernel"]


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


_IMPORT = re.compile(r"^from (?:\.|coverwalk\._kernels\.)(\w+) import", re.MULTILINE)


def _digests(folder: Path) -> dict[str, str]:
    """For each source: a digest of it and of all that it imports from here, directly or not."""
    text = {source.stem: source.read_text() for source in folder.glob("*.py")}
    imports = {name: set(_IMPORT.findall(lines)) & text.keys() for name, lines in text.items()}
    digests = {}
    for name in text:
        needed, new = {name}, {name}
        while new:
            new = set().union(*(imports[other] for other in new)) - needed
            needed |= new
        digest = hashlib.blake2b(digest_size=16)
        for other in sorted(needed):
            digest.update(text[other].encode())
        digests[name] = digest.hexdigest()
    return digests


def _forget_stale_kernels(folder: Path) -> None:
    """Remove compiled kernels from the cache when their source, or one that it imports, has changed.

    Numba compares a cached kernel with its own file only: one that calls a kernel of a changed file would go on
    calling the old one.
    """
    now = _digests(folder)
    stamp = folder / "__pycache__" / "kernels.json"
    then = json.loads(stamp.read_text()) if stamp.exists() else {}
    if now == then:
        return
    try:
        for compiled in stamp.parent.glob("*.nb[ic]"):
            name = compiled.name.split(".")[0]
            if now.get(name) != then.get(name):
                compiled.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(json.dumps(now))
    except OSError as error:  # installed where the user may not write: Numba keeps its cache elsewhere then
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise


_forget_stale_kernels(Path(__file__).parent)
