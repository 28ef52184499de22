"""The recipes for other engines fit what one machine fits, where those engines are installed."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pandas
import pytest

from coverwalk import ConditionalDensity

pytestmark = pytest.mark.filterwarnings("ignore")
OPTIONS = {"n_estimators": 2, "stop": 0.5}


def recipe(name):
    path = Path(__file__).parents[1] / "docs" / "recipes" / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 30
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def frame(n=2000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})


def check(module, monkeypatch, fit):
    """A small sample and little room, so that rows come as sums, here and there."""
    monkeypatch.setattr(module, "plan", lambda *args, plan=module.plan: plan(*args, sample_rows=300, state_bytes=2**15))
    rows = frame()
    model = fit()
    alone = ConditionalDensity(**OPTIONS).fit_chunks(
        [(rows[["a", "b"]], rows["y"])], sample_rows=300, state_bytes=2**15
    )
    assert model.forests_[0].n_summed == len(rows)
    np.testing.assert_allclose(model.predict(rows[["a", "b"]]), alone.predict(rows[["a", "b"]]), rtol=1e-9, atol=1e-9)


def test_ray(monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    module = recipe("ray_fit")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        rows = ray.data.from_pandas([frame()[:900], frame()[900:]])
        check(module, monkeypatch, lambda: module.fit(ConditionalDensity(**OPTIONS), rows, "y"))
    finally:
        ray.shutdown()


def test_spark(monkeypatch):
    pytest.importorskip("pyspark", reason="Spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    from pyspark.sql import SparkSession

    module = recipe("spark_fit")
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = spark.createDataFrame(frame()).repartition(3)
        check(module, monkeypatch, lambda: module.fit(ConditionalDensity(**OPTIONS), rows, "y"))
    finally:
        spark.stop()
