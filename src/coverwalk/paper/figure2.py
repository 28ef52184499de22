"""Figure 2: holdout loss against the number of rows, ours and the double kernel, on the four sets."""

from collections.abc import Callable, Sequence
from pathlib import Path
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


class Curve(NamedTuple):
    """Losses of one set, by number of rows; None where the kernel would take too long."""

    name: str
    t: list[int]
    coarsen: list[float]
    refine: list[float]
    kernel: list[float | None]
    truth: float | None

    def both(self) -> list[tuple[int, float, float]]:
        """(t, ours, kernel) where there are both."""
        return [(t, ours, rival) for t, ours, rival in zip(self.t, self.coarsen, self.kernel) if rival is not None]


def figure2(sets: Sequence[DataSet], kernel_rows: int, out: Path, step: Callable[[str], Any]) -> Result:
    """Losses on held-out rows after the first t rows; the kernel's up to kernel_rows rows."""
    curves = [_curve(data, kernel_rows, step) for data in sets]
    rows = [(c.name, *row, c.truth) for c in curves for row in zip(c.t, c.coarsen, c.refine, c.kernel)]
    text = (
        "Mean negative log density of the held-out rows, in nats. Ours learns one row at a time and is asked along the "
        "way. The double kernel is fitted anew at every t; its two bandwidths come from 10-fold cross-validated "
        "likelihood, judged on at most 1,000 left-out rows. "
    )
    if max(max(c.t) for c in curves) > kernel_rows:
        text += f"It stops at {kernel_rows:,} rows, where it already takes longer than all else together. "
    return Result(
        "Figure 2. Holdout loss against observations",
        text,
        out / "figure2.csv",
        _COLUMNS,
        rows,
        _claims({c.name: c for c in curves}),
        png=_draw(curves, out / "figure2.png"),
    )


def _curve(data: DataSet, kernel_rows: int, step: Callable[[str], Any]) -> Curve:
    decades = [int(t) for t in np.logspace(2, 6, 9).round() if t <= len(data.X)]
    ts = [t for t in _STEPS.get(data.name, decades) if t <= len(data.X)]
    truth = None
    if data.log_density is not None:
        truth = -float(data.log_density(data.X_holdout, data.y_holdout).mean())
    curve = Curve(data.name, ts, [], [], [], truth)
    coarsen, refine = DoubleTree(walk="coarsen"), DoubleTree(walk="refine")
    for start, end in zip((0, *ts), ts):
        step(f"Figure 2: {data.name}, {end:,} rows")
        for model, losses in ((coarsen, curve.coarsen), (refine, curve.refine)):
            model.partial_fit(data.X[start:end], data.y[start:end])
            losses.append(-model.log_likelihood(data.X_holdout, data.y_holdout))
        if end <= kernel_rows:
            kernel = DoubleKernel().fit(data.X[:end], data.y[:end])
            curve.kernel.append(-float(kernel.logpdf(data.X_holdout, data.y_holdout).mean()))
        else:
            curve.kernel.append(None)
    return curve


def _claims(curves: dict[str, Curve]) -> list[Claim]:
    gauss, uniform, geyser = (curves[name] for name in ("Gaussian mixture", "Uniform mixture", "Geyser"))
    claims = [
        Claim(
            "Gaussian mixture: one would expect the kernel method to perform best; this is not the case.",
            gauss.both()[-1][1] <= gauss.both()[-1][2],
            _compared(gauss),
        ),
        Claim(
            "Uniform mixture: the kernel does almost as well as the cover method, though disadvantaged at first.",
            uniform.both()[0][2] > uniform.both()[0][1] and 0 <= uniform.both()[-1][2] - uniform.both()[-1][1] < _CLOSE,
            _compared(uniform),
        ),
        Claim(
            "Geyser: the kernel dominates the cover method, but the difference is quite small.",
            0 < geyser.both()[-1][1] - geyser.both()[-1][2] < _CLOSE,
            _compared(geyser),
        ),
    ]
    if "Robot" in curves:
        robot = curves["Robot"]
        first, last = robot.both()[0], robot.both()[-1]
        claims += [
            Claim("Robot: the kernel is bad at first.", first[2] > first[1], _compared(robot)),
            Claim(
                "Robot: the methods are more or less evenly matched.",
                abs(last[1] - last[2]) < 10 * _CLOSE,
                f"at {last[0]:,} rows ours is {last[2] - last[1]:.2f} nats below the kernel",
            ),
        ]
    return [*claims, _overall(curves)]


def _overall(curves: dict[str, Curve]) -> Claim:
    ends = {name: curve.both()[-1] for name, curve in curves.items()}
    better = [name for name, (_, ours, rival) in ends.items() if ours < rival]
    return Claim(
        "In most cases the cover method outperforms a bandwidth-tuned kernel estimator.",
        2 * len(better) > len(curves),
        f"at the most rows given to both, ours is better on {len(better)} of {len(curves)}: {', '.join(better)}",
    )


def _compared(curve: Curve) -> str:
    both = curve.both()
    ends = [both[0], both[-1]]
    said = "; ".join(f"t = {t:,}: ours {ours:.3f}, kernel {rival:.3f}" for t, ours, rival in ends)
    if curve.t[-1] > both[-1][0]:
        said += f"; t = {curve.t[-1]:,}: ours {curve.coarsen[-1]:.3f}"
    return said + (f"; truth {curve.truth:.3f}" if curve.truth is not None else "")


def _draw(curves: Sequence[Curve], path: Path) -> Path:
    fig, axes = figure(2, 2, 9.6, 6.8)
    for ax, curve in zip(axes.flat, curves):
        t, _, rival = zip(*curve.both())
        ax.plot(curve.t, curve.refine, color=TEAL, lw=1.4, marker="o", ms=2.5, label="refining walk")
        ax.plot(curve.t, curve.coarsen, color=BLUE, lw=2.0, marker="o", ms=3.5, label="coarsening walk (the paper's)")
        ax.plot(t, rival, color=ORANGE, lw=1.8, marker="s", ms=3, label="double kernel, 10-fold CV")
        if curve.truth is not None:
            ax.axhline(curve.truth, color=GREY, lw=1.2, ls=(0, (4, 3)), label="truth")
        known = [*curve.coarsen, *curve.refine, *rival, *([] if curve.truth is None else [curve.truth])]
        low, high = min(known), max(curve.coarsen[0], curve.refine[0])  # the kernel may fall from far above the frame
        ax.set(xscale="log", ylim=(low - 0.12 * (high - low), high + 0.18 * (high - low)))
        label(ax, "observations t", "holdout loss $L_t$ (nats)", curve.name)
    for ax in axes.flat[len(curves) :]:
        ax.set_visible(False)
    fig.savefig(path)
    return path
