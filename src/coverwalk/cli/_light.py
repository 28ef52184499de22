"""scikit-learn without what it loads and the command line seldom uses: SciPy's statistics, pandas and others."""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["import_sklearn"]

_SELDOM = ("asyncio", "numpy.f2py", "numpy.testing", "scipy.stats")  # with pandas longer to load than scikit-learn


def import_sklearn() -> None:
    """Import scikit-learn; what it seldom uses is loaded when something of it is first used, pandas if we import it."""
    if "sklearn" in sys.modules:
        return
    for name in _SELDOM:
        if name not in sys.modules:
            _load_when_used(name)
    seen = "pandas" in sys.modules
    if not seen:
        sys.modules["pandas"] = None  # type: ignore[assignment]  # to scikit-learn, which asks once, it is not there
    try:
        import sklearn.base  # noqa: F401
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
