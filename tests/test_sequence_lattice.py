"""What the lattice of covers promises: SequenceModel on bytes."""

import pickle
import signal
import threading
import time
from copy import deepcopy

import numpy as np
import pytest

from coverwalk import SequenceModel, load
from coverwalk._kernels.sequences.logistic import HISTORY_HALF, HISTORY_NEXT, HISTORY_P, SQUASH, STRETCH
from coverwalk._kernels.sequences.store import DOCUMENT, PERIOD, POSITION, LatticeStore
from coverwalk._kernels.sequences.suffix_store import HISTORY
from coverwalk.sequence import MANY_SYMBOLS
from coverwalk.sequences import lattice_engine

RNG = np.random.default_rng(0)
WORDS = b"it was the best of times worst age wisdom foolishness epoch belief season light darkness".split()
TEXT = b" ".join(WORDS[i] for i in RNG.integers(0, len(WORDS), 1500))


def column(past, position):
    return position % 7


MODELS = {
    "default": {},
    "effort 1": {"effort": 1},
    "effort 3": {"effort": 3},
    "some covers": {"covers": ["suffix", "record"]},
    "own cover": {"covers": ["suffix", column]},
}
every_model = pytest.mark.parametrize("parameters", MODELS.values(), ids=MODELS)


def state(model):
    return pickle.dumps([array.tobytes() for array in model._engine.store])


def bits(data, **parameters):
    return SequenceModel(256, **parameters).prequential(data, unit="bits").mean()


def test_bytes_are_learned_by_the_lattice_unless_told_otherwise():
    assert isinstance(SequenceModel().fit(TEXT[:50])._engine.store, LatticeStore)
    assert isinstance(SequenceModel(256).fit(list(TEXT[:50]))._engine.store, LatticeStore)
    for parameters in ({"effort": 0}, {"depth": 5}, {"walk": "refine"}, {"switching": 0.1}, {"alphabet": 255}):
        assert not isinstance(SequenceModel(**parameters).fit(TEXT[:50])._engine.store, LatticeStore)


@every_model
def test_laws(parameters):
    """Sums to one, known and unseen contexts alike; reading changes nothing; losses are those of the distribution."""
    model = SequenceModel(**parameters)
    assert np.isfinite(model.prequential(TEXT[:3000])).all()
    before = state(model)
    for context in (None, b"", b"it was", b"\xff\x00", TEXT[:3000]):
        p = model.predict_proba(context)
        assert p.shape == (256,)
        assert (p > 0).all()
        assert abs(p.sum() - 1) < 1e-9
    read = model.losses(TEXT[3000:3030], context=TEXT[:3000])
    for i in (0, 1, 29):
        p = model.predict_proba(TEXT[: 3000 + i])
        assert read[i] == pytest.approx(-np.log(p[TEXT[3000 + i]]), abs=1e-9)
    assert type(model.sample(5, seed=0)) is bytes
    assert (model.anomaly_scores(TEXT[:20]) >= 0).all()
    assert sum(model.contributions().values()) == pytest.approx(1)
    assert state(model) == before


@every_model
def test_what_is_predicted_is_what_is_charged(parameters):
    """Up to one thing: learning, a bit is learned before the next one of its symbol is predicted."""
    model = SequenceModel(**parameters).fit(TEXT[:2000])
    charged, predicted = [], []
    for i in range(2000, 2060):
        now, again = model.predict_proba(), model.predict_proba(TEXT[:i])
        np.testing.assert_allclose(again, now, rtol=1e-12)
        charged.append(model.prequential(TEXT[i : i + 1], new_document=False)[0])
        predicted.append(-np.log(now[TEXT[i]]))
    np.testing.assert_allclose(charged, predicted, rtol=0.15, atol=0.01)
    assert sum(charged) == pytest.approx(sum(predicted), rel=0.02)


@every_model
def test_symbol_by_symbol_is_the_same(parameters):
    whole, stepwise = SequenceModel(**parameters).fit(TEXT[:300]), SequenceModel(**parameters)
    stepwise.update(TEXT[:1])
    for symbol in TEXT[1:100]:
        stepwise.update(symbol)
    stepwise.update(TEXT[100:300])
    assert state(whole) == state(stepwise)


