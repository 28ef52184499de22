"""Table 1: the data sets."""

from collections.abc import Sequence
from pathlib import Path

from coverwalk.paper.result import Claim, Result, write_csv
from coverwalk.paper.sets import DataSet

__all__ = ["table1"]

_COLUMNS = ("Name", "columns of x", "columns of y", "training rows", "in the paper", "held-out rows")


def table1(sets: Sequence[DataSet], out: Path, missing: str) -> Result:
    """Shapes as loaded, beside the paper's number of training rows."""
    rows = [
        (s.name, s.X.shape[1], s.y.reshape(len(s.y), -1).shape[1], len(s.X), s.n_paper, len(s.X_holdout)) for s in sets
    ]
    same = [s.name for s in sets if len(s.X) == s.n_paper]
    fewer = [s.name for s in sets if len(s.X) != s.n_paper]
    measured = f"as many training rows as the paper: {', '.join(same) or 'none'}"
    if fewer:
        measured += f"; fewer: {', '.join(fewer)}"
    text = (
        "The synthetic sets are made with fixed seeds and hold out 10,000 rows (the paper: 10^6). Geyser's waiting "
        "times are whole minutes; uniform noise of one rounding step is added so that no estimator is paid for the "
        "rounding. "
    )
    claim = Claim("Four sets, with the training rows of the paper's Table 1.", len(same) == 4, measured)
    return Result(
        "Table 1. The data sets",
        text + missing,
        csv=write_csv(out / "table1.csv", _COLUMNS, rows),
        claims=[claim],
        columns=_COLUMNS,
        table=rows,
    )
