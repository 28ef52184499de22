"""The forest on a stream: chunks, statistics, files, limits, and what it refuses."""

import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from coverwalk._kernels.stream_state import (
    CHOICE,
    CUT,
    DIM,
    LEFT,
    NU,
    NU_0,
    ODDS,
    RIDGE,
    SEAT,
    TERMS,
    columns,
    degree_of,
    scale_row,
    stride_of,
    to_units,
)
from coverwalk._kernels.stream_walk import _walk_back, _walk_back_in_logs
from sklearn.base import clone

from coverwalk import ConditionalDensity, DoubleTree, load
from coverwalk._kernels.double_tree.odds import log_odds, odds_from_log
from coverwalk._kernels.polynomial import features, n_features

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(2500, 3))
Y = np.where(rng.random(2500) < 0.3, 1.0, -1.0) * X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.standard_normal(2500)


def small(**parameters):
    return ConditionalDensity(**{"n_trees": 3, **parameters})


@pytest.fixture(scope="module")
def whole():
    model = small()
    return model.prequential(X, Y), model


def test_chunks_single_rows_and_one_call_are_one(whole):
    said, model = whole
    chunks, singles = small(), small()
    parts = [chunks.prequential(X[s : s + 83], Y[s : s + 83]) for s in range(0, len(Y), 83)]
    np.testing.assert_array_equal(np.concatenate(parts), said)
    np.testing.assert_array_equal([singles.learn_one(x, y) for x, y in zip(X, Y)], said)
    for other in (chunks, singles):
        np.testing.assert_array_equal(other.logpdf(X, Y), model.logpdf(X, Y))


def test_what_is_said_before_a_row_is_what_the_distribution_says(whole):
    said, _ = whole
    model = small().partial_fit(X[:2200], Y[:2200])
    dist = model.predict_dist(X[2200:2201])
    assert dist.logpdf(Y[2200]) == pytest.approx(said[2200], abs=1e-5)
    asked = model.predict_dist(X[2200:2300])
    np.testing.assert_allclose(asked.logpdf(Y[2200:2300]), model.logpdf(X[2200:2300], Y[2200:2300]), rtol=0, atol=1e-5)
    np.testing.assert_allclose(asked.mean(), model.predict(X[2200:2300]), rtol=0, atol=1e-10)
    assert np.all(np.isfinite(asked.std()))


def test_densities_integrate_to_one(whole):
    _, model = whole
    dist = model.predict_dist(X[:3])
    # between far quantiles by quadrature; the rest by the tails themselves
    for i in range(3):
        low, high = dist[i].ppf(1e-4), dist[i].ppf(1 - 1e-4)
        grid = np.linspace(low, high, 200_001)
        mass = np.sum(dist[i].pdf(0.5 * (grid[1:] + grid[:-1]))) * (grid[1] - grid[0])
        assert mass == pytest.approx(1 - 2e-4, abs=2e-4)
        np.testing.assert_allclose(
            model.logpdf(np.repeat(X[i : i + 1], 50, axis=0), grid[::4001][:50]),
            dist[i].logpdf(grid[::4001][:50]),
            rtol=0,
            atol=1e-4,
        )


def contexts_of(stream, slot):
    """Every context of a slot's tree: its row of numbers, parent, and the kept rows that lie in it."""
    links = stream.state.links.reshape(-1, stream.room, 4)[slot]
    table = stream.state.contexts.reshape(-1, stream.room, stream.state.contexts.shape[1])[slot]
    Z, r = np.empty((stream.n_rows, stream.p)), np.empty(stream.n_rows)
    units = stream.state.units
    for i in range(stream.n_rows):
        scale_row(stream.X, i, units, slot, Z[i])
        r[i] = to_units(stream.y[i], units[slot, 0, -1], units[slot, 1, -1])
    todo = [(0, -1, np.arange(stream.n_rows))]
    while todo:
        k, parent, rows = todo.pop()
        yield k, parent, links[k], table, Z[rows], r[rows]
        if links[k, LEFT] >= 0:
            right = Z[rows, links[k, DIM]] > table[k, CUT]
            todo += [(links[k, LEFT], k, rows[~right]), (links[k, LEFT] + 1, k, rows[right])]


