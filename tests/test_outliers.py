"""Outliers of y: found where they are, learned by nobody, and given the weight that they have."""

import numpy as np
import pytest

from coverwalk import ConditionalDensity, load
from coverwalk.forest import target_choice
from coverwalk.forest.growth import Due, grow
from coverwalk.forest.settings import Settings
from coverwalk.forest.summary import summarise
from coverwalk.forest.sums import ForestSums
from coverwalk.preparation.find_rounding import find_rounding
from coverwalk.preparation.outliers import FALSE_ALARM, Outliers, find_outliers

rng = np.random.default_rng(5)
X = rng.uniform(-1, 1, (900, 3))
Y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(900)
X_TEST = rng.uniform(-1, 1, (500, 3))
Y_TEST = np.sin(3 * X_TEST[:, 0]) + X_TEST[:, 1] * X_TEST[:, 2] + 0.1 * rng.standard_normal(500)
SLIPS = np.array([17, 300, 301, 750])


def with_slips(y):
    y = y.copy()
    y[SLIPS] = [1e4, -5e3, 80.0, 3e6]
    return y


def small(**given):
    return ConditionalDensity(n_estimators=2, random_state=0, **given)


def loss(model):
    return -model.logpdf(X_TEST, Y_TEST).mean()


def test_y_of_heavy_tails_has_outliers_no_more_often_than_it_may():
    generator = np.random.default_rng(0)
    found = [find_outliers(generator.standard_t(4, size=400)) is not None for _ in range(600)]
    # the scale is estimated, so the chance is not exactly the nominal one
    assert 0.2 * FALSE_ALARM < np.mean(found) < 2 * FALSE_ALARM
    assert not any(find_outliers(generator.normal(size=400)) for _ in range(600))


def test_limits_lie_about_the_bulk_and_the_weight_counts_rows():
    found = find_outliers(with_slips(Y))
    assert found.weight == pytest.approx(len(SLIPS) / len(Y))
    np.testing.assert_array_equal(np.flatnonzero(~found.usual(with_slips(Y))), SLIPS)
    moved = find_outliers(1e-3 * with_slips(Y) + 7.0)
    np.testing.assert_allclose([moved.low, moved.high], [1e-3 * found.low + 7.0, 1e-3 * found.high + 7.0], rtol=1e-12)


@pytest.mark.parametrize(
    "y",
    [
        np.ones(50),
        np.r_[np.zeros(97), np.full(3, 1e9)],  # no scale
        np.r_[np.arange(100.0), np.full(20, 1e9)],  # too many
        np.r_[np.arange(10.0), 1e9],  # too few rows
    ],
)
def test_y_without_outliers(y):
    assert find_outliers(y) is None


def test_a_fit_is_as_good_as_without_them():
    clean, other = small().fit(X, Y), small().fit(X, with_slips(Y))
    assert loss(other) < loss(clean) + 0.03
    outliers = other.forests_[0].settings.outliers
    assert outliers is not None
    assert summarise(other.forests_[0]).outliers.startswith("0.44 % of the rows, below -")
    assert clean.forests_[0].settings.outliers is None
    components = other.predict_dist(X_TEST[:3]).components
    np.testing.assert_allclose(components.weight[components.offsets[:-1]], outliers.weight, rtol=0.1)
    far = other.logpdf(X_TEST[:1], np.array([1e4]))[0] - clean.logpdf(X_TEST[:1], np.array([1e4]))[0]
    assert far > 1.0  # more are expected where some came


def test_held_out_rows_must_agree():
    """Rare and large, but told by x: trees learn them."""
    generator = np.random.default_rng(1)
    A = generator.uniform(size=(800, 2))
    b = np.where(A[:, 0] > 0.97, 300.0, 0.0) + generator.standard_normal(800)
    assert find_outliers(b) is not None
    model = small().fit(A, b)
    assert model.forests_[0].settings.outliers is None
    assert abs(model.predict([[0.99, 0.5]])[0] - 300.0) < 10.0


def test_a_value_that_repeats_is_no_outlier():
    y = Y.copy()
    y[::20] = -999.0
    assert small().fit(X, y).forests_[0].settings.outliers is None


def test_weights_of_rows_are_kept_apart():
    weight = np.random.default_rng(2).uniform(0.5, 2, len(Y))
    model = small().fit(X, with_slips(Y), sample_weight=weight)
    forest = model.forests_[0]
    assert len(forest.weight) == len(forest.y) == len(Y)
    assert len(forest.learned_rows()[2]) == len(Y) - len(SLIPS)
    assert loss(model) < loss(small().fit(X, Y, sample_weight=weight)) + 0.03


