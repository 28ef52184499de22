"""Who may touch a model when: writers take turns, and readers wait only while a writer changes what they read."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["changing", "reading", "writing"]

_GUARD = threading.Lock()
_LOCKS: "WeakKeyDictionary[Any, tuple[Any, Any]]" = WeakKeyDictionary()  # not in the model: locks cannot be pickled


def _locks(model: object) -> tuple[Any, Any]:
    with _GUARD:
        return _LOCKS.setdefault(model, (threading.RLock(), threading.RLock()))


@contextmanager
def writing(model: object) -> Iterator[None]:
    """One writer at a time; readers go on."""
    with _locks(model)[0]:
        yield


@contextmanager
def reading(model: object) -> Iterator[None]:
    """What is read does not change meanwhile."""
    with _locks(model)[1]:
        yield


@contextmanager
def changing(model: object) -> Iterator[None]:
    """Change what readers see, wholly: an interrupt that comes meanwhile is raised afterwards."""
    with _locks(model)[1]:
        if threading.current_thread() is not threading.main_thread():  # interrupts come to the main thread alone
            yield
            return
        came: list[Any] = []
        before = signal.signal(signal.SIGINT, lambda *interrupt: came.append(interrupt))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])
