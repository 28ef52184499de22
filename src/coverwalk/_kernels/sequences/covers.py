"""The covers of the past: which contexts the next symbol has, as hashes, and the longest match."""

import numpy as np

from coverwalk._arrays import Bytes, Ints, Ints32, UInts
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.sequences.store import COVERS, LAST8, MAX_PERIOD, PREVIOUS, WORD

# The family of each hashing cover, in the order of `contexts`; order zero and the match come after them.
NAMES = (
    *("suffix",) * 6,
    *("word",) * 2,
    *("sparse",) * 3,
    *("record",) * 4,
    *("image",) * 2,
)
assert len(NAMES) == COVERS

MIN_DIP = 0.15  # chance alone makes dips of 0.07
PERIOD_EVERY, PERIOD_SAMPLES = 1024, 128  # symbols from one look for a period to the next, and how many are compared
MATCH_LENGTHS = (12, 6)  # symbols that a match has at least
MAX_VERIFIED = 48  # symbols of a match that are compared


@kernel
def hash2(a: np.uint64, b: np.uint64) -> np.uint64:
    """Two numbers well mixed into one."""
    x = (a + np.uint64(0x632BE59BD9B4E019)) * np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(32)
    x = (x + b + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(29))


@kernel
def advance_past(past: UInts, symbol: int) -> None:
    """Put a symbol behind: the last eight, and the words of letters, small and capital alike."""
    past[LAST8] = (past[LAST8] << np.uint64(8)) | np.uint64(symbol)
    letter = symbol + 32 if 65 <= symbol <= 90 else symbol
    if 97 <= letter <= 122 or letter >= 128:
        past[WORD] = hash2(past[WORD], np.uint64(letter))
    elif past[WORD] != np.uint64(0):
        past[PREVIOUS] = past[WORD]
        past[WORD] = np.uint64(0)


@kernel
def _back(ring: Bytes, position: int, known: int, distance: int) -> np.uint64:
    """The symbol at a distance back in this document, 0 before its beginning."""
    if distance > known or distance <= 0 or distance > len(ring):
        return np.uint64(0)
    return np.uint64(ring[(position - distance) & (len(ring) - 1)])


@kernel
def contexts(past: UInts, ring: Bytes, position: int, known: int, period: int, out: UInts) -> None:
    """The contexts of the next symbol as hashes, one for each built-in cover.

    ring (2^k,)   the past itself, the newest symbol at position - 1; ``known`` symbols of it are of this document
    out           written
    """
    c = past[LAST8]
    b8, b16 = np.uint64(8), np.uint64(16)
    c1 = c & np.uint64(0xFF)
    begun = np.uint64(min(known, 8)) << np.uint64(32)  # a document's beginning is a context of its own
    c23 = (c >> b8) & np.uint64(0xFFFF)
    c34 = (c >> b16) & np.uint64(0xFFFF)
    for k in range(5):
        order = k + 1 if k < 4 else 6
        kept = c & ((np.uint64(1) << np.uint64(8 * order)) - np.uint64(1))
        out[k] = hash2(np.uint64(order) + (begun if known < order else np.uint64(0)), kept)
    out[5] = hash2(np.uint64(8) + (begun if known < 8 else np.uint64(0)), c)
    word, previous = past[WORD], past[PREVIOUS]
    out[6] = hash2(word, c1 + np.uint64(0x700))
    out[7] = hash2(word, previous)
    out[8] = hash2(np.uint64(9), c23)
    out[9] = hash2(np.uint64(10), c34)
    out[10] = hash2(np.uint64(11), c1 | (c34 << b8))
    p = np.uint64(period)
    above, above2 = _back(ring, position, known, period), _back(ring, position, known, 2 * period)
    left, right = _back(ring, position, known, period + 1), _back(ring, position, known, period - 1)
    column = np.uint64(known % period)
    out[11] = hash2(np.uint64(12) + (p << b8), above | (above2 << b8))
    out[12] = hash2(np.uint64(13) + (p << b8), above | (c1 << b8))
    out[13] = hash2(np.uint64(14) + (p << b8), column | (c1 << b16))
    out[14] = hash2(np.uint64(15) + (p << b8), column | (above << b16))
    out[15] = hash2(np.uint64(16) + (p << b8), c1 | (above << b8) | (left << b16))
    out[16] = hash2(np.uint64(17) + (p << b8), above | (right << b8) | (c1 << b16))


