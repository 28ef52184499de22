"""Threads and interrupts: any number of readers beside one writer, and changes that happen wholly or not at all.

A model's public methods are marked `reads` or `writes`. Readers run side by side; writers take turns; and a writer has
the model to itself only while it changes it, inside ``with alone(model)``: readers wait that long, and Ctrl-C is
answered at the end. What takes long (a fit, many rows of a stream) is done aside, on another object, and its result
`adopt`-ed in one step.

The locks belong to no model: they are kept beside them, by identity, and so are neither pickled, copied nor saved.
"""

import _signal  # type: ignore[import-not-found]  # without the enums of `signal`, which take longer than a row
import os
import threading
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from types import FrameType
from typing import Any, Generic, TypeVar, cast, overload
from weakref import WeakKeyDictionary

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M")

MANY_ROWS = 4096  # so many rows and more are learned aside: by a copy of the model, which readers need not wait for
_PATIENCE = 0.1  # seconds between looks for Ctrl-C while a writer waits for readers
_FORK_SECONDS = 5.0  # that a fork waits for writers, at most: the child of a longer one must not use that model


class cached(Generic[T]):  # noqa: N801
    """`functools.cached_property` without the lock that it has in Python 3.11, which a forked child may find held."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self.work, self.__doc__ = work, work.__doc__

    @overload
    def __get__(self, owner: None, kind: Any = None) -> "cached[T]": ...

    @overload
    def __get__(self, owner: object, kind: Any = None) -> T: ...

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        found = owner.__dict__[self.work.__name__] = self.work(owner)
        return found


class Turns:
    """The locks of one model: one for writers, and one for each thread that has read.

    A reader takes the lock of its own thread, which nobody else wants but a writer that is about to change the model:
    that one takes them all. All are reentrant.
    """

    def __init__(self) -> None:
        self.writer: Any = threading.RLock()
        self.changing = False  # a writer waits for readers, or is at work: new readers wait for it
        self._own = threading.local()
        self._joining = threading.Lock()
        self._readers: list[tuple[threading.Thread, Any]] = []

    def mine(self) -> Any:
        """The lock of this thread."""
        lock = getattr(self._own, "lock", None)
        return self._join() if lock is None else lock

    def reader(self) -> Any:
        """The lock of this thread, to be taken by ``with`` at once; waits while a writer changes the model."""
        lock = self.mine()
        if self.changing and not lock._is_owned():
            with self.writer:  # until the writer is done
                pass
        return lock

    def _join(self) -> Any:
        lock = threading.RLock()
        with self._joining:
            self._readers = [entry for entry in self._readers if entry[0].is_alive()]
            self._readers.append((threading.current_thread(), lock))
            self._own.lock = lock
        return lock

    def others(self) -> list[Any]:
        """The locks of all other threads that read."""
        mine = getattr(self._own, "lock", None)
        return [lock for _, lock in self._readers if lock is not mine]


_turns: "WeakKeyDictionary[Any, Turns]" = WeakKeyDictionary()
_making = threading.Lock()


def turns_of(model: Any) -> Turns:
    """The locks of a model."""
    turns = _turns.get(model)
    if turns is None:
        with _making:
            turns = _turns.setdefault(model, Turns())
    return turns


_forking = threading.local()  # what each thread that forks holds meanwhile


def _before_fork() -> None:
    """Hold every model as a reader does: the child then has none that is changed in part."""
    end = time.monotonic() + _FORK_SECONDS
    held = _forking.held = []
    with _making:
        everyone = list(_turns.values())
    for turns in everyone:
        lock = turns.mine()
        if turns.changing and not lock._is_owned() and turns.writer.acquire(timeout=max(end - time.monotonic(), 0.0)):
            turns.writer.release()
        if lock.acquire(timeout=max(end - time.monotonic(), 0.0)):
            held.append(lock)


def _after_fork() -> None:
    for lock in _forking.__dict__.pop("held", ()):
        lock.release()


def _after_fork_in_child() -> None:
    """A child process has one thread: locks that others held in the parent would never be released."""
    global _making
    _forking.__dict__.clear()
    _turns.clear()
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def reading(model: Any) -> Any:
    """``with reading(model): ...``: nothing changes the model meanwhile."""
    return turns_of(model).reader()


def reads(method: F) -> F:
    """A method that changes nothing: what it finds is the model of one moment."""

    @wraps(method)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        with turns_of(self).reader():
            return method(self, *args, **kwargs)

    return cast(F, read)


def writes(method: F) -> F:
    """A method that changes the model: one at a time. Readers go on but where it is `alone`."""

    @wraps(method)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        with turns_of(self).writer:
            return method(self, *args, **kwargs)

    return cast(F, write)


class alone:  # noqa: N801
    """``with alone(model): ...``, in a method that `writes`: no reader, and no KeyboardInterrupt before the end.

    An error inside leaves an estimator unfitted, since it may have been changed in part; ``forget=False`` leaves it.
    A model that no `reads` or `writes` method was called on is nobody else's, and needs none of this.
    """

    def __init__(self, model: Any, *, forget: bool = True) -> None:
        self.model, self.forget = model, forget
        self.turns = _turns.get(model)
        assert self.turns is None or self.turns.writer._is_owned(), "alone is for methods that write"
        self.noted: list[tuple[int, FrameType | None]] = []
        self.handler: Any = None
        self.taken: list[Any] = []
        self.outer = False

    def __enter__(self) -> None:
        if self.turns is None:
            return None
        if threading.current_thread() is threading.main_thread():
            handler = _signal.getsignal(_signal.SIGINT)
            if callable(handler):
                self.handler = handler  # before the next line: from there on every interrupt is noted
                _signal.signal(_signal.SIGINT, self._note)
        self.outer, self.turns.changing = self.turns.changing, True
        for lock in self.turns.others():
            while not lock.acquire(timeout=_PATIENCE):
                if self.noted:
                    self._end()  # raises, as a rule
                    return self.__enter__()
            self.taken.append(lock)
        return None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted.append((number, frame))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.turns is not None:
            if kind is not None and self.forget:
                self.model.__dict__ = _parameters(self.model)
            self._end()

    def _end(self) -> None:
        """Let readers and interrupts in again; those that came meanwhile are answered now."""
        assert self.turns is not None
        while self.taken:
            self.taken.pop().release()
        self.turns.changing = self.outer
        if self.handler is not None:
            _signal.signal(_signal.SIGINT, self.handler)
            if self.noted:
                self.handler(*self.noted.pop())


def _parameters(model: Any) -> dict[str, Any]:
    """The parameters of an estimator, and what scikit-learn itself has left on it: requests, callbacks, settings.

    A subclass may take fewer than its base, to which they belong all the same.
    """
    declared = fields(model) if is_dataclass(model) else ()
    names = {*model.get_params(deep=False), *(each.name for each in declared if each.init)}
    return {name: value for name, value in vars(model).items() if name in names or _is_sklearns(name)}


def _is_sklearns(name: str) -> bool:
    return name.startswith(("_metadata_request", "_sk")) or (name.startswith("_") and "callback" in name)


def unfitted(model: M) -> M:
    """An estimator with the same parameters, not copies of them, that has learned nothing."""
    fresh = object.__new__(type(model))
    fresh.__dict__ = _parameters(model)
    return fresh


def fits(method: F) -> F:
    """A method that learns anew: it runs on an `unfitted` model, which this one adopts when all is learned."""

    @wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        with turns_of(self).writer:
            return adopt(self, method(unfitted(self), *args, **kwargs))

    return cast(F, fit)


def twin(model: M, **replaced: Any) -> M:
    """Another object with the same attributes, but for those that are replaced."""
    other = object.__new__(type(model))
    other.__dict__ = {**vars(model), **replaced}
    return other


def adopt(model: M, fitted: Any) -> M:
    """Give an estimator, in one step, all that another one of its class has learned, and nothing else."""
    given = _parameters(fitted)
    learned = {name: value for name, value in vars(fitted).items() if name not in given}
    state = {**_parameters(model), **learned}
    with alone(model, forget=False):
        model.__dict__ = state
    return model
