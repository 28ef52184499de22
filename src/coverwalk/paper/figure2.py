"""Figure 2: holdout loss against the number of rows, ours and the double kernel, on the four sets."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coverwalk import DoubleTree
from coverwalk.distributions.plotting import BLUE, GREY, ORANGE
from coverwalk.paper.double_kernel import DoubleKernel
from coverwalk.paper.page import TEAL, Claim, Result, figure, label
from coverwalk.paper.sets import DataSet

_COLUMNS = ("set", "rows", "coarsening walk", "refining walk", "double kernel", "truth")
_CLOSE = 0.1  # nats: what "quite small" and "almost as well" are taken to mean
_STEPS = {"Geyser": (10, 25, 50, 100, 200), "Robot": (100, 250, 500, 1000, 2000, 2812)}
# What the paper says of a set, and whether it holds by (t, our loss, the kernel's) at first and at last.
_CLAIMS: tuple[tuple[str, Callable[..., bool]], ...] = (
    (
        "Gaussian mixture: one would expect the kernel method to perform best; this is not the case.",
        lambda first, last: last[1] <= last[2],
    ),
    (
        "Uniform mixture: the kernel does almost as well as the cover method, though disadvantaged at first.",
        lambda first, last: first[2] > first[1] and 0 <= last[2] - last[1] < _CLOSE,
    ),
    (
        "Geyser: the kernel dominates the cover method, but the difference is quite small.",
        lambda first, last: 0 < last[1] - last[2] < _CLOSE,
    ),
    ("Robot: the kernel is bad at first.", lambda first, last: first[2] > first[1]),
    ("Robot: the methods are more or less evenly matched.", lambda first, last: abs(last[1] - last[2]) < 10 * _CLOSE),
)


class Curve(NamedTuple):
    """Losses of one set, by number of rows; the kernel's are None where it would take too long."""

    name: str
    rows: list[tuple[int, float, float, float | None]]  # t, coarsening walk, refining walk, kernel
    truth: float | None

    def both(self) -> list[tuple[int, float, float]]:
        """(t, ours, kernel) where there are both."""
        return [(t, ours, rival) for t, ours, _, rival in self.rows if rival is not None]


def figure2(sets: Sequence[DataSet], kernel_rows: int, step: Callable[[str], Any]) -> Result:
    """Losses on held-out rows after the first t rows; the kernel's up to kernel_rows rows."""
    curves = [_curve(data, kernel_rows, step) for data in sets]
    text = (
        "Mean negative log density of the held-out rows, in nats. Ours learns one row at a time and is asked along the "
        "way. The double kernel is fitted anew at every t; its two bandwidths come from 10-fold cross-validated "
        "likelihood, judged on at most 1,000 left-out rows. "
    )
    if max(c.rows[-1][0] for c in curves) > kernel_rows:
        text += f"It stops at {kernel_rows:,} rows, where it already takes longer than all else together. "
    rows = [(c.name, *row, c.truth) for c in curves for row in c.rows]
    title = "Figure 2. Holdout loss against observations"
    return Result("figure2", title, text, _COLUMNS, rows, _claims(curves), _draw(curves))


def _curve(data: DataSet, kernel_rows: int, step: Callable[[str], Any]) -> Curve:
    decades = [int(t) for t in np.logspace(2, 6, 9).round()]
    ts = [t for t in _STEPS.get(data.name, decades) if t <= len(data.X)]
    truth = None
    if data.log_density is not None:
        truth = -float(data.log_density(data.X_holdout, data.y_holdout).mean())
    curve = Curve(data.name, [], truth)
    models = DoubleTree(walk="coarsen"), DoubleTree(walk="refine")
    for start, end in zip((0, *ts), ts):
        step(f"Figure 2: {data.name}, {end:,} rows")
        for model in models:
            model.partial_fit(data.X[start:end], data.y[start:end])
        ours, refining = (-model.log_likelihood(data.X_holdout, data.y_holdout) for model in models)
        rival = None
        if end <= kernel_rows:
            kernel = DoubleKernel().fit(data.X[:end], data.y[:end])
            rival = -float(kernel.logpdf(data.X_holdout, data.y_holdout).mean())
        curve.rows.append((end, ours, refining, rival))
    return curve


def _claims(curves: Sequence[Curve]) -> list[Claim]:
    claims = [
        Claim(paper, holds(curve.both()[0], curve.both()[-1]), _compared(curve))
        for curve in curves
        for paper, holds in _CLAIMS
        if paper.startswith(curve.name)
    ]
    ends = {curve.name: curve.both()[-1] for curve in curves}
    better = [name for name, (_, ours, rival) in ends.items() if ours < rival]
    overall = Claim(
        "In most cases the cover method outperforms a bandwidth-tuned kernel estimator.",
        2 * len(better) > len(curves),
        f"at the most rows given to both, ours is better on {len(better)} of {len(curves)}: {', '.join(better)}",
    )
    return [*claims, overall]


def _compared(curve: Curve) -> str:
    both, (t_last, ours_last, _, _) = curve.both(), curve.rows[-1]
    ends = [both[0], both[-1]]
    losses = "; ".join(f"t = {t:,}: ours {ours:.3f}, kernel {rival:.3f}" for t, ours, rival in ends)
    if t_last > both[-1][0]:
        losses += f"; t = {t_last:,}: ours {ours_last:.3f}"
    return losses + (f"; truth {curve.truth:.3f}" if curve.truth is not None else "")


def _draw(curves: Sequence[Curve]) -> Any:
    fig, axes = figure(2, 2, 9.6, 6.8)
    for ax, curve in zip(axes.flat, curves):
        t, coarsen, refine, _ = zip(*curve.rows)
        t_kernel, _, rival = zip(*curve.both())
        ax.plot(t, refine, color=TEAL, lw=1.4, marker="o", ms=2.5, label="refining walk")
        ax.plot(t, coarsen, color=BLUE, lw=2.0, marker="o", ms=3.5, label="coarsening walk (the paper's)")
        ax.plot(t_kernel, rival, color=ORANGE, lw=1.8, marker="s", ms=3, label="double kernel, 10-fold CV")
        if curve.truth is not None:
            ax.axhline(curve.truth, color=GREY, lw=1.2, ls=(0, (4, 3)), label="truth")
        known = [*coarsen, *refine, *rival, *([] if curve.truth is None else [curve.truth])]
        low, high = min(known), max(coarsen[0], refine[0])  # the kernel may fall from far above the frame
        ax.set(xscale="log", ylim=(low - 0.12 * (high - low), high + 0.18 * (high - low)))
        label(ax, "observations t", "holdout loss $L_t$ (nats)", curve.name)
    for ax in axes.flat[len(curves) :]:
        ax.set_visible(False)
    return fig
