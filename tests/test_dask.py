"""The Dask estimators: equal to one machine, whatever the partitions; and whole or nothing when things break."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from coverwalk import ConditionalDensity, ContextClassifier
from coverwalk.forest.passes import RowError

pytest.importorskip("distributed")
import dask
import dask.array as da
import dask.dataframe as dd
import pandas
from distributed import Client, LocalCluster
from sklearn.base import clone

from coverwalk.adapters import dask as adapter
from coverwalk.adapters.dask import DaskConditionalDensity, DaskContextClassifier

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("dask")]  # sockets close in their own time
SETTINGS = {"n_estimators": 2, "stop": 0.5}
CHUNKS = {"sample_rows": 800, "state_bytes": 2**16}  # no room for 4000 rows


def rows(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 0] + 0.1 * rng.standard_normal(n)


def arrays(X, y, n_partitions, seed=None):
    """Dask arrays of about equal partitions, one of them empty, after shuffling."""
    order = np.arange(len(y)) if seed is None else np.random.default_rng(seed).permutation(len(y))
    parts = [order[:0], *np.array_split(order, n_partitions)] if n_partitions > 1 else [order]
    return tuple(
        da.concatenate([da.from_array(values[part], chunks=(-1, *values.shape[1:])) for part in parts if len(part)])
        for values in (X, y)
    )


@pytest.fixture(scope="module")
def client():
    """Two workers in threads: quick to start, and all but the processes is as on a real cluster."""
    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def alone():
    X, y = rows()
    return ConditionalDensity(**SETTINGS).fit_chunks([(X, y)], **CHUNKS)


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize(("n_partitions", "seed"), [(1, None), (2, 1), (7, 2), (40, 3)])
def test_equal_to_one_machine(client, alone, n_partitions, seed):
    X, y = rows()
    dX, dy = arrays(X, y, n_partitions, seed)
    model = DaskConditionalDensity(client=client, **SETTINGS, **CHUNKS).fit(dX, dy)
    local = model.to_local()
    assert relative(local.predict(X[:500]), alone.predict(X[:500])) < 1e-9
    assert relative(local.logpdf(X[:500], y[:500]), alone.logpdf(X[:500], y[:500])) < 1e-9


def test_answers_are_lazy_and_those_of_the_local_model(client):
    X, y = rows()
    dX, dy = arrays(X, y, 3)
    model = DaskConditionalDensity(client=client, **SETTINGS, **CHUNKS).fit(dX, dy)
    local = model.to_local()
    levels = [0.1, 0.9]
    for lazy, now in (
        (model.predict(dX), local.predict(X)),
        (model.predict(dX, quantiles=levels), local.predict(X, quantiles=levels)),
        (model.logpdf(dX, dy), local.logpdf(X, y)),
    ):
        assert isinstance(lazy, da.Array)
        assert lazy.shape == now.shape
        np.testing.assert_allclose(lazy.compute(), now, rtol=1e-12)
    assert model.score(dX, dy) == pytest.approx(local.score(X, y), rel=1e-9)
    assert model.log_likelihood(dX, dy) == pytest.approx(local.log_likelihood(X, y), rel=1e-9)
    assert model.client_ is client


def test_frames_from_parquet(client, alone, tmp_path):
    X, y = rows()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, label=np.where(y > 0, "up", "down"))
    dd.from_pandas(frame, npartitions=9).to_parquet(tmp_path / "rows.parquet")
    table = dd.read_parquet(tmp_path / "rows.parquet")
    inputs = table[["a", "b", "c"]]
    model = DaskConditionalDensity(client=client, **SETTINGS, **CHUNKS).fit(inputs, table["y"])
    assert relative(model.to_local().predict(frame[["a", "b", "c"]]), alone.predict(X)) < 1e-9
    assert list(model.fitted_.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict(inputs[inputs["a"] > 2]).compute(), np.empty(0))
    classes = DaskContextClassifier(client=client, n_estimators=2, n_discriminant_trees=1, random_state=0, **CHUNKS)
    classes.fit(inputs, table["label"])
    here = ContextClassifier(2, 1, random_state=0).fit_chunks([(X, frame["label"])], **CHUNKS)
    assert classes.classes_.tolist() == ["down", "up"]
    np.testing.assert_allclose(classes.predict_proba(inputs).compute(), here.predict_proba(X), atol=1e-9)
    assert np.array_equal(classes.predict(inputs).compute(), here.predict(X))
    assert classes.score(inputs, table["label"]) == pytest.approx(here.score(X, frame["label"]))


def test_parameters_are_those_of_scikit_learn(client):
    model = DaskConditionalDensity(client=client, n_estimators=3, sample_rows=77)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(n_estimators=5, sample_rows=99).get_params()["n_estimators"] == 5
    assert model.sample_rows == 99
    with pytest.raises(TypeError):
        DaskConditionalDensity(no_such_parameter=1)
    with pytest.raises(TypeError, match="Dask array"):
        model.fit(*rows(10))


def test_bad_rows_are_named_and_the_model_stays(client):
    X, y = rows(600)
    dX, dy = arrays(X, y, 6)
    model = DaskConditionalDensity(client=client, **SETTINGS, sample_rows=100).fit(dX, dy)
    before = model.fitted_
    spoilt = y.copy()
    spoilt[317] = np.nan
    with pytest.raises(RowError, match=r"partition 3: row 17 .* nan in y"):
        model.fit(dX, arrays(X, spoilt, 6)[1])
    wide = [dask.delayed(X[i : i + 200, : 2 + (i < 400)]) for i in range(0, 600, 200)]
    uneven = da.concatenate([da.from_delayed(part, (200, 3), float) for part in wide])
    with pytest.raises(RowError, match="partition 2: rows have 2 inputs, expected 3"):
        model.fit(uneven, da.from_array(y, chunks=200))
    with pytest.raises(ValueError, match="partitioned alike"):
        model.logpdf(dX, dy.rechunk(300))
    assert model.fitted_ is before


def test_other_versions_are_refused(client, monkeypatch):
    dX, dy = arrays(*rows(200), 2)
    monkeypatch.setattr(adapter, "_version", lambda: "0.0.9")
    with pytest.raises(RuntimeError, match=r"must have coverwalk .* has 0\.0\.9"):
        DaskConditionalDensity(client=client).fit(dX, dy)
    with pytest.raises(RuntimeError, match=r"install one"):
        adapter._take("0.0.9", None, [])


def slowly(block, marks):
    """A partition that leaves a mark with the process that reads it, and takes its time."""
    with open(os.path.join(marks, str(os.getpid())), "a"):
        time.sleep(0.1)
    return block


def test_a_killed_worker_costs_nothing_but_time(alone, tmp_path):
    X, y = rows()
    dX, dy = arrays(X, y, 8)
    dX = dX.map_blocks(slowly, str(tmp_path), dtype=float, meta=np.empty((0, 0)))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        killed = []

        def kill():
            """Once a worker has begun to read partitions, end its process."""
            victim = next(iter(pids.values()))
            while not (tmp_path / str(victim)).exists():
                time.sleep(0.01)
            time.sleep(0.3)
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

        killer = threading.Thread(target=kill)
        killer.start()
        model = DaskConditionalDensity(client=client, **SETTINGS, **CHUNKS).fit(dX, dy)
        killer.join()
        now = set(client.run(os.getpid).values())
    assert killed
    assert killed[0] not in now
    assert relative(model.to_local().predict(X), alone.predict(X)) < 1e-9


def test_a_scheduler_that_goes_away_leaves_the_model_as_it_was(tmp_path):
    X, y = rows(2000)
    dX, dy = arrays(X, y, 20)
    quick = {"distributed.comm.timeouts.connect": "1s", "distributed.comm.retry.count": 0}
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    client = Client(cluster)
    model = DaskConditionalDensity(client=client, **SETTINGS, sample_rows=100).fit(dX, dy)
    before = model.fitted_
    with dask.config.set(quick):

        def close():
            while not list(tmp_path.iterdir()):
                time.sleep(0.01)
            cluster.close()

        closer = threading.Thread(target=close)
        closer.start()
        with pytest.raises(ConnectionError, match="as it was"):
            model.fit(dX.map_blocks(slowly, str(tmp_path), dtype=float, meta=np.empty((0, 0))), dy)
        closer.join()
        client.close()
    assert model.fitted_ is before
    assert model.to_local().predict(X[:3]).shape == (3,)
    with pytest.raises(ConnectionError, match="nothing was learned"):
        model.fit(dX, dy)
