"""One map over threads for all forests, where the kernels hold no lock; and BLAS on one thread."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
S = TypeVar("S")


def one_by_one(function: Callable[[S], T], items: Iterable[S], n_threads: int) -> Iterator[T]:
    """Results in the order of the items, whatever the number of threads; none is kept that was taken."""
    if n_threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(function, items)


def in_threads(function: Callable[[S], T], items: Iterable[S], n_threads: int, shown: str = "") -> list[T]:
    """All results at once; shown: name of a progress bar, if a terminal is to have one."""
    if not shown:
        return list(one_by_one(function, items, n_threads))
    from tqdm import tqdm

    items = list(items)
    return list(tqdm(one_by_one(function, items, n_threads), shown, len(items), unit="tree", leave=False, disable=None))


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # to look for them takes as long as a small trend


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Sums of matrix products in one order, whatever the number of threads: one caller at a time, by one of BLAS.

    Products of small matrices also take a fraction of the time that they take by several, which wait for each other.

    threadpoolctl lets nobody but the thread that first set a limit set another, while it lives: it is told to forget
    that thread, which may be one that a fork has lost.
    """
    with _turn:
        for library in _libraries().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)
        with _libraries().limit(limits=1, user_api="blas"):
            yield


_turn = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turn._at_fork_reinit)  # type: ignore[attr-defined]
