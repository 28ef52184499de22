"""Ctrl-C works, which a suite that was started in the background would ignore; and long tests come first."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# They need no kernels: while one process runs them the other compiles some. At the end, one would wait for the other.
FIRST = ("test_typing.py::test_types",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not any(name in item.nodeid for name in FIRST))
