"""Every command as a person meets it: tables in, answers out, and one line for each mistake."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from coverwalk import CoverModel, DoubleTree, SequenceModel, load
from coverwalk.cli import main
from coverwalk.cli.show import _print
from coverwalk.covers import KDTree
from coverwalk.evaluation import metrics
from coverwalk.evaluation.baselines import Line
from coverwalk.local import Polynomial

ROWS = 160


def rows(n=ROWS):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, n))
    y = 10 + np.sign(a) + 0.1 * rng.standard_normal(n)
    return pl.DataFrame({"a": a, "b": b, "y": y, "z": y + b + 0.1 * rng.standard_normal(n)})


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with tables, a model of y and one of y and z."""
    folder = tmp_path_factory.mktemp("commands")
    frame = rows()
    frame.write_csv(folder / "data.csv")
    frame.write_parquet(folder / "data.parquet")
    fit = ["fit", str(folder / "data.csv"), "--trees", "3"]
    assert main([*fit, "--target", "y", "--drop", "z", "--out", str(folder / "m.cover")]) == 0
    assert main([*fit, "--target", "y", "--target", "z", "--out", str(folder / "both.cover")]) == 0
    return folder


@pytest.fixture(autouse=True)
def _there(home, monkeypatch):
    monkeypatch.chdir(home)


def run(capsys, *line):
    capsys.readouterr()
    code = main([str(part) for part in line])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


# What they do


def test_fit_keeps_names_and_says_what_it_did(capsys):
    code, out, _ = run(capsys, "fit", "data.parquet", "--target", "y", "--trees", 2, "--seed", 3)
    assert code == 0
    assert "y given 3 columns, learned from 160 rows; wrote data.cover" in out
    model = load("data.cover")
    assert model.feature_names_in_.tolist() == ["a", "b", "z"]
    assert model.target_names_ == ["y"]
    assert model.random_state == 3


