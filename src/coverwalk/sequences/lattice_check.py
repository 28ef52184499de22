"""Whether the arrays of a lattice from a file are such that its kernels stay within them.

Bit histories, maps, weights and the table of matches may hold any values of their types: kernels use them through masks
and tables that cover the whole type. What must fit are the sizes, and the few counters by which kernels index.
"""

from typing import Any

import numpy as np

from coverwalk._kernels.sequences.store import (
    APM_MASK2,
    APM_ROWS1,
    APM_STEPS,
    BUCKET,
    COVERS,
    DOCUMENT,
    EFFORT,
    MAX_PERIOD,
    MEMORY,
    PERIOD,
    POSITION,
    SETS,
    WEIGHT_ROWS,
    LatticeStore,
    n_inputs,
)

__all__ = ["lattice_fits"]

_MANY = 2**62
_RANGES = {
    POSITION: (0, _MANY),
    DOCUMENT: (0, _MANY),
    PERIOD: (0, MAX_PERIOD),
    MEMORY: (8 << 20, _MANY),
    EFFORT: (1, 3),
}


def _layout(covers: int) -> dict[str, tuple[Any, tuple[int | None, ...]]]:
    """By field: its type, and its shape; None is any length."""
    return {
        "slots": (np.uint8, (None,)),
        "maps": (np.uint32, (256 * (covers + 1),)),
        "weights": (np.int32, (WEIGHT_ROWS * n_inputs(covers),)),
        "finals": (np.int32, (256, SETS)),
        "refined": (np.uint16, ((int(APM_ROWS1 + APM_MASK2) + 1) * APM_STEPS,)),
        "zero": (np.uint8, (256,)),
        "history": (np.uint8, (None,)),
        "matches": (np.int32, (2, None)),
        "hits": (np.int64, (64,)),
        "differences": (np.int64, (MAX_PERIOD + 1,)),
        "use": (np.float64, (covers + 2, 3)),
        "past": (np.uint64, (3,)),
        "counters": (np.int64, (len(_RANGES),)),
        "covers": (np.uint64, (covers,)),
    }


def lattice_fits(store: LatticeStore) -> bool:
    """Whether kernels may work on these arrays."""
    if not all(isinstance(array, np.ndarray) for array in store) or store.covers.ndim != 1:
        return False
    for name, (dtype, shape) in _layout(len(store.covers)).items():
        array = getattr(store, name)
        same = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape))
        if array.dtype != dtype or not same:
            return False
    counters = store.counters.tolist()
    return (
        all(low <= counters[place] <= high for place, (low, high) in _RANGES.items())
        and counters[DOCUMENT] <= counters[POSITION]
        and len(store.slots) % BUCKET == 0
        and len(store.slots) >= 2 * BUCKET
        and len(store.history) >= 4096
        and len(store.history).bit_count() == 1
        and store.matches.shape[1] > 0
        and 0 < len(store.covers) <= COVERS + 64
        and len(np.unique(store.covers)) == len(store.covers)
        and bool((store.covers < COVERS + len(store.covers)).all())
        and bool(((store.hits >= 0) & (store.hits < 1 << 22)).all())
        and bool(((store.differences >= 0) & (store.differences < 1 << 40)).all())
        and bool(np.isfinite(store.use).all())
    )
