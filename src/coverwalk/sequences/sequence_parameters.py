"""The parameters of a SequenceModel, checked, and as the kernels want them."""

import math
import re
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from coverwalk._kernels.sequences import suffix_store, suffix_walk
from coverwalk._kernels.sequences.suffix_store import SuffixStore
from coverwalk.sequences.alphabet import BYTES, Alphabet
from coverwalk.sequences.lattice_engine import FAMILIES

if TYPE_CHECKING:
    from coverwalk.sequence import SequenceModel

__all__ = ["alphabet_for", "check", "check_parameters", "memory_bytes", "nats_per", "new_suffix_store"]

MAX_DEPTH = 64
_DEPTH = 16
MAX_DECAY = 0.01
MAX_SYMBOLS = 2**24
MIN_MEMORY, MAX_MEMORY = 8 << 20, 2**62
_NATS_PER = {"nats": 1.0, "bits": math.log(2.0)}

# The mixed estimator's first guesses, and how fast its tied log-odds climb the slope of log psi: w, d, v of full
# counts, v of the newest symbol. One set for all data; half or twice these rates change little.
_FIRST = np.array([0.5, 0.7, 0.1, 0.05])
_RATES = (0.08, 0.1, 0.05, 0.1)
_SHARE = 0.02
_CONCENTRATION = 2.0


def check(name: str, value: object, holds: bool, expected: str) -> None:
    """Complain about a parameter that is not as expected."""
    if not holds:
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def nats_per(unit: str) -> float:
    """How many nats one unit of information is."""
    check("unit", unit, unit in _NATS_PER, '"nats" or "bits"')
    return _NATS_PER[unit]


def _is_integer(value: object, low: int, high: float) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def _is_number(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float | np.number) and bool(low <= value <= high)


def check_parameters(model: "SequenceModel") -> None:
    """``ValueError`` for parameters that cannot be."""
    tiny = np.finfo(float).tiny
    depth = model.depth
    check(
        "depth", depth, depth is None or _is_integer(depth, 0, MAX_DEPTH), f"an integer from 0 to {MAX_DEPTH}, or None"
    )
    check("effort", model.effort, _is_integer(model.effort, 0, 3), "0, 1, 2 or 3")
    check("memory", model.memory, MIN_MEMORY <= memory_bytes(model.memory) <= MAX_MEMORY, 'at least "8MB"')
    lattice_covers(model)
    check("walk", model.walk, model.walk in ("coarsen", "refine"), '"coarsen" or "refine"')
    check("estimator", model.estimator, model.estimator in ("auto", "dirichlet"), '"auto" or "dirichlet"')
    check(
        "alpha",
        model.alpha,
        model.alpha is None or _is_number(model.alpha, 1e-100, 1e100),
        "from 1e-100 to 1e100, or None",
    )
    check("stop", model.stop, model.stop is None or _is_number(model.stop, tiny, 1 - 1e-16), "between 0 and 1, or None")
    share = model.switching
    check("switching", share, share is None or _is_number(share, 0.0, 0.49), "from 0 to 0.49, or None")
    check("forget", model.forget, _is_number(model.forget, 0.0, MAX_DECAY), f"from 0 to {MAX_DECAY}")
    mixed = model.walk == "coarsen" and model.estimator == "auto"
    check("stop", model.stop, not mixed or model.stop is None, 'None with estimator="auto", which learns it')


def memory_bytes(memory: str | int) -> int:
    """A memory in bytes, from a number or a text such as "256MB".

    >>> memory_bytes("1.5 GB") == 3 * 2**29
    True
    """
    if _is_integer(memory, 0, MAX_MEMORY):
        return int(memory)
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([KMGT]?)i?B\s*", str(memory), re.IGNORECASE)
    check("memory", memory, isinstance(memory, str) and found is not None, 'bytes, or a text such as "256MB"')
    assert found is not None
    return int(float(found[1]) * 1024 ** ("KMGT".find(found[2].upper()) + 1 if found[2] else 0))


def is_lattice(model: "SequenceModel", alphabet: Alphabet) -> bool:
    """Whether the lattice of covers learns this alphabet: bytes, and nothing set that only the suffix tree knows."""
    plain = model.walk == "coarsen" and model.estimator == "auto"
    unset = model.depth is None and model.alpha is None and model.switching is None
    return bool(model.effort and plain and unset and alphabet.symbols == list(range(256)) and not alphabet.grows)


def lattice_covers(model: "SequenceModel") -> tuple[tuple[str, ...], tuple[Callable[..., int], ...]]:
    """The families of covers by name, and the functions that are covers of the user's own."""
    if model.covers is None:
        return (("suffix", "match") if model.effort == 1 else FAMILIES), ()
    wrong = [c for c in model.covers if not callable(c) and c not in FAMILIES] if _is_several(model.covers) else [0]
    check("covers", model.covers, not wrong and len(model.covers) > 0, f"some of {FAMILIES} and functions, or None")
    functions = tuple(cover for cover in model.covers if callable(cover))
    return tuple(cover for cover in model.covers if isinstance(cover, str)), functions


def _is_several(covers: object) -> bool:
    return isinstance(covers, list | tuple)


def new_suffix_store(model: "SequenceModel", alphabet: Alphabet) -> SuffixStore:
    """An empty suffix tree with the settings and the tied log-odds that a model starts with."""
    depth = _DEPTH if model.depth is None else int(model.depth)
    mode = suffix_walk.COARSEN_MIXED if model.estimator == "auto" else suffix_walk.COARSEN_DIRICHLET
    if model.walk == "refine":
        mode = suffix_walk.REFINE
    mixed = mode == suffix_walk.COARSEN_MIXED
    settings = np.empty(suffix_walk.RATE + len(_RATES))
    settings[suffix_walk.DEPTH] = depth
    settings[suffix_walk.EAGER] = mode == suffix_walk.COARSEN_DIRICHLET  # a fresh context has a say there
    settings[suffix_walk.MEMORY] = memory_bytes(model.memory)
    settings[suffix_walk.MODE] = mode
    settings[suffix_walk.SHARE] = (_SHARE if mixed else 0.0) if model.switching is None else model.switching
    settings[suffix_walk.ALPHA] = (_CONCENTRATION if mixed else 0.5) if model.alpha is None else model.alpha
    settings[suffix_walk.GROWING] = alphabet.grows
    settings[suffix_walk.PRIOR] = (0.5 if model.walk == "refine" else 0.0) if model.stop is None else model.stop
    settings[suffix_walk.WINDOW] = min(2 // max(model.forget, 1e-12), suffix_store.MOST_SYMBOLS)
    settings[suffix_walk.RATE :] = _RATES
    tied = np.zeros((len(_RATES), 4, suffix_walk.NEWEST_ROWS, suffix_walk.KINDS_COLUMNS))
    tied[:, 1] = np.log(_FIRST / (1 - _FIRST))[:, None, None]
    return suffix_store.new_tree(settings, tied, len(alphabet), depth)


def alphabet_for(alphabet: int | Iterable[Hashable] | None, first: Any) -> Alphabet:
    """The alphabet that was asked for, or that suits the first sequence."""
    if alphabet is None:
        return Alphabet(range(256), grows=False) if isinstance(first, BYTES) else Alphabet([], grows=True)
    if isinstance(alphabet, int | np.integer):
        check("alphabet", alphabet, 1 <= alphabet <= MAX_SYMBOLS, f"from 1 to {MAX_SYMBOLS} symbols")
        return Alphabet(range(alphabet), grows=False)
    return Alphabet(alphabet, grows=False)
