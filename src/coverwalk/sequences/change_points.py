"""Where a source changed, by evidence: one context tree for all symbols, or one before a place and one from it on."""

from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.sequences.evidence import evidences
from coverwalk.sequences.alphabet import Alphabet
from coverwalk.sequences.sequence_parameters import MAX_DEPTH, alphabet_for, check

__all__ = ["ChangePosterior", "change_points", "change_posterior"]


class ChangePosterior(NamedTuple):
    """What the symbols say about one change of their source.

    Attributes
    ----------
    probability : array (n,)
        P(the source changed right before symbol t, given all n symbols); 0 for the first.
    no_change : float
        P(it never changed); all these add up to one.
    log_ratio : float
        log of the evidence of two models, one before a place and one from it on, all places alike, against that of one.
    """

    probability: Floats
    no_change: float
    log_ratio: float


def change_posterior(
    sequence: Any, *, depth: int = 1, alphabet: Any = None, alpha: float = 0.5, stop: float = 0.5, prior: float = 0.5
) -> ChangePosterior:
    """The posterior of one change of the source, at each place: exact, under context tree weighting.

    A source is a context tree of at most ``depth`` symbols with a distribution in each of its leaves, both unknown.
    There is one for all symbols, or one before place t and another, independent of it, from t on, whose contexts may
    reach back before t. The evidence Z of context tree weighting sums over all trees, and it does not depend on the
    order of the symbols, each with its own context. So Z of the first t symbols comes from one pass forward and Z of
    the others from one pass backward, for all t: the cost is that of 2 (depth + 1) updates per symbol.

    Parameters
    ----------
    sequence : bytes, str, array of integers or iterable of hashables
        The symbols.
    depth : int
        The length of the longest context. Where two sources share no long contexts, one deep tree describes both of
        them, and nothing has changed: shallow contexts find more.
    alphabet : int or iterable of hashables, optional
        The symbols that there are; by default those of the sequence.
    alpha, stop : float
        The Dirichlet's pseudo-count for each symbol, and the prior probability w that a context is a leaf.
    prior : float
        The probability of a change before anything is seen; all places are equally probable.

    Returns
    -------
    ChangePosterior
        The probability of a change before each symbol, that of none, and the log of the ratio of evidences.

    Examples
    --------
    >>> found = change_posterior("ab" * 20 + "aab" * 15, depth=2)
    >>> int(found.probability.argmax()), found.log_ratio > 5
    (41, True)
    >>> round(float(found.probability.sum() + found.no_change), 9)
    1.0
    """
    codes, size = _codes(sequence, alphabet, depth, alpha, stop, prior)
    return _posterior(_contexts(codes, depth), codes, size, alpha, stop, prior)


def change_points(
    sequence: Any, *, depth: int = 1, alphabet: Any = None, alpha: float = 0.5, stop: float = 0.5, prior: float = 0.5
) -> list[int]:
    """Places where the source changed, sorted: each is the first symbol of a new source.

    The sequence is cut at the most probable place of a change, and each part again, as long as a change is more
    probable than none. Each cut is the exact mode of `change_posterior` within its part. Cutting one place after the
    other is greedy: it is not the posterior over all sets of places. For parameters see `change_posterior`.

    >>> change_points("ab" * 30 + "aab" * 20 + "ab" * 30, depth=2)
    [61, 121]
    """
    codes, size = _codes(sequence, alphabet, depth, alpha, stop, prior)
    contexts = _contexts(codes, depth)
    found, parts = [], [(0, len(codes))]
    while parts:
        begin, end = parts.pop()
        posterior = _posterior(contexts[begin:end], codes[begin:end], size, alpha, stop, prior)
        if posterior.no_change < 0.5:
            place = begin + int(posterior.probability.argmax())
            found.append(place)
            parts += [(begin, place), (place, end)]
    return sorted(found)


def _codes(sequence: Any, alphabet: Any, depth: int, alpha: float, stop: float, prior: float) -> tuple[Ints, int]:
    check("depth", depth, 0 <= depth <= MAX_DEPTH, f"from 0 to {MAX_DEPTH}")
    check("alpha", alpha, alpha > 0, "positive")
    check("stop", stop, 0 < stop < 1, "between 0 and 1")
    check("prior", prior, 0 < prior < 1, "between 0 and 1")
    known = Alphabet([], grows=True) if alphabet is None else alphabet_for(alphabet, sequence)
    codes, fresh = known.encode(sequence)
    return codes.astype(np.int64), max(len(known) + len(fresh), 1)


def _contexts(codes: Ints, depth: int) -> Ints:
    """The contexts of each symbol, order 0 to ``depth``, numbered (n, depth + 1); before the beginning is -1."""
    numbers = np.zeros((len(codes), depth + 1), np.int64)
    first = 1
    for k in range(1, depth + 1):
        symbol = np.concatenate([np.full(min(k, len(codes)), -1), codes[: max(len(codes) - k, 0)]])
        numbers[:, k] = first + _numbered(numbers[:, k - 1], symbol)
        first = int(numbers[:, k].max(initial=first - 1)) + 1
    return numbers


def _numbered(a: Ints, b: Ints) -> Ints:
    """One number, from 0 on, for each different pair."""
    return np.unique(a * (b.max(initial=0) + 2) + b + 1, return_inverse=True)[1].reshape(a.shape)


def _posterior(contexts: Ints, codes: Ints, size: int, alpha: float, stop: float, prior: float) -> ChangePosterior:
    n = len(codes)
    if n < 2:
        return ChangePosterior(np.zeros(n), 1.0, 0.0)
    entries = _numbered(contexts, np.repeat(codes[:, None], contexts.shape[1], axis=1))
    contexts = np.unique(contexts, return_inverse=True)[1].reshape(contexts.shape)  # the empty one stays 0
    forward = _evidences(contexts, entries, alpha, size, stop)
    backward = _evidences(contexts[::-1].copy(), entries[::-1].copy(), alpha, size, stop)[::-1]
    two = forward[:-1] + backward[1:]  # a change before symbols 1, 2, ..., n - 1
    both = np.logaddexp.reduce(two) - np.log(n - 1)
    log_ratio = float(both - forward[-1])
    log_change = np.log(prior) + log_ratio - np.logaddexp(np.log1p(-prior), np.log(prior) + log_ratio)
    probability = np.append(0.0, np.exp(log_change + two - both) / (n - 1))
    return ChangePosterior(probability, float(-np.expm1(log_change)), log_ratio)


def _evidences(contexts: Ints, entries: Ints, alpha: float, size: int, stop: float) -> Floats:
    out = np.empty(len(contexts))
    evidences(contexts, entries, float(alpha), size, float(stop), out)
    return out
