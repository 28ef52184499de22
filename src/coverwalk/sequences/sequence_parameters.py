"""The parameters of a SequenceModel, checked, and as the kernels want them."""

import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels import suffix_walk
from coverwalk.sequences.alphabet import BYTES, Alphabet

if TYPE_CHECKING:
    from coverwalk.sequence import SequenceModel

__all__ = ["alphabet_for", "check", "kernel_settings", "nats_per"]

_MAX_DEPTH = 64
_MAX_CONTEXTS = 2**31 - 2  # contexts are numbered in 32 bits
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


def _check_all(model: "SequenceModel") -> None:
    tiny = np.finfo(float).tiny
    check("depth", model.depth, _is_integer(model.depth, 0, _MAX_DEPTH), f"an integer from 0 to {_MAX_DEPTH}")
    check("walk", model.walk, model.walk in ("coarsen", "refine"), '"coarsen" or "refine"')
    check("estimator", model.estimator, model.estimator in ("auto", "dirichlet"), '"auto" or "dirichlet"')
    check("alpha", model.alpha, model.alpha is None or _is_number(model.alpha, tiny, 1e300), "positive, or None")
    check("stop", model.stop, model.stop is None or _is_number(model.stop, tiny, 1 - 1e-16), "between 0 and 1, or None")
    share = model.switching
    check("switching", share, share is None or _is_number(share, 0.0, 0.49), "from 0 to 0.49, or None")
    most = model.max_contexts
    check("max_contexts", most, most is None or _is_integer(most, 2, math.inf), "an integer, 2 or more, or None")
    mixed = model.walk == "coarsen" and model.estimator == "auto"
    check("stop", model.stop, not mixed or model.stop is None, 'None with estimator="auto", which learns it')


def kernel_settings(model: "SequenceModel", grows: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The settings and the tied log-odds that a model starts with; ``ValueError`` for parameters that cannot be."""
    _check_all(model)
    mode = suffix_walk.COARSEN_MIXED if model.estimator == "auto" else suffix_walk.COARSEN_DIRICHLET
    if model.walk == "refine":
        mode = suffix_walk.REFINE
    mixed = mode == suffix_walk.COARSEN_MIXED
    settings = np.empty(suffix_walk.RATE + len(_RATES))
    settings[suffix_walk.DEPTH] = model.depth
    settings[suffix_walk.EAGER] = mode == suffix_walk.COARSEN_DIRICHLET  # a fresh context has a say there
    settings[suffix_walk.BUDGET] = min(model.max_contexts or _MAX_CONTEXTS, _MAX_CONTEXTS)
    settings[suffix_walk.MODE] = mode
    settings[suffix_walk.SHARE] = (_SHARE if mixed else 0.0) if model.switching is None else model.switching
    settings[suffix_walk.ALPHA] = (_CONCENTRATION if mixed else 0.5) if model.alpha is None else model.alpha
    settings[suffix_walk.GROWING] = grows
    settings[suffix_walk.PRIOR] = (0.5 if model.walk == "refine" else 0.0) if model.stop is None else model.stop
    settings[suffix_walk.RATE :] = _RATES
    tied = np.zeros((len(_RATES), 4, suffix_walk.NEWEST_ROWS, suffix_walk.KINDS_COLUMNS))
    tied[:, 1] = np.log(_FIRST / (1 - _FIRST))[:, None, None]
    return settings, tied


def alphabet_for(alphabet: int | Iterable[Hashable] | None, first: Any) -> Alphabet:
    """The alphabet that was asked for, or that suits the first sequence."""
    if alphabet is None:
        return Alphabet(range(256), grows=False) if isinstance(first, BYTES) else Alphabet([], grows=True)
    if isinstance(alphabet, int | np.integer):
        check("alphabet", alphabet, alphabet >= 1, "at least 1 symbol")
        return Alphabet(range(alphabet), grows=False)
    return Alphabet(alphabet, grows=False)