@pytest.mark.parametrize("fitted", [0, 700])
def test_statistics_are_the_sums_of_all_rows_in_a_context(fitted):
    model = small(n_trees=2, degree=1)
    if fitted:
        model.fit(X[:fitted], Y[:fitted])
    stream = model.partial_fit(X[fitted:1900], Y[fitted:1900]).stream_.streams[0]
    assert stream.n_rows == 1900
    d = n_features(1, 3)
    centre, low, high, M = columns(d, 3)
    counted = 0
    for slot in stream.slots:
        for k, parent, links, table, Z, r in contexts_of(stream, slot):
            t = links[TERMS]
            F = np.empty((len(Z), d))
            for z, f in zip(Z, F):
                features(z, 1, f)
            assert table[k, NU] - NU_0 == len(Z)
            P_theta = table[k, M : M + np.uint64(t * stride_of(t))].reshape(t, -1)
            Lam = np.linalg.inv(P_theta[:, :t])
            np.testing.assert_allclose(Lam - table[k, RIDGE] * np.eye(t), F[:, :t].T @ F[:, :t], rtol=1e-7, atol=1e-7)
            # Lam theta = ridge theta_0 + F'(y - terms that stay the parent's)
            prior = table[parent, centre:low] if parent >= 0 else np.zeros(d)
            kept = r - F[:, t:] @ prior[t:]
            right = table[k, RIDGE] * prior[:t] + F[:, :t].T @ kept
            np.testing.assert_allclose(Lam @ P_theta[:, t], right, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(table[k, low:high], Z.min(axis=0))
            counted += links[SEAT] >= 0
            assert degree_of(t, 3) in (0, 1)
    assert counted > 10


@pytest.mark.parametrize("n_trees", [1, 3, 50])
def test_no_row_is_lost_while_trees_grow(n_trees):
    model = small(n_trees=n_trees)
    for start in range(0, 1200, 60):
        stream = model.partial_fit(X[start : start + 60], Y[start : start + 60]).stream_.streams[0]
        roots = stream.state.contexts[stream.slots * stream.room, NU] - NU_0
        np.testing.assert_array_equal(roots, start + 60)


def test_it_goes_on_from_what_was_fitted():
    model = ConditionalDensity(n_trees=4).fit(X[:1500], Y[:1500])
    smooth = [part.smooth for part in model.forests_[0].settings.part_of_trees()]
    trees = [tree.cut for tree in model.forests_[0].trees]
    model.partial_fit(X[1500:1501], Y[1500:1501])
    stream = model.stream_.streams[0]
    table = stream.state.contexts.reshape(5, stream.room, -1)
    for slot, cut in zip(stream.slots[np.invert(smooth)], [cut for cut, s in zip(trees, smooth) if not s]):
        np.testing.assert_array_equal(table[slot, : len(cut), CUT], cut)
    assert not hasattr(model, "forests_")
    fresh = ConditionalDensity(n_trees=4).partial_fit(X[:1501], Y[:1501])
    assert model.log_likelihood(X[1501:], Y[1501:]) > fresh.log_likelihood(X[1501:], Y[1501:]) - 0.3
    again = model.fit(X[:200], Y[:200])
    assert not hasattr(again, "stream_")
    np.testing.assert_array_equal(again.logpdf(X, Y), clone(model).fit(X[:200], Y[:200]).logpdf(X, Y))


def test_it_beats_the_double_tree():
    double_tree = DoubleTree().prequential(X, Y)[500:].mean()
    assert small().prequential(X, Y)[500:].mean() > double_tree + 0.3


def test_several_outputs_by_the_chain_rule():
    both = np.column_stack([Y, 2 * Y + X[:, 2]])
    model, first = small(), small()
    said = model.prequential(X[:900], both[:900])
    assert np.all(said >= -60)
    np.testing.assert_array_equal(
        model.stream_.streams[0].logpdf(X, Y), first.partial_fit(X[:900], Y[:900]).logpdf(X, Y)
    )
    joint = model.predict_dist(X[:4])
    np.testing.assert_allclose(joint.logpdf(both[:4]), model.logpdf(X[:4], both[:4]), rtol=0, atol=1e-5)
    assert model.predict(X[:4]).shape == (4, 2)
    one = small()
    np.testing.assert_array_equal([one.learn_one(x, y) for x, y in zip(X[:300], both[:300])], said[:300])


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 1e8, 1e299])
def test_scales_do_not_matter(scale):
    said = small(n_trees=2).prequential(X[:120] * scale, Y[:120] * scale)
    plain = small(n_trees=2).prequential(X[:120], Y[:120])
    assert np.all(np.isfinite(said))
    # units are set by the first row; other scales give other hashes, and so other trees
    assert said[60:].mean() + np.log(scale) == pytest.approx(plain[60:].mean(), abs=0.5)