def test_a_stream_goes_on_with_them_and_finds_new_ones(tmp_path):
    y = with_slips(Y)
    model = small().fit(X[:500], y[:500])
    before = model.predict_dist(X_TEST).logpdf(Y_TEST)
    model.save(tmp_path / "m.cover")
    np.testing.assert_array_equal(load(tmp_path / "m.cover").logpdf(X_TEST, Y_TEST), before)
    model.partial_fit(X[500:501], y[500:501])
    assert abs(model.logpdf(X_TEST, Y_TEST).mean() - before.mean()) < 0.003
    found = model.stream_.streams[0].base.settings.outliers
    model.partial_fit(X[501:], y[501:])
    assert found is not None
    assert loss(model) < loss(small().fit(X[:500], Y[:500]).partial_fit(X[500:], Y[500:])) + 0.03
    stream = small().partial_fit(X, y)
    assert stream.stream_.streams[0].base.settings.outliers is not None
    assert loss(stream) < loss(small().partial_fit(X, Y)) + 0.1


def test_log_densities_of_a_stream_are_those_of_its_predictions():
    model = small(stop=0.5).fit(X[:500], with_slips(Y)[:500])
    model.partial_fit(X[500:501], Y[500:501])
    said = [model.logpdf(X[501:502], Y[501:502])[0], model.prequential(X[501:502], Y[501:502])[0]]
    np.testing.assert_allclose(said[0], said[1], rtol=1e-9)


def test_a_stream_that_moves_far_away_moves():
    model = small(forget=1 / 200).partial_fit(X[:400], with_slips(Y)[:400])
    model.partial_fit(X[400:], Y[400:] + 1000.0)
    assert np.abs(np.median(model.predict(X_TEST) - Y_TEST) - 1000.0) < 1.0


@pytest.mark.parametrize(("moved", "kept"), [(0, 296), (20, 276), (40, 300), (300, 300)])
def test_trees_learn_rows_beyond_the_limits_if_they_are_too_many_for_outliers(moved, kept):
    stream = small().partial_fit(X[:400], with_slips(Y)[:400]).stream_.streams[0]
    assert stream.base.settings.outliers is not None
    y = with_slips(Y)[np.r_[SLIPS, 400:696]]
    y[len(y) - moved :] += 1000.0
    named = stream.settings.forest, stream.settings, stream.names
    tree = grow(X[:300], y, 700, Due(), stream.base, *named, 0, [0] * 2).members[0].fitted
    assert tree.records.n_rows[tree.records.slot[0]] == kept


def test_sums_leave_them_out():
    limits = Outliers(-20.0, 20.0, 0.004)
    with_them = ForestSums.plan(X, with_slips(Y), Settings(n_trees=2, outliers=limits))
    with_them.accumulate(X, with_slips(Y))
    rest = np.delete(np.arange(len(Y)), SLIPS)
    without = ForestSums.plan(X[rest], Y[rest], Settings(n_trees=2, outliers=limits))
    without.accumulate(X[rest], Y[rest])
    assert with_them.n_rows == len(Y)
    for one, other in zip(with_them.sums, without.sums):
        np.testing.assert_allclose(one.moments, other.moments, rtol=1e-9, atol=1e-9)


def test_chunks_of_more_rows_than_are_kept_leave_them_out_too(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.passes.ROWS_KEPT", 100)
    y = with_slips(Y)
    chunks = [(X[i : i + 150], y[i : i + 150]) for i in range(0, 900, 150)]
    summed = small().fit_chunks(chunks, sample_rows=600)
    assert summed.forests_[0].settings.outliers is not None
    assert loss(summed) < loss(small().fit(X[:450], Y[:450]))


def test_outliers_that_x_tells_are_none_even_if_few_of_them_are_held_out(monkeypatch):
    rng = np.random.default_rng(0)
    told = rng.random(700) < 0.045
    X = np.column_stack([told, rng.random((700, 2))])
    y = np.where(told, rng.uniform(15, 40, 700), 45.0 + 0.01 * rng.integers(-1, 2, 700)).round(2)

    def order(X, y):
        """All that are far out in quarters that are not held out, but for one of them."""
        far = np.flatnonzero(y < 44)
        order = np.full(len(y), -1)
        order[np.concatenate([[0], np.flatnonzero(np.arange(len(y)) % 4 > 1)[: len(far) - 1]])] = far
        order[order < 0] = np.flatnonzero(y >= 44)
        return order

    monkeypatch.setattr(target_choice, "canonical_order", order)
    settings = Settings(n_trees=24, rounding=find_rounding(y))
    assert find_outliers(y) is not None
    assert target_choice.choose_outliers(X, y, settings) is None
    assert target_choice.choose_outliers(rng.random((700, 3)), y, settings) is not None
