"""Whether the arrays of a SequenceModel from a file fit together: the kernels follow links without looking."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels import suffix_tree, suffix_walk
from coverwalk._kernels.sequences.store import LatticeStore
from coverwalk._kernels.suffix_tree import SuffixStore
from coverwalk.sequences.lattice_check import lattice_fits
from coverwalk.sequences.sequence_parameters import MAX_DEPTH

__all__ = ["check_store"]


def check_store(store: Any, alphabet: int) -> None:
    """Raise ``ValueError`` for arrays that no model could have come to."""
    if isinstance(store, LatticeStore):
        fits = alphabet == 256 and lattice_fits(store)
    else:
        depth = len(store.path) - 2
        fits = isinstance(store, SuffixStore) and 0 <= depth <= MAX_DEPTH and _shapes_fit(store, depth)
        fits = fits and _links_fit(store, alphabet) and _lists_end(store)
    if not fits:
        raise ValueError("the contexts of this SequenceModel do not fit together")


def _shapes_fit(store: SuffixStore, depth: int) -> bool:
    like = suffix_tree.new_tree(np.zeros(suffix_walk.RATE + 4), np.zeros((0, 0, 0, 0)), 0, depth)
    tied = (4, 4, suffix_walk.NEWEST_ROWS, suffix_walk.KINDS_COLUMNS)
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(store[:9], like[:9]))
    if any(a.dtype != b.dtype or a.ndim != b.ndim or a.shape[1:] != b.shape[1:] for a, b in pairs):
        return False
    if len(store.size) != len(like.size) or len(store.path) != depth + 2 or len(store.path_entry) != depth + 2:
        return False
    if store.tied.shape != tied or store.settings.shape != like.settings.shape:
        return False
    nodes, entries, history, path = (int(n) for n in store.size[:4])
    return (
        2 <= nodes <= min(len(store.node_value), len(store.node_link))
        and 0 <= entries <= min(len(store.entry_value), len(store.entry_link), len(store.table) // 2)
        and len(store.table).bit_count() == 1
        and 0 <= int(store.size[suffix_tree.BEGIN]) <= history <= len(store.history)
        and 1 <= path <= depth + 1
        and 1 <= int(store.size[suffix_tree.START]) <= 2
        and all(bool(np.isfinite(values).all()) for values in (store.node_value[:nodes], store.tied, store.settings))
        and bool(np.isfinite(store.entry_value[:entries]).all())
        and float(store.settings[suffix_walk.DEPTH]) == depth
    )


def _within(values: NDArray[Any], low: int, high: int) -> bool:
    """Whether all lie from ``low`` to below ``high``."""
    return bool(((values >= low) & (values < high)).all())


def _links_fit(store: SuffixStore, alphabet: int) -> bool:
    nodes, entries, history, length = (int(n) for n in store.size[:4])
    head, kinds, last, parent, label = store.node_link[:nodes].T
    symbol, following, successor, owner = store.entry_link[:entries].T
    path = store.path[:length]
    return (
        _within(head, -1, entries)
        and _within(kinds, 0, alphabet + 1)
        and _within(last, -1, alphabet)
        and _within(label, -1, alphabet)
        and bool((parent[1:] >= 0).all() and (parent < np.arange(nodes)).all())
        and _within(symbol, 0, alphabet)
        and _within(following, -1, entries)
        and _within(successor, -2 - history, nodes)
        and _within(owner, 0, nodes)
        and _within(store.table, -1, entries)
        and int((store.table >= 0).sum()) == entries
        and _within(store.history[:history], -1, alphabet)
        and _within(path[path != suffix_tree.FRESH], -history, nodes)
        and _within(store.path_entry[:length], -1, entries)
        and int(store.size[suffix_tree.ALPHABET]) == alphabet
    )


def _lists_end(store: SuffixStore) -> bool:
    """Whether no list of entries is a ring: new ones come right after the head, so all others point backwards."""
    nodes, entries = (int(n) for n in store.size[:2])
    head, following = store.node_link[:nodes, suffix_tree.HEAD], store.entry_link[:entries, suffix_tree.NEXT]
    is_head = np.zeros(entries, np.bool_)
    is_head[head[head >= 0]] = True
    to_head = is_head[following] & (following >= 0)
    return bool((~to_head & (is_head | (following < np.arange(entries)))).all())