@every_model
def test_pickle_and_files_go_on_where_it_was(parameters, tmp_path):
    model = SequenceModel(**parameters).fit_documents([TEXT[:100], TEXT[50:300], b""])
    copies = [pickle.loads(pickle.dumps(model))]
    if column not in parameters.get("covers", ()):  # a function is in no file
        model.save(tmp_path / "model")
        copies.append(load(tmp_path / "model"))
    losses = model.prequential(TEXT[300:400])
    for copy in copies:
        np.testing.assert_array_equal(copy.prequential(TEXT[300:400]), losses)


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("slots", lambda a: a[:100]), ("slots", lambda a: a[:64]), ("maps", lambda a: a[:-1]),
        ("weights", lambda a: a[:-8]), ("history", lambda a: a[:5000]), ("history", lambda a: a[:16]),
        ("matches", lambda a: a[:, :0]), ("refined", lambda a: a[:-1]), ("finals", lambda a: a[:4]),
        ("covers", lambda a: a + 400), ("hits", lambda a: a - 2**40), ("use", lambda a: a * np.nan),
        ("counters", lambda a: np.where(np.arange(6) == PERIOD, 5000, a)),
        ("counters", lambda a: np.where(np.arange(6) == POSITION, -1, a)),
        ("counters", lambda a: np.where(np.arange(6) == DOCUMENT, 2**61, a)),
        ("counters", lambda a: np.where(np.arange(6) == POSITION, 2**40, a)),  # a history longer than there is
        ("covers", lambda a: a * 0),
        ("zero", lambda a: a.astype(np.int64)),
    ],
)  # fmt: skip
def test_a_file_with_wrong_arrays_is_refused(array, change, tmp_path):
    model = SequenceModel().fit(TEXT[:200])
    model.save(tmp_path / "model")
    engine = model._engine
    engine.store = engine.store._replace(**{array: change(getattr(engine.store, array))})
    with pytest.raises(ValueError, match="cannot be saved"):  # by the checks of `load`
        model.save(tmp_path / "model")


def test_bit_histories():
    """Every state leads to states; more ones mean a larger first guess; the guess of a new history is a half."""
    assert HISTORY_P[0] == 1 << 21
    ones = zeros = 0
    for _ in range(60):
        ones, zeros = int(HISTORY_NEXT[2 * ones + 1]), int(HISTORY_NEXT[2 * zeros])
        assert ones > 0
        assert zeros > 0
    assert HISTORY_P[ones] > 0.98 * 2**22
    assert HISTORY_P[zeros] < 0.02 * 2**22
    assert (np.diff(SQUASH) >= 0).all()
    assert (np.diff(STRETCH) >= 0).all()
    p = np.arange(100, 4000, 100)
    np.testing.assert_allclose(SQUASH[STRETCH[p] + 3072], 16 * p + 8, rtol=0.01)


def test_each_cover_earns_its_place_where_it_should():
    """A page with a width wants two dimensions; records their columns; interleaved texts sparse suffixes."""
    page = np.zeros((300, 150), np.uint8)
    for _ in range(150):
        x, y = RNG.integers(0, 140), RNG.integers(0, 260)
        page[y : y + 40, x : x + 3] ^= RNG.integers(1, 255, dtype=np.uint8)
    assert bits(page.tobytes()) < 0.8 * bits(page.tobytes(), effort=1)
    walk = np.cumsum(RNG.integers(-3, 4, (4000, 3)), axis=0).astype(np.uint8)
    noise = RNG.integers(0, 256, (4000, 2), dtype=np.uint8)
    records = np.hstack([walk, noise]).tobytes()
    assert bits(records) < 0.9 * bits(records, effort=1)
    two = np.stack([np.frombuffer(TEXT[:6000], np.uint8), RNG.integers(0, 256, 6000, dtype=np.uint8)], axis=1).tobytes()
    assert bits(two) < bits(two, effort=1) - 0.2
    assert bits(TEXT) < bits(TEXT, covers=["suffix"])


def test_a_cover_of_ones_own():
    """Symbols that depend on the position modulo 7 and on nothing else: 2 bits of chance, and what learning costs."""
    data = bytes(int(RNG.integers(0, 4)) * (1 + i % 7) for i in range(4000))
    assert bits(data, covers=["suffix", column]) < 0.93 * bits(data, covers=["suffix"])
    told = []
    SequenceModel(covers=["suffix", lambda past: told.append(past) or 0]).fit(TEXT[:600])
    assert told == [TEXT[max(i - 256, 0) : i] for i in range(600)]
    positions = []
    model = SequenceModel(covers=["suffix", lambda past, position: positions.append(position) or 0])
    model.fit(TEXT[:300]).update(TEXT[300:310])
    assert positions == list(range(310))
    with pytest.raises(ValueError, match="must return an integer"):
        SequenceModel(covers=["suffix", lambda past: "a"]).fit(TEXT[:20])


@pytest.mark.parametrize("left_out", lattice_engine.FAMILIES)
def test_a_cover_that_is_left_out_has_no_part(left_out):
    """Nothing is predicted from it, nothing is learned for it; order zero, the past itself, always stays."""
    family = [name for name in lattice_engine.FAMILIES if name != left_out]
    model = SequenceModel(covers=family, effort=3).fit(
        TEXT[:5000] + np.tile(np.arange(50), 99).astype(np.uint8).tobytes()
    )
    parts = model.contributions()
    assert set(parts) == set(family) | {"suffix"}
    assert parts["suffix"] < 0.2 or left_out != "suffix"
    assert (left_out == "match") == (not model._engine.store.matches.any())


