"""What an experiment hands over, how its figures look, and one HTML page of it all: which claims held."""

import csv
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coverwalk.distributions.plotting import GREY, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEAL = "#2a9d8f"

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Context models on sequences of covers: the experiments</title>
<style>
 body { font: 16px/1.55 system-ui, sans-serif; color: #1b2a41; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
 img { width: 100%; height: auto; margin: .6rem 0 } p { max-width: 48rem }
 .claim { border-left: 4px solid #2a9d8f; background: #f4f7f9; padding: .5rem .9rem; margin: .6rem 0 }
 .claim.not { border-color: #e07a3f } .claim small { display: block; color: #55617a }
 table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums } summary { cursor: pointer }
 th, td { padding: .22rem .8rem .22rem 0; text-align: right; border-bottom: 1px solid #e6eaf0 }
</style></head><body>
<h1>Context models on sequences of covers: the experiments</h1>
"""


class Claim(NamedTuple):
    """A sentence of the paper, whether it held here, and the numbers it was judged by."""

    paper: str
    held: bool
    measured: str

    def html(self) -> str:
        """As the page shows it."""
        verdict, style = ("Held.", "claim") if self.held else ("Did not hold here.", "claim not")
        text = f"The paper: {escape(self.paper)} <b>{verdict}</b><small>Measured: {escape(self.measured)}.</small>"
        return f'<div class="{style}">{text}</div>\n'


class Result(NamedTuple):
    """One section of the page; its numbers stand beside it as a CSV file, and its figure, if it has one, as PNG."""

    name: str  # of the files
    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    claims: Sequence[Claim]
    figure: "Figure | None" = None

    def write(self, folder: Path) -> None:
        """The numbers, with a header line, and the figure."""
        with (folder / f"{self.name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([self.columns, *self.rows])
        if self.figure:
            self.figure.savefig(folder / f"{self.name}.png")

    def html(self) -> str:
        """As the page shows it."""
        table = "".join(
            "<tr>" + "".join(f"<{cell}>{escape(_shown(value))}</{cell}>" for value in row) + "</tr>\n"
            for cell, row in (("th", self.columns), *(("td", row) for row in self.rows))
        )
        picture = f'<img src="{self.name}.png" alt="{escape(self.title)}">\n' if self.figure else ""
        return (
            f"<h2>{escape(self.title)}</h2>\n<p>{escape(self.text)}</p>\n{picture}"
            + "".join(claim.html() for claim in self.claims)
            + f'<details{"" if self.figure else " open"}><summary>Numbers (<a href="{self.name}.csv">'
            f"{self.name}.csv</a>)</summary><table>{table}</table></details>\n"
        )


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def write_page(results: Sequence[Result], folder: Path, summary: str) -> Path:
    """``index.html``, with its tables and figures beside it."""
    claims = [claim for result in results for claim in result.claims]
    held = sum(claim.held for claim in claims)
    lead = f"<p>{escape(summary)} Of {len(claims)} claims of the paper, <b>{held}</b> held here.</p>\n"
    for result in results:
        result.write(folder)
    sections = "".join(result.html() for result in results)
    page = folder / "index.html"
    page.write_text(_HEAD + lead + sections + "</body></html>\n", encoding="utf-8")
    return page


def figure(rows: int, columns: int, width: float, height: float, **options: Any) -> "tuple[Figure, Any]":
    """Axes in a grid with one look, drawn without a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError("figures need matplotlib: pip install matplotlib") from error
    fig = Figure(figsize=(width, height), layout="constrained", dpi=150, facecolor="white")
    axes = fig.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(colors=INK, labelsize=8, length=3, color=GREY)
        ax.grid(True, color="#e6eaf0", linewidth=0.8)
        ax.set_axisbelow(True)
    return fig, axes


def label(ax: Any, x: str, y: str, title: str = "") -> None:
    """Name the axes, and what is drawn, in small letters."""
    ax.set_xlabel(x, fontsize=9, color=INK)
    ax.set_ylabel(y, fontsize=9, color=INK)
    ax.set_title(title, fontsize=10, color=INK, loc="left")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8.5, frameon=False)
