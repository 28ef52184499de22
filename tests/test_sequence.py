"""What SequenceModel promises its users."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from coverwalk import SequenceModel, load

TEXT = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of despair, "
) * 3
MODELS = {
    "mixed": {},
    "mixed, no switching": {"switching": 0.0},
    "coarsen": {"estimator": "dirichlet"},
    "coarsen, switching": {"estimator": "dirichlet", "switching": 0.1},
    "refine": {"walk": "refine"},
    "refine, switching": {"walk": "refine", "switching": 0.05},
    "no borders": {"borders": False},
    "refine, no borders": {"walk": "refine", "borders": False},
    "order 0": {"depth": 0},
}
every_model = pytest.mark.parametrize("parameters", MODELS.values(), ids=MODELS)


def state(model):
    return pickle.dumps([array.tobytes() for array in model._engine.store])


@every_model
@pytest.mark.parametrize("alphabet", [None, "".join(sorted(set(TEXT))) + "#"])
def test_laws(parameters, alphabet):
    """Sums to one, known and unseen contexts alike; reading changes nothing; losses are those of the distribution."""
    model = SequenceModel(alphabet, **parameters)
    losses = model.prequential(TEXT[:400])
    assert np.isfinite(losses).all()
    before = state(model)
    for context in (None, "", "it was", "xyzzy" if alphabet is None else "fsdlghl", TEXT[:400], "times, it was the wo"):
        p = model.predict_proba(context)
        assert p.shape == (len(model.alphabet_) + (alphabet is None),)
        assert (p > 0).all()
        assert abs(p.sum() - 1) < 1e-9
    read = model.losses(TEXT[400:460], context=TEXT[:400])
    for i in (0, 1, 7, 59):
        p = model.predict_proba(TEXT[: 400 + i])
        assert read[i] == pytest.approx(-np.log(p[model.alphabet_.index(TEXT[400 + i])]), abs=1e-9)
    model.sample(30, seed=0)
    model.anomaly_scores(TEXT[:50])
    model.posterior("of wisdom")
    assert state(model) == before


@every_model
def test_what_is_predicted_is_what_is_charged(parameters):
    """The distribution before a symbol gives the loss it is learnt with, also when found again from its past."""
    model = SequenceModel(**parameters).fit(TEXT[:250])
    for i in range(250, 330):
        now, again = model.predict_proba(), model.predict_proba(TEXT[:i])
        np.testing.assert_allclose(again, now, rtol=1e-9)
        code = model.alphabet_.index(TEXT[i]) if TEXT[i] in model.alphabet_ else -1
        loss = model.prequential(TEXT[i], new_document=False)[0]
        assert loss == pytest.approx(-np.log(now[code]), abs=1e-9)


@every_model
def test_symbol_by_symbol_is_the_same(parameters):
    whole = SequenceModel(**parameters).fit(TEXT[:300])
    stepwise = SequenceModel(**parameters)
    for symbol in TEXT[:100]:
        stepwise.update(symbol)
    stepwise.update(list(TEXT[100:200]))
    stepwise.update(TEXT[200:300])
    np.testing.assert_array_equal(whole.predict_proba(), stepwise.predict_proba())
    np.testing.assert_array_equal(whole.predict_proba("the "), stepwise.predict_proba("the "))


@every_model
def test_pickle_goes_on_where_it_was(parameters):
    model = SequenceModel(**parameters).fit(TEXT[:300])
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.prequential(TEXT[300:400]), copy.prequential(TEXT[300:400]))


@every_model
def test_save_and_load_go_on_where_it_was(parameters, tmp_path):
    model = SequenceModel(**parameters).fit_documents([TEXT[:100], TEXT[50:300], ""])
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    ours, theirs = model._engine.store, copy._engine.store
    for name in ("node_link", "entry_link"):  # lists of entries, which are made again
        np.testing.assert_array_equal(getattr(ours, name)[: len(getattr(theirs, name))], getattr(theirs, name))
    assert copy.sample(20, seed=1) == model.sample(20, seed=1)
    np.testing.assert_array_equal(model.prequential(TEXT[300:400]), copy.prequential(TEXT[300:400]))
    assert copy.get_params() == model.get_params()


@pytest.mark.parametrize(
    ("array", "place", "value"),
    [
        ("node_link", (3, 3), 10**6), ("entry_link", (5, 0), 10**6), ("entry_link", (5, 2), 10**6),
        ("entry_link", (5, 3), 10**6), ("entry_link", (5, 3), 2), ("history", (3,), 99), ("path", (1,), 10**6),
        ("size", (0,), 10**6), ("size", (3,), 40), ("node_value", (2, 3), np.nan),
    ],
)  # fmt: skip
def test_wrong_links_are_refused(array, place, value, tmp_path):
    model = SequenceModel().fit(TEXT)
    model.save(tmp_path / "model")
    getattr(model._engine.store, array)[place] = value
    with pytest.raises(ValueError, match="cannot be saved"):  # by the checks of `load`
        model.save(tmp_path / "model")


@every_model
def test_a_wrong_document_loses_nothing(parameters):
    model = SequenceModel("ab", **parameters).fit("abba" * 5)
    before = state(model)
    for wrong in ("abc", ["a", "c"], [["a"]], np.array([0.5]), 3):
        with pytest.raises(ValueError):
            model.partial_fit(wrong)
        with pytest.raises(ValueError):
            model.fit(wrong)
    assert state(model) == before
    assert model.n_symbols_seen_ == 20


def test_fit_forgets_and_partial_fit_does_not():
    model = SequenceModel("ab").fit("a" * 50).fit("b" * 50)
    assert model.predict_proba("b")[1] > 0.9
    assert model.n_symbols_seen_ == 50
    model.partial_fit("a" * 50)
    assert model.n_symbols_seen_ == 100
    assert model.predict_proba("a")[0] > 0.9


def test_documents_do_not_leak():
    """'b' never follows 'a' but across the border: it must stay as unlikely as any symbol that never followed."""
    apart = SequenceModel("abc").fit_documents(["ca", "bc"] * 30)
    joined = SequenceModel("abc").fit("cabc" * 30)
    assert apart.predict_proba("a")[1] < 0.4
    assert apart.predict_proba("c")[0] > 0.9
    assert joined.predict_proba("a")[1] > 0.9
    first = apart.losses("ca")[0], apart.losses("bc")[0]  # a document begins with c or b, never with a
    assert max(first) < 1.0 < apart.losses("ab")[0]
    model = SequenceModel("abc")
    model.update("ca")
    model.start_document()
    model.update("bc")
    np.testing.assert_array_equal(
        model.predict_proba(), SequenceModel("abc").fit_documents(["ca", "bc"]).predict_proba()
    )


@pytest.mark.parametrize(
    "sequence",
    [
        TEXT, TEXT.encode(), list(TEXT), np.frombuffer(TEXT.encode(), np.uint8), tuple((c,) for c in TEXT),
        memoryview(TEXT.encode()),
    ],
    ids=["str", "bytes", "list", "array", "tuples", "memoryview"],
)  # fmt: skip
def test_symbols_of_many_kinds(sequence):
    model = SequenceModel().fit(sequence)
    assert model.n_symbols_seen_ == len(TEXT)
    assert model.log_loss(sequence) < 0.2
    drawn = model.sample(40, seed=1, context=sequence[:5])
    assert type(drawn) is {str: str, bytes: bytes}.get(type(sequence), list)
    assert set(drawn) <= set(model.alphabet_)


def test_integers_of_a_given_alphabet():
    model = SequenceModel(1000).fit(np.array([5, 999, 5, 999, 5]))
    assert model.predict_proba().argmax() == 999
    with pytest.raises(ValueError, match=r"symbol 1000 at place 1 .* alphabet"):
        model.partial_fit(np.array([5, 1000]))
    with pytest.raises(ValueError, match=r"symbol -1 at place 0"):
        model.partial_fit(np.array([-1]))


def test_a_symbol_never_seen():
    model = SequenceModel().fit(["x", 1, ("t",), None] * 20)
    assert model.alphabet_ == ["x", 1, ("t",), None]
    p = model.predict_proba()
    assert len(p) == 5
    assert model.losses(["new"], context=[None])[0] == pytest.approx(-np.log(model.predict_proba([None])[4]))
    model.update(["another"])
    assert model.alphabet_[-1] == "another"
    assert len(model.predict_proba()) == 6


def test_order_three_chain_comes_near_its_entropy():
    """Four letters, defaults: after 10^5 symbols the next 10^5 cost at most 0.5 % more than the entropy rate."""
    rng = np.random.default_rng(12)
    table = rng.dirichlet(np.ones(4), size=64)
    cumulative = table.cumsum(1)
    codes, u, at = np.empty(200_000, np.int64), rng.random(200_000), 0
    log_p = np.empty(200_000)
    for t in range(len(codes)):
        codes[t] = min(int((u[t] >= cumulative[at]).sum()), 3)
        log_p[t] = np.log(table[at, codes[t]])
        at = (4 * at + codes[t]) % 64
    model = SequenceModel("ACGT").fit(np.array(list("ACGT"))[codes[:100_000]])
    losses = model.prequential(np.array(list("ACGT"))[codes[100_000:]], new_document=False)
    truth = -log_p[100_000:].mean()  # the same symbols under the chain itself: less noise than the entropy
    assert truth < losses.mean() < 1.005 * truth
    assert model.entropy_rate(20_000) == pytest.approx(truth, rel=0.05)


def test_switching_follows_a_change():
    """The best order changes: the model that may switch recovers sooner."""
    rng = np.random.default_rng(0)
    coin = rng.integers(0, 2, 3000)
    alternating = np.arange(3000) % 2
    document = np.concatenate([coin, alternating, coin[::-1], alternating])
    for walk in ("coarsen", "refine"):
        fixed = SequenceModel(2, depth=2, walk=walk, estimator="dirichlet").prequential(document).sum()
        switching = SequenceModel(2, depth=2, walk=walk, estimator="dirichlet", switching=0.01)
        assert switching.prequential(document).sum() < fixed - 100


def test_samples_follow_the_distribution():
    model = SequenceModel("abc", depth=1).fit("aabacabcbb" * 10)
    p = model.predict_proba("a")
    drawn = [model.sample(1, seed=seed, context="a") for seed in range(2000)]
    counts = np.array([drawn.count(symbol) for symbol in "abc"])
    assert ((counts - 2000 * p) ** 2 / (2000 * p)).sum() < 13.8  # chi-square, 2 degrees: 99.9 %
    generated = model.generate(seed=3, context="a")
    assert "".join(next(generated) for _ in range(200))[:50] == model.sample(200, seed=3, context="a")[:50]


def test_anomaly_scores_point_at_the_odd_one():
    model = SequenceModel().fit(TEXT)
    odd = "it was the age of wisZom, it was the"
    scores = model.anomaly_scores(odd)
    assert scores.argmax() == odd.index("Z")
    assert (scores >= 0).all()
    p = model.predict_proba("it was the")
    seen = p[model.alphabet_.index("t")]
    expected = -np.log(p[p <= seen * (1 + 1e-12)].sum())
    assert model.anomaly_scores("t", context="it was the")[0] == pytest.approx(expected)


def test_posterior_explains():
    model = SequenceModel().fit(TEXT)
    rows = model.posterior("it was the ")
    assert [row.order for row in rows] == list(range(len(rows)))
    assert sum(row.weight for row in rows) == pytest.approx(1)
    assert rows[-1].context == tuple("it was the ")
    assert rows[-1].visits == TEXT.count("it was the ")
    assert sum(rows[-1][5:]) == pytest.approx(1)
    assert len(model.explain("it was the ").splitlines()) == len(rows) + 1
    exact = SequenceModel("ab", walk="refine", depth=3).fit("abbabab" * 9)
    weights = exact.posterior("abb")
    p = exact.predict_proba("abb")
    mixture = sum(row.weight * exact_phi(exact, row.context) for row in weights)
    np.testing.assert_allclose(mixture, p, rtol=1e-12)


def exact_phi(model, context):
    """KT from counts taken from the text itself."""
    text, context = "abbabab" * 9, "".join(context)
    places = [i for i in range(len(context), len(text)) if text[i - len(context) : i] == context]
    counts = np.array([sum(text[i] == symbol for i in places) for symbol in "ab"])
    return (counts + 0.5) / (counts.sum() + 1)


def test_map_tree_finds_the_source(monkeypatch):
    """A tree source with leaves 0, 01, 11 (old to new)."""
    rng = np.random.default_rng(4)
    p_one = {(0,): 0.1, (0, 1): 0.8, (1, 1): 0.3}
    past = [0, 1]
    for _ in range(4000):
        leaf = (0,) if past[-1] == 0 else tuple(past[-2:])
        past.append(int(rng.random() < p_one[leaf]))
    model = SequenceModel(2, depth=4, walk="refine").fit(np.array(past[2:]), past=np.array(past[:2]))
    best, second = model.map_tree(k=2)
    assert {leaf.context for leaf in best.leaves()} == set(p_one)
    assert best.posterior > second.posterior > 0
    assert "0 1 (" in str(best)
    ax = best.plot()
    assert len(ax.texts) == 5
    ax.figure.clear()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib"):
        best.plot()
    with pytest.raises(ValueError, match="refine"):
        SequenceModel(2).fit(np.array(past)).map_tree()


def test_memory_bounds_the_suffix_tree():
    """What is oldest goes: after a change of source the model has the new one, in the same memory."""
    rng = np.random.default_rng(0)
    text = "".join(rng.choice(TEXT.split(), 60_000))
    model = SequenceModel(memory="8MB").fit(text)
    assert model.nbytes_ <= 8 << 20
    assert SequenceModel().fit(text).nbytes_ > 12 << 20
    assert model.log_loss(text[-2000:]) < 1.2 * SequenceModel().fit(text).log_loss(text[-2000:])
    numbers = "".join(map(str, rng.integers(0, 10**6, 40_000)))
    model.partial_fit(numbers)
    assert model.nbytes_ <= 8 << 20
    assert model.log_loss("".join(map(str, rng.integers(0, 10**6, 500)))) < 2.6


def test_long_runs_cost_what_other_symbols_do():
    """One symbol for ever: contexts stay as many as the depth, and no list grows."""
    model = SequenceModel(256, effort=0).fit(bytes(20_000))
    assert model.n_contexts_ <= 40
    assert model.nbytes_ < 2_000_000
    assert model.prequential(bytes(1000), new_document=False).sum() < 0.1


def test_memory_stays_below_a_kilobyte_a_byte():
    rng = np.random.default_rng(0)
    text = " ".join(rng.choice(TEXT.split(), 20_000)).encode()
    assert SequenceModel(effort=0).fit(text).nbytes_ < 1000 * len(text)
    noise = rng.bytes(50_000)
    assert SequenceModel(effort=0).fit(noise).nbytes_ < 1000 * len(noise)


def test_order_zero_and_empty():
    model = SequenceModel("ab").fit("")
    np.testing.assert_allclose(model.predict_proba(), 0.5)
    assert model.losses("").shape == (0,)
    with pytest.raises(ValueError, match="empty"):
        model.log_loss("")
    with pytest.raises(ValueError, match="drawn"):
        SequenceModel().fit([]).sample(1)
    assert SequenceModel().fit([]).predict_proba() == pytest.approx([1.0])


def test_units():
    model = SequenceModel().fit(TEXT)
    assert model.log_loss("it was", unit="bits") == pytest.approx(model.log_loss("it was") / np.log(2))
    assert model.score("it was") == -model.log_loss("it was")
    with pytest.raises(ValueError, match="unit"):
        model.log_loss("it", unit="bytes")


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"depth": -1}, "depth"), ({"depth": 65}, "depth"), ({"depth": 2.5}, "depth"), ({"walk": "up"}, "walk"),
        ({"estimator": "kt"}, "estimator"), ({"alpha": 0}, "alpha"), ({"alpha": float("nan")}, "alpha"),
        ({"stop": 1.0, "walk": "refine"}, "stop"), ({"stop": 0.5}, "stop"), ({"switching": 0.5}, "switching"),
        ({"memory": "1MB"}, "memory"), ({"memory": "much"}, "memory"),
        ({"effort": 4}, "effort"), ({"covers": ["letters"]}, "covers"), ({"alphabet": 0}, "alphabet"),
        ({"alphabet": "aa"}, "alphabet"), ({"alphabet": ""}, "alphabet"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(parameters, named):
    with pytest.raises(ValueError, match=named):
        SequenceModel(**parameters).fit("aaa")


def test_not_fitted_and_not_symbols():
    with pytest.raises(NotFittedError, match="fit"):
        SequenceModel().predict_proba()
    with pytest.raises(NotFittedError):
        SequenceModel().start_document()
    with pytest.raises(ValueError, match="NaN"):
        SequenceModel().fit([1.0, float("nan")])
    with pytest.raises(ValueError, match="one dimension"):
        SequenceModel().fit(np.zeros((2, 2), int))
    with pytest.raises(ValueError, match="at least one document"):
        SequenceModel().fit_documents([])
    with pytest.raises(ValueError, match="past"):
        SequenceModel().fit("abc", past="xyz")


def test_scikit_learn_contract():
    model = SequenceModel("ab", depth=3, walk="refine")
    assert clone(model).get_params() == model.get_params()
    assert model.fit("ab") is model
    assert model.partial_fit("ab") is model


@pytest.mark.parametrize("depth", [1, 40])
def test_parameters_set_later_wait_for_the_next_fit(depth):
    model, same = SequenceModel().fit(TEXT), SequenceModel().fit(TEXT)
    same.set_params(depth=depth, walk="refine", switching=0.4)
    model.partial_fit(TEXT[::-1])
    same.partial_fit(TEXT[::-1])
    np.testing.assert_array_equal(model.predict_proba(TEXT[:50]), same.predict_proba(TEXT[:50]))
    assert model.explain("it was the ") == same.explain("it was the ")
    same.fit(TEXT)
    assert len(same.posterior(TEXT[:50])) <= depth + 1
