"""What an experiment hands to the page: its picture, its numbers, and what the paper claimed of them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Claim", "Result", "write_csv"]


class Claim(NamedTuple):
    """A sentence of the paper, whether it held here, and the numbers it was judged by."""

    paper: str
    held: bool
    measured: str


@dataclass
class Result:
    """One section of the page."""

    title: str
    text: str
    csv: Path
    png: Path | None = None
    claims: list[Claim] = field(default_factory=list)
    columns: Sequence[str] = ()
    table: Sequence[Sequence[Any]] = ()  # shown on the page, where there is no picture or the numbers matter


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """A table with a header line."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return path
