"""The README's comparison is that of the results file, which the benchmark writes; and scripts know their options."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def uci_table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import uci_table

    return uci_table


def test_pages_show_the_numbers_of_the_file(uci_table):
    told = json.loads(uci_table.RESULTS.read_text())
    for name, keys in uci_table.PAGES.items():
        page = (ROOT / name).read_text()
        assert uci_table.replaced(page, told, keys) == page, f"{name} is stale: run python benchmarks/uci_table.py"


def test_the_best_is_bold_except_where_y_is_rounded(uci_table):
    numbers = {"coverwalk": {"a": -11.0, "b": 1.0}, "peer": {"a": 0.9, "b": 2.0}}
    results = {m: {s: {"nll": v, "crps": v} for s, v in sets.items()} for m, sets in numbers.items()}
    told = {"version": "1", "splits": 2, "rounded": ["a"], "methods": dict.fromkeys(results, "P"), "results": results}
    nll, crps = (uci_table.table(told, "t", key, "{:.2f}") for key in ("nll", "crps"))
    assert nll[2] == "| **coverwalk** | -11.00 | **1.00** |"
    assert crps[2] == "| **coverwalk** | **-11.00** | **1.00** |"
    assert "1 of 1" in uci_table.headline(told)
    assert "1.00 nats" in uci_table.headline(told)


def test_the_benchmark_writes_what_the_table_reads(tmp_path, uci_table):
    folder = tmp_path / "uci" / "yacht"
    folder.mkdir(parents=True)
    rows = "".join(f"{i % 7},{i % 5},{i % 7 + 0.1 * (i % 11) + 0.01 * i}\n" for i in range(120))
    (folder / "data.csv").write_text("a,b,y\n" + rows)
    (folder / "test_rows_0.txt").write_text("\n".join(map(str, range(0, 120, 6))))
    arguments = ["--data", tmp_path, "--sets", "yacht", "--splits", "0", "--methods", "coverwalk", "hgb"]
    line = [sys.executable, ROOT / "benchmarks" / "uci.py", *arguments, "--results", tmp_path / "uci.json"]
    subprocess.run(line, check=True, capture_output=True)
    told = json.loads((tmp_path / "uci.json").read_text())
    text = uci_table.markdown(told, ("nll", "crps", "rmse", "fit_s", "predict_us"))
    assert all(title in text for title, _, _ in uci_table.TABLES)
    assert "–" not in text


def test_the_guide_lists_every_script():
    guide = (ROOT / "docs" / "guide" / "benchmarks.md").read_text()
    scripts = [path for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()]
    assert [path.name for path in scripts if path.name not in guide] == []


def options(path):
    """Options that a script declares, and those that it reads, with the scripts that it imports from."""
    declared, read = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            declared.add(node.args[0].value.strip("-").replace("-", "_"))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "arguments":
            read.add(node.attr)
        beside = path.with_name(f"{node.module}.py") if isinstance(node, ast.ImportFrom) else path
        if beside != path and beside.exists():
            declared |= options(beside)[0]
    return declared, read


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda script: script.name)
def test_scripts_read_the_options_that_they_declare(script):
    declared, read = options(script)
    assert read <= declared
