"""Every example in the documentation runs and prints what it says."""

import doctest
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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