def test_covers_without_use_sleep_and_get_another_chance():
    """A context that never comes again says nothing: its cover sleeps, but for one block in eight."""

    def never_again(past, position):
        return position

    block = lattice_engine.BLOCK
    data = (TEXT * (1 + 9 * block // len(TEXT)))[: 8 * block + 10]
    model = SequenceModel(covers=["suffix", never_again])
    asleep = []
    for begin in range(0, len(data), block):
        model.update(data[begin : begin + block])
        asleep.append(model._engine.store.use[:-2, 2].copy())  # six suffixes, the function
    assert not asleep[0][-1]
    assert all(rows[-1] for rows in asleep[1:8])
    assert not asleep[8][-1]
    assert not any(rows[:3].any() for rows in asleep)  # of use all the time
    awake = SequenceModel(covers=["suffix", never_again], effort=3).fit(data[: 2 * block])
    assert not awake._engine.store.use[:-2, 2].any()


def test_functions_that_came_or_went_wait_for_the_next_fit():
    model = SequenceModel(covers=["suffix", column]).fit(TEXT[:300])
    other = deepcopy(model).set_params(covers=[column] * 60)
    np.testing.assert_array_equal(model.predict_proba(), other.predict_proba())
    for each in (model, other):
        each.update(TEXT[:10])
    np.testing.assert_array_equal(model.predict_proba(), other.predict_proba())
    other.fit(TEXT[:300])
    assert set(other.contributions()) == {"column", "suffix"}  # order zero remains


def test_a_function_that_fails_leaves_the_model_as_it_was():
    def fails(past):
        return len(past) if past[-4:] != b"stop" else "no number"

    model = SequenceModel(covers=["suffix", fails]).fit(TEXT[:300])
    before = state(model)
    with pytest.raises(ValueError, match="must return an integer"):
        model.update(b"then stop it")
    assert state(model) == before


def test_generating_goes_on_after_another_fit():
    model = SequenceModel("ab", effort=0).fit("aababbab" * 500)
    symbols = model.generate(seed=0)
    first = [next(symbols) for _ in range(64)]
    model.fit("ab")  # far fewer contexts
    assert set(first + [next(symbols) for _ in range(64)]) == {"a", "b"}


def test_documents_do_not_leak():
    apart = SequenceModel().fit_documents([(b"cccccca", b"bcccccc")[i] for i in RNG.integers(0, 2, 60)])
    joined = SequenceModel().fit(b"ccccccabcccccc" * 30)
    assert apart.predict_proba(b"cccccca")[ord("b")] < 0.4
    assert joined.predict_proba(b"cccccca")[ord("b")] > 0.9
    assert apart.losses(b"b")[0] < 2.5 < apart.losses(b"a")[0]  # what begins a document is a context too


def test_memory_is_bounded_and_goes_to_what_is_new():
    """Noise fills the smallest memory; text learned after it is learned nearly as well as from the start."""
    model = SequenceModel(memory="8MB").fit(RNG.bytes(150_000))
    assert model.nbytes_ <= 8 << 20
    after = model.prequential(TEXT, unit="bits").mean()
    assert model.nbytes_ <= 8 << 20
    assert after < 1.35 * bits(TEXT)
    small, large = SequenceModel(memory="16MB"), SequenceModel()
    small.update(TEXT[:10])
    large.update(TEXT[:10])
    for _ in range(30):
        small.update(RNG.bytes(16_000))
        large.update(RNG.bytes(16_000))
    assert small.nbytes_ <= 16 << 20 < large.nbytes_


def test_larger_tables_keep_what_was_learned():
    model = SequenceModel().fit(TEXT)
    store = model._engine.store
    buckets = len(store.slots) // 64 - 1
    model._engine.store = lattice_engine.with_capacity(
        store, 2 * buckets, 2 * len(store.history), 4 * store.matches.shape[1]
    )
    again = SequenceModel().fit(TEXT)
    for context in (b"it was", b"epoch of bel", TEXT[:500]):
        np.testing.assert_array_equal(model.predict_proba(context), again.predict_proba(context))


def test_temperature():
    model = SequenceModel().fit(TEXT)
    cold = model.losses(model.sample(200, seed=0, temperature=0.3)).mean()
    assert (
        cold < model.losses(model.sample(200, seed=0)).mean() < model.losses(model.sample(200, 0, temperature=2)).mean()
    )
    with pytest.raises(ValueError, match="temperature"):
        model.sample(1, temperature=0)


def test_entropy_rate_says_how_sure_it_is():
    coin = SequenceModel(2, depth=1).fit(RNG.integers(0, 2, 4000))
    rate = coin.entropy_rate(2000, unit="bits")
    assert rate == pytest.approx(1, abs=0.01)
    assert 0 <= rate.standard_error < 0.01


@pytest.mark.parametrize("alphabet", [256, "abcdefghijklmnopqrstuvwxyz "])
def test_readers_beside_a_writer(alphabet):
    """Every distribution that a reader gets sums to one while another thread learns; nothing learned is lost."""
    text = TEXT if alphabet == 256 else TEXT.decode()
    model = SequenceModel(alphabet).fit(text[:500])
    stop, sums = threading.Event(), []

    def read():
        while not stop.is_set():
            sums.append(model.predict_proba(text[:30]).sum())
            sums.append(np.exp(-model.losses(text[:20])).max() <= 1)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    begin = time.monotonic()
    learned = 500
    while time.monotonic() - begin < 1.5 or (len(sums) < 12 and time.monotonic() - begin < 60):
        model.update(text[:700])
        learned += 700
    stop.set()
    for thread in readers:
        thread.join()
    assert model.n_symbols_seen_ == learned
    assert len(sums) > 10
    np.testing.assert_allclose([float(s) for s in sums], 1.0, atol=1e-9)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="interrupts are sent by a timer")
@pytest.mark.parametrize("parameters", [{}, {"effort": 0}], ids=["lattice", "suffix tree"])
def test_an_interrupt_leaves_the_model_as_it_was_or_wholly_learned(parameters, tmp_path):
    model = SequenceModel(256, **parameters).fit(TEXT)
    texts = (TEXT * 6, (TEXT * (1 + MANY_SYMBOLS // len(TEXT)))[: MANY_SYMBOLS + 1])  # in place, and by a copy

    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, interrupted)
    came = 0
    try:
        for i in range(12):
            seen = model.n_symbols_seen_
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.004 * i)
                model.partial_fit(texts[i % 2])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                came += 1
                assert model.n_symbols_seen_ in (seen, seen + len(texts[i % 2]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came > 0
    model.save(tmp_path / "model")  # its parts fit together
    assert abs(model.predict_proba().sum() - 1) < 1e-9


def changing_chain(rng, pieces, length):
    """Letters whose next one depends on the last two by a table that changes for each piece."""
    codes, at = np.empty(pieces * length, np.uint8), 0
    for t, u in enumerate(rng.random(len(codes))):
        if t % length == 0:
            table = rng.dirichlet(np.full(8, 0.2), 64).cumsum(1)
        codes[t] = symbol = min(int((u >= table[at]).sum()), 7)
        at = (8 * at + symbol) % 64
    return codes


@pytest.mark.parametrize(
    ("parameters", "gain"),
    [({"alphabet": 256}, 0.005), ({"alphabet": 256, "effort": 0}, 0.03), ({"alphabet": 8, "walk": "refine"}, 0.03)],
)
def test_a_model_that_forgets_follows_a_source_that_changes(parameters, gain):
    codes = changing_chain(np.random.default_rng(5), 6, 4000)
    kept = SequenceModel(**parameters).prequential(codes, unit="bits").mean()
    model = SequenceModel(forget=3e-4, **parameters)
    assert model.prequential(codes, unit="bits").mean() < (1 - gain) * kept
    assert model.n_symbols_seen_ == len(codes)
    if not isinstance(model._engine.store, LatticeStore):
        assert 1 / 3e-4 - 1 <= model._engine.store.size[HISTORY] <= 2 / 3e-4


@pytest.mark.parametrize("parameters", [{}, {"effort": 0}])
def test_forgetting_does_not_depend_on_how_symbols_come(parameters):
    codes = changing_chain(np.random.default_rng(5), 2, 800)
    whole, stepwise = (SequenceModel(256, forget=4e-3, **parameters) for _ in range(2))
    losses = whole.prequential(codes)
    pieces = [stepwise.prequential(codes[a : a + 97], new_document=a == 0) for a in range(0, len(codes), 97)]
    np.testing.assert_array_equal(np.concatenate(pieces), losses)


def test_halved_histories_say_the_same_less_surely():
    assert (np.arange(256) >= HISTORY_HALF).all()  # larger numbers have seen more
    assert (HISTORY_HALF[1:253] > 0).all()  # what was met stays known
    ones = 0
    for _ in range(40):
        ones = int(HISTORY_NEXT[2 * ones + 1])
    surer = HISTORY_P[ones]
    for _ in range(3):
        ones = int(HISTORY_HALF[ones])
        assert 1 << 21 < HISTORY_P[ones] < surer
        surer = HISTORY_P[ones]