@kernel
def _dip(differences: Ints, distance: int) -> float:
    """By what part symbols differ less at this distance than at those beside it, on either side."""
    reach = 1 if distance < 8 else 3
    beside = min(differences[distance - reach], differences[distance + reach])
    return 1.0 - (differences[distance] + 1.0) / (beside + 1.0)


@kernel
def find_period(differences: Ints, history: Bytes, position: int, known: int, period: int) -> int:
    """The period of the newest symbols, 0 if they have none: a distance at which they differ less than beside it.

    differences (1025,)   by distance: sums of absolute differences, fading; distance 0 counts the looks
    period                the present one: it stays until another is clearly better
    """
    longest = min(MAX_PERIOD, known - PERIOD_EVERY)
    newest = np.empty(PERIOD_EVERY + MAX_PERIOD, np.int32)  # the newest first
    for k in range(PERIOD_EVERY + longest):
        newest[k] = history[(position - 1 - k) & (len(history) - 1)]
    total = np.zeros(MAX_PERIOD + 1, np.int32)
    for k in range(PERIOD_SAMPLES):
        place = np.uint64(k * (PERIOD_EVERY // PERIOD_SAMPLES) + (k & 7))
        here = newest[place]
        for distance in range(np.uint64(1), np.uint64(longest + 1)):
            total[distance] += abs(np.int32(here - newest[place + distance]))
    differences[0] += 1
    for distance in range(1, longest + 1):
        differences[distance] += total[distance]
    best, found = MIN_DIP, 0
    if 0 < period < longest - 3:
        best, found = max(best, _dip(differences, period)), period
    if differences[0] >= 4:
        for distance in range(2, longest - 3):
            dip = _dip(differences, distance)
            if dip > best * (1.0 if found == 0 else 1.25):  # a multiple of a period is as good: take the first
                best, found = dip, distance
    for distance in range(1, MAX_PERIOD + 1):
        differences[distance] -= differences[distance] >> 4
    return found


@kernel
def match_slot(ring: Bytes, position: int, length: int, size: int) -> int:
    """Where the table of matches keeps what followed the last ``length`` symbols."""
    mask = len(ring) - 1
    h = np.uint64(length)
    for back in range(1, length + 1):
        h = (h + np.uint64(ring[(position - back) & mask]) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(31)
    return int(((h >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@kernel
def find_match(matches: Ints32, history: Bytes, ring: Bytes, position: int, known: int, found: Ints) -> None:
    """The newest earlier place with the same last symbols: found[0] is the symbol that came next or -1, found[1] a
    bucket for how long the match is, found[2 and 3] the slots where this place belongs or -1.
    """
    found[0] = -1
    found[1] = 0
    mask, own = len(history) - 1, len(ring) - 1
    for which in range(2):
        length = MATCH_LENGTHS[which]
        found[2 + which] = -1
        if known < length:
            continue
        slot = match_slot(ring, position, length, matches.shape[1])
        found[2 + which] = slot
        place = np.int64(matches[which, slot]) - 1
        if found[0] >= 0 or place < 0:
            continue
        same = 0
        most = min(known, MAX_VERIFIED)
        while same < most and history[(place - same - 1) & mask] == ring[(position - same - 1) & own]:
            same += 1
        if same >= length:
            found[0] = np.int64(history[place & mask])
            found[1] = min(same, 16) if same < 32 else 17 + (same >= MAX_VERIFIED)
