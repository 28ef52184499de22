"""Categories and missing values in chunks, on Dask, on skpro and on the command line: one table of levels for all."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from coverwalk import ConditionalDensity, ContextClassifier, DoubleTree, load
from coverwalk.cli import main
from coverwalk.forest.passes import RowError, accumulate, finalize, is_pass, merge, plan
from coverwalk.preparation.categories import OTHERS
from coverwalk.preparation.category_counts import CategoryCounts, category_codes, digests
from coverwalk.preparation.columns import MixedInputs
from tests.test_mixed_inputs import table

FRAME, Y = table(2400)
TEST, TEST_Y = table(400, seed=9)
SUMS = {"sample_rows": 700, "state_bytes": 2**16}  # no room for all rows
LABELS = np.where(Y > 1.5, "high", "low")


def split(frame, y, *ends):
    """Chunks between these rows."""
    return [(frame[a:b], y[a:b]) for a, b in pairwise([0, *ends, len(y)])]


def density(**parameters):
    return ConditionalDensity(**{"n_estimators": 3, "stop": 0.5, **parameters})


def classes():
    return ContextClassifier(4, 2, random_state=0)


def answers(model):
    return model.predict_log_proba(TEST) if hasattr(model, "classes_") else model.logpdf(TEST, TEST_Y)


@pytest.fixture(scope="module", params=["density", "classes"])
def kind(request):
    return (density, Y) if request.param == "density" else (classes, LABELS)


def test_few_rows_are_fitted_as_in_memory(kind):
    new, y = kind
    whole, parts = new().fit(FRAME, y), new().fit_chunks(split(FRAME, y, 7, 900), sample_rows=4000)
    np.testing.assert_array_equal(answers(parts), answers(whole))
    assert parts._mixed.categories == whole._mixed.categories
    numbers = FRAME.assign(city=FRAME.city.str[1:].astype(int))  # by number, in an array
    by_number = new().set_params(categorical_features=[1])
    array = by_number.fit_chunks(split(numbers.to_numpy(dtype=object), y, 900), sample_rows=4000)
    assert len(array._mixed.categories[1]) == 30


def test_any_division_of_the_rows_gives_one_model(kind, tmp_path):
    new, y = kind
    one = new().fit_chunks(split(FRAME, y), **SUMS)
    many = new().fit_chunks(split(FRAME, y, 5, 700, 701, 1999)[::-1], **SUMS)
    np.testing.assert_allclose(answers(many), answers(one), rtol=0, atol=1e-9)
    assert one._mixed.categories == many._mixed.categories == new().fit(FRAME, y)._mixed.categories
    if new is density:  # the sample alone in covers about as fine
        sampled = new(min_samples_leaf=30).fit(FRAME[:700], y[:700])
        assert answers(one).mean() > answers(sampled).mean() + 0.05
    one.save(tmp_path / "m.cw")
    np.testing.assert_array_equal(answers(load(tmp_path / "m.cw")), answers(one))
    strange = TEST[:3].assign(city="nowhere", east=np.nan)
    assert np.isfinite(one.predict_proba(strange) if new is classes else one.predict(strange)).all()
    frames = [(pl.from_pandas(X), target) for X, target in split(FRAME, y, 1000)]
    np.testing.assert_allclose(answers(new().fit_chunks(frames, **SUMS)), answers(one), rtol=0, atol=1e-9)


def test_levels_that_the_sample_lacks_have_numbers_too():
    rare = FRAME.copy()
    rare.loc[rare.index[-1], "city"] = "rare"
    model = density().fit_chunks(split(rare, Y, 1000), sample_rows=100, state_bytes=2**14)
    assert "rare" in model._mixed.categories[1]


def test_gaps_that_the_sample_lacks_stand_at_a_mean():
    X = FRAME[["east", "north"]].fillna(0.5).to_numpy()
    state = plan(density(), X[:0], Y[:0], sample_rows=50, state_bytes=2**14)
    first = finalize(merge(accumulate(state, X, Y), accumulate(state, [[np.nan, 0.0]], [0.0])))
    assert first.parts[0].fills[0].column.tolist() == [0]
    total = merge(accumulate(first, X, Y), accumulate(first, [[np.nan, 0.0]], [0.0]))
    state = finalize(total)
    while is_pass(state):
        state = finalize(merge(accumulate(state, X, Y), accumulate(state, [[np.nan, 0.0]], [0.0])))
    assert np.isfinite(state.logpdf([[np.nan, 0.1]], [0.0])).all()


def test_several_outputs():
    two = np.column_stack([Y, 2 * Y])
    one = density().fit_chunks(split(FRAME, two), **SUMS)
    many = density().fit_chunks(split(FRAME, two, 3, 1500), **SUMS)
    both = np.column_stack([TEST_Y, 2 * TEST_Y])
    # the second output is a function of the first: its scale is at its floor, and rounding is magnified
    np.testing.assert_allclose(many.logpdf(TEST, both), one.logpdf(TEST, both), rtol=0, atol=1e-7)


def test_mistakes_are_told_with_their_place():
    with pytest.raises(RowError, match=r"chunk 1: row 2 .*inf in east"):
        density().fit_chunks(split(FRAME.assign(east=np.where(np.arange(len(Y)) == 12, np.inf, 0.0)), Y, 10))
    late = FRAME.astype({"north": object}).copy()
    late.loc[20, "north"] = "text"
    with pytest.raises(RowError, match=r"chunk 1: columns must be numbers.*categorical_features"):
        density().fit_chunks(split(late, Y, 10))
    with pytest.raises(RowError, match="nan in y"):
        density().fit_chunks(split(FRAME, np.where(np.arange(len(Y)) == 3, np.nan, Y)))


def test_counts_of_levels_add_up():
    part, other = CategoryCounts((0,), 1), CategoryCounts((0,), 1)
    for counts, column in ((part, ["b", "a", None, "b"]), (other, ["c", "a"])):
        counts.accumulate(pd.DataFrame({"x": column}), digests(column)[:, None])
    part.merge(other)
    assert part.counts == {0: {"b": 2, "a": 2, "c": 1}}
    assert part.with_missing == {0}
    assert part.mixed().categories == [["a", "b", "c"]]
    assert part.values(0, digests(["c", None])) == ["c", None]
    codes = category_codes(digests(["b", None, "new"])[:, None], MixedInputs([["a", "b", OTHERS]]))[:, 0]
    np.testing.assert_array_equal(codes, [1.0, np.nan, 2.0])
    assert digests([1, True, np.float64(1.0)]).tolist() == digests([1.0] * 3).tolist()
    assert digests(["1"])[0] != digests([1])[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("dask")
def test_dask():
    pytest.importorskip("distributed")
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from coverwalk.adapters.dask import DaskConditionalDensity, DaskContextClassifier

    frame = FRAME.astype({"city": "category"}).assign(y=Y, label=LABELS)
    alone = density().fit_chunks(split(FRAME, Y), **SUMS)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        data = dd.from_pandas(frame, npartitions=5)
        X = data[list(FRAME.columns)]
        model = DaskConditionalDensity(n_estimators=3, stop=0.5, **SUMS).fit(X, data["y"])
        np.testing.assert_allclose(answers(model.fitted_), answers(alone), rtol=0, atol=1e-9)
        assert np.isfinite(model.predict(X).compute()).all()
        labels = DaskContextClassifier(n_estimators=4, n_discriminant_trees=2, random_state=0, **SUMS).fit(
            X, data["label"]
        )
        assert labels.score(X, data["label"]) > 0.8


def test_skpro():
    skpro = pytest.importorskip("coverwalk.adapters.skpro")
    model = skpro.CoverProbaRegressor(n_estimators=3)
    frame, test = (table.astype({"city": "category"}) for table in (FRAME, TEST))  # skpro refuses columns of objects
    model.fit(frame[:300], pd.DataFrame({"y": Y[:300]}))
    expected = density(n_estimators=3, stop="auto").fit(FRAME[:300], Y[:300])
    np.testing.assert_array_equal(model.predict(test[:5]).to_numpy()[:, 0], expected.predict(TEST[:5]))
    model.update(frame[300:400], pd.DataFrame({"y": Y[300:400]}))
    assert np.isfinite(model.predict_proba(test[:5]).mean().to_numpy()).all()


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(y=Y).to_csv("train.csv", index=False)
    TEST.assign(y=TEST_Y).to_csv("test.csv", index=False)
    FRAME.assign(label=LABELS).to_csv("labels.csv", index=False)
    main(["fit", "train.csv", "--target", "y", "--trees", "3", "--chunks", "--sample", "700", "--out", "m.cw"])
    expected = ConditionalDensity(3).fit_chunks(split(FRAME, Y), sample_rows=700)
    np.testing.assert_allclose(answers(load("m.cw")), answers(expected), rtol=0, atol=1e-9)
    main(["fit", "labels.csv", "--target", "label", "--chunks", "--sample", "700", "--trees", "4", "--out", "c.cw"])
    assert load("c.cw")._mixed.categories[1] == expected._mixed.categories[1]
    for command in (["score", "m.cw", "test.csv"], ["show", "m.cw"], ["score", "c.cw", "labels.csv"]):
        main(command)
    main(["plot", "m.cw", "test.csv", "--out", "m.png"])
    main(["report", "m.cw", "test.csv", "--out", "m.html"])
    assert "explorer is left out" in Path("m.html").read_text()
    capsys.readouterr()


def test_streams_go_on_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    new = TEST.assign(city=["late"] * 200 + list(TEST.city[200:]))
    new.assign(y=TEST_Y).to_csv("more.csv", index=False)
    new.assign(label=np.where(TEST_Y > 1.5, "high", "low")).to_csv("labels.csv", index=False)
    for name, model in (("a.cw", ConditionalDensity(2)), ("d.cw", DoubleTree())):
        model.partial_fit(FRAME[:300], Y[:300])
        model.target_names_ = ["y"]
        model.save(name)
        main(["learn", name, "more.csv", "--in-place"])
        model.partial_fit(new, TEST_Y)
        np.testing.assert_array_equal(answers(load(name)), answers(model))
        assert "late" in load(name)._mixed.categories[1]
        main(["score", name, "more.csv"])
        main(["plot", name, "more.csv", "--out", "s.png"])
    labels = classes().fit(FRAME[:300], LABELS[:300])
    labels.target_names_ = ["label"]
    labels.save("c.cw")
    main(["learn", "c.cw", "labels.csv", "--in-place"])
    assert "late" in load("c.cw")._mixed.categories[1]
    capsys.readouterr()


def test_one_category_is_drawn_level_by_level(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME[["city"]].assign(y=Y).to_csv("one.csv", index=False)
    FRAME[["east"]].assign(y=Y).to_csv("gaps.csv", index=False)
    for name in ("one", "gaps"):
        main(["fit", f"{name}.csv", "--target", "y", "--trees", "2", "--out", f"{name}.cw"])
        main(["plot", f"{name}.cw", f"{name}.csv", "--out", f"{name}.png"])
        assert Path(f"{name}.png").stat().st_size > 5000
    capsys.readouterr()