def test_degenerate_streams():
    model = small()
    assert np.isfinite(model.learn_one(0.0, 0.0))
    assert np.isfinite(model.predict([[3.0]])).all()
    model.partial_fit(np.zeros((40, 1)), np.zeros(40))
    assert model.predict([[0.0]])[0] == pytest.approx(0.0, abs=1e-4)  # y has no more digits
    for x, y in ((1e300, -1e300), (-1e-300, 1e300), (0.0, 1.0)):
        assert np.isfinite(model.learn_one(x, y))
    assert np.isfinite(model.logpdf([[0.0]], [0.0])).all()
    low, high = model.predict_dist([[0.0]]).interval(0.5)
    assert np.isfinite(low).all()
    assert np.isfinite(high).all()


def test_bad_rows_are_refused_and_change_nothing():
    model = small().partial_fit(X[:300], Y[:300])
    before = pickle.dumps(model)
    bad = X[:10].copy()
    bad[7, 1] = np.inf
    with pytest.raises(ValueError, match="row 7, column 1"):
        model.partial_fit(bad, Y[:10])
    with pytest.raises(ValueError, match="infinity in row 2"):
        model.partial_fit(X[:3], [0.0, 1.0, np.inf])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:3, :2], Y[:3])
    with pytest.raises(ValueError, match="same number of rows"):
        model.partial_fit(X[:3], Y[:2])
    with pytest.raises(ValueError, match="1 columns"):
        model.partial_fit(X[:3], np.ones((3, 2)))
    with pytest.raises(ValueError, match="3 numbers"):
        model.learn_one([1.0, 2.0], 0.0)
    with pytest.raises(ValueError, match="must be finite"):
        model.learn_one([1.0, 2.0, np.inf], 0.0)
    with pytest.raises(ValueError, match="must be finite"):
        model.predict_dist(np.array([[1.0, 2.0, np.inf]]))
    assert pickle.dumps(model) == before
    fresh = small()
    with pytest.raises(ValueError, match="infinity in row 7"):
        fresh.partial_fit(bad, Y[:10])
    assert not hasattr(fresh, "n_features_in_")
    fresh.partial_fit(X[:5, :1], Y[:5])
    for wrong in ({"max_rows": 0}, {"max_contexts": 0}, {"max_rows": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            small(**wrong).partial_fit(X[:5], Y[:5])


def test_beyond_max_rows_structure_stays_and_statistics_go_on():
    model = small(max_rows=300, max_contexts=31).partial_fit(X[:300], Y[:300])
    stream = model.stream_.streams[0]
    cuts, n = stream.state.contexts[:, CUT].copy(), stream.n_contexts
    assert n <= 3 * 31
    model.partial_fit(X[300:], Y[300:])
    np.testing.assert_array_equal(stream.state.contexts[:, CUT], cuts)
    assert len(stream.y) == 0
    roots = stream.state.contexts[stream.slots * stream.room, NU] - NU_0
    np.testing.assert_array_equal(roots, len(Y))


MILLIONS = """
import resource, sys
import numpy as np
from coverwalk import ConditionalDensity
model = ConditionalDensity(n_trees=2, max_rows=2000, max_contexts=3)
rng = np.random.default_rng(0)
peaks = []
for _ in range(100):
    X = rng.standard_normal((100_000, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.standard_normal(100_000)
    loss = -model.prequential(X, y).mean()
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
stream = model.stream_.streams[0]
rows = stream.state.contexts[stream.slots * stream.room, 1] - 2
print(*rows.astype(int), peaks[-1] - peaks[9], loss)
"""


def test_ten_million_rows_in_flat_memory():
    ran = subprocess.run([sys.executable, "-c", MILLIONS], capture_output=True, text=True, check=True)
    first, second, kilobytes, loss = ran.stdout.split()
    assert int(first) == int(second) == 10_000_000
    assert int(kilobytes) < 3000
    assert float(loss) < 0.0


def test_files_and_pickles_go_on_as_if_nothing_had_happened(tmp_path, whole):
    said, _ = whole
    model = small()
    for start, stop in ((0, 7), (7, 1100), (1100, 1130), (1130, 2490)):  # 1130 and 1100: near growths
        model.partial_fit(X[start:stop], Y[start:stop])
        model.save(tmp_path / "m.cw")
        loaded, pickled = load(tmp_path / "m.cw"), pickle.loads(pickle.dumps(model))
        for other in (loaded, pickled):
            np.testing.assert_array_equal(other.prequential(X[stop:], Y[stop:]), said[stop:])


@pytest.mark.parametrize("stage", ["growth", "replay"])
def test_a_thread_that_a_fork_has_lost_is_done_again(whole, stage):
    """A forked child has what the thread had written, perhaps all of it, and no thread that says so."""
    said, _ = whole
    model = small()
    stream, n = model.partial_fit(X[:1], Y[:1]).stream_.streams[0], 1
    while stream.pending is None or n < 500 or (n >= stream.pending.replay) != (stage == "replay"):
        n += 1
        model.partial_fit(X[n - 1 : n], Y[n - 1 : n])
    stream._job.finish()
    stream._job._done, stream._job._process = False, -1
    np.testing.assert_array_equal(model.prequential(X[n:], Y[n:]), said[n:])


def test_small_densities_are_compared_by_their_logarithms():
    """Both ways back along a path give one density and the same odds; the odds may need steps."""
    generator = np.random.default_rng(7)
    width, depth = 12, 9
    for far in (1.0, 600.0):
        plain = np.zeros(width * depth)
        for column in (ODDS, CHOICE):
            log_g = generator.normal(scale=far, size=depth)
            for level in range(depth):
                at = level * width + int(column)
                plain[at], plain[at + 1] = odds_from_log(log_g[level])
        logs = plain.copy()
        path = np.arange(depth) * width
        said = np.stack(
            [generator.uniform(0.1, 3, depth), -generator.uniform(0, 30, depth), generator.uniform(0, 2, depth)]
        )
        said[2, ::4] = -1.0  # no histogram
        one = _walk_back(plain, path, said, depth, True)
        other = _walk_back_in_logs(logs, path, said, depth, True, np.ones(depth))
        assert one == pytest.approx(other, rel=1e-12)
        for column in (ODDS, CHOICE):
            for level in range(depth):
                at = level * width + int(column)
                assert log_odds(plain[at], plain[at + 1]) == pytest.approx(log_odds(logs[at], logs[at + 1]), rel=1e-12)


def test_rows_far_from_all_others_are_learned_in_logarithms():
    model = small().partial_fit(X[:1500], Y[:1500])
    for far in (40.0, 1e4):
        before = model.predict_dist(X[:1]).logpdf(far)[0]
        assert model.learn_one(X[0], far) == pytest.approx(before, abs=1e-5)
    said = model.prequential(X[1500:], Y[1500:])
    assert said.mean() > -0.15


def test_a_law_does_not_change_when_the_stream_goes_on(whole):
    _, model = whole
    model = pickle.loads(pickle.dumps(model))
    asked, kept = model.predict_dist(X[:1]), model.predict_dist(X[:1])
    before = asked.logpdf(np.array([[-1.0, 0.0, 1.0]]))
    assert asked.mean()[0] == pytest.approx(model.predict(X[:2])[0], abs=1e-12)
    again = pickle.dumps((kept.voices, kept.shapes.atom_weight))
    lazy = model.predict_dist(X[:1])
    model.partial_fit(X[:300], -Y[:300])
    np.testing.assert_array_equal(lazy.logpdf(np.array([[-1.0, 0.0, 1.0]])), before)
    assert pickle.dumps((lazy.voices, lazy.shapes.atom_weight)) == again
    assert len(lazy) == 1
    with pytest.raises(AttributeError, match="nothing"):
        lazy.nothing  # noqa: B018


def turned(n):
    generator = np.random.default_rng(3)
    A = generator.uniform(-1, 1, size=(2 * n, 2))
    side = np.where(np.arange(2 * n) < n, 1.0, -1.0)
    return A, side * np.sin(3 * A[:, 0]) + 0.2 * generator.standard_normal(2 * n)


def test_a_stream_that_forgets_follows_a_change_in_bounded_memory(tmp_path):
    A, b = turned(2000)
    model, keeps = small(forget=0.004), small()
    said = model.prequential(A, b)
    fresh = small().prequential(A[2000:], b[2000:])
    assert said[3000:].mean() > fresh[1000:].mean() - 0.15
    assert keeps.prequential(A, b)[3000:].mean() < fresh[1000:].mean() - 0.5
    stream = model.stream_.streams[0]
    assert len(stream.y) < 1500  # some windows of 250 rows
    # in chunks, and over a file
    other = small(forget=0.004)
    parts = []
    for start in range(0, 4000, 170):
        parts.append(other.prequential(A[start : start + 170], b[start : start + 170]))
        if start % 3 == 0:
            other.save(tmp_path / "m.cw")
            other = load(tmp_path / "m.cw")
    np.testing.assert_array_equal(np.concatenate(parts), said)


def test_forgetting_discounts_rows_by_their_age():
    model = small(n_trees=1, forget=0.01, max_rows=50).partial_fit(X[:1000], Y[:1000])
    stream = model.stream_.streams[0]
    begun = int(stream.state.contexts[stream.slots[0] * stream.room, NU] - NU_0)
    # the last growth had a window of 50 rows at most; every row since fades by one per cent a row
    assert begun <= 100
    one = small(n_trees=1, forget=0.01).partial_fit(X[:9], Y[:9])
    before = one.stream_.streams[0]
    i = before.slots[0] * before.room
    n = before.state.contexts[i, NU] - NU_0
    one.learn_one(X[9], Y[9])
    assert before.state.contexts[i, NU] - NU_0 == pytest.approx(0.99 * n + 1, rel=1e-12)
    for wrong in (-0.1, 0.5, "no", True):
        with pytest.raises(ValueError, match="forget"):
            small(forget=wrong).partial_fit(X[:3], Y[:3])


KILLED = """
import sys, time
import numpy as np
sys.path.insert(0, {tests!r})
from coverwalk import ConditionalDensity, load
rng = np.random.default_rng(5)
X = rng.uniform(size=(6000, 2)); y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(6000)
model = ConditionalDensity(n_trees=3)
for start in range(0, 6000, 50):
    model.partial_fit(X[start : start + 50], y[start : start + 50])
    model.save({path!r})
    print(start + 50, flush=True)
    time.sleep(0.005)
"""


def test_a_killed_process_goes_on_from_its_file(tmp_path):
    path = str(tmp_path / "m.cw")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED.format(tests=".", path=path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 2000:
        pass
    time.sleep(0.02)  # somewhere between two saves
    process.kill()
    process.wait()
    process.stdout.close()
    generator = np.random.default_rng(5)
    A = generator.uniform(size=(6000, 2))
    b = np.sin(6 * A[:, 0]) + 0.1 * generator.standard_normal(6000)
    model, unbroken = load(path), ConditionalDensity(n_trees=3).partial_fit(A, b)
    n = model.stream_.n_rows
    assert 2000 <= n < 6000
    model.partial_fit(A[n:], b[n:])
    np.testing.assert_array_equal(model.logpdf(A, b), unbroken.logpdf(A, b))


def test_forged_arrays_are_refused(tmp_path):
    model = small().partial_fit(X[:300], Y[:300])

    def forge(name, column, value):
        copy = pickle.loads(pickle.dumps(model))
        forged = copy.stream_.streams[0]
        getattr(forged.state, name)[forged.slots[0] * forged.room, column] = value
        return copy

    for name, column, value in (
        ("links", LEFT, 10**6),
        ("links", LEFT, 0),
        ("links", DIM, 3),
        ("links", TERMS, 50),
        ("links", SEAT, 10**6),
        ("contexts", NU, np.nan),
        ("contexts", NU, -5.0),
    ):
        forge(name, column, value).save(tmp_path / "m.cw")
        with pytest.raises(ValueError, match="sound"):
            load(tmp_path / "m.cw")
    other = pickle.loads(pickle.dumps(model))
    other.stream_.streams[0].slots[0] = 77
    other.save(tmp_path / "m.cw")
    with pytest.raises(ValueError, match="sound"):
        load(tmp_path / "m.cw")


def test_contexts_tell_who_speaks(whole):
    _, model = whole
    voices = model.predict_dist(X[:2])[0].contexts(top=3)
    assert voices[0].weight >= voices[1].weight
    box = voices[0].context.box
    for name, (low, high) in box.items():
        assert low < X[0, int(name[1:])] <= high
