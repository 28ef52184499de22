"""Every example in the documentation runs and prints what it says."""

import doctest
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

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
