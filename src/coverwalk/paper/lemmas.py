"""The lemma on depth, and the cost that follows from it: depth and time per observation against T."""

import time
from collections.abc import Callable, Sequence
from math import log
from typing import Any

import numpy as np

from coverwalk import DoubleTree
from coverwalk.datasets import MIXTURES
from coverwalk.distributions.plotting import BLUE, GREY, ORANGE
from coverwalk.paper.page import Claim, Result, figure, label

_COLUMNS = ("rows T", "depth", "upper bound", "balanced tree", "µs per row to learn", "to predict")
_ALPHA, _BRANCHES = 2.0, 2.0


def deepest(t: float) -> float:
    """Upper bound, not reached: a context at depth d - 1 that split held more than alpha^(d - 1) of the T rows.

    Right side of eq. 9a of docs/math.md. The paper prints log_alpha(1 + (alpha - 1) T) - 1, which is too small even
    where leaves count from their creation (errata, item 8).
    """
    return 1 + log(t) / log(_ALPHA)


def balanced(t: float) -> float:
    """Lower bound: the leaves of a tree of depth d hold at most (alpha beta)^d rows, beta children to a split."""
    return log(t) / log(_ALPHA * _BRANCHES)


def lemmas(t_max: int, step: Callable[[str], Any]) -> Result:
    """One stream; depth and CPU time of the stretch that ends at each T."""
    X, y = MIXTURES["gaussmix"].make(t_max, 0)
    X_new, y_new = MIXTURES["gaussmix"].make(20_000, 1000)
    ts = [int(t) for t in np.logspace(3, 6, 13).round() if t <= t_max]
    model, rows = DoubleTree(alpha=_ALPHA), []
    DoubleTree().fit(X[:100], y[:100]).logpdf(X[:10], y[:10])  # compiling is not what is measured
    for start, end in zip((0, *ts), ts):
        step(f"Lemmas: {end:,} rows")
        begin = time.process_time()
        model.partial_fit(X[start:end], y[start:end])
        learned = time.process_time()
        model.logpdf(X_new, y_new)
        predicted = time.process_time()
        rows.append(
            (end, model.depth_, deepest(end), balanced(end), 1e6 * (learned - begin) / (end - start),
             1e6 * (predicted - learned) / len(X_new))
        )  # fmt: skip
    return Result(
        "lemmas",
        "Lemmas. Depth and cost",
        f"The Gaussian mixture, alpha = {_ALPHA:g}. Left: depth of the kd-tree between the lemma's two bounds. "
        "Right: CPU time per row, on one core. Up to 4,096 rows learning includes setting the units, "
        "for which the model is built again at every power of two.",
        _COLUMNS,
        rows,
        _claims(rows),
        _draw(rows),
    )


def _claims(rows: Sequence[tuple[Any, ...]]) -> list[Claim]:
    settled = [row for row in rows if row[0] > 2 * 4096]  # stretches without a new setting of units
    first, last = settled[0], settled[-1]
    growth, allowed = last[4] / first[4], log(last[0]) / log(first[0])
    return [
        Claim(
            "The depth lies between log_{alpha beta} T and 1 + log_alpha T (Lemma 2, corrected).",
            all(balanced(row[0] - 1) <= row[1] < row[2] for row in rows),  # a split waits for the next row
            "; ".join(f"T = {row[0]:,}: {row[3]:.1f} <= {row[1]} < {row[2]:.1f}" for row in (rows[0], rows[-1])),
        ),
        Claim(
            "The total complexity is O(T log T): time per row grows no faster than log T.",
            growth <= 1.5 * allowed,
            f"from T = {first[0]:,} to {last[0]:,}: {first[4]:.1f} to {last[4]:.1f} µs, "
            f"a factor {growth:.2f}, where log T grows by {allowed:.2f}; "
            "half as much again is allowed for the timer's noise and the caches",
        ),
    ]


def _draw(rows: Sequence[tuple[Any, ...]]) -> Any:
    t, depth, upper, lower, learn, predict = (list(column) for column in zip(*rows))
    fig, axes = figure(1, 2, 9.6, 3.6)
    left, right = axes[0]
    left.plot(t, upper, color=GREY, lw=1.2, ls=(0, (4, 3)), label="every row in the deepest leaf")
    left.plot(t, depth, color=BLUE, lw=2, marker="o", ms=4, label="measured")
    left.plot(t, lower, color=GREY, lw=1.2, ls=(0, (1, 2)), label="balanced")
    left.fill_between(t, lower, upper, color="#e9eff4", lw=0)
    right.plot(t, learn, color=BLUE, lw=2, marker="o", ms=4, label="learn")
    right.plot(t, predict, color=ORANGE, lw=2, marker="s", ms=3.5, label="predict")
    right.set_ylim(0, 1.15 * max(learn))
    for ax, what in ((left, "depth of the kd-tree"), (right, "µs per row")):
        ax.set_xscale("log")
        label(ax, "rows T", what)
    return fig
