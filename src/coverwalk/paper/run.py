"""All experiments in order, with a progress bar."""

import sys
import time
from pathlib import Path

from tqdm import tqdm

from coverwalk.paper.figure1 import figure1
from coverwalk.paper.figure2 import figure2
from coverwalk.paper.lemmas import lemmas
from coverwalk.paper.page import Result, write_page
from coverwalk.paper.sets import load_sets, table1

# rows of each synthetic set, the most rows that the double kernel is given, and rows of the panels of Figure 1
_FULL = 1_000_000, 100_000, (1_000, 10_000, 100_000, 1_000_000)
_QUICK = 31_623, 3_162, (300, 1_000, 3_000, 30_000)


def reproduce(out: str | Path, *, quick: bool = False, data: str | None = None) -> tuple[Path, list[Result]]:
    """Write PNG, CSV and ``index.html`` to the folder ``out``; returns the page and what it shows."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    n_rows, kernel_rows, panels = _QUICK if quick else _FULL
    begin = time.perf_counter()
    with tqdm(disable=None, bar_format="{desc} [{elapsed}] {n_fmt} steps done") as bar:

        def step(what: str) -> None:
            bar.set_description_str(what)
            bar.update()

        step("Table 1: making the sets")
        sets, missing = load_sets(n_rows, data)
        if missing:
            print(f"coverwalk reproduce: {missing}", file=sys.stderr)
        results = [
            table1(sets, missing),
            figure1(panels, step),
            figure2(sets, kernel_rows, step),
            lemmas(n_rows, step),
        ]
    took = time.perf_counter() - begin
    summary = f"Made by coverwalk reproduce{' --quick' if quick else ''} in {took / 60:.1f} minutes."
    return write_page(results, folder, summary), results
