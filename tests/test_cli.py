"""The command line as a person meets it."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from coverwalk import ConditionalDensity, __version__
from coverwalk.cli import main


def test_demo_shows_branches_probabilities_reasons_and_a_plot(capsys, tmp_path):
    picture = tmp_path / "demo.png"
    assert main(["demo", "-o", str(picture)]) == 0
    printed = capsys.readouterr().out
    after_long = next(line for line in printed.splitlines() if line.startswith("  after 4.3 min"))
    bars = [" ▁▂▃▄▅▆▇█".index(character) for character in after_long[17:77]]
    valley = min(bars[20:30])
    assert min(max(bars[:20]), max(bars[30:])) >= valley + 3  # two modes, and next to nothing between them
    assert "P(wait > 70 min | last eruption): 0% after 1.8 min" in printed
    assert "rows with a last eruption above" in printed
    ours = float(next(line for line in printed.splitlines() if line.startswith("  coverwalk")).split()[1])
    line = float(next(line for line in printed.splitlines() if line.startswith("  linear regression")).split()[2])
    assert ours < line - 0.5
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_help_imports_nothing_heavy():
    code = "import sys, coverwalk.cli as c; c._parser().format_help(); print({'numpy', 'numba'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "set()"
    )


def test_mistakes_are_told_before_anything_heavy_is_imported(tmp_path):
    X = np.random.default_rng(0).random((40, 1))
    model = ConditionalDensity(1, random_state=0).fit(pl.DataFrame({"u": X[:, 0]}), X[:, 0])
    model.target_names_ = ["v"]
    model.save(tmp_path / "model.cover")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,\n")
    (tmp_path / "u.csv").write_text("u\n1\n")
    code = """if True:
        import sys
        from coverwalk.cli import main
        for call in (
            "fit rows.csv --target y",
            "fit rows.csv --target b",
            "predict rows.csv rows.csv",
            "predict model.cover rows.csv",
            "score model.cover u.csv",
        ):
            assert main(call.split()) == 1
        print({"numba", "scipy", "sklearn"} & set(sys.modules))
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert run.stdout.strip() == "set()", run.stderr
    told = [" ".join(line.split()[2:]) for line in run.stderr.splitlines()]
    assert told == [
        "rows.csv has no column 'y'; it has 'a', 'b'",
        "rows.csv has nothing in column 'b', row 2: fill in a value or leave the row out",
        "rows.csv is not a model file, or is truncated; expected one written by save()",
        "rows.csv has no column 'u'; it has 'a', 'b'",
        "u.csv has no column 'v'; it has 'u'",
    ]


def test_a_wrong_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["dance"])
    assert stopped.value.code == 2
    assert "dance" in capsys.readouterr().err


LIGHT = """
import sys
from coverwalk.cli._light import lighten_sklearn
lighten_sklearn()
import coverwalk.conditional_density
assert "pandas" not in sys.modules
assert [name for name in sys.modules if name.startswith("scipy.stats")] == ["scipy.stats"]
from scipy import stats
import scipy.stats
assert scipy.stats.norm is stats.norm is sys.modules["scipy.stats"].norm
import pandas as pd
from sklearn.utils.validation import check_array
print(check_array(pd.DataFrame({"a": [1.0, 2.0]})).shape, round(stats.norm.cdf(0.0), 3))
"""


def test_the_command_line_loads_statistics_and_pandas_when_it_uses_them():
    run = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, "(2, 1) 0.5"), run.stderr


def test_python_m_coverwalk_is_the_command():
    call = [sys.executable, "-m", "coverwalk", "--version"]
    said = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert said == f"coverwalk {__version__}\n"
