"""The parameters of a SequenceModel, checked, and the engine that they ask for."""

import math
import re
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from coverwalk._kernels.sequences import suffix_store as at
from coverwalk._kernels.sequences.suffix_store import SuffixStore
from coverwalk.sequences.alphabet import BYTES, Alphabet
from coverwalk.sequences.lattice_engine import FAMILIES, LatticeEngine
from coverwalk.sequences.suffix_engine import SuffixEngine

if TYPE_CHECKING:
    from coverwalk.sequence import SequenceModel

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


def check_parameters(model: "SequenceModel") -> None:
    """``ValueError`` for parameters that are each as its schema has it, and yet cannot be."""
    check("memory", model.memory, MIN_MEMORY <= memory_bytes(model.memory) <= MAX_MEMORY, 'at least "8MB"')
    if model.covers is not None:
        several: bool = isinstance(model.covers, list | tuple) and len(model.covers) > 0
        known = several and all(callable(cover) or cover in FAMILIES for cover in model.covers)
        check("covers", model.covers, known, f"some of {FAMILIES} and functions, or None")
    mixed = model.walk == "coarsen" and model.estimator == "auto"
    check("stop", model.stop, not mixed or model.stop is None, 'None with estimator="auto", which learns it')


def memory_bytes(memory: str | int) -> int:
    """A memory in bytes, from a number or a text such as "256MB".

    >>> memory_bytes("1.5 GB") == 3 * 2**29
    True
    """
    if isinstance(memory, int | np.integer) and not isinstance(memory, bool):
        return int(memory)
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([KMGT]?)i?B\s*", str(memory), re.IGNORECASE)
    check("memory", memory, isinstance(memory, str) and found is not None, 'bytes, or a text such as "256MB"')
    assert found is not None
    return int(float(found[1]) * 1024 ** ("KMGT".find(found[2].upper()) + 1 if found[2] else 0))


def new_engine(model: "SequenceModel", alphabet: Alphabet, expected: int) -> SuffixEngine | LatticeEngine:
    """An engine that has learned nothing, in arrays for ``expected`` symbols.

    A lattice of covers where the symbols are the bytes, and nothing is set that only the suffix tree knows.
    """
    plain = model.walk == "coarsen" and model.estimator == "auto"
    unset = model.depth is None and model.alpha is None and model.switching is None
    if model.effort and plain and unset and alphabet.symbols == list(range(256)) and not alphabet.grows:
        memory, forget = memory_bytes(model.memory), float(model.forget)
        return LatticeEngine.new(model.effort, memory, expected, covers=model.covers, forget=forget)
    return SuffixEngine(_new_suffix_tree(model, alphabet))


def _new_suffix_tree(model: "SequenceModel", alphabet: Alphabet) -> SuffixStore:
    """An empty tree with the settings and the tied log-odds that a model starts with."""
    depth = _DEPTH if model.depth is None else int(model.depth)
    mode = at.COARSEN_MIXED if model.estimator == "auto" else at.COARSEN_DIRICHLET
    if model.walk == "refine":
        mode = at.REFINE
    mixed = mode == at.COARSEN_MIXED
    settings = np.empty(at.RATE + len(_RATES))
    settings[at.MEMORY] = memory_bytes(model.memory)
    settings[at.MODE] = mode
    settings[at.SHARE] = (_SHARE if mixed else 0.0) if model.switching is None else model.switching
    settings[at.ALPHA] = (_CONCENTRATION if mixed else 0.5) if model.alpha is None else model.alpha
    settings[at.GROWING] = alphabet.grows
    settings[at.PRIOR] = (0.5 if model.walk == "refine" else 0.0) if model.stop is None else model.stop
    settings[at.WINDOW] = min(2 // max(model.forget, 1e-12), at.MOST_SYMBOLS)
    settings[at.RATE :] = _RATES
    tied = np.zeros((len(_RATES), 4, at.NEWEST_ROWS, at.KINDS_COLUMNS))
    tied[:, 1] = np.log(_FIRST / (1 - _FIRST))[:, None, None]
    return at.new_tree(settings, tied, len(alphabet), depth)


def alphabet_for(alphabet: int | Iterable[Hashable] | None, first: Any) -> Alphabet:
    """The alphabet that was asked for, or that suits the first sequence."""
    if alphabet is None:
        return Alphabet(range(256), grows=False) if isinstance(first, BYTES) else Alphabet([], grows=True)
    if isinstance(alphabet, int | np.integer):
        check("alphabet", alphabet, 1 <= alphabet <= MAX_SYMBOLS, f"from 1 to {MAX_SYMBOLS} symbols")
        return Alphabet(range(alphabet), grows=False)
    return Alphabet(alphabet, grows=False)
