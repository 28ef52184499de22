"""The components of one row's distribution as a table in plain words: alike contexts are grouped, one line each."""

from typing import Any, NamedTuple

import numpy as np

from coverwalk.distributions.calibrated import CalibratedDistribution
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.univariate import UnivariateDistribution

__all__ = ["Explanation", "Reason", "explanation_of"]

_NEGLIGIBLE = 0.005  # weight below which a reason is not told on its own


class Reason(NamedTuple):
    """A group of contexts that condition on the same features."""

    weight: float  # of all of them together
    n_contexts: int
    mean: float  # of their components
    std: float
    n_rows: float  # rows in such a context, on average by weight
    where: str  # what x has to be, in the units and names of the inputs

    def __str__(self) -> str:
        rows = f" (about {self.n_rows:.0f} rows)" if self.n_rows else ""
        return f"{self.weight:6.1%}  {self.mean:>9.4g} ± {self.std:<8.3g}  {self.where}{rows}"


class Explanation(NamedTuple):
    """Why a distribution is what it is, the heaviest reasons first."""

    mean: float
    low: float  # of the 90 % interval
    high: float
    reasons: list[Reason]

    def __str__(self) -> str:
        head = f"mean {self.mean:.4g}, 90 % interval {self.low:.4g} to {self.high:.4g}, because"
        return "\n".join([head, f"{'weight':>6}  {'prediction':>9}{'':>11}  where", *map(str, self.reasons)])

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td>{r.weight:.1%}</td><td>{r.mean:.4g} ± {r.std:.3g}</td><td>{escape(r.where)}</td>"
            f"<td>{r.n_rows:.0f}</td></tr>"
            for r in self.reasons
        )
        head = "<tr><th>weight</th><th>prediction</th><th>where</th><th>rows</th></tr>"
        return (
            f"<p>mean {self.mean:.4g}, 90 % interval {self.low:.4g} to {self.high:.4g}</p><table>{head}{rows}</table>"
        )


def explanation_of(dist: UnivariateDistribution, top: int = 8) -> Explanation:
    """The explanation of the distribution of one row; at most ``top`` lines, and one for the rest.

    Contexts of different trees never have the same bounds. Those that bound the same features from the same sides are
    one reason; the bounds shown are their averages by weight.
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top!r}")
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
    reasons = [_reason(kind, inner, members, contexts) for kind, members in shown]
    if rest := [m for _, members in ordered[len(shown) :] for m in members]:
        n = len(ordered) - len(shown)
        words = f"{n} further kind{'s' * (n > 1)} of contexts"
        reasons.append(_reason(("named", words), inner, rest, contexts))
    return Explanation(float(dist.mean()), float(low), float(high), reasons)


def _kind(context: Any) -> Any:
    """What makes two contexts alike: the features they bound, and from which sides; or what they are called."""
    if context is None:
        return ("named", "anything else: the prior for outliers")
    if not hasattr(context, "box"):
        return ("named", f"context {context}")
    if context.tree < 0:
        return ("named", "all rows, by kernels" if context.tree == -1 else "all rows, by cells of y")
    sides = []
    for name, side in context.box.items():
        fixed = tuple(side) if isinstance(side, list) else (side[0] > -np.inf, side[1] < np.inf)
        sides.append((name, fixed))
    return tuple(sorted(sides))


def _reason(kind: Any, dist: PredictiveDistribution, members: list[int], contexts: list[Any]) -> Reason:
    """What some components say together: the moments of their mixture, and their contexts in words."""
    _, weight, loc, scale, shape = dist.components
    total = float(weight[members].sum())
    share = weight[members] / total if total > 0 else np.full(len(members), 1 / len(members))
    ends = np.array([0, len(members)])
    alone = PredictiveDistribution.trusted(
        type(dist.components)(ends, share, loc[members], scale[members], shape[members]), dist.shapes
    )
    mean, std = float(alone.mean()[0]), float(alone.std()[0])
    if kind and kind[0] == "named":
        return Reason(total, len(members), mean, std, 0.0, kind[1])
    of = [contexts[m] for m in members]
    n_rows = float(share @ np.array([context.n_rows for context in of]))
    parts = [_words(name, [context.box[name] for context in of], share) for name, _ in kind]
    return Reason(total, len(members), mean, std, n_rows, " and ".join(parts) or "everywhere")


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
