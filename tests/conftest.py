"""Ctrl-C works, which a suite that was started in the background would ignore; long tests come first; and rubbish is
looked for less often: to compile, Numba makes many objects, and a tenth of the time went into looking at them.
"""

import gc
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(50_000)  # as on the command line

# They need no kernels: while one process runs them the other compiles some. At the end, one would wait for the other.
FIRST = ("test_typing.py::test_types",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not any(name in item.nodeid for name in FIRST))
