"""Whole-number logistic functions, and bit histories: tables, so that every machine computes the same bits.

Probabilities have 16 bits, log-odds are in units of 1/256 and reach from -2047 to 2047 as inputs.
"""

import math

import numpy as np

from coverwalk._arrays import Bytes, Ints, Ints32

MAX_ODDS = 2800  # of a final log-odds: 1.8e-5 is the smallest probability of a bit


def _squash() -> Ints32:
    """1 / (1 + exp(-d / 256)) for d = -3072 .. 3071, in 1/65536."""
    p = [round(65536 / (1 + math.exp(-(i - 3072) / 256))) for i in range(6144)]
    return np.clip(p, 1, 65535).astype(np.int32)


def _stretch() -> Ints32:
    """256 log(p / (1 - p)) for p = (i + 1/2) / 4096."""
    d = [round(256 * math.log((i + 0.5) / (4095.5 - i))) for i in range(4096)]
    return np.clip(d, -2047, 2047).astype(np.int32)


_BOUNDS = (20, 48, 15, 8, 6, 5)  # by the smaller count: how large the other may be


def _ways(n0: int, n1: int) -> int:
    """How many histories have these counts: none, one, or two, by the newest bit."""
    large, small = max(n0, n1), min(n0, n1)
    if small >= len(_BOUNDS) or large > _BOUNDS[small]:
        return 0
    return 2 if small > 0 and large + small <= 17 else 1


def _after(n0: int, n1: int, bit: int) -> tuple[int, int]:
    """The counts after a bit: the other one, where large, is reduced, for what is new says more than what is old."""
    if n0 < n1:
        n1, n0 = _after(n1, n0, 1 - bit)
        return n0, n1
    reduced = (0, 1, 2, 3, 4, 5, 5, 6)
    if bit:
        n0, n1 = (reduced[n0] if n0 < 8 else 7), n1 + 1
    else:
        n0, n1 = n0 + 1, (reduced[n1] if n1 < 8 else 7)
    while not _ways(n0, n1):
        if n1 < 2:
            n0 -= 1
        else:
            n0, n1 = (n0 * (n1 - 1) + n1 // 2) // n1, n1 - 1
    return n0, n1


def _histories() -> tuple[Bytes, Bytes, Ints]:
    """Bit histories in one byte, after M. Mahoney's ZPAQ: bounded counts of zeros and ones, and the newest bit.

    The state after each bit (512,), two per state; the state with its counts halved (256,), rounded up, so that what
    was met stays known; and the first guess of P(1) in 22 bits (256,). State 0 is new; larger numbers have seen more.
    """
    states = [
        (n0, total - n0, last)
        for total in range(64)
        for n0 in range(total, -1, -1)
        for last in range(_ways(n0, total - n0))
    ]
    number = {state: i for i, state in enumerate(states)}
    following, halved, p = np.zeros(512, np.uint8), np.zeros(256, np.uint8), np.full(256, 1 << 21, np.int64)
    for i, (n0, n1, last) in enumerate(states):
        m0, m1 = (n0 + 1) // 2, (n1 + 1) // 2
        while not _ways(m0, m1):
            m0, m1 = (m0 - 1, m1) if m0 > m1 else (m0, m1 - 1)
        halved[i] = number[m0, m1, last if _ways(m0, m1) == 2 else 0]
        p[i] = round((1 << 22) * (n1 + 0.4) / (n0 + n1 + 0.8))
        for bit in (0, 1):
            m0, m1 = _after(n0, n1, bit)
            following[2 * i + bit] = number[m0, m1, bit if _ways(m0, m1) == 2 else 0]
    return following, halved, p


SQUASH = _squash()
STRETCH = _stretch()
HISTORY_NEXT, HISTORY_HALF, HISTORY_P = _histories()
RATES = np.array([round(65536 / (n + 1.5)) for n in range(1024)], np.int64)  # of a mean over n + 1.5 observations
