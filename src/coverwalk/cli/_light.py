"""scikit-learn without what it loads and the command line seldom uses: SciPy's statistics, pandas and others."""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_SELDOM = ("asyncio", "numpy.f2py", "numpy.testing", "scipy.stats")  # with pandas longer to load than scikit-learn


def lighten_sklearn() -> None:
    """When scikit-learn is imported, put off what it seldom uses until it does, and pandas until we import it."""
    if "sklearn" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "sklearn":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, own: Any) -> None:
        self._own = own

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._own
        for name in _SELDOM:
            if name not in sys.modules:
                _load_when_used(name)
        seen = "pandas" in sys.modules
        if not seen:
            sys.modules["pandas"] = None  # type: ignore[assignment]  # to scikit-learn, which asks once, it is not there
        try:
            self._own.exec_module(module)
            import_module("sklearn.base")
        finally:
            if not seen:
                del sys.modules["pandas"]


def _load_when_used(name: str) -> None:
    """Put a module in place of another that loads it at its first attribute.

    `importlib.util.LazyLoader` would load it at the next ``import`` statement, which looks at ``__spec__``.
    """
    spec = find_spec(name)
    assert spec is not None
    stand_in = ModuleType(name)
    stand_in.__spec__, stand_in.__path__ = spec, spec.submodule_search_locations or []

    def load(attribute: str) -> Any:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(import_module(name), attribute)

    stand_in.__getattr__ = load  # type: ignore[method-assign]
    sys.modules[name] = stand_in
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, stand_in)
