"""One compile policy for every kernel, and one line that says so when a compilation really happens."""

import sys
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

__all__ = ["kernel"]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of scalars and flat arrays to native code, cached on disk, without the GIL.

    ``error_model="numpy"``: a division by zero gives inf or NaN as in NumPy instead of a branch and an exception.
    ``fastmath`` stays off: it assumes that there are no infinities, and log 0 = -inf is a value here.
    """
    return njit(cache=True, nogil=True, error_model="numpy")(function)


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
