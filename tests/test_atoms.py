"""A forest for the values of y that repeat: chosen where it is better, and the same in files, streams and chunks."""

import numpy as np
import pytest
from scipy import integrate

from coverwalk import ConditionalDensity, load
from coverwalk.evaluation.report import page
from coverwalk.evaluation.report.facts import Subject
from coverwalk.forest.growth import Due, grow


def rain(n, seed):
    """Dry or wet by one input; how much, by another."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    dry = rng.random(n) < 1 / (1 + np.exp(-3 * X[:, 1]))
    return X, np.where(dry, 0.0, np.exp(0.5 * X[:, 0] + 0.3 * rng.normal(size=n)))


def cut(n, seed):
    """One distribution, cut off at 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.minimum(X[:, 0] + 0.5 * rng.normal(size=n), 1.0)


def small(**given):
    return ConditionalDensity(n_estimators=2, random_state=0, **given)


X, Y = rain(500, 0)
X_TEST, Y_TEST = rain(1500, 1)


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    """Forests for atoms are small here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coverwalk.forest.experts.atoms.TREES", ((False, 6), (True, 2)))
        yield


@pytest.fixture(scope="module")
def model():
    return small().fit(X, Y)


@pytest.fixture(scope="module")
def stream():
    return small().partial_fit(X, Y)


def loss(model):
    return -model.logpdf(X_TEST, Y_TEST).mean()


def atoms_of(model):
    settings = model.forests_[0].settings if hasattr(model, "forests_") else model.stream_.streams[0].base.settings
    return settings.atoms


def test_dry_days_are_another_question_and_days_cut_off_are_not(model):
    assert atoms_of(model) is not None
    assert atoms_of(small().fit(*cut(500, 0))) is None
    assert atoms_of(small().fit(X, Y + 0.01 * np.arange(500) * (Y == 0))) is None  # no value repeats


def test_the_trees_learn_wet_days_alone(model, monkeypatch):
    forest = model.forests_[0]
    assert len(forest.y) == forest.n_rows == len(Y)
    records = forest.fitted[0].records
    assert records.n_rows[records.slot[0]] == np.sum(Y > 0)
    monkeypatch.setattr("coverwalk.forest.target_choice.MIN_ATOMS", 10**9)
    together = small().fit(X, Y)
    assert atoms_of(together) is None
    assert loss(model) < loss(together) - 0.05


def test_probabilities_are_those_of_the_forest_and_sum_to_one(model):
    dist = model.predict_dist(X_TEST[:40])
    told = atoms_of(model).predict(X_TEST[:40])[:, 0]
    np.testing.assert_allclose(dist.pmf(0.0), told, atol=1e-3)
    np.testing.assert_allclose(dist.cdf(0.0) - dist.cdf(-1e-9), told, atol=1e-3)
    assert np.mean(dist.pmf(0.0)) == pytest.approx(np.mean(Y_TEST == 0), abs=0.1)
    for i in range(3):
        area = integrate.quad(lambda y, i=i: dist[i].pdf(np.array(y)), 1e-9, 60.0, limit=400)[0]
        below = integrate.quad(lambda y, i=i: dist[i].pdf(np.array(y)), -60.0, -1e-9, limit=400)[0]
        assert area + below + dist.pmf(0.0)[i] == pytest.approx(1.0, abs=2e-3)
    draws = dist.rvs(4000, random_state=0)
    np.testing.assert_allclose(np.mean(draws == 0.0, axis=1), told, atol=0.03)
    q = np.linspace(0.01, 0.99, 9)
    assert np.all(dist.cdf(dist.ppf(q)) >= q - 1e-9)
    mean, spread = np.mean(draws, axis=1), np.std(draws, axis=1)
    assert np.all(np.abs(dist.mean() - mean) < 5 * spread / np.sqrt(4000) + 0.02)


def test_bounds_hold(tmp_path):
    model = small(bounds=(0, None)).fit(X, Y)
    assert atoms_of(model) is not None
    dist = model.predict_dist(X_TEST)
    assert np.all(dist.cdf(-1e-12) == 0.0)
    assert np.mean(dist.pmf(0.0)) == pytest.approx(np.mean(Y_TEST == 0), abs=0.05)
    told = atoms_of(model).predict(X_TEST)[:, 0]
    assert np.all(dist.pmf(0.0) > told - 1e-6)  # more only where trees alone put more at the bound
    assert np.mean(np.abs(dist.pmf(0.0) - told) < 1e-6) > 0.8
    assert np.all(dist.rvs(random_state=0) >= 0.0)
    assert loss(model) < loss(small().fit(X[:250], Y[:250]))
    model.save(tmp_path / "m.cover")
    np.testing.assert_array_equal(load(tmp_path / "m.cover").logpdf(X_TEST, Y_TEST), dist.logpdf(Y_TEST))


def test_files_streams_and_copies_go_on(model, tmp_path):
    said = model.logpdf(X_TEST, Y_TEST)
    model.save(tmp_path / "m.cover")
    loaded = load(tmp_path / "m.cover")
    np.testing.assert_array_equal(loaded.logpdf(X_TEST, Y_TEST), said)
    loaded.partial_fit(X_TEST[:1], Y_TEST[:1])
    assert abs(loss(loaded) + said.mean()) < 0.003
    loaded.partial_fit(X_TEST[1:200], Y_TEST[1:200])
    loaded.save(tmp_path / "s.cover")
    again = load(tmp_path / "s.cover")
    np.testing.assert_array_equal(again.logpdf(X_TEST, Y_TEST), loaded.logpdf(X_TEST, Y_TEST))
    for one in (loaded, again):
        one.partial_fit(X_TEST[200:300], Y_TEST[200:300])
    np.testing.assert_array_equal(again.logpdf(X_TEST, Y_TEST), loaded.logpdf(X_TEST, Y_TEST))


def test_a_stream_finds_them_and_is_as_good_as_a_fit_on_half(stream):
    assert atoms_of(stream) is not None
    assert loss(stream) < loss(small().fit(X[:250], Y[:250])) + 0.02
    in_parts = small().partial_fit(X[:450], Y[:450]).partial_fit(X[450:], Y[450:])
    np.testing.assert_allclose(in_parts.logpdf(X_TEST, Y_TEST), stream.logpdf(X_TEST, Y_TEST), rtol=1e-12)
    assert np.all(np.isfinite(in_parts.prequential(X_TEST[:5], Y_TEST[:5])))


def test_a_stream_that_goes_on_from_a_fit_knows_the_atoms_of_the_fit():
    model = small().fit(X, Y).partial_fit(X_TEST[:600], Y_TEST[:600])
    assert atoms_of(model) is not None
    assert model.predict_dist(X_TEST).pmf(0.0).mean() == pytest.approx(np.mean(Y_TEST == 0), abs=0.05)


def test_sums_leave_atoms_to_their_forest(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.passes.ROWS_KEPT", 100)
    chunks = [(X[i : i + 100], Y[i : i + 100]) for i in range(0, 500, 100)]
    summed = small().fit_chunks(chunks, sample_rows=400)
    assert atoms_of(summed) is not None
    assert summed.forests_[0].n_summed == 500
    assert loss(summed) < loss(small().fit(X[:250], Y[:250]))


def test_weights_and_several_outputs(model):
    weight = np.where(Y == 0, 3.0, 1.0)
    heavy = small().fit(X, Y, sample_weight=weight)
    assert atoms_of(heavy) is not None
    assert heavy.predict_dist(X_TEST).pmf(0.0).mean() > model.predict_dist(X_TEST).pmf(0.0).mean() + 0.05
    both = small().fit(X, np.column_stack([X[:, 0] + Y, Y]))
    assert both.forests_[1].settings.atoms is not None
    assert np.isfinite(
        both.predict_dist(X_TEST[:5]).logpdf(np.column_stack([X_TEST[:5, 0] + Y_TEST[:5], Y_TEST[:5]]))
    ).all()


def test_reasons_and_reports(model, tmp_path):
    assert "a forest for single values" in str(model.explain(X_TEST[:1]))
    page.write_report(Subject.of(model.forests_[0], "y", X_TEST[:60], Y_TEST[:60]), tmp_path / "r.html", "y")
    assert "has no forest for values that repeat" in (tmp_path / "r.html").read_text()


def test_trees_grow_in_a_dry_spell_longer_than_the_memory(stream):
    stream = stream.stream_.streams[0]
    assert stream.base.settings.atoms is not None
    named = stream.settings.forest, stream.settings, stream.names
    for due in (Due(), Due(fresh=True), Due(whole=True)):
        grown = grow(X[:300], np.zeros(300), 800, due, stream.base, *named, 0, [0] * 2)
        tree = grown.members[0].fitted.records
        assert tree.n_rows[tree.slot[0]] == 300
