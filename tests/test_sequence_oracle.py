"""The kernels of the lattice against the same thing in plain Python, symbol by symbol."""

import numpy as np
import pytest

from coverwalk._kernels.sequences import lattice_run
from coverwalk._kernels.sequences.binary_coder import start_coder
from coverwalk._kernels.sequences.covers import find_period
from coverwalk._kernels.sequences.logistic import HISTORY_HALF, HISTORY_NEXT
from coverwalk._kernels.sequences.store import DECAY, DECAY_UNIT, PERIOD, new_store
from coverwalk.sequences.lattice_engine import LatticeEngine
from tests.slow_lattice import NEW, SlowLattice, after, halved
from tests.slow_lattice import find_period as slow_find_period

RNG = np.random.default_rng(0)
TEXT = b"The cat sat on the mat; the cat sat on the hat. The Dog ate THE cat sat on the mat, and the hat! " * 4
RECORDS = np.stack([np.arange(70), RNG.integers(0, 4, 70), np.cumsum(RNG.integers(0, 9, 70))], 1).astype(np.uint8)
ALL, RING, MATCHES = range(17), 256, 64
# name: covers, data, buckets, what else
CASES = {
    "all covers": (ALL, TEXT[:350], 4000, {}),
    "suffixes": (range(5), TEXT, 4000, {}),
    "too few buckets": (ALL, TEXT[:250], 60, {}),
    "records": (ALL, RECORDS.tobytes(), 2000, {"period": 3}),
    "bytes of any value": ((0, 1, 5, 7, 13), RNG.bytes(150) + bytes(range(256)), 500, {}),
    "a run": (range(6), bytes(300), 500, {}),
    "no match": ((0, 2, 6), TEXT[:250], 1000, {"match": False}),
    "some asleep": (ALL, TEXT[:200], 1000, {"asleep": (1, 4, 11)}),
    "decay": (range(8), TEXT, 300, {"halvings": 1 / 64}),
    "functions": ((0, 1, 17, 18), TEXT[:250], 500, {}),
}


def both(covers, buckets, options):
    """A lattice of the kernels and the same in plain Python."""
    store = new_store(np.array(covers, np.uint64), buckets, RING, MATCHES)
    store.counters[PERIOD] = options.get("period", 0)
    store.counters[DECAY] = round(options.get("halvings", 0.0) / DECAY_UNIT)
    store.use[-1, 2] = not options.get("match", True)
    store.use[:-2, 2] = [cover in options.get("asleep", ()) for cover in covers]
    return store, SlowLattice(covers, buckets, RING, MATCHES, **options)


def learn(store, symbols, extra):
    losses = np.empty(len(symbols))
    codes = np.frombuffer(symbols, np.uint8).astype(np.int32)
    own = store.past, store.history, store.counters[:2]
    lattice_run.run(store, *own, codes, extra, losses, lattice_run.LEARN, start_coder(), np.empty(0, np.uint8))
    return losses


@pytest.mark.parametrize("name", CASES)
def test_losses_and_distributions_are_those_of_plain_python(name):
    covers, data, buckets, options = CASES[name]
    covers = list(covers)
    own = sum(cover >= 17 for cover in covers)
    extra = RNG.integers(0, 7, (len(data) + 1, own)).astype(np.uint64)
    store, slow = both(covers, buckets, options)
    third = len(data) // 3  # two documents, the second in two calls
    for begin, end in ((0, third), (third, 2 * third), (2 * third, len(data))):
        if begin == third:
            LatticeEngine(store).start_document(True)
            slow.start_document()
        losses = learn(store, data[begin:end], extra[begin:end])
        expected = [slow.learn(data[t], extra[t].tolist()) for t in range(begin, end)]
        np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-9)
    probability, place = np.empty(256), LatticeEngine(store).here()
    lattice_run.spread(store, place.past, place.ring, int(place.known[0]), extra[-1], probability)
    np.testing.assert_allclose(probability, slow.distribution(extra[-1].tolist()), rtol=0, atol=1e-9)
    np.testing.assert_allclose(store.use[:, 0], slow.use, rtol=1e-9)


def test_every_case_is_met():
    """The data above replace slots, wrap the history and find matches: no branch is compared by nobody."""
    covers, data, buckets, options = CASES["too few buckets"]
    _, slow = both(list(covers), buckets, options)
    replaced = 0
    for symbol in data:
        before = [slot for bucket in slow.slots for slot in bucket]
        slow.learn(symbol)
        replaced += sum(a is not None and a is not b for a, b in zip(before, (s for k in slow.slots for s in k)))
    assert replaced > 100
    covers, data, buckets, options = CASES["suffixes"]
    _, slow = both(list(covers), buckets, options)
    found = [(slow.find_match()[:2], slow.learn(symbol))[0] for symbol in data]
    assert len(data) > RING
    assert {length for _, length in found} >= {0, 7, 12, 16, 17, 18}


def test_bit_histories_are_those_of_plain_python():
    """From a new history, whatever the bits: the tables and the counts go the same way."""
    number, todo = {NEW: 0}, [NEW]
    while todo:
        state = todo.pop()
        followers = [(after(state, bit), int(HISTORY_NEXT[2 * number[state] + bit])) for bit in (0, 1)]
        for follower, code in [*followers, (halved(state), int(HISTORY_HALF[number[state]]))]:
            if follower not in number:
                number[follower] = code
                todo.append(follower)
            assert number[follower] == code
    assert len(set(number.values())) == len(number) > 200


@pytest.mark.parametrize("width", [0, 7, 80])
def test_periods_are_those_of_plain_python(width):
    data = np.cumsum(RNG.integers(-3, 4, 9000)).astype(np.uint8)
    if width:
        data = (np.resize(np.arange(width) * 31, 9000) + RNG.integers(0, 9, 9000)).astype(np.uint8)
    history, fast, slow, found, expected = np.zeros(8192, np.uint8), np.zeros(1025, np.int64), [0] * 1025, 0, 0
    periods = set()
    for known in range(2048, 9000, 1024):
        history[np.arange(known) % 8192] = data[:known]
        found = find_period(fast, history, known, known, found)
        expected = slow_find_period(slow, data[:known][::-1].tolist(), known, expected)
        assert found == expected
        assert fast.tolist() == slow
        periods.add(found)
    assert periods == ({0, width} if width else {0})
