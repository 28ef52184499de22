"""Machine code that a wheel brings along, used where Python, Numba, the sources and the machine's instructions agree.

`.ci/wheel` puts it into ``_compiled/``: Numba's own cache files of the kernels that Python calls, and a manifest that
says what they were made of and for which machine. Everywhere else kernels are compiled as ever.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, cast

import numba
from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.runtime.nrt import rtsys

FOLDER = Path(__file__).parent / "_compiled"


def shipped(digests: dict[str, str], folder: Path = FOLDER) -> dict[str, Any] | None:
    """The manifest of what was shipped, if it was made of sources with these digests, by this Python and Numba."""
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    except FileNotFoundError:
        return None
    made_by = manifest["python"] == sys.implementation.cache_tag and manifest["numba"] == numba.__version__
    if not made_by or manifest["sources"] != digests:
        return None
    host = binding.get_host_cpu_features()
    return manifest if all(host.get(name) for name in manifest["needs"]) else None


class ShippedCache:
    """The cache of one kernel, in which what was shipped is found as well; what is compiled goes to the user's own."""

    def __init__(self, function: Any, own: Any, manifest: dict[str, Any], folder: Path = FOLDER) -> None:
        self._function, self._own, self._manifest, self._folder = function, own, manifest, folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The kernel for a signature, or None: Numba asks before it compiles."""
        from numba.core.caching import IndexDataCacheFile
        from numba.core.compiler import CompileResult

        found = self._own.load_overload(signature, context)
        rtsys.initialize(context)
        if found is not None or context.codegen().magic_tuple()[0] != self._manifest["target"][0]:
            return found
        folder, stamp = self._function.__module__.split(".")[-2], self._manifest["sources"][source_of(self._function)]
        index = cast(Any, IndexDataCacheFile)(str(self._folder / folder), base_of(self._function), stamp)
        code = hashlib.sha256(self._function.__code__.co_code).hexdigest(), hashlib.sha256(b"").hexdigest()
        data = index.load((signature, tuple(self._manifest["target"]), code))
        result: Any = CompileResult
        return None if data is None else result._rebuild(context, *data)


def base_of(function: Any) -> str:
    """What Numba calls the files of a kernel."""
    name = f"{function.__module__.split('.')[-1]}.{function.__qualname__}-{function.__code__.co_firstlineno}"
    return f"{name}.py{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"


def source_of(function: Any) -> str:
    """The path of a kernel's source among those of all kernels."""
    return function.__module__.removeprefix(__package__ + ".").replace(".", "/") + ".py"
