"""One map over threads for all forests; the kernels hold no lock."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
