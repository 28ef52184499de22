"""Forests from sums: against rows kept in memory, and whatever the chunks."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_classification

from coverwalk import ConditionalDensity, ContextClassifier, load
from coverwalk._kernels.forest.contexts import N_SHAPES, Grid, Layout, empty_fit, fit_contexts
from coverwalk._kernels.forest.kernel_density import N_BINS, kernel_tables
from coverwalk._kernels.forest.residual_bins import bin_residuals, density_scores
from coverwalk._kernels.forest.sums import add_leaves, empty_regressions, packing, regress_moments
from coverwalk.forest import passes as chunks
from coverwalk.forest import tuning
from coverwalk.forest.growth import ready
from coverwalk.forest.members import GLOBAL_KERNEL, Part
from coverwalk.forest.passes import RowError, accumulate, finalize, is_pass, merge, plan
from coverwalk.forest.settings import Settings
from coverwalk.forest.sums import Capacity, ForestSums, plan_on_sample
from coverwalk.preparation.row_codes import canonical_order, row_codes
from coverwalk.preparation.row_sample import RowSample

SUMS = {"sample_rows": 1000, "state_bytes": 2**17}  # no room for 6000 rows of four numbers
TIGHT = {"sample_rows": 50, "state_bytes": 1}  # none for one more row


def rows(n=6000, seed=0, p=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, p))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 0] + (0.1 + 0.2 * (X[:, 1] > 0)) * rng.standard_normal(n)


def labelled(n=4000, seed=0):
    X, y = rows(n, seed)
    return X, np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]


def split(X, y, k, seed=None):
    order = np.arange(len(y)) if seed is None else np.random.default_rng(seed).permutation(len(y))
    return [(X[part], y[part]) for part in np.array_split(order, k)]


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.fixture(scope="module")
def planned():
    X, y = rows()
    return ForestSums.plan(X[:1500], y[:1500], Settings(n_trees=2), Capacity(2**16, 6000, 1500))


# -- against rows ----------------------------------------------------------------------------------------------------


def from_rows_and_from_sums(n, p=3, many=2.0):
    """Both fits of a context and its two children, in which no regression is solved in rows."""
    X, y = rows(n, seed=1, p=p)
    order = np.argsort(X[:, 0] > 0, kind="stable")
    X, y, half = X[order], y[order], int((X[:, 0] <= 0).sum())
    tree = (np.array([1, -1, -1]), np.array([-1, 0, 0]))
    layout = Layout(np.array([0, 0, half]), np.array([n, half, n]), *tree)
    grid = Grid(np.array([0.03, 0.3, 3.0]), 2, 2.0, many, 1e-4, p)
    exact, summed = empty_fit(layout, grid, p), empty_regressions(3, grid, p)
    fit_contexts(X, y, layout, grid, kernel_tables(), exact)
    packed = packing(2, p)
    moments = np.zeros((2, len(packed.row)))
    ranges = np.full((2, p), np.inf), np.full((2, p), -np.inf)
    add_leaves(X, y, layout, np.array([-1, 0, 1]), 2, packed, moments, *ranges)
    regress_moments(np.vstack([moments.sum(axis=0), moments]), packed.place, tree[1], grid, p, summed)
    return exact, summed


def test_regressions_and_residual_scales_from_sums_are_those_of_rows():
    exact, summed = from_rows_and_from_sums(4000)
    np.testing.assert_allclose(summed.fit.psi, exact.psi, rtol=1e-9)
    np.testing.assert_allclose(summed.fit.centre, exact.centre, atol=1e-3)  # weights of regressions differ a little
    np.testing.assert_allclose(summed.fit.s2, exact.s2, rtol=1e-4)
    np.testing.assert_allclose(summed.loo_scale, exact.scale[:, 0], rtol=1e-4)
    np.testing.assert_allclose(summed.fit.mean, exact.mean, rtol=1e-9)


@pytest.mark.parametrize(("n", "nats"), [(500, 0.6), (4000, 0.6), (40_000, 0.6)])
def test_evidence_from_sums_nears_that_of_rows(n, nats):
    """Evidence of thousands of nats, to a fraction of one: what sums miss is the kurtosis of the residuals."""
    exact, summed = from_rows_and_from_sums(n)
    log_score = summed.fit.log_score[:, :9]
    fitted = np.isfinite(log_score)
    assert fitted.sum() == 9
    difference = log_score[fitted] - exact.log_score[:, :9][fitted]
    assert np.abs(difference).max() < nats
    middle = exact.log_score[:, :9][fitted].reshape(3, 3)
    assert np.ptp(middle, axis=1).min() > 50  # the degrees that are told apart differ by far more


def test_all_ridges_are_tried_where_rows_are_few():
    exact, summed = from_rows_and_from_sums(70, many=8.0)[0], from_rows_and_from_sums(70, many=1.0)[1]
    fitted = np.isfinite(summed.fit.log_score[0, :9])
    assert fitted.tolist() == np.isfinite(exact.log_score[0, :9]).tolist() == [False, True, False] * 2 + [True] * 3
    np.testing.assert_allclose(summed.fit.psi[0], exact.psi[0], rtol=1e-9)


@pytest.mark.parametrize("tail", [False, True])
def test_the_density_of_counts_is_that_of_rows(tail):
    """Also where rows are beyond the bins, and where they come in two chunks."""
    rng = np.random.default_rng(2)
    X, y = rng.uniform(size=(3000, 1)), rng.choice([-1.0, 0.5, 2.0], 3000) + 0.01 * rng.uniform(size=3000)
    if tail:
        y[::300] += rng.choice([8.0, 30.0], 10)
    layout = Layout(np.array([0]), np.array([3000]), np.array([-1]), np.array([-1]))
    grid, tables = Grid(np.array([0.3]), 0, 2.0, 2.0, 1e-4, 1), kernel_tables()
    exact = empty_fit(layout, grid, 1)
    fit_contexts(X, y, layout, grid, tables, exact)
    scale, mean = exact.scale.copy(), exact.mean
    counts, log_outside = np.zeros((1, N_SHAPES, N_BINS + 1), np.int64), np.zeros((1, N_SHAPES))
    lines = (np.ones(1), np.zeros((1, 1)), mean)
    for part in (slice(0, 1000), slice(1000, 3000)):
        chunk = layout._replace(end=np.array([len(y[part])]))
        bin_residuals(X[part], y[part], chunk, 0, lines, scale, (counts, log_outside))
    assert (counts[0, 1, N_BINS] > 0) == tail
    score, width = np.empty((1, N_SHAPES)), np.empty((1, N_SHAPES), np.int64)
    density_scores(scale, counts, log_outside, tables, score, width)
    assert score[0, 1] == pytest.approx(exact.log_score[0, -1], rel=1e-9)


def test_sums_predict_as_well_as_rows(planned):
    X, y = rows()
    X_test, y_test = rows(2000, seed=9)
    sums = planned.empty()
    sums.accumulate(X, y)
    shapes = sums.finish()
    shapes.accumulate(X, y)
    exact = replace(planned.forest, X=X[:0], y=y[:0])
    exact.accumulate(X, y)
    exact.finalize()
    ours, theirs = shapes.finish().predict_dist(X_test), exact.predict_dist(X_test)
    assert abs(ours.logpdf(y_test).mean() - theirs.logpdf(y_test).mean()) < 0.02
    assert np.abs(ours.mean() - theirs.mean()).mean() < 0.01


def test_the_second_pass_finds_shapes_that_sums_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6000, 2))
    y = rng.choice([-1.0, 1.0], 6000) + 0.05 * rng.standard_normal(6000)
    model = ConditionalDensity(n_estimators=2, stop=0.5)
    one = model.fit_chunks([(X, y)], **SUMS, second_pass=False).log_likelihood(X, y)
    two = model.fit_chunks([(X, y)], **SUMS).log_likelihood(X, y)
    assert two > one + 0.5


# -- what a plan holds ------------------------------------------------------------------------------------------------

GROUPS = (Part(1, 1, 0.5, False), Part(1, 2, 0.9, True))


@pytest.fixture(scope="module")
def grouped():
    """Planes without and curves about a trend, planned on a sample; the trend comes from all rows."""
    X, y = rows()
    planned = plan_on_sample(X[:1500], y[:1500], Settings(n_trees=2, parts=GROUPS), None, Capacity(2**17, 6000, 6000))
    sums = ForestSums.over(planned, (X, y))
    exact = replace(planned)
    exact.accumulate(X, y)
    exact.finalize()
    return sums, exact


def test_trees_about_the_trend_regress_its_leave_one_out_errors(grouped):
    X, y = rows()
    sums, exact = grouped
    np.testing.assert_allclose(sums.forest.trend.coefficients, exact.trend.coefficients, rtol=1e-9, atol=1e-12)
    r = exact.output.forward(y[:, None])[:, 0]
    order = canonical_order(X, y)
    left = sums.forest.trend.fit(exact.frame.rows(X[order]), r[order])[1]
    assert 0.9 < sums.forest.trend.keep < 0.99
    for seen, factor in ((np.full(6000, True), 1.0), (None, sums.forest.trend.keep**2)):
        state = sums.empty()
        state.accumulate(X[:2000], y[:2000], None if seen is None else seen[:2000])
        state.accumulate(X[2000:], y[2000:], None if seen is None else seen[2000:])
        squares = [moments[:, -1].sum() for moments, _, _ in state.sums]
        which = [part.smooth for part in sums.forest.settings.part_of_trees()]
        assert squares[which.index(False)] == pytest.approx((r**2).sum(), rel=1e-9)
        assert squares[which.index(True)] == pytest.approx(factor * (left**2).sum(), rel=1e-9)


def test_the_rows_of_the_trend_are_known_by_their_codes(monkeypatch):
    """Whatever the chunks: those of the lowest codes, as many as the first pass kept."""
    monkeypatch.setattr(tuning, "choose", lambda X, y, settings, *_, **__: replace(settings, parts=GROUPS))
    X, y = rows(3000)
    state = plan(ConditionalDensity(n_estimators=2), X, y, sample_rows=500, state_bytes=2**15)
    state = finalize(merge(accumulate(state, X[:700], y[:700]), accumulate(state, X[700:], y[700:])))
    state = merge(accumulate(state, X[2000:], y[2000:]), accumulate(state, X[:2000], y[:2000]))
    forest = state.parts[0].forest
    seen = np.argsort(canonical_order(X, y)) < 2**15 // 32
    left = forest.output.forward(y[:, None])[:, 0] - forest.trend.value(forest.frame.rows(X))
    left[seen] /= forest.trend.keep
    smooth = [part.smooth for part in forest.settings.part_of_trees()].index(True)
    assert forest.trend.keep < 0.95
    assert state.parts[0].sums[smooth].moments[:, -1].sum() == pytest.approx((left**2).sum(), rel=1e-9)


def test_groups_of_trees_keep_their_degrees_and_priors(grouped):
    X, y = rows()
    X_test, y_test = rows(2000, seed=9)
    sums, exact = grouped
    state = sums.empty()
    state.accumulate(X, y, np.full(6000, True))
    for part, (moments, _, _) in zip(sums.forest.settings.part_of_trees(), state.sums):
        assert moments.shape[1] == (15 if part.degree == 1 else 46)
    shapes = state.finish()
    shapes.accumulate(X, y, np.full(6000, True))
    ours = shapes.finish()
    for k in range(2):
        alone, theirs = (forest.predict_dists(X_test, slice(k, k + 1))[0] for forest in (ours, exact))
        assert abs(alone.logpdf(y_test).mean() - theirs.logpdf(y_test).mean()) < 0.02
        assert np.abs(alone.mean() - theirs.mean()).mean() < 0.01
    wide = replace(shapes.forest.settings, parts=tuple(part._replace(stop=1.0 - 1e-9) for part in GROUPS))
    shapes.forest.settings = wide
    assert np.all(mean_rows(shapes.finish()) > mean_rows(ours) + 1)


def mean_rows(forest):
    """Of the contexts in which the walks of each tree stop."""
    found = []
    for tree in forest.fitted:
        slot = np.repeat(tree.records.slot, np.diff(tree.records.first))
        found.append(np.average(tree.records.n_rows[slot], weights=tree.records.weight[0]))
    return np.array(found)


def test_the_kernel_over_all_rows_and_the_scale_factor_are_kept():
    X, y = rows(3000, p=2)
    settings = Settings(n_trees=2, kernel=0.4, scale_factor=1.5)
    dists = []
    for chosen in (settings, replace(settings, scale_factor=1.0)):
        sums = ForestSums.plan(X[:500], y[:500], chosen, Capacity(2**17, 3000, 500))
        sums.accumulate(X, y)
        dists.append(sums.finish().finish().predict_dist(X[:50]))
    whole = dists[0].context == GLOBAL_KERNEL
    assert dists[0].components.weight[whole].sum() == pytest.approx(50 * 0.4, rel=1e-3)
    in_trees = dists[0].context >= 0
    np.testing.assert_allclose(
        dists[0].components.scale[in_trees], 1.5 * dists[1].components.scale[in_trees], rtol=1e-9
    )


@pytest.mark.parametrize("degree", [1, 2])
def test_both_passes_stay_within_the_bytes_given(degree):
    X, y = rows(6000)
    for state_bytes in (2**19, 2**21):
        sums = ForestSums.plan(X, y, Settings(n_trees=2, degree=degree), Capacity(state_bytes, 10**6, 6000))
        sums.accumulate(X, y)
        shapes = sums.finish()
        shapes.accumulate(X, y)
        assert 0.3 * state_bytes < max(sums.n_bytes, shapes.n_bytes) <= state_bytes


def test_one_row_a_side_is_enough_where_it_stands_for_several():
    X, y = rows(400)
    one, three = (plan_on_sample(X, y, Settings(n_trees=1), None, Capacity(2**28, n, 400)) for n in (1200, 400))
    size = [np.bincount(forest.trees[0].leaves(forest.inputs.forward(X))).tolist() for forest in (one, three)]
    assert 1 in size[0]
    assert not {1, 2} & set(size[1])


def test_up_to_2_to_the_17_rows_are_kept_if_there_is_room():
    """A fit of so many takes about as long as their sums, and its trees are planned on all rows."""
    X, y = rows(40_000)
    state = plan(ConditionalDensity(n_estimators=1, stop=0.5), X, y, sample_rows=500)
    assert accumulate(state, X, y).all_kept
    tight = plan(ConditionalDensity(n_estimators=1, stop=0.5), X, y, sample_rows=500, state_bytes=2**17)
    assert not accumulate(tight, X, y).all_kept


@pytest.mark.parametrize("kept", [0, 2**15])
def test_chunks_gain_from_all_rows_what_a_fit_does(kept, monkeypatch):
    """Planned on half of the rows: at most halfway between a fit to so many rows and one to all; from sums as well."""
    monkeypatch.setattr(chunks, "ROWS_KEPT", kept)
    rng = np.random.default_rng(0)
    n = 1200 if kept else 12_000

    def smooth(n):
        X = rng.uniform(-1, 1, size=(n, 5))
        fourier = np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + np.cos(2 * X[:, 4])
        return X, fourier + 0.05 * rng.standard_normal(n)

    (X, y), test = smooth(n), smooth(2000)
    half, whole = (-ConditionalDensity(6).fit(X[:m], y[:m]).log_likelihood(*test) for m in (n // 2, n))
    model = ConditionalDensity(6).fit_chunks(split(X, y, 4), sample_rows=n // 2)
    assert model.forests_[0].n_summed == (0 if kept else n)
    assert any(part.smooth for part in model.forests_[0].settings.parts)
    assert -model.log_likelihood(*test) < 0.5 * (half + whole) + 0.01


# -- chunks ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["sums", "rows"])
def whole(request):
    """Fitted in one chunk, and how: to sums, or to rows that the first pass has kept."""
    X, y = rows()
    options = SUMS if request.param == "sums" else {"sample_rows": 1000}
    model = ConditionalDensity(n_estimators=2).fit_chunks([(X, y)], **options)
    assert model.forests_[0].n_summed == (6000 if request.param == "sums" else 0)
    return model, options


@pytest.mark.parametrize(("k", "seed"), [(2, None), (7, 1), (40, 2)])
def test_chunks_and_their_order_do_not_matter(whole, k, seed):
    X, y = rows()
    parts = [(X[:0], y[:0]), *split(X, y, k, seed)]
    whole, options = whole
    model = ConditionalDensity(n_estimators=2).fit_chunks(lambda: iter(parts), **options)
    levels = [0.01, 0.5, 0.99]
    assert relative(model.predict(X[:500]), whole.predict(X[:500])) < 1e-9
    assert relative(model.predict(X[:500], quantiles=levels), whole.predict(X[:500], quantiles=levels)) < 1e-9
    assert relative(model.logpdf(X[:500], y[:500]), whole.logpdf(X[:500], y[:500])) < 1e-9


def test_a_fit_from_chunks_is_a_model_like_any_other(whole, tmp_path):
    X, y = rows()
    whole, _ = whole
    whole.save(tmp_path / "model.cw")
    again = load(tmp_path / "model.cw")
    assert np.array_equal(again.logpdf(X[:50], y[:50]), whole.logpdf(X[:50], y[:50]))
    component = whole.predict_dist(X[:1])[0].contexts()[0]
    assert component.context.n_rows <= 6000
    assert whole.forests_[0].n_rows == 6000
    from coverwalk.forest.summary import summarise

    assert summarise(whole.forests_[0]).n_rows == 6000


@pytest.mark.parametrize("degree", [0, 2])
def test_a_stream_goes_on_from_sums(degree, tmp_path):
    X, y = rows()
    model = ConditionalDensity(n_estimators=2, stop=0.5, degree=degree).fit_chunks([(X, y)], **SUMS)
    forest = model.forests_[0]
    assert forest.n_summed == 6000
    if degree:
        for member in forest.members():
            exact = ready(member, forest.frame.rows(X).Z, 6000)
            np.testing.assert_allclose(
                member.fitted.learned.inverse, exact.fitted.learned.inverse, rtol=1e-6, atol=1e-9
            )
    X_test, y_test = rows(2000, seed=9)
    before = model.logpdf(X_test, y_test)
    X_new, y_new = rows(3000, seed=5)
    model.partial_fit(X_new[:1], y_new[:1])
    assert abs(np.mean(model.logpdf(X_test, y_test) - before)) < 1e-3
    model.partial_fit(X_new[1:], y_new[1:])
    assert model.stream_.n_rows == 9000
    assert model.log_likelihood(X_test, y_test) > before.mean() - (0.003 if degree else 0.02)
    model.save(tmp_path / "stream.cw")
    assert np.array_equal(load(tmp_path / "stream.cw").predict(X_test), model.predict(X_test))


def test_few_rows_are_fitted_as_in_memory():
    X, y = rows(300)
    plain = ConditionalDensity(n_estimators=2).fit(X, y)
    chunked = ConditionalDensity(n_estimators=2).fit_chunks(split(X, y, 4, seed=3))
    assert np.array_equal(plain.logpdf(X, y), chunked.logpdf(X, y))
    X, labels = labelled(300)
    plain = ContextClassifier(4, 2, random_state=0).fit(X, labels)
    chunked = ContextClassifier(4, 2, random_state=0).fit_chunks(split(X, labels, 4, seed=3))
    assert np.array_equal(plain.predict_proba(X), chunked.predict_proba(X))


def test_several_outputs_and_names_of_columns():
    pandas = pytest.importorskip("pandas")
    X, y = rows(3000)
    frame, Y = pandas.DataFrame(X, columns=["a", "b", "c"]), np.column_stack([y, y + X[:, 2]])
    model = ConditionalDensity(n_estimators=2, stop=0.5)
    model.fit_chunks([(frame[:1000], Y[:1000]), (frame[1000:], Y[1000:])], sample_rows=500, state_bytes=2**16)
    assert model.forests_[1].n_summed == 3000
    assert model.predict(frame[:5]).shape == (5, 2)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    names = {
        name
        for component in model.forests_[1].predict_dist(np.column_stack([X, y])[:9])[0].contexts()
        for name in box(component)
    }
    assert names <= {"a", "b", "c", "y0"}


def box(component):
    return component.context.box if component.context else {}


@pytest.mark.parametrize(("k", "seed"), [(3, 1), (25, 2)])
def test_classes_from_chunks(k, seed, tmp_path):
    X, y = labelled()
    options = {"sample_rows": 1000, "state_bytes": 2**16}  # no room for all rows
    one = ContextClassifier(4, 3, random_state=0).fit_chunks([(X, y)], **options)
    many = ContextClassifier(4, 3, random_state=0).fit_chunks(split(X, y, k, seed), **options)
    assert list(one.classes_) == ["high", "low", "middle"]
    assert relative(many.predict_proba(X), one.predict_proba(X)) < 1e-9
    root = one.contexts(X[:1], top=999)[0]
    assert max(sum(component.counts.values()) for component in root) == pytest.approx(
        4000
    )  # every row is counted, once
    X_test, y_test = labelled(1000, seed=5)
    small = ContextClassifier(4, 3, random_state=0).fit(X[:1000], y[:1000])
    assert one.score(X_test, y_test) > small.score(X_test, y_test) - 0.02
    path = tmp_path / "classes.cw"
    one.save(path)
    assert np.array_equal(load(path).predict_proba(X), one.predict_proba(X))
    one.partial_fit(X_test, y_test)
    assert one.n_rows_ == 5000
    with pytest.raises(ValueError, match="not declared"):
        one.partial_fit(X_test[:1], ["unheard of"])


STATES = {}


def state_of(kind):
    """A planned pass, its rows in ten chunks (one empty), and the state of each; made once."""
    if kind not in STATES:
        model = ConditionalDensity(2, stop=0.5) if kind != "classes" else ContextClassifier(2, 1, random_state=0)
        X, y = labelled(2000) if kind == "classes" else rows(2000)
        state = plan(model, X, y, sample_rows=300, state_bytes=2**15)
        for _ in range(["sample", "sums", "shapes"].index(kind) if kind != "classes" else 1):
            state = finalize(accumulate(state, X, y))
        edges = [0, 1, 1, 300, 310, 700, 1000, 1001, 1500, 1999, 2000]
        STATES[kind] = [accumulate(state, X[a:b], y[a:b]) for a, b in pairwise(edges)], accumulate(state, X, y)
    return STATES[kind]


def arrays_of(state):
    found = []

    def visit(thing):
        if isinstance(thing, np.ndarray):
            found.append(thing)
        elif isinstance(thing, (list, tuple)):
            for item in thing:
                visit(item)

    if hasattr(state, "sample"):
        visit([state.sample.X, state.sample.codes.astype(float), state.sample.count])
    else:
        visit([tree.arrays for part in getattr(state, "parts", [state]) for tree in part.sums])
    return found


@pytest.mark.parametrize("kind", ["sample", "sums", "shapes", "classes"])
@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_merge_is_associative_and_commutative(kind, data):
    parts, total = state_of(kind)
    heap = list(data.draw(st.permutations(parts)))
    while len(heap) > 1:
        a = heap.pop(data.draw(st.integers(0, len(heap) - 1)))
        b = heap.pop(data.draw(st.integers(0, len(heap) - 1)))
        heap.append(merge(a, b))
    assert heap[0].n_rows == total.n_rows == 2000
    ours, theirs = arrays_of(heap[0]), arrays_of(total)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_the_sample_is_a_sample_whatever_the_duplicates():
    X = np.repeat(np.arange(50.0)[:, None], 200, axis=0)
    sample = RowSample(100)
    for part in np.array_split(np.random.default_rng(0).permutation(len(X)), 7):
        sample.accumulate(X[part], X[part])
    drawn, _ = sample.rows()
    assert len(drawn) == 100
    assert np.all(np.bincount(drawn[:, 0].astype(int)) == 2)
    heavy = np.concatenate([np.zeros(5000), np.arange(1, 5001)])[:, None]
    sample = RowSample(200)
    sample.accumulate(heavy, heavy)
    drawn, _ = sample.rows()
    assert len(drawn) <= 201
    assert (drawn[:, 0] > 0).sum() >= 95  # the row that is half of all takes no more than half


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_read_twice_is_refused():
    X, y = rows(100)
    with pytest.raises(TypeError, match="new iterator"):
        ConditionalDensity().fit_chunks(iter([(X, y)]))
    readings = iter([5, 5, 4])
    with pytest.raises(ValueError, match="read again"):
        ConditionalDensity(n_estimators=1).fit_chunks(lambda: split(X, y, 5)[: next(readings)], **TIGHT)
    with pytest.raises(ValueError, match="no chunks"):
        ConditionalDensity().fit_chunks([])
    with pytest.raises(ValueError, match="not one row"):
        ConditionalDensity().fit_chunks([(X[:0], y[:0])])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.nan, y)), r"chunk 1: row 3 .* nan in y"),
        (lambda X, y: (np.where(np.arange(len(y))[:, None] == 7, np.inf, X), y), r"chunk 1: row 7 .* inf in x0"),
        (lambda X, y: (X[:, :2], y), "chunk 1: rows have 2 inputs, expected 3"),
        (lambda X, y: (X, y[:-1]), "chunk 1: X has 20 rows and y 19"),
        (lambda X, y: (X.astype(str).astype(object) + "?", y), "chunk 1: columns must be numbers"),
        (lambda X, y: (X, np.column_stack([y, y])), "chunk 1: y has 2 columns"),
    ],
)
def test_bad_rows_are_named_and_the_model_stays(spoil, message):
    X, y = rows(60)
    model = ConditionalDensity(n_estimators=1).fit(X, y)
    before = model.predict(X)
    chunks = split(X, y, 3)
    chunks[1] = spoil(*chunks[1])
    with pytest.raises(RowError, match=message):
        model.fit_chunks(chunks, sample_rows=30)
    assert np.array_equal(model.predict(X), before)


def test_rows_that_are_kept_are_fitted_as_by_fit_whatever_the_sample():
    X, y = rows(400)
    model = ConditionalDensity(n_estimators=3, random_state=0)
    expected = model.fit(X, y).logpdf(X, y)
    chunked = ConditionalDensity(n_estimators=3, random_state=0).fit_chunks(split(X, y, 3), sample_rows=100)
    np.testing.assert_allclose(chunked.logpdf(X, y), expected, rtol=0, atol=1e-9)


def test_a_y_beyond_all_units_is_refused():
    X, y = rows(2000)
    y = y * 1e-150
    y[np.argmax(row_codes(X, y))] = 1.0  # not in the sample
    with pytest.raises(ValueError, match="y = 1 is more than"):
        ConditionalDensity(n_estimators=1, stop=0.5).fit_chunks([(X, y)], **TIGHT | {"sample_rows": 100})


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e150])
def test_scales_do_not_matter(scale):
    X, y = rows(2000)
    chunks = split(scale * X, scale * y, 3)
    model = ConditionalDensity(n_estimators=2, stop=0.5).fit_chunks(chunks, sample_rows=500, state_bytes=2**15)
    assert model.score(scale * X, scale * y) > 0.9


def test_constant_columns_and_y_without_noise():
    X, y = rows(3000)
    X[:, 2] = 7.0
    for flat in (np.full(3000, 3.0), X[:, 0] - 2 * X[:, 1], np.round(3 * y)):
        models = [
            ConditionalDensity(n_estimators=2, stop=0.5).fit_chunks(
                split(X, flat, k, seed), **SUMS | {"state_bytes": 2**16}
            )
            for k, seed in ((1, None), (9, 2))
        ]
        one, many = (model.predict(X[:200]) for model in models)
        np.testing.assert_allclose(many, one, rtol=1e-9, atol=1e-9)
        one, many = (model.logpdf(X[:200], flat[:200]) for model in models)
        np.testing.assert_allclose(many, one, rtol=1e-6)


def test_labels_that_are_missing_are_named():
    X, y = labelled(60)
    y = y.astype(object)
    y[13] = None
    with pytest.raises(RowError, match=r"chunk 0: row 13 .* label None"):
        ContextClassifier().fit_chunks([(X, y)])


def test_states_of_different_plans_do_not_merge(planned):
    X, y = rows(400, seed=3)
    other = ForestSums.plan(X, y, Settings(n_trees=2))
    with pytest.raises(ValueError, match="one plan"):
        planned.empty().merge(other)
    with pytest.raises(ValueError, match="no rows"):
        planned.empty().finish()
    with pytest.raises(ValueError, match="20 and of 30"):
        RowSample(20).merge(RowSample(30))


def test_strange_options_are_refused():
    X, y = rows(50)
    with pytest.raises(ValueError, match="sample_rows"):
        ConditionalDensity().fit_chunks([(X, y)], sample_rows=0)
    assert is_pass(plan(ConditionalDensity(), X, y))
    assert not is_pass(ConditionalDensity())


# -- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_fit_reads_large_files_in_chunks(ending, tmp_path, capsys, monkeypatch):
    polars = pytest.importorskip("polars")
    from coverwalk.cli import fit, main

    X, y = rows(3000)
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    data, out = tmp_path / f"rows.{ending}", tmp_path / "model.cw"
    getattr(frame, f"write_{ending}")(data)
    call = ["fit", str(data), "--target", "y", "--trees", "2", "--sample", "500", "--out", str(out)]
    monkeypatch.setattr(fit, "ROWS_AT_ONCE", 700)
    assert main([*call, "--chunks"]) == 0
    assert "learned from 3000 rows" in capsys.readouterr().out
    model = load(out)
    ours = ConditionalDensity(n_estimators=2).fit_chunks([(frame[:, :3], y)], sample_rows=500)
    assert relative(model.predict(frame[:, :3]), ours.predict(frame[:, :3])) < 1e-9
    assert model.forests_[0].n_rows == 3000
    monkeypatch.setattr(fit, "LARGE_FILE", 1000)
    assert main(call) == 0
    assert load(out).forests_[0].n_rows == 3000
    assert main(["fit", "-", "--target", "y", "--chunks"]) == 1
    assert "read only once" in capsys.readouterr().err


@pytest.mark.parametrize(("labels", "options"), [(["a", "b"], []), ([1, 2], ["--classify"])])
def test_fit_reads_classes_in_chunks(labels, options, tmp_path, capsys):
    polars = pytest.importorskip("polars")
    from coverwalk.cli import main

    X, y = rows(1500)
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": [labels[int(up)] for up in y > 0]})
    data, out = tmp_path / "rows.csv", tmp_path / "model.cw"
    frame.write_csv(data)
    call = ["fit", str(data), "--target", "c", "--trees", "2", "--sample", "300", "--chunks", "--out", str(out)]
    assert main([*call, *options]) == 0
    assert "2 classes) given 2 columns, learned from 1500 rows" in capsys.readouterr().out
    model = load(out)
    assert list(map(repr, model.classes_.tolist())) == list(map(repr, labels))  # 1, not 1.0
    ours = ContextClassifier(2, random_state=0).fit_chunks([(frame[:, :2], frame["c"])], sample_rows=300)
    np.testing.assert_allclose(model.predict_proba(frame[:, :2]), ours.predict_proba(frame[:, :2]), rtol=1e-9)
    assert main(["show", str(out)]) == 0
    assert "1500" in capsys.readouterr().out.partition("rows")[2].split()[0]


def test_sums_of_classes_keep_half_of_what_all_rows_gain(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.passes.ROWS_KEPT", 1)  # no rows are kept: all that do not plan are summed
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:1200], order[1200:]

    def loss(model):
        return -model.predict_log_proba(X[test])[np.arange(len(test)), y[test]].mean()

    summed = ContextClassifier(random_state=0).fit_chunks(
        [(X[part], y[part]) for part in train.reshape(6, 200)], sample_rows=600
    )
    assert summed._n_summed == 1200
    half, whole = (loss(ContextClassifier(random_state=0).fit(X[train[:n]], y[train[:n]])) for n in (600, 1200))
    assert loss(summed) < 0.5 * (half + whole)


def test_trees_with_discriminants_keep_most_of_what_all_rows_gain(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.passes.ROWS_KEPT", 1)
    clusters = {"n_informative": 8, "n_redundant": 3, "n_classes": 4, "n_clusters_per_class": 6}
    X, y = make_classification(7000, 16, **clusters, class_sep=1.3, flip_y=0.02, random_state=4)

    def loss(model):
        return -model.predict_log_proba(X[4000:])[np.arange(3000), y[4000:]].mean()

    summed = ContextClassifier(0, 12, random_state=0).fit_chunks([(X[:4000], y[:4000])], sample_rows=2000)
    half, whole = (loss(ContextClassifier(0, 12, random_state=0).fit(X[:n], y[:n])) for n in (2000, 4000))
    assert loss(summed) < 0.25 * half + 0.75 * whole  # not so if they hold rows of the sample out


def test_rows_do_not_weigh_the_walks_that_predict_them_for_the_pool(monkeypatch):
    monkeypatch.setattr("coverwalk.forest.passes.ROWS_KEPT", 1)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 4)), rng.integers(2, size=4000)  # there is nothing to learn
    summed = ContextClassifier(random_state=0).fit_chunks([(X, y)], sample_rows=1000)
    assert summed.exponents_.sum() < 0.5