@pytest.mark.parametrize("data", ["data.csv", "data.parquet"])
@pytest.mark.parametrize("out", ["p.csv", "p.parquet", "p.tsv"])
def test_predict_writes_what_the_model_says(data, out, capsys):
    line = ("--quantiles", ".05,.5", "--interval", ".9", "--density", 7, "--out", out)
    assert run(capsys, "predict", "m.cover", data, *line)[0] == 0
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "tsv": lambda p: pl.read_csv(p, separator="\t")}
    frame = read[out.split(".")[1]](out)
    dist = load("m.cover").predict_dist(rows()[["a", "b"]])
    np.testing.assert_allclose(frame["y_mean"], dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(frame["y_std"], dist.std(), rtol=1e-12)
    np.testing.assert_allclose(frame[["y_q0.05", "y_q0.5"]], dist.ppf([0.05, 0.5]), rtol=1e-12)
    np.testing.assert_allclose(frame["y_high0.9"], dist.interval(0.9)[1], rtol=1e-12)
    grid = [name for name in frame.columns if name.startswith("y_p(")]
    assert len(grid) == 7
    points = np.array([float(name[4:-1]) for name in grid])
    np.testing.assert_allclose(frame[grid[3]], dist.pdf(points[3]), rtol=1e-3)


def test_predict_streams_in_blocks_that_do_not_show(capsys, monkeypatch):
    whole = run(capsys, "predict", "m.cover", "data.csv", "--out", "whole.csv")
    monkeypatch.setattr("coverwalk.preparation.tables._BLOCK_BYTES", 300)
    monkeypatch.setattr("coverwalk.preparation.tables._BLOCK_ROWS", 7)
    assert whole[0] == run(capsys, "predict", "m.cover", "data.csv", "--out", "blocks.csv")[0] == 0
    assert run(capsys, "predict", "m.cover", "data.parquet", "--out", "rows.parquet")[0] == 0
    assert Path("whole.csv").read_text() == Path("blocks.csv").read_text()
    assert pl.read_parquet("rows.parquet").equals(pl.read_csv("whole.csv"))


def test_standard_streams():
    with open("data.csv", "rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "coverwalk", "predict", "m.cover", "-"],
            stdin=stream,
            capture_output=True,
            check=True,
        )
    assert pl.read_csv(io.BytesIO(done.stdout)).shape == (ROWS, 2)


def test_several_targets(capsys):
    assert run(capsys, "predict", "both.cover", "data.csv", "--out", "both.csv")[0] == 0
    frame = pl.read_csv("both.csv")
    assert frame.columns == ["y_mean", "y_std", "z_mean", "z_std"]
    assert np.corrcoef(frame["z_mean"], rows()["z"])[0, 1] > 0.9
    code, out, _ = run(capsys, "score", "both.cover", "data.csv")
    assert code == 0
    assert "RMSE z" in out


def test_score_is_the_models_and_beats_the_baselines(capsys):
    code, out, _ = run(capsys, "score", "m.cover", "data.csv")
    assert code == 0
    losses = {line[:18].strip(): float(line[18:].split()[0]) for line in out.splitlines()[3:]}
    frame = rows()
    assert losses["coverwalk"] == pytest.approx(
        -load("m.cover").log_likelihood(frame[["a", "b"]], frame["y"]), abs=1e-4
    )
    line = Line.fit(frame[["a", "b"]].to_numpy(), frame["y"].to_numpy())
    ours = -line.logpdf(frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()).mean()
    assert losses["linear regression"] == pytest.approx(ours, abs=1e-4)
    assert losses["coverwalk"] < losses["linear regression"] < losses["one normal"]


def test_show(capsys):
    code, out, _ = run(capsys, "show", "both.cover")
    assert code == 0
    for part in ("y, z", "a, b", "160", "% polynomial", "% a"):
        assert part in out
    facts = json.loads(run(capsys, "show", "both.cover", "--json")[1])
    assert facts["predicts"] == ["y", "z"]
    assert facts["outputs"][1]["rows"] == ROWS
    assert facts["outputs"][0]["trees"] == 3
    assert sum(facts["outputs"][0]["splits"].values()) == pytest.approx(1)


def test_show_names_inputs_that_are_left_out(capsys):
    _print({"inputs_left_out": ("age", "height")})
    _print({"inputs_left_out": ()})
    assert capsys.readouterr().out.split() == ["inputs", "left", "out", "age,", "height"]


def test_show_of_other_models(capsys, tmp_path):
    CoverModel(KDTree(), Polynomial(0)).save(tmp_path / "c.cover")
    assert run(capsys, "show", tmp_path / "c.cover")[0] == 0
    code, _, err = run(capsys, "predict", tmp_path / "c.cover", "data.csv")
    assert code == 1
    assert "holds a CoverModel" in err


def test_score_warns_of_training_rows(capsys, tmp_path):
    code, out, err = run(capsys, "score", "m.cover", "data.csv")
    assert code == 0
    assert "learned from 160 of these 160 rows" in err
    new = rows().with_columns(pl.col("y") + 0.001)
    new.write_csv(tmp_path / "new.csv")
    _, out, err = run(capsys, "score", "m.cover", tmp_path / "new.csv", "--json")
    assert err == ""
    facts = json.loads(out)
    dist = load("m.cover").predict_dist(new[["a", "b"]])
    y = new["y"].to_numpy()
    assert facts["training_rows"] == 0
    assert facts["coverwalk"]["crps"]["y"] == pytest.approx(metrics.crps(y, dist))
    assert facts["coverwalk"]["coverage"]["y"] == pytest.approx(metrics.coverage(y, dist))
    line = Line.fit(rows()[["a", "b"]].to_numpy(), rows()["y"].to_numpy())
    error = y - line.mean(new[["a", "b"]].to_numpy())
    assert facts["linear regression"]["rmse"]["y"] == pytest.approx(np.sqrt(np.mean(error**2)))


def test_fit_holds_rows_out(capsys):
    line = ("fit", "data.csv", "--target", "y", "--drop", "z", "--trees", 2, "--test", 0.25, "-o", "held.cover")
    code, out, _ = run(capsys, *line, "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["rows"] == 120
    assert facts["test"]["rows"] == 40
    assert facts["test"]["training_rows"] == 0
    assert facts["test"]["coverwalk"]["log_loss"] < facts["test"]["one normal"]["log_loss"]
    assert "On 40 held-out rows" in run(capsys, *line)[1]
    learned = load("held.cover").forests_[0].X
    assert len(learned) == 120


def test_predict_keeps_columns_and_tells_events_and_samples(capsys, tmp_path):
    frame = rows().with_columns(id=pl.int_range(ROWS).cast(pl.String) + "x", note=pl.lit("NA"))
    frame.write_csv(tmp_path / "ids.csv")
    line = ("predict", "m.cover", tmp_path / "ids.csv", "--keep", "id", "--keep", "note", "--prob", ">10")
    more = ("--prob", "<9.5", "--prob", "9.5:10", "--samples", 2)
    assert run(capsys, *line, *more, "-o", tmp_path / "p.parquet")[0] == 0
    told = pl.read_parquet(tmp_path / "p.parquet")
    assert told.columns[:2] == ["id", "note"]
    assert told["id"].to_list() == frame["id"].to_list()
    assert told["note"].to_list() == ["NA"] * ROWS
    dist = load("m.cover").predict_dist(frame[["a", "b"]])
    np.testing.assert_allclose(told["y_P(>10)"], dist.sf(10.0))
    np.testing.assert_allclose(told["y_P(>10)"] + told["y_P(<9.5)"] + told["y_P(9.5:10)"], 1.0)
    draws = told[["y_sample0", "y_sample1"]].to_numpy()
    np.testing.assert_allclose(draws, dist.rvs(2, np.random.default_rng(0)))
    assert run(capsys, *line, "--json", "-o", tmp_path / "p.jsonl")[0] == 0
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert first["id"] == "0x"
    assert first["y_mean"] == pytest.approx(float(dist.mean()[0]))


def test_samples_of_several_targets_belong_together(capsys, tmp_path):
    assert run(capsys, "predict", "both.cover", "data.csv", "--samples", 3, "-o", tmp_path / "p.csv")[0] == 0
    told = pl.read_csv(tmp_path / "p.csv")
    y, z = (np.concatenate([told[f"{name}_sample{i}"] - told[f"{name}_mean"] for i in range(3)]) for name in "yz")
    assert np.corrcoef(y, z)[0, 1] > 0.3  # z is y and more, also given x


def test_plot(capsys):
    pl.read_csv("data.csv")[["a", "y"]].write_csv("one.csv")
    assert run(capsys, "fit", "one.csv", "--target", "y", "--trees", 2)[0] == 0
    for model, data, out in (("m.cover", "data.csv", "p.png"), ("one.cover", "one.csv", "p.svg")):
        assert run(capsys, "plot", model, data, "--out", out)[0] == 0
        assert os.path.getsize(out) > 10_000


def test_plots_and_reports_of_classes(labelled, capsys):
    assert run(capsys, "plot", "kind.cover", "kinds.csv", "-o", "kinds.png")[0] == 0
    assert os.path.getsize("kinds.png") > 10_000
    code, out, _ = run(capsys, "report", "kind.cover", "kinds.csv", "-o", "kinds.html")
    assert code == 0
    assert "160 rows of kinds.csv" in out
    assert '"kind":"classes"' in Path("kinds.html").read_text()


def test_report(capsys):
    code, _, _ = run(capsys, "report", "both.cover", "data.csv", "--target", "z", "--out", "z.html")
    assert code == 0
    page = Path("z.html").read_text()
    assert '"inputs":["a","b","y"]' in page
    assert '"target":"z"' in page
    assert '"notes":[]' in page


def test_a_report_has_the_number_of_calibration_rows(capsys, tmp_path):
    frame = rows()
    load("m.cover").calibrate(frame[["a", "b"]], frame["y"]).save(tmp_path / "c.cover")
    assert run(capsys, "report", tmp_path / "c.cover", "data.csv", "-o", tmp_path / "c.html")[0] == 0
    assert f'"calibration_rows":{ROWS}' in (tmp_path / "c.html").read_text()


def test_a_report_that_leaves_rows_out_says_so(capsys, monkeypatch):
    for most, held_out in ((159, True), (160, False)):
        monkeypatch.setattr("coverwalk.cli.report._MAX_ROWS", most)
        code, out, _ = run(capsys, "report", "m.cover", "data.csv", "--out", "part.html")
        assert code == 0
        assert (f"the first {most} rows (the maximum) of data.csv" in out) == held_out
        assert ("data.csv has more rows than a report uses" in Path("part.html").read_text()) == held_out


def test_text_and_gaps_in_the_inputs(capsys):
    rng = np.random.default_rng(0)
    city, x = rng.choice(["rome", "oslo", "lima"], 120), rng.random(120).round(3)
    y = np.select([city == "rome", city == "oslo"], [1.0, -1.0]) + x + 0.1 * rng.standard_normal(120)
    gone = rng.random((2, 120)) < 0.1
    lines = [f"{'' if g else c},{'NA' if h else v},{t}" for c, v, t, g, h in zip(city, x, y, *gone)]
    Path("places.csv").write_text("city,x,y\n" + "\n".join(lines) + "\n")
    assert run(capsys, "fit", "places.csv", "--target", "y", "--trees", 4, "--out", "places.cover")[0] == 0
    Path("ask.csv").write_text("x,city\n0.5,rome\n,oslo\n0.5,nowhere\n0.5,\n")
    code, out, _ = run(capsys, "predict", "places.cover", "ask.csv")
    means = [float(line.split(",")[0]) for line in out.splitlines()[1:]]
    assert code == 0
    assert means[:2] == pytest.approx([1.5, -0.5], abs=0.4)
    assert len(means) == 4
    code, out, _ = run(capsys, "score", "places.cover", "places.csv")
    assert code == 0
    assert "linear regression" in out
    for command, out in (("report", "places.html"), ("plot", "places.png")):
        assert run(capsys, command, "places.cover", "places.csv", "--out", out)[0] == 0
        assert Path(out).stat().st_size > 5000


# What they refuse

TABLES = {
    "missing.csv": "a,y\n1,2\n",
    "text.csv": "a,b,y\n1,2,3\n1,red,3\n",
    "nothing.csv": "a,b,y\n1,2,3\n1,2,3\n1,2,\n",
    "nan.csv": "a,b,y\n1,2,3\n1,2,NaN\n",
    "inf.csv": "a,b,y\n1,inf,3\n",
    "empty.csv": "",
    "header.csv": "a,b,y\n",
    "twice.csv": "a,a,b\n1,2,3\n",
    "ragged.csv": "a,b,y\n1,2,3,4,5\n",
    "long.csv": "a" * 500 + "\n1\n",
    "fake.parquet": "a,b,y\n1,2,3\n",
}
MISTAKES = {
    "a column that is missing": ("predict m.cover missing.csv", "missing.csv has no column 'b'; it has 'a', 'y'"),
    "text": ("predict m.cover text.csv", "has the text 'red' in column 'b', row 2"),
    "nothing": ("score m.cover nothing.csv", "has nothing in column 'y', row 3"),
    "NaN": ("score m.cover nan.csv", "has 'NaN' in column 'y', row 2"),
    "infinity": ("score m.cover inf.csv", "has 'inf' in column 'b', row 1"),
    "an empty file": ("predict m.cover empty.csv", "empty.csv is empty"),
    "no rows": ("predict m.cover header.csv", "has a header and no rows"),
    "two columns of one name": ("predict m.cover twice.csv", "two columns with the same name"),
    "too many fields": ("predict m.cover ragged.csv", "is not valid CSV: row 1 has 5 fields, expected 3"),
    "no Parquet": ("predict m.cover fake.parquet", "is not a valid Parquet file"),
    "no file": ("predict m.cover nowhere.csv", "there is no file nowhere.csv"),
    "no model": ("predict nowhere.cover data.csv", "there is no file nowhere.cover; create one with: coverwalk fit"),
    "not a model": ("show data.csv", "is not a model file"),
    "a folder": ("predict m.cover .", "is a folder"),
    "an unknown target": ("fit data.csv --target q", "data.csv has no column 'q'"),
    "an unknown column to drop": ("fit data.csv --target y --drop q", "has no column 'q'"),
    "nothing to predict from": ("fit data.csv --target y --drop a --drop b --drop z", "nothing to predict from"),
    "a folder that is not there": ("predict m.cover data.csv --out no/where.csv", "there is no folder"),
    "a page without a folder": ("report m.cover data.csv --out no/where.html", "there is no folder"),
    "a target that the model has not": ("plot m.cover data.csv --out p.png --target q", "has no target 'q'"),
    "a grid of one": ("predict m.cover data.csv --density 1", "from 2 to 10000"),
    "a column to keep that is missing": ("predict m.cover data.csv --keep q", "has no column 'q'"),
    "too many trees": ("fit data.csv --target y --trees 0", "n_estimators must be"),
    "a long name": ("fit long.csv --target y", f"it has '{'a' * 60}'... (500 characters)"),
    "no file to measure": ("bits data.csv nowhere", "there is no file nowhere"),
    "no file to compress": ("compress nowhere", "there is no file nowhere"),
}


@pytest.fixture(scope="module")
def tables(home):
    for name, content in TABLES.items():
        (home / name).write_text(content)
    return home


@pytest.mark.parametrize(("line", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(line, says, tables, capsys):
    code, out, err = run(capsys, *line.split())
    assert code == 1
    assert err.count("\n") == 1
    assert err.startswith(f"coverwalk {line.split()[0]}: ")
    assert says in err
    assert out == ""


@pytest.mark.parametrize("line", ["predict m.cover data.csv --quantiles 5", "fit data.csv", "predict m.cover"])
def test_a_wrong_call_is_a_usage_error(line, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    assert stopped.value.code == 2


@pytest.mark.parametrize("given", ["0", "1", "20", "half"])
def test_a_fraction_that_is_none_is_explained(given, capsys):
    with pytest.raises(SystemExit):
        main(["fit", "data.csv", "--target", "y", "--test", given])
    assert f"between 0 and 1, such as 0.2; got '{given}'" in capsys.readouterr().err


def test_bounds(capsys, tmp_path):
    counts = np.random.default_rng(0).poisson(1.0, 80)
    Path("counts.csv").write_text("a,n\n" + "".join(f"{i / 80},{count}\n" for i, count in enumerate(counts)))
    assert (
        run(capsys, *["fit", "counts.csv", "--target", "n", "--bounds", "0:", "--trees", "2", "-o", "counts.cover"])[0]
        == 0
    )
    assert "rounded to steps of 1, at least 0" in run(capsys, "show", "counts.cover")[1]
    code, _, err = run(capsys, *["fit", "counts.csv", "--target", "n", "--bounds", "0:2", "--trees", "2"])
    assert code == 1
    assert "y crosses its bounds (0.0, 2.0)" in err
    code, _, err = run(capsys, *["fit", "counts.csv", "--target", "n", "--classify", "--bounds", "0:"])
    assert code == 1
    assert "the target is a class" in err
    for wrong in ("0", ":", "a:b"):
        with pytest.raises(SystemExit):
            main(["fit", "counts.csv", "--target", "n", "--bounds", wrong])
        assert "such as 0: or 0:100" in capsys.readouterr().err


def test_without_a_command_there_is_help(capsys):
    code, out, _ = run(capsys)
    assert code == 2
    assert "decompress" in out


def test_a_warning_is_one_line(labelled):
    Path("names.csv").write_text("a,name\n" + "".join(f"{i / 9},n{i}\n" for i in range(30)))
    line = ["-m", "coverwalk", "fit", "names.csv", "--target", "name", "--trees", "1"]
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True)
    assert done.returncode == 0
    warned = [told for told in done.stderr.splitlines() if "compiling" not in told]
    assert len(warned) == 1
    assert warned[0].startswith("coverwalk: warning: ")


def test_learn_says_which_models_can(capsys, tmp_path):
    path = tmp_path / "c.cover"
    CoverModel(KDTree(), Polynomial(0)).save(path)
    before = path.read_bytes()
    code, _, err = run(capsys, "learn", path, "data.csv", "--in-place")
    assert code == 1
    assert "holds a CoverModel, which cannot learn more rows: fit it again" in err
    assert path.read_bytes() == before


def test_a_forest_goes_on_as_a_stream_that_all_commands_take(capsys, tmp_path):
    frame, path = rows(), tmp_path / "m.cover"
    more = load("both.cover").partial_fit(frame[["a", "b"]], frame[["y", "z"]])
    assert run(capsys, "learn", "both.cover", "data.csv", "--out", path)[0] == 0
    assert np.array_equal(
        load(path).logpdf(frame[["a", "b"]], frame[["y", "z"]]), more.logpdf(frame[["a", "b"]], frame[["y", "z"]])
    )
    assert "320" in run(capsys, "show", path)[1]
    assert "linear regression" in run(capsys, "score", path, "data.csv")[1]
    assert run(capsys, "predict", path, "data.csv", "--density", 5, "--out", tmp_path / "p.csv")[0] == 0
    assert pl.read_csv(tmp_path / "p.csv").shape == (ROWS, 14)
    before = path.read_bytes()
    code, _, err = run(capsys, "learn", path, "data.csv")
    assert code == 1
    assert "-o FILE, or --in-place" in err
    code, _, err = run(capsys, "learn", path, "data.csv", "-o", path)
    assert code == 1
    assert "exists" in err
    assert path.read_bytes() == before
    assert run(capsys, "learn", path, "data.csv", "--in-place")[0] == 0
    assert json.loads(run(capsys, "show", path, "--json")[1])["rows"] == 480


# Classes


@pytest.fixture(scope="module")
def labelled(home):
    """Tables with a column of text, one of numbers that are classes, and models of both."""
    frame = rows().with_columns(
        kind=pl.when(pl.col("a") > 0).then(pl.lit("up")).otherwise(pl.lit("down, maybe")),
        code=pl.when(pl.col("b") > 0).then(7).otherwise(3),
    )
    frame.write_csv(home / "kinds.csv")
    frame.write_parquet(home / "kinds.parquet")
    fit = ["fit", str(home / "kinds.csv"), "--trees", "3", "--drop", "y", "--drop", "z"]
    assert main([*fit, "--target", "kind", "--out", str(home / "kind.cover")]) == 0
    assert main([*fit, "--target", "code", "--drop", "kind", "--classify", "--out", str(home / "code.cover")]) == 0
    return frame


def test_a_target_of_text_is_a_class(labelled, capsys):
    line = ("fit", "kinds.parquet", "--target", "kind", "--drop", "y", "--trees", 2, "--out", "k.cover")
    code, out, _ = run(capsys, *line)
    assert code == 0
    assert "kind (2 classes) given 4 columns, learned from 160 rows" in out
    assert load("kind.cover").classes_.tolist() == ["down, maybe", "up"]
    assert load("code.cover").classes_.tolist() == [3, 7]


def test_a_target_of_truths_is_a_class(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    a = np.random.default_rng(0).random(60)
    pl.DataFrame({"a": a, "won": a > 0.5}).write_parquet("won.parquet")
    assert run(capsys, "fit", "won.parquet", "--target", "won", "--trees", 2)[0] == 0
    assert load("won.cover").classes_.tolist() == [False, True]
    assert run(capsys, "predict", "won.cover", "won.parquet", "--out", "p.parquet")[0] == 0
    assert np.mean(pl.read_parquet("p.parquet")["won"].to_numpy() == (a > 0.5)) > 0.9


@pytest.mark.parametrize("data", ["kinds.csv", "kinds.parquet"])
@pytest.mark.parametrize(("model", "column"), [("kind.cover", "kind"), ("code.cover", "code")])
def test_predict_gives_classes_and_probabilities(data, model, column, labelled, capsys):
    assert run(capsys, "predict", model, data, "--out", "p.csv")[0] == 0
    frame, fitted = pl.read_csv("p.csv"), load(model)
    inputs = labelled[fitted.feature_names_in_.tolist()]
    assert frame.columns == [column, *(f"{column}_p({label})" for label in fitted.classes_)]
    assert frame[column].to_list() == fitted.predict(inputs).tolist()
    np.testing.assert_allclose(frame[:, 1:].to_numpy(), fitted.predict_proba(inputs), rtol=1e-12)


def test_score_of_classes(labelled, capsys):
    code, out, err = run(capsys, "score", "kind.cover", "kinds.csv")
    assert code == 0
    assert f"learned from {ROWS} of these {ROWS} rows" in err
    table = {line[:18].strip(): line[18:].split() for line in out.splitlines()[3:]}
    fitted = load("kind.cover")
    p = fitted.predict_proba(labelled[fitted.feature_names_in_.tolist()])
    own = p[np.arange(ROWS), np.searchsorted(fitted.classes_, labelled["kind"].to_numpy())]
    assert float(table["coverwalk"][0]) == pytest.approx(-np.log(own).mean(), abs=1e-4)
    assert float(table["coverwalk"][0]) < float(table["class frequencies"][0])
    assert "down, maybe" in run(capsys, "show", "kind.cover")[1]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("predict kind.cover kinds.csv --quantiles .5", "omit --quantiles"),
        (
            "score kind.cover other.csv",
            "has the class 'sideways' in column 'kind', row 2, which the model has never seen",
        ),
        ("score code.cover words.csv", "has the text 'red' in column 'code', row 1; the classes are numbers: '3', '7'"),
        ("learn kind.cover none.csv --in-place", "has nothing in column 'kind', row 1"),
        ("fit mixed.csv --target kind", "has the text 'up' in column 'kind', row 2"),
        ("fit kinds.csv --target kind --target a --classify", "a classifier has one target"),
    ],
)
def test_mistakes_with_classes(line, says, labelled, capsys):
    Path("other.csv").write_text("a,b,code,kind\n0,0,3,up\n0,0,3,sideways\n")
    Path("words.csv").write_text("a,b,code\n0,0,red\n")
    Path("none.csv").write_text("a,b,code,kind\n0,0,3,\n")
    Path("mixed.csv").write_text("a,kind\n0,1\n0,up\n")
    code, _, err = run(capsys, *line.split())
    assert code == 1
    assert err.count("\n") == 1
    assert says in err


# Going on


def test_a_classifier_goes_on_learning(labelled, capsys, tmp_path):
    model = load("kind.cover")
    for data in ("kinds.csv", "kinds.parquet"):
        (tmp_path / "k.cover").unlink(missing_ok=True)
        assert run(capsys, "learn", "kind.cover", data, "--out", tmp_path / "k.cover")[0] == 0
        again = load("kind.cover").partial_fit(labelled[model.feature_names_in_.tolist()], labelled["kind"].to_list())
        inputs = labelled[model.feature_names_in_.tolist()]
        assert np.array_equal(load(tmp_path / "k.cover").predict_proba(inputs), again.predict_proba(inputs))


def test_streams_go_on_learning_from_files_and_standard_input(tmp_path):
    frame = rows()
    X, y = frame[["a", "b"]], frame["y"].to_numpy()
    for model, feed in (
        (DoubleTree().fit(X, y), (X, y)),
        (DoubleTree().fit(None, frame[["y"]]), (None, frame["y"])),
    ):
        model.save(tmp_path / "m.cover")
        frame.write_csv(tmp_path / "more.csv")
        with open(tmp_path / "more.csv", "rb") as stream:
            done = subprocess.run(
                [sys.executable, "-m", "coverwalk", "learn", str(tmp_path / "m.cover"), "-", "--in-place"],
                stdin=stream,
                capture_output=True,
                check=True,
            )
        assert b"learned 160 more rows" in done.stdout
        model.partial_fit(*feed)
        assert np.array_equal(load(tmp_path / "m.cover").logpdf(*feed), model.logpdf(*feed))
        assert main(["show", str(tmp_path / "m.cover")]) == 0


def test_a_mistake_while_learning_leaves_the_model(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("coverwalk.cli._models.ROWS_AT_ONCE", 50)  # chunks before the mistake have been learned
    DoubleTree().fit(rows()[["a", "b"]], rows()["y"]).save(tmp_path / "m.cover")
    before = (tmp_path / "m.cover").read_bytes()
    bad = rows().with_columns(b=pl.when(pl.int_range(pl.len()) == 150).then(np.inf).otherwise(pl.col("b")))
    bad.write_csv(tmp_path / "bad.csv")
    code, _, err = run(capsys, "learn", tmp_path / "m.cover", tmp_path / "bad.csv", "--in-place")
    assert code == 1
    assert "column 'b', row 151" in err
    assert (tmp_path / "m.cover").read_bytes() == before
    assert run(capsys, "report", tmp_path / "m.cover", "data.csv", "-o", tmp_path / "stream.html")[0] == 0
    assert "explorer is left out" in (tmp_path / "stream.html").read_text()
    assert run(capsys, "plot", tmp_path / "m.cover", "data.csv", "-o", tmp_path / "stream.png")[0] == 0


def test_a_model_of_sequences_goes_on_learning(capsys, tmp_path):
    path, text = tmp_path / "s.cover", tmp_path / "more.txt"
    SequenceModel(alphabet="abc").fit("abcabc").save(path)
    text.write_text("cabcab")
    code, out, _ = run(capsys, "learn", path, text, "--in-place")
    assert code == 0
    assert "learned 6 more letters" in out
    again = SequenceModel(alphabet="abc").fit("abcabc").partial_fit("cabcab")
    assert load(path).log_loss("abccba") == again.log_loss("abccba")
    assert "contexts" in run(capsys, "show", path)[1]
    text.write_text("abd")
    before = path.read_bytes()
    code, _, err = run(capsys, "learn", path, text, "--in-place")
    assert code == 1
    assert err.count("\n") == 1
    assert path.read_bytes() == before


def test_a_failed_prediction_leaves_no_file(tables, capsys):
    with open("kept.csv", "w") as file:
        file.write("precious")
    assert run(capsys, "predict", "m.cover", "inf.csv", "--out", "kept.csv")[0] == 1
    assert Path("kept.csv").read_text() == "precious"
    assert not [name for name in os.listdir(tables) if name.startswith(".")]


def test_identifiers_and_dates_are_pointed_out(capsys):
    rows = "".join(f"c{i},2024-01-{i % 28 + 1:02d},{i % 3}\n" for i in range(60))
    Path("ids.csv").write_text("id,day,y\n" + rows)
    code, _, err = run(capsys, *["fit", "ids.csv", "--target", "y", "--trees", "2", "-o", "ids.cover"])
    assert code == 0
    assert "--drop id" in err
    assert "days since a start" in err
    _, _, err = run(capsys, *["fit", "ids.csv", "--target", "y", "--drop", "id", "--trees", "2"])
    assert "--drop" not in err
    assert "days since a start" in err


@pytest.mark.parametrize("event", ["abc", "70:20", ">"])
def test_an_event_that_is_none_is_explained(event, capsys):
    with pytest.raises(SystemExit):
        run(capsys, "predict", "m.cover", "x.csv", "--prob", event)
    assert "such as '>70'" in capsys.readouterr().err


def test_without_polars_the_message_names_the_remedy(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    for line in ("fit data.csv --target y", "predict m.cover data.csv"):
        code, _, err = run(capsys, *line.split())
        assert code == 1
        assert "pip install polars" in err


def test_quoted_line_breaks_and_byte_order_marks(capsys, monkeypatch):
    monkeypatch.setattr("coverwalk.preparation.tables._BLOCK_BYTES", 10)
    with open("quoted.csv", "w", encoding="utf-8-sig") as file:
        file.write("a,note,b\n" + '0.5,"two\nlines, and more",0.1\n' * 5)
    assert run(capsys, "predict", "m.cover", "quoted.csv", "--out", "quoted_out.csv")[0] == 0
    frame = pl.read_csv("quoted_out.csv")
    assert len(frame) == 5
    assert frame["y_mean"].n_unique() == 1


@pytest.mark.parametrize(
    "call", [["fit", "nowhere.csv", "--target", "y", "-o", "m"], ["show", "nowhere"], ["score", "nowhere", "-"]]
)
def test_a_missing_file_is_told_before_anything_is_loaded(call):
    code = f"""
import sys
from coverwalk.cli import main
assert main({call!r}) == 1
assert not {{"numpy", "numba", "sklearn", "polars"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "there is no file nowhere" in done.stderr
