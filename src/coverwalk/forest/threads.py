"""One map over threads for all forests; the kernels hold no lock."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["in_threads"]

T = TypeVar("T")
S = TypeVar("S")


def in_threads(function: Callable[[S], T], items: Iterable[S], n_threads: int, shown: str = "") -> list[T]:
    """Results in the order of the items, whatever the number of threads.

    shown: name of a progress bar, if a terminal is to have one.
    """
    if shown:
        return _shown(function, list(items), n_threads, shown)
    if n_threads == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, items))


def _shown(function: Callable[[S], T], items: list[S], n_threads: int, name: str) -> list[T]:
    from tqdm import tqdm

    with tqdm(total=len(items), desc=name, unit="tree", leave=False, disable=None) as bar:

        def one(item: S) -> T:
            result = function(item)
            bar.update()
            return result

        return in_threads(one, items, n_threads)
