"""One compile policy for every kernel, a cache that never goes stale, and a line when a compilation happens."""

import hashlib
import re
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache, NullCache
from numba.core.runtime.nrt import rtsys
from numba.core.types import unliteral

from coverwalk._kernels._shipped import ShippedCache, shipped, source_of

_IMPORT = re.compile(r"^from (?:coverwalk\._kernels|(?=\.))((?:\.\w+)*|\.) import (.*)$", re.MULTILINE)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of scalars and flat arrays to native code, cached on disk, without the GIL.

    ``error_model="numpy"``: a division by zero gives inf or NaN as in NumPy instead of a branch and an exception.
    ``fastmath`` stays off: it assumes that there are no infinities, and log 0 = -inf is a value here.
    """
    return _cached(njit(nogil=True, error_model="numpy")(function))


def fused_kernel(function: Callable[..., Any]) -> Any:
    """As `kernel`, but sums may run in any order, and a product and the sum it goes into be one instruction: for inner
    loops that do little else. Not for numbers that must come out the same bits wherever the function is inlined.
    """
    return _cached(njit(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})(function))


def _cached(dispatcher: Any) -> Any:
    """Have a kernel kept on disk."""
    if not hasattr(dispatcher, "enable_caching"):  # with NUMBA_DISABLE_JIT a kernel is the plain function
        return dispatcher
    dispatcher._cache = _CacheWhenNeeded(dispatcher.py_func)
    _take_no_literals(dispatcher)
    if _SHIPPED:
        dispatcher._cache = ShippedCache(dispatcher.py_func, dispatcher._cache, _SHIPPED)
    return dispatcher


class _CacheWhenNeeded:
    """Numba's cache of a kernel, looked for when Python first calls it: most are called by other kernels alone.

    Where no folder can be written the kernel is compiled in memory, at every start.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _own(self) -> Any:
        try:
            own = FunctionCache(self._function)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            _FirstCompilation.cached = False
            return NullCache()
        # Numba compares a kernel with its own file only: one that calls a kernel of a changed file would go on calling
        # the old one.
        own._cache_file._source_stamp = _DIGESTS[source_of(self._function)]
        return own

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The kernel for a signature, or None: Numba asks before it compiles.

        Numba's own would first import all that compiling needs, a tenth of a second; it does so again to compile.
        """
        rtsys.initialize(context)
        if isinstance(self._own, NullCache):
            return None
        with self._own._guard_against_spurious_io_errors():
            return self._own._load_overload(signature, context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def _take_no_literals(dispatcher: Any) -> None:
    """Have one kernel for all numbers of a type: Numba would compile one more for each constant that a caller writes.

    The optimiser sees the constants nevertheless, where it puts a kernel into its caller.
    """
    template = dispatcher.get_call_template

    def plain(types: Any, keywords: Any) -> Any:
        general: Any = unliteral
        return template([general(kind) for kind in types], {name: general(kind) for name, kind in keywords.items()})

    dispatcher.get_call_template = plain


def inlined_kernel(function: Callable[..., Any]) -> Any:
    """As `kernel`, but written out where it is called: for inner functions of many arrays, each of which would be
    counted as referenced, with a locked instruction, at every call.
    """
    return _cached(njit(nogil=True, error_model="numpy", inline="always")(function))


class _FirstCompilation(event.Listener):
    """Says once per process that kernels are being compiled; loading them from the cache says nothing."""

    said = False
    cached = True  # as far as is known
    calls: ClassVar[list[Callable[[], object]]] = []  # what else is to happen then

    def on_start(self, compilation: Any) -> None:
        ours = compilation.data["dispatcher"].py_func.__module__.startswith("coverwalk.")
        if ours and not self.said:
            self.said = True
            now = "compiling for this machine, once; later starts use the cache ..."
            if not self.cached:
                now = "compiling in memory, at every start: no cache can be written (NUMBA_CACHE_DIR names another) ..."
            print(f"coverwalk: {now}", file=sys.stderr)
            for call in self.calls:
                call()

    def on_end(self, compilation: Any) -> None:
        pass


event.register("numba:compile", _FirstCompilation())  # type: ignore[no-untyped-call]


def at_first_compilation(call: Callable[[], object]) -> None:
    """Have something called when this process first has to compile."""
    _FirstCompilation.calls.append(call)


def _sources(folder: Path) -> dict[str, str]:
    """For each source of kernels, by its path, a digest of it and of all that it imports among them."""
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}
    names = {"." + path.removesuffix(".py").replace("/", "."): path for path in texts}
    needs: dict[str, set[str]] = {path: set() for path in texts}
    for path, text in texts.items():
        for module, imported in _IMPORT.findall(text):
            found = [
                module,
                *(f"{module.rstrip('.')}.{name.split()[0]}" for name in imported.split(",") if name.strip()),
            ]
            needs[path] |= {names[name] for name in found if name in names}
    digests = {}
    for path in texts:
        reached, new = {path}, {path}
        while new:
            new = set().union(*(needs[other] for other in new)) - reached
            reached |= new
        digest = hashlib.blake2b(digest_size=16)
        for other in sorted(reached):
            digest.update(texts[other].encode())
        digests[path] = digest.hexdigest()
    return digests


_DIGESTS = _sources(Path(__file__).parent)
_SHIPPED = shipped(_DIGESTS)
