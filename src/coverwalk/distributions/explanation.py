"""The components of one row's distribution as a table in plain words: similar contexts are grouped, one line each."""

from typing import Any, NamedTuple

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.distributions.calibrated import CalibratedDistribution
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.univariate import UnivariateDistribution
from coverwalk.files.schema import Whole

__all__ = ["Explanation", "Reason", "explanation_of"]

_NEGLIGIBLE = 0.005  # weight below which a reason has no line of its own
_BLOCKS = " ▁▂▃▄▅▆▇█"
_N_BINS = 24  # of a sketch, at most
_MAX_DWARFING = 100.0  # how much larger than a whole block the mass of a single value may be
_MIN_WIDTH = 12  # characters for the sketch of few bins, to hold the ends of the range above it


class Reason(NamedTuple):
    """A group of contexts that condition on the same features."""

    weight: float  # of all of them together
    n_contexts: int
    mean: float  # of their components
    std: float
    n_rows: float  # rows in such a context, on average by weight
    where: str  # what x has to be, in the units and names of the inputs; nothing for all rows
    sketch: str  # their density, in block characters over the range of the explanation

    @property
    def rows(self) -> str:
        """The rows that the prediction is based on."""
        if not self.n_rows:
            return self.where
        return f"about {self.n_rows:.0f} rows with {self.where}" if self.where else f"all {self.n_rows:.0f} rows"

    def __str__(self) -> str:
        return f"{self.weight:6.1%}  {self.mean:>9.4g} ± {self.std:<8.3g}  {self.sketch:<{_MIN_WIDTH}}  {self.rows}"


class Explanation(NamedTuple):
    """Why a distribution is what it is, the reasons with the largest weights first."""

    mean: float
    low: float  # of the 90 % interval
    high: float
    reasons: list[Reason]
    range: tuple[float, float]  # of the sketches

    @property
    def _shown(self) -> list[Reason]:
        return [reason for reason in self.reasons if reason.weight >= 0.0005]

    def __str__(self) -> str:
        head = f"mean {self.mean:.4g}, 90 % interval {self.low:.4g} to {self.high:.4g}, a mixture of:"
        half = max(len(self.reasons[0].sketch), _MIN_WIDTH) // 2
        scale = f"{self.range[0]:<{half}.3g}{self.range[1]:>{half}.3g}"
        return "\n".join([head, f"weight       mean ± std       {scale}  based on", *map(str, self._shown)])

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td>{r.weight:.1%}</td><td>{r.mean:.4g} ± {r.std:.3g}</td><td>{r.sketch}</td>"
            f"<td style='text-align:left'>{escape(r.rows)}</td></tr>"
            for r in self._shown
        )
        density = f"density from {self.range[0]:.3g} to {self.range[1]:.3g}"
        head = f"<tr><th>weight</th><th>mean ± std</th><th>{density}</th><th>based on</th></tr>"
        return (
            f"<p>mean {self.mean:.4g}, 90 % interval {self.low:.4g} to {self.high:.4g}, a mixture of:</p>"
            f"<table>{head}{rows}</table>"
        )


def explanation_of(dist: UnivariateDistribution, top: int = 8) -> Explanation:
    """The explanation of the distribution of one row; at most ``top`` lines, and one for the rest.

    Contexts of different trees never have the same bounds. Those that bound the same features from the same sides are
    one reason; the bounds shown are their averages by weight.
    """
    Whole(1).check("top", top)
    low, high = dist.interval(0.9)
    inner = dist.base if isinstance(dist, CalibratedDistribution) else dist
    assert isinstance(inner, PredictiveDistribution)
    groups: dict[Any, list[int]] = {}
    contexts = [inner.component(m).context for m in range(inner.components.weight.size)]
    for m, context in enumerate(contexts):
        groups.setdefault(_kind(context), []).append(m)
    weight = inner.components.weight
    ordered = sorted(groups.items(), key=lambda item: -weight[item[1]].sum())
    shown = [item for item in ordered[:top] if weight[item[1]].sum() >= _NEGLIGIBLE]
    bins, ends = _bins(inner)
    reasons = [_reason(kind, inner, members, contexts, bins) for kind, members in shown]
    if rest := [m for _, members in ordered[len(shown) :] for m in members]:
        reasons.append(_reason(("named", "other contexts"), inner, rest, contexts, bins))
    return Explanation(float(dist.mean()), float(low), float(high), reasons, ends)


