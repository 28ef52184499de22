"""The forest on a stream: it is the fitted forest, learns as its plain oracle does, and depends on rows alone."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from coverwalk import ConditionalDensity, DoubleTree, load
from coverwalk.forest.experts.trend import Trend
from coverwalk.forest.members import Part
from coverwalk.forest.schedule import MAX_WAIT, NEVER, Job, Pace, StreamSettings
from coverwalk.forest.settings import Settings
from coverwalk.forest.stream import ForestStream
from coverwalk.forest.target_choice import choose_rounding
from coverwalk.forest.threads import one_blas_thread
from coverwalk.preparation.scaling import ScaledRows

from .slow_stream import SlowStream

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(2500, 3))
Y = np.where(rng.random(2500) < 0.3, 1.0, -1.0) * X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.standard_normal(2500)


def small(**parameters):
    return ConditionalDensity(**{"n_estimators": 3, **parameters})


@pytest.fixture(scope="module")
def global_kernel():
    model = small()
    return model.prequential(X, Y), model


def test_chunks_single_rows_and_one_call_are_one(global_kernel):
    said, model = global_kernel
    chunks, singles = small(), small()
    parts = [chunks.prequential(X[s : s + 83], Y[s : s + 83]) for s in range(0, len(Y), 83)]
    np.testing.assert_array_equal(np.concatenate(parts), said)
    np.testing.assert_array_equal([singles.learn_one(x, y) for x, y in zip(X, Y)], said)
    for other in (chunks, singles):
        np.testing.assert_array_equal(other.logpdf(X, Y), model.logpdf(X, Y))


def test_what_is_said_before_a_row_is_what_the_distribution_says(global_kernel):
    said, _ = global_kernel
    model = small().partial_fit(X[:2200], Y[:2200])
    dist = model.predict_dist(X[2200:2201])
    assert dist.logpdf(Y[2200]) == pytest.approx(said[2200], abs=1e-9)
    asked = model.predict_dist(X[2200:2300])
    np.testing.assert_allclose(asked.logpdf(Y[2200:2300]), model.logpdf(X[2200:2300], Y[2200:2300]), rtol=0, atol=1e-9)
    np.testing.assert_allclose(asked.mean(), model.predict(X[2200:2300]), rtol=0, atol=1e-10)
    assert np.all(np.isfinite(asked.std()))


@pytest.mark.parametrize("parameters", [{}, {"stop": 0.9, "n_estimators": 2}])
def test_the_mean_of_a_row_is_that_of_its_distribution(parameters):
    model = small(**parameters).partial_fit(X[:700], Y[:700])
    stream = model.stream_.streams[0]
    means = [stream.mean_one(X[i : i + 1].copy()) for i in range(700, 760)]
    np.testing.assert_allclose(means, model.predict_dist(X[700:760]).mean(), rtol=1e-12, atol=1e-12)


def test_densities_integrate_to_one(global_kernel):
    _, model = global_kernel
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


PARTS = (Part(1, 1, 0.5, False), Part(2, 2, 0.8, False), Part(1, 1, 0.6, True))


def fitted_forest(n=700, parts=PARTS):
    from coverwalk.forest.forest import Forest

    settings = Settings(n_trees=sum(part.n_trees for part in parts), parts=parts, scale_factor=0.9)
    forest = Forest.plan(X[:n], Y[:n], settings)
    forest.accumulate(X[:n], Y[:n])
    forest.finalize()
    return forest, StreamSettings(settings, choose=False)


def test_right_after_a_fit_the_stream_says_what_the_fit_says():
    forest, settings = fitted_forest()
    stream = ForestStream.of(forest, settings)
    fit = forest.predict_dist(X[700:900]).logpdf(Y[700:900])
    np.testing.assert_allclose(stream.logpdf(X[700:900], Y[700:900]), fit, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(stream.counts, 0.25 * 700 / 4)  # its weights are worth the rows that were held out


def test_a_stream_leaves_the_forest_from_which_it_goes_on_as_it_was():
    forest, settings = fitted_forest()
    rows = slice(700, 720)
    before = ForestStream.of(forest, settings).learn(X[rows], Y[rows])
    ForestStream.of(forest, settings).learn(X[rows], Y[rows] + 3.0)
    np.testing.assert_array_equal(ForestStream.of(forest, settings).learn(X[rows], Y[rows]), before)


def test_copies_of_a_stream_keep_their_own_rows():
    stream = ForestStream(StreamSettings(Settings(n_trees=3), choose=False), 3, list("abc"))
    stream.learn(X[:300], Y[:300])
    one, other, alone = stream.copy(), stream.copy(), pickle.loads(pickle.dumps(stream))
    for each in (one, alone):
        each.learn(X[300:330], Y[300:330])
    other.learn(X[500:530], Y[500:530] + 3.0)
    for each in (one, alone):  # and trees grow from the rows that were kept
        each.learn(X[600:1500], Y[600:1500])
    np.testing.assert_array_equal(one.logpdf(X[:9], Y[:9]), alone.logpdf(X[:9], Y[:9]))


@pytest.mark.parametrize(("n", "decay"), [(700, 0.0), (60, 0.0), (700, 0.01), (60, 0.05)])
def test_a_plain_stream_learns_the_same(n, decay):
    """Row by row: planes, scales, choices, odds and the pool, before any tree grows again."""
    forest, settings = fitted_forest(n)
    stream = ForestStream.of(forest, replace(settings, decay=decay))
    stream.next_event = NEVER
    slow = SlowStream(stream, X[:n])
    rows = slice(n, n + 150)
    Y = np.where(np.arange(len(X)) == n + 40, 1.5 + globals()["Y"], globals()["Y"])  # a row more than six scales out
    np.testing.assert_allclose(
        stream.learn(X[rows], Y[rows]), [slow.learn(x, y) for x, y in zip(X[rows], Y[rows])], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(stream.counts, slow.counts, rtol=1e-9)
    if not decay:  # what fades does so when the next row is learned
        after = n + 150
        said = stream.logpdf(X[after : after + 1], Y[after : after + 1])
        assert said[0] == pytest.approx(slow.learn(X[after], Y[after]), rel=1e-9)


def test_rows_of_one_leaf_are_weighed_by_bayes_rule():
    """Where all rows go one way, the walk is a mixture over its contexts: their weights are products of densities."""
    forest, settings = fitted_forest(parts=PARTS[:1])
    stream = ForestStream.of(forest, settings)
    stream.next_event = NEVER
    tree, records = stream.members[0].tree, stream.members[0].fitted.records
    Z = stream.members[0].frame.rows(X).Z
    leaf = tree.leaves(Z)
    ways = {}  # of the leaves that have enough rows
    for k in np.flatnonzero(np.bincount(leaf) >= 12):
        way, at = [], k
        while at >= 0:
            way += list(range(records.first[at], records.first[at + 1]))
            at = tree.parent[at]
        ways[k] = way
    end, way = max(ways.items(), key=lambda each: len(each[1]))
    rows = np.flatnonzero(leaf == end)[:12]
    dist = stream.predict_dist(X[rows[:1]])
    weight = dist.components.weight[1:].copy()
    assert len(weight) == len(way) > 2
    for i in rows:
        densities = component_densities(stream.predict_dist(X[i : i + 1]), Y[i])[1:]
        weight *= densities
        weight /= weight.sum()
        stream.learn(X[i : i + 1], Y[i : i + 1])
    after = stream.predict_dist(X[rows[:1]]).components.weight[1:]
    np.testing.assert_allclose(after / after.sum(), weight, rtol=1e-7)


def component_densities(dist, y):
    """Of one row."""
    out = []
    for m in range(len(dist.components.weight)):
        weight = np.zeros(len(dist.components.weight))
        weight[m] = 1.0
        alone = dist[:]
        alone.components = dist.components._replace(weight=weight)
        out.append(float(alone.pdf(np.array([y]))[0]))
    return np.array(out)


@pytest.mark.parametrize("n_trees", [1, 3, 50])
def test_no_row_is_lost_while_trees_grow(n_trees):
    model = small(n_estimators=n_trees)
    for start in range(0, 1200, 60):
        stream = model.partial_fit(X[start : start + 60], Y[start : start + 60]).stream_.streams[0]
        assert stream.n_rows == start + 60
        for member in stream.members:
            learned, records = member.fitted.learned, member.fitted.records
            assert learned.nu[records.slot[0]] - 2 == start + 60


@pytest.mark.parametrize("auto", [True, False])
def test_one_row_after_a_fit_changes_little_and_more_rows_help(auto):
    model = ConditionalDensity(n_estimators=6, stop="auto" if auto else 0.5).fit(X[:1200], Y[:1200])
    fit = model.log_likelihood(X[1900:], Y[1900:])
    model.partial_fit(X[1200:1201], Y[1200:1201])
    assert model.log_likelihood(X[1900:], Y[1900:]) == pytest.approx(fit, abs=0.003)
    assert not hasattr(model, "forests_")
    model.partial_fit(X[1201:1900], Y[1201:1900])
    all_rows = clone(model).fit(X[:1900], Y[:1900]).log_likelihood(X[1900:], Y[1900:])
    assert model.log_likelihood(X[1900:], Y[1900:]) >= min(all_rows, fit + 0.5 * (all_rows - fit)) - 0.01
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
    said = small(n_estimators=2).prequential(X[:120] * scale, Y[:120] * scale)
    plain = small(n_estimators=2).prequential(X[:120], Y[:120])
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
    splits = [member.tree.split for member in stream.members]
    assert all(len(split) <= 31 for split in splits)
    stream = model.partial_fit(X[300:], Y[300:]).stream_.streams[0]
    for member, split in zip(stream.members, splits):
        np.testing.assert_array_equal(member.tree.split, split)
        assert member.fitted.learned.nu[member.fitted.records.slot[0]] - 2 == len(Y)
    assert len(stream.y) == 0


MILLIONS = """
import resource, sys
import numpy as np
from coverwalk import ConditionalDensity
model = ConditionalDensity(n_estimators=2, max_rows=2000, max_contexts=3)
rng = np.random.default_rng(0)
peaks = []
for _ in range(20):
    X = rng.standard_normal((100_000, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.standard_normal(100_000)
    loss = -model.prequential(X, y).mean()
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
stream = model.stream_.streams[0]
rows = [member.fitted.learned.nu[member.fitted.records.slot[0]] - 2 for member in stream.members]
print(*map(int, rows), peaks[-1] - peaks[1], loss)
"""


def test_millions_of_rows_in_flat_memory():
    """At most a third of a byte a row from the second to the last of twenty chunks."""
    ran = subprocess.run([sys.executable, "-c", MILLIONS], capture_output=True, text=True, check=True)
    first, second, kilobytes, loss = ran.stdout.split()
    assert int(first) == int(second) == 2_000_000
    assert int(kilobytes) < 600
    assert float(loss) < 0.0


def test_files_and_pickles_go_on_as_if_nothing_had_happened(tmp_path, global_kernel):
    said, _ = global_kernel
    model = small()
    for start, stop in ((0, 7), (7, 1100), (1100, 1130), (1130, 2490)):  # 1130 and 1100: near growths
        model.partial_fit(X[start:stop], Y[start:stop])
        model.save(tmp_path / "m.cover")
        loaded, pickled = load(tmp_path / "m.cover"), pickle.loads(pickle.dumps(model))
        for other in (loaded, pickled):
            np.testing.assert_array_equal(other.prequential(X[stop:], Y[stop:]), said[stop:])


def test_a_thread_that_a_fork_has_lost_is_done_again():
    """A forked child has no thread: it does the work itself."""
    generator = np.random.default_rng(8)
    A = generator.uniform(size=(1500, 2))
    b = A[:, 0] + 0.1 * generator.standard_normal(1500)
    model = small(n_estimators=4, stop=0.5).partial_fit(A[:1024], b[:1024])
    global_kernel = pickle.loads(pickle.dumps(model)).prequential(A[1024:], b[1024:])
    n = 1024
    while model.stream_.streams[0].growing is None:
        model.partial_fit(A[n : n + 1], b[n : n + 1])
        n += 1
    job = model.stream_.streams[0].growing
    job.result()
    job._found.clear()
    job._process = -1
    np.testing.assert_array_equal(model.prequential(A[n:], b[n:]), global_kernel[n - 1024 :])


class GrowthInHand:
    """Stands for a growth that took so many seconds; notes who waits for it."""

    def __init__(self, took):
        self.took, self.waited = took, []

    def wait(self, seconds):
        self.waited.append(seconds)


def test_rows_wait_a_little_for_a_growth_that_is_late_and_not_for_others():
    pace = Pace()
    first = GrowthInHand(took=10.0)
    pace.begin(first, 100, "tree")
    pace.wait(1)
    assert first.waited == []  # nothing tells yet how long it takes
    pace.end()
    late = GrowthInHand(took=20.0)
    pace.begin(late, 200, "tree")  # 20 seconds are expected
    pace.wait(10**6)
    assert late.waited == []
    pace.wait(100)
    assert late.waited == [MAX_WAIT]
    pace.end()
    pace.wait(100)
    assert late.waited == [MAX_WAIT]  # it is installed
    unknown = GrowthInHand(took=0.0)
    pace.begin(unknown, 200, "chosen")
    pace.wait(100)
    assert unknown.waited == [MAX_WAIT]  # of another kind: the slowest is expected
    pace.end()
    quick = GrowthInHand(took=0.0)
    pace.begin(quick, 200, "chosen")
    pace.wait(1)
    assert quick.waited == []


def test_a_job_is_waited_for_so_long_or_until_it_is_done():
    end = threading.Event()
    job = Job(end.wait)
    job.wait(0.001)
    assert not job.took
    end.set()
    job.wait(60.0)
    assert job.took > 0.0
    assert job.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore")
def test_a_child_finds_trends_beside_a_thread_that_the_fork_has_lost():
    begun, end = threading.Event(), threading.Event()

    def busy():
        with one_blas_thread():
            begun.set()
            end.wait()

    Job(busy)
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            Trend.plan(ScaledRows(X[:60, :1], X[:60, :1]), Y[:60], 0)
            os._exit(0)
        finally:
            os._exit(1)
    end.set()
    assert os.waitpid(child, 0)[1] == 0


def test_an_interrupted_call_leaves_the_model_as_it_was(monkeypatch):
    model = small().partial_fit(X[:300], Y[:300])
    before = model.logpdf(X, Y)

    def interrupted(self, *given):
        raise KeyboardInterrupt

    monkeypatch.setattr(ForestStream, "_work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[300:1500], Y[300:1500])
    monkeypatch.undo()
    np.testing.assert_array_equal(model.logpdf(X, Y), before)
    fresh = small()
    monkeypatch.setattr(ForestStream, "_work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fresh.partial_fit(X[:300], Y[:300])
    assert not hasattr(fresh, "n_features_in_")


@pytest.mark.parametrize("end", ["grown", "installed"])
def test_an_interrupt_after_a_growth_has_learned_rows_leaves_them_to_be_learned(monkeypatch, end):
    """The growth belongs to the model that goes on too: what the interrupted call has it learn is forgotten."""
    model = small(n_estimators=4).partial_fit(X[:1500], Y[:1500])
    n = 1500
    while model.stream_.streams[0].growing is None:
        model.partial_fit(X[n : n + 1], Y[n : n + 1])
        n += 1
    wholly = pickle.loads(pickle.dumps(model)).prequential(X[n:], Y[n:])
    last = model.stream_.streams[0]._growth_ends()[end == "installed"] + 5
    find = ForestStream._find_event

    def interrupted(self):
        if self.n_rows > last:
            raise KeyboardInterrupt
        return find(self)

    monkeypatch.setattr(ForestStream, "_find_event", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[n:2400] + 0.1, Y[n:2400] + 1.0)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.prequential(X[n:], Y[n:]), wholly)


def test_rows_far_from_all_others_are_learned_in_logarithms():
    model = small().partial_fit(X[:1500], Y[:1500])
    for far in (40.0, 1e4):
        before = model.predict_dist(X[:1]).logpdf(far)[0]
        assert model.learn_one(X[0], far) == pytest.approx(before, abs=1e-9)
    said = model.prequential(X[1500:], Y[1500:])
    assert said.mean() > -0.15


def test_a_law_does_not_change_when_the_stream_goes_on(global_kernel):
    _, model = global_kernel
    model = pickle.loads(pickle.dumps(model))
    asked, kept = model.predict_dist(X[:1]), model.predict_dist(X[:1])
    before = asked.logpdf(np.array([[-1.0, 0.0, 1.0]]))
    assert asked.mean()[0] == pytest.approx(model.predict(X[:2])[0], abs=1e-12)
    again = pickle.dumps((kept.components, kept.shapes.atom_weight))
    lazy = model.predict_dist(X[:1])
    model.partial_fit(X[:300], -Y[:300])
    np.testing.assert_array_equal(lazy.logpdf(np.array([[-1.0, 0.0, 1.0]])), before)
    assert pickle.dumps((lazy.components, lazy.shapes.atom_weight)) == again
    assert len(lazy) == 1


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
            other.save(tmp_path / "m.cover")
            other = load(tmp_path / "m.cover")
    np.testing.assert_array_equal(np.concatenate(parts), said)


def test_forgetting_discounts_rows_by_their_age():
    model = small(n_estimators=1, forget=0.01, stop=0.5).partial_fit(X[:9], Y[:9])
    member = model.stream_.streams[0].members[0]
    root = member.fitted.records.slot[0]
    n = member.fitted.learned.nu[root] - 2
    model.learn_one(X[9], Y[9])
    member = model.stream_.streams[0].members[0]
    assert member.fitted.learned.nu[root] - 2 == pytest.approx(0.99 * n + 1, rel=1e-12)
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
model = ConditionalDensity(n_estimators=3)
for start in range(0, 6000, 50):
    model.partial_fit(X[start : start + 50], y[start : start + 50])
    model.save({path!r})
    print(start + 50, flush=True)
    time.sleep(0.005)
"""


def test_a_killed_process_goes_on_from_its_file(tmp_path):
    path = str(tmp_path / "m.cover")
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
    model, unbroken = load(path), ConditionalDensity(n_estimators=3).partial_fit(A, b)
    n = model.stream_.n_rows
    assert 2000 <= n < 6000
    model.partial_fit(A[n:], b[n:])
    np.testing.assert_array_equal(model.logpdf(A, b), unbroken.logpdf(A, b))


def test_contexts_tell_who_speaks(global_kernel):
    _, model = global_kernel
    components = model.predict_dist(X[:2])[0].contexts(top=3)
    assert components[0].weight >= components[1].weight
    box = components[0].context.box
    for name, (low, high) in box.items():
        assert low < X[0, int(name[1:])] <= high


@pytest.mark.parametrize("step", [0.0, 0.01, 1.0])
def test_the_mean_of_one_row_is_that_of_its_distribution_whatever_y_is_rounded_to(step):
    rng = np.random.default_rng(3)
    A = rng.uniform(size=(400, 3))
    b = 3 * A[:, 0] + 0.3 * rng.standard_normal(400)
    b = np.round(b / step) * step if step else b
    model = small(n_estimators=3).partial_fit(A, b)
    stream = model.stream_.streams[0]
    rounding = stream.base.settings.rounding
    assert rounding is None if not step else rounding.step == pytest.approx(step)
    stream.table.y_cells = None  # what is not of trees has its own means
    means = [stream.mean_one(x[None]) for x in A[:30]]
    np.testing.assert_allclose(means, stream.predict_dist(A[:30]).mean(), rtol=1e-12)


def test_threads_that_ask_at_once_get_addresses_of_the_same_arrays():
    """What `trees` tells is kept without a lock: the last thread's arrays are kept, and all use their own addresses."""
    table = ForestStream.of(*fitted_forest()).table
    first = table.trees
    del table.__dict__["trees"]  # as a second thread finds it that came before the first was done
    np.testing.assert_array_equal(table.trees.where, first.where)


def skewed(n, seed=4, signal=2.0, noise=0.2):
    """Log-normal y."""
    generator = np.random.default_rng(seed)
    A = generator.uniform(-1, 1, size=(n, 2))
    return A, np.exp(signal * np.sin(2 * A[:, 0]) + noise * generator.standard_normal(n))


def rounding_of(model):
    return model.stream_.streams[0].base.settings.rounding


@pytest.mark.parametrize("stop", ["auto", 0.5])
@pytest.mark.parametrize("fitted", [90, 0])
def test_a_stream_looks_again_for_the_scale_of_y(stop, fitted):
    """90 rows are too few for a logarithmic scale, whatever they say."""
    A, b = skewed(700)
    half = ConditionalDensity(4, stop=stop).fit(A[:90], b[:90])
    model = clone(half).fit(A[:fitted], b[:fitted]) if fitted else clone(half)
    assert rounding_of(model.partial_fit(A[fitted:95], b[fitted:95])) is None
    assert rounding_of(model.partial_fit(A[95:200], b[95:200])).bounds.low == pytest.approx(0.0, abs=0.2)
    fit = clone(model).fit(A[:200], b[:200])
    stream, all_rows, few = (each.log_likelihood(A[200:], b[200:]) for each in (model, fit, half))
    assert stream > few + 0.5 * (all_rows - few)


def test_a_scale_once_found_is_kept_without_asking_again(monkeypatch):
    A, b = skewed(168)
    few = choose_rounding(A[:118], b[:118], Settings())
    assert few.bounds is not None
    asked = []
    monkeypatch.setattr("coverwalk.forest.target_choice._scores", lambda *rows: asked.append(rows) or np.zeros(1))
    assert choose_rounding(A, b, Settings(), few).bounds is not None
    assert not asked
    assert choose_rounding(A, b, Settings()) is None  # no row is predicted better
    assert len(asked) == 2


def leaving_a_grid(n, at):
    A, b = skewed(n)
    return A, np.where(np.arange(n) < at, np.log(b).round(1), np.log(b))


def test_a_grid_is_given_up_where_y_leaves_it():
    A, b = leaving_a_grid(400, 100)
    model = ConditionalDensity(4, stop=0.5).partial_fit(A[:100], b[:100])
    assert rounding_of(model).step == 0.1
    assert rounding_of(model.partial_fit(A[100:], b[100:])) is None


def test_all_trees_grow_beside_the_stream_where_y_is_rounded_otherwise(tmp_path):
    """From 1024 rows on, on a thread: whatever the chunks, over a file, and without losing a row."""
    A, b = leaving_a_grid(1800, 1060)
    model = ConditionalDensity(4, stop=0.5).partial_fit(A[:1100], b[:1100])
    singles = pickle.loads(pickle.dumps(model))
    n, growing = 1100, None
    while growing is None or not growing.result().whole:
        growing = model.partial_fit(A[n : n + 20], b[n : n + 20]).stream_.streams[0].growing
        n += 20
        assert rounding_of(model).step == 0.1
    model.save(tmp_path / "m.cover")
    said = model.prequential(A[n:], b[n:])
    assert rounding_of(model).step == 0.0  # and the values of the grid are atoms
    for member in model.stream_.streams[0].members:
        assert member.fitted.learned.nu[member.fitted.records.slot[0]] - 2 == 1800
    loaded = load(tmp_path / "m.cover")
    np.testing.assert_array_equal(loaded.prequential(A[n:], b[n:]), said)
    by_row = [singles.learn_one(x, y) for x, y in zip(A[1100:], b[1100:])]
    np.testing.assert_array_equal(by_row[n - 1100 :], said)
    for other in (loaded, singles):
        np.testing.assert_array_equal(other.logpdf(A, b), model.logpdf(A, b))


def test_units_are_found_anew_where_a_rotation_begins():
    stream = ConditionalDensity(4, stop=0.5).partial_fit(X[:1000], Y[:1000]).stream_.streams[0]
    assert stream.base.planned > 800
    assert stream.members[stream.turn % 4 - 1].frame is stream.base.frame


def test_every_choice_begins_from_the_parameters(monkeypatch):
    """And not from what was chosen before: a degree that few rows did not ask for may be right for more."""
    begun = []

    def chosen(X, y, settings, *given, **named):
        begun.append((settings.degree, settings.scale_factor, settings.kernel, settings.parts, settings.y_cells))
        part = Part(4, 1, 0.9, False)
        return replace(settings, degree=1, stop=0.9, scale_factor=0.87, parts=(part,))

    monkeypatch.setattr("coverwalk.forest.growth.choose", chosen)
    ConditionalDensity(4).partial_fit(X[:1100], Y[:1100])
    assert len(begun) == 5  # near 64, 122, 232, 441 and 838 rows
    ConditionalDensity(4).fit(X[:60], Y[:60]).partial_fit(X[60:300], Y[60:300])
    assert len(begun) == 7  # at 1.9 and 3.6 times 60
    assert set(begun) == {(2, 1.0, 0.0, (), None)}


@pytest.mark.parametrize(("n", "n_trees"), [(60, 16), (200, 4), (463, 16)])
def test_parts_are_chosen_again_before_the_rows_have_doubled(n, n_trees):
    model = ConditionalDensity(n_trees).fit(X[:n], Y[:n]).partial_fit(X[n : 2 * n], Y[n : 2 * n])
    assert n < model.stream_.streams[0].chosen_at <= 2 * n


@pytest.mark.parametrize("n", [300, 1100])
def test_y_is_looked_at_before_its_rows_have_doubled(n):
    model = ConditionalDensity(4).fit(X[:n], Y[:n]).partial_fit(X[n : 2 * n], Y[n : 2 * n])
    assert 1.4 * n < model.stream_.streams[0].looked_at


def test_bounds_hold_whatever_is_chosen():
    A, b = skewed(300)
    b = b / (1.0 + b)
    for stop in ("auto", 0.5):
        model = ConditionalDensity(4, stop=stop, bounds=(0, 1)).partial_fit(A, b)
        dist = model.predict_dist(A[:20])
        np.testing.assert_array_equal(dist.cdf(np.full(20, -1e-9)), 0.0)
        np.testing.assert_array_equal(dist.cdf(np.full(20, 1.0)), 1.0)


def test_a_stream_that_forgets_is_as_good_as_a_fit_on_its_last_rows():
    """Trees about a trend take the residuals of their own rows, however far the window has moved."""
    generator = np.random.default_rng(12)
    A = generator.uniform(-1, 1, (1700, 8))
    b = np.sin(2 * A[:, 0] + A[:, 1]) + A[:, 2] * A[:, 3] + np.cos(2 * A[:, 4]) * A[:, 5] + 0.3 * A[:, 6]
    b += 0.05 * generator.standard_normal(1700)
    stream = ConditionalDensity(n_estimators=4, forget=1 / 400, random_state=0).partial_fit(A[:1200], b[:1200])
    last = ConditionalDensity(n_estimators=4, random_state=0).fit(A[800:1200], b[800:1200])
    assert any(member.part.smooth for member in stream.stream_.streams[0].members)
    assert stream.logpdf(A[1200:], b[1200:]).mean() > last.logpdf(A[1200:], b[1200:]).mean()
