"""Every example in the documentation runs and prints what it says."""

import doctest
import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from coverwalk.cli import main

ROOT = Path(__file__).parents[1]
BUILT = {"_build", "auto_examples", "generated"}
PAGES = sorted([ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if not BUILT & set(page.parts))])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples(page):
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert result.failed == 0


def test_our_side_of_the_comparisons_runs(monkeypatch, tmp_path):
    """In "coming from another library" the right column is coverwalk: it is run, block after block."""
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(size=(80, 2)), rng.uniform(size=(9, 2))
    y, y_new = X[:, 0] + 0.1 * rng.standard_normal(80), X_new[:, 0]
    names = {"X": X, "y": y, "X_new": X_new, "y_new": y_new, "X_held_out": X[:30], "y_held_out": y[:30]}
    names["stream"] = [(X[i], y[i]) for i in range(20)]
    exec("from coverwalk import ConditionalDensity", names)
    text = (ROOT / "docs" / "guide" / "coming_from.md").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"abracadabra" * 20)
    n_lines = 0
    for block in re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        ours = [line[55:] for line in block.splitlines() if line[53:55] == "  " and line[55:].strip()]
        n_lines += len(ours)
        if ours[0].startswith("coverwalk "):
            assert all(main(line.split()[1:]) == 0 for line in ours)
        elif "skpro" in ours[0]:
            exec("\n".join(ours), {"X": pd.DataFrame(X), "y": pd.DataFrame({"y": y}), "X_new": pd.DataFrame(X_new)})
        else:
            exec("\n".join(ours), names)
            names["y"] = y  # a loop took its name
    assert n_lines > 20


def test_commands_of_the_pages_run(monkeypatch, tmp_path):
    X, y = load_wine(return_X_y=True, as_frame=True)
    table = X.assign(**{"class": y})
    monkeypatch.chdir(tmp_path)
    table[::2].to_csv("wine.csv", index=False)
    table[1::2].to_csv("held_out.csv", index=False)
    table[:5].to_csv("new.csv", index=False)
    pages = [(ROOT / "docs" / "howto" / name).read_text() for name in ("classification.md", "report.md")]
    lines = [line.split() for page in pages for line in re.findall(r"^    coverwalk (.*)$", page, re.MULTILINE)]
    assert len(lines) == 4
    for line in lines:
        assert main([word.replace("model.cover", "wine.cover") for word in line]) == 0


def test_numbered_equations_break_lines_as_sphinx_lets_them():
    """Sphinx puts an equation with a double backslash into ``split``, where MathJax takes no ``tag``: use ``cr``."""
    for page in PAGES:
        for equation in re.findall(r"\$\$(.*?)\$\$", page.read_text(), re.DOTALL):
            assert not ("\\tag" in equation and "\\\\" in equation), f"{page}: {equation}"


def test_every_block_of_python_is_a_doctest():
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            assert block.startswith(">>> "), f"{page}: {block[:80]}"


def test_the_example_of_a_stream_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "alarm.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert int(re.search(r"(\d+) while the sensor stuck", said).group(1)) >= 8
    assert "0 before" in said


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_gallery(script):
    """Cell by cell, as the gallery runs it: what a cell has drawn at its end is what readers see."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    names = {"__name__": "gallery", "__file__": str(script)}
    for cell in re.split(r"^# %%.*$", script.read_text(), flags=re.MULTILINE):
        exec(compile(cell, str(script), "exec"), names)
        for number in plt.get_fignums():
            for ax in plt.figure(number).axes:
                assert ax.has_data()
                assert ax.get_title() or ax.get_title("left") or ax.get_label() == "<colorbar>"
        plt.close("all")


@pytest.mark.parametrize("name", ["faithful", "walk"])
def test_plots_of_the_pages_are_those_of_the_model(name, tmp_path):
    """Drawn again and compared in coarse blocks: fonts may differ, what the model predicts may not."""
    plt = pytest.importorskip("matplotlib.pyplot")
    make = runpy.run_path(str(ROOT / "docs" / "img" / "make.py"))
    make[f"draw_{name}"](tmp_path / f"{name}.png")
    shown, drawn = (blocks(plt.imread(folder / f"{name}.png")) for folder in (ROOT / "docs" / "img", tmp_path))
    assert np.abs(shown - drawn).max() < 0.08


def blocks(image, size=22):
    rows, columns = (side // size for side in image.shape[:2])
    return image[: rows * size, : columns * size, :3].reshape(rows, size, columns, size, 3).mean(axis=(1, 3))


def test_there_are_pages_and_scripts():
    assert len(PAGES) > 10
    assert len(EXAMPLES) >= 10