def _bins(dist: PredictiveDistribution) -> tuple[Floats, tuple[float, float]]:
    """Edges of the bins of all sketches, and their range; on a grid of rounded y each bin has equally many values."""
    low, high = (float(end) for end in dist.ppf([0.01, 0.99]))
    if dist.rounding is not None and dist.rounding.step:
        step, n_values = dist.rounding.step, np.rint((high - low) / dist.rounding.step) + 1
        width = np.ceil(n_values / _N_BINS)
        n_bins = 2 * np.ceil(n_values / width / 2)  # even: the ends of the range are written above the halves
        return low + step * (width * np.arange(n_bins + 1) - 0.5), (low, low + step * (width * n_bins - 1))
    if low == high:
        low, high = low - max(abs(low), 1.0), high + max(abs(low), 1.0)
    return np.linspace(np.nextafter(low, -np.inf), high, _N_BINS + 1), (low, high)  # an atom at the low end counts


def _sketch(alone: PredictiveDistribution, bins: Floats) -> str:
    """The mass of each bin as a block, relative to the largest; single values do not dwarf what is continuous."""
    mass = np.diff(np.asarray(alone.cdf(bins[None, :])).ravel())
    most = mass.max()
    if alone.rounding is not None and len(atoms := alone.rounding.values):
        inside = (bins[0] < atoms) & (atoms <= bins[-1])
        single = np.zeros(len(mass))
        np.add.at(single, np.searchsorted(bins, atoms[inside]) - 1, np.ravel(alone.pmf(atoms[None, :]))[inside])
        most = max((mass - single).max(), most / _MAX_DWARFING)
    height = np.ceil(np.clip(mass / max(most, 1e-300), 0.0, 1.0) * (len(_BLOCKS) - 1))
    return "".join(_BLOCKS[int(h)] for h in height)


def _kind(context: Any) -> Any:
    """What makes two contexts similar: the features they bound, and from which sides; or what they are called."""
    if context is None:
        return ("named", "the prior for outliers")
    if not hasattr(context, "box"):
        return ("named", f"context {context}")
    if context.tree < 0:
        beside = ("a forest for single values", "a histogram of y over all rows", "a kernel density over all rows")
        return ("named", beside[context.tree])
    sides = []
    for name, side in context.box.items():
        fixed = tuple(side) if isinstance(side, list) else (side[0] > -np.inf, side[1] < np.inf)
        sides.append((name, fixed))
    return tuple(sorted(sides))


def _reason(kind: Any, dist: PredictiveDistribution, members: list[int], contexts: list[Any], bins: Floats) -> Reason:
    """What some components predict together: the moments of their mixture, and their contexts in words."""
    _, weight, loc, scale, shape = dist.components
    total = float(weight[members].sum())
    share = weight[members] / total if total > 0 else np.full(len(members), 1 / len(members))
    ends = np.array([0, len(members)])
    alone = PredictiveDistribution.trusted(
        type(dist.components)(ends, share, loc[members], scale[members], shape[members]), dist.shapes
    ).rounded(dist.rounding)
    sketch = _sketch(alone, bins)
    mean, std = float(alone.mean()[0]), float(alone.std()[0])
    if kind and kind[0] == "named":
        return Reason(total, len(members), mean, std, 0.0, kind[1], sketch)
    of = [contexts[m] for m in members]
    n_rows = float(share @ np.array([context.n_rows for context in of]))
    parts = [_words(name, [context.box[name] for context in of], share) for name, _ in kind]
    return Reason(total, len(members), mean, std, n_rows, " and ".join(parts), sketch)


def _words(name: str, sides: list[Any], share: Any) -> str:
    """One feature's condition."""
    if isinstance(sides[0], list):
        shown = ", ".join(sides[0][:4]) + (f" or {len(sides[0]) - 4} more" if len(sides[0]) > 4 else "")
        return f"{name} is {shown}" if len(sides[0]) == 1 else f"{name} is one of {shown}"
    low = share @ np.array([side[0] for side in sides]) if sides[0][0] > -np.inf else None
    high = share @ np.array([side[1] for side in sides]) if sides[0][1] < np.inf else None
    if low is None:
        return f"{name} at most {high:.3g}"
    return f"{name} above {low:.3g}" if high is None else f"{name} between {low:.3g} and {high:.3g}"
