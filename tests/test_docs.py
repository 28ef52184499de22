"""Every example in the documentation runs and prints what it says."""

import doctest
import runpy
from pathlib import Path

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
    assert "8 while the sensor stuck" in said
    assert "0 before" in said


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_gallery(script):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    runpy.run_path(str(script))
    plt.close("all")


def test_there_are_pages_and_scripts():
    assert len(PAGES) > 10
    assert len(EXAMPLES) >= 6
