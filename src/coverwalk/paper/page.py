"""What an experiment hands over, and one HTML page of it all: the paper's claims, and whether they held."""

import csv
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Claim", "Result", "write_page"]

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Context models on sequences of covers: the experiments</title>
<style>
 body { font: 16px/1.55 system-ui, sans-serif; color: #1b2a41; max-width: 70rem; margin: 2.5rem auto;
        padding: 0 1.2rem }
 h1 { font-size: 1.7rem; line-height: 1.25 } h2 { font-size: 1.2rem; margin: 3rem 0 .4rem }
 img { width: 100%; height: auto; margin: .6rem 0 } p { max-width: 48rem }
 .claims { display: grid; gap: .6rem; margin: .8rem 0 1rem }
 .claim { border-left: 4px solid #2a9d8f; background: #f4f7f9; padding: .5rem .9rem }
 .claim.not { border-color: #e07a3f }
 .claim b { color: #1f7a6f } .claim.not b { color: #b4541f } .claim small { display: block; color: #55617a }
 table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums } summary { cursor: pointer }
 th, td { padding: .22rem .8rem .22rem 0; text-align: right; border-bottom: 1px solid #e6eaf0 }
 th:first-child, td:first-child { text-align: left } th { font-weight: 600 } a { color: #2a6f97 }
</style></head><body>
<h1>Context models on sequences of covers: the experiments</h1>
"""


class Claim(NamedTuple):
    """A sentence of the paper, whether it held here, and the numbers it was judged by."""

    paper: str
    held: bool
    measured: str


class Result(NamedTuple):
    """One section of the page; its numbers stand beside it as a CSV file, and its picture where it has one."""

    title: str
    text: str
    csv: Path
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    claims: Sequence[Claim]
    png: Path | None = None

    def write_csv(self) -> None:
        """The numbers, with a header line."""
        with self.csv.open("w", newline="") as file:
            csv.writer(file).writerows([self.columns, *self.rows])


def write_page(results: Sequence[Result], path: Path, summary: str) -> Path:
    """The page and its tables, beside the pictures it shows."""
    claims = [claim for result in results for claim in result.claims]
    held = sum(claim.held for claim in claims)
    parts = [_HEAD, f"<p>{escape(summary)} Of {len(claims)} claims of the paper, <b>{held}</b> held here.</p>\n"]
    for result in results:
        result.write_csv()
        parts.append(_section(result))
    path.write_text("".join(parts) + "</body></html>\n", encoding="utf-8")
    return path


def _section(result: Result) -> str:
    parts = [f"<h2>{escape(result.title)}</h2>\n<p>{escape(result.text)}</p>\n"]
    if result.png is not None:
        parts.append(f'<img src="{escape(result.png.name)}" alt="{escape(result.title)}">\n')
    parts.append('<div class="claims">' + "".join(_claim(claim) for claim in result.claims) + "</div>\n")
    link = f'<a href="{escape(result.csv.name)}">{escape(result.csv.name)}</a>'
    table = _table(result)
    parts.append(
        table + f"<p>{link}</p>\n"
        if result.png is None
        else f"<details><summary>Numbers ({link})</summary>{table}</details>\n"
    )
    return "".join(parts)


def _claim(claim: Claim) -> str:
    verdict, style = ("Held.", "claim") if claim.held else ("Did not hold here.", "claim not")
    return (
        f'<div class="{style}">The paper: {escape(claim.paper)} <b>{verdict}</b>'
        f"<small>Measured: {escape(claim.measured)}.</small></div>\n"
    )


def _table(result: Result) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in result.columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(_shown(v))}</td>" for v in row) + "</tr>\n" for row in result.rows)
    return f"<table><tr>{head}</tr>\n{body}</table>\n"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
